"""Signs of a client in its requests: it only looks at this server, or it stays."""

from __future__ import annotations

from duetime.scheduler.nodes.candidacy import Sign

_HANDSHAKE = frozenset({"initialize", "server/discover", "ping", "logging/setLevel"})
_LIST = "/list"
_NOTIFICATION = "notifications/"


def sign_of(method: str) -> Sign:
    """Return what the method of a request says of the client that sent it."""
    if method in _HANDSHAKE or method.startswith(_NOTIFICATION):
        return Sign.NONE
    return Sign.LISTED if method.endswith(_LIST) else Sign.CALLED
