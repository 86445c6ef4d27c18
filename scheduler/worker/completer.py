"""Group commit: threads hand in the results of attempts, and one transaction stores all pending ones.

While this process lives no result is lost: what cannot be stored is tried again until it can. The number of pending
results is limited; then handing in blocks the worker's threads, so that nothing new starts without a database.
"""

from __future__ import annotations

import logging
import random
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import TypeVar

from duetime.scheduler.errors import DuetimeError, StoreUnavailable
from duetime.scheduler.outcomes import Done, Failed, Retry, Wait, Yielded
from duetime.scheduler.records import NewTask
from duetime.scheduler.rules.sanitize import clean_text
from duetime.scheduler.rules.settlement import AttemptResult, refresh, settle, without_consequences, without_series
from duetime.scheduler.run_records import Claim, Settlement, Verdict
from duetime.scheduler.runtime import failpoints
from duetime.scheduler.runtime.notices import FailureRefused, LateResults, ResultRefused
from duetime.scheduler.runtime.notifier import RunNotifier
from duetime.scheduler.store import Store
from duetime.scheduler.task import Notify, Run
from duetime.scheduler.worker.active_runs import ActiveRun

MAX_OUTCOMES_PER_GROUP = 256
MAX_REFUSAL_CHARS = 500
MAX_STORE_BACKOFF_S = 2.0
GROUP_FLUSH_DELAY_S = 0.01
"""Flush the batch after this many seconds without a new result, if the last batch had more than one."""

RESERVED_FLUSH_DELAY_S = 0.002
"""The same while a pending result holds units of pools: the runs that wait for these could start."""

MAX_GATHER_ROUNDS = 3
"""Waits per batch at most: an ended run keeps its slots and units until it is stored."""

MAX_RUSH_ROUNDS = 25
"""Waits while brief runs without reservations are being started: starting goes first, for a quarter of a second."""

DRAW_FRACTION = random.SystemRandom().random
"""Jitter, 0.0 to 1.0."""

T = TypeVar("T")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PendingResult:
    """The result of one attempt, pending, and its settlement."""

    held: ActiveRun
    ending: AttemptResult
    settlement: Settlement
    unstorable: bool = False


@dataclass(frozen=True, slots=True)
class UnsettledResult:
    """The result of one attempt, pending, which the thread that stores it settles."""

    held: ActiveRun
    ending: AttemptResult


@dataclass(frozen=True, slots=True)
class CompletedRun:
    """An attempt that is finished, and its settlement, which may not have been `stored`."""

    held: ActiveRun
    settlement: Settlement
    stored: bool = True


