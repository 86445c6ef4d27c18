"""The watch over an installation: a loop with the monitor of alerts, in processes that serve or work."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from duetime.scheduler.delivery import Channels
from duetime.scheduler.delivery.channel import Channel
from duetime.scheduler.nodes.heartbeat import DRAINED, DRAINING, RUNNING, SILENT
from duetime.scheduler.queue import Stats
from duetime.scheduler.rules.alerts.alert import Observation, RecentOutcomes
from duetime.scheduler.rules.alerts.alert_rules import OUTCOME_WINDOW
from duetime.scheduler.runtime.loop import STEP_TIMEOUT_S, Loop
from duetime.server.telemetry.alerts.monitor import AlertMonitor
from duetime.server.telemetry.alerts.weekly_report import WeeklyReport
from duetime.server.telemetry.installation import InstallationReader, InstallationState

if TYPE_CHECKING:
    from duetime.scheduler.queue.remote import RemoteQueue
    from duetime.scheduler.store import Store
    from duetime.server.settings.model import Settings

TRIPPED: Final = "tripped"


class Watched(Protocol):
    """An application that is watched; a reload replaces its parts."""

    @property
    def store(self) -> Store: ...

    @property
    def channels(self) -> Channels: ...

    @property
    def remote_queue(self) -> RemoteQueue: ...


@contextmanager
def watching(app: Watched, settings: Settings) -> Iterator[None]:
    """Watch, and report each week, for the time of the block; each where the settings name channels to tell."""
    loops = list(_loops(app, settings))
    for loop in loops:
        loop.start()
    try:
        yield
    finally:
        for loop in loops:
            loop.stop(STEP_TIMEOUT_S)


def _loops(app: Watched, settings: Settings) -> Iterator[Loop]:
    def store() -> Store:
        return app.store

    if settings.alert_channels:
        repeat, channels = (
            timedelta(hours=settings.alert_repeat_hours),
            partial(_channels, app, settings.alert_channels),
        )
        yield Loop("alerts", AlertMonitor(store, Observer(app).observe, channels, repeat=repeat).step)
    if settings.report_channels:
        channels = partial(_channels, app, settings.report_channels)
        yield Loop("weekly report", WeeklyReport(store, channels, zone=settings.timezone or "UTC").step)


def _channels(app: Watched, names: Sequence[str]) -> list[Channel]:
    """Return the channels to tell; a desktop that this machine lacks is left out."""
    return [app.channels[name] for name in names if name in app.channels]


class Observer:
    """Reads the state that the rules look at."""

    def __init__(self, app: Watched) -> None:
        self._app = app
        self._reader = InstallationReader(lambda: app.store, self._stats)

    def observe(self) -> Observation:
        """Read the state now."""
        store, state = self._app.store, self._reader.read()
        return observation_of(state, store.backlog.recent_outcomes(store.now(), OUTCOME_WINDOW), store.skew())

    def _stats(self) -> Stats | None:
        return self._app.remote_queue.stats()


def observation_of(state: InstallationState, outcomes: RecentOutcomes, skew: float) -> Observation:
    """Return what the rules look at, of the state of an installation."""
    pools = state.stats.pools if state.stats else None
    return Observation(
        starvation={each.tier: each.oldest / each.patience for each in state.lateness} if state.lateness else None,
        outcomes=outcomes,
        overrun=None
        if pools is None
        else {name: use.spent / use.capacity for name, use in pools.items() if use.capacity},
        tripped=None if pools is None else [name for name, use in pools.items() if use.state == TRIPPED],
        silent_workers=state.workers.get(SILENT),
        drained_workers=_drained(state.workers),
        disk_used=state.disk_used,
        skew={socket.gethostname(): skew},
    )


def _drained(workers: Mapping[str, int]) -> int | None:
    if not workers:
        return None
    return 0 if workers.get(RUNNING) else workers.get(DRAINING, 0) + workers.get(DRAINED, 0)
