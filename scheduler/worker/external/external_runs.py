"""Claims of workers elsewhere: they claim runs, renew their leases, save checkpoints, and finish them.

A claim goes the way of a local one. The queue grants a run with all that it needs reserved, and the claim in the
database is the fence. So the order of runs, their pools, deadlines and tenants hold. Nothing of a claim is kept in this
process: any process of the installation takes the next call about it, also after a restart.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.handlers import Context, Handler, Handlers, Link
from duetime.scheduler.ids import is_id
from duetime.scheduler.principal import Principal
from duetime.scheduler.queue import Finish, Grant
from duetime.scheduler.queue.lanes import action_of_tenant
from duetime.scheduler.queue.remote import RemoteQueue
from duetime.scheduler.records import external_worker_name
from duetime.scheduler.run_records import Claim, Start, StartsUnknown
from duetime.scheduler.runtime.loop import STEP_TIMEOUT_S, Loop
from duetime.scheduler.runtime.notifier import RunNotifier
from duetime.scheduler.store import Store
from duetime.scheduler.task import Json
from duetime.scheduler.worker.external.answers import ClaimedRun, FinishedClaim, RenewedClaim
from duetime.scheduler.worker.external.caller_notes import CallerNotes
from duetime.scheduler.worker.external.claim_waits import ClaimWaits, WantedRuns
from duetime.scheduler.worker.external.completion import ExternalCompletion
from duetime.scheduler.worker.external.held_runs import (
    HAND_BACK_GONE,
    HAND_BACK_UNANSWERED,
    HAND_BACK_UNRESERVED,
    HeldRuns,
)
from duetime.scheduler.worker.external.reports import WorkerReport, checked_result
from duetime.scheduler.worker.external.unanswered_starts import UnansweredStarts

MAX_CLAIMS_PER_CALL: Final = 10

TAKE_LEASE_MS: Final = 10_000.0
"""Lease in the queue between the take and the claim; after the claim it is that of the action."""

CLAIM_FAILED_DELAY_MS: Final = 1_000.0
"""Milliseconds after which a run returns to the queue whose claim the database did not take."""

TIME_LIMIT_CHECK_INTERVAL_S: Final = 2.0

log = logging.getLogger(__name__)


class ExternalRuns:
    """The runs of external actions, for their workers elsewhere. Thread-safe.

    A worker claims runs of its own tenant; an operator's claims those of all. `settled` is called after each end.
    `dispatches` says whether this process is one of those that look for attempts past their time limit.
    """

    def __init__(
        self,
        store: Store,
        queue: RemoteQueue,
        handlers: Handlers,
        notifier: RunNotifier,
        *,
        settled: Callable[[], None] = lambda: None,
        dispatches: Callable[[], bool] = lambda: True,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._queue = queue
        self._actions = {name: handlers[name] for name in sorted(handlers.external)}
        self._notifier = notifier
        self._completion = ExternalCompletion(store, queue, notifier, settled)
        self._held = HeldRuns(store, queue, self._actions, notifier, self._completion, requests=handlers.webhooks)
        self._dispatches = dispatches
        self.loop = Loop("external time limits", self.step)
        self.waits = ClaimWaits(store.history, monotonic)
        self._unanswered = UnansweredStarts(store, monotonic)
        self._notes = CallerNotes(store.external_workers, monotonic)

    @property
    def actions(self) -> Sequence[str]:
        """The external actions of this installation."""
        return tuple(self._actions)

    def claim(
        self, actions: Sequence[str] = (), most: int = 1, *, by: Principal, client: str | None = None
    ) -> list[ClaimedRun]:
        """Claim at most `most` runs of some external actions, of all without any, best first.

        Raises InvalidArgument for an action that is none.
        """
        named = self._named(actions)
        self._notes.asked(by, named, client)
        worker, queued = external_worker_name(by.tenant, by.user), self._queued(named, by)
        grants = self._taken(worker, min(most, MAX_CLAIMS_PER_CALL), queued, self.wanted(actions, by=by))
        taken_at = time.monotonic()
        began = self._store.now()  # leases and time limits in the database begin no sooner
        claims = self._start(grants, worker, named, by) if grants else []
        try:
            proven = self._proven(claims, worker, named)
            return [self._claimed(claim, began, taken_at) for claim in proven]
        except Exception:  # the worker does not learn of them; those that went back already are left as they are
            self._held.hand_back_later(claims, HAND_BACK_UNANSWERED)
            raise

    def wanted(self, actions: Sequence[str] = (), *, by: Principal) -> WantedRuns:
        """Return the runs that a caller may claim. Raises InvalidArgument for an action that is none."""
        return WantedRuns(None if by.operator else by.tenant, tuple(self._named(actions)))

    def hand_back(self, claimed: Iterable[ClaimedRun]) -> None:
        """Hand back runs whose worker left before it learned of them."""
        self._held.hand_back([each.claim for each in claimed], HAND_BACK_GONE)

    def heartbeat(self, claim: str, *, progress: tuple[float | None, str] | None = None, by: Principal) -> RenewedClaim:
        """Renew the lease of a claim, and return what its worker is to do. Raises ClaimLost."""
        found = self._held.renew(claim, by, progress=progress)
        self._notes.called(by)
        return found

    def checkpoint(self, claim: str, state: Json, *, by: Principal) -> RenewedClaim:
        """Save the state from which the next attempt starts, and renew the lease as `heartbeat` does."""
        found = self._held.renew(claim, by, state=(state,))
        self._notes.called(by)
        return found

    def finish(self, claim: str, report: WorkerReport, *, by: Principal) -> FinishedClaim:
        """Settle an attempt by the report of its worker; a repeated call returns the recorded end. Raises ClaimLost."""
        found = self._held.finish(claim, by, report, checked_result)
        self._notes.called(by)
        return found

    def step(self) -> float:
        """End the attempts past their time limit, hand back what no worker has, and return the seconds until the next.

        A start that the database did not answer is known to this process alone.
        """
        self._held.hand_back_later(self._unanswered.stored(), HAND_BACK_UNANSWERED)
        if self._dispatches():
            self._held.end_overdue()
        return TIME_LIMIT_CHECK_INTERVAL_S

    def start(self) -> None:
        """Start the loops of this process."""
        self.loop.start()
        self.waits.loop.start()

    def close(self) -> None:
        """Store the pending ends."""
        self.waits.loop.stop(STEP_TIMEOUT_S)
        self.loop.stop(STEP_TIMEOUT_S)
        self._completion.close()

    def _named(self, actions: Sequence[str]) -> Mapping[str, Handler]:
        unknown = next((name for name in actions if name not in self._actions), None)
        if unknown is None:
            return {name: self._actions[name] for name in actions or self._actions}
        known = ", ".join(self._actions) or "none: an administrator declares them in the setting external_actions"
        example = f"actions=[{next(iter(self._actions))!r}]" if self._actions else ""
        raise InvalidArgument("actions", f"no external action {unknown[:64]!r}", accepted=known, example=example)

    def _queued(self, named: Iterable[str], by: Principal) -> set[str]:
        """Return the actions as the queue has them: of the worker's tenant, or of all that have ready runs.

        And as a process has put them whose settings do not declare them; whose such a run is, is read before its start.
        """
        names = list(named)
        lanes = self._store.claimed_runs.ready_lanes(names) if by.operator else [(name, by.tenant) for name in names]
        return {*names, *(action_of_tenant(*lane) for lane in lanes)}

    def _taken(self, worker: str, most: int, queued: set[str], wanted: WantedRuns) -> list[Grant]:
        """Take runs from the queue; who waits for such runs learns when to look again."""
        grants, hint = self._queue.take(worker, most, TAKE_LEASE_MS, queued) if queued else ([], None)
        self.waits.expect(wanted, hint, more=len(grants) == most)
        return grants

    def _start(
        self, grants: Sequence[Grant], worker: str, named: Mapping[str, Handler], by: Principal
    ) -> Sequence[Claim]:
        """Start granted runs; those that may not start leave the queue, which the database refills."""
        claims: list[Claim] = []
        problem: Exception | None = None
        for action, of_action in self._allowed(grants, worker, named, by).items():
            try:
                claims += self._start_one(of_action, worker, action, named[action].lease or timedelta(0))
            except Exception as error:  # noqa: BLE001 - the worker gets what was started of other actions
                log.warning("could not start %d runs of %s for a worker elsewhere: %s", len(of_action), action, error)
                problem = error
        started = {claim.run.id for claim in claims}
        for grant in grants:
            if grant.run_id not in started:
                self._queue.finish(worker, Finish(grant.run_id, grant.token, dict.fromkeys(grant.needs, 0.0)))
        if problem is not None and not claims:
            raise problem
        order = {grant.run_id: place for place, grant in enumerate(grants)}
        return sorted(claims, key=lambda claim: order[claim.run.id])

    def _allowed(
        self, grants: Sequence[Grant], worker: str, named: Mapping[str, Handler], by: Principal
    ) -> Mapping[str, list[Grant]]:
        """Return by action the grants of runs that the caller may have."""
        found = defaultdict[str, list[Grant]](list)
        try:
            owners = self._store.claimed_runs.owners([grant.run_id for grant in grants if is_id(grant.run_id)])
        except Exception:
            self._give_back(grants, worker)
            raise
        for grant in grants:
            owner = owners.get(grant.run_id)
            if owner is not None and owner.action in named and (by.operator or owner.tenant == by.tenant):
                found[owner.action].append(grant)
        return found

    def _start_one(self, grants: Sequence[Grant], worker: str, action: str, lease: timedelta) -> Sequence[Claim]:
        """Start runs of one action, without an epoch: they outlive the process that the call came to."""
        starts = [Start(grant.run_id, grant.token, grant.needs) for grant in grants]
        try:
            return self._store.claims.start(starts, worker=worker, epoch=None, lease=lease, actions=[action])
        except StartsUnknown as error:
            self._unanswered.add(error.starts, worker, lease)
            started = {claim.run.id for claim in error.claims}
            self._give_back([grant for grant in grants if grant.run_id not in started], worker)
            if not started:
                raise
            return error.claims
        except Exception:
            self._give_back(grants, worker)
            raise

    def _give_back(self, grants: Sequence[Grant], worker: str) -> None:
        for grant in grants:
            self._queue.give_back(worker, grant, CLAIM_FAILED_DELAY_MS)

    def _proven(self, claims: Sequence[Claim], worker: str, named: Mapping[str, Handler]) -> list[Claim]:
        """Return the claims whose reservations the queue confirms, with leases of full length; others go back."""
        self._notifier.started(claims)
        proven: list[Claim] = []
        for claim in claims:
            lease = named[claim.task.action].lease or timedelta(0)
            lost = self._queue.renew(worker, {claim.run.id: claim.token}, lease.total_seconds() * 1000)
            if claim.reserved and (lost is None or lost):
                self._held.hand_back([claim], HAND_BACK_UNRESERVED)
            else:
                proven.append(claim)
        return proven

    def _claimed(self, claim: Claim, began: datetime, taken_at: float) -> ClaimedRun:
        task, run, handler = claim.task, claim.run, self._actions[claim.task.action]
        context = Context.of(task, run, worker=claim.worker, link=Link(now=self._store.now), needs=claim.reserved)
        if (trace := self._notifier.tracing.attempt(claim, taken_at)) is not None and trace.traceparent:
            context = replace(context, traceparent=trace.traceparent, tracestate=trace.tracestate or None)
        waited = self._store.signals.wait_of_run(task.tenant, task.id, run.id)
        return ClaimedRun(
            claim,
            context,
            self._store.dependencies.results(task.tenant, task.id, run),
            waited.signal.to_json() if waited and waited.signal else None,
            handler.time_limit,
            ends_by=began + handler.time_limit,
            lease_until=began + (handler.lease or timedelta(0)),
        )
