"""Live pages: a stream of server-sent events says when something changed, and the page requests itself again.

A page carries a mark of what it shows, so that a change between its answer and its stream is not missed.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING

from duetime.scheduler.errors import DuetimeError
from duetime.scheduler.events import Event
from duetime.scheduler.principal import Principal
from duetime.scheduler.runtime.event_tail import EVENTS_PER_PAGE, LOOK_INTERVAL_S, EventTail
from duetime.server.admin.access.visitors import NotLoggedIn, Visitors
from duetime.server.admin.protection import protected
from duetime.server.rest.streams.event_stream import STREAM_HEARTBEAT_INTERVAL_S
from duetime.server.runtime.event_watch import EventWatch
from duetime.tools.threads import cross, is_set_within
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

if TYPE_CHECKING:
    from duetime.scheduler.store import Store

SESSION_CHECK_INTERVAL_S = 60.0
"""Seconds between two looks of a stream whether its session still holds."""

MAX_STREAMS = 500
MAX_TENANT_STREAMS = 100
"""Streams of one tenant, so that it leaves room for others; all operators together have as many."""

_DIGEST_BYTES = 8
_MAX_DIGITS = 19

_CHANGED = "event: changed\ndata:\n\n"
_HEARTBEAT = ": still here\n\n"


@dataclass(frozen=True, slots=True)
class LiveMark:
    """The state that a page shows: its newest event, and for operators a digest of what tenants share."""

    event_id: int
    shared: str = ""

    @classmethod
    def of(cls, store: Store, principal: Principal) -> LiveMark:
        """Return the mark of a page that reads the store from now on."""
        return cls(store.history.latest(), _shared_digest(store) if principal.operator else "")

    @classmethod
    def read(cls, text: str) -> LiveMark | None:
        """Return the mark that `str` wrote, None for any other text."""
        number, _, shared = text.partition(".")
        return cls(int(number), shared) if number.isascii() and number.isdigit() and len(number) < _MAX_DIGITS else None

    def __str__(self) -> str:
        return f"{self.event_id}.{self.shared}"


@dataclass(eq=False, slots=True)
class _Watcher:
    """A stream; `tenant` is whose changes it reports, None for those of all and of what they share."""

    tenant: str | None
    shared: str = ""
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def sees(self, tenants: set[str], shared: str) -> None:
        """Report the changes of these tenants, and of what they share."""
        is_operator = self.tenant is None
        news = bool(tenants) or self.shared not in {"", shared} if is_operator else self.tenant in tenants
        self.shared = shared
        if news:
            self.changed.set()


class LiveFeed:
    """Streams to open pages. One look at the newest events serves all of them; without a page no process looks."""

    def __init__(self, store: Callable[[], Store], visitors: Visitors, *, interval_s: float = LOOK_INTERVAL_S) -> None:
        self._visitors = visitors
        self._watchers: set[_Watcher] = set()
        tail = EventTail("live pages", lambda: store().history, interval_s=interval_s)
        self._watch = EventWatch(tail, self._publish)
        self._store = store

    async def serve(self, request: Request) -> Response:
        """Answer with a stream that lasts as long as the page is open and its session holds."""
        try:
            _, principal = await cross(self._visitors.find, request)
        except NotLoggedIn as error:
            return protected(Response(str(error), HTTPStatus.UNAUTHORIZED, media_type="text/plain"))
        if request.method == "HEAD":  # its headers alone: nothing is opened
            return protected(StreamingResponse(iter(()), media_type="text/event-stream"))
        mark = LiveMark.read(request.query_params.get("since", ""))
        watcher = _Watcher(None if principal.operator else principal.tenant, mark.shared if mark else "")
        if not self._has_room(watcher):
            return protected(Response("Too many pages are open.", HTTPStatus.TOO_MANY_REQUESTS))
        return protected(StreamingResponse(self._stream(watcher, mark, request), media_type="text/event-stream"))

    def _has_room(self, wanted: _Watcher) -> bool:
        like = sum(each.tenant == wanted.tenant for each in self._watchers)
        return len(self._watchers) < MAX_STREAMS and like < MAX_TENANT_STREAMS

    async def _stream(self, watcher: _Watcher, mark: LiveMark | None, request: Request) -> AsyncIterator[str]:
        self._watchers.add(watcher)
        loop = asyncio.get_running_loop()
        checked_at = loop.time()
        try:
            await self._begin(watcher, mark)
            yield _HEARTBEAT
            while loop.time() - checked_at < SESSION_CHECK_INTERVAL_S or await self._holds(request):
                checked_at = loop.time() if loop.time() - checked_at >= SESSION_CHECK_INTERVAL_S else checked_at
                has_changed = await is_set_within(watcher.changed, STREAM_HEARTBEAT_INTERVAL_S)
                text = _CHANGED if has_changed else _HEARTBEAT
                watcher.changed.clear()  # before it is sent: a change during that is another one
                yield text
        finally:
            self._leave(watcher)

    async def _begin(self, watcher: _Watcher, mark: LiveMark | None) -> None:
        """Report what changed since the page was answered, and watch what follows."""
        place = None
        if mark is not None:
            place, is_old = await cross(self._compare, watcher.tenant, mark)
            if is_old:
                watcher.changed.set()
        self._watch.start(place)

    def _compare(self, tenant: str | None, mark: LiveMark) -> tuple[int | None, bool]:
        """Return the newest event, and whether one behind the mark is of the tenant."""
        history = self._store().history
        try:
            newest, events = history.latest(), history.since(mark.event_id)
        except DuetimeError:
            return None, True  # the page requests itself, and says what is wrong
        return newest, len(events) == EVENTS_PER_PAGE or any(tenant in {None, event.tenant} for event in events)

    def _leave(self, watcher: _Watcher) -> None:
        self._watchers.discard(watcher)
        if not self._watchers:
            self._watch.stop()

    async def _holds(self, request: Request) -> bool:
        try:
            await cross(self._visitors.find, request)
        except NotLoggedIn:
            return False
        return True

    async def _publish(self, events: Sequence[Event]) -> None:
        tenants = {event.tenant for event in events}
        has_operators = any(watcher.tenant is None for watcher in self._watchers)
        shared = await cross(_shared_digest, self._store()) if has_operators else ""
        for watcher in self._watchers:
            watcher.sees(tenants, shared)


def _shared_digest(store: Store) -> str:
    """Digest what changes with each change of pools, of the policy and its shadow, and with workers and their drain."""
    shadow = store.policies.shadow.get()
    workers = sorted((worker.id, str(worker.drain)) for worker in store.workers.all())
    shared = repr((store.pools.revision(), store.policies.version(), shadow and shadow.at, workers))
    return hashlib.blake2b(shared.encode(), digest_size=_DIGEST_BYTES).hexdigest()
