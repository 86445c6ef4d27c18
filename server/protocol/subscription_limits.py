"""Limits of subscriptions: known addresses only, and so many, as each is kept for as long as its client stays."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from duetime.widgets.cards import TASK_CARD, TASK_LIST
from mcp.shared.exceptions import MCPError
from mcp.types import INVALID_PARAMS

INBOX_ADDRESS = "duetime://inbox"
TASK_ADDRESS = "duetime://tasks/"
MAX_SESSION_ADDRESSES = 1_000
"""Since 2026-07-28 there are no sessions: of a stream."""

MAX_SERVER_ADDRESSES = 100_000
"""Over all sessions and streams together: some 30 MB."""

MAX_TENANT_ADDRESSES = 20_000
"""Over all sessions and streams of one tenant, so that no tenant uses up those of the server."""

MAX_TENANT_STREAMS_COUNT = 200
"""Open streams of one tenant; the SDK serves 1,024 in all."""

_FIXED = frozenset({INBOX_ADDRESS, TASK_CARD, TASK_LIST})
_TASK_ADDRESS = re.compile(rf"{TASK_ADDRESS}[ct]_[0-9a-z]{{1,32}}")


class SubscriptionLimits:
    """The count of the addresses that each session, each tenant and all sessions together hold.

    Without a tenant everyone is the local user, whom the bounds of the server limit.
    """

    def __init__(self) -> None:
        self._held: Counter[int | str] = Counter()
        self._streams: Counter[str] = Counter()
        self._total = 0

    @contextmanager
    def holding(self, session: int, uris: Collection[str], tenant: str = "") -> Iterator[None]:
        """Count a stream of `uris` while the block runs."""
        if tenant and self._streams[tenant] >= MAX_TENANT_STREAMS_COUNT:
            raise _refusal(f"This tenant has {MAX_TENANT_STREAMS_COUNT} open streams already. Close one first.")
        self.take(session, uris, tenant)
        self._streams[tenant] += 1
        try:
            yield
        finally:
            self._streams[tenant] -= 1
            self._streams += Counter()  # without zeros
            self.give_back(session, len(uris), tenant)

    def take(self, session: int, uris: Collection[str], tenant: str = "") -> None:
        """Count `uris` for the session; refuses unknown addresses, and more of them than there is room for."""
        if not all(uri in _FIXED or _TASK_ADDRESS.fullmatch(uri) for uri in uris):
            raise _refusal(
                f"Subscriptions are to {INBOX_ADDRESS} or {TASK_ADDRESS}<task_id>, with the id as list_tasks gives it."
            )
        if self._held[session] + len(uris) > MAX_SESSION_ADDRESSES:
            raise _refusal(f"One session or stream subscribes to at most {MAX_SESSION_ADDRESSES} addresses.")
        if tenant and self._held[tenant] + len(uris) > MAX_TENANT_ADDRESSES:
            raise _refusal(f"This tenant has {MAX_TENANT_ADDRESSES} subscriptions already. End some first.")
        if self._total + len(uris) > MAX_SERVER_ADDRESSES:
            raise _refusal(f"This server has {MAX_SERVER_ADDRESSES} subscriptions already. Try again later.")
        for owner in (session, tenant):
            self._held[owner] += len(uris)
        self._total += len(uris)

    def give_back(self, session: int, count: int = 1, tenant: str = "") -> None:
        """Stop counting addresses that `take` counted."""
        self._total -= count
        for owner in (session, tenant):
            self._held[owner] -= count
            if not self._held[owner]:
                del self._held[owner]


def _refusal(message: str) -> MCPError:
    return MCPError(code=INVALID_PARAMS, message=message)
