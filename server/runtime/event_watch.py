"""Watch of the events on an event loop: delivers what is new to one subscriber while somebody listens."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from duetime.scheduler.events import Event
from duetime.scheduler.runtime.event_tail import EventTail
from duetime.tools.threads import cross

Deliver = Callable[[Sequence[Event]], Awaitable[None]]
"""Gets the events that a look found, also none. The events of a failed delivery come again."""

EventPause = Callable[[asyncio.Event, float | None], Awaitable[None]]
"""Returns when the event is set, at the latest after so many seconds."""


async def pause_until(woken: asyncio.Event, seconds: float | None) -> None:
    """Wait for the event, at most so many seconds."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await woken.wait()


class EventWatch:
    """Looks as often as its tail says, at once when woken, and not at all while `is_followed` says no.

    A failed look is logged, and repeated in its turn. Every method is for the event loop but `wake`, for any thread.
    """

    def __init__(
        self,
        tail: EventTail,
        deliver: Deliver,
        *,
        is_followed: Callable[[], bool] = lambda: True,
        pause: EventPause = pause_until,
    ) -> None:
        self._tail = tail
        self._deliver = deliver
        self._is_followed = is_followed
        self._pause = pause
        self._woken = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def attached(self) -> bool:
        """Whether there is an event loop, on which `wake` has an effect."""
        return self._loop is not None

    @property
    def started(self) -> bool:
        """Whether `start` was called, and `stop` was not."""
        return self._task is not None and not self._task.done()

    def wake(self) -> None:
        """Look at once: something changed in this process."""
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop has closed: nobody is left to notify
                self._loop.call_soon_threadsafe(self._woken.set)

    def attach(self) -> None:
        """Belong to the running event loop from now on."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop, self._woken = loop, asyncio.Event()

    def start(self, place: int | None = None) -> None:
        """Watch until `stop`, unless it does: behind an event, or behind the newest one of the first look."""
        if not self.started:
            self.attach()
            self._tail.begin(place)
            self._task = asyncio.create_task(self.run())

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None
            self._tail.end()

    async def run(self) -> None:
        """Watch until cancelled."""
        self.attach()
        while True:
            self._woken.clear()
            if self._is_followed():
                await self._look()
            await self._pause(self._woken, self._tail.seconds_left() if self._is_followed() else None)

    async def _look(self) -> None:
        with self._tail.survived():
            if self._tail.place is None:
                await self._begin()
            page = await cross(self._tail.read)
            with self._tail.delivery(page):
                await self._deliver(page.events)

    async def _begin(self) -> None:
        newest = await cross(self._tail.newest)
        if self._tail.place is None:
            self._tail.begin(newest)
