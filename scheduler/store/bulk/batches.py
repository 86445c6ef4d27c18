"""Changes many tasks in one transaction, and keeps what is needed to take it back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime

from duetime.scheduler.audit.entry import AuditEntry
from duetime.scheduler.calls.bulk_change import (
    BatchWrite,
    Became,
    BulkDecision,
    BulkVerb,
    StoredBatch,
    TaskOutcome,
    undid_nothing,
)
from duetime.scheduler.errors import TaskNotFound
from duetime.scheduler.ids import is_id
from duetime.scheduler.store.audit import entries
from duetime.scheduler.store.bulk import chain_rows, related_tasks, undo_records, undo_refusal
from duetime.scheduler.store.bulk.change_sequence import ChangeSequence
from duetime.scheduler.store.chains.commits import Commits
from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.database.database import Database
from duetime.scheduler.store.lists import task_list
from duetime.scheduler.store.schema.rows import IS_CURRENT
from duetime.scheduler.store.schema.tables.tasks import tasks
from duetime.scheduler.store.sql.locks import lock_tasks
from duetime.scheduler.store.sql.unindexed_column import unindexed
from duetime.scheduler.store.statements import read
from duetime.scheduler.store.statements.endings import letters
from duetime.scheduler.store.statements.graph import order
from duetime.scheduler.views import TaskFilter, TaskRecord
from sqlalchemy import Connection, bindparam

_THESE = tasks.c.id.in_(bindparam("task_ids", expanding=True)) & (unindexed(tasks.c.tenant) == bindparam("tenant"))
_READ = read.TASK_AND_RUN.where(_THESE, IS_CURRENT)


class Batches:
    """Many tasks of a tenant at once. The changes of a transaction are stored together with how they are taken back."""

    def __init__(self, database: Database, now: Callable[[], datetime], commits: Commits) -> None:
        self._database = database
        self._commits = commits
        self._now = now

    def matching(self, tenant: str, where: TaskFilter, most: int) -> list[TaskRecord]:
        """Return the first `most` tasks of a filter, in the order of the list."""

        def work(connection: Connection) -> list[TaskRecord]:
            matches = task_list.matching(connection, tenant, where)
            return task_list.page(connection, tenant, where, matches, limit=most, behind=[])[0]

        return self._database.read(work)

    def named(self, tenant: str, task_ids: Sequence[str]) -> list[TaskRecord]:
        """Return these tasks in this order; raises `TaskNotFound` for the first unknown one."""

        def work(connection: Connection) -> list[TaskRecord]:
            found = {record.task.id: record for record in _records(connection, tenant, task_ids)}
            for task_id in task_ids:
                if task_id not in found:
                    near = read.closest(connection, tenant, task_id) if is_id(task_id) else []
                    raise TaskNotFound(task_id, near, argument="task_ids")
            return [found[task_id] for task_id in task_ids]

        return self._database.read(work)

    def still(self, tenant: str, task_ids: Sequence[str]) -> list[TaskRecord]:
        """Return those of the tasks that still exist, in this order."""
        found = self._database.read(lambda connection: _records(connection, tenant, task_ids))
        by_id = {record.task.id: record for record in found}
        return [by_id[task_id] for task_id in task_ids if task_id in by_id]

    def stored(self, tenant: str, token: str) -> list[StoredBatch]:
        """Return the transactions of a call by the token of its undo; none when the token is unknown or too old."""
        return self._database.look(lambda connection: undo_records.stored(connection, tenant, token, self._now()))

    def latest(self, tenant: str, repeat_name: str) -> list[StoredBatch]:
        """Return the transactions of the latest call of this name, as `stored` does."""

        def work(connection: Connection) -> list[StoredBatch]:
            now = self._now()
            token = undo_records.latest_token(connection, tenant, repeat_name, now)
            return undo_records.stored(connection, tenant, token, now) if token else []

        return self._database.read(work)

    def is_changed_since(self, batches: Sequence[StoredBatch], actor: str) -> bool:
        """Whether the actor has changed a task of a call in another way since the last of its transactions."""
        return self._database.look(lambda connection: undo_records.is_changed_since(connection, batches, actor))

    def related(self, tenant: str, task_ids: Sequence[str]) -> list[tuple[str, str]]:
        """Return pairs of tasks whose changes follow from one another, and of steps with their chains."""
        return self._database.read(lambda connection: related_tasks.related(connection, tenant, task_ids))

    def remember(self, tenant: str, write: BatchWrite) -> None:
        """Store a call whose changes were stored one by one, so that its repeat finds what became of its tasks."""
        self._database.write(
            lambda connection: undo_records.store(connection, tenant, write.batch, write, is_made=True)
        )

    def change(
        self,
        tenant: str,
        task_ids: Sequence[str],
        decision: BulkDecision,
        write: BatchWrite,
        *,
        entry: Callable[[Sequence[TaskOutcome]], AuditEntry | None] | None = None,
        takes_back: StoredBatch | None = None,
        dry_run: bool = False,
    ) -> list[TaskOutcome]:
        """Change these tasks in one transaction: each is decided by what it is then, and its change has its event.

        A task whose decision is refused stays as it is. The batch of `write` is stored with what became of each.
        Of tasks that come after one another the last is cancelled first, and any other change begins with the first.
        `entry` makes the audit entry, if any; `takes_back` is what an undo takes back. A `dry_run` stores nothing.
        """

        def work(connection: Connection) -> list[TaskOutcome]:
            now = self._now()
            _lock(connection, tenant, task_ids, write, takes_back)
            found = {record.task.id: record for record in _decided(connection, tenant, task_ids, decision)}
            known = [task_id for task_id in task_ids if task_id in found]
            ids, behind = order.in_order(connection, known, last_first=decision.verb is BulkVerb.CANCEL)
            sequence = ChangeSequence(connection, decision, write, now, [*found.values()], dry_run=dry_run)
            for task_id in ids:
                if task_id in behind:  # the change of an earlier one may have moved those that come after it
                    sequence.flush()
                    [found[task_id]] = _decided(connection, tenant, [task_id], decision)
                sequence.change(found[task_id], again=task_id in behind)
            changed = sequence.flush()
            changed = undo_refusal.left_out(connection, changed) if decision.verb is BulkVerb.CANCEL else changed
            done = [changed[task_id] for task_id in task_ids if task_id in changed]
            of_chain = takes_back.chain and takes_back.chain.reversed if takes_back else decision.chain
            if of_chain and not (done and all(each.became is Became.REFUSED for each in done)):
                chain_rows.follow(connection, of_chain, decision.kind, write, now)
            _remember(connection, tenant, write, done, takes_back=takes_back, entry=entry and entry(done), now=now)
            return done

        return self._commits.rehearse(work) if dry_run else self._commits.write(work)

    def reopen(
        self,
        tenant: str,
        task_ids: Sequence[str],
        write: BatchWrite,
        *,
        takes_back: StoredBatch,
        entry: Callable[[Sequence[TaskOutcome]], AuditEntry | None] | None = None,
    ) -> list[TaskOutcome]:
        """Open the dead letters of these tasks again that a discard closed; the tasks stay as they ended.

        The batch `takes_back` stays known, as taken back; that of `write` and the `entry` are stored as by `change`.
        """

        def work(connection: Connection) -> list[TaskOutcome]:
            _lock(connection, tenant, task_ids, write, takes_back)
            records = _records(connection, tenant, task_ids)
            done = [_opened(connection, record, takes_back) for record in records]
            _remember(
                connection, tenant, write, done, takes_back=takes_back, entry=entry and entry(done), now=self._now()
            )
            return done

        return self._database.write(work)


def _lock(
    connection: Connection, tenant: str, task_ids: Sequence[str], write: BatchWrite, takes_back: StoredBatch | None
) -> None:
    """Lock the tasks of a call. Raises Refused where another undo has taken the same back since it was read."""
    lock_tasks(connection, task_ids)
    if takes_back is not None:
        undo_records.check_undoable(connection, tenant, takes_back, write.number)


def _remember(
    connection: Connection,
    tenant: str,
    write: BatchWrite,
    done: Sequence[TaskOutcome],
    *,
    takes_back: StoredBatch | None,
    entry: AuditEntry | None,
    now: datetime,
) -> None:
    """Store what became of the tasks with the audit entry, and that a batch was taken back.

    An undo that took nothing back stores nothing, so that it can be asked for again, unless it is a part of one.
    """
    if takes_back is not None and not write.is_part and undid_nothing(done, takes_back):
        return
    undo_records.store(connection, tenant, with_outcomes(write.batch, done), write)
    if takes_back is not None:
        undo_records.replace_with(connection, tenant, takes_back.taken_back(), write.number)
    if entry is not None:
        entries.store(connection, entry, now)


def with_outcomes(batch: StoredBatch, done: Sequence[TaskOutcome]) -> StoredBatch:
    """Return the batch with the outcome of each of its tasks."""
    became = {each.record.task.id: each.became for each in done}
    why = {each.record.task.id: each.why for each in done if each.why}
    undo = {each.record.task.id: each.undo for each in done if each.undo}
    return replace(batch, became=became, why=why, undo=undo)


def _opened(connection: Connection, record: TaskRecord, closed: StoredBatch) -> TaskOutcome:
    run_ids = closed.undo[record.task.id].split(",")
    why = letters.open_again(connection, record.task.id, run_ids, closed.at)
    return TaskOutcome(record, Became.REFUSED if why else Became.CHANGED, why)


def _decided(connection: Connection, tenant: str, task_ids: Sequence[str], decision: BulkDecision) -> list[TaskRecord]:
    """Return the tasks as a change of them is decided: a replay is of the run with the newest open dead letter."""
    failed = letters.failed_runs(connection, tenant, task_ids) if decision.verb is BulkVerb.REPLAY else {}
    failed |= decision.failed_runs
    return [replace(each, failed_run=failed.get(each.task.id)) for each in _records(connection, tenant, task_ids)]


def _records(connection: Connection, tenant: str, task_ids: Sequence[str]) -> list[TaskRecord]:
    values = {"task_ids": [task_id for task_id in task_ids if is_id(task_id)], "tenant": tenant}
    return read.records_of(connection, *unreadable.every(connection, _READ, values))
