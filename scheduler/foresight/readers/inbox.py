"""The inbox of a user: unread outcomes, quiet ones, and deliveries that quiet hours hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from duetime.scheduler.errors import DuetimeError
from duetime.scheduler.intake.validation import MAX_TASKS_COUNTED, page_size
from duetime.scheduler.principal import LOCAL, Principal
from duetime.scheduler.store import Store
from duetime.scheduler.task import InboxMessage
from duetime.scheduler.views import HeldDeliveries

MESSAGE_ID_PREFIX: Final = "m_"
MAX_OUTCOMES_MENTIONED: Final = 5
"""Unread outcomes that a list mentions; the rest is counted."""


class OutcomeNotFound(DuetimeError):
    """No outcome of the caller, read or not, has the id."""

    code = "not_found"

    def __init__(self, message_id: str) -> None:
        super().__init__(
            f"no outcome {message_id[:40]!r}. The inbox has the ids of those that are unread.", argument="task_id"
        )


class InboxReader:
    """Reads the outcomes of the caller's tasks; `service.inbox` marks them as read."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def unread(self, *, limit: int = 20, of: str | None = None, by: Principal = LOCAL) -> Sequence[InboxMessage]:
        """Return outcomes that the user has not read yet, newest first: `of` a task, or those whose ids begin so.

        Each says until when quiet hours hold its deliveries. Raises OutcomeNotFound for the beginning of none, not even
        of one that was read.
        """
        return self.page(limit=limit, of=of, by=by)[0]

    def page(
        self, *, limit: int = 20, of: str | None = None, cursor: str | None = None, by: Principal = LOCAL
    ) -> tuple[Sequence[InboxMessage], str | None]:
        """Return unread outcomes as `unread` does, those behind a cursor, and the cursor of the next page."""
        found, following = self._store.inbox.page(by.tenant, by.user, limit=page_size(limit), of=of, cursor=cursor)
        if not found and of and of.startswith(MESSAGE_ID_PREFIX) and not self._store.inbox.has(by.tenant, by.user, of):
            raise OutcomeNotFound(of)
        held = self._store.deliveries.held_until(by.tenant, [each.run_id for each in found]) if found else {}
        return [replace(each, held_until=held.get(each.run_id)) for each in found], following

    def unread_count(self, *, by: Principal = LOCAL) -> int:
        """Return how many outcomes the user has not read yet, counted up to 1,000."""
        return self._missed(by)[1]

    def quiet_count(self, *, by: Principal = LOCAL) -> int:
        """Return how many outcomes of the last day were quiet, counted up to 1,000."""
        return self._store.inbox.quiet_count(by.tenant, by.user, most=MAX_TASKS_COUNTED)

    def held(self, *, by: Principal = LOCAL) -> HeldDeliveries:
        """Return how many deliveries to the user quiet hours hold, counted up to 1,000, and when the first one goes."""
        return HeldDeliveries(*self._store.deliveries.held(by.tenant, by.user, most=MAX_TASKS_COUNTED))

    def mentioned(self, by: Principal) -> dict[str, Any]:
        """Return the fields of a page that mention unread outcomes, quiet ones and held deliveries."""
        (unread, count), held = self._missed(by), self.held(by=by)
        left_out = {"quiet_count": self.quiet_count(by=by), "held_count": held.count, "held_until": held.until}
        return {"unread": tuple(unread), "unread_count": count, **left_out}

    def _missed(self, by: Principal) -> tuple[Sequence[InboxMessage], int]:
        return self._store.inbox.missed(by.tenant, by.user, limit=MAX_OUTCOMES_MENTIONED, most=MAX_TASKS_COUNTED)
