"""Changes of the inbox of a user: outcomes that are marked as read."""

from __future__ import annotations

from collections.abc import Sequence

from duetime.scheduler.foresight.readers.chain_reader import tasks_of
from duetime.scheduler.principal import LOCAL, Principal
from duetime.scheduler.store import Store


class InboxService:
    """Changes the inbox of a caller; `foresight.readers.inbox` reads it."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def mark_read(self, ids: Sequence[str] | None = None, *, task_id: str | None = None, by: Principal = LOCAL) -> int:
        """Mark messages as read: all, those with these `ids`, or all of a task or a chain.

        Returns how many were unread. Raises TaskNotFound for an unknown chain.
        """
        whose = [None] if task_id is None else tasks_of(self._store, by.tenant, task_id)
        return sum(self._store.inbox.mark_read(by.tenant, by.user, ids, task_id=each) for each in whose)
