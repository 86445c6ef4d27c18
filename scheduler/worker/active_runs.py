"""The claims that this worker has in hand: from the transaction that started a run to the one that settled it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from threading import Condition, Lock, Thread

from duetime.scheduler.records import Claim
from duetime.scheduler.runtime.interrupt import CancelRequested, Interrupt, Interruptible
from duetime.scheduler.worker.usage import AttemptUsage


@dataclass(slots=True)
class Turn:
    """A run on its thread: when it began and was asked to give way, in seconds of the clock of preemption.

    `progressed` says that it saved a checkpoint or showed progress, `polls` that its handler called `should_yield`.
    """

    began_at: float | None = None
    asked_at: float | None = None
    progressed: bool = False
    polls: bool = False


class ActiveRun:
    """One claimed run. `begin` lets exactly one thread run it; `hand_over` lets exactly one settle it."""

    def __init__(self, claim: Claim) -> None:
        self.claim = claim
        self.call = Interruptible()
        self.usage = AttemptUsage(claim.reserved)
        self.yielding = False
        self.ends_by: float | None = None
        """When its time limit is reached or, once it was, when it has to have stopped; by the clock of supervision."""
        self.timed_out = False
        self.thread: Thread | None = None
        self.kill: Callable[[], None] | None = None
        """Ends the process that its handler has to itself, while it has one."""
        self.kill_at: float | None = None
        self.told_to_stop = False
        self.turn = Turn()
        self._begun = Lock()
        self._handed_over = Lock()

    @property
    def run_id(self) -> str:
        return self.claim.run.id

    @property
    def action(self) -> str:
        return self.claim.task.action

    @property
    def cancelled(self) -> bool:
        return self.call.wanted is CancelRequested

    def begin(self) -> bool:
        """Return True to the first who asks."""
        return self._begun.acquire(blocking=False)

    def put_back(self) -> None:
        """Let another thread begin it later; only the thread that began it may say so, before it ran."""
        self._begun.release()

    @property
    def ended(self) -> bool:
        """Whether it is settled, or about to be."""
        return self._handed_over.locked()

    def should_yield(self) -> bool:
        """Answer its handler, and note that it asks."""
        self.turn.polls = True
        return self.yielding

    def progressed(self, *, written: bool) -> bool:
        """Note that a checkpoint or progress was `written`; returns that."""
        self.turn.progressed |= written
        return written

    def hand_over(self) -> bool:
        """Return True to the first who asks."""
        return self._handed_over.acquire(blocking=False)

    def abandon(self) -> bool:
        """Take over the end of the attempt from its handler; False when that has come to an end."""
        if not self.hand_over():
            return False
        self.usage.end()
        return True

    def interrupt(self, why: type[Interrupt]) -> None:
        self.call.interrupt(why)


class ActiveRuns:
    """All of them, by run. Thread-safe."""

    def __init__(self) -> None:
        self._held: dict[str, ActiveRun] = {}
        self._closed = False
        self._changed = Condition()

    def add(self, claims: Iterable[Claim]) -> bool:
        """Take claims in hand; False, and none is, after `close`."""
        with self._changed:
            if not self._closed:
                self._held.update({claim.run.id: ActiveRun(claim) for claim in claims})
            return not self._closed

    def close(self) -> list[ActiveRun]:
        """Take nothing more in hand, and return what is."""
        with self._changed:
            self._closed = True
            return list(self._held.values())

    def get(self, run_id: str) -> ActiveRun | None:
        return self._held.get(run_id)

    def remove(self, ended: Iterable[ActiveRun]) -> None:
        """Let go of these claims, but never of a later claim of the same run."""
        with self._changed:
            for held in ended:
                if self._held.get(held.run_id) is held:
                    del self._held[held.run_id]
            self._changed.notify_all()

    def all(self) -> list[ActiveRun]:
        with self._changed:
            return list(self._held.values())

    def wait_until(self, condition: Callable[[], bool], timeout: float) -> bool:
        """Wait until `condition` holds, looking again after each removal; False when it took longer than `timeout`."""
        with self._changed:
            return self._changed.wait_for(condition, timeout)

    def __len__(self) -> int:
        return len(self._held)
