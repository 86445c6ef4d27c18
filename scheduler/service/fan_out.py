"""Plans the tasks that handlers spawn: as the caller of the task that spawns them, and within his quotas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from duetime.scheduler.events import DUETIME_ACTOR
from duetime.scheduler.intake.chain_plan import plan_spawned
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.principal import Principal
from duetime.scheduler.quotas import TenantQuotas
from duetime.scheduler.records import NewTask
from duetime.scheduler.store import Store
from duetime.scheduler.task import Json, Task


@dataclass(frozen=True, slots=True)
class FanOut:
    """Plans in the name of the owner of the task whose run spawns others."""

    store: Store
    planner: Planner
    quotas: TenantQuotas

    def plan(self, parent: Task, spawned: Sequence[Mapping[str, Json]]) -> Sequence[tuple[str, NewTask]]:
        """Return the new tasks by name. Raises InvalidArgument(s), and Refused beyond a quota."""
        now = self.store.now()
        plans = plan_spawned(self.planner, parent, spawned, Principal(parent.tenant, parent.owner), now)
        admission = self.quotas.admission(parent.tenant, [plan for _, plan in plans], now)
        if admission:
            self.store.tasks.check(parent.tenant, admission)
        return [(name, plan.new_task(plan.task, DUETIME_ACTOR, None)) for name, plan in plans]
