"""The dispatch queue in Redis: Lua scripts decide, on the server's clock; any number of processes share one queue.

The keys are described in `lua/state/state.lua`. The Lua repeats the arithmetic of `rules`; a random walk compares its
replies with those of the queue in memory, one by one. Works with Redis 6.2, Valkey 7.2 and later.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import TypeVar

import redis
from duetime.scheduler.queue.constants import REBUILD_TURN_MS
from duetime.scheduler.queue.lanes import KnownActions
from duetime.scheduler.queue.port import Cancelled, Entry, Finish, QueueChange, Take
from duetime.scheduler.queue.redis import scripts, wakeup
from duetime.scheduler.queue.redis.codec import (
    actions_word,
    class_of,
    entry_words,
    explanation_of,
    finish_words,
    grants_of,
    look_of,
    stats_of,
    threads_of,
    threads_words,
    with_headroom,
    written_action,
)
from duetime.scheduler.queue.redis.scripts import Scripts, translated
from duetime.scheduler.queue.redis.source import fields_of
from duetime.scheduler.queue.reports import Explanation, Stats, ThreadUse
from duetime.scheduler.rules.limits.admission import Limits
from duetime.scheduler.rules.shares import TIER_COUNT, Shares

MAX_ENTRIES_PER_SCRIPT = 500
"""Entries per script call: it blocks Redis for about 5 ms."""

MAX_KEYS_PER_SWEEP = 1000
"""Keys that one step of a sweep scans."""

_NAMESPACE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,99}")

T = TypeVar("T")


class RedisQueue:
    """See `DispatchQueue`. All keys begin with `{namespace}`: processes with the same namespace share one queue.

    Takes a URL (`redis://`, `rediss://`, `unix://`), or a client that may block. It connects with the first call.
    `clock`, milliseconds since 1970, is for tests: by default the server's time counts.
    """

    def __init__(
        self,
        url_or_client: str | redis.Redis,
        *,
        namespace: str = "duetime",
        clock: Callable[[], float] | None = None,
    ) -> None:
        if not _NAMESPACE.fullmatch(namespace):
            raise ValueError(
                f"namespace is {namespace!r}, but takes letters, digits and . _ : - only, "
                'up to 100 of them, for example "duetime-test"'
            )
        if isinstance(url_or_client, str):
            self._client, self._blocking = scripts.connect(url_or_client), wakeup.connect(url_or_client)
        else:
            self._client = self._blocking = url_or_client
        self._key = f"{{{namespace}}}"
        self._scripts = Scripts(self._client, self._key, clock)
        self._wakeup = wakeup.WakeupToken(self._blocking, self._key)

    def put(self, entries: Sequence[Entry]) -> int:
        return sum(
            self._scripts.call("put", *chain.from_iterable(map(entry_words, batch))) for batch in _batches(entries)
        )

    def take(
        self,
        worker: str,
        n: int,
        lease: float,
        *,
        nonce: str = "",
        threads: ThreadUse | None = None,
        after: QueueChange | None = None,
        actions: KnownActions = None,
        record: bool = False,
    ) -> Take:
        known = actions_word(actions)
        words: Sequence[str | float] = (worker, n, lease, nonce, known, int(record), *threads_words(threads))
        if (
            after is not None
            and (taken := self._taken_after(after, words if nonce else None, actions or ())) is not None
        ):
            return with_headroom(taken, threads)
        generation = self._wakeup.generation
        run = self._scripts.ask if nonce else self._scripts.call
        return with_headroom(_take_of(run("take", *words), generation), threads)

    def _taken_after(
        self, change: QueueChange, words: Sequence[str | float] | None, actions: Collection[str]
    ) -> Take | None:
        """Take in one round trip with the wait; None when the take is still to be done."""
        if words is None:
            self.wait(change.generation, change.timeout, actions=actions)
            return None
        command = self._scripts.command("take", *words)
        following = self._wakeup.wait_and_run(change.generation, change.timeout, command, _lanes(actions))
        if following is None:
            return None
        return replace(_take_of(following.reply, following.generation), asked_at=following.asked_at)

    def assign_preemptors(
        self,
        worker: str,
        n: int,
        tiers: tuple[int, int],
        notice: float,
        *,
        threads: ThreadUse | None = None,
        actions: KnownActions = None,
    ) -> tuple[int, ...]:
        known = actions_word(actions)
        return tuple(self._scripts.call("assign_preemptors", worker, n, *tiers, notice, known, *threads_words(threads)))

    def runs_to_preempt(self, willing: Sequence[str], notice: float) -> tuple[str, ...]:
        return tuple(self._scripts.call("runs_to_preempt", notice, *willing))

    def wait(self, generation: int, timeout: float, *, tier: int = TIER_COUNT, actions: Collection[str] = ()) -> None:
        self._wakeup.wait(generation, timeout, tier, _lanes(actions))

    def wake(self) -> None:
        self._wakeup.wake()

    def renew(self, worker: str, tokens: Mapping[str, str], lease: float) -> set[str]:  # noqa: ARG002 - the token proves it
        batches = _batches(list(tokens.items()))
        lost = [self._scripts.ask("renew", lease, *chain.from_iterable(batch)) for batch in batches]
        return set(chain.from_iterable(lost))

    def finish(self, worker: str, ended: Sequence[Finish], *, jitter: float = 0.0) -> set[str]:  # noqa: ARG002 - the token proves it
        batches = (chain.from_iterable(map(finish_words, batch)) for batch in _batches(ended))
        lost = [self._scripts.call("finish", jitter, *batch) for batch in batches]
        return set(chain.from_iterable(lost))

    def give_back(self, worker: str, run_id: str, token: str, *, delay: float = 0) -> bool:  # noqa: ARG002 - the token proves it
        return bool(self._scripts.call("give_back", run_id, token, delay))

    def reap(self) -> list[str]:
        return list(self._scripts.call("reap"))

    def cancel(self, run_id: str) -> Cancelled:
        return Cancelled(self._scripts.call("cancel", run_id))

    def rescore(self, run_id: str, key: float) -> bool:
        return bool(self._scripts.ask("rescore", run_id, key))

    def set_pool(self, name: str, limits: Limits | None, *, spent: float = 0.0, empty: bool = False) -> None:
        given = json.dumps(fields_of(limits)) if limits else ""
        cursor = self._scripts.ask("set_pool", name, given, spent, int(empty), "0")
        while cursor != "0":
            cursor = self._scripts.ask("set_pool", name, given, spent, int(empty), cursor)

    def set_shares(self, shares: Shares, version: int) -> None:
        self._scripts.ask("set_shares", version, *shares.guaranteed, *shares.ceilings)

    def stats(self) -> Stats:
        return stats_of(self._pages("parked"), self._pages("pools"), threads_of(self._scripts.ask("known_threads")))

    def explain(self, run_id: str) -> Explanation | None:
        return explanation_of(self._scripts.ask("explain", run_id))

    def begin_rebuild(self, owner: str, *, damage: str = "") -> bool:
        before, fill = self._scripts.ask("begin_rebuild", owner, REBUILD_TURN_MS, damage)
        if before:
            self._sweep(fill)
        return bool(fill)

    def adopt(self, worker: str, entry: Entry, token: str, lease: float) -> bool:
        words = (worker, entry.run_id, class_of(entry), entry.key, entry.created, token, lease)
        return bool(self._scripts.call("adopt", *words))

    def end_rebuild(self, owner: str) -> bool:
        return bool(self._scripts.call("end_rebuild", owner))

    def last_damage(self) -> tuple[float, str] | None:
        """Return when and why the queue was last emptied because it was damaged, in milliseconds since 1970."""
        with translated(damaged=False):
            found = self._client.get(f"{self._key}:damage")
        if not isinstance(found, str | bytes):
            return None
        at, why = json.loads(found)
        return float(at), str(why)

    def close(self) -> None:
        """End all waits and close the connections; a later call opens them again."""
        self._wakeup.close()
        self._client.close()
        self._blocking.close()

    def _pages(self, part: str) -> Iterator[list[str]]:
        cursor = "0"
        while True:
            cursor, *page = self._scripts.ask("stats", part, cursor)
            yield page
            if cursor == "0":
                return

    def _sweep(self, fill: str) -> None:
        """Delete the keys of earlier fills, which no process reads. A later fill is that of a takeover."""
        cursor = 0
        while True:
            with translated():
                cursor, keys = self._client.scan(cursor, match=f"{self._key}:*", count=MAX_KEYS_PER_SWEEP)
                names = [key.decode() if isinstance(key, bytes) else key for key in keys]
                old = [name for name in names if _fill_of(name, self._key) < int(fill)]
                if old:
                    self._client.unlink(*old)
            if not cursor:
                return


def _take_of(reply: str | bytes, generation: int) -> Take:
    hint, *grants = json.loads(reply)
    looks = grants.pop() if grants and isinstance(grants[-1], list) else ()
    return Take(grants_of(grants), generation, float(hint) if hint else None, looks=tuple(map(look_of, looks)))


def _lanes(actions: Collection[str]) -> list[str]:
    return [f"@{written_action(action)}" for action in actions]


def _fill_of(name: str, key: str) -> float:
    """Return the fill number of a key, infinity when it has none."""
    number = name[len(key) + 1 :].partition(":")[0]
    return int(number) if number.isdecimal() else math.inf


def _batches(items: Sequence[T]) -> Iterator[Sequence[T]]:
    return (items[start : start + MAX_ENTRIES_PER_SCRIPT] for start in range(0, len(items), MAX_ENTRIES_PER_SCRIPT))
