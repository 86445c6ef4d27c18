"""Tasks of a tenant: add, read, list and change them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Unpack

from duetime.scheduler.chain.dependency import DependentTask, StartConditions
from duetime.scheduler.chain.link_change import Changed, LinkLocks
from duetime.scheduler.events import EventKind
from duetime.scheduler.principal import Acting
from duetime.scheduler.records import Added, Change, ChangeOrigin, IdempotencyKey, LastChange, NewTask
from duetime.scheduler.run_records import Known
from duetime.scheduler.store.chains.commits import Commits
from duetime.scheduler.store.database.database import Database, Tried
from duetime.scheduler.store.forms import Forms
from duetime.scheduler.store.lists import agenda, schedule_list, task_list, tenant_counts
from duetime.scheduler.store.lists.agenda import ListPlace
from duetime.scheduler.store.lists.tenant_counts import Admission, TenantCounts
from duetime.scheduler.store.schema.values import to_microseconds
from duetime.scheduler.store.sql import commit_check
from duetime.scheduler.store.sql.cursors import Cursors, Position
from duetime.scheduler.store.statements import add, event_log, idempotency, read, repair
from duetime.scheduler.store.statements import change as changing
from duetime.scheduler.store.statements.graph import relink, upstreams
from duetime.scheduler.store.statements.undo import last_changes
from duetime.scheduler.task import Run, State, Task
from duetime.scheduler.views import TaskFilter, TaskRecord
from sqlalchemy import Connection


class Tasks:
    """The tasks. Every method sees one tenant only; `recurring` sees all of them where an operator asks for that."""

    def __init__(
        self,
        database: Database,
        now: Callable[[], datetime],
        forms: Forms,
        cursors: Cursors,
        commits: Commits,
    ) -> None:
        self._database = database
        self._commits = commits
        self._cursors = cursors
        self._now = now
        self._forms = forms

    def add(
        self,
        task: Task,
        run: Run,
        *,
        actor: str,
        key: IdempotencyKey | None = None,
        via: str | None = None,
        admission: Admission | None = None,
        **conditions: Unpack[StartConditions],
    ) -> Added:
        """Store a task with its first run, which waits for what is given; a known key returns its first task.

        Also searches for the task's twin. Raises `IdempotencyConflict` when the key was used for other content, and
        what `admission` raises.
        """
        new = (task, run, actor, key, via)
        after, approval, wait = tuple(conditions.get("after", ())), conditions.get("approval"), conditions.get("wait")
        item = DependentTask(*new, after, approval, wait) if after or approval or wait else NewTask(*new)
        return self._add([item], admission, twins=True)[0]

    def add_many(self, items: Sequence[NewTask], admission: Admission | None = None) -> list[Added]:
        """Store all items or, when one is refused, none."""
        return self._add(items, admission)

    def _add(self, items: Sequence[NewTask], admission: Admission | None, *, twins: bool = False) -> list[Added]:
        def work(connection: Connection) -> list[Added]:
            form, now = self._forms.store_new, self._now()
            if admission and items:
                tenant_counts.admit(connection, items[0].task.tenant, now, admission)
            return add.add(connection, items, now, store_new=form, twins=twins, may_be_stored=tried.may_be_stored)

        tried: Tried[list[Added]] = Tried()
        if admission is None and _is_one_statement(items):
            tried = self._database.attempt(work)
        if tried.result is not None:
            return tried.result
        dependent = any(isinstance(item, DependentTask) for item in items)
        write = self._commits.write if dependent else self._database.write
        return write(work, stored=commit_check.added, may_be_stored=tried.may_be_stored)

    def made_by(self, tenant: str, key: IdempotencyKey) -> TaskRecord | None:
        """Return the task that the key still names, None without one; raises `IdempotencyConflict` as `add` does."""

        def work(connection: Connection) -> TaskRecord | None:
            task_id = idempotency.stands_for(connection, tenant, key, self._now())
            return read.record(connection, tenant, task_id) if task_id else None

        return self._database.read(work)

    def keyed(self, tenant: str, names: Sequence[str]) -> dict[str, str]:
        """Return the task of each of the keys that is stored, expired or not."""
        return self._database.look(lambda connection: idempotency.tasks_of(connection, tenant, names))

    def check(self, tenant: str, admission: Admission) -> None:
        """Check the quotas of a tenant for what is stored later; calls at the same time may pass together."""
        self._database.read(lambda connection: admission(TenantCounts(connection, tenant, self._now())))

    def get(self, tenant: str, task_id: str, *, revision: int | None = None) -> TaskRecord:
        """Return one task; raises `TaskNotFound`, with the tenant's closest ids, and `StaleRevision`."""
        return self._database.read(lambda connection: read.record_at(connection, tenant, task_id, revision))

    def compared_with(self, task: Task) -> Run | None:
        """Return the latest run that ended with an outcome; None without one, or where not only changes notify."""
        return self._database.read(lambda connection: read.compared_with(connection, [task])).get(task.id)

    def named(self, tenant: str, text: str) -> list[str]:
        """Return the ids, six at most, that begin with the text, or those with this title: tasks, then chains."""
        return self._database.read(lambda connection: read.named(connection, tenant, text))

    def titles(self, tenant: str | None, task_ids: Sequence[str]) -> dict[str, str]:
        """Return titles by id; tasks that another tenant has, and titles that cannot be read, are left out.

        A `tenant` of None stands for all tenants.
        """
        return self._database.look(lambda connection: read.titles(connection, tenant, task_ids))

    def of_runs(self, tenant: str, run_ids: Sequence[str]) -> dict[str, Known]:
        """Return title and task by run, for runs of this tenant."""
        return self._database.look(lambda connection: read.of_runs(connection, tenant, run_ids))

    def page(
        self, tenant: str, where: TaskFilter, *, limit: int, cursor: str | None = None
    ) -> tuple[list[TaskRecord], str | None]:
        """Return a page of tasks, open ones by due time, then ended ones newest first, and the cursor of the next page.

        Raises `InvalidArgument` for a cursor of another list or filter.
        """
        of = ("tasks", tenant, where)
        behind = self._cursors.read(cursor, of=of)

        def work(connection: Connection) -> tuple[list[TaskRecord], Position | None]:
            matches = task_list.matching(connection, tenant, where)
            return task_list.page(connection, tenant, where, matches, limit=limit, behind=behind)

        page, last = self._database.read(work)
        return page, self._cursors.write(last, of=of) if last else None

    def agenda(self, tenant: str, where: TaskFilter, *, limit: int, cursor: str | None = None) -> agenda.Agenda | None:
        """Return the next `limit` open tasks of a window and its recurring ones; None behind the open tasks."""
        behind = self._cursors.read(cursor, of=("tasks", tenant, where))

        def work(connection: Connection) -> agenda.Agenda | None:
            matches = task_list.matching(connection, tenant, where)
            return agenda.agenda(connection, tenant, where, matches, limit=limit, behind=behind)

        return self._database.read(work)

    def cursor_behind(self, tenant: str, where: TaskFilter, place: ListPlace | None) -> str:
        """Return the cursor behind a place among the open tasks; behind all of them for None."""
        return self._cursors.write(agenda.position_behind(place), of=("tasks", tenant, where))

    def recurring(
        self, tenant: str | None, *, words: str | None = None, limit: int, cursor: str | None = None
    ) -> tuple[list[TaskRecord], str | None]:
        """Return a page of tasks that recur and have runs to come, newest first, and the cursor of the next page."""
        of = ("recurring", tenant, words)
        behind = self._cursors.read(cursor, of=of)
        found = self._database.read(
            lambda connection: schedule_list.page(connection, tenant, words, limit=limit + 1, behind=behind)
        )
        if len(found) <= limit:
            return found, None
        last = found[limit - 1].task
        return found[:limit], self._cursors.write([to_microseconds(last.created_at), last.id], of=of)

    def counts(self, tenant: str, where: TaskFilter) -> dict[State, int]:
        """Return the number of tasks of the filter by state, without empty states."""
        return self._database.read(lambda connection: task_list.counts(connection, tenant, where))

    def page_and_counts(
        self, tenant: str, where: TaskFilter, *, limit: int, most: int, cursor: str | None = None
    ) -> tuple[list[TaskRecord], str | None, task_list.Counts]:
        """Return a page like `page`, and the tasks of the filter by state, with the states of which there may be more.

        Counting stops at `most` for each state; with titles, labels, actions or times in the filter, at `most` open and
        `most` ended tasks. So the cost does not grow with the number of tasks.
        """
        of = ("tasks", tenant, where)
        behind = self._cursors.read(cursor, of=of)

        def work(connection: Connection) -> tuple[list[TaskRecord], Position | None, task_list.Counts]:
            matches = task_list.matching(connection, tenant, where)
            page, last = task_list.page(connection, tenant, where, matches, limit=limit, behind=behind)
            return page, last, task_list.counts_up_to(connection, tenant, where, matches, most)

        page, last, counts = self._database.read(work)
        return page, self._cursors.write(last, of=of) if last else None, counts

    def change(
        self,
        tenant: str,
        task_id: str,
        *,
        actor: str,
        kind: EventKind,
        decide: Callable[[TaskRecord], Change],
        revision: int | None = None,
        reason: str | None = None,
        via: str | None = None,
    ) -> TaskRecord:
        """Read a task, call `decide` for its change, and store the change with an event, in one transaction.

        `decide` must be pure, and may raise `Refused`. An empty change writes nothing. Raises `StaleRevision` when
        `revision` is given and is not the task's, `TaskNotFound`, and `IllegalMove`.
        """
        by = ChangeOrigin(actor, kind, reason, via)
        return self._once(tenant, task_id, None, lambda _, record: decide(record), by, revision=revision).record

    def change_once(
        self,
        tenant: str,
        task_id: str,
        key: IdempotencyKey | None,
        by: ChangeOrigin,
        decide: Callable[[TaskRecord], Change],
        *,
        revision: int | None = None,
        locks: LinkLocks | None = None,
        dry_run: bool = False,
    ) -> Changed:
        """Change a task like `change`, unless the key names an earlier change; `locks` are taken first.

        A `dry_run` stores nothing. Raises `IdempotencyConflict` when the key was used for another change.
        """
        decided, taken = lambda _, record: decide(record), lambda *_: locks
        return self._once(tenant, task_id, key, decided, by, revision=revision, locks=taken, dry_run=dry_run)

    def undo_once(
        self,
        tenant: str,
        task_id: str,
        key: IdempotencyKey | None,
        *,
        actor: str,
        decide: Callable[[TaskRecord, LastChange | None], Change],
        revision: int | None = None,
        via: str | None = None,
    ) -> Changed:
        """Change a task like `change_once`, by a decision that needs the latest change of it."""

        def decided(connection: Connection, record: TaskRecord) -> Change:
            return decide(record, last_changes.last_changes(connection, [record.task]).get(task_id))

        by = ChangeOrigin(actor, EventKind.UNDONE, via=via)
        return self._once(tenant, task_id, key, decided, by, revision=revision, locks=relink.locks_of_undo)

    def _once(
        self,
        tenant: str,
        task_id: str,
        key: IdempotencyKey | None,
        decide: Callable[[Connection, TaskRecord], Change],
        by: ChangeOrigin,
        *,
        revision: int | None,
        locks: Callable[[Connection, str, str], LinkLocks | None] = lambda *_: None,
        dry_run: bool = False,
    ) -> Changed:
        def work(connection: Connection) -> Changed:
            if found := locks(connection, tenant, task_id):
                relink.lock(connection, tenant, found)
            locked = found is not None and task_id in found.task_ids
            record, now = (read.record if locked else read.locked_record)(connection, tenant, task_id), self._now()
            if record.damage:
                record = repair.mended(connection, record, by.kind, Acting(actor=by.actor, via=by.via), now)
            if key and idempotency.is_repeat(connection, record.task, key, by.actor, now):
                return Changed(record, repeated=True)
            event_log.check_revision(connection, record.task, revision)
            change = decide(connection, record)
            tenant_counts.admit_change(connection, record, change, by.kind, now, dry_run=dry_run)
            changed = changing.apply(connection, record, change, by, now)
            if key:
                idempotency.store_change(connection, changed.task, key)
            return Changed(changed, upstreams.waits_of(connection, changed))

        return self._commits.rehearse(work) if dry_run else self._commits.write(work)

    def forget_keys(self, *, limit: int = 500) -> int:
        """Examine `limit` idempotency keys that may have expired, and remove those that have; return how many."""
        now = self._now()
        return self._database.write(
            lambda connection: idempotency.forget_outdated(connection, now, limit), durable=False
        )


def _is_one_statement(items: Sequence[NewTask]) -> bool:
    """Whether one statement may store the items: a refused one must undo the others, and upstreams have to be read."""
    if any(isinstance(item, DependentTask) for item in items):
        return False
    return len(items) == 1 or not any(item.key for item in items)
