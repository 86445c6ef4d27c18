"""The watch of the events looks while somebody listens, survives every failure, and loses no wake-up."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import pytest
from duetime.scheduler.errors import StoreUnavailable
from duetime.scheduler.events import Event
from duetime.scheduler.runtime.event_tail import LOOK_INTERVAL_S, EventTail
from duetime.server.runtime.event_watch import EventWatch, pause_until

from tests.contracts.event_log import Log

pytestmark = pytest.mark.anyio

PATIENCE_S = 60.0
DEFECT = RuntimeError("defect")
OUTAGE = StoreUnavailable("away")


class Watched:
    """A watch whose pauses end when the test says so: each is kept as its length and whether it was woken before."""

    def __init__(self, log: Log, *failures: Exception | None) -> None:
        self.log = log
        self.failures = list(failures)
        self.told: list[list[int]] = []
        self.pauses: list[tuple[float | None, bool]] = []
        self.wanted = True
        self.tail = EventTail("watch", lambda: log, clock=lambda: 0.0)
        self.watch = EventWatch(self.tail, self.deliver, is_followed=lambda: self.wanted, pause=self._pause)
        self._paused, self._over = asyncio.Event(), asyncio.Event()

    async def deliver(self, events: Sequence[Event]) -> None:
        if self.failures and (failure := self.failures.pop(0)):
            raise failure
        self.told.append([event.id for event in events])

    async def _pause(self, woken: asyncio.Event, seconds: float | None) -> None:
        await asyncio.sleep(0)  # a wake-up from another thread has come by now
        self.pauses.append((seconds, woken.is_set()))
        self._paused.set()
        await self._over.wait()
        self._over.clear()

    async def paused(self) -> None:
        """Return when the watch pauses, the next time after `go_on`."""
        async with asyncio.timeout(PATIENCE_S):
            await self._paused.wait()

    async def go_on(self) -> None:
        """End the pause, and return at the next one."""
        self._paused.clear()
        self._over.set()
        await self.paused()


async def test_a_watch_looks_at_once_and_then_once_an_interval() -> None:
    found = Watched(Log(1, 2))
    found.watch.start(1)
    await found.paused()
    found.log.add(3)
    await found.go_on()
    found.watch.stop()

    assert found.told == [[2], [3]]
    assert found.pauses == [(LOOK_INTERVAL_S, False)] * 2


@pytest.mark.parametrize("failure", [OUTAGE, DEFECT], ids=["outage", "defect"])
async def test_a_watch_survives_each_failure_and_delivers_what_was_not(failure: Exception) -> None:
    found = Watched(Log(1, failures=(failure,)), failure)
    found.watch.start(0)
    await found.paused()
    await found.go_on()
    assert found.told == []
    await found.go_on()
    found.watch.stop()

    assert found.told == [[1]]
    assert found.pauses == [(LOOK_INTERVAL_S, False)] * 3, "a failure is repeated in its turn"


async def test_a_watch_without_a_place_begins_behind_the_newest_event_when_the_database_answers() -> None:
    found = Watched(Log(1))
    found.log.outages = [OUTAGE, DEFECT]
    found.watch.start()
    await found.paused()
    await found.go_on()
    assert found.tail.place is None
    await found.go_on()
    found.log.add(2)
    await found.go_on()
    found.watch.stop()

    assert found.told == [[], [2]]


async def test_nobody_looks_while_nobody_listens() -> None:
    found = Watched(Log(1))
    found.wanted = False
    found.watch.start(0)
    await found.paused()
    await found.go_on()
    assert (found.log.reads, found.pauses) == ([], [(None, False)] * 2)
    found.wanted = True
    await found.go_on()
    found.watch.stop()

    assert found.told == [[1]]


async def test_a_wake_up_during_a_look_leads_to_another_one() -> None:
    found = Watched(Log(1))
    deliver = found.watch._deliver

    async def woken(events: Sequence[Event]) -> None:
        thread = threading.Thread(target=found.watch.wake)
        thread.start()
        thread.join()
        await asyncio.sleep(0)  # the event loop takes the wake-up before the look ends
        await deliver(events)

    found.watch._deliver = woken
    found.watch.start(0)
    await found.paused()
    found.watch.stop()

    assert found.pauses == [(LOOK_INTERVAL_S, True)]


async def test_a_watch_that_was_stopped_restarts_and_delivers_nothing_of_the_time_between() -> None:
    found = Watched(Log(1))
    found.watch.start(0)
    found.watch.start(5)
    await found.paused()
    assert (found.tail.place, found.watch.started) == (1, True)
    found.watch.stop()
    assert (found.tail.place, found.watch.started) == (None, False)
    found.log.add(2)
    found._paused.clear()
    found.watch.start()
    await found.paused()
    found.watch.stop()

    assert found.told == [[1], []]
    await asyncio.sleep(0)


async def test_a_pause_ends_when_it_is_woken_or_over() -> None:
    woken = asyncio.Event()
    await pause_until(woken, 0)
    assert not woken.is_set()
    asyncio.get_running_loop().call_soon(woken.set)
    async with asyncio.timeout(PATIENCE_S):
        await pause_until(woken, None)


async def test_a_wake_up_without_an_event_loop_is_none() -> None:
    watch = Watched(Log()).watch
    assert not watch.attached
    watch.wake()
    watch.attach()
    assert watch.attached


def test_a_wake_up_after_the_event_loop_has_ended_is_none() -> None:
    watch = asyncio.run(_attached())
    watch.wake()


async def _attached() -> EventWatch:
    watch = Watched(Log()).watch
    watch.attach()
    return watch
