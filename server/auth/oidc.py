"""Logging people in by OpenID Connect: the authorization code flow with PKCE, at the issuer of access tokens.

The issuer answers with an ID token. It is verified as an access token is, and has to repeat the nonce of this very
login. Its claims name tenant, user and scopes as those of access tokens do.
"""

from __future__ import annotations

import hmac
import json
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode

import httpx2
from duetime.scheduler.errors import DuetimeError, InvalidArgument
from duetime.scheduler.principal import Principal
from duetime.server.auth.issuer_keys import ISSUER_ERRORS, IssuerUnavailable, address_of, fetched, issuer_metadata
from duetime.server.auth.oauth import OAuthProvider

if TYPE_CHECKING:
    from duetime.server.settings.model import Settings

RANDOM_BYTES: Final = 32
MAX_CODE_CHARS: Final = 4_096


class LoginRefused(DuetimeError):
    """The issuer did not say who somebody is, or said it for another login."""

    code = "login_refused"


@dataclass(frozen=True, slots=True)
class LoginAttempt:
    """A login that has begun: secrets that only its own browser brings back, and the page that follows it."""

    state: str
    nonce: str
    verifier: str
    after: str
    begun_at: int

    @classmethod
    def new(cls, after: str, begun_at: int) -> LoginAttempt:
        state, nonce, verifier = (secrets.token_urlsafe(RANDOM_BYTES) for _ in range(3))
        return cls(state, nonce, verifier, after, begun_at)

    @property
    def challenge(self) -> str:
        """The hash of the verifier, by which the issuer knows the one who began."""
        return urlsafe_b64encode(sha256(self.verifier.encode()).digest()).decode().rstrip("=")


@dataclass(frozen=True, slots=True)
class OidcClient:
    """This server at an issuer: its id and secret there, and the address to which people return."""

    issuer: str
    client_id: str
    client_secret: str | None
    returns_to: str
    scopes: tuple[str, ...]

    @classmethod
    def of(cls, settings: Settings, returns_to: str) -> OidcClient:
        secret = settings.oidc_client_secret.get_secret_value() if settings.oidc_client_secret else None
        scopes = tuple(dict.fromkeys(("openid", *settings.oidc_scopes)))
        return cls(settings.oauth_issuer or "", settings.oidc_client_id, secret, returns_to, scopes)


class OidcProvider:
    """Sends people to the issuer, and finds out who came back. `tokens` accepts tokens for the client alone."""

    def __init__(self, client: OidcClient, tokens: OAuthProvider) -> None:
        self._client = client
        self._tokens = tokens
        self._metadata: Mapping[str, Any] | None = None

    @property
    def issuer(self) -> str:
        return self._client.issuer

    def address(self, attempt: LoginAttempt) -> str:
        """Return the address at the issuer where somebody logs in. Raises IssuerUnavailable."""
        client = self._client
        parameters = {
            "response_type": "code",
            "client_id": client.client_id,
            "redirect_uri": client.returns_to,
            "scope": " ".join(client.scopes),
            "state": attempt.state,
            "nonce": attempt.nonce,
            "code_challenge": attempt.challenge,
            "code_challenge_method": "S256",
        }
        address = self._endpoint("authorization_endpoint")
        return f"{address}{'&' if '?' in address else '?'}{urlencode(parameters)}"

    def principal(self, code: str, attempt: LoginAttempt) -> Principal:
        """Return who logged in. Raises LoginRefused, and IssuerUnavailable when that cannot be found out."""
        claims = self._tokens.claims(self._id_token(code, attempt))
        if claims is None:
            raise LoginRefused("The provider's answer is not signed for this server, or it has expired.")
        nonce, party = claims.get("nonce"), claims.get("azp", self._client.client_id)
        if not isinstance(nonce, str) or not hmac.compare_digest(nonce.encode(), attempt.nonce.encode()):
            raise LoginRefused("The provider's answer is that of another login.")
        if party != self._client.client_id:
            raise LoginRefused("The provider's answer is for another server.")
        try:
            return self._tokens.principal(claims)
        except InvalidArgument as wrong:
            raise LoginRefused(f"The provider does not identify you: {wrong}") from None

    def _id_token(self, code: str, attempt: LoginAttempt) -> str:
        """Return the ID token for a code; the verifier proves that the one who began asks for it."""
        if not 0 < len(code) <= MAX_CODE_CHARS:
            raise LoginRefused("The provider sent no code.")
        client, endpoint = self._client, self._endpoint("token_endpoint")
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": client.returns_to,
            "code_verifier": attempt.verifier,
        }
        named = {} if client.client_secret else {"client_id": client.client_id}
        proof = {"auth": tuple(map(quote, (client.client_id, client.client_secret)))} if client.client_secret else {}
        try:
            return str(json.loads(fetched(endpoint, data={**form, **named}, **proof))["id_token"])
        except httpx2.HTTPStatusError as refused:
            if refused.response.status_code < HTTPStatus.INTERNAL_SERVER_ERROR:
                raise LoginRefused("The provider does not know this login, or it has expired.") from None
            raise self._unavailable() from None
        except ISSUER_ERRORS:
            raise self._unavailable() from None

    def _endpoint(self, name: str) -> str:
        """Return an address of the issuer, whose metadata is read once."""
        try:
            if self._metadata is None:
                self._metadata = issuer_metadata(self._client.issuer, fetched)
            if self._metadata is not None:
                return address_of(self._metadata, name, self._client.issuer)
        except ISSUER_ERRORS:
            pass
        raise self._unavailable()

    def _unavailable(self) -> IssuerUnavailable:
        return IssuerUnavailable(f"{self._client.issuer} does not answer as it should. Try again later.")
