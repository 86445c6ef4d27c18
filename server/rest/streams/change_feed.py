"""The feed of changes: one look at the newest events serves all open streams; without a stream no process looks."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

from duetime.scheduler.errors import DuetimeError
from duetime.scheduler.events import Event
from duetime.scheduler.principal import Principal
from duetime.scheduler.runtime.event_tail import LOOK_INTERVAL_S, EventTail
from duetime.scheduler.store import Store
from duetime.server.protocol.subscriber_tokens import Holds, SubscriberTokens
from duetime.server.protocol.subscription_limits import MAX_TENANT_STREAMS_COUNT
from duetime.server.rest.streams.state_changes import StateChange, StateWatch
from duetime.server.runtime.event_watch import EventWatch
from duetime.tools.threads import cross, is_set_within

MAX_SERVER_STREAMS_COUNT: Final = 1_000
MAX_WAITING_EVENTS: Final = 1_000
"""Events that wait for a client that does not read. Its stream ends then, and it continues where it was."""


class TooManyStreams(DuetimeError):
    """The tenant, or the server, has as many open streams as it may."""

    code = "too_many_streams"
    status = HTTPStatus.TOO_MANY_REQUESTS


@dataclass(eq=False, slots=True)
class ChangeStream:
    """An open stream: the events of its reader's tenant, and other changes, that it has not sent yet."""

    by: Principal
    begins_at: int = 0
    ended: bool = False
    _events: deque[Event | StateChange] = field(default_factory=deque)
    _woken: asyncio.Event = field(default_factory=asyncio.Event)

    def add(self, event: Event | StateChange) -> None:
        self.ended = self.ended or len(self._events) >= MAX_WAITING_EVENTS
        if not self.ended:
            self._events.append(event)
        self._woken.set()

    def end(self) -> None:
        """Let the stream end: its token holds no longer."""
        self.ended = True
        self._events.clear()
        self._woken.set()

    async def wait(self, seconds: float) -> list[Event | StateChange]:
        """Return the changes that have come, at the latest after so many seconds."""
        await is_set_within(self._woken, seconds)
        self._woken.clear()
        found = list(self._events)
        self._events.clear()
        return found


class ChangeFeed:
    """Passes events to open streams: of other processes within a second, of this one at once.

    Runs on one event loop; `wake` may be called on any thread.
    """

    def __init__(self, store: Callable[[], Store]) -> None:
        self._tail = EventTail("streams of changes", lambda: store().history, interval_s=LOOK_INTERVAL_S)
        self._state = StateWatch(store)
        self._watch = EventWatch(self._tail, self._publish)
        self._tokens = SubscriberTokens()
        self._streams: set[ChangeStream] = set()

    def wake(self, _task_ids: Sequence[str] = ()) -> None:
        """Look at once: something changed in this process."""
        if self._streams:
            self._watch.wake()

    @asynccontextmanager
    async def opened(self, by: Principal, holds: Holds) -> AsyncIterator[ChangeStream]:
        """Send a stream the changes from now on, while the block runs and `holds` says so.

        Raises TooManyStreams, and StoreUnavailable when the place of `now` cannot be read.
        """
        self._check_limits(by.tenant)
        stream = ChangeStream(by)
        self._streams.add(stream)
        forget = self._tokens.add(holds, stream.end)
        try:
            if by.may_read_all_of(None):
                await cross(self._state.begin)
            stream.begins_at = await self._begin()
            yield stream
        finally:
            forget()
            self._streams.discard(stream)
            if not any(each.by.may_read_all_of(None) for each in self._streams):
                self._state.end()
            if not self._streams:
                self._watch.stop()

    def _check_limits(self, tenant: str) -> None:
        of_tenant = sum(stream.by.tenant == tenant for stream in self._streams)
        if of_tenant >= MAX_TENANT_STREAMS_COUNT:
            raise TooManyStreams(f"this tenant has {MAX_TENANT_STREAMS_COUNT} open streams already. Close one first.")
        if len(self._streams) >= MAX_SERVER_STREAMS_COUNT:
            raise TooManyStreams("this server has as many open streams as it may. Try again later.")

    async def _begin(self) -> int:
        """Watch from now on, unless others are told already; return behind which event. Several may begin at once."""
        if not self._watch.started:
            self._watch.start(await cross(self._tail.newest))
        return self._tail.place or 0

    async def _publish(self, events: Sequence[Event]) -> None:
        await self._tokens.end_invalid()
        place = events[-1].id if events else self._tail.place or 0
        changes = await cross(self._state.look, events, place)  # first: events of a look that fails come again
        for stream in self._streams:
            for event in events:
                if event.tenant == stream.by.tenant:
                    stream.add(event)
            for change in changes:
                if change.concerns(stream.by):
                    stream.add(change)
