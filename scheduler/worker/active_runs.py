"""The claims that this worker holds: from the transaction that started a run to the one that settled it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from threading import Condition, Lock, Thread

from duetime.scheduler.rules.settlement import AttemptResult
from duetime.scheduler.run_records import Claim, Settlement
from duetime.scheduler.runtime.attempt_context import AttemptName
from duetime.scheduler.runtime.interrupt import CancelRequested, Interrupt, Interruptible
from duetime.scheduler.runtime.notifier import RunNotifier
from duetime.scheduler.runtime.traces import AttemptTrace
from duetime.scheduler.worker.logs.attempt_log import AttemptLog
from duetime.scheduler.worker.usage import AttemptUsage

HURRIED_GRACE_S = 0.1
"""Seconds of each wait for runs to end, once someone wants this worker gone."""


def _no_listener() -> None:
    return None


@dataclass(slots=True)
class Turn:
    """A run on its thread: its start and its preemption request, in seconds of the preemption clock.

    `progressed`: it saved a checkpoint or reported progress; `polls`: its handler called `should_yield`.
    """

    began_at: float | None = None
    asked_at: float | None = None
    progressed: bool = False
    polls: bool = False


class ActiveRun:
    """One claimed run. `begin` lets exactly one thread run it; `hand_over` lets exactly one thread settle it."""

    def __init__(
        self,
        claim: Claim,
        taken_at: float | None = None,
        trace: AttemptTrace | None = None,
        logged: Callable[[], None] = _no_listener,
        notifier: RunNotifier = RunNotifier(),  # noqa: B008 - a frozen value
    ) -> None:
        self.claim = claim
        self.notifier = notifier
        self.trace = trace
        self.log = AttemptLog(claim.run.id, claim.run.attempt, logged)
        self.call = Interruptible()
        self.usage = AttemptUsage(claim.reserved, taken_at=taken_at)
        self.yielding = False
        self.ends_by: float | None = None
        """The time limit on the watchdog's clock; after that, the time by which the handler must have stopped."""
        self.timed_out = False
        self.unchecked: AttemptResult | None = None
        """Its result, should the worker stop before the check of it ends. Its handler has succeeded by then."""
        self.thread: Thread | None = None
        self.traceback: str | None = None
        """The traceback of the handler's exception, or of where the handler stood at its time limit."""
        self.kill: Callable[[], None] | None = None
        """Kills the isolated process of the handler, while there is one."""
        self.kill_at: float | None = None
        self.kill_is_planned = False
        self.store_away = False
        """Whether the database was away at the last call of the handler's context."""
        self.turn = Turn()
        self._begun = Lock()
        self._handed_over = Lock()

    @property
    def run_id(self) -> str:
        return self.claim.run.id

    @property
    def name(self) -> AttemptName:
        """Its name in log lines."""
        run = self.claim.run
        return AttemptName(run.task_id, run.id, run.attempt, self.action)

    @property
    def action(self) -> str:
        return self.claim.task.action

    def handling(self) -> AbstractContextManager[None]:
        """Return the context in which its handler is traced."""
        return nullcontext() if self.trace is None else self.trace.handling()

    def traced(self, end: Settlement) -> Settlement:
        """Return the settlement with the trace that logs and deliveries continue."""
        if self.trace is None or not (traceparent := self.trace.traceparent):
            return end
        self.trace.settling()
        state = self.trace.tracestate or None
        deliveries = tuple(replace(each, traceparent=traceparent, tracestate=state) for each in end.deliveries)
        return replace(end, traceparent=traceparent, deliveries=deliveries)

    @property
    def cancelled(self) -> bool:
        return self.call.pending is CancelRequested

    def keep_traceback(self, text: str) -> None:
        self.traceback = text

    def begin(self) -> bool:
        """Return True to the first caller only."""
        return self._begun.acquire(blocking=False)

    @property
    def ended(self) -> bool:
        """Whether it is settled, or about to be."""
        return self._handed_over.locked()

    def should_yield(self) -> bool:
        """Return the preemption flag to its handler, and record the poll."""
        self.turn.polls = True
        return self.yielding

    def progressed(self, *, written: bool) -> bool:
        """Record that a checkpoint or progress was `written`; return `written`."""
        self.turn.progressed |= written
        return written

    def hand_over(self) -> bool:
        """Return True to the first caller only."""
        return self._handed_over.acquire(blocking=False)

    def abandon(self) -> bool:
        """Take the end of the attempt over from its handler; False when the handler has ended."""
        if not self.hand_over():
            return False
        self.usage.end()
        return True

    def interrupt(self, why: type[Interrupt]) -> None:
        self.call.interrupt(why)


class ActiveRuns:
    """All claims of the worker, by run; `logged` is called when one has a log line to store. Thread-safe."""

    def __init__(
        self,
        notifier: RunNotifier = RunNotifier(),  # noqa: B008 - a frozen value
        logged: Callable[[], None] = _no_listener,
    ) -> None:
        self.notifier = notifier
        self._logged = logged
        self._held: dict[str, ActiveRun] = {}
        self._closed = False
        self._hurried = False
        self._changed = Condition()

    def add(self, claims: Iterable[Claim], taken_at: float | None = None) -> bool:
        """Add claims, taken at this monotonic time; False, and none is added, after `close`."""
        with self._changed:
            if not self._closed:
                self._held.update({claim.run.id: self._begun(claim, taken_at) for claim in claims})
            return not self._closed

    def _begun(self, claim: Claim, taken_at: float | None) -> ActiveRun:
        trace = self.notifier.tracing.attempt(claim, taken_at)
        return ActiveRun(claim, taken_at, trace, self._logged, self.notifier)

    def close(self) -> list[ActiveRun]:
        """Accept no more claims, and return the current ones."""
        with self._changed:
            self._closed = True
            return list(self._held.values())

    def get(self, run_id: str) -> ActiveRun | None:
        return self._held.get(run_id)

    def remove(self, ended: Iterable[ActiveRun]) -> None:
        """Remove these claims, but never a later claim of the same run."""
        with self._changed:
            for held in ended:
                if self._held.get(held.run_id) is held:
                    del self._held[held.run_id]
            self._changed.notify_all()

    def all(self) -> list[ActiveRun]:
        with self._changed:
            return list(self._held.values())

    def wait_until_empty(self, timeout: float) -> bool:
        """Wait until there are none; False after `timeout` seconds, or soon after `hurry`."""
        with self._changed:
            self._changed.wait_for(lambda: not self._held or self._hurried, timeout)
            return self._changed.wait_for(lambda: not self._held, HURRIED_GRACE_S if self._hurried else 0)

    def hurry(self) -> None:
        """Shorten every wait for an end, one that is under way too."""
        with self._changed:
            self._hurried = True
            self._changed.notify_all()

    def __len__(self) -> int:
        return len(self._held)
