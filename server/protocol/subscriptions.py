"""Notifies subscribers of either protocol era that a task changed or fired, wherever it did.

Changes of this process are sent at once. Changes of another process that shares the database follow within a second,
when the next look at the events finds them. No process looks while no client is subscribed.
"""

from __future__ import annotations

import logging
from collections import Counter, defaultdict, deque
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio
from duetime.scheduler.errors import DuetimeError
from duetime.scheduler.events import Event
from duetime.scheduler.principal import Principal
from duetime.scheduler.runtime.event_tail import LOOK_INTERVAL_S, EventTail
from duetime.server.auth.caller import local_caller
from duetime.server.protocol.changed_addresses import (
    SubscribedAddress,
    SubscribedHistory,
    addresses_of,
    tenants_with_another_list,
)
from duetime.server.protocol.sdk import connection_of
from duetime.server.protocol.subscriber_tokens import Holds, SubscriberTokens, local_validity
from duetime.server.protocol.subscription_limits import SubscriptionLimits
from duetime.server.runtime.event_watch import EventWatch
from duetime.tools.threads import cross
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.session import ServerSession
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
)
from mcp.types import EmptyResult, SubscribeRequestParams, UnsubscribeRequestParams

NOTIFICATION_TIMEOUT_S = 1.0
"""Seconds that a subscriber has to take a notification."""

MAX_TOUCHED_TASKS = 500
"""Touched tasks of whose owners the database is asked at a time."""

log = logging.getLogger(__name__)


EventSource = Callable[[], SubscribedHistory | None]
"""Returns the history; None before the store is opened, when this process has shown no state that could be old."""


