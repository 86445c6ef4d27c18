"""Collects the facts that explain why a run waits: open questions, events, upstreams, its place in the queue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from duetime.scheduler.chain.dependency import RunWaits
from duetime.scheduler.delivery.quiet_hours import QuietPlan
from duetime.scheduler.foresight.explain import RunFacts, unserved
from duetime.scheduler.foresight.explainer import Explainer
from duetime.scheduler.foresight.quiet_forecast import will_be_held_until
from duetime.scheduler.foresight.reasons.open_waits import open_waits, waiter_of
from duetime.scheduler.foresight.reasons.processes import LeftRunning, is_due_now
from duetime.scheduler.queue.remote import NoAnswer
from duetime.scheduler.rules.series.before_run import before_run
from duetime.scheduler.store import Store
from duetime.scheduler.task import Run, State
from duetime.scheduler.view_parts import WaitReason
from duetime.scheduler.views import TaskRecord

MAX_RUNS_ASKED_ABOUT = 5
"""Ready runs of one list about which the queue is asked: each is a call to another process, or to Redis."""


class RunFactReader:
    """Reads the facts about runs; without an explainer, the queue is not asked."""

    def __init__(self, store: Store, explainer: Explainer | None, quiet: QuietPlan) -> None:
        self._store = store
        self._explainer = explainer
        self._quiet = quiet

    def of(self, record: TaskRecord, waits: RunWaits | None = None) -> RunFacts:
        """Return the facts about the current run of a task, as far as they are in the database or in the queue.

        A transaction that has changed the task may have read what its run `waits` for.
        """
        run = record.run
        if run.state is State.WAITING:
            waits = waits or self._store.dependencies.of_waiting(run.tenant, run.id, waiter_of(record))
            found = self.open_waits([record]).get(run.id) if waits.others or record.side_runs else None
            return replace(found or RunFacts(), upstreams=tuple(waits.upstreams))
        found = self.open_waits([record]).get(run.id)
        if found is not None and (found.approval or found.awaited):
            return found
        queued = self._explainer.facts(record) if self._explainer else RunFacts(silence=NoAnswer.NO_PROCESS)
        return replace(queued, side_approvals=found.side_approvals) if found else queued

    def after_change(self, record: TaskRecord, waits: RunWaits | None = None) -> RunFacts | None:
        """Return the facts about a task that was changed just now: the queue does not know of that yet."""
        if record.run.state is State.WAITING or _stops(record.run):
            return self.of(record, waits)
        found = self.open_waits([record]).get(record.run.id)
        served = self._explainer.served(record) if self._explainer else RunFacts()
        if served == RunFacts():
            return found
        return replace(
            found or RunFacts(),
            working=served.working,
            drained=served.drained,
            known=served.known,
            claimers=served.claimers,
        )

    def held_until(self, record: TaskRecord) -> datetime | None:
        """Return until when quiet hours will hold the first outcome of a task; None where they will not."""
        return will_be_held_until(record, self._quiet, self._store.now())

    def no_worker_reasons(self, records: Sequence[TaskRecord]) -> Mapping[str, tuple[WaitReason, ...]]:
        """Return why no worker can take those new runs that are due already, by run; the queue is not asked."""
        explainer = self._explainer
        if explainer is None:
            return {}
        now = self._store.now()
        due = [each for each in records if is_due_now(each, now)]
        of_actions = {each.task.action: each for each in due}
        reasons: dict[str, tuple[WaitReason, ...]] = {}
        for action, each in of_actions.items():
            served = explainer.served(each)
            reasons[action] = tuple(unserved(action, served, now))
        return {each.run.id: reasons[each.task.action] for each in due}

    def of_rows(self, records: Sequence[TaskRecord]) -> Mapping[str, RunFacts]:
        """Return the facts about the runs of a list, by run; the queue is asked only about the first ready ones."""
        found = dict(self.open_waits(records))
        if self._explainer is None:
            return found
        elsewhere = self._explainer.leases
        asked = [
            each
            for each in records
            if each.run.state is State.READY or (_stops(each.run) and each.task.action in elsewhere)
        ]
        for each in asked[:MAX_RUNS_ASKED_ABOUT]:
            known = found.get(each.run.id, RunFacts())
            found[each.run.id] = replace(self._explainer.facts(each), side_approvals=known.side_approvals)
        return found

    def of_due(self, record: TaskRecord, rows: Mapping[str, RunFacts]) -> RunFacts:
        """Return the facts about the first due task of a list whose `rows` are known: the queue is asked once."""
        return rows[record.run.id] if record.run.state is State.READY and record.run.id in rows else self.of(record)

    def left_running(self, records: Sequence[TaskRecord]) -> Mapping[str, LeftRunning]:
        """Return which of these running tasks their processes have left, by run."""
        return self._explainer.left_running(records) if self._explainer else {}

    def open_waits(self, records: Sequence[TaskRecord]) -> Mapping[str, RunFacts]:
        """Return the approvals and events for which the runs of these tasks of one tenant wait, by run."""
        return {
            run_id: RunFacts(approval=wait.approval, awaited=wait.awaited, side_approvals=wait.side_approvals)
            for run_id, wait in open_waits(self._store, records).items()
        }


def _stops(run: Run) -> bool:
    """Whether a run was asked to stop, and runs."""
    return run.state is State.RUNNING and run.cancel_requested


def last_skipped(store: Store, record: TaskRecord) -> Run | None:
    """Return the occurrence of what asks, or waits, each time, which was left out since the last run of it ended.

    An occurrence that runs after all, as an undo brought it back, is none.
    """
    task, last, run = record.task, record.last_run, record.run
    found = store.history.not_run(task.tenant, task.id) if before_run(task).holds_when_due else None
    if found is not None and found.scheduled_for in {run.scheduled_for, run.slot} and run.ended_at is None:
        return None
    ended = [run.ended_at for run in (found, last) if run is not None and run.ended_at is not None]
    return found if found is not None and ended and ended[0] == max(ended) else None
