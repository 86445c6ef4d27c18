"""Claims granted runs in the database before a thread gets one of them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from duetime.scheduler.errors import RunnerReplaced
from duetime.scheduler.ids import is_id
from duetime.scheduler.queue import DispatchQueue, Grant, QueueLost, QueueUnavailable
from duetime.scheduler.rules.settlement import AttemptResult, settle
from duetime.scheduler.run_records import Claim, Start, StartsUnknown, StartTerms
from duetime.scheduler.runtime import failpoints
from duetime.scheduler.runtime.notifier import RunNotifier
from duetime.scheduler.store import Store
from duetime.scheduler.worker.active_runs import ActiveRun, ActiveRuns
from duetime.scheduler.worker.broker import CLAIM_RETRY_DELAY_MS
from duetime.scheduler.worker.executor import GIVEN_BACK_STOPPED, GIVEN_BACK_UNKNOWN

log = logging.getLogger(__name__)


class _UnknownStart(NamedTuple):
    """A start that the database did not answer, and when that was, in monotonic seconds."""

    start: Start
    at: float


class Claimer:
    """Starts runs for a worker, each with a lease, if it has a handler for their action.

    `unproven` is called with claims whose reservation may be lost, `notifier` with started runs, and when another
    runner has taken over. Starts that the database did not answer are handed back by `give_back`.
    """

    def __init__(
        self,
        store: Store,
        queue: DispatchQueue,
        active_runs: ActiveRuns,
        terms: StartTerms,
        *,
        unproven: Callable[[ActiveRun], None],
        notifier: RunNotifier,
    ) -> None:
        self._store = store
        self._queue = queue
        self._active_runs = active_runs
        self._terms = terms
        self._unproven = unproven
        self._notifier = notifier
        self._unknown: dict[str, _UnknownStart] = {}
        """By their tokens; several threads look for them, and each may be the first to find one."""

    def claim(self, grants: Sequence[Grant], taken_at: float | None = None) -> list[str]:
        """Start runs in the database that were granted since `taken_at`, and return the ids of those to run."""
        free = self._without_held(grants)
        starts = [Start(grant.run_id, grant.token, grant.needs) for grant in free if _can_be(grant)]
        claims = self._started(starts)
        if claims:
            failpoints.hit(failpoints.Step.CLAIMED)
        if not self._active_runs.add(claims, taken_at):
            self._settle(claims, GIVEN_BACK_STOPPED)  # stored only after `stop` had given up waiting for them
            return []
        lost = self._lost(claims)
        for held in [self._active_runs.get(run_id) for run_id in lost]:
            if held is not None and held.begin():
                self._unproven(held)
        self._notifier.started(claims)
        return [claim.run.id for claim in claims if claim.run.id not in lost]

    def give_back(self) -> bool:
        """Hand back the runs that were started without an answer, if any are: no handler has begun, so none crashed.

        A start may be stored for as long as its statement waits for a lock, so it is looked for until a lease is over.
        """
        unknown = list(self._unknown.values())
        if not unknown:
            return False
        claims = self._store.claims.stored_starts([each.start for each in unknown], worker=self._terms.worker)
        self._settle(claims, GIVEN_BACK_UNKNOWN)
        latest, known = time.monotonic() - self._terms.lease.total_seconds(), {claim.token for claim in claims}
        for each in unknown:
            if each.start.token in known or each.at < latest:
                self._unknown.pop(each.start.token, None)
        return bool(claims)

    def _started(self, starts: Sequence[Start]) -> Sequence[Claim]:
        terms = self._terms
        try:
            return self._store.claims.start(
                starts, worker=terms.worker, epoch=terms.epoch, lease=terms.lease, actions=terms.actions
            )
        except RunnerReplaced:
            self._notifier.on_replaced()
            raise
        except StartsUnknown as error:
            now = time.monotonic()
            self._unknown.update({each.token: _UnknownStart(each, now) for each in error.starts})
            if not error.claims:
                raise
            for each in error.starts:
                self._queue.give_back(terms.worker, each.run_id, each.token, delay=CLAIM_RETRY_DELAY_MS)
            return error.claims

    def _without_held(self, grants: Sequence[Grant]) -> list[Grant]:
        """Return the grants without runs of which this worker still has an attempt; these go back for a while.

        The lease of that attempt ran out while this process was paused. Two attempts would be supervised as one.
        """
        held = [grant for grant in grants if self._active_runs.get(grant.run_id) is not None]
        for grant in held:
            self._queue.give_back(self._terms.worker, grant.run_id, grant.token, delay=CLAIM_RETRY_DELAY_MS)
        return [grant for grant in grants if grant not in held]

    def _lost(self, claims: Sequence[Claim]) -> set[str]:
        """Return the runs whose reservation may be lost.

        The queue may lose everything between the take and the claim.
        """
        tokens = {claim.run.id: claim.token for claim in claims if claim.reserved}
        if not tokens:
            return set()
        try:
            return self._queue.renew(self._terms.worker, tokens, self._terms.lease.total_seconds() * 1000)
        except (QueueLost, QueueUnavailable) as error:
            log.warning(
                "returned %d runs to the queue, because their reservations could not be confirmed: %s",
                len(tokens),
                error,
            )
            return set(tokens)

    def _settle(self, claims: Sequence[Claim], result: AttemptResult) -> None:
        now = self._store.now()
        self._store.claims.settle([settle(claim, result, now=now, jitter=0.0) for claim in claims])


def _can_be(grant: Grant) -> bool:
    """Whether the ids are well-formed: a foreign entry in the queue must not fail the claims of other runs."""
    return is_id(grant.run_id) and is_id(grant.token)
