"""The guard of the HTTP server: what the SDK needs to refuse callers, and what it leaves out of its refusals."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING

from duetime.scheduler.errors import DuetimeError
from duetime.scheduler.principal import Scope
from duetime.scheduler.runtime.failure_log import RepeatFilter
from duetime.server.auth.access import RETRY_AFTER_S, required_text
from duetime.server.auth.api_keys import ApiKeyProvider
from duetime.server.auth.call_limits import CallLimits, TooManyCalls
from duetime.server.auth.verifier import Provider, Verifier
from duetime.server.settings.access import MCP_PATH
from mcp.server.auth.routes import build_resource_metadata_url
from mcp.server.auth.settings import AuthSettings
from pydantic import AnyHttpUrl, ConfigDict, TypeAdapter
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as AsgiScope

if TYPE_CHECKING:
    from duetime.scheduler.store import Store
    from duetime.server.settings.model import Settings

_CHALLENGE = b"www-authenticate"
_CODE = re.compile(rb'error="([^"]*)"')
_NOT_NOW = "Tokens cannot be verified now. Try again later."
_TWO_TOKENS = {"error": "invalid_request", "error_description": "One Authorization header is accepted, no more."}
_NO_ISSUER = "http://127.0.0.1"
"""Required by the SDK's model and used nowhere: API keys have no authorization server, so no metadata names one."""

_EXACT_URL: TypeAdapter[AnyHttpUrl] = TypeAdapter(AnyHttpUrl, config=ConfigDict(url_preserve_empty_path=True))
"""Adds no slash to an issuer without a path: clients compare it character by character with what the issuer says."""

log = logging.getLogger(__name__)
log.addFilter(RepeatFilter())


class GuardSettings(AuthSettings):
    """The settings of the SDK, which requires one scope, and the scopes of which one is `sufficient` for the tools."""

    sufficient: tuple[Scope, ...] = (Scope.TASKS,)


@dataclass(frozen=True, slots=True)
class Guard:
    """The providers of tokens, and the answers to callers without a right token."""

    verifier: Verifier
    settings: AuthSettings

    @classmethod
    def of(cls, settings: Settings, store: Callable[[], Store]) -> Guard | None:
        """Return the guard that the settings ask for, None where everyone is the local user."""
        if not settings.auth:
            return None
        limits = CallLimits(settings.tenant_calls_per_minute)
        workers = bool(settings.external_actions)
        verifier = Verifier(_providers(settings, store), limits, settings.operator_tenant, workers=workers)
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
    return GuardSettings(
        sufficient=(Scope.TASKS, Scope.WORKER) if settings.external_actions else (Scope.TASKS,),
        issuer_url=_EXACT_URL.validate_python(settings.oauth_issuer or _NO_ISSUER),
        resource_server_url=AnyHttpUrl(settings.resource) if metadata else None,
        required_scopes=[Scope.TASKS],
        validate_token_resource=False,  # the provider checks the audience, which may be another name of this server
    )


class Challenges:
    """An ASGI application that completes each challenge, and answers 503 while tokens cannot be verified.

    A challenge names the scope, and where there is one the metadata of RFC 9728. The SDK knows of one scope: its
    refusal then names each that would do. A request with two tokens is refused: it is not known whose it is. `refused`
    gets the code of each refusal that no operation of the REST API counts.
    """

    def __init__(
        self, app: ASGIApp, settings: AuthSettings, refused: Callable[[str], None] = lambda _code: None
    ) -> None:
        self._app = app
        self._refused = refused
        self._scopes = settings.sufficient if isinstance(settings, GuardSettings) else (Scope.TASKS,)
        self._named = {b"scope": Scope.TASKS.value}
        if settings.resource_server_url is not None:
            self._named[b"resource_metadata"] = str(build_resource_metadata_url(settings.resource_server_url))

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if sum(name == b"authorization" for name, _ in scope["headers"]) > 1:  # a proxy may have read the other one
            self._refused(_TWO_TOKENS["error"])
            await JSONResponse(_TWO_TOKENS, HTTPStatus.BAD_REQUEST)(scope, receive, send)
            return
        try:
            of_mcp = scope["path"] == MCP_PATH
            named = self._naming_scopes(send) if of_mcp and len(self._scopes) > 1 else send
            await self._app(scope, receive, self._completing(named, counted=of_mcp))
        except TooManyCalls as refused:
            self._refused(refused.code)
            await _too_many(refused)(scope, receive, send)
        except DuetimeError as error:
            log.warning("cannot verify a token: %s", error)
            headers = {"Retry-After": str(RETRY_AFTER_S)}
            await PlainTextResponse(_NOT_NOW, HTTPStatus.SERVICE_UNAVAILABLE, headers)(scope, receive, send)

    def _completing(self, send: Send, *, counted: bool) -> Send:
        async def send_complete(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = message["headers"]
                for code in _codes(headers) if counted else ():
                    self._refused(code)
                complete = [(name, self._complete(value) if name == _CHALLENGE else value) for name, value in headers]
                message = {**message, "headers": complete}
            await send(message)

        return send_complete

    def _naming_scopes(self, send: Send) -> Send:
        """Return what sends an answer on; a refusal for want of a scope names all that would do, in header and body."""
        one, all_of_them = (required_text(scopes).encode() + b'"' for scopes in ([Scope.TASKS], self._scopes))
        held: list[Message] = []

        async def send_named(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] == HTTPStatus.FORBIDDEN:
                held.append(message)
                return
            if held:
                begin, body = held.pop(), message.get("body", b"").replace(one, all_of_them)
                longer = len(body) - len(message.get("body", b""))
                headers = [
                    (name, _named(name, value, longer).replace(one, all_of_them)) for name, value in begin["headers"]
                ]
                await send({**begin, "headers": headers})
                message = {**message, "body": body}
            await send(message)

        return send_named

    def _complete(self, challenge: bytes) -> bytes:
        missing = [(name, value) for name, value in self._named.items() if name + b"=" not in challenge]
        return b", ".join([challenge, *(name + b'="' + value.encode() + b'"' for name, value in missing)])


def _named(name: bytes, value: bytes, longer: int) -> bytes:
    """Return the value of a header of an answer whose body is so much longer."""
    return str(int(value) + longer).encode() if name.lower() == b"content-length" else value


def _codes(headers: Iterable[tuple[bytes, bytes]]) -> list[str]:
    """Return the code of each challenge of an answer."""
    return [found[1].decode() for name, value in headers if name == _CHALLENGE and (found := _CODE.search(value))]


def _too_many(refused: TooManyCalls) -> JSONResponse:
    body = {"error": refused.code, "error_description": str(refused)}
    return JSONResponse(body, HTTPStatus.TOO_MANY_REQUESTS, {"Retry-After": str(refused.wait_s)})
