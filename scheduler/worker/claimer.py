"""Claims granted runs in the database before a thread gets one of them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta

from duetime.scheduler.errors import RunnerReplaced
from duetime.scheduler.ids import is_id
from duetime.scheduler.queue import DispatchQueue, Grant, QueueLost, QueueUnavailable
from duetime.scheduler.rules.settlement import settle
from duetime.scheduler.run_records import Claim, Start
from duetime.scheduler.runtime import failpoints
from duetime.scheduler.runtime.notifier import RunNotifier
from duetime.scheduler.store import Store
from duetime.scheduler.worker.active_runs import ActiveRun, ActiveRuns
from duetime.scheduler.worker.broker import CLAIM_RETRY_DELAY_MS
from duetime.scheduler.worker.executor import GIVEN_BACK_STOPPED

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ClaimTerms:
    """The terms on which a worker claims: its name, how long a lease lasts, and the `actions` of its handlers.

    `epoch` is that of the only runner of a database, None where there are many.
    """

    worker: str
    epoch: int | None
    lease: timedelta
    actions: Collection[str]


class Claimer:
    """Starts runs for a worker, each with a lease, if it has a handler for their action.

    `unproven` is called with claims whose reservation may be lost, `notifier` with started runs, and when another
    runner has taken over.
    """

    def __init__(
        self,
        store: Store,
        queue: DispatchQueue,
        active_runs: ActiveRuns,
        terms: ClaimTerms,
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

    def claim(self, grants: Sequence[Grant], taken_at: float | None = None) -> list[str]:
        """Start runs in the database that were granted since `taken_at`, and return the ids of those to run."""
        terms = self._terms
        free = self._without_held(grants)
        starts = [Start(grant.run_id, grant.token, grant.needs) for grant in free if _can_be(grant)]
        try:
            claims = self._store.claims.start(
                starts, worker=terms.worker, epoch=terms.epoch, lease=terms.lease, actions=terms.actions
            )
        except RunnerReplaced:
            self._notifier.on_replaced()
            raise
        if claims:
            failpoints.hit(failpoints.Step.CLAIMED)
        if not self._active_runs.add(claims, taken_at):
            return self._give_back(claims)
        lost = self._lost(claims)
        for held in [self._active_runs.get(run_id) for run_id in lost]:
            if held is not None and held.begin():
                self._unproven(held)
        self._notifier.started(claims)
        return [claim.run.id for claim in claims if claim.run.id not in lost]

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

    def _give_back(self, claims: Sequence[Claim]) -> list[str]:
        """Hand back the claims that the database stored only after `stop` had given up waiting for them."""
        now = self._store.now()
        self._store.claims.settle([settle(claim, GIVEN_BACK_STOPPED, now=now, jitter=0.0) for claim in claims])
        return []


def _can_be(grant: Grant) -> bool:
    """Whether the ids are well-formed: a foreign entry in the queue must not fail the claims of other runs."""
    return is_id(grant.run_id) and is_id(grant.token)
