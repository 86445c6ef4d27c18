"""The REST API of a server, called by a verb: its answers are payloads, its problems are errors with an exit code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import quote, urlsplit

import httpx2
from duetime.scheduler.errors import DuetimeError, InvalidSetting
from duetime.server.cli.exit_codes import FAILED_CODE, NOT_FOUND_CODE, REFUSED_CODE, WRONG_USAGE_CODE
from duetime.server.settings.checks import is_loopback
from duetime.server.words.preference import COMMAND_PREFERENCE, PREFER_HEADER

if TYPE_CHECKING:
    import ssl

TIMEOUT_S: Final = 30.0
REMOTE_API_PATH: Final = "/v1"

_EXIT_CODES: Final[Mapping[int, int]] = {
    HTTPStatus.BAD_REQUEST: WRONG_USAGE_CODE,
    HTTPStatus.UNPROCESSABLE_ENTITY: WRONG_USAGE_CODE,
    HTTPStatus.NOT_FOUND: NOT_FOUND_CODE,
    HTTPStatus.UNAUTHORIZED: REFUSED_CODE,
    HTTPStatus.FORBIDDEN: REFUSED_CODE,
    HTTPStatus.CONFLICT: REFUSED_CODE,
    HTTPStatus.PRECONDITION_FAILED: REFUSED_CODE,
}
_WAYS: Final[Mapping[int, str]] = {
    HTTPStatus.UNAUTHORIZED: ". Give a key with --key or DUETIME_KEY.",
    HTTPStatus.FORBIDDEN: ", which this key lacks. `duetime keys create NAME --scope SCOPE` makes one that has it.",
}
"""The remedy that follows the words of the server, by its status."""

_LACKS_SCOPE: Final = "Required scope"
_WRONG_KEY: Final = (
    "The server does not know this key: it is wrong, revoked or expired. Give another one with --key or DUETIME_KEY."
)

_KEY_REUSED: Final = "idempotency_conflict"
_UNSENT: Final = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.ProxyError)
"""Problems that precede the request."""

_PERHAPS_DONE: Final = "It may have done what was asked: look before you repeat the command."

RemoteAnswer = dict[str, Any]


class RemoteProblem(DuetimeError):
    """The server refused a request, or did not answer; `exit_code` is that of the command."""

    def __init__(self, message: str, exit_code: int = FAILED_CODE) -> None:
        self.exit_code = exit_code
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class RemoteServer:
    """A server by its address, and the API key with which it is called.

    Raises InvalidSetting for an address that is none, and for one to which a key would travel in the clear.
    """

    url: str
    key: str | None = None
    timeout_s: float = TIMEOUT_S

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidSetting(
                f"--server: {self.url[:100]!r} is not the address of a server. Say --server https://duetime.example.com"
            )
        if self.key and parts.scheme == "http" and not is_loopback(parts.hostname):
            raise InvalidSetting(f"--server: a key is never sent over plain HTTP to {parts.hostname}. Use https.")

    def patiently(self, timeout_s: float) -> Self:
        """Return the server as one that may take so long to answer."""
        return replace(self, timeout_s=timeout_s)

    def get(self, path: str, **query: Any) -> RemoteAnswer:
        """Read; arguments that are None are left out."""
        return self._send("GET", path, {name: value for name, value in query.items() if value is not None})

    def post(self, path: str, body: Mapping[str, Any], **headers: str | None) -> RemoteAnswer:
        """Make a change."""
        return self.send("POST", path, body, **headers)

    def delete(self, path: str, **query: Any) -> RemoteAnswer:
        """Remove what the path names."""
        return self._send("DELETE", path, query)

    def send(self, method: str, path: str, body: Mapping[str, Any] | None, **headers: str | None) -> RemoteAnswer:
        """Make a change by a method; of `headers`, underscores are hyphens, and None leaves one out."""
        named = {name.replace("_", "-"): value for name, value in headers.items() if value is not None}
        return self._send(method, path, {}, body, named)

    def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any],
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> RemoteAnswer:
        usual = {PREFER_HEADER: COMMAND_PREFERENCE}
        if self.key:
            usual["Authorization"] = f"Bearer {self.key}"
        address = f"{self.url.rstrip('/')}{REMOTE_API_PATH}{quote(path)}"
        try:
            answer = httpx2.request(
                method,
                address,
                params=query,
                json=body,
                headers={**usual, **(headers or {})},
                timeout=self.timeout_s,
                verify=_tls(),
            )
        except (httpx2.HTTPError, ValueError) as error:
            raise self._strange(error, perhaps_done=not _is_unsent(method, error)) from None
        try:
            found = answer.json() if answer.content else {}
        except ValueError as error:
            raise self._strange(error, perhaps_done=method != "GET" and not answer.is_client_error) from None
        if answer.status_code >= HTTPStatus.BAD_REQUEST:
            raise _problem(answer.status_code, found, with_key=bool(self.key))
        if not answer.is_success or not isinstance(found, dict):
            raise RemoteProblem(
                f"{self.url} answered {answer.status_code}, which is not an answer of a Duetime server."
            )
        return found

    def _strange(self, error: Exception, *, perhaps_done: bool) -> RemoteProblem:
        """Return the problem of a server without an answer, or with one that is no JSON."""
        text = f"{self.url} does not answer as a Duetime server: {_said(error)}."
        return RemoteProblem(f"{text} {_PERHAPS_DONE}" if perhaps_done else text)


@cache
def _tls() -> ssl.SSLContext:
    """Return the context of all requests: reading the certificates takes 20 ms, and some verbs send many."""
    return httpx2.create_ssl_context()


def _problem(status: int, found: Any, *, with_key: bool) -> RemoteProblem:
    if not isinstance(found, dict):
        return RemoteProblem(f"the server answered {status}.")
    code = REFUSED_CODE if found.get("code") == _KEY_REUSED else _EXIT_CODES.get(status, FAILED_CODE)
    text = found.get("detail") or found.get("error_description") or f"the server answered {status}."
    if status == HTTPStatus.UNAUTHORIZED and with_key:
        return RemoteProblem(_WRONG_KEY, code)
    way = "." if status == HTTPStatus.FORBIDDEN and not text.startswith(_LACKS_SCOPE) else _WAYS.get(status, "")
    return RemoteProblem(f"{text.rstrip('.') if way else text}{way}", code)


def _is_unsent(method: str, error: Exception) -> bool:
    """Whether a request that failed so changed nothing for certain."""
    return method == "GET" or isinstance(error, _UNSENT)


def _said(error: Exception) -> str:
    return str(error).rstrip(".") or type(error).__name__
