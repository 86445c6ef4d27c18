"""Reads tasks with their runs and deliveries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from types import MappingProxyType

from duetime.scheduler.errors import TaskNotFound
from duetime.scheduler.ids import is_chain_id, is_id
from duetime.scheduler.rules.series.overtake import was_cancelled
from duetime.scheduler.rules.states import FAILURES
from duetime.scheduler.run_records import Known
from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.schema.rows import (
    DELIVERY_FIELDS,
    IS_CURRENT,
    RUN_FIELDS,
    TASK_FIELDS,
    DamageWords,
    Row,
    damaged_task_and_run,
    folded,
    task_and_run,
)
from duetime.scheduler.store.schema.tables.chains import chain_steps, chains
from duetime.scheduler.store.schema.tables.deliveries import deliveries, inbox
from duetime.scheduler.store.schema.tables.tasks import attempts, runs, tasks
from duetime.scheduler.store.schema.values import storable
from duetime.scheduler.store.sql.locks import lock_tasks
from duetime.scheduler.store.sql.unindexed_column import unindexed
from duetime.scheduler.store.statements import event_log
from duetime.scheduler.task import Delivery, Notify, Run, State, Task
from duetime.scheduler.views import TaskRecord
from sqlalchemy import Connection, and_, bindparam, exists, func, literal_column, or_, select, true

_RECENT_ROWS = 1_000
_MIN_SIMILARITY_RATIO = 0.7
_MIN_PREFIX_CHARS = 3
"""Characters of an id that may stand for it: more than all ids have in common."""
_MAX_NAMED_ROWS = 6

TASK_AND_RUN = select(*TASK_FIELDS, *RUN_FIELDS).select_from(tasks.join(runs, runs.c.task_id == tasks.c.id))

_other = runs.alias("other")
_has_others = exists().where(_other.c.task_id == tasks.c.id, _other.c.id != runs.c.id)
_ONE = TASK_AND_RUN.add_columns(or_(runs.c.ended_at.is_not(None), _has_others).label("has_past")).where(
    tasks.c.id == bindparam("task_id"), (tasks.c.tenant == bindparam("tenant")).is_(true()), IS_CURRENT
)
_MANY = TASK_AND_RUN.where(tasks.c.id.in_(bindparam("task_ids", expanding=True)), IS_CURRENT)

_OF_TENANT = tasks.c.tenant == bindparam("tenant")

_past = runs.alias("past")
_has_run = and_(_past.c.state != State.SKIPPED, (_past.c.state != State.CANCELLED) | _past.c.started_at.is_not(None))
_ENDED = (
    select(_past.c.id)
    .where(_past.c.task_id == tasks.c.id, _past.c.ended_at.is_not(None))
    .order_by(_past.c.scheduled_for.desc(), _past.c.generation.desc())
    .limit(1)
)
LATEST_ENDED = _ENDED.where(_has_run)
LATEST_OF_STEP = LATEST_ENDED.order_by(None).order_by(
    _past.c.number.desc(), _past.c.scheduled_for.desc(), _past.c.generation.desc()
)
"""That of a step of a chain that recurs: a replay of an earlier generation is not its latest run."""

_LATEST_SAID = _ENDED.where(_has_run | select(inbox.c.id).where(inbox.c.run_id == _past.c.id).exists())
_LAST, _LAST_OF_STEPS = (
    select(*RUN_FIELDS)
    .select_from(tasks.join(runs, runs.c.id == latest.scalar_subquery()))
    .where(tasks.c.id.in_(bindparam("task_ids", expanding=True)))
    for latest in (LATEST_ENDED, LATEST_OF_STEP)
)
_COMPARED = (
    select(*RUN_FIELDS)
    .select_from(tasks.join(runs, runs.c.id == _LATEST_SAID.scalar_subquery()))
    .where(tasks.c.id.in_(bindparam("task_ids", expanding=True)))
)
_RENEWED = (
    select(chain_steps.c.task_id)
    .join_from(chain_steps, chains, chains.c.id == chain_steps.c.chain_id)
    .where(chain_steps.c.task_id.in_(bindparam("task_ids", expanding=True)), chains.c.number > 1)
)
_failed = runs.alias("failed")
_SKIPPED_AGAIN = (
    select(runs.c.task_id)
    .join_from(runs, _failed, (_failed.c.task_id == runs.c.task_id) & (_failed.c.number == runs.c.number))
    .where(_failed.c.id.in_(bindparam("run_ids", expanding=True)))
    .where(runs.c.generation > _failed.c.generation, runs.c.state == State.SKIPPED)
)
_SIDE_RUNS = (
    select(*RUN_FIELDS)
    .where(
        runs.c.task_id.in_(bindparam("task_ids", expanding=True)),
        literal_column("NOT runs.current AND runs.ended_at IS NULL"),
    )
    .order_by(runs.c.id)
)
_DELIVERIES = (
    select(*DELIVERY_FIELDS)
    .where(deliveries.c.run_id.in_(bindparam("run_ids", expanding=True)))
    .order_by(deliveries.c.id)
)
_OF_RUNS = (
    select(runs.c.id, tasks.c.id, tasks.c.title, tasks.c.action, tasks.c.estimate, attempts.c.started_at)
    .select_from(
        runs.join(tasks, tasks.c.id == runs.c.task_id).outerjoin(
            attempts, and_(attempts.c.run_id == runs.c.id, attempts.c.number == runs.c.attempt)
        )
    )
    .where(unindexed(runs.c.tenant) == bindparam("tenant"), runs.c.id.in_(bindparam("run_ids", expanding=True)))
)
_TITLES = select(tasks.c.id, tasks.c.title).where(tasks.c.id.in_(bindparam("task_ids", expanding=True)))
_TITLES_OF_TENANT = _TITLES.where(unindexed(tasks.c.tenant) == bindparam("tenant"))


def locked_record(connection: Connection, tenant: str, task_id: str) -> TaskRecord:
    """Return one task like `record`, and keep it from changing until the transaction ends."""
    if is_id(task_id):  # the next statement sees the run that became current while this one waited
        lock_tasks(connection, [task_id])
    return record(connection, tenant, task_id)


def record(connection: Connection, tenant: str, task_id: str) -> TaskRecord:
    """Return one task; raises `TaskNotFound` with the tenant's closest ids."""
    if not is_id(task_id):
        raise TaskNotFound(task_id)
    rows, damaged = unreadable.every(connection, _ONE, {"task_id": task_id, "tenant": tenant})
    if not rows:
        raise TaskNotFound(task_id, closest(connection, tenant, task_id))
    if not (damaged or rows[0].has_past):
        return TaskRecord(*task_and_run(rows[0]))
    return records_of(connection, rows, damaged)[0]


