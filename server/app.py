"""The application: the only module that constructs the parts of a process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import StrEnum
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from duetime.scheduler.delivery import Channels
from duetime.scheduler.delivery.deliverer import Deliverer
from duetime.scheduler.dispatch.fast_path import DispatchTarget, FastPath
from duetime.scheduler.dispatch.learned_estimates import LearnedEstimates
from duetime.scheduler.dispatch.placement import Placement
from duetime.scheduler.dispatch.pool_registry import PoolRegistry
from duetime.scheduler.errors import InvalidSetting
from duetime.scheduler.foresight.explainer import Explainer
from duetime.scheduler.foresight.lateness import BacklogMonitor
from duetime.scheduler.handlers import Handlers, Plugin
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.nodes.candidacy import Candidacy
from duetime.scheduler.nodes.heartbeat import SilentWorkers, any_worker_alive, any_worker_drained, any_worker_handles
from duetime.scheduler.nodes.member import EngineProtocol, Member
from duetime.scheduler.nodes.runner import Runner
from duetime.scheduler.queue import DispatchQueue, QueueTaken
from duetime.scheduler.queue.remote import NoAnswer, Question, RemoteQueue
from duetime.scheduler.runtime.notifier import RunNotifier
from duetime.scheduler.runtime.traces import NO_TRACING, Tracing
from duetime.scheduler.service import scheduler as service
from duetime.scheduler.service.change_notices import ChangeNotices
from duetime.scheduler.service.fan_out import FanOut
from duetime.scheduler.store import Store, open_store
from duetime.scheduler.task import Json
from duetime.server.runtime.readiness import readiness
from duetime.server.settings.handlers import load_handlers
from duetime.server.settings.model import Settings
from duetime.server.settings.notices import quiet_plan
from duetime.server.settings.options import allowance, channel_options, planner_of, runner_options, tenant_quotas
from duetime.server.settings.secret_keys import SettingSecrets, store_keys
from duetime.server.telemetry.observers import Observers
from duetime.server.telemetry.trace_setup import configured_tracing

if TYPE_CHECKING:
    from duetime.scheduler.worker.worker import WorkerOptions

Listener = Callable[[Sequence[str]], None]

TRACE_FLUSH_GRACE_S = 2.0
"""Seconds that the end of a process waits for a collector of traces, at most."""


class Role(StrEnum):
    """The role of a process in a shared installation; without Redis each is both."""

    SERVE = "serve"  # answers callers and dispatches what is due
    WORK = "work"  # runs it


class Running(DispatchTarget, Protocol):
    """The part of a process that dispatches runs: the runner or a candidate for it, or a member."""

    def start(self) -> None: ...

    def wake(self) -> None: ...

    def ask(self, question: Question) -> Json: ...

    def silence(self) -> NoAnswer: ...

    def hurry(self) -> None: ...

    def stop(self, grace: timedelta | None = None) -> None: ...


@dataclass(frozen=True, slots=True)
class App:
    """All parts of one process, constructed and connected. Closing it stops the runner and hands its runs back."""

    settings: Settings
    store: Store
    handlers: Handlers
    channels: Channels
    scheduler: service.Scheduler
    runner: Running
    registry: PoolRegistry
    remote_queue: RemoteQueue
    backlog: BacklogMonitor
    listeners: list[Listener]
    """Called, on any thread, with the ids of tasks that changed or fired in this process; must be quick."""
    observers: Observers
    tracing: Tracing = NO_TRACING

    def start(self, candidacy: Candidacy | None = None) -> None:
        """Run due tasks once no other process does; a process that only reads or schedules need not call this.

        With a `candidacy` also not before that allows it. In a shared installation this process joins the others;
        raises InvalidSetting when the queue belongs to another one.
        """
        try:
            if isinstance(self.runner, Runner):
                self.runner.start(candidacy)
            else:
                self.runner.start()
        except QueueTaken as error:
            raise InvalidSetting(str(error)) from error

    def reconsider(self) -> None:
        """Check at once whether the candidacy of this process allows it to run tasks. May be called from any thread."""
        if isinstance(self.runner, Runner):
            self.runner.reconsider()

    def ready(self, *, verbose: bool = False) -> str:
        """Return whether tasks can be scheduled, with any lesser problem. Raises StoreUnavailable when they cannot."""
        if not isinstance(node := self.runner, Member):
            return readiness(self.store, self.backlog, None, verbose=verbose)
        return readiness(self.store, self.backlog, node.queue.away, damage=node.damage, verbose=verbose, shared=True)

    def begin_end(self) -> None:
        """Start to hand back what runs, and return at once; calls are still served until `close`."""
        if isinstance(self.runner, Runner):
            grace = timedelta(seconds=self.settings.grace_seconds)
            threading.Thread(target=self.runner.stop, args=(grace,), name="duetime-hand-back", daemon=True).start()

    def hurry(self) -> None:
        """Shorten the grace period of `begin_end` and `close`. May be called from any thread."""
        self.runner.hurry()

    def close(self) -> None:
        """Stop within the grace period, hand back unfinished runs, and close the database."""
        self.runner.stop(timedelta(seconds=self.settings.grace_seconds))
        self.channels.close()
        self.store.close()
        self.tracing.flush(TRACE_FLUSH_GRACE_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def build(
    settings: Settings,
    *,
    handlers: Sequence[Plugin] = (),
    entry_points: bool = True,
    role: Role = Role.SERVE,
    hosted: Callable[[], None] | None = None,
    exhausted: Callable[[], None] = lambda: None,
    via: str = "python",
    tracing: Tracing | None = None,
) -> App:
    """Construct the application of one process; `handlers` are added to the built-in and configured ones.

    `hosted`: the threads of a worker are those of Dramatiq's command line, which calls this when it stops. `exhausted`
    is called when a worker has lost as many threads as it has. `via` is the way of calls whose principal names none.
    `tracing` is by default that of the environment. `entry_points` finds the handlers of installed packages.

    Raises InvalidSetting for a handler module or channel that cannot be loaded, and SchemaTooNew for the database of a
    newer Duetime. Raises StoreUnavailable when the database cannot be opened.
    """
    settings.create_data_directory()
    named = SettingSecrets(settings.operator_tenant)
    known = load_handlers(settings, handlers, named, entry_points=entry_points)
    channels = Channels.from_options(channel_options(settings), reveal=named)
    embedded = settings.database_url.startswith("sqlite")  # a shared database is migrated by `duetime migrate` alone
    keys = store_keys(settings)
    store = open_store(settings.database_url, synchronous=settings.sqlite_synchronous, migrate=embedded, **keys)
    named.read_by(store.secrets.value)
    registry = PoolRegistry(store, zone=settings.timezone, currency=settings.currency, via=via)
    if "pools" in settings.model_fields_set:  # who is told nothing of pools, as a client may be, removes none
        registry.declare(settings.pools, settings.operator_tenant)
    traces = configured_tracing() if tracing is None else tracing
    parts = _Parts(settings, store, known, channels, registry, LearnedEstimates(store), traces)
    runner = parts.runner(role, exhausted, hosted)
    remote_queue = RemoteQueue(runner.ask, runner.silence)
    scheduler = parts.scheduler(runner, remote_queue, via)
    parts.listeners.append(scheduler.ends.changes.touched)
    backlog = BacklogMonitor(store, policy=lambda: registry.policies.refresh().policy)
    notified = parts.listeners, parts.observers, traces
    return App(settings, store, known, channels, scheduler, runner, registry, remote_queue, backlog, *notified)


@dataclass(frozen=True, slots=True)
class _Parts:
    """Parts of one application that others are made of."""

    settings: Settings
    store: Store
    handlers: Handlers
    channels: Channels
    registry: PoolRegistry
    estimates: LearnedEstimates
    tracing: Tracing
    listeners: list[Listener] = field(default_factory=list)
    observers: Observers = field(default_factory=Observers)

    def runner(self, role: Role, exhausted: Callable[[], None], hosted: Callable[[], None] | None) -> Running:
        """Construct the part of the process that moves runs."""
        placement, deliverer, notifier = self._placement(), self._deliverer(), self._notifier(exhausted)
        if not self.settings.distributed:
            options = runner_options(self.settings)  # it makes the folder of the lock, which members do not have
            return Runner(
                self.store,
                self.handlers,
                replace(options, headroom=self.registry.policies.headroom(options.headroom)),
                placement=placement,
                registry=self.registry,
                deliverer=deliverer,
                notifier=notifier,
            )
        from duetime.scheduler.nodes.engine import DispatchEngine, Engine  # noqa: PLC0415 - the runner loads it later
        from duetime.server.distributed import make_member  # noqa: PLC0415 - with the worker, like the engine

        def make_engine(queue: DispatchQueue, options: WorkerOptions) -> EngineProtocol:
            if role is Role.SERVE:
                return DispatchEngine(self.store, queue, placement=placement, notifier=notifier)
            return Engine(
                self.store,
                queue,
                self.handlers,
                replace(options, allowance=allowance(self.settings), hosted=hosted),
                placement=placement,
                deliverer=deliverer,
                notifier=notifier,
            )

        return make_member(self.settings, self.store, self.registry, placement, make_engine, notifier=notifier)

    def _notifier(self, exhausted: Callable[[], None]) -> RunNotifier:
        quotas = tenant_quotas(self.settings, self.store.usage.cost_since, self.observers.not_admitted)
        spawns = FanOut(self.store, self._planner(), quotas).plan
        notifier = RunNotifier(self._notify, on_exhausted=exhausted, tracing=self.tracing, spawns=spawns)
        return self.observers.attached(notifier)

    def _planner(self) -> Planner:
        return replace(
            planner_of(self.settings, self.handlers, self.channels),
            pools=self.registry.pools,
            estimates=self.estimates.estimate,
            secrets=self.store.secrets.hosts,
            channel_secrets=partial(self.store.secrets.hosts, self.settings.operator_tenant),
            upstreams=self.store.dependencies.known,
        )

    def scheduler(self, runner: Running, remote_queue: RemoteQueue, via: str) -> service.Scheduler:
        """Construct the service; what it changes wakes the runner."""

        def changed(task_ids: Sequence[str]) -> None:
            runner.wake()
            self._notify(task_ids)

        notify = RunNotifier(changed).changed
        self.store.commits.listen(notify)  # until there is an engine, which looks itself
        return service.Scheduler(
            self.store,
            self._planner(),
            explainer=self._explainer(remote_queue),
            notices=ChangeNotices(remote_queue.recall, notify, via),
            fast_path=FastPath(runner, self._notify),
            quiet=quiet_plan(self.settings, self.settings.timezone),
            quotas=tenant_quotas(self.settings, self.store.usage.cost_since, self.observers.not_admitted),
            tracing=self.tracing,
        )

    def _explainer(self, remote_queue: RemoteQueue) -> Explainer:
        store, shared, declared = self.store, self.settings.distributed, self._declared()
        return Explainer(
            store,
            remote_queue,
            self.registry.pools,
            lambda tenant, action, own: self.estimates.estimate(tenant, action, declared.get(action), own),
            working=partial(any_worker_alive, store) if shared else lambda: True,
            drained=partial(any_worker_drained, store),
            known=partial(any_worker_handles, store) if shared else remote_queue.knows,
            silent=SilentWorkers(store) if shared else None,
        )

    def _placement(self) -> Placement:
        registry, learned = self.registry, self.estimates
        return Placement(registry.known, learned.estimate, self._declared(), learned.prefetch, registry.policies.policy)

    def _deliverer(self) -> Deliverer | None:
        quiet = replace(quiet_plan(self.settings, self.settings.timezone), stored=self.store.quiet_hours.texts)
        found = Deliverer(self.store.deliveries, self.channels, quiet=quiet, tracing=self.tracing)
        return found if self.channels else None

    def _declared(self) -> dict[str, timedelta]:
        return {name: item.estimate for name, item in self.handlers.items() if item.estimate is not None}

    def _notify(self, task_ids: Sequence[str]) -> None:
        for listener in self.listeners:
            listener(task_ids)