class Subscriptions:
    """The subscriptions of one server: the SDK's bus for 2026-07-28, and `resources/subscribe` for earlier eras.

    A subscriber receives changes of its own tenant alone, whatever it subscribes to.
    """

    def __init__(
        self,
        history: EventSource,
        *,
        caller: Callable[[], Principal] = local_caller,
        validity: Callable[[], Holds] = local_validity,
        interval: float = LOOK_INTERVAL_S,
    ) -> None:
        self._history = history
        self._caller = caller
        self._validity = validity
        self._tail = EventTail("subscriptions", history, interval_s=interval)
        self._watch = EventWatch(self._tail, self._notify, is_followed=lambda: self.wanted)
        self._tokens = SubscriberTokens()
        self._buses: defaultdict[str, InMemorySubscriptionBus] = defaultdict(InMemorySubscriptionBus)
        self._limits = SubscriptionLimits()
        self._bounded = caller is not local_caller
        self._listeners = Counter[str]()
        self._sessions: dict[SubscribedAddress, dict[int, ServerSession]] = {}
        self._touched: deque[str] = deque()
        self._tools_changed = False
        self._watching = anyio.Lock()

    def touched(self, task_ids: Sequence[str]) -> None:
        """Record that tasks changed or fired in this process. Thread-safe, also without a server."""
        if self._watch.attached and self.wanted:
            self._touched.extend(task_ids)
            self._watch.wake()

    def tools_changed(self) -> None:
        """Notify every subscriber that the server offers other tools. Thread-safe, also without a server."""
        if self._watch.attached and self.wanted:
            self._tools_changed = True
            self._watch.wake()

    @property
    def wanted(self) -> bool:
        """Whether there is a subscriber."""
        return bool(self._listeners or self._sessions)

    # -- 2026-07-28: the SDK asks this bus for each subscriptions/listen

    async def publish(self, event: ServerEvent) -> None:
        """Notify every tenant: of what the server itself offers."""
        for bus in list(self._buses.values()):
            await bus.publish(event)

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        self._begin()
        tenant = self._caller().tenant
        self._listeners[tenant] += 1
        leave = self._buses[tenant].subscribe(listener)
        left = False

        def unsubscribe() -> None:
            nonlocal left
            if not left:
                self._stop_listening(tenant)
                forget()
            left = True
            leave()

        forget = self._tokens.add(self._validity(), unsubscribe)
        return unsubscribe

    def _stop_listening(self, tenant: str) -> None:
        self._listeners[tenant] -= 1
        if not self._listeners[tenant]:
            del self._listeners[tenant], self._buses[tenant]

    async def limit_streams(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Refuse a stream of too many or unknown addresses: the SDK's handler takes all of any length."""
        if ctx.method != "subscriptions/listen":
            self._tokens.renew(id(connection_of(ctx)), self._validity)
            return await call_next(ctx)
        with self._limits.holding(id(connection_of(ctx)), _addresses(ctx.params), self._bounded_tenant()):
            return await call_next(ctx)

    def _bounded_tenant(self) -> str:
        return self._caller().tenant if self._bounded else ""

    # -- until 2025-11-25: resources/subscribe, remembered with the connection

    async def subscribe_session(
        self, ctx: ServerRequestContext[Any, Any], params: SubscribeRequestParams
    ) -> EmptyResult:
        connection = connection_of(ctx)
        uri, key = str(params.uri), id(connection)
        address = (self._caller().tenant, uri)
        if key not in self._sessions.get(address, {}):
            self._limits.take(key, [uri], self._bounded_tenant())
            connection.exit_stack.callback(self._forget, address, key)
            connection.exit_stack.callback(self._tokens.forget_session, key)
        self._tokens.add_session(key, self._validity(), partial(self._end_session, key))
        self._begin()
        self._sessions.setdefault(address, {})[key] = ctx.session
        return EmptyResult()

    async def unsubscribe_session(
        self, ctx: ServerRequestContext[Any, Any], params: UnsubscribeRequestParams
    ) -> EmptyResult:
        self._forget((self._caller().tenant, str(params.uri)), id(connection_of(ctx)))
        return EmptyResult()

    def _end_session(self, key: int) -> None:
        self._tokens.forget_session(key)
        for address in [address for address, sessions in self._sessions.items() if key in sessions]:
            self._forget(address, key)

    def _forget(self, address: SubscribedAddress, key: int) -> None:
        sessions = self._sessions.get(address, {})
        if sessions.pop(key, None) is not None:
            self._limits.give_back(key, 1, address[0] if self._bounded else "")
        if not sessions:
            self._sessions.pop(address, None)

    # -- watching

    def _begin(self) -> None:
        """Remember where the history ended before the first subscriber, in the same breath: nothing falls between."""
        if not self.wanted:
            try:
                self._tail.begin(self._tail.newest())
            except DuetimeError:
                self._tail.end()  # the watch begins when the database answers
            self._watch.wake()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Watch while the block runs. Several servers of one process share one watch."""
        self._watch.attach()
        async with anyio.create_task_group() as group:
            group.start_soon(self._watch_alone)
            yield
            group.cancel_scope.cancel()

    async def _watch_alone(self) -> None:
        async with self._watching:
            await self._watch.run()

    async def _notify(self, events: Sequence[Event]) -> None:
        """Notify of each task and its chain once a look, however often they changed; after a failure, of all again."""
        history = self._history()
        touched = [self._touched[place] for place in range(min(len(self._touched), MAX_TOUCHED_TASKS))]
        if history is not None and (events or touched):
            await self._notify_subscribers(await cross(addresses_of, history, events, touched))
        for tenant in tenants_with_another_list(events):
            if tenant in self._listeners:
                await self._buses[tenant].publish(ResourcesListChanged())
        if self._tools_changed:
            self._tools_changed = False
            await self.publish(ToolsListChanged())
        for _ in touched:
            self._touched.popleft()
        if self._touched:
            self._watch.wake()

    async def _notify_subscribers(self, addresses: Collection[SubscribedAddress]) -> None:
        if addresses:
            await self._tokens.end_invalid()
        async with anyio.create_task_group() as group:
            for tenant, uri in addresses:
                if tenant in self._listeners:
                    await self._buses[tenant].publish(ResourceUpdated(uri=uri))
                for session in list(self._sessions.get((tenant, uri), {}).values()):
                    group.start_soon(_send_update, session, uri)


def _addresses(params: Mapping[str, Any] | None) -> list[str]:
    """Return the addresses that a listen requests; what is malformed is left to the SDK, which refuses it."""
    filters = (params or {}).get("notifications")
    uris = filters.get("resourceSubscriptions") if isinstance(filters, Mapping) else None
    return [str(uri) for uri in uris] if isinstance(uris, list) else []


async def _send_update(session: ServerSession, uri: str) -> None:
    """Notify one session, or leave it: one that does not read, or is gone, keeps the news from no other."""
    with anyio.move_on_after(NOTIFICATION_TIMEOUT_S) as scope:
        try:
            await session.send_resource_updated(uri)
        except Exception as error:  # noqa: BLE001 - whatever it is, it concerns this session alone
            log.debug("cannot notify a subscriber of %s: %r", uri, error)
    if scope.cancelled_caught:
        log.debug("a subscriber that does not read missed the notification of %s", uri)
