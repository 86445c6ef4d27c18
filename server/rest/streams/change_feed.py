"""The feed of changes: one look at the newest events serves all open streams; without a stream nobody looks."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final, Protocol

from duetime.scheduler.errors import DuetimeError
from duetime.scheduler.events import Event
from duetime.server.protocol.subscriber_tokens import Holds, SubscriberTokens
from duetime.tools.threads import cross

CHANGE_POLL_INTERVAL_S: Final = 1.0
"""Changes of other processes are found after this time; those of this one at once."""

MAX_TENANT_STREAMS_COUNT: Final = 200
MAX_SERVER_STREAMS_COUNT: Final = 1_000
MAX_WAITING_EVENTS: Final = 1_000
"""Events that wait for a client that does not read. Its stream ends then, and it goes on where it was."""

EVENTS_PER_READ: Final = 500

log = logging.getLogger(__name__)


class TooManyStreams(DuetimeError):
    """The tenant, or the server, has as many open streams as it may."""

    code = "too_many_streams"
    status = HTTPStatus.TOO_MANY_REQUESTS


class EventLog(Protocol):
    """The events of all tenants, oldest first."""

    def latest(self) -> int: ...

    def since(self, event_id: int, *, limit: int = 500) -> list[Event]: ...


@dataclass(eq=False, slots=True)
class ChangeStream:
    """An open stream: the events of its tenant that it has not sent yet."""

    tenant: str
    begins_at: int = 0
    ended: bool = False
    _events: deque[Event] = field(default_factory=deque)
    _woken: asyncio.Event = field(default_factory=asyncio.Event)

    def add(self, event: Event) -> None:
        self.ended = self.ended or len(self._events) >= MAX_WAITING_EVENTS
        if not self.ended:
            self._events.append(event)
        self._woken.set()

    def end(self) -> None:
        """Let the stream end: its token holds no longer."""
        self.ended = True
        self._events.clear()
        self._woken.set()

    async def wait(self, seconds: float) -> list[Event]:
        """Return the events that have come, at the latest after so many seconds."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._woken.wait(), seconds)
        self._woken.clear()
        found = list(self._events)
        self._events.clear()
        return found


class ChangeFeed:
    """Passes events to open streams. Runs on one event loop; `wake` may be called on any thread."""

    def __init__(self, events: Callable[[], EventLog], *, interval_s: float = CHANGE_POLL_INTERVAL_S) -> None:
        self._events = events
        self._interval_s = interval_s
        self._tokens = SubscriberTokens()
        self._streams: set[ChangeStream] = set()
        self._seen = 0
        self._woken = asyncio.Event()
        self._watch: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def wake(self, _task_ids: Sequence[str] = ()) -> None:
        """Look at once: something changed in this process."""
        loop = self._loop
        if loop is not None and self._streams:
            with suppress(RuntimeError):  # the loop has ended, and with it its streams
                loop.call_soon_threadsafe(self._woken.set)

    @asynccontextmanager
    async def opened(self, tenant: str, holds: Holds) -> AsyncIterator[ChangeStream]:
        """Tell a stream of the changes from now on, while the block runs and `holds` says so.

        Raises TooManyStreams, and StoreUnavailable when the place of `now` cannot be read.
        """
        self._check_limits(tenant)
        stream = ChangeStream(tenant)
        self._streams.add(stream)
        forget = self._tokens.add(holds, stream.end)
        try:
            await self._begin()
            stream.begins_at = self._seen
            yield stream
        finally:
            forget()
            self._streams.discard(stream)
            self._stop_unless_wanted()

    def _check_limits(self, tenant: str) -> None:
        of_tenant = sum(stream.tenant == tenant for stream in self._streams)
        if of_tenant >= MAX_TENANT_STREAMS_COUNT:
            raise TooManyStreams(f"this tenant has {MAX_TENANT_STREAMS_COUNT} open streams already. Close one first.")
        if len(self._streams) >= MAX_SERVER_STREAMS_COUNT:
            raise TooManyStreams("this server has as many open streams as it may. Try again later.")

    async def _begin(self) -> None:
        """Look from now on, unless others are told already; several may begin at once."""
        if self._watch is not None:
            return
        latest = await cross(self._events().latest)
        if self._watch is None:
            self._seen, self._loop, self._woken = latest, asyncio.get_running_loop(), asyncio.Event()
            self._watch = asyncio.create_task(self._look_forever())

    def _stop_unless_wanted(self) -> None:
        if not self._streams and self._watch is not None:
            self._watch.cancel()
            self._watch = None

    async def _look_forever(self) -> None:
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._woken.wait(), self._interval_s)
            self._woken.clear()
            try:
                await self._look()
            except DuetimeError as error:
                log.warning("cannot poll for changes: %s", error)
            except Exception:
                log.exception("telling streams of changes failed")

    async def _look(self) -> None:
        events = await cross(self._events().since, self._seen, limit=EVENTS_PER_READ)
        if not events:
            return
        await self._tokens.end_invalid()
        self._seen = events[-1].id
        for event in events:
            for stream in self._streams:
                if stream.tenant == event.tenant:
                    stream.add(event)
        if len(events) == EVENTS_PER_READ:
            self._woken.set()
