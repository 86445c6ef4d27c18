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
from datetime import timedelta
from typing import Final

from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.handlers import Context, Handler, Handlers, Link
from duetime.scheduler.ids import is_id
from duetime.scheduler.principal import Principal
from duetime.scheduler.queue import Finish, Grant
from duetime.scheduler.queue.lanes import action_of_tenant
from duetime.scheduler.queue.remote import RemoteQueue
from duetime.scheduler.records import external_worker_name
from duetime.scheduler.run_records import Claim, Start
from duetime.scheduler.runtime.loop import STEP_TIMEOUT_S, Loop
from duetime.scheduler.runtime.notifier import RunNotifier
from duetime.scheduler.store import Store
from duetime.scheduler.task import Json
from duetime.scheduler.worker.external.answers import ClaimedRun, FinishedClaim, RenewedClaim
from duetime.scheduler.worker.external.completion import ExternalCompletion
from duetime.scheduler.worker.external.held_runs import HAND_BACK_GONE, HAND_BACK_UNRESERVED, HeldRuns
from duetime.scheduler.worker.external.reports import WorkerReport, checked_result

MAX_CLAIMS_PER_CALL: Final = 10

TAKE_LEASE_MS: Final = 10_000.0
"""Lease in the queue between the take and the claim; after the claim it is that of the action."""

CLAIM_FAILED_DELAY_MS: Final = 1_000.0
"""Milliseconds after which a run returns to the queue whose claim the database did not take."""

TIME_LIMIT_CHECK_INTERVAL_S: Final = 2.0

ASKED_INTERVAL_S: Final = 5.0
"""Seconds within which a worker's call is noted once, however often it asks."""

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
        self._clock = monotonic
        self._noted: dict[tuple[str, ...], float] = {}

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
        self._note(by, named, client)
        worker, queued = external_worker_name(by.tenant, by.user), self._queued(named, by)
        grants = self._queue.take(worker, min(most, MAX_CLAIMS_PER_CALL), TAKE_LEASE_MS, queued) if queued else []
        claims = self._start(grants, worker, named, by) if grants else []
        return [self._claimed(claim) for claim in claims]

    def hand_back(self, claimed: Iterable[ClaimedRun]) -> None:
        """Hand back runs whose worker left before it learned of them."""
        for each in claimed:
            self._held.hand_back(each.claim, HAND_BACK_GONE)

    def heartbeat(self, claim: str, *, progress: tuple[float | None, str] | None = None, by: Principal) -> RenewedClaim:
        """Renew the lease of a claim, and return what its worker is to do. Raises ClaimLost."""
        found = self._held.renew(claim, by, progress=progress)
        self._note_call(by)
        return found

    def checkpoint(self, claim: str, state: Json, *, by: Principal) -> RenewedClaim:
        """Save the state from which the next attempt starts, and renew the lease as `heartbeat` does."""
        found = self._held.renew(claim, by, state=(state,))
        self._note_call(by)
        return found

    def finish(self, claim: str, report: WorkerReport, *, by: Principal) -> FinishedClaim:
        """Settle an attempt by the report of its worker; a repeated call returns the recorded end. Raises ClaimLost."""
        found = self._held.finish(claim, by, report, checked_result)
        self._note_call(by)
        return found

    def step(self) -> float:
        """End the attempts that are past their time limit, and return the seconds until the next look."""
        if self._dispatches():
            self._held.end_overdue()
        return TIME_LIMIT_CHECK_INTERVAL_S

    def close(self) -> None:
        """Store the pending ends."""
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
        tenants = self._store.claimed_runs.ready_tenants(names) if by.operator else [by.tenant]
        return {*names, *(action_of_tenant(name, tenant) for name in names for tenant in tenants)}

    def _start(
        self, grants: Sequence[Grant], worker: str, named: Mapping[str, Handler], by: Principal
    ) -> Sequence[Claim]:
        """Start granted runs; those that may not start leave the queue, which the database refills."""
        by_action = defaultdict[str, list[Grant]](list)
        owners = self._store.claimed_runs.owners([grant.run_id for grant in grants if is_id(grant.run_id)])
        for grant in grants:
            owner = owners.get(grant.run_id)
            if owner is not None and owner.action in named and (by.operator or owner.tenant == by.tenant):
                by_action[owner.action].append(grant)
        claims: list[Claim] = []
        for action, of_action in by_action.items():
            claims += self._start_one(of_action, worker, action, named[action].lease or timedelta(0))
        started = {claim.run.id for claim in claims}
        for grant in grants:
            if grant.run_id not in started:
                self._queue.finish(worker, Finish(grant.run_id, grant.token, dict.fromkeys(grant.needs, 0.0)))
        order = {grant.run_id: place for place, grant in enumerate(grants)}
        return sorted(self._proven(claims, worker, named), key=lambda claim: order[claim.run.id])

    def _start_one(self, grants: Sequence[Grant], worker: str, action: str, lease: timedelta) -> Sequence[Claim]:
        """Start runs of one action, without an epoch: they outlive the process that the call came to."""
        starts = [Start(grant.run_id, grant.token, grant.needs) for grant in grants]
        try:
            return self._store.claims.start(starts, worker=worker, epoch=None, lease=lease, actions=[action])
        except Exception:
            for grant in grants:
                self._queue.give_back(worker, grant, CLAIM_FAILED_DELAY_MS)
            raise

    def _proven(self, claims: Sequence[Claim], worker: str, named: Mapping[str, Handler]) -> list[Claim]:
        """Return the claims whose reservations the queue confirms, with leases of full length; others go back."""
        self._notifier.started(claims)
        proven: list[Claim] = []
        for claim in claims:
            lease = named[claim.task.action].lease or timedelta(0)
            lost = self._queue.renew(worker, {claim.run.id: claim.token}, lease.total_seconds() * 1000)
            if claim.reserved and (lost is None or lost):
                self._held.hand_back(claim, HAND_BACK_UNRESERVED)
            else:
                proven.append(claim)
        return proven

    def _claimed(self, claim: Claim) -> ClaimedRun:
        task, run, handler = claim.task, claim.run, self._actions[claim.task.action]
        now, lease = self._store.now(), handler.lease or timedelta(0)
        waited = self._store.signals.wait_of_run(task.tenant, task.id, run.id)
        return ClaimedRun(
            claim,
            Context.of(task, run, worker=claim.worker, link=Link(now=self._store.now), needs=claim.reserved),
            self._store.dependencies.results(task.tenant, task.id, run),
            waited.signal.to_json() if waited and waited.signal else None,
            handler.time_limit,
            ends_by=now + handler.time_limit,
            lease_until=now + lease,
        )

    def _note(self, by: Principal, named: Mapping[str, Handler], client: str | None) -> None:
        names = tuple(named)
        if self._is_news(("asked", by.tenant, by.user, client or "", *names)):
            everywhere = by.operator
            self._store.external_workers.asked(by.tenant, by.user, names, client=client, everywhere=everywhere)

    def _note_call(self, by: Principal) -> None:
        if self._is_news(("called", by.tenant, by.user)):
            self._store.external_workers.called(by.tenant, by.user)

    def _is_news(self, call: tuple[str, ...]) -> bool:
        """Whether a call was not noted a moment ago."""
        now = self._clock()
        self._noted = {known: at for known, at in self._noted.items() if now - at < ASKED_INTERVAL_S}
        return self._noted.setdefault(call, now) == now
