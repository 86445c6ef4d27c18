"""Run notifier: how the parts of a process learn what happened in another part of it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from duetime.scheduler.errors import Refused
from duetime.scheduler.events import EventKind
from duetime.scheduler.records import NewTask
from duetime.scheduler.run_records import Claim, EndedRun, Settlement
from duetime.scheduler.runtime.notices import ProcessNotice
from duetime.scheduler.runtime.traces import NO_TRACING, Tracing
from duetime.scheduler.task import Json, Task

log = logging.getLogger(__name__)


def _ignore(*_news: object) -> None:
    """Notify nobody."""


@dataclass(frozen=True, slots=True)
class RunEvent:
    """A change of a run that this process has just stored; with the settlement where that ended an attempt or the run.

    `claim` has the run and its task as they were, where the process has them. A run that no attempt ended has an
    `end` instead.
    """

    kind: EventKind
    run_id: str
    reason: str | None = None
    settlement: Settlement | None = field(default=None, compare=False)
    claim: Claim | None = field(default=None, compare=False, repr=False)
    end: EndedRun | None = field(default=None, compare=False, repr=False)


Subscriber = Callable[[Sequence[RunEvent]], None]
"""Gets events after their commit: for logs, metrics or traces."""

NoticeObserver = Callable[[ProcessNotice], None]
"""Gets notices when they happen, on the thread on which they do."""


Spawns = Callable[[Task, Sequence[Mapping[str, Json]]], Sequence[tuple[str, NewTask]]]
"""Plans the tasks that a run of a task spawns. Raises DuetimeError for what cannot be planned."""


def spawns_nothing(_parent: Task, _spawned: Sequence[Mapping[str, Json]]) -> Sequence[tuple[str, NewTask]]:
    raise Refused("no task can be spawned here")


@dataclass(frozen=True, slots=True)
class RunNotifier:
    """Calls each listener on the thread on which something happened, after its commit; listeners must be quick.

    `on_change` gets the ids of tasks whose run moved, `on_settled` how attempts ended. `on_replaced` is called when
    another process has raised the epoch, `on_exhausted` when a worker has lost as many threads as it has.
    `on_stop_wanted` is called when running runs were asked to stop. Each of `subscribers` gets the events that this
    process stores when runs start and end, whatever ends them; each of `observers` gets its notices. `tracing` records
    attempts from within: what their handlers call belongs to them. `spawns` plans what a handler spawns.
    """

    on_change: Callable[[Sequence[str]], None] = _ignore
    on_settled: Callable[[Sequence[Settlement]], None] = _ignore
    on_replaced: Callable[[], None] = _ignore
    on_exhausted: Callable[[], None] = _ignore
    on_stop_wanted: Callable[[], None] = _ignore
    subscribers: Sequence[Subscriber] = ()
    observers: Sequence[NoticeObserver] = ()
    tracing: Tracing = NO_TRACING
    spawns: Spawns = spawns_nothing

    def changed(self, task_ids: Sequence[str]) -> None:
        """Notify of tasks whose run moved. Never raises: what a listener raises is logged."""
        try:
            self.on_change(task_ids)
        except Exception:
            log.exception("a change listener failed")

    def happened(self, events: Sequence[RunEvent]) -> None:
        """Notify the subscribers. Never raises: what a subscriber raises is logged."""
        for subscriber in self.subscribers if events else ():
            try:
                subscriber(events)
            except Exception:
                log.exception("a subscriber of events failed")

    def noticed(self, notice: ProcessNotice) -> None:
        """Notify the observers. Never raises: what an observer raises is logged."""
        for observe in self.observers:
            try:
                observe(notice)
            except Exception:
                log.exception("an observer of notices failed")

    def started(self, claims: Sequence[Claim]) -> None:
        """Notify of attempts that have started."""
        if self.subscribers:
            self.happened([RunEvent(EventKind.STARTED, claim.run.id, claim=claim) for claim in claims])
        self.changed([claim.task.id for claim in claims])

    def settled(self, settlements: Sequence[Settlement]) -> None:
        """Notify of attempts that have ended, and of the tasks that they belong to."""
        self.on_settled(settlements)
        if self.subscribers:
            self.happened([RunEvent(end.kind, end.run_id, end.reason, end, end.claim) for end in settlements])

    def ended(self, ends: Sequence[EndedRun]) -> None:
        """Notify of runs that ended, but by no attempt."""
        if self.subscribers:
            self.happened([RunEvent(EventKind(end.state.value), end.run_id, end=end) for end in ends])
