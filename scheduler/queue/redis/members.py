"""Members: the processes that share the queue of a namespace, each with the ids of its secret keys.

Key: `{<namespace>}:members`, a sorted set of names with these ids, by when each was last seen (seconds of the server's
clock). A worker has a row in the database as well; a server has none.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import redis
from duetime.scheduler.queue.port import QueueUnavailable
from duetime.scheduler.queue.redis.scripts import connect, translated

MEMBER_ALIVE_S = 15
"""Seconds without a report after which a member counts as gone: three of its reports."""


class NamespaceMembers:
    """The members of a namespace. Every method raises QueueUnavailable, except `leave`."""

    def __init__(self, url: str, *, namespace: str) -> None:
        self._client: redis.Redis = connect(url)
        self._key = f"{{{namespace}}}:members"
        self._reported = False

    def report(self, name: str, key_ids: Sequence[str]) -> None:
        """Record that a member is there, and forget those that are gone."""
        self._reported = False
        with translated(damaged=False):
            now, _ = self._client.time()
            with self._client.pipeline() as together:
                together.zadd(self._key, {_entry(name, key_ids): now})
                together.zremrangebyscore(self._key, "-inf", now - MEMBER_ALIVE_S)
                together.execute()
        self._reported = True

    def leave(self, name: str, key_ids: Sequence[str]) -> None:
        """Forget a member that stops in order, unless its last report failed: it is forgotten without this as well."""
        if not self._reported:
            return
        with suppress(QueueUnavailable), translated(damaged=False):
            self._client.zrem(self._key, _entry(name, key_ids))

    def alive(self) -> Mapping[str, tuple[str, ...]]:
        """Return the members that are there, with the ids of their secret keys."""
        with translated(damaged=False):
            now, _ = self._client.time()
            found: Any = self._client.zrangebyscore(self._key, now - MEMBER_ALIVE_S, "+inf")
        with suppress(ValueError, TypeError):  # of something else that writes to the key
            return {str(name): tuple(key_ids) for name, *key_ids in map(json.loads, found)}
        return {}

    def close(self) -> None:
        self._client.close()


def _entry(name: str, key_ids: Sequence[str]) -> str:
    return json.dumps([name, *key_ids])