class BatchCompleter:
    """Stores results in batches, in the order they came in, on a thread of its own.

    After each commit `on_settled` is called with the attempts that are settled, or that a later attempt has replaced,
    and their settlements. While `starting` returns True, more runs are about to start, and a flush waits a little
    longer.
    """

    def __init__(
        self,
        store: Store,
        *,
        on_settled: Callable[[Sequence[CompletedRun]], None],
        starting: Callable[[], bool] = lambda: False,
        limit: int = MAX_OUTCOMES_PER_GROUP,
        jitter: Callable[[], float] = DRAW_FRACTION,
        notifier: RunNotifier = RunNotifier(),  # noqa: B008 - a frozen value
    ) -> None:
        self._store = store
        self._notifier = notifier
        self._on_settled = on_settled
        self._starting = starting
        self._limit = limit
        self._jitter = jitter
        self._waiting: deque[PendingResult | UnsettledResult] = deque()
        self._any_reserved = False
        """Whether a pending result reserves units, which others may be waiting for."""
        self._changed = threading.Condition()
        self._busy = False
        self._closing = False
        self._given_up = threading.Event()
        self._thread = threading.Thread(target=self._run, name="duetime-commits", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def hand_in(self, held: ActiveRun, ending: AttemptResult, *, wait: bool = True) -> None:
        """Hand in a result; blocks while `limit` results are pending or the database is away, unless `wait` is False.

        Settles it on the caller's thread, of which there are several; the one that stores is the busiest. That may read
        the database, so the one that stores does it when `wait` is False.
        """
        try:
            pending = self._pending(held, ending) if wait else UnsettledResult(held, ending)
        except StoreUnavailable:  # given up at shutdown, which is reported where results are stored
            pending = UnsettledResult(held, ending)
        with self._changed:
            self._changed.wait_for(lambda: not wait or len(self._waiting) < self._limit or self._closing)
            self._waiting.append(pending)
            self._any_reserved = self._any_reserved or bool(held.claim.reserved)
            if len(self._waiting) in {1, self._limit}:  # a gathering thread polls, and needs no notification
                self._changed.notify_all()

    def close(self, timeout: float) -> bool:
        """Flush for `timeout` seconds at most, and end; False when the store did not take all results."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._thread.ident is not None:
            self._thread.join(timeout)
        self._given_up.set()
        return not self._thread.is_alive()

    def _run(self) -> None:
        while group := self._next_group():
            try:
                self._store_group([self._with_settlement(handed) for handed in group])
            except StoreUnavailable:
                log.exception("could not store %d results before shutdown; the runs will be retried", len(group))
                return
            except Exception:
                log.exception("dropped %d results; the runs will be retried when their leases expire", len(group))
                lost = [(handed.held, without_consequences(handed.held.claim, "lost")) for handed in group]
                self._report_settled([CompletedRun(held, settlement, stored=False) for held, settlement in lost])

    def _next_group(self) -> list[PendingResult | UnsettledResult]:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closing)
            if self._busy:
                self._gather()
            group = [self._waiting.popleft() for _ in range(min(len(self._waiting), MAX_OUTCOMES_PER_GROUP))]
            self._busy = len(group) > 1
            self._any_reserved = any(handed.held.claim.reserved for handed in self._waiting)
            self._changed.notify_all()
            return group

    def _gather(self) -> None:
        """Wait a moment for more results while many runs end, so that they share one sync of the disk."""
        known = -1
        for waited in range(MAX_RUSH_ROUNDS):
            if len(self._waiting) >= self._limit or self._closing:
                return
            over = waited >= MAX_GATHER_ROUNDS or len(self._waiting) <= known
            if over and not self._starting():
                return
            known = len(self._waiting)
            self._changed.wait(RESERVED_FLUSH_DELAY_S if self._any_reserved else GROUP_FLUSH_DELAY_S)

    def _store_group(self, group: list[PendingResult], *, again: bool = False) -> None:
        settlements, calls = [handed.settlement for handed in group], count(int(again))
        try:  # a call that failed may have stored some all the same
            verdicts = self._retried(lambda: self._store.claims.settle(settlements, again=next(calls) > 0))
        except StoreUnavailable:
            raise
        except Exception as error:  # noqa: BLE001 - a result that no database accepts must not block others
            self._store_singly(group, error)
        else:
            failpoints.hit(failpoints.Step.SETTLED)
            self._conclude(group, verdicts)

    def _with_settlement(self, handed: PendingResult | UnsettledResult) -> PendingResult:
        return handed if isinstance(handed, PendingResult) else self._pending(handed.held, handed.ending)

    def _pending(self, held: ActiveRun, ending: AttemptResult, *, unstorable: bool = False) -> PendingResult:
        settlement = self._settled(held.claim, ending)
        used = held.usage.charged(settlement.outcome)
        settlement = replace(settlement, used=used, costs=self._store.usage.costs(used)) if used else settlement
        if held.traceback and settlement.error is not None and not unstorable:
            settlement = replace(settlement, traceback=held.traceback)
            held.log.keep_traceback(held.traceback, self._store.now())
        if lines := held.log.close():
            settlement = replace(settlement, log=lines)
        return PendingResult(held, ending, held.traced(settlement), unstorable)

    def _settled(self, claim: Claim, ending: AttemptResult) -> Settlement:
        """Return the settlement; a result whose consequences cannot be computed becomes a failure.

        Raises StoreUnavailable, and nothing else, for a result that spawns tasks: without a database at shutdown.
        """
        try:
            compared = claim.task.notify is Notify.CHANGE and not isinstance(ending, Wait | Yielded)
            before = self._before(claim) if compared else None
            ending, spawned = self._spawned(claim, ending)
            jitter = self._jitter() if isinstance(ending, Retry) else 0.0
            found = settle(claim, ending, now=self._store.now(), jitter=jitter, previous=before)
            return replace(found, spawned=spawned) if spawned else found
        except StoreUnavailable:  # given up at shutdown: the run is recovered, as when its result cannot be stored
            raise
        except Exception as error:
            log.exception("run %s: cannot settle its result, so the run fails", claim.run.id)
            reason = f"could not settle its result: {type(error).__name__}"
        for known in (claim, without_series(claim)):
            try:
                return replace(settle(known, Failed(reason), now=self._store.now(), jitter=0.0), claim=claim)
            except Exception:
                log.exception("run %s: cannot work out what follows from its failure", claim.run.id)
        return without_consequences(claim, reason)

    def _spawned(self, claim: Claim, ending: AttemptResult) -> tuple[AttemptResult, tuple[tuple[str, NewTask], ...]]:
        """Return the result with the tasks that it spawns; with tasks that cannot be, it is a failure."""
        if not isinstance(ending, Done) or not ending.spawn:
            return ending, ()
        try:
            return ending, tuple(self._retried(lambda: self._notifier.spawns(claim.task, ending.spawn)))
        except StoreUnavailable:
            raise
        except DuetimeError as refused:
            return Failed(clean_text(f"it cannot spawn its tasks: {refused}", MAX_REFUSAL_CHARS), ending.result), ()

    def _before(self, claim: Claim) -> Run | None:
        """Return the last run with an outcome, even a skipped one; None at a shutdown without a database."""
        try:
            return self._retried(lambda: self._store.tasks.compared_with(claim.task))
        except StoreUnavailable:
            return None

    def _conclude(self, group: list[PendingResult], verdicts: Sequence[Verdict]) -> None:
        judged = list(zip(group, verdicts, strict=True))
        stale = [handed for handed, verdict in judged if verdict is Verdict.STALE]
        ended = [
            CompletedRun(handed.held, handed.settlement, stored=verdict is Verdict.SETTLED)
            for handed, verdict in judged
            if verdict is not Verdict.STALE
        ]
        if Verdict.FENCED in verdicts:
            late = [handed.held.run_id for handed, verdict in judged if verdict is Verdict.FENCED]
            self._notifier.noticed(LateResults(late))
        self._report_settled(ended)
        if stale:
            self._store_group([self._reloaded(handed) for handed in stale])

    def _reloaded(self, handed: PendingResult) -> PendingResult:
        """Apply the changes of the task and its run since the claim."""
        claim = handed.held.claim
        record = self._retried(lambda: self._store.tasks.get(claim.run.tenant, claim.run.task_id))
        handed.held.claim = refresh(claim, record)
        return self._pending(handed.held, handed.ending, unstorable=handed.unstorable)

    def _store_singly(self, group: list[PendingResult], error: Exception) -> None:
        if len(group) > 1:
            for handed in group:
                self._store_group([handed], again=True)
        elif group[0].unstorable:
            self._notifier.noticed(FailureRefused(group[0].held.run_id, error))
            self._report_settled([CompletedRun(group[0].held, group[0].settlement, stored=False)])
        else:
            self._notifier.noticed(ResultRefused(group[0].held.run_id, error))
            ending = Failed(f"could not store its result: {type(error).__name__}")
            self._store_group([self._pending(group[0].held, ending, unstorable=True)])

    def _retried(self, call: Callable[[], T]) -> T:
        backoff = 0.05
        while True:
            try:
                return call()
            except StoreUnavailable as error:
                log.warning("results are waiting for the database: %s", error)
                if self._given_up.wait(backoff):
                    raise
                backoff = min(2 * backoff, MAX_STORE_BACKOFF_S)

    def _report_settled(self, ended: Sequence[CompletedRun]) -> None:
        for each in ended:
            if each.held.trace is not None:
                each.held.trace.ended(each.settlement, stored=each.stored)
        try:
            self._on_settled(ended)
        except Exception:
            log.exception("the callback for %d settled runs failed", len(ended))
