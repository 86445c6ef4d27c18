"""Changes of tasks one after the other, in one transaction; those that are plain are written together."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from duetime.scheduler.calls.bulk_change import BatchWrite, Became, BulkDecision, TaskOutcome, replaced_times
from duetime.scheduler.errors import InvalidArgument, InvalidArguments, Refused, UnreadableTask
from duetime.scheduler.events import EventKind
from duetime.scheduler.records import Change, ChangeOrigin, LastChange
from duetime.scheduler.rules.series.change_notes import note_in_bulk
from duetime.scheduler.store.bulk import lone_cancels, plain_changes
from duetime.scheduler.store.bulk.plain_changes import PlainChange
from duetime.scheduler.store.lists.tenant_counts import admit_change
from duetime.scheduler.store.statements import change as changing
from duetime.scheduler.store.statements import repair
from duetime.scheduler.store.statements.undo import last_changes
from duetime.scheduler.task import State
from duetime.scheduler.views import TaskRecord
from sqlalchemy import Connection

ENDED_AGAIN = "a task before it is cancelled, so it stays cancelled"
"""Why the undo of a cancel changed nothing: another step had started, which no undo brings back."""


class ChangeSequence:
    """Decides and writes the change of each task in its turn. The latest changes of `records` are read together.

    Plain changes are written with those that follow them, but before any other one. So call `flush` before you read a
    task again that an earlier change may have moved.
    """

    def __init__(
        self,
        connection: Connection,
        decision: BulkDecision,
        write: BatchWrite,
        now: datetime,
        records: Sequence[TaskRecord],
        *,
        dry_run: bool = False,
    ) -> None:
        self._connection = connection
        self._decision = decision
        self._write = write
        self._now = now
        self._dry_run = dry_run
        undone = records if decision.takes_back else ()
        self._last = last_changes.last_changes(connection, [each.task for each in undone])
        self._lone_cancels = lone_cancels.among(connection, undone)
        self._plain: list[PlainChange] = []
        self._outcomes: dict[str, TaskOutcome] = {}

    def change(self, record: TaskRecord, *, again: bool = False) -> None:
        """Change a task; one that was read `again` may have another latest change. A refused one stays as it is."""
        try:
            if record.damage:
                record = repair.mended(self._connection, record, self._decision.kind, self._write.acting, self._now)
            change = self._decision.decide(record, self._last_of(record, again=again))
            if plain_changes.is_plain(record, change, self._lone_cancels):
                self._plain.append(PlainChange(record, change))
                return
            self.flush()
            found = self._apply(record, change)
        except (Refused, InvalidArgument, InvalidArguments, UnreadableTask) as refused:
            self._outcomes[record.task.id] = TaskOutcome(record, Became.REFUSED, str(refused))
        else:
            self._outcomes[record.task.id] = self._outcome(record, change, found)

    def flush(self) -> dict[str, TaskOutcome]:
        """Write the plain changes up to now; return what became of each task."""
        if self._plain:
            plain, self._plain = self._plain, []
            kind = self._decision.kind
            found = plain_changes.write(self._connection, plain, kind, self._write, self._now)
            for record, change in plain:
                self._outcomes[record.task.id] = self._outcome(record, change, found[record.task.id])
        return self._outcomes

    def _last_of(self, record: TaskRecord, *, again: bool) -> LastChange | None:
        again = again and self._decision.takes_back
        last = last_changes.last_changes(self._connection, [record.task]) if again else self._last
        return last.get(record.task.id)

    def _apply(self, record: TaskRecord, change: Change) -> TaskRecord:
        kind, reason = self._decision.kind, self._write.reason
        if not self._decision.takes_back:
            admit_change(self._connection, record, change, kind, self._now, dry_run=self._dry_run)
        by = ChangeOrigin(kind=kind, reason=reason, **self._write.acting)
        return changing.apply(self._connection, record, change, by, self._now)

    def _outcome(self, record: TaskRecord, change: Change, found: TaskRecord) -> TaskOutcome:
        if found is record:
            return TaskOutcome(record, Became.UNCHANGED)
        if change.kind is EventKind.CANCEL_UNDONE and record.run.state is found.run.state is State.CANCELLED:
            return TaskOutcome(found, Became.REFUSED, ENDED_AGAIN)
        was, side_run_at = replaced_times(record, found, change)
        undo, why = self._decision.undo_of(found), note_in_bulk(record, change)
        return TaskOutcome(found, Became.CHANGED, why, undo=undo, was=was, side_run_at=side_run_at)
