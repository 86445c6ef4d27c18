"""Ownership of a namespace in Redis: two databases that share one would start and limit each other's runs.

Keys: `{<namespace>}:database` names the database whose runs the queue holds; `{<namespace>}:used` exists while one of
its processes works. Another database may take over an unused queue, so a database can move to another server.
"""

from __future__ import annotations

import redis
from duetime.scheduler.queue.port import QueueTaken
from duetime.scheduler.queue.redis.scripts import connect, translated

USE_MARK_TTL_S = 15
"""Seconds for which one check marks the queue as used."""


class NamespaceClaim:
    """Claims the queue of a namespace for a `database`, by a name that is unique to it."""

    def __init__(self, url: str, *, namespace: str, database: str) -> None:
        self._client: redis.Redis = connect(url)
        self._namespace = namespace
        self._database = database.encode()
        self._queue = f"{{{namespace}}}"

    def check(self) -> bool:
        """Return whether the queue belongs to another database that no longer uses it; changes nothing.

        Raises QueueTaken while processes of another database use it, and QueueUnavailable.
        """
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
        """Mark the queue as used by this database; a queue of another database is emptied and then lost.

        Raises as `check` does.
        """
        foreign = self.check()
        with translated(damaged=False), self._client.pipeline() as together:
            if foreign:
                together.delete(self._queue)
            together.set(f"{self._queue}:database", self._database)
            together.set(f"{self._queue}:used", b"", ex=USE_MARK_TTL_S)
            together.execute()

    def close(self) -> None:
        self._client.close()
