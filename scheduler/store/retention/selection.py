"""Selects the rows that a rule lets go, page by page. Reading them holds up no writer.

Needed rows are never selected: open tasks and runs, the last run of a task that recurs, and pending deliveries. Nor is
a task that a call could still repeat: its idempotency keys are kept for 30 days after its end. Unread messages are
selected only where the rule says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from duetime.scheduler.history.retention import RetentionKind, RetentionRule, ScopedRule
from duetime.scheduler.store.retention.last_events import last_events
from duetime.scheduler.store.retention.preview import Foreseen
from duetime.scheduler.store.retention.row_conditions import (
    TABLES,
    RowCondition,
    let_go,
    needed_message,
    needed_usage,
    of_tenants,
)
from duetime.scheduler.store.schema.rows import IS_CURRENT
from duetime.scheduler.store.schema.tables.chains import chain_steps, dependencies
from duetime.scheduler.store.schema.tables.events import events, keys
from duetime.scheduler.store.schema.tables.tasks import runs, tasks
from duetime.scheduler.store.statements import idempotency
from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    and_,
    case,
    exists,
    func,
    literal,
    literal_column,
    not_,
    or_,
    select,
    tuple_,
)

RowKey = tuple[Any, ...]
"""The primary key of a row."""

MAX_ROWS_SELECTED = 5_000
"""Rows that one page looks at."""

MAX_TASKS_SELECTED = 500
ROWS_PER_RUN, ROWS_PER_ATTEMPT = 5, 4
"""Estimate of the rows that go with a run, and with each of its attempts: events most of all."""

_ENDED: RowCondition = literal_column("runs.ended_at IS NOT NULL")
_OPEN_SIDE_RUN: RowCondition = literal_column("NOT runs.current AND runs.ended_at IS NULL")
_of_run = runs.alias("of_run")
_after = runs.alias("after")
_NEEDED_RESULT: RowCondition = exists().where(
    dependencies.c.upstream_id == tasks.c.id,
    _after.c.task_id == dependencies.c.task_id,
    _after.c.current,
    _after.c.ended_at.is_(None),
)
"""Whether an open task comes after this one."""

_newest_event = (
    select(events.c.at)
    .where(events.c.task_id == tasks.c.id)
    .order_by(events.c.seq.desc())
    .limit(1)
    .correlate(tasks)
    .scalar_subquery()
)

_own, _sibling = chain_steps.alias("own"), chain_steps.alias("sibling")


def _of_needed_chain(before: datetime) -> RowCondition:
    """Whether a step of the same chain is open, or ended later: a chain goes as a whole."""
    siblings = and_(_own.c.task_id == tasks.c.id, _sibling.c.chain_id == _own.c.chain_id)
    needed = or_(_after.c.ended_at.is_(None), _after.c.ended_at >= before)
    return or_(
        exists().where(siblings, _after.c.task_id == _sibling.c.task_id, _after.c.current, needed),
        exists().where(siblings, runs.c.task_id == _sibling.c.task_id, _OPEN_SIDE_RUN),
    )


@dataclass(frozen=True, slots=True)
class Selected:
    """A row to delete; `weight` estimates how many rows go with it, `last_event` is the number of a task's last one."""

    key: RowKey
    weight: int = 1
    last_event: int | None = None


@dataclass(frozen=True, slots=True)
class SelectedPage:
    """The rows of one page, and where the next page begins; None after the last one."""

    rows: tuple[Selected, ...]
    after: RowKey | None


def page(
    connection: Connection, scope: ScopedRule, before: datetime, after: RowKey | None, ahead: Foreseen | None = None
) -> SelectedPage:
    """Return the next rows that are older than `before` and may go, or may when what is `ahead` has happened."""
    if scope.rule.kind is RetentionKind.TASKS:
        return _tasks(connection, scope, before, after, ahead)
    table = TABLES[scope.rule.kind]
    key = list(table.primary_key)
    due = let_go(scope, before, ahead)
    statement: Select[Any] = select(*key, _weight(scope.rule.kind), case((due, 1), else_=0)).order_by(*key)
    if after is not None:
        last = [literal(value, column.type) for value, column in zip(after, key, strict=True)]
        statement = statement.where(tuple_(*key) > tuple_(*last))
    found = connection.execute(statement.limit(MAX_ROWS_SELECTED)).all()
    width = len(key)
    rows = tuple(Selected(tuple(row[:width]), row[width]) for row in found if row[width + 1])
    return SelectedPage(rows, tuple(found[-1][:width]) if len(found) == MAX_ROWS_SELECTED else None)


