"""Reads what runs wait for that somebody has to answer, or to send."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from duetime.scheduler.approvals.approval import Approval
from duetime.scheduler.foresight.reasons.before_start import asked, until_event
from duetime.scheduler.rules.series import awaited as rules
from duetime.scheduler.rules.series.answered import asks_when_due
from duetime.scheduler.signal.signal import KeptWait
from duetime.scheduler.store import Store
from duetime.scheduler.task import Run, State, Task
from duetime.scheduler.view_parts import WaitReason
from duetime.scheduler.views import TaskRecord


class OpenWait(NamedTuple):
    """The question that is asked before a run, and the event that it waits for."""

    task: Task
    run: Run
    approval: Approval | None
    awaited: KeptWait | None

    def reasons(self, zone: str, now: datetime) -> Iterator[WaitReason]:
        """Say what has to be answered, and what has to come."""
        if self.approval is not None:
            yield asked(self.approval, zone, now, goes_on=asks_when_due(self.task))
        if self.awaited is not None and self.awaited.is_open:
            yield until_event(self.run, self.awaited.wait, zone, now)


def open_waits(store: Store, records: Sequence[TaskRecord]) -> Mapping[str, OpenWait]:
    """Return the approvals and events for which the runs of these tasks of one tenant wait, by run."""
    if not records:
        return {}
    tenant, waiters = records[0].task.tenant, {each.run.id: waiter_of(each) for each in records}
    found = {each.run.id: each for each in records}
    questions = store.approvals.open_of(tenant, list(waiters))
    awaited = store.signals.open_of(tenant, list(waiters.values()))
    return {
        run_id: OpenWait(found[run_id].task, found[run_id].run, questions.get(run_id), awaited.get(waiter))
        for run_id, waiter in waiters.items()
        if run_id in questions or waiter in awaited
    }


def waiter_of(record: TaskRecord) -> str:
    """Return what waits for events: a task before its first start, then the run that its handler suspended."""
    return rules.waiter_of(record.task, record.run) if record.run.state is State.WAITING else record.run.id
