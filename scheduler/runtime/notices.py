"""Notices: what a process reports of its own work, where no event of a task records it. Subscribers log or count it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ProcessNotice:
    """Something that happened in this process."""


@dataclass(frozen=True, slots=True)
class RunNotice(ProcessNotice):
    """Something that happened to one run, or to its attempt."""

    run_id: str


class YieldRequested(RunNotice):
    """A run was requested to yield to a more urgent one."""


class ReservationGone(RunNotice):
    """The queue lost the reservation of a running run, which goes back to the queue."""


class HandedBackRunning(RunNotice):
    """A run was handed back at the end of its worker, although its handler did not stop."""


@dataclass(frozen=True, slots=True)
class StoreAwaited(RunNotice):
    """A handler waits for a database that is away."""

    error: Exception


@dataclass(frozen=True, slots=True)
class AttemptBroken(RunNotice):
    """An attempt failed outside its handler."""

    action: str
    error: BaseException


@dataclass(frozen=True, slots=True)
class ProcessKilled(RunNotice):
    """An isolated handler did not stop on request, so its process was killed."""

    action: str
    grace_s: float


@dataclass(frozen=True, slots=True)
class HandlerUnstopped(RunNotice):
    """A handler did not stop at its time limit, so its attempt ended without it."""

    action: str
    grace_s: float


class ThreadLost(HandlerUnstopped):
    """Such a handler keeps its thread until it returns."""


class EventLoopBlocked(HandlerUnstopped):
    """Such a handler blocks the event loop, which another loop replaces."""


@dataclass(frozen=True, slots=True)
class LateReturn(RunNotice):
    """A handler returned after its attempt had timed out; its `outcome` is discarded."""

    outcome: str


@dataclass(frozen=True, slots=True)
class ResultRefused(RunNotice):
    """The database does not accept the result of an attempt, so the run fails."""

    error: Exception


class FailureRefused(ResultRefused):
    """The database does not accept that failure either."""


@dataclass(frozen=True, slots=True)
class LateResults(ProcessNotice):
    """Results came from attempts that no longer own their runs, and were discarded."""

    run_ids: Sequence[str]


@dataclass(frozen=True, slots=True)
class ThreadsExhausted(ProcessNotice):
    """A worker has lost as many threads as it replaces."""

    count: int


@dataclass(frozen=True, slots=True)
class GraceExceeded(ProcessNotice):
    """Runs of these actions did not end within the grace period of their worker."""

    count: int
    actions: str


class DrainBegun(ProcessNotice):
    """An operator drains this worker."""


class DrainEnded(ProcessNotice):
    """This worker takes runs again."""


@dataclass(frozen=True, slots=True)
class TermBegun(ProcessNotice):
    """This process is the runner now; the one before left runs running."""

    epoch: int
    left: int


class TermReplaced(ProcessNotice):
    """Another process took over as the runner."""


@dataclass(frozen=True, slots=True)
class DelaysShortened(ProcessNotice):
    """The clock was set back, and the delays of these runs were shortened."""

    run_ids: Sequence[str]


@dataclass(frozen=True, slots=True)
class RunsQueued(ProcessNotice):
    """Ready runs were put into a queue that did not have them."""

    count: int


class RunsQueuedAtStart(RunsQueued):
    """The same at the start of a process, whose queue in memory begins empty."""


class QueueRebuilt(ProcessNotice):
    """An empty queue was rebuilt from the database."""


@dataclass(frozen=True, slots=True)
class QueueRefilled(ProcessNotice):
    """A damaged queue was refilled from the database."""

    damage: str


@dataclass(frozen=True, slots=True)
class QueueLeft(ProcessNotice):
    """The queue became unreachable."""

    error: Exception


@dataclass(frozen=True, slots=True)
class QueueReturned(ProcessNotice):
    """The queue is reachable again after so many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class RowsSwept(ProcessNotice):
    """Retention deleted rows of one kind; no batch took longer than `longest_s`."""

    kind: str
    deleted: int
    longest_s: float
