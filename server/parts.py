"""The parts of one application that others are made of: the part that moves runs, and the service."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Protocol

from duetime.scheduler.delivery import Channels
from duetime.scheduler.delivery.deliverer import Deliverer
from duetime.scheduler.dispatch.fast_path import DispatchTarget, FastPath
from duetime.scheduler.dispatch.learned_estimates import LearnedEstimates
from duetime.scheduler.dispatch.placement import Placement
from duetime.scheduler.dispatch.pool_registry import PoolRegistry
from duetime.scheduler.foresight.explainer import Explainer
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.nodes.heartbeat import SilentWorkers, any_worker_alive, any_worker_drained, any_worker_handles
from duetime.scheduler.nodes.member import EngineProtocol
from duetime.scheduler.nodes.runner import Runner
from duetime.scheduler.queue import DispatchQueue
from duetime.scheduler.queue.remote import NoAnswer, Question, RemoteQueue
from duetime.scheduler.runtime.notifier import RunNotifier
from duetime.scheduler.runtime.traces import Tracing
from duetime.scheduler.service import scheduler as service
from duetime.scheduler.service.change_notices import ChangeNotices
from duetime.scheduler.service.fan_out import FanOut
from duetime.scheduler.store import Store
from duetime.scheduler.task import Json
from duetime.server.settings.model import Settings
from duetime.server.settings.notices import quiet_plan
from duetime.server.settings.options import allowance, planner_of, runner_options, tenant_quotas
from duetime.server.telemetry.observers import Observers

if TYPE_CHECKING:
    from duetime.scheduler.worker.external.external_runs import ExternalRuns
    from duetime.scheduler.worker.worker import WorkerOptions

Listener = Callable[[Sequence[str]], None]


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
class Parts:
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
                self.handlers.local(),
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
                self.handlers.local(),
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
        found = service.Scheduler(
            self.store,
            self._planner(),
            explainer=self._explainer(remote_queue),
            notices=ChangeNotices(remote_queue.recall, notify, via),
            fast_path=FastPath(runner, self._notify),
            quiet=quiet_plan(self.settings, self.settings.timezone),
            quotas=tenant_quotas(self.settings, self.store.usage.cost_since, self.observers.not_admitted),
            tracing=self.tracing,
        )
        found.external_runs = self._external_runs(runner, remote_queue) if self.handlers.external else None
        return found

    def _external_runs(self, runner: Running, remote_queue: RemoteQueue) -> ExternalRuns:
        from duetime.scheduler.worker.external.external_runs import ExternalRuns  # noqa: PLC0415 - few have any

        notifier = self._notifier(lambda: None)
        found = ExternalRuns(
            self.store,
            remote_queue,
            self.handlers,
            notifier,
            settled=runner.wake,
            dispatches=lambda: runner.dispatches,
        )
        self.listeners.append(found.waits.touched)
        return found

    def _explainer(self, remote_queue: RemoteQueue) -> Explainer:
        store, shared, declared = self.store, self.settings.distributed, self._declared()
        found = Explainer(
            store,
            remote_queue,
            self.registry.pools,
            lambda tenant, action, own: self.estimates.estimate(tenant, action, declared.get(action), own),
            working=partial(any_worker_alive, store) if shared else lambda: True,
            drained=partial(any_worker_drained, store),
            known=partial(any_worker_handles, store) if shared else remote_queue.knows,
            silent=SilentWorkers(store) if shared else None,
        )
        found.leases = {name: self.handlers[name].lease or timedelta(0) for name in self.handlers.external}
        return found

    def _placement(self) -> Placement:
        registry, learned = self.registry, self.estimates
        return Placement(
            registry.known,
            learned.estimate,
            self._declared(),
            learned.prefetch,
            registry.policies.policy,
            self.handlers.external,
        )

    def _deliverer(self) -> Deliverer | None:
        quiet = replace(quiet_plan(self.settings, self.settings.timezone), stored=self.store.quiet_hours.texts)
        found = Deliverer(self.store.deliveries, self.channels, quiet=quiet, tracing=self.tracing)
        return found if self.channels else None

    def _declared(self) -> dict[str, timedelta]:
        return {name: item.estimate for name, item in self.handlers.items() if item.estimate is not None}

    def _notify(self, task_ids: Sequence[str]) -> None:
        for listener in self.listeners:
            listener(task_ids)
