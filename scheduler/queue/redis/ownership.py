"""The owner of the queue in Redis: two installations that share a namespace would start and limit each other's runs.

Keys: `{<namespace>}:database` is the database whose runs the queue holds, `{<namespace>}:used` is there while a process
of it works. A queue that nobody uses any more is taken over: a database may move to another server.
"""

from __future__ import annotations

import redis
from duetime.scheduler.queue.port import QueueTaken
from duetime.scheduler.queue.redis.scripts import connect, translated

USED_FOR = 15
"""Seconds for which a look says that the queue is in use."""


class NamespaceClaim:
    """Claims the queue of a namespace for a `database`, by a name that no other database has."""

    def __init__(self, url: str, *, namespace: str, database: str) -> None:
        self._client: redis.Redis = connect(url)
        self._namespace = namespace
        self._database = database.encode()
        self._queue = f"{{{namespace}}}"

    def check(self) -> bool:
        """Return whether the queue is of another database, which uses it no more; changes nothing.

        Raises QueueTaken while processes of another database use it, and QueueUnavailable.
        """
        with translated():
            foreign = self._client.get(f"{self._queue}:database") not in (None, self._database)
            if foreign and self._client.exists(f"{self._queue}:used"):
                raise QueueTaken(
                    f"redis_namespace: the queue {self._namespace!r} in this Redis is in use by another database. "
                    "Give each installation a namespace of its own, for example "
                    f"DUETIME_REDIS_NAMESPACE={self._namespace}-staging"
                )
        return foreign

    def claim(self) -> None:
        """Say that this database uses the queue. What another one has left there is forgotten: the queue is lost then.

        Raises as `check` does.
        """
        foreign = self.check()
        with translated(), self._client.pipeline() as together:
            if foreign:
                together.delete(self._queue)
            together.set(f"{self._queue}:database", self._database)
            together.set(f"{self._queue}:used", b"", ex=USED_FOR)
            together.execute()

    def close(self) -> None:
        self._client.close()
