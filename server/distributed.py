"""Constructs one process of a shared installation: its queue and signals in Redis, and its engine."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from duetime.scheduler.dispatch.placement import Placement
from duetime.scheduler.dispatch.pool_registry import PoolRegistry
from duetime.scheduler.errors import InvalidSetting, StoreUnavailable
from duetime.scheduler.nodes.member import EngineProtocol, Member, SignalBus
from duetime.scheduler.queue import QueueUnavailable
from duetime.scheduler.queue.failsafe import FailsafeQueue
from duetime.scheduler.runtime.notifier import RunNotifier
from duetime.scheduler.store import Store
from duetime.scheduler.worker.worker import WorkerOptions
from duetime.server.runtime.logs import called
from duetime.server.settings.model import Settings
from duetime.server.settings.options import headroom, retention_policy

MemberReport = tuple[str, Sequence[str]]
"""The name of a process, and the ids of its secret keys."""

if TYPE_CHECKING:
    from duetime.scheduler.queue.redis.members import NamespaceMembers
    from duetime.scheduler.queue.redis.ownership import NamespaceClaim
    from duetime.scheduler.queue.redis.queue import RedisQueue


def make_member(
    settings: Settings,
    store: Store,
    registry: PoolRegistry,
    placement: Placement,
    make_engine: Callable[[FailsafeQueue, WorkerOptions], EngineProtocol],
    *,
    notifier: RunNotifier,
) -> Member:
    """Construct this process as a member; `make_engine` makes its engine when it starts.

    Raises InvalidSetting when the client for Redis is not installed.
    """
    name = _name()
    called(name)
    lease = timedelta(seconds=settings.lease_seconds)
    kept = registry.policies.headroom(headroom(settings))
    grace = timedelta(seconds=settings.grace_seconds)
    options = WorkerOptions(
        name, settings.threads, lease, kept, retention_policy(settings), grace, settings.decisions_per_minute
    )
    where, ids = (str(settings.redis_url), settings.redis_namespace, store.identity()), store.secrets.key_ids
    return Member(
        store,
        connected(*where, partial(last_event, store), report=(name, ids)),
        registry,
        placement=placement,
        name=name,
        make_engine=lambda shared: make_engine(shared, options),
        grace=grace,
        notifier=notifier,
    )


def _name() -> str:
    """Return a name that no other process ever has: a pod keeps its host name and its pid."""
    return f"{socket.gethostname()[:60]}-{os.getpid()}-{secrets.token_hex(3)}"


@dataclass(frozen=True, slots=True)
class RedisConnections:
    """The shared queue, the signals and the namespace of one process, in Redis."""

    queue: RedisQueue
    signals: SignalBus
    owner: NamespaceClaim
    members: NamespaceMembers
    report: MemberReport | None

    def claim(self) -> None:
        """Claim the namespace for the database, and report this process."""
        self.owner.claim()
        if self.report is not None:
            with suppress(QueueUnavailable):  # for display only: the claim has seen that Redis answers
                self.members.report(*self.report)

    def close(self) -> None:
        if self.report is not None:
            self.members.leave(*self.report)
        for each in (self.queue, self.owner, self.members):
            each.close()


def last_event(store: Store) -> int | None:
    """Return the last id that an event had; None when the database is away."""
    with suppress(StoreUnavailable):
        return store.history.last_id()
    return None


def connected(
    url: str,
    namespace: str,
    database: str,
    last_event: Callable[[], int | None] = lambda: None,
    *,
    report: MemberReport | None = None,
) -> RedisConnections:
    """Return the connections of this process; `database` names its database, empty where no name is known.

    `last_event` returns the last id that an event of the database had, None when the database is away. `report` is what
    a process that starts says of itself.
    """
    try:
        redis_queue = import_module("duetime.scheduler.queue.redis.queue").RedisQueue
        signal_bus = import_module("duetime.scheduler.queue.redis.pubsub").RedisSignalBus
        redis_owner = import_module("duetime.scheduler.queue.redis.ownership").NamespaceClaim
        redis_members = import_module("duetime.scheduler.queue.redis.members").NamespaceMembers
    except ModuleNotFoundError as error:
        raise InvalidSetting(
            "redis_url: the client for Redis is not installed. In a checkout: pip install '.[redis]'."
        ) from error
    owner = redis_owner(url, namespace=namespace, database=database, last_event=last_event)
    queue, signals, members = (each(url, namespace=namespace) for each in (redis_queue, signal_bus, redis_members))
    return RedisConnections(queue, signals, owner, members, report)
