"""Ownership of a namespace in Redis: two databases that share one would start and limit each other's runs.

Keys: `{<namespace>}:database` names the database whose runs the queue holds; `{<namespace>}:used` exists while one of
its processes works. Another database may take over an unused queue, so a database can move to another server.
`{<namespace>}:event` is the last id that an event of the database had. If that of the database is lower, it was
restored from a backup. The queue then counts use and runs that the database does not have, so it is emptied.
"""

from __future__ import annotations

from collections.abc import Callable

import redis
from duetime.scheduler.queue.port import QueueTaken
from duetime.scheduler.queue.redis.scripts import connect, translated

USE_MARK_TTL_S = 15
"""Seconds for which one check marks the queue as used."""


class NamespaceClaim:
    """Claims the queue of a namespace for a `database`, by a name that is unique to it; empty where none is known.

    `last_event` returns the last id that an event of the database had, None when the database is away.
    """

    def __init__(
        self, url: str, *, namespace: str, database: str, last_event: Callable[[], int | None] = lambda: None
    ) -> None:
        self._client: redis.Redis = connect(url)
        self._namespace = namespace
        self._database = database.encode()
        self._last_event = last_event
        self._queue = f"{{{namespace}}}"

    def check(self) -> bool:
        """Return whether the queue belongs to another database that no longer uses it; changes nothing.

        Raises QueueTaken while processes of another database use it, and QueueUnavailable.
        """
        if not self._database:
            return False
        with translated(damaged=False):
            foreign = self._client.get(f"{self._queue}:database") not in (None, self._database)
            if foreign and self._client.exists(f"{self._queue}:used"):
                raise QueueTaken(
                    f"redis_namespace: the queue {self._namespace!r} in this Redis is in use by another database. "
                    "Give each installation a namespace of its own, for example "
                    f"DUETIME_REDIS_NAMESPACE={self._namespace}-staging"
                )
        return foreign

    def claim(self) -> None:
        """Mark the queue as used by this database; one of another database, or of lost events, is emptied.

        Raises as `check` does.
        """
        foreign = self.check()
        known = self._known_event()
        last = self._last_event()  # after the question to Redis, so that it cannot be lower by a race
        with translated(damaged=False), self._client.pipeline() as together:
            if foreign or (last is not None and last < known):
                together.delete(self._queue)
            if self._database:
                together.set(f"{self._queue}:database", self._database)
                together.set(f"{self._queue}:used", b"", ex=USE_MARK_TTL_S)
            if last is not None:
                together.set(f"{self._queue}:event", last)
            together.execute()

    def _known_event(self) -> int:
        with translated(damaged=False):
            found = self._client.get(f"{self._queue}:event")
        return int(found) if isinstance(found, str | bytes) and found.isdigit() else 0

    def close(self) -> None:
        self._client.close()
