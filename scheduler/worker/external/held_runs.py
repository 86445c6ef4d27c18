"""Runs that workers elsewhere hold: each call about one proves its claim first, by worker and attempt."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from duetime.scheduler.errors import InvalidArgument, StoreUnavailable
from duetime.scheduler.handlers import Context, Handler, Link
from duetime.scheduler.handlers.contract.expectation import Expectations
from duetime.scheduler.outbound.url_policy import WebhookOptions
from duetime.scheduler.outcomes import Done, Outcome, Retry, Yielded
from duetime.scheduler.principal import Principal
from duetime.scheduler.queue.lanes import action_of_tenant
from duetime.scheduler.queue.remote import RemoteQueue
from duetime.scheduler.records import external_worker_name
from duetime.scheduler.rules.settlement import AttemptResult, Unverified
from duetime.scheduler.run_records import Claim
from duetime.scheduler.runtime.notifier import RunNotifier
from duetime.scheduler.store import Store
from duetime.scheduler.store.external.claimed_runs import EndedAttempt, HeldRun
from duetime.scheduler.task import Json
from duetime.scheduler.worker.active_runs import ActiveRun
from duetime.scheduler.worker.external.answers import Directive, FinishedClaim, RenewedClaim
from duetime.scheduler.worker.external.claim_id import ClaimId, ClaimLost
from duetime.scheduler.worker.external.completion import ExternalCompletion, attempt_of
from duetime.scheduler.worker.external.reports import WorkerReport

HAND_BACK_GONE: Final = Yielded(reason="handed back: its external worker left before it learned of the claim")
HAND_BACK_UNRESERVED: Final = Yielded(reason="handed back: its pool reservation could not be confirmed")
HAND_BACK_UNANSWERED: Final = Yielded(reason="handed back: its external worker did not get the claim")
OVER_LIMIT: Final = "its external worker did not finish within the time limit of"
"""Begins the reason of an attempt that its time limit ended."""

CRASHED: Final = "crashed"
"""The outcome of an attempt whose lease ended."""

Checked = Callable[[Handler, WorkerReport, datetime], Outcome]


class HeldRuns:
    """Renews and ends the claims of workers elsewhere. `actions` are the external ones."""

    def __init__(
        self,
        store: Store,
        queue: RemoteQueue,
        actions: Mapping[str, Handler],
        notifier: RunNotifier,
        completion: ExternalCompletion,
        *,
        requests: WebhookOptions,
    ) -> None:
        self._store = store
        self._queue = queue
        self._actions = actions
        self._notifier = notifier
        self._completion = completion
        self._expectations = Expectations(requests)
        self._longest_check = timedelta(seconds=requests.timeout)

    def renew(
        self,
        claim: str,
        by: Principal,
        *,
        progress: tuple[float | None, str] | None = None,
        state: tuple[Json] | None = None,
    ) -> RenewedClaim:
        """Renew a lease, and store what its worker reports of the run: progress, a checkpoint. Raises ClaimLost."""
        name = ClaimId.read(claim)
        held = self._own(name, by)
        handler = self._handler(held, name)
        lease = handler.lease or timedelta(0)
        context = self._context(held, name)
        written = context.progress(*progress) if progress is not None else True
        if state is not None:
            written &= context.checkpoint(state[0])
        until = self._store.now() + lease
        unwanted = self._store.claims.renew([name.run_id], worker=held.claim.worker, lease=lease)
        if not written or unwanted:
            held = self._own(name, by)
        directive, reason = self._directive(held, lease)
        return RenewedClaim(name, directive, reason, until, held.attempt_started_at + handler.time_limit)

    def finish(self, claim: str, by: Principal, report: WorkerReport, checked: Checked) -> FinishedClaim:
        """Settle an attempt as its worker reports, once; return the recorded end. Raises ClaimLost."""
        name = ClaimId.read(claim)
        held = self._of_caller(name, by)
        if held is None:
            return self._recorded(name, by)
        handler = self._handler(held, name)
        now = self._store.now()
        outcome = checked(handler, report, now)
        attempt = attempt_of(held.claim, held.attempt_started_at, now, self._notifier)
        context = self._context(held, name, use=attempt.usage.use)
        for pool, units in report.usage.items():
            _use(context, pool, units)
        self._completion.settle(attempt, self._verified(held.claim, outcome, handler))
        return self._recorded(name, by)

    def hand_back(self, claims: Sequence[Claim], result: Yielded) -> None:
        """End attempts that no worker has, so that their runs start again. They have used nothing."""
        self._completion.settle_all([(self._unused(claim), result) for claim in claims])

    def hand_back_later(self, claims: Sequence[Claim], result: Yielded) -> None:
        """Hand back as soon as the database takes it, and wait for nothing."""
        for claim in claims:
            self._completion.settle_later(self._unused(claim), result)

    def _unused(self, claim: Claim) -> ActiveRun:
        return ActiveRun(claim, trace=self._notifier.tracing.reported(claim, None), notifier=self._notifier)

    def end_overdue(self) -> int:
        """End the attempts that are past their time limit; return how many there were."""
        now, found = self._store.now(), 0
        for each in self._store.claimed_runs.open_attempts(list(self._actions)):
            if each.started_at + self._actions[each.action].time_limit <= now:
                held = self._store.claimed_runs.held(each.run_id)
                found += held is not None and self._ends_over_limit(held)
        return found

    def _own(self, name: ClaimId, by: Principal) -> HeldRun:
        """Return the run of a claim that the caller holds. Raises ClaimLost, which says why it is lost."""
        held = self._of_caller(name, by)
        if held is None:
            ended = self._ended(name, by)
            raise self._lost(name, ended)
        return held

    def _of_caller(self, name: ClaimId, by: Principal) -> HeldRun | None:
        """Return the run of a claim while the caller holds it; one past its time limit ends here."""
        held = self._store.claimed_runs.held(name.run_id)
        if held is None or not _is_of(held.claim, by) or held.claim.run.attempt != name.attempt:
            return None
        return None if self._ends_over_limit(held) else held

    def _ends_over_limit(self, held: HeldRun) -> bool:
        """End an attempt that is past its time limit, as the same limit ends a local one; return whether it is."""
        handler, now = self._actions.get(held.claim.task.action), self._store.now()
        if handler is None or held.attempt_started_at + handler.time_limit > now:
            return False
        limit = f"{OVER_LIMIT} {handler.time_limit.total_seconds():g} s"
        self._completion.settle(attempt_of(held.claim, held.attempt_started_at, now, self._notifier), Retry(limit))
        return True

    def _recorded(self, name: ClaimId, by: Principal) -> FinishedClaim:
        """Return how an attempt of the caller ended by its own report. Raises ClaimLost where another end was first."""
        ended = self._ended(name, by)
        if ended.outcome is None:
            raise StoreUnavailable(
                f"the end of claim {name} is not stored yet: repeat the same finish_run, it counts once"
            )
        if ended.outcome == CRASHED or (ended.reason or "").startswith(OVER_LIMIT):
            raise self._lost(name, ended)
        return FinishedClaim(name, ended.outcome, ended.reason, ended.state, ended.ended_at)

    def _ended(self, name: ClaimId, by: Principal) -> EndedAttempt:
        found = self._store.claimed_runs.ended(name.run_id, name.attempt)
        if found is None or not (by.operator or found.tenant == by.tenant) or found.worker != _worker(by):
            raise name.unknown()
        return found

    def _lost(self, name: ClaimId, ended: EndedAttempt) -> ClaimLost:
        """Say why a claim is lost: its lease or its time limit ended, or it was finished."""
        if ended.outcome == CRASHED:
            why = "its lease ended without a heartbeat, so the attempt counts as crashed and the run is tried again"
        elif (ended.reason or "").startswith(OVER_LIMIT):
            why = f"{ended.reason}, so the attempt ended"
        elif ended.outcome is None:
            why = "its end could not be stored yet: repeat the same call"
        else:
            why = f"it ended before as {ended.outcome}"
        return ClaimLost(f"claim {name} is over: {why}. Nothing was done now; claim_runs returns further runs.")

    def _handler(self, held: HeldRun, name: ClaimId) -> Handler:
        handler = self._actions.get(held.claim.task.action)
        if handler is None:  # the setting has changed since the claim
            raise ClaimLost(f"claim {name} is of the action {held.claim.task.action}, which is not external any more.")
        return handler

    def _context(
        self, held: HeldRun, name: ClaimId, use: Callable[[str, float], None] = lambda _pool, _units: None
    ) -> Context:
        """Return the context by which a local attempt would report: it checks what is reported."""
        claims, run_id, attempt = self._store.claims, name.run_id, name.attempt
        link = Link(
            save=lambda state: claims.checkpoint(run_id, attempt, state),
            report=lambda value: claims.progress(run_id, attempt, value),
            use=use,
            now=self._store.now,
        )
        claim = held.claim
        return Context.of(claim.task, claim.run, worker=claim.worker, needs=claim.reserved, link=link)

    def _directive(self, held: HeldRun, lease: timedelta) -> tuple[Directive, str]:
        claim, task = held.claim, held.claim.task
        lost = self._queue.renew(claim.worker, {claim.run.id: claim.token}, lease.total_seconds() * 1000)
        if claim.run.cancel_requested:
            return Directive.CANCEL, "its user cancelled it"
        if task.paused:
            return Directive.YIELD, "its user paused the task"
        if lost and claim.reserved:
            return Directive.YIELD, "the queue has lost what it reserved of pools"
        queued = [action_of_tenant(task.action, task.tenant)]
        if self._queue.must_yield(claim.worker, claim.run.id, task.priority.rank, queued):
            return Directive.YIELD, "a more urgent run waits"
        return Directive.CONTINUE, ""

    def _verified(self, claim: Claim, outcome: Outcome, handler: Handler) -> AttemptResult:
        """Compare the result of a success with what its task expects; its lease does not end before the comparison."""
        if not isinstance(outcome, Done) or not claim.task.expect:
            return outcome
        lease = (handler.lease or timedelta(0)) + self._longest_check
        self._store.claims.renew([claim.run.id], worker=claim.worker, lease=lease)
        self._queue.renew(claim.worker, {claim.run.id: claim.token}, lease.total_seconds() * 1000)
        miss = self._expectations.unmet(claim.task.expect, outcome.result)
        return Unverified(outcome.summary, outcome.result, outcome.quiet, outcome.spawn, miss) if miss else outcome


def _is_of(claim: Claim, by: Principal) -> bool:
    """Whether the caller holds a claim: under its own name, and of a tenant that it may work for."""
    return claim.worker == _worker(by) and (by.operator or claim.run.tenant == by.tenant)


def _worker(by: Principal) -> str:
    return external_worker_name(by.tenant, by.user)


def _use(context: Context, pool: str, units: float) -> None:
    try:
        context.use(pool, units)
    except InvalidArgument as wrong:
        place = "usage" if wrong.argument == "pool" else f"usage.{pool[:40]}"
        raise InvalidArgument(
            place,
            wrong.problem,
            accepted="the units really used, by pool of the run's needs",
            example='{"tokens": 1200}',
        ) from None
