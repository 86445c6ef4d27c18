"""The guard of the HTTP server: what the SDK needs to refuse callers, and what it leaves out of its refusals."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING

from duetime.scheduler.errors import DuetimeError
from duetime.scheduler.principal import Scope
from duetime.server.auth.api_keys import ApiKeyProvider
from duetime.server.auth.call_limits import CallLimits, TooManyCalls
from duetime.server.auth.verifier import Provider, Verifier
from mcp.server.auth.settings import AuthSettings
from pydantic import AnyHttpUrl
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as AsgiScope

if TYPE_CHECKING:
    from collections.abc import Callable

    from duetime.scheduler.store import Store
    from duetime.server.settings.model import Settings

_CHALLENGE = b"www-authenticate"
_SCOPE_OF_MCP = f', scope="{Scope.TASKS}"'.encode()
_NOT_NOW = "Tokens cannot be verified now. Try again later."
_TWO_TOKENS = {"error": "invalid_request", "error_description": "One Authorization header is accepted, no more."}
_NO_ISSUER = "http://127.0.0.1"
"""Required by the SDK's model and used nowhere: API keys have no authorization server, so no metadata names one."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Guard:
    """The providers of tokens, and what callers without a right token are told."""

    verifier: Verifier
    settings: AuthSettings

    @classmethod
    def of(cls, settings: Settings, store: Callable[[], Store]) -> Guard | None:
        """Return the guard that the settings ask for, None where everyone is the local user."""
        if not settings.auth:
            return None
        limits = CallLimits(settings.tenant_calls_per_minute)
        verifier = Verifier(_providers(settings, store), limits, settings.operator_tenant)
        return cls(verifier, _auth_settings(settings))


def _providers(settings: Settings, store: Callable[[], Store]) -> Sequence[Provider]:
    found: list[Provider] = []
    if "keys" in settings.auth:
        found.append(ApiKeyProvider(lambda: store().api_keys, lambda: store().now()))
    if "oauth" in settings.auth:
        found.append(_oauth(settings))
    return found


def _oauth(settings: Settings) -> Provider:
    from duetime.server.auth.issuer_keys import IssuerKeys  # noqa: PLC0415 - cryptography, only where it is used
    from duetime.server.auth.oauth import OAuthProvider, TokenRules  # noqa: PLC0415 - as above

    issuer, refetch_s = settings.oauth_issuer or "", settings.oauth_refetch_seconds
    return OAuthProvider(TokenRules.of(settings), IssuerKeys(issuer, settings.oauth_jwks_url, refetch_s=refetch_s))


def _auth_settings(settings: Settings) -> AuthSettings:
    metadata = "oauth" in settings.auth
    return AuthSettings(
        issuer_url=AnyHttpUrl(settings.oauth_issuer or _NO_ISSUER),
        resource_server_url=AnyHttpUrl(settings.resource) if metadata else None,
        required_scopes=[Scope.TASKS],
        validate_token_resource=False,  # the provider checks the audience, which may be another name of this server
    )


class Challenges:
    """An ASGI application that names the scope in each challenge, and answers 503 while tokens cannot be verified.

    A request with two tokens is refused: it is not known whose it is.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if sum(name == b"authorization" for name, _ in scope["headers"]) > 1:  # a proxy may have read the other one
            await JSONResponse(_TWO_TOKENS, HTTPStatus.BAD_REQUEST)(scope, receive, send)
            return
        try:
            await self._app(scope, receive, _naming_the_scope(send))
        except TooManyCalls as refused:
            await _too_many(refused)(scope, receive, send)
        except DuetimeError as error:
            log.warning("cannot verify a token: %s", error)
            await PlainTextResponse(_NOT_NOW, HTTPStatus.SERVICE_UNAVAILABLE)(scope, receive, send)


def _too_many(refused: TooManyCalls) -> JSONResponse:
    body = {"error": refused.code, "error_description": str(refused)}
    return JSONResponse(body, HTTPStatus.TOO_MANY_REQUESTS, {"Retry-After": str(refused.wait_s)})


def _naming_the_scope(send: Send) -> Send:
    async def send_named(message: Message) -> None:
        if message["type"] == "http.response.start":
            named = [
                (name, value + _SCOPE_OF_MCP if name == _CHALLENGE and b"scope=" not in value else value)
                for name, value in message["headers"]
            ]
            message = {**message, "headers": named}
        await send(message)

    return send_named