def record_at(connection: Connection, tenant: str, task_id: str, revision: int | None) -> TaskRecord:
    """Return one task like `record`; raises `StaleRevision` when `revision` is given and is not the task's."""
    found = record(connection, tenant, task_id)
    event_log.check_revision(connection, found.task, revision)
    return found


def records(connection: Connection, task_ids: Iterable[str]) -> dict[str, TaskRecord]:
    """Return tasks by id, whatever their tenant; the caller got the ids from a query of one tenant."""
    rows, damaged = unreadable.every(connection, _MANY, {"task_ids": list(task_ids)})
    return {found.task.id: found for found in records_of(connection, rows, damaged)}


def of_runs(connection: Connection, tenant: str, run_ids: Sequence[str]) -> dict[str, Known]:
    """Return title and task by run, for runs of the tenant."""
    rows = unreadable.rows(connection, _OF_RUNS, {"tenant": tenant, "run_ids": list(run_ids)})
    return {run_id: Known(*facts) for run_id, *facts in rows}


def records_of(connection: Connection, rows: Sequence[Row], damaged: bool) -> list[TaskRecord]:
    """Return the tasks of rows of TASK_FIELDS and RUN_FIELDS, each with its last ended run and the deliveries shown."""
    if not damaged:
        return with_past(connection, [task_and_run(row) for row in rows])
    found = [damaged_task_and_run(row) for row in rows]
    return with_past(connection, [(task, run) for task, run, _ in found], {task.id: why for task, _, why in found})


