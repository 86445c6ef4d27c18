"""Live pages: a stream of server-sent events says when something changed, and the page requests itself again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING

from duetime.scheduler.events import Event
from duetime.scheduler.runtime.event_tail import LOOK_INTERVAL_S, EventTail
from duetime.server.admin.access.visitors import NotLoggedIn, Visitors
from duetime.server.admin.protection import protected
from duetime.server.rest.streams.event_stream import STREAM_HEARTBEAT_INTERVAL_S
from duetime.server.runtime.event_watch import EventWatch
from duetime.tools.threads import cross
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

if TYPE_CHECKING:
    from duetime.scheduler.store import Store

SESSION_CHECK_INTERVAL_S = 60.0
"""Seconds between two looks of a stream whether its session still holds."""

MAX_STREAMS = 500
MAX_TENANT_STREAMS = 100
"""Streams of one tenant, so that it leaves room for others; all operators together have as many."""

_CHANGED = "event: changed\ndata:\n\n"
_HEARTBEAT = ": still here\n\n"


@dataclass(eq=False, slots=True)
class _Watcher:
    """A stream; `tenant` is whose changes it reports, None for those of all."""

    tenant: str | None
    changed: asyncio.Event = field(default_factory=asyncio.Event)


class LiveFeed:
    """Streams to open pages. One look at the newest events serves all of them; without a page no process looks."""

    def __init__(self, store: Callable[[], Store], visitors: Visitors, *, interval_s: float = LOOK_INTERVAL_S) -> None:
        self._visitors = visitors
        self._watchers: set[_Watcher] = set()
        tail = EventTail("live pages", lambda: store().history, interval_s=interval_s)
        self._watch = EventWatch(tail, self._publish)
        self._store = store
        self._shared: Hashable = None

    async def serve(self, request: Request) -> Response:
        """Answer with a stream that lasts as long as the page is open and its session holds."""
        try:
            _, principal = await cross(self._visitors.find, request)
        except NotLoggedIn as error:
            return protected(Response(str(error), HTTPStatus.UNAUTHORIZED, media_type="text/plain"))
        watcher = _Watcher(None if principal.operator else principal.tenant)
        if not self._has_room(watcher):
            return protected(Response("Too many pages are open.", HTTPStatus.TOO_MANY_REQUESTS))
        return protected(StreamingResponse(self._stream(watcher, request), media_type="text/event-stream"))

    def _has_room(self, wanted: _Watcher) -> bool:
        like = sum(each.tenant == wanted.tenant for each in self._watchers)
        return len(self._watchers) < MAX_STREAMS and like < MAX_TENANT_STREAMS

    async def _stream(self, watcher: _Watcher, request: Request) -> AsyncIterator[str]:
        self._watchers.add(watcher)
        self._watch.start()
        loop = asyncio.get_running_loop()
        checked_at = loop.time()
        try:
            yield _HEARTBEAT
            while loop.time() - checked_at < SESSION_CHECK_INTERVAL_S or await self._holds(request):
                checked_at = loop.time() if loop.time() - checked_at >= SESSION_CHECK_INTERVAL_S else checked_at
                with suppress(TimeoutError):
                    await asyncio.wait_for(watcher.changed.wait(), STREAM_HEARTBEAT_INTERVAL_S)
                yield _CHANGED if watcher.changed.is_set() else _HEARTBEAT
                watcher.changed.clear()
        finally:
            self._leave(watcher)

    def _leave(self, watcher: _Watcher) -> None:
        self._watchers.discard(watcher)
        if not self._watchers:
            self._watch.stop()
            self._shared = None

    async def _holds(self, request: Request) -> bool:
        try:
            await cross(self._visitors.find, request)
        except NotLoggedIn:
            return False
        return True

    async def _publish(self, events: Sequence[Event]) -> None:
        tenants: set[str | None] = {event.tenant for event in events}
        if tenants or await self._has_shared_news():
            tenants.add(None)  # operators see all of it
        for watcher in self._watchers:
            if watcher.tenant in tenants:
                watcher.changed.set()

    async def _has_shared_news(self) -> bool:
        """Whether the state that tenants share has changed since the last look; only pages of operators need it."""
        if all(watcher.tenant is not None for watcher in self._watchers):
            return False
        before, self._shared = self._shared, await cross(_shared_state, self._store())
        return before not in {None, self._shared}


def _shared_state(store: Store) -> Hashable:
    """Return what changes with each change of pools, of the policy and its shadow, and with workers and their drain."""
    shadow = store.policies.shadow.get()
    workers = frozenset((worker.id, worker.drain) for worker in store.workers.all())
    return store.pools.revision(), store.policies.version(), shadow and shadow.at, workers
