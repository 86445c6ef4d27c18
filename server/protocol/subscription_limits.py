"""Limits of subscriptions: known addresses only, and so many, as each is kept for as long as its client stays."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from duetime.widgets.cards import TASK_CARD, TASK_LIST
from mcp.shared.exceptions import MCPError
from mcp.types import INVALID_PARAMS

INBOX = "duetime://inbox"
TASK = "duetime://tasks/"
MAX_SESSION_ADDRESSES = 1_000
"""Since 2026-07-28 there are no sessions: of a stream."""

MAX_SERVER_ADDRESSES = 100_000
"""Over all sessions and streams together: some 30 MB."""

_FIXED = frozenset({INBOX, TASK_CARD, TASK_LIST})
_TASK_ADDRESS = re.compile(rf"{TASK}t_[0-9a-z]{{1,32}}")


class SubscriptionLimits:
    """The count of the addresses that each session and all sessions together hold."""

    def __init__(self) -> None:
        self._held: Counter[int] = Counter()
        self._total = 0

    @contextmanager
    def holding(self, session: int, uris: Collection[str]) -> Iterator[None]:
        """Count `uris` for the session while the block runs."""
        self.take(session, uris)
        try:
            yield
        finally:
            self.give_back(session, len(uris))

    def take(self, session: int, uris: Collection[str]) -> None:
        """Count `uris` for the session; refuses unknown addresses, and more of them than there is room for."""
        if not all(uri in _FIXED or _TASK_ADDRESS.fullmatch(uri) for uri in uris):
            raise _refusal(f"Subscriptions are to {INBOX} or {TASK}<task_id>, with the id as list_tasks gives it.")
        if self._held[session] + len(uris) > MAX_SESSION_ADDRESSES:
            raise _refusal(f"One session or stream subscribes to at most {MAX_SESSION_ADDRESSES} addresses.")
        if self._total + len(uris) > MAX_SERVER_ADDRESSES:
            raise _refusal(f"This server has {MAX_SERVER_ADDRESSES} subscriptions already. Try again later.")
        self._held[session] += len(uris)
        self._total += len(uris)

    def give_back(self, session: int, count: int = 1) -> None:
        """Stop counting addresses that `take` counted."""
        self._total -= count
        self._held[session] -= count
        if not self._held[session]:
            del self._held[session]


def _refusal(message: str) -> MCPError:
    return MCPError(code=INVALID_PARAMS, message=message)
