"""The reply to a request, or why there is none: all that a sender handles without the client itself."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from duetime.scheduler.errors import DuetimeError

PASSING_STATUSES = frozenset({408, 425, 429})
"""Statuses below 500 after which the same request may succeed later."""

Resolver = Callable[[str, int], Sequence[str]]


class SendError(DuetimeError):
    """A request without an answer."""


class Unreachable(SendError):
    """No answer, for a reason that may pass: name, connection, certificate, time."""


class Blocked(SendError):
    """The guard refused the request; a retry would not help."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer; header names are in lower case, and `body` is cut at the bound of the client."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def system_resolver(host: str, port: int) -> Sequence[str]:
    """Resolve a name by the system; raises `OSError` without an address."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))
