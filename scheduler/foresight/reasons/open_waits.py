"""Reads the open questions and awaited events of runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from duetime.scheduler.foresight.reasons.before_start import approval_reasons, event_reason
from duetime.scheduler.rules.series import occurrence_wait as rules
from duetime.scheduler.store import Store
from duetime.scheduler.task import State
from duetime.scheduler.view_parts import WaitReason
from duetime.scheduler.views import TaskRecord
from duetime.scheduler.waits.approval import Approval
from duetime.scheduler.waits.signal import KeptWait

MAY_WAIT: Final = frozenset({State.WAITING, State.SUSPENDED})


class OpenWait(NamedTuple):
    """The question that is asked before a run, the event that it waits for, and the `side_approvals` of other runs."""

    record: TaskRecord
    approval: Approval | None
    awaited: KeptWait | None
    side_approvals: tuple[Approval, ...] = ()

    def reasons(self, zone: str, now: datetime) -> Iterator[WaitReason]:
        """Return the reasons for which the run waits: questions, and events."""
        yield from approval_reasons(self.record, self.approval, self.side_approvals, now)
        if self.awaited is not None and self.awaited.is_open:
            yield event_reason(self.record.run, self.awaited.wait, zone, now)


def open_waits(store: Store, records: Sequence[TaskRecord]) -> Mapping[str, OpenWait]:
    """Return the approvals and events for which the runs of these tasks of one tenant wait, by current run."""
    may = [each for each in records if each.run.state in MAY_WAIT]
    asking = [*may, *(each for each in records if each.side_runs and each not in may)]
    if not asking:
        return {}
    tenant, waiters = asking[0].task.tenant, {each.run.id: waiter_of(each) for each in may}
    approvals = store.approvals.open_of(tenant, [*waiters, *(run.id for each in asking for run in each.side_runs)])
    awaited = store.signals.open_of(tenant, list(waiters.values()))
    found = (
        OpenWait(
            each,
            approvals.get(each.run.id),
            awaited.get(waiters.get(each.run.id, "")),
            tuple(approvals[run.id] for run in each.side_runs if run.id in approvals),
        )
        for each in asking
    )
    return {each.record.run.id: each for each in found if each.approval or each.awaited or each.side_approvals}


def waiter_of(record: TaskRecord) -> str:
    """Return what waits for events: a task before its first start, then the run that its handler suspended."""
    return rules.waiter_of(record.task, record.run) if record.run.state is State.WAITING else record.run.id
