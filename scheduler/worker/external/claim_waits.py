"""Calls of workers elsewhere that wait for a run: they are woken when one may start, and do not poll.

Calls that want the same runs form a queue, of which the first one alone looks. News wakes it: a change of a task of
its tenant, or the end of an attempt of any tenant, which may free a pool. A change in this process is read at once, one
of others by a look at the events, which serves all who wait. The events are followed from before the first look of a
call. The hint of its last look says when a run is due. Once it has claimed, the next one looks.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Final, Protocol

from duetime.scheduler.errors import StoreUnavailable
from duetime.scheduler.runtime.event_tail import EventLog, EventTail, TailPage
from duetime.scheduler.runtime.loop import Loop
from duetime.scheduler.task import State

EVENT_LOOK_INTERVAL_S: Final = 0.5
"""Seconds between looks at the events of other processes; runs enter the queue a second before they are due."""

MIN_READ_INTERVAL_S: Final = 0.05
"""Seconds between reads of what has changed in this process."""

ECHO_DELAY_S: Final = 0.3
"""Seconds after news at which a call looks once more: an event may precede the change of the queue.

And after a look that failed, which the next call makes up for.
"""

FALLBACK_LOOK_INTERVAL_S: Final = 5.0
"""Seconds between looks of a call that no news wakes."""

MAX_LOOKS_IN_A_ROW: Final = 5.0
MAX_LOOKS_PER_SECOND: Final = 20.0

MAX_CHANGES_BY_TENANT: Final = 500
"""Changed tasks whose tenants are read; more of them wake all calls."""


class TenantEvents(EventLog, Protocol):
    """The events of all tenants, and whose tasks these are."""

    def tenants(self, task_ids: Collection[str]) -> Mapping[str, str]: ...


@dataclass(frozen=True, slots=True)
class WantedRuns:
    """The runs that a call may claim: of some actions and of one tenant, of all for an operator (None)."""

    tenant: str | None
    actions: tuple[str, ...]


@dataclass(slots=True)
class _Group:
    """Calls that want the same runs, the first one first, and the times at which that one looks again."""

    looked_at: float
    calls: list[ClaimWait] = field(default_factory=list)
    news_at: float = math.inf
    echo_at: float = math.inf
    hint_at: float = math.inf
    credit: float = MAX_LOOKS_IN_A_ROW
    """Looks that may follow one another at once; it grows with time."""

    def next_look_at(self) -> float:
        due = min(self.news_at, self.echo_at, self.hint_at, self.looked_at + FALLBACK_LOOK_INTERVAL_S)
        return max(due, self.looked_at + max(0.0, 1 - self.credit) / MAX_LOOKS_PER_SECOND)

    def look(self, now: float) -> None:
        """Note a look that begins now; it serves all news until now."""
        earned = (now - self.looked_at) * MAX_LOOKS_PER_SECOND
        self.credit = min(self.credit + earned, MAX_LOOKS_IN_A_ROW) - 1
        self.looked_at, self.news_at, self.hint_at = now, math.inf, math.inf
        self.echo_at = math.inf if self.echo_at <= now else self.echo_at

    def note_news(self, now: float) -> None:
        """Note news: a run may start now."""
        self.news_at, self.echo_at = min(self.news_at, now), now + ECHO_DELAY_S

    def failed(self, now: float) -> None:
        """Note that the last look failed, and used up the news that it was to serve."""
        self.echo_at = min(self.echo_at, now + ECHO_DELAY_S)


class ClaimWait:
    """One call that waits; `wake`, which any thread may call, makes it ask again when it is to look."""

    def __init__(self, waits: ClaimWaits, group: _Group, wake: Callable[[], None]) -> None:
        self._waits = waits
        self._group = group
        self.wake = wake

    def seconds_left(self) -> float:
        """Return the seconds until this call is to look: 0 at once, infinitely many while another one comes first."""
        return self._waits.seconds_left(self, self._group)

    def begin_look(self) -> None:
        """Note that it looks now."""
        self._waits.begin_look(self, self._group)

    def follow(self) -> None:
        """Follow the events of other processes from here on: a look behind this misses none. May read the database."""
        self._waits.follow()


class ClaimWaits:
    """The calls of one process that wait. Thread-safe; its loop runs while there are any."""

    def __init__(self, events: TenantEvents, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._events = events
        self._tail = EventTail("claims", lambda: events, interval_s=EVENT_LOOK_INTERVAL_S, clock=clock)
        self._groups: dict[WantedRuns, _Group] = {}
        self._changed: set[str] = set()
        self._read_at = -math.inf
        self._lock = threading.Lock()
        self.loop = Loop("claims", self.step)

    @contextmanager
    def of(self, wanted: WantedRuns, wake: Callable[[], None]) -> Iterator[ClaimWait]:
        """Let a call wait while the block runs; where that fails, the next call looks instead."""
        with self._lock:
            group = self._groups.setdefault(wanted, _Group(self._clock()))
            call = ClaimWait(self, group, wake)
            group.calls.append(call)
        self.loop.wake()
        try:
            yield call
        except BaseException:
            self._leave(wanted, group, call, failed=True)
            raise
        else:
            self._leave(wanted, group, call)

    def _leave(self, wanted: WantedRuns, group: _Group, call: ClaimWait, *, failed: bool = False) -> None:
        with self._lock:
            was_first = group.calls[0] is call
            if was_first and failed:
                group.failed(self._clock())
            group.calls.remove(call)
            following = group.calls[0] if group.calls else None
            if following is None:
                del self._groups[wanted]
        if following is not None and was_first:
            following.wake()

    def touched(self, task_ids: Sequence[str]) -> None:
        """Wake the calls that a change of these tasks in this process concerns: the loop reads whose they are."""
        if not (self._groups and task_ids):
            return
        with self._lock:
            self._changed.update(task_ids)
        self.loop.wake()

    def expect(self, wanted: WantedRuns, hint: float | None, *, more: bool) -> None:
        """Note what a look found: `more` runs may be there, or time alone may let one start in `hint` seconds."""
        with self._lock:
            group = self._groups.get(wanted)
            if group is not None:
                now = self._clock()
                group.hint_at = now + hint if hint is not None else math.inf
                group.news_at = min(group.news_at, now) if more else group.news_at

    def seconds_left(self, call: ClaimWait, group: _Group) -> float:
        with self._lock:
            is_first = group.calls[0] is call
            return max(0.0, group.next_look_at() - self._clock()) if is_first else math.inf

    def begin_look(self, call: ClaimWait, group: _Group) -> None:
        with self._lock:
            if group.calls[0] is call:
                group.look(self._clock())

    def step(self) -> float | None:
        """Read what has changed while a call waits; return the seconds until the next read."""
        if self._has_ended():
            return None
        if self._tail.place is not None and (left := self._read_at + MIN_READ_INTERVAL_S - self._clock()) > 0:
            return left
        self._read_at = self._clock()
        with self._tail.survived():
            self._begin()
            page = self._tail.read()
            with self._tail.delivery(page), self._taken() as changed:
                self._wake(self._concerned(page, changed))
        return self._tail.seconds_left()

    def follow(self) -> None:
        """Begin behind the newest event, unless the events are followed already; the loop tries again in an outage."""
        with suppress(StoreUnavailable):
            self._begin()

    def _begin(self) -> None:
        if self._tail.place is not None:
            return
        newest = self._tail.newest()
        with self._lock:
            if self._tail.place is None:  # else another look has begun, further back
                self._tail.begin(newest)

    def _has_ended(self) -> bool:
        with self._lock:
            if not self._groups:
                self._tail.end()
                self._changed.clear()
            return not self._groups

    @contextmanager
    def _taken(self) -> Iterator[set[str]]:
        """Take the tasks that have changed in this process; they stay for the next step where the block fails."""
        with self._lock:
            changed, self._changed = self._changed, set()
        try:
            yield changed
        except BaseException:
            with self._lock:
                self._changed |= changed
            raise

    def _concerned(self, page: TailPage, changed: set[str]) -> Collection[str] | None:
        """Return the tenants whose calls may find a run now, None for all."""
        if len(changed) > MAX_CHANGES_BY_TENANT or any(each.from_state is State.RUNNING for each in page.events):
            return None
        tenant_of = {each.task_id: each.tenant for each in page.events}
        unknown = changed - tenant_of.keys()
        return {*tenant_of.values(), *(self._events.tenants(unknown).values() if unknown else ())}

    def _wake(self, tenants: Collection[str] | None) -> None:
        """Wake the first call of each group that wants runs of these tenants, or of any."""
        if tenants is not None and not tenants:
            return
        with self._lock:
            now, woken = self._clock(), []
            for wanted, group in self._groups.items():
                if tenants is None or wanted.tenant is None or wanted.tenant in tenants:
                    group.note_news(now)
                    woken.append(group.calls[0])
        for call in woken:
            call.wake()
