"""The verifier of bearer tokens: one port, and a provider for each kind of token.

The form of a token decides which provider is asked, and no other is asked after it. A token that claims to be an API
key is never read as a signed one. An outage of one provider cannot be answered by the other.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.principal import LOCAL, Principal, Scope
from duetime.server.auth.call_limits import CallLimits
from duetime.tools.threads import cross
from mcp.server.auth.provider import AccessToken

MAX_TOKEN_CHARS = 8192

log = logging.getLogger(__name__)


class CallerToken(AccessToken):
    """A token that was verified: whose it is, and until when it holds. The token itself is not kept.

    `holds` checks that again, on a thread, for what outlives its call; it is equal for equal tokens.
    """

    principal: Principal
    holds: Callable[[], bool]

    @classmethod
    def of(
        cls, principal: Principal, provider: str, holds: Callable[[], bool], expires_at: int | None = None
    ) -> CallerToken:
        """Describe the caller. The SDK identifies the owner of a session by client, issuer and subject."""
        return cls(
            token="",  # nosec B106 # it goes no further than here
            client_id=principal.tenant,
            subject=principal.user,
            scopes=sorted(principal.scopes),
            expires_at=expires_at,
            claims={"iss": provider},
            principal=principal,
            holds=holds,
        )


class Provider(Protocol):
    """Verifies the tokens of one kind."""

    def knows(self, token: str) -> bool:
        """Whether the token has the form of this kind; reads nothing but the token."""

    def verify(self, token: str) -> CallerToken | None:
        """Return whose a token is, None for one that is wrong. Raises DuetimeError when that cannot be found out."""


class Verifier:
    """Verifies tokens by the providers that are configured; the SDK's `TokenVerifier`.

    With `workers`, tokens with the scope `worker` alone are let in too.
    """

    def __init__(
        self,
        providers: Sequence[Provider],
        limits: CallLimits,
        operator_tenant: str = LOCAL.tenant,
        *,
        workers: bool = False,
    ) -> None:
        self._providers = providers
        self._limits = limits
        self._operator_tenant = operator_tenant
        self._workers = workers

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return whose the token of a call is, as `identify` does.

        Counts the call; raises TooManyCalls when its tenant has made too many. The SDK lets in who has the scope
        `tasks`, so a worker's token has it for the SDK alone: methods and tools ask the principal.
        """
        found = await self.identify(token)
        if found is None:
            return None
        self._limits.take(found.principal.tenant)
        if self._workers and found.principal.may(Scope.WORKER):
            return found.model_copy(update={"scopes": sorted({*found.scopes, Scope.TASKS})})
        return found

    async def identify(self, token: str) -> CallerToken | None:
        """Return whose a token is, None for one that is forged, expired, revoked, or of no known kind.

        Counts no call: a login is none.
        """
        if len(token) > MAX_TOKEN_CHARS or not (token.isascii() and token.isprintable()):
            return None
        provider = next((each for each in self._providers if each.knows(token)), None)
        if provider is None:
            return None
        try:
            found = await cross(provider.verify, token)
        except InvalidArgument as wrong:  # a tenant or a user that is no name
            log.warning("refused a token: %s", wrong)
            return None
        if found is None or found.principal.tenant != self._operator_tenant:
            return found
        return found.model_copy(update={"principal": replace(found.principal, operator=True)})
