"""The provider of OAuth 2.1 access tokens: JSON Web Tokens that an authorization server has signed (RFC 9068)."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jwt
from duetime.scheduler.principal import Principal, Scope
from duetime.server.auth.issuer_keys import IssuerKeys
from duetime.server.auth.key_format import is_key
from duetime.server.auth.verifier import CallerToken
from jwt import PyJWTError

if TYPE_CHECKING:
    from duetime.server.settings.model import Settings

_SIGNED_TOKEN = re.compile(r"[^.]*\.[^.]*\.[^.]*")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TokenRules:
    """Requirements on a token, and the claims that name its principal."""

    issuer: str
    audience: str
    algorithms: tuple[str, ...] = ("RS256", "ES256")
    tenant_claim: str = "tenant"
    user_claim: str = "sub"
    scope_claim: str = "scope"
    leeway_s: int = 30

    @classmethod
    def of(cls, settings: Settings) -> TokenRules:
        return cls(
            settings.oauth_issuer or "",
            settings.oauth_audience or settings.resource,
            settings.oauth_algorithms,
            settings.oauth_tenant_claim,
            settings.oauth_user_claim,
            settings.oauth_scope_claim,
            settings.oauth_leeway_seconds,
        )


class OAuthProvider:
    """Accepts tokens of one issuer for this server alone."""

    def __init__(self, rules: TokenRules, keys: IssuerKeys) -> None:
        self._rules = rules
        self._keys = keys

    def knows(self, token: str) -> bool:
        return not is_key(token) and _SIGNED_TOKEN.fullmatch(token) is not None

    def verify(self, token: str) -> CallerToken | None:
        claims = self.claims(token)
        if claims is None:
            return None
        principal, expires_at = self.principal(claims), claims["exp"] + self._rules.leeway_s
        return CallerToken.of(principal, self._rules.issuer, NotExpired(expires_at), expires_at)

    def claims(self, token: str) -> Mapping[str, Any] | None:
        """Return what a token says, None for one that is wrong. Raises DuetimeError when that cannot be found out."""
        try:
            return self._claims(token)
        except (PyJWTError, ValueError, TypeError, ArithmeticError, RecursionError) as error:
            log.info("refused a token: %s", type(error).__name__)
            return None

    def principal(self, claims: Mapping[str, Any]) -> Principal:
        """Return the principal that claims name. Raises InvalidArgument for a tenant or a user that is no name."""
        rules = self._rules
        tenant, user = claims.get(rules.tenant_claim), claims.get(rules.user_claim)
        return Principal(tenant, user, _scopes(claims.get(rules.scope_claim)))  # type: ignore[arg-type]  # checks it

    def _claims(self, token: str) -> dict[str, Any]:
        """Return what a token says; raises PyJWTError or what a malformed one makes of the library."""
        header = jwt.get_unverified_header(token)
        algorithm, key_id = header.get("alg"), header.get("kid")
        if algorithm not in self._rules.algorithms or "crit" in header:
            raise jwt.InvalidAlgorithmError("not an accepted signature")
        key = self._keys.find(key_id)
        if key is None or key.algorithm not in {None, algorithm}:
            raise jwt.InvalidKeyError("no such key")
        found: dict[str, Any] = jwt.decode(
            token,
            key.key,
            algorithms=[algorithm],
            issuer=self._rules.issuer,
            audience=self._rules.audience,
            leeway=self._rules.leeway_s,
            options={"require": ["exp", "iss", "aud"]},
        )
        found["exp"] = int(found["exp"])
        return found


@dataclass(frozen=True, slots=True)
class NotExpired:
    """Checks again whether a token is not expired."""

    expires_at: int

    def __call__(self) -> bool:
        return time.time() <= self.expires_at


def _scopes(claim: object) -> frozenset[str]:
    """Return the scopes of Duetime in a claim; those of other services in it mean nothing here."""
    given = claim.split() if isinstance(claim, str) else claim if isinstance(claim, list) else []
    return frozenset(scope for scope in Scope if scope in given)