def _weight(kind: RetentionKind) -> ColumnElement[Any]:
    return ROWS_PER_RUN + ROWS_PER_ATTEMPT * runs.c.attempt if kind is RetentionKind.RUNS else literal(1)


# --- tasks: an index has them in the order of their ends, tenant by tenant --------------------------------------------


def _tasks(
    connection: Connection, scope: ScopedRule, before: datetime, after: RowKey | None, ahead: Foreseen | None
) -> SelectedPage:
    tenant, behind = (after[0], after[1:]) if after else (_next_tenant(connection, scope, ""), ())
    if tenant is None:
        return SelectedPage((), None)
    statement = select(runs.c.listed_at, runs.c.task_id).where(
        runs.c.tenant == tenant, IS_CURRENT, _ENDED, runs.c.listed_at < before
    )
    if behind:
        last = literal(behind[0], runs.c.listed_at.type), literal(behind[1], runs.c.task_id.type)
        statement = statement.where(tuple_(runs.c.listed_at, runs.c.task_id) > tuple_(*last))
    if scope.rule.states:
        statement = statement.where(runs.c.state.in_(scope.rule.states))
    statement = statement.order_by(runs.c.listed_at, runs.c.task_id).limit(MAX_TASKS_SELECTED)
    found = connection.execute(statement).all()
    rows = _free(connection, scope.rule, before, [row.task_id for row in found], ahead)
    if len(found) == MAX_TASKS_SELECTED:
        return SelectedPage(rows, (tenant, *found[-1]))
    following = _next_tenant(connection, scope, tenant)
    return SelectedPage(rows, None if following is None else (following,))


def _next_tenant(connection: Connection, scope: ScopedRule, tenant: str) -> str | None:
    """Return the first tenant behind this one; an index has them."""
    if scope.rule.tenant is not None:
        return scope.rule.tenant if tenant == "" else None
    statement = select(func.min(tasks.c.tenant)).where(tasks.c.tenant > tenant, *of_tenants(scope, tasks.c.tenant))
    found: str | None = connection.execute(statement).scalar()
    return found


def _free(
    connection: Connection, rule: RetentionRule, before: datetime, ids: Sequence[str], ahead: Foreseen | None
) -> tuple[Selected, ...]:
    """Return those of these tasks that nothing needs any more, each with the rows that go with it."""
    if not ids:
        return ()
    repeatable = _repeatable(connection, ids, ahead)
    free = old_tasks(connection, rule, before, [task_id for task_id in ids if task_id not in repeatable], ahead)
    count = ROWS_PER_RUN * func.count() + ROWS_PER_ATTEMPT * func.sum(runs.c.attempt)
    weights = select(runs.c.task_id, count).where(runs.c.task_id.in_(free)).group_by(runs.c.task_id)
    found = {str(task_id): int(weight) for task_id, weight in connection.execute(weights)}
    newest = last_events(connection, free)
    return tuple(Selected((task_id,), found[task_id], newest.get(task_id, 0)) for task_id in free)


def _repeatable(connection: Connection, ids: Sequence[str], ahead: Foreseen | None) -> set[str]:
    """Return those of these tasks that have keys: an expired one counts until it is removed."""
    if ahead is not None:
        return idempotency.held(connection, ids, ahead.now)
    return set(connection.execute(select(keys.c.task_id).where(keys.c.task_id.in_(ids))).scalars())


def old_tasks(
    connection: Connection,
    rule: RetentionRule,
    before: datetime,
    ids: Sequence[str],
    ahead: Foreseen | None = None,
    *,
    messages: bool = True,
) -> list[str]:
    """Return those of these tasks that ended before then and that nobody changed since; keys apart.

    A call that stores a key for a task is an event of it, so what had none and has no new event has none. With
    `messages` each run is looked at for a message that is still needed.
    """
    of_task = _of_run.c.task_id == tasks.c.id
    ended = exists().where(of_task, _of_run.c.current, _of_run.c.ended_at < before, *_states(rule))
    needed = [exists().where(runs.c.task_id == tasks.c.id, _OPEN_SIDE_RUN), _NEEDED_RESULT, _of_needed_chain(before)]
    needed.append(exists().where(of_task, needed_usage(_of_run.c.id, rule, before)))
    if messages:
        needed.append(exists().where(of_task, needed_message(_of_run.c.id, ahead, unread=not rule.unread)))
    unchanged = tasks.c.updated_at < before, or_(_newest_event.is_(None), _newest_event < before)
    statement = select(tasks.c.id).where(tasks.c.id.in_(ids), *unchanged, ended, not_(or_(*needed)))
    return list(connection.execute(statement).scalars())


def _states(rule: RetentionRule) -> list[RowCondition]:
    return [_of_run.c.state.in_(rule.states)] if rule.states else []
