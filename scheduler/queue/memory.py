"""The dispatch queue of one process: heaps under one lock."""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from threading import Condition

from duetime.scheduler.queue.pools import ClassName, Pools, RunClass
from duetime.scheduler.queue.port import Cancelled, Entry, Explanation, Stats, Take


def wall_ms() -> float:
    return time.time() * 1000


@dataclass(slots=True)
class _Place:
    """Where one run stands: leased while `worker` is set; `again` waits for the lease to be finished."""

    entry: Entry
    delayed: bool = False
    worker: str | None = None
    leased_until: float = 0
    again: Entry | None = None


class MemoryQueue:
    """See `DispatchQueue`. `clock` returns milliseconds since 1970."""

    def __init__(self, clock: Callable[[], float] = wall_ms) -> None:
        self._clock = clock
        self._changed = Condition()
        self._generation = 0
        self._places: dict[str, _Place] = {}
        self._leased: set[str] = set()
        self._delayed: list[tuple[float, str]] = []
        self._classes: dict[ClassName, RunClass] = {}
        self._heads: list[tuple[float, str, RunClass]] = []
        self._pools = Pools()

    def put(self, entries: Sequence[Entry]) -> int:
        with self._changed:
            added = sum(self._add(entry) for entry in entries)
            if added:
                self._wake()
            return added

    def take(self, worker: str, n: int, lease: float) -> Take:
        with self._changed:
            now = self._clock()
            self._promote(now)
            granted: list[str] = []
            while len(granted) < n and (cls := self._best_class()) is not None:
                granted += self._look(cls, worker, now + lease)
            hint = max(0.0, self._delayed[0][0] - now) / 1000 if self._delayed else None
            return Take(tuple(granted), self._generation, hint)

    def wait(self, generation: int, timeout: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._generation != generation, timeout)

    def wake(self) -> None:
        with self._changed:
            self._wake()

    def renew(self, worker: str, run_ids: Sequence[str], lease: float) -> set[str]:
        with self._changed:
            until = self._clock() + lease
            held = {run_id: place for run_id in run_ids if (place := self._held(worker, run_id))}
            for place in held.values():
                place.leased_until = until
            return set(run_ids) - held.keys()

    def finish(self, worker: str, run_id: str) -> bool:
        with self._changed:
            place = self._held(worker, run_id)
            if place is None:
                return False
            self._end(run_id, place)
            return True

    def give_back(self, worker: str, run_id: str, *, not_before: float = 0) -> bool:
        with self._changed:
            place = self._held(worker, run_id)
            if place is None:
                return False
            self._end(run_id, replace(place, again=replace(place.entry, not_before=not_before)))
            return True

    def reap(self) -> list[str]:
        with self._changed:
            now = self._clock()
            expired = [run_id for run_id in self._leased if self._places[run_id].leased_until <= now]
            for run_id in expired:
                self._end(run_id, self._places[run_id])
            return expired

    def cancel(self, run_id: str) -> Cancelled:
        with self._changed:
            place = self._places.get(run_id)
            if place is None:
                return Cancelled.ABSENT
            if place.worker is not None:
                place.again = None
                return Cancelled.LEASED
            del self._places[run_id]
            self._head_changed(place.entry)
            return Cancelled.REMOVED

    def rescore(self, run_id: str, key: float) -> bool:
        with self._changed:
            place = self._places.get(run_id)
            if place is None or place.worker is not None:
                return False
            place.entry = replace(place.entry, key=key)
            if not place.delayed:
                self._enqueue(place.entry)
                self._head_changed(place.entry)
            return True

    def set_pool(self, name: str, capacity: int) -> None:
        with self._changed:
            self._offer(self._pools.resize(name, capacity))

    def stats(self) -> Stats:
        with self._changed:
            parked = sum(self._status(place) == "parked" for place in self._places.values())
            delayed = sum(place.delayed for place in self._places.values())
            waiting = len(self._places) - len(self._leased) - parked - delayed
            return Stats(waiting, delayed, parked, len(self._leased), self._pools.use())

    def explain(self, run_id: str) -> Explanation | None:
        with self._changed:
            place = self._places.get(run_id)
            if place is None:
                return None
            status = self._status(place)
            head = self._class_of(place.entry).head() if status == "parked" else None
            lacking = self._pools.short(head) if head else None
            if head is None or lacking is None:
                return Explanation(status)
            pool = self._pools[lacking]
            return Explanation(status, lacking, head.needs[lacking], pool.free, pool.capacity)

    # What follows expects the lock to be held.

    def _add(self, entry: Entry) -> bool:
        place = self._places.get(entry.run_id)
        if place is None:
            self._place(entry)
            return True
        if place.worker is not None:
            place.again = entry
        return False

    def _place(self, entry: Entry) -> None:
        delayed = entry.not_before > self._clock()
        self._places[entry.run_id] = _Place(entry, delayed=delayed)
        if delayed:
            heapq.heappush(self._delayed, (entry.not_before, entry.run_id))
        else:
            self._enqueue(entry)

    def _enqueue(self, entry: Entry) -> None:
        heap = self._class_of(entry).heap
        heapq.heappush(heap, (entry.key, entry.run_id))
        if heap[0] == (entry.key, entry.run_id):
            self._head_changed(entry)

    def _promote(self, now: float) -> None:
        while self._delayed and self._delayed[0][0] <= now:
            not_before, run_id = heapq.heappop(self._delayed)
            place = self._places.get(run_id)
            if place is not None and place.delayed and place.entry.not_before == not_before:
                place.delayed = False
                self._enqueue(place.entry)

    def _look(self, cls: RunClass, worker: str, until: float) -> list[str]:
        """Grant the head of a class, or park the class on the pool that its head lacks."""
        head = cls.head()
        assert head is not None
        lacking = self._pools.short(head)
        if lacking is not None:
            self._pools[lacking].park(cls, head, lacking)
        else:
            self._lease(head, worker, until)
            self._offer([cls], wake=False)
        self._offer(self._pools.woken(head.needs), wake=False)
        return [] if lacking is not None else [head.run_id]

    def _lease(self, entry: Entry, worker: str, until: float) -> None:
        self._pools.reserve(entry)
        place = self._places[entry.run_id]
        place.worker, place.leased_until = worker, until
        self._leased.add(entry.run_id)

    def _end(self, run_id: str, place: _Place) -> None:
        del self._places[run_id]
        self._leased.discard(run_id)
        self._offer(self._pools.release(place.entry))
        if place.again is not None:
            self._place(place.again)
            self._wake()

    def _held(self, worker: str, run_id: str) -> _Place | None:
        place = self._places.get(run_id)
        return place if place is not None and place.worker == worker else None

    def _best_class(self) -> RunClass | None:
        while self._heads:
            key, run_id, cls = self._heads[0]
            head = cls.head()
            if cls.parked_on is None and head is not None and (head.key, head.run_id) == (key, run_id):
                return cls
            heapq.heappop(self._heads)
        return None

    def _class_of(self, entry: Entry) -> RunClass:
        name = (entry.tier, tuple(sorted(entry.needs)))
        if name not in self._classes:
            self._classes[name] = RunClass(name, self._waiting_under)
        return self._classes[name]

    def _waiting_under(self, run_id: str, key: float) -> Entry | None:
        place = self._places.get(run_id)
        waits = place is not None and place.worker is None and not place.delayed and place.entry.key == key
        return place.entry if place is not None and waits else None

    def _head_changed(self, entry: Entry) -> None:
        cls = self._class_of(entry)
        cls.parked_on = None
        self._offer([cls])

    def _offer(self, classes: Iterable[RunClass], *, wake: bool = True) -> None:
        """Let the next take look at these classes; one without runs is forgotten."""
        offered = False
        for cls in classes:
            head = cls.head()
            if head is None:
                self._classes.pop(cls.name, None)
            else:
                heapq.heappush(self._heads, (head.key, head.run_id, cls))
                offered = True
        if offered and wake:
            self._wake()

    def _status(self, place: _Place) -> str:
        if place.worker is not None:
            return "leased"
        if place.delayed:
            return "delayed"
        return "waiting" if self._class_of(place.entry).parked_on is None else "parked"

    def _wake(self) -> None:
        self._generation += 1
        self._changed.notify_all()
