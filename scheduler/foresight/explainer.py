"""Collects the facts about a task that explain why its run waits."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Protocol

from duetime.scheduler.chain.inheritance import Inherited, inherit
from duetime.scheduler.foresight.explain import Named, RunFacts, is_due
from duetime.scheduler.foresight.reasons.before_start import quoted
from duetime.scheduler.foresight.reasons.processes import SILENT_LEASE_RATIO, Claimers, LeftRunning, is_due_now
from duetime.scheduler.queue import Explanation, Shortage
from duetime.scheduler.queue.remote import NoAnswer, RemoteQueue
from duetime.scheduler.records import RunHolder
from duetime.scheduler.rules.estimates import UNKNOWN_ESTIMATE, Estimate
from duetime.scheduler.rules.limits.pool import Pool
from duetime.scheduler.rules.time.times import relative
from duetime.scheduler.run_records import Known
from duetime.scheduler.store import Store
from duetime.scheduler.task import State
from duetime.scheduler.views import TaskRecord

Lengths = Callable[[str, str, timedelta | None], Estimate]
"""Estimates the duration of a tenant's action, from the caller's own estimate where there is one."""


class Silent(Protocol):
    """The workers that are silent, and what they hold."""

    def holders(self, run_ids: Collection[str]) -> Mapping[str, RunHolder]:
        """Return by run who holds those among these running runs whose worker is silent."""

    def seen_at(self, name: str) -> datetime | None:
        """Return when a silent worker was last seen; None for any other."""


def default_estimate(_tenant: str, _action: str, _own: timedelta | None) -> Estimate:
    """Return the default estimate, without any measurement."""
    return Estimate(UNKNOWN_ESTIMATE, UNKNOWN_ESTIMATE)


class Explainer:
    """Collects the facts about a task; queries the queue only about a run that is in it."""

    def __init__(
        self,
        store: Store,
        remote_queue: RemoteQueue,
        pools: Callable[[], Mapping[str, Pool]],
        lengths: Lengths = default_estimate,
        *,
        working: Callable[[], bool] = lambda: True,
        drained: Callable[[], bool] = lambda: False,
        known: Callable[[str], bool] = lambda _action: True,
        silent: Silent | None = None,
    ) -> None:
        self._store = store
        self._remote_queue = remote_queue
        self._pools = pools
        self._lengths = lengths
        self._working = working
        self._drained = drained
        self._known = known
        self._silent = silent
        self.leases: Mapping[str, timedelta] = {}
        """The leases of the actions that workers elsewhere execute."""

    def pools(self) -> Mapping[str, Pool]:
        """Return the pools by name."""
        return self._pools()

    def length(self, record: TaskRecord) -> timedelta:
        """Return how long a run of a task probably takes."""
        return self._lengths(record.task.tenant, record.task.action, record.task.estimate).p50

    def heir(self, record: TaskRecord) -> Inherited:
        """Return what the run of a task inherits from the tasks that wait for it."""
        tenant = record.task.tenant
        waiters = self._store.dependencies.waiters(tenant, record.task.id)
        return inherit(record.task.id, waiters, lambda each: self._lengths(tenant, each.action, each.estimate).p90)

    def facts(self, record: TaskRecord) -> RunFacts:
        """Return the facts about a task that its tenant may see."""
        if record.run.state is State.RUNNING:
            held = self._held_elsewhere([record]).get(record.run.id)
            if held is not None and (record.run.cancel_requested or not self._is_silent(held, record.task.action)):
                return RunFacts(held_by=held)
            left = self.left_running([record]).get(record.run.id)
            return (
                replace(self._workers(record), left_running=left)
                if left and left.holder
                else RunFacts(left_running=left)
            )
        if not is_due(record, self._store.now()):
            return self.served(record)
        silence, found = self._remote_queue.explain(record.run.id)
        base = replace(self._workers(record), queue=found, silence=silence, taken_by=self._silent_taker(found))
        if found is None or found.shortage is None:
            return base
        return replace(base, pools=self._pools(), named=self._naming(record.task.tenant, found.shortage))

    def served(self, record: TaskRecord) -> RunFacts:
        """Return whether a worker can take the runs of a task that are due; the queue is not asked."""
        return self._workers(record) if is_due_now(record, self._store.now()) else RunFacts()

    def left_running(self, records: Sequence[TaskRecord]) -> Mapping[str, LeftRunning]:
        """Return which of these running tasks their processes have left, by run.

        Where workers are processes of their own, each is asked for its heartbeat; else one process runs all or none.
        """
        runs = [record.run.id for record in records if record.task.action not in self.leases]
        actions = {record.run.id: record.task.action for record in records}
        elsewhere = {
            run_id: LeftRunning(holder)
            for run_id, holder in self._held_elsewhere(records).items()
            if self._is_silent(holder, actions[run_id])
        }
        if self._silent is not None:
            return elsewhere | {run_id: LeftRunning(holder) for run_id, holder in self._silent.holders(runs).items()}
        if not runs or self._remote_queue.explain(runs[0])[0] is not NoAnswer.NO_PROCESS:
            return elsewhere
        return elsewhere | dict.fromkeys(runs, LeftRunning())

    def _held_elsewhere(self, records: Sequence[TaskRecord]) -> Mapping[str, RunHolder]:
        """Return the workers elsewhere that hold running tasks, by run; each was seen when it renewed its lease."""
        leases = {each.run.id: self.leases[each.task.action] for each in records if each.task.action in self.leases}
        found, now = self._store.workers.holders(list(leases)) if leases else {}, self._store.now()
        return {
            run_id: replace(holder, seen_at=min(now, holder.lease_until - leases[run_id]))
            for run_id, holder in found.items()
            if holder.lease_until is not None
        }

    def _is_silent(self, holder: RunHolder, action: str) -> bool:
        """Whether a worker elsewhere should have renewed its lease by now."""
        return holder.seen_at is not None and self._store.now() - holder.seen_at > (
            self.leases[action] * SILENT_LEASE_RATIO
        )

    def _silent_taker(self, found: Explanation | None) -> RunHolder | None:
        """Return the worker that has taken a run, if it is silent: it may never start it."""
        if found is None or found.status != "leased" or found.worker is None or self._silent is None:
            return None
        seen_at, ends = self._silent.seen_at(found.worker), found.not_before
        until = datetime.fromtimestamp(ends / 1000, UTC) if ends is not None else None
        return RunHolder(found.worker, seen_at, until) if seen_at else None

    def _workers(self, record: TaskRecord) -> RunFacts:
        action, tenant = record.task.action, record.task.tenant
        if action in self.leases:
            return RunFacts(claimers=Claimers(self._store.external_workers.last_seen(action, tenant)))
        working = self._working()
        drained = not working and self._drained()
        return RunFacts(working=working, drained=drained, known=self._known(record.task.action))

    def _naming(self, tenant: str, shortage: Shortage) -> Named:
        run_ids = [*shortage.holders, *([shortage.held_for] if shortage.held_for else [])]
        known = self._store.tasks.of_runs(tenant, run_ids) if run_ids else {}

        def named(run_id: str) -> str:
            if run_id not in known:
                return "another user's task"
            holder = known[run_id]
            left = "" if run_id == shortage.held_for else self._left(tenant, holder)
            return f"{holder.task_id} {quoted(holder.title)}{left}"

        return named

    def _left(self, tenant: str, holder: Known) -> str:
        """Describe how long a running run will probably take; empty when that is unknown."""
        found = self._lengths(tenant, holder.action, holder.estimate)
        if holder.started_at is None or found.p50 == UNKNOWN_ESTIMATE:
            return ""
        now = self._store.now()
        for end in (holder.started_at + found.p50, holder.started_at + found.p90):
            if end > now:
                return f" (probably done {relative(end, now)})"
        return " (running longer than usual)"
