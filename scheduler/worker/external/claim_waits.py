"""Calls of workers elsewhere that wait for a run: they are woken when one may start, and do not poll.

Calls that want the same runs form a queue, of which the first one alone looks. News wakes it: a change of this process
at once, one of others by a look at the events, which serves all who wait. The hint of its last look says when a run is
due. Once it has claimed, the next one looks.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from duetime.scheduler.runtime.event_tail import EventLog, EventTail
from duetime.scheduler.runtime.loop import Loop

EVENT_LOOK_INTERVAL_S: Final = 0.5
"""Seconds between looks at the events of other processes; runs enter the queue a second before they are due."""

ECHO_DELAY_S: Final = 0.3
"""Seconds after news at which a call looks once more: an event may precede the change of the queue."""

FALLBACK_LOOK_INTERVAL_S: Final = 5.0
"""Seconds between looks of a call that no news wakes."""

MAX_LOOKS_IN_A_ROW: Final = 5.0
MAX_LOOKS_PER_SECOND: Final = 20.0


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


class ClaimWaits:
    """The calls of one process that wait. Thread-safe; its loop runs while there are any."""

    def __init__(self, events: EventLog, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._tail = EventTail("claims", lambda: events, interval_s=EVENT_LOOK_INTERVAL_S, clock=clock)
        self._groups: dict[WantedRuns, _Group] = {}
        self._lock = threading.Lock()
        self.loop = Loop("claims", self.step)

    @contextmanager
    def of(self, wanted: WantedRuns, wake: Callable[[], None]) -> Iterator[ClaimWait]:
        """Let a call wait while the block runs."""
        with self._lock:
            group = self._groups.setdefault(wanted, _Group(self._clock()))
            call = ClaimWait(self, group, wake)
            group.calls.append(call)
        self.loop.wake()
        try:
            yield call
        finally:
            self._leave(wanted, group, call)

    def _leave(self, wanted: WantedRuns, group: _Group, call: ClaimWait) -> None:
        with self._lock:
            was_first = group.calls[0] is call
            group.calls.remove(call)
            following = group.calls[0] if group.calls else None
            if following is None:
                del self._groups[wanted]
        if following is not None and was_first:
            following.wake()

    def touched(self, task_ids: Sequence[str]) -> None:
        """Wake the first call of each group as these tasks have changed: a run may start now."""
        if not (self._groups and task_ids):
            return
        with self._lock:
            now, woken = self._clock(), []
            for group in self._groups.values():
                group.news_at, group.echo_at = min(group.news_at, now), now + ECHO_DELAY_S
                woken.append(group.calls[0])
        for call in woken:
            call.wake()

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
        """Look at the events of other processes while a call waits; return the seconds until the next look."""
        if not self._groups:
            self._tail.end()
            return None
        with self._tail.survived():
            if self._tail.place is None:
                self._tail.begin(self._tail.newest())
            page = self._tail.read()
            with self._tail.delivery(page):
                self.touched([event.task_id for event in page.events])
        return self._tail.seconds_left()
