"""The scheduling service: the one way in for tools, CLI, REST and Python users."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Unpack

from duetime.scheduler.delivery.quiet_hours import NEVER_QUIET, QuietPlan
from duetime.scheduler.dispatch.fast_path import FastPath
from duetime.scheduler.errors import InvalidArgument, InvalidArguments
from duetime.scheduler.foresight.explain import RunFacts
from duetime.scheduler.foresight.explainer import Explainer
from duetime.scheduler.foresight.task_view import chain_view, repeats, view_of, warned
from duetime.scheduler.ids import new_task_id
from duetime.scheduler.intake.chain_plan import plan_chain
from duetime.scheduler.intake.changes.actions import UNDOES_SCHEDULING
from duetime.scheduler.intake.idempotency import is_wrong_key, key_of
from duetime.scheduler.intake.planner import Plan, Planner
from duetime.scheduler.intake.validation import ProblemCollector, check_one_of_many
from duetime.scheduler.principal import LOCAL, Principal
from duetime.scheduler.quotas import UNLIMITED, TenantQuotas
from duetime.scheduler.records import Added
from duetime.scheduler.request import (
    Request,
    ScheduleArguments,
)
from duetime.scheduler.rules.states import TERMINAL
from duetime.scheduler.runtime import failpoints
from duetime.scheduler.runtime.traces import NO_TRACING, SchedulingSpan, Tracing
from duetime.scheduler.service.early_check import EarlyChecks
from duetime.scheduler.service.preferences.quiet_hours import QuietHoursService, QuietHoursView
from duetime.scheduler.service.signals import SignalService
from duetime.scheduler.signal.signal import KeptWait
from duetime.scheduler.store import Store
from duetime.scheduler.task import State, Task
from duetime.scheduler.views import TaskRecord, TaskView


class Scheduler(SignalService):
    """Schedule, read and change tasks. Thread-safe; every method is synchronous and returns what is stored.

    Methods raise the errors of `duetime.scheduler.errors`. InvalidArgument(s) is for what cannot be understood,
    TaskNotFound for an unknown id, and StaleRevision for an old revision. Refused means that the task's state does not
    allow it, StoreUnavailable that nothing could be stored.
    """

    def __init__(
        self,
        store: Store,
        planner: Planner,
        *,
        explainer: Explainer | None = None,
        recall: Callable[[Sequence[str]], None] = lambda _run_ids: None,
        on_change: Callable[[Sequence[str]], None] = lambda _task_ids: None,
        fast_path: FastPath | None = None,
        quotas: TenantQuotas = UNLIMITED,
        quiet: QuietPlan = NEVER_QUIET,
        via: str | None = None,
        tracing: Tracing = NO_TRACING,
    ) -> None:
        super().__init__(store, planner, explainer=explainer, recall=recall, on_change=on_change, via=via)
        self._fast_path = fast_path
        self._early = EarlyChecks(store, planner)
        self._quotas = quotas
        plan = replace(quiet, stored=store.quiet_hours.texts)
        self._quiet_hours = QuietHoursService(store, plan, self.zone)
        self._tracing = tracing

    @property
    def pools(self) -> tuple[str, ...]:
        """The names of the pools that a task may need; templates are left out."""
        return tuple(name for name in self._planner.pools() if not name.endswith("*"))

    def schedule(self, title: str, *, by: Principal = LOCAL, **arguments: Unpack[ScheduleArguments]) -> TaskView:
        """Store a task and its first run, and return it; the arguments are those of `Request`.

        `created` of the view is False when an earlier call with the same key and content made the task, None for a
        dry run. Raises IdempotencyConflict when the key was used for other content.
        """
        return self.submit(Request(title, **arguments), by=by)

    def submit(self, request: Request, *, by: Principal = LOCAL) -> TaskView:
        """Store what `request` asks for, like `schedule`; of a chain, the view is that of the whole."""
        now = self._store.now()
        if request.steps:
            return self._submit_chain(request, by, now)
        planned = self._planned(request, by, now)
        if isinstance(planned, TaskRecord):
            return _answering(view_of(planned, now, created=False, warnings=(repeats(planned),)))
        [planned] = self._early.checked([planned], now)
        if request.dry_run:
            tried = TaskRecord(planned.task, planned.run)
            facts = RunFacts(awaited=KeptWait(planned.wait)) if planned.wait else None
            key = planned.key if request.idempotency_key is not None else None
            made = self._store.tasks.made_by(by.tenant, key) if key else None
            said, others = (*planned.warnings, *([repeats(made)] if made else ())), planned.other_actions
            return view_of(tried, now, warnings=said, facts=facts, other_actions=others)
        admission = self._quotas.admission(by.tenant, [planned], now)
        fast = self._fast_path if planned.task.asks is None else None
        run = fast.forward(planned.run, now) if fast else planned.run
        with self._tracing.scheduling([planned.task]) as span:
            added = self._store.tasks.add(
                _traced(planned.task, span),
                run,
                key=planned.key,
                after=planned.after,
                approval=planned.approval,
                wait=planned.wait,
                admission=admission,
                **by.acting(self._via),
            )
            span.stored([added.record.task.id])
        failpoints.hit(failpoints.Step.SCHEDULED)
        timed = planned.approval is not None or planned.wait is not None
        if added.created and not (self._fast_path and self._fast_path.serves(added.record, now, timed=timed)):
            self._on_change([added.record.task.id])
        return self._view_of_added(added, planned, now)

    def quiet_hours(
        self, *, user: str | None = None, tenant: str | None = None, by: Principal = LOCAL
    ) -> QuietHoursView:
        """Return the quiet hours of the user: the own ones, or else those of the settings.

        An administrator may name another `user`, an operator one of another `tenant`; so it is in the next two.
        """
        return self._quiet_hours.read(by, user, tenant)

    def set_quiet_hours(
        self, hours: str, *, user: str | None = None, tenant: str | None = None, by: Principal = LOCAL
    ) -> QuietHoursView:
        """Let deliveries to the user that can wait be held in these hours: `22:00-07:00 America/Denver`, or `none`.

        They go before those of the settings. Deliveries that wait for the old end are looked at again at once.
        """
        return self._changed_hours(self._quiet_hours.set(self._acting(by), hours, user, tenant))

    def clear_quiet_hours(
        self, *, user: str | None = None, tenant: str | None = None, by: Principal = LOCAL
    ) -> QuietHoursView:
        """Forget the user's own quiet hours, so that those of the settings count again; return these."""
        return self._changed_hours(self._quiet_hours.clear(self._acting(by), user, tenant))

    def _changed_hours(self, view: QuietHoursView) -> QuietHoursView:
        self._on_change([])  # wakes the process that delivers
        return view

    def _acting(self, by: Principal) -> Principal:
        return by if by.via else replace(by, via=self._via)

    def _submit_chain(self, request: Request, by: Principal, now: datetime) -> TaskView:
        """Store all the steps of a chain, or none when one is wrong."""
        try:
            plan = plan_chain(self._planner, request, by, now)
        except (InvalidArgument, InvalidArguments):
            made = self._made_by(request, by, now)
            step = made and self._store.chains.names(by.tenant, [made.task.id]).get(made.task.id)
            if made is None or not step:
                raise
            found = self._store.chains.get(by.tenant, step.id)
            return _answering(self._chain_view(found, created=False, warnings=(repeats(made),)))
        plan = self._early.checked_chain(plan, now)
        if request.dry_run:
            return chain_view(plan.tried(), now, warnings=plan.warnings)
        admission = self._quotas.admission(by.tenant, plan.plans, now)
        with self._tracing.scheduling([each.task for each in plan.plans]) as span:
            tasks = [_traced(each.task, span) for each in plan.plans]
            chain_id, added = self._store.chains.add(plan.stored(tasks, by.acting(self._via)), admission)
            span.stored([each.record.task.id for each in added])
        self._on_change([each.record.task.id for each in added if each.created])
        found = self._store.chains.get(by.tenant, chain_id)
        said = plan.warnings if added else (repeats(found.steps[0].record),)
        return _answering(self._chain_view(found, created=bool(added), warnings=said))

    def _planned(self, request: Request, by: Principal, now: datetime, beside: str | None = None) -> Plan | TaskRecord:
        """Return what a request means, or the task of a repeated call whose time has passed since the first one."""
        try:
            return self._planner.plan(request, by, now, task_id=new_task_id(beside))
        except (InvalidArgument, InvalidArguments):
            made = self._made_by(request, by, now)
            if made is None:
                raise
            return made

    def _made_by(self, request: Request, by: Principal, now: datetime) -> TaskRecord | None:
        """Return the task that an earlier call made which this one repeats, None without one."""
        key = None if request.dry_run or is_wrong_key(request, by) else key_of(request, by, now)
        return self._store.tasks.made_by(by.tenant, key) if key else None

    def schedule_many(self, requests: Sequence[Request], *, by: Principal = LOCAL) -> list[TaskView]:
        """Store several tasks in one transaction: all of them, or none when one is wrong.

        Raises InvalidArgument(s), whose problems name their places. A chain and a dry run are for `submit`.
        """
        now = self._store.now()
        planned = self._checked(self._all_planned(requests, by, now), now)
        told = by.acting(self._via)
        new = [plan.new_task(plan.task, **told) for plan in planned if isinstance(plan, Plan)]
        admission = self._quotas.admission(by.tenant, new, now)
        with self._tracing.scheduling([item.task for item in new]) as span:
            traced = [replace(item, task=_traced(item.task, span)) for item in new]
            made = self._store.tasks.add_many(traced, admission)
            span.stored([each.record.task.id for each in made])
        stored = iter(made)
        added = [next(stored) if isinstance(plan, Plan) else Added(plan, created=False) for plan in planned]
        self._on_change([each.record.task.id for each in added if each.created])
        return [self._view_of_added(each, plan, now) for each, plan in zip(added, planned, strict=True)]

    def _all_planned(self, requests: Sequence[Request], by: Principal, now: datetime) -> list[Plan | TaskRecord]:
        """Return what requests mean, or raise the problems of all of them."""
        beside, problems = new_task_id(), ProblemCollector()

        def planned(request: Request) -> Plan | TaskRecord:
            check_one_of_many(request)
            return self._planned(request, by, now, beside)

        found = [problems.at(f"requests[{place}]", planned, request) for place, request in enumerate(requests)]
        if problems:
            raise problems.error()
        return [each for each in found if each is not None]

    def _checked(self, planned: Sequence[Plan | TaskRecord], now: datetime) -> list[Plan | TaskRecord]:
        checked = iter(self._early.checked([plan for plan in planned if isinstance(plan, Plan)], now))
        return [next(checked) if isinstance(plan, Plan) else plan for plan in planned]

    def _view_of_added(self, added: Added, plan: Plan | TaskRecord, now: datetime) -> TaskView:
        said, others = (plan.warnings, plan.other_actions) if isinstance(plan, Plan) else ((), ())
        facts = self._facts_of_added(added, plan) if added.record.run.state is State.WAITING else None
        warnings = warned(said, added)
        view = view_of(added.record, now, created=added.created, warnings=warnings, facts=facts, other_actions=others)
        return _answering(view)

    def _facts_of_added(self, added: Added, plan: Plan | TaskRecord) -> RunFacts:
        """Read what a task waits for, as far as it was planned to: the plan of a new task is all that there is."""
        if not added.created or not isinstance(plan, Plan) or plan.approval or plan.wait:
            return self._facts(added.record)
        task = added.record.task
        return RunFacts(upstreams=tuple(self._store.dependencies.upstreams(task.tenant, task.id)))


def _answering(view: TaskView) -> TaskView:
    """Return the answer to a call that schedules, with its undo; a repeated call did nothing that can be undone."""
    undoable = view.created and view.record.run.state not in TERMINAL
    return replace(view, undo=UNDOES_SCHEDULING if undoable else None)


def _traced(task: Task, span: SchedulingSpan) -> Task:
    if not span.traceparent:
        return task
    return replace(task, traceparent=span.traceparent, tracestate=span.tracestate or None)