def with_past(
    connection: Connection, pairs: Sequence[tuple[Task, Run]], damage: Mapping[str, DamageWords] = MappingProxyType({})
) -> list[TaskRecord]:
    """Add to each task its latest ended run, and the deliveries of the runs shown; `damage` is by task."""
    noted = {task.id: [*damage.get(task.id, ())] for task, _ in pairs}
    last = _last_runs(connection, pairs, noted)
    sent = _deliveries(connection, [run.id for run in last.values()])
    side_runs, renewed = side_runs_of(connection, [task for task, _ in pairs]), _renewed(connection, pairs, last)
    found = []
    for task, run in pairs:
        last_run = last.get(task.id)
        deliveries_of_last = tuple(sent.get(last_run.id, ())) if last_run else ()
        side, notes = side_runs.get(task.id, ()), tuple(noted[task.id])
        found.append(TaskRecord(task, run, last_run, deliveries_of_last, side, notes, task.id in renewed))
    return found


def _renewed(connection: Connection, pairs: Sequence[tuple[Task, Run]], last: Mapping[str, Run]) -> set[str]:
    """Return the steps whose chain has begun another generation since; makes no query where there can be none.

    Not those that failed, were to run again in that generation, and were skipped: they did not end it with a failure.
    """
    later = [task.id for task, run in pairs if task.repeat is None and _is_later(run, last.get(task.id))]
    found = set(connection.execute(_RENEWED, {"task_ids": later}).scalars()) if later else set()
    failed = [last[each].id for each in found if last[each].state in FAILURES]
    if failed:
        found -= set(connection.execute(_SKIPPED_AGAIN, {"run_ids": failed}).scalars())
    return found


def since(connection: Connection, record: TaskRecord, failed: Run) -> TaskRecord:
    """Return a task with a failed run as its last one, `renewed` where its chain has begun a generation since."""
    run, given = record.run, {"task_ids": [record.task.id]}
    is_later = record.task.repeat is None and run.number > failed.number and not was_cancelled(run)
    renewed = is_later and connection.execute(_RENEWED, given).first() is not None
    return replace(record, last_run=failed, renewed=renewed)


def _is_later(run: Run, last: Run | None) -> bool:
    """Whether an open run is a later one than the last, and not this one once more."""
    is_next = last is not None and run.ended_at is None and run.number > last.number
    return is_next and last is not None and run.repeats != (last.repeats or last.id)


def side_runs_of(connection: Connection, of: Iterable[Task]) -> dict[str, tuple[Run, ...]]:
    """Return the open side runs; only a changed task has such runs."""
    task_ids = [task.id for task in of if task.revision > 1]
    found: dict[str, tuple[Run, ...]] = {}
    if task_ids:
        for run, _ in unreadable.values(connection, _SIDE_RUNS, Run, RUN_FIELDS, {"task_ids": task_ids}):
            found[run.task_id] = (*found.get(run.task_id, ()), run)
    return found


def compared_with(connection: Connection, of: Iterable[Task]) -> dict[str, Run]:
    """Return the latest runs that ended with an outcome, by task, of those tasks that report changes alone.

    A run that was skipped has one where nobody answered, or no event came.
    """
    given = {"task_ids": [task.id for task in of if task.notify is Notify.CHANGE]}
    found = unreadable.values(connection, _COMPARED, Run, RUN_FIELDS, given) if given["task_ids"] else ()
    return {run.task_id: run for run, _ in found}


