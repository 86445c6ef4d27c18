"""Reads what runs wait for that somebody has to answer, or to send."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from duetime.scheduler.approvals.approval import Approval
from duetime.scheduler.signal.signal import KeptWait
from duetime.scheduler.store import Store
from duetime.scheduler.task import State
from duetime.scheduler.views import TaskRecord


class OpenWait(NamedTuple):
    """The question that is asked before a run, and the event that it waits for."""

    approval: Approval | None
    awaited: KeptWait | None


def open_waits(store: Store, records: Sequence[TaskRecord]) -> Mapping[str, OpenWait]:
    """Return the approvals and events for which the runs of these tasks of one tenant wait, by run."""
    if not records:
        return {}
    tenant, waiters = records[0].task.tenant, {each.run.id: waiter_of(each) for each in records}
    asked = store.approvals.open_of(tenant, list(waiters))
    awaited = store.signals.open_of(tenant, list(waiters.values()))
    return {
        run_id: OpenWait(asked.get(run_id), awaited.get(waiter))
        for run_id, waiter in waiters.items()
        if run_id in asked or waiter in awaited
    }


def waiter_of(record: TaskRecord) -> str:
    """Return what waits for events: a task before its first start, then the run that its handler suspended."""
    return record.task.id if record.run.state is State.WAITING else record.run.id
