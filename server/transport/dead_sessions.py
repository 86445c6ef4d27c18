"""Sessions that died with an earlier process: answered with 404 first, and served without a session then.

By the protocol, a client starts a new session after a 404. Clients that cannot repeat their dead session for ever; they
are served statelessly, which is all that a call needs.
"""

from __future__ import annotations

from collections import OrderedDict
from http import HTTPStatus

from starlette.types import Message, Scope, Send

MAX_DEAD_SESSIONS = 1_000
_SESSION = b"mcp-session-id"


class DeadSessions:
    """The ids of the sessions that were answered with 404, the latest ones."""

    def __init__(self) -> None:
        self._ids: OrderedDict[bytes, None] = OrderedDict()

    def names(self, scope: Scope) -> bool:
        """Whether a request is a call of a session that was told before that it is dead."""
        return scope["method"] == "POST" and _session_of(scope) in self._ids

    def watching(self, scope: Scope, send: Send) -> Send:
        """Return a `send` that notes the session of the request when it is answered with 404."""
        session = _session_of(scope)

        async def watch(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] == HTTPStatus.NOT_FOUND and session:
                self._ids[session] = None
                if len(self._ids) > MAX_DEAD_SESSIONS:
                    self._ids.popitem(last=False)
            await send(message)

        return watch


def _session_of(scope: Scope) -> bytes:
    return next((bytes(value) for name, value in scope["headers"] if name == _SESSION), b"")
