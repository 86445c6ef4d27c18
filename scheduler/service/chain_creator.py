"""Creates chains: all the steps are stored, or none when one is wrong."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from duetime.scheduler.chain.chain import front_steps
from duetime.scheduler.errors import InvalidArgument, InvalidArguments
from duetime.scheduler.foresight.explain import wait_reasons
from duetime.scheduler.foresight.readers.chain_reader import ChainReader
from duetime.scheduler.foresight.reasons.before_start import approval_reasons
from duetime.scheduler.foresight.task_view import chain_view, repeat_note, without_ids
from duetime.scheduler.intake.chain_plan import ChainPlan, plan_chain
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.principal import Principal
from duetime.scheduler.quotas import TenantQuotas
from duetime.scheduler.request import Request
from duetime.scheduler.runtime.traces import Tracing
from duetime.scheduler.service.change_notices import ChangeNotices
from duetime.scheduler.service.early_check import EarlyChecks
from duetime.scheduler.service.task_creator import facts_of_tried, made_by, with_trace
from duetime.scheduler.store import Store
from duetime.scheduler.task import State
from duetime.scheduler.view_parts import WaitReason
from duetime.scheduler.views import TaskRecord, TaskView


class ChainCreator:
    """Stores new chains; the view of one is that of the whole."""

    def __init__(
        self,
        store: Store,
        planner: Planner,
        chains: ChainReader,
        *,
        early: EarlyChecks,
        quotas: TenantQuotas,
        tracing: Tracing,
        notices: ChangeNotices,
    ) -> None:
        self._store = store
        self._planner = planner
        self._chains = chains
        self._early = early
        self._quotas = quotas
        self._tracing = tracing
        self._on_change, self._via = notices.on_change, notices.via

    def create(self, request: Request, *, by: Principal) -> TaskView:
        """Store the chain that `request` asks for, unless it is a dry run or repeats an earlier call."""
        now = self._store.now()
        try:
            plan = plan_chain(self._planner, request, by, now)
        except (InvalidArgument, InvalidArguments):
            made = made_by(self._store, request, by, now)
            step = made and self._store.chains.names(by.tenant, [made.task.id]).get(made.task.id)
            if made is None or not step:
                raise
            found = self._store.chains.get(by.tenant, step.id)
            return self._chains.view_of_new(found, created=False, warnings=(repeat_note(made),))
        plan = self._early.checked_chain(plan, now)
        if request.dry_run:
            if admission := self._quotas.rehearsal(by.tenant, plan.plans, now):
                self._store.tasks.check(by.tenant, admission)
            view = chain_view(plan.tried(), now, warnings=plan.warnings)
            return without_ids(replace(view, waits=self._waits_of_tried(plan, now)))
        admission = self._quotas.admission(by.tenant, plan.plans, now)
        with self._tracing.scheduling([each.task for each in plan.plans]) as span:
            tasks = [with_trace(each.task, span) for each in plan.plans]
            chain_id, added = self._store.chains.add(plan.stored(tasks, by.acting(self._via)), admission)
            span.stored([each.record.task.id for each in added])
        self._on_change([each.record.task.id for each in added if each.created])
        found = self._store.chains.get(by.tenant, chain_id)
        warnings = plan.warnings if added else (repeat_note(found.steps[0].record),)
        return self._chains.view_of_new(found, created=bool(added), warnings=warnings)

    def _waits_of_tried(self, plan: ChainPlan, now: datetime) -> tuple[WaitReason, ...]:
        """Return what the first steps of a planned chain would wait for, and what later ones would ask at once."""
        first, later = list[WaitReason](), list[WaitReason]()
        front = {step.record.task.id for step in front_steps(plan.tried())}
        for each in plan.plans:
            record = TaskRecord(each.task, each.run)
            if each.task.id not in front:
                later += approval_reasons(record, each.approval, (), now)
            elif each.run.state is State.WAITING:
                first += wait_reasons(record, now, facts_of_tried(self._planner, each))
        return tuple({reason.sentence: reason for reason in (*first, *later)}.values())
