"""Creates tasks: each is stored with its first run, or the task is returned that an earlier call made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from duetime.scheduler.dispatch.fast_path import FastPath
from duetime.scheduler.errors import InvalidArgument, InvalidArguments
from duetime.scheduler.foresight.explain import RunFacts
from duetime.scheduler.foresight.readers.run_facts import RunFactReader
from duetime.scheduler.foresight.task_view import all_warnings, repeat_note, view_of, without_ids
from duetime.scheduler.ids import new_task_id
from duetime.scheduler.intake.idempotency import is_wrong_key, key_of, shared_keys
from duetime.scheduler.intake.planner import Plan, Planner
from duetime.scheduler.intake.validation import ProblemCollector, check_one_of_many
from duetime.scheduler.principal import LOCAL, Principal
from duetime.scheduler.quotas import TenantQuotas
from duetime.scheduler.records import Added
from duetime.scheduler.request import Request
from duetime.scheduler.rules.settlement import INBOX_CHANNEL
from duetime.scheduler.runtime import failpoints
from duetime.scheduler.runtime.traces import SchedulingSpan, Tracing
from duetime.scheduler.service.change_notices import ChangeNotices
from duetime.scheduler.service.early_check import EarlyChecks
from duetime.scheduler.store import Store
from duetime.scheduler.task import State, Task
from duetime.scheduler.views import TaskRecord, TaskView
from duetime.scheduler.waits.signal import KeptWait


@dataclass(frozen=True, slots=True)
class Repeated:
    """The task of an earlier call that a new one repeats, although it could not be planned: its time has passed."""

    record: TaskRecord


class TaskCreator:
    """Stores new tasks, one by one or several in one transaction."""

    def __init__(
        self,
        store: Store,
        planner: Planner,
        facts: RunFactReader,
        *,
        early: EarlyChecks,
        fast_path: FastPath | None,
        quotas: TenantQuotas,
        tracing: Tracing,
        notices: ChangeNotices,
    ) -> None:
        self._store = store
        self._planner = planner
        self._facts = facts
        self._early = early
        self._fast_path = fast_path
        self._quotas = quotas
        self._tracing = tracing
        self._on_change, self._via = notices.on_change, notices.via

    def create(self, request: Request, *, by: Principal) -> TaskView:
        """Store the task that `request` asks for, unless it is a dry run or repeats an earlier call."""
        now = self._store.now()
        planned = self._planned(request, by, now)
        if isinstance(planned, Repeated):
            return self._view_of_repeated(planned, now)
        [plan] = self._early.checked([planned], now)
        if request.dry_run:
            return self._rehearse(plan, by, now, has_key=request.idempotency_key is not None)
        added = self._add(plan, by, now)
        if added.created:
            self._start_or_wake(added.record, plan, now)
        [view] = self._views_of_added([(added, plan)], now)
        return view

    def _rehearse(self, plan: Plan, by: Principal, now: datetime, *, has_key: bool) -> TaskView:
        """Return the view of a task that is not stored. Raises what its quotas would refuse.

        Where the caller gave the key, a task that it has already made is named.
        """
        if admission := self._quotas.rehearsal(by.tenant, [plan], now):
            self._store.tasks.check(by.tenant, admission)
        tried = TaskRecord(plan.task, plan.run)
        facts = facts_of_tried(self._planner, plan) if tried.run.state is State.WAITING else None
        made = self._store.tasks.made_by(by.tenant, plan.key) if plan.key and has_key else None
        warnings = (*plan.warnings, *([repeat_note(made)] if made else ()))
        return without_ids(view_of(tried, now, warnings=warnings, facts=facts, other_actions=plan.other_actions))

    def _add(self, plan: Plan, by: Principal, now: datetime) -> Added:
        """Store one task with its first run: READY if it is due, and nothing is asked before."""
        admission = self._quotas.admission(by.tenant, [plan], now)
        fast = self._fast_path if plan.task.asks is None else None
        run = fast.forward(plan.run, now) if fast else plan.run
        with self._tracing.scheduling([plan.task]) as span:
            added = self._store.tasks.add(
                with_trace(plan.task, span),
                run,
                key=plan.key,
                after=plan.after,
                approval=plan.approval,
                wait=plan.wait,
                admission=admission,
                **by.acting(self._via),
            )
            span.stored([added.record.task.id])
        failpoints.hit(failpoints.Step.SCHEDULED)
        return added

    def _start_or_wake(self, record: TaskRecord, plan: Plan, now: datetime) -> None:
        """Hand a new run to the queue if it is READY, and wake the dispatchers if they would find it too late."""
        timed = plan.approval is not None or plan.wait is not None
        handled = self._fast_path is not None and self._fast_path.hand_over(record, now, timed=timed)
        if not handled:
            self._on_change([record.task.id])

    def create_many(self, requests: Sequence[Request], *, by: Principal = LOCAL) -> list[TaskView]:
        """Store several tasks in one transaction: all of them, or none when one is wrong.

        Raises InvalidArgument(s), whose problems name their places. A chain and a dry run are for `submit`.
        """
        return self.create_named(requests, "requests", by)

    def create_named(self, requests: Sequence[Request], together: str, by: Principal) -> list[TaskView]:
        """Store several tasks like `create_many`; `together` is the argument by which their places are named."""
        now = self._store.now()
        planned = self._all_planned(requests, by, now, together)
        plans = self._early.checked([each for each in planned if isinstance(each, Plan)], now)
        acting = by.acting(self._via)
        new = [plan.new_task(plan.task, **acting) for plan in plans]
        admission = self._quotas.admission(by.tenant, new, now)
        with self._tracing.scheduling([item.task for item in new]) as span:
            traced = [replace(item, task=with_trace(item.task, span)) for item in new] if span.traceparent else new
            made = self._store.tasks.add_many(traced, admission)
            span.stored([each.record.task.id for each in made])
        self._on_change([each.record.task.id for each in made if each.created])
        views = iter(self._views_of_added(list(zip(made, plans, strict=True)), now))
        return [self._view_of_repeated(each, now) if isinstance(each, Repeated) else next(views) for each in planned]

    def _planned(
        self, request: Request, by: Principal, now: datetime, sibling_id: str | None = None
    ) -> Plan | Repeated:
        """Return what a request means, or the task of a repeated call whose time has passed since the first one."""
        try:
            return self._planner.plan(request, by, now, task_id=new_task_id(sibling_id))
        except (InvalidArgument, InvalidArguments):
            made = made_by(self._store, request, by, now)
            if made is None:
                raise
            return Repeated(made)

    def _all_planned(
        self, requests: Sequence[Request], by: Principal, now: datetime, together: str
    ) -> list[Plan | Repeated]:
        """Return what requests mean, or raise the problems of all of them."""
        sibling_id, problems = new_task_id(), ProblemCollector()

        def planned(request: Request) -> Plan | Repeated:
            check_one_of_many(request)
            return self._planned(request, by, now, sibling_id)

        found = [problems.at(f"{together}[{place}]", planned, request) for place, request in enumerate(requests)]
        problems.add(shared_keys([plan.key if isinstance(plan, Plan) else None for plan in found], together))
        if problems:
            raise problems.error()
        return [each for each in found if each is not None]

    def _view_of_repeated(self, repeated: Repeated, now: datetime) -> TaskView:
        record = repeated.record
        facts = self._facts.of(record) if record.run.state is State.WAITING else None
        return view_of(record, now, created=False, warnings=(repeat_note(record),), facts=facts)

    def _views_of_added(self, made: Sequence[tuple[Added, Plan]], now: datetime) -> list[TaskView]:
        no_worker = self._facts.no_worker_reasons([added.record for added, _ in made])
        views = [(added.record.run.id, self._view_of_added(added, plan, now)) for added, plan in made]
        return [
            replace(view, waits=(*view.waits, *reasons)) if (reasons := no_worker.get(run_id)) else view
            for run_id, view in views
        ]

    def _view_of_added(self, added: Added, plan: Plan, now: datetime) -> TaskView:
        facts = self._facts_of_added(added, plan) if added.record.run.state is State.WAITING else None
        warnings, others = all_warnings(plan.warnings, added), plan.other_actions
        view = view_of(added.record, now, created=added.created, warnings=warnings, facts=facts, other_actions=others)
        if not set(plan.task.deliver_to) - {INBOX_CHANNEL}:
            return view
        return replace(view, held_until=self._facts.held_until(added.record))

    def _facts_of_added(self, added: Added, plan: Plan) -> RunFacts:
        """Read what a task waits for, as far as it was planned to: the plan of a new task is all that there is."""
        if not added.created or plan.approval or plan.wait:
            return self._facts.of(added.record)
        task = added.record.task
        return RunFacts(upstreams=tuple(self._store.dependencies.upstreams(task.tenant, task.id)))


def facts_of_tried(planner: Planner, plan: Plan) -> RunFacts:
    """Return what a task that is planned, and not stored, would wait for."""
    upstreams = planner.upstreams(plan.task.tenant, [each.upstream_id for each in plan.after])
    awaited = KeptWait(plan.wait) if plan.wait else None
    return RunFacts(upstreams=tuple(upstreams.values()), approval=plan.approval, awaited=awaited)


def made_by(store: Store, request: Request, by: Principal, now: datetime) -> TaskRecord | None:
    """Return the task that an earlier call made which this one repeats, None without one."""
    key = None if request.dry_run or is_wrong_key(request, by) else key_of(request, by, now)
    return store.tasks.made_by(by.tenant, key) if key else None


def with_trace(task: Task, span: SchedulingSpan) -> Task:
    """Return a task with the trace of the call that schedules it."""
    if not span.traceparent:
        return task
    return replace(task, traceparent=span.traceparent, tracestate=span.tracestate or None)
