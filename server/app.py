"""The application: the only place that constructs things."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum
from functools import partial
from types import TracebackType
from typing import Protocol, Self

from duetime.scheduler import service
from duetime.scheduler.delivery import Channels
from duetime.scheduler.delivery.deliverer import Deliverer
from duetime.scheduler.dispatch.fast_path import Desk, Direct
from duetime.scheduler.dispatch.learned_estimates import Experience
from duetime.scheduler.dispatch.placement import Placing
from duetime.scheduler.dispatch.pool_registry import Registry
from duetime.scheduler.errors import InvalidSetting
from duetime.scheduler.foresight.explain import Explainer
from duetime.scheduler.handlers import Handler, Handlers
from duetime.scheduler.intake.planner import Intake
from duetime.scheduler.nodes.engine import Crew, Dispatching
from duetime.scheduler.nodes.heartbeat import someone_works
from duetime.scheduler.nodes.member import Member, Team
from duetime.scheduler.nodes.runner import Runner
from duetime.scheduler.queue import DispatchQueue, QueueTaken
from duetime.scheduler.queue.remote import Inquiry, Question, Silence
from duetime.scheduler.store import Store, open_store
from duetime.scheduler.task import Json
from duetime.scheduler.worker.worker import WorkerOptions
from duetime.server.distributed import make_member
from duetime.server.settings.model import Settings
from duetime.server.settings.options import allowance, channel_options, runner_options, webhook_options
from duetime.server.settings.source import load_settings

Listener = Callable[[Sequence[str]], None]


class Role(StrEnum):
    """What a process of a shared installation does; without Redis each is both."""

    SERVE = "serve"  # answers callers and dispatches what is due
    WORK = "work"  # runs it


class Running(Desk, Protocol):
    """The part of a process that moves runs: the runner or a candidate for it, or one of many."""

    def start(self) -> None: ...

    def wake(self) -> None: ...

    def ask(self, question: Question) -> Json: ...

    def silence(self) -> Silence: ...

    def stop(self, grace: timedelta | None = None) -> None: ...


@dataclass(frozen=True, slots=True)
class App:
    """Everything of one process, constructed and connected. Closing it stops the runner and gives back what ran."""

    settings: Settings
    store: Store
    handlers: Handlers
    channels: Channels
    scheduler: service.Scheduler
    runner: Running
    registry: Registry
    inquiry: Inquiry
    listeners: list[Listener]
    """Told, on any thread, the ids of tasks that changed or fired in this process; must be quick."""

    def start(self) -> None:
        """Run what is due as soon as no other process does; a process that only reads or schedules need not.

        In a shared installation this process does its part of it; InvalidSetting is raised where the queue is that of
        another one.
        """
        try:
            self.runner.start()
        except QueueTaken as error:
            raise InvalidSetting(str(error)) from error

    def ready(self) -> str:
        """Say that tasks can be scheduled, and what is wrong nevertheless. Raises StoreUnavailable when they cannot."""
        self.store.history.latest()
        if isinstance(self.runner, Member) and self.runner.queue.away is not None:
            why = self.runner.queue.away
            wrong = str(why) if isinstance(why, QueueTaken) else "Redis is away"
            return f"ok, but {wrong}: tasks are stored, and start when it is back"
        return "ok"

    def close(self) -> None:
        """Stop running within the grace period, hand back what did not end, and close the database."""
        self.runner.stop(timedelta(seconds=self.settings.grace_seconds))
        self.channels.close()
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def build(
    settings: Settings,
    *,
    handlers: Sequence[Handler] = (),
    role: Role = Role.SERVE,
    hosted: Callable[[], None] | None = None,
    exhausted: Callable[[], None] = lambda: None,
) -> App:
    """Construct the application of one process; `handlers` are those beside the built-in and configured ones.

    `hosted`: the threads of a worker are those of Dramatiq's command line, which calls this when it stops. `exhausted`
    is called when a worker has lost as many threads as it has.

    Raises InvalidSetting for a handler module or channel that cannot be loaded, SchemaTooNew for the database of a
    newer Duetime, and StoreUnavailable when it cannot be opened.
    """
    settings.create_data_directory()
    loaded = Handlers.load(settings.handlers, webhooks=webhook_options(settings))
    known = Handlers([*loaded.values(), *handlers]).isolated(settings.isolated_actions)
    channels = Channels.from_options(channel_options(settings))
    embedded = settings.database_url.startswith("sqlite")  # a shared database is migrated by `duetime migrate` alone
    store = open_store(settings.database_url, synchronous=settings.sqlite_synchronous, migrate=embedded)
    listeners: list[Listener] = []
    registry = Registry(store, zone=settings.timezone)
    if "pools" in settings.model_fields_set:  # who is told nothing of pools, as a client may be, removes none
        registry.declare(settings.pools)
    experience = Experience(store)
    estimates = {name: handler.estimate for name, handler in known.items() if handler.estimate is not None}
    placing = Placing(registry.known, experience.estimate, estimates, experience.prefetch)
    deliverer = Deliverer(store.deliveries, channels) if channels else None

    def told(task_ids: Sequence[str]) -> None:
        for listener in listeners:
            listener(task_ids)

    def recruit(queue: DispatchQueue, options: WorkerOptions) -> Team:
        if role is Role.SERVE:
            return Dispatching(store, queue, placing=placing, on_change=told)
        return Crew(
            store,
            queue,
            known,
            options,
            placing=placing,
            deliverer=deliverer,
            on_change=told,
            allowance=allowance(settings),
            on_exhausted=exhausted,
            hosted=hosted,
        )

    runner: Running
    if settings.distributed:
        runner = make_member(settings, store, registry, placing, recruit)
    else:
        options = runner_options(settings)
        runner = Runner(store, known, options, placing=placing, registry=registry, deliverer=deliverer, on_change=told)
    inquiry = Inquiry(runner.ask, runner.silence)

    def changed(task_ids: Sequence[str]) -> None:
        runner.wake()
        told(task_ids)

    intake = replace(_intake(settings, known, channels), pools=registry.pools, estimates=experience.estimate)
    explainer = Explainer(
        store,
        inquiry,
        registry.pools,
        lambda tenant, action, own: experience.estimate(tenant, action, estimates.get(action), own),
        working=partial(someone_works, store) if settings.distributed else lambda: True,
    )
    scheduler = service.Scheduler(
        store,
        intake,
        explainer=explainer,
        recall=inquiry.recall,
        on_change=changed,
        direct=Direct(runner, told),
    )
    return App(settings, store, known, channels, scheduler, runner, registry, inquiry, listeners)


def _intake(settings: Settings, handlers: Handlers, channels: Channels) -> Intake:
    return Intake(
        handlers,
        settings.timezone,
        channels=channels,
        default_channels=_default_channels(settings, channels),
        minimum_interval=timedelta(seconds=settings.minimum_interval_seconds),
    )


def _default_channels(settings: Settings, channels: Channels) -> tuple[str, ...]:
    """Return where outcomes go when a task does not say; a desktop that this machine has not is left out."""
    named = settings.deliver_to or channels.default_channels()
    return tuple(name for name in named if name in channels)


class Scheduler(service.Scheduler):
    """The scheduling service for programs: `Scheduler.open()` is all the set-up there is."""

    @classmethod
    @contextmanager
    def open(
        cls, settings: Settings | None = None, *, handlers: Sequence[Handler] = (), run: bool = True
    ) -> Iterator[service.Scheduler]:
        """Open the scheduler of `settings` (by default those of the environment) for the time of the block.

        With `run`, this process also runs what is due, unless another one does (of a shared installation it is one
        worker of many); `handlers` are known in this process
        beside the configured ones.
        """
        role = Role.WORK if run else Role.SERVE
        with build(settings or load_settings(), handlers=handlers, role=role) as app:
            if run:
                app.start()
            yield app.scheduler