def ran(run: Run) -> bool:
    """Whether a run ended with a result: not skipped, and not cancelled before its start."""
    if run.ended_at is None or run.state is State.SKIPPED:
        return False
    return run.state is not State.CANCELLED or run.started_at is not None


def _is_of_later_generation(task: Task, run: Run) -> bool:
    """Whether a run is that of a step in another generation of its chain than the first one."""
    return task.repeat is None and run.number > 1


def _last_runs(
    connection: Connection, pairs: Sequence[tuple[Task, Run]], noted: Mapping[str, list[str]]
) -> dict[str, Run]:
    last = {run.task_id: run for _, run in pairs if ran(run)}
    earlier = [(task, run) for task, run in pairs if not ran(run)]
    steps = [task.id for task, run in earlier if _is_of_later_generation(task, run)]
    others = [task.id for task, run in earlier if not _is_of_later_generation(task, run)]
    for statement, task_ids in ((_LAST, others), (_LAST_OF_STEPS, steps)):
        found = unreadable.values(connection, statement, Run, RUN_FIELDS, {"task_ids": task_ids}) if task_ids else ()
        for run, damage in found:
            last[run.task_id] = run
            noted[run.task_id].extend(f"of its last run: {each}" for each in damage)
    return last


def _deliveries(connection: Connection, run_ids: list[str]) -> dict[str, list[Delivery]]:
    found: dict[str, list[Delivery]] = {}
    if run_ids:
        for delivery, _ in unreadable.values(connection, _DELIVERIES, Delivery, DELIVERY_FIELDS, {"run_ids": run_ids}):
            found.setdefault(delivery.run_id, []).append(delivery)
    return found


def closest(connection: Connection, tenant: str, task_id: str) -> list[tuple[str, str]]:
    """Return (id, title) of the tenant's recent tasks with the ids most similar to the given one."""
    recent = (
        select(tasks.c.id, tasks.c.title)
        .where(tasks.c.tenant == tenant)
        .order_by(tasks.c.created_at.desc())
        .limit(_RECENT_ROWS)
    )
    titles = {row.id: row.title for row in unreadable.rows(connection, recent)}
    return [(name, titles[name]) for name in get_close_matches(task_id[:40], titles, n=3, cutoff=_MIN_SIMILARITY_RATIO)]


def named(connection: Connection, tenant: str, text: str) -> list[str]:
    """Return the ids of the tenant's newest tasks and chains that begin with the text, or else have it as a title."""
    mine = select(tasks.c.id).where(tasks.c.tenant == tenant).order_by(tasks.c.created_at.desc()).limit(_MAX_NAMED_ROWS)
    its = chains.c
    whole = select(its.id).where(its.tenant == tenant).order_by(its.created_at.desc()).limit(_MAX_NAMED_ROWS)
    found: list[str] = []
    if is_id(text) and len(text) >= _MIN_PREFIX_CHARS:
        newest, ids = (whole, its.id) if is_chain_id(text) else (mine, tasks.c.id)
        found += connection.execute(newest.where(ids.startswith(text, autoescape=True))).scalars()
    if not found:
        found += connection.execute(mine.where(tasks.c.title_folded == folded(text))).scalars()
        stored = storable(text)
        titled = or_(its.title == stored, func.lower(its.title) == stored.lower())
        found += connection.execute(whole.where(titled)).scalars()
    return found[:_MAX_NAMED_ROWS]


def titles(connection: Connection, tenant: str | None, task_ids: Sequence[str]) -> dict[str, str]:
    """Return the titles of those tasks that the tenant has, None for any, and that can be read, by id."""
    values: dict[str, object] = {"task_ids": list(filter(is_id, task_ids))}
    statement = _TITLES if tenant is None else _TITLES_OF_TENANT
    rows = unreadable.rows(connection, statement, values if tenant is None else {**values, "tenant": tenant})
    return {row.id: row.title for row in rows}
