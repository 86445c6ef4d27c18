"""The application: the only module that constructs the parts of a process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from types import TracebackType
from typing import Self

from duetime.scheduler.delivery import Channels
from duetime.scheduler.dispatch.learned_estimates import LearnedEstimates
from duetime.scheduler.dispatch.pool_registry import PoolRegistry
from duetime.scheduler.errors import InvalidSetting
from duetime.scheduler.foresight.lateness import BacklogMonitor
from duetime.scheduler.handlers import Handlers, Plugin
from duetime.scheduler.nodes.candidacy import Candidacy
from duetime.scheduler.nodes.member import Member
from duetime.scheduler.nodes.runner import Runner
from duetime.scheduler.queue import QueueTaken
from duetime.scheduler.queue.remote import RemoteQueue
from duetime.scheduler.runtime.traces import NO_TRACING, Tracing
from duetime.scheduler.service import scheduler as service
from duetime.scheduler.store import Store, open_store
from duetime.server.parts import Listener, Parts, Role, Running
from duetime.server.runtime.readiness import readiness
from duetime.server.settings.handlers import load_handlers
from duetime.server.settings.model import Settings
from duetime.server.settings.options import channel_options
from duetime.server.settings.secret_keys import SettingSecrets, store_keys
from duetime.server.telemetry.observers import Observers
from duetime.server.telemetry.trace_setup import configured_tracing

__all__ = ["App", "Listener", "Role", "Running", "build"]

TRACE_FLUSH_GRACE_S = 2.0
"""Seconds that the end of a process waits for a collector of traces, at most."""


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
        if self.scheduler.external_runs is not None:
            self.scheduler.external_runs.start()

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
        if self.scheduler.external_runs is not None:
            self.scheduler.external_runs.close()
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
    parts = Parts(settings, store, known, channels, registry, LearnedEstimates(store), traces)
    runner = parts.runner(role, exhausted, hosted)
    remote_queue = RemoteQueue(runner.ask, runner.silence)
    scheduler = parts.scheduler(runner, remote_queue, via)
    parts.listeners.append(scheduler.ends.changes.touched)
    backlog = BacklogMonitor(store, policy=lambda: registry.policies.refresh().policy)
    notified = parts.listeners, parts.observers, traces
    return App(settings, store, known, channels, scheduler, runner, registry, remote_queue, backlog, *notified)
