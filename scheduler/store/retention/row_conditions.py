"""Conditions of rows that a rule lets go, for each kind of rows but tasks.

Needed rows are kept: open runs and those of an open generation, the last run of a task that recurs, and pending
deliveries. Unread messages go only
where the rule says so.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from duetime.scheduler.events import EventKind
from duetime.scheduler.history.retention import MIN_USAGE_AGE, RetentionKind, RetentionRule, ScopedRule
from duetime.scheduler.rules.limits.pool import PoolKind
from duetime.scheduler.store.retention.preview import Foreseen
from duetime.scheduler.store.schema.rows import IS_CURRENT, LAST_FAILURE
from duetime.scheduler.store.schema.tables.chains import chain_steps
from duetime.scheduler.store.schema.tables.dead_letters import dead_letters
from duetime.scheduler.store.schema.tables.deliveries import deliveries, inbox
from duetime.scheduler.store.schema.tables.events import events
from duetime.scheduler.store.schema.tables.logs import run_logs
from duetime.scheduler.store.schema.tables.pools import pools, usage
from duetime.scheduler.store.schema.tables.tasks import attempts, runs, tasks, tracebacks
from duetime.scheduler.task import State
from sqlalchemy import ColumnElement, String, Table, and_, cast, exists, literal_column, not_, or_, select, tuple_

RowCondition = ColumnElement[bool]

TABLES: dict[RetentionKind, Table] = {
    RetentionKind.TASKS: tasks,
    RetentionKind.RUNS: runs,
    RetentionKind.EVENTS: events,
    RetentionKind.ATTEMPTS: attempts,
    RetentionKind.TRACEBACKS: tracebacks,
    RetentionKind.LOGS: run_logs,
    RetentionKind.INBOX: inbox,
    RetentionKind.DELIVERIES: deliveries,
    RetentionKind.DEAD_LETTERS: dead_letters,
    RetentionKind.USAGE: usage,
}

_later = runs.alias("later")
_newer = events.alias("newer")
_of_run = runs.alias("of_run")
_of_message = inbox.alias("of_message")
_own, _sibling, _aside = chain_steps.alias("own"), chain_steps.alias("sibling"), runs.alias("aside")
_OF_OPEN_GENERATION: RowCondition = exists().where(
    _own.c.task_id == runs.c.task_id,
    _sibling.c.chain_id == _own.c.chain_id,
    _aside.c.task_id == _sibling.c.task_id,
    literal_column("NOT aside.current AND aside.ended_at IS NULL"),
    _aside.c.number == runs.c.number,
)
"""Whether an older generation of a chain, in which a step has this run, is open: the other steps go by its end."""


def of_tenants(scope: ScopedRule, tenant: ColumnElement[Any]) -> list[RowCondition]:
    named = [tenant == scope.rule.tenant] if scope.rule.tenant is not None else []
    return [*named, *([tenant.not_in(scope.except_tenants)] if scope.except_tenants else [])]


def _tenant_of(kind: RetentionKind) -> ColumnElement[Any]:
    """Return the tenant of a row; an attempt has the one of its run."""
    table = TABLES[kind]
    if "tenant" in table.c:
        return table.c.tenant
    return select(_of_run.c.tenant).where(_of_run.c.id == table.c.run_id).scalar_subquery()


def let_go(scope: ScopedRule, before: datetime, ahead: Foreseen | None = None) -> RowCondition:
    """Return what must hold for a row that a rule lets go; tasks have no such condition."""
    return and_(*conditions(scope.rule, before, ahead), *of_tenants(scope, _tenant_of(scope.rule.kind)))


def conditions(rule: RetentionRule, before: datetime, ahead: Foreseen | None = None) -> list[RowCondition]:
    """Return what must hold for a row of the rule's kind, but for its tenant."""
    return _CONDITIONS[rule.kind](rule, before, ahead)


def _stays(kind: RetentionKind, ahead: Foreseen | None) -> list[RowCondition]:
    """Return what must hold for a row of a kind that will still be there."""
    applied = ahead.applied if ahead else ()
    return [not_(let_go(scope, before)) for scope, before in applied if scope.rule.kind is kind]


def _runs(rule: RetentionRule, before: datetime, ahead: Foreseen | None) -> list[RowCondition]:
    """Return what must hold for an earlier run: the last one of its task, by which lists show it, stays."""
    followed = exists().where(
        _later.c.task_id == runs.c.task_id,
        tuple_(_later.c.scheduled_for, _later.c.generation) > tuple_(runs.c.scheduled_for, runs.c.generation),
        _later.c.ended_at.is_not(None),
        _later.c.state != State.SKIPPED,
        (_later.c.state != State.CANCELLED) | _later.c.started_at.is_not(None),
    )
    return [
        not_(IS_CURRENT),
        not_(LAST_FAILURE),
        runs.c.ended_at < before,
        *([runs.c.state.in_(rule.states)] if rule.states else []),
        followed,
        not_(_OF_OPEN_GENERATION),
        not_(needed_message(runs.c.id, ahead, unread=not rule.unread)),
        not_(needed_usage(runs.c.id, rule, before)),
    ]


def needed_message(run_id: ColumnElement[Any], ahead: Foreseen | None, *, unread: bool) -> RowCondition:
    """Whether a run has a message that nobody has read, or a delivery that is still to be made."""
    pending = exists().where(deliveries.c.run_id == run_id, deliveries.c.next_at.is_not(None))
    if not unread:
        return pending
    of_run = inbox.c.run_id == run_id, inbox.c.read_at.is_(None)
    return or_(pending, exists().where(*of_run, *_stays(RetentionKind.INBOX, ahead)))


def needed_usage(run_id: ColumnElement[Any], rule: RetentionRule, before: datetime) -> RowCondition:
    """Whether a run has used a budget so recently that its window may still be open."""
    counted_from = before + (rule.age or timedelta()) - MIN_USAGE_AGE
    of_budget = pools.c.name == usage.c.pool, cast(pools.c.spec, String).contains(f'"{PoolKind.BUDGET}"')
    return exists().where(usage.c.run_id == run_id, usage.c.at >= counted_from, *of_budget)


def _events(_rule: RetentionRule, before: datetime, ahead: Foreseen | None) -> list[RowCondition]:
    """Return what must hold for an event: by those that name the title or an error, a search finds tasks and runs."""
    return [
        events.c.at < before,
        events.c.kind != EventKind.CREATED,
        or_(events.c.after.is_(None), not_(cast(events.c.after, String).contains('"title"'))),
        exists().where(_newer.c.task_id == events.c.task_id, _newer.c.seq > events.c.seq),
        not_(exists().where(_of_run.c.id == events.c.run_id, _of_run.c.ended_at.is_(None))),
        or_(events.c.reason.is_(None), not_(_says_why(ahead))),
    ]


def _says_why(ahead: Foreseen | None) -> RowCondition:
    """Whether the run of an event stays, and says itself why it or an attempt failed: the event is its index."""
    tried = exists().where(attempts.c.run_id == runs.c.id, attempts.c.reason.is_not(None))
    failed = or_(runs.c.error.is_not(None), tried)
    return exists().where(runs.c.id == events.c.run_id, failed, *_stays(RetentionKind.RUNS, ahead))


def _attempts(_rule: RetentionRule, before: datetime, ahead: Foreseen | None) -> list[RowCondition]:
    """Return what must hold for an attempt: a dead letter is shown with all of its own."""
    return [
        attempts.c.ended_at < before,
        exists().where(_of_run.c.id == attempts.c.run_id, _of_run.c.ended_at.is_not(None)),
        not_(exists().where(dead_letters.c.run_id == attempts.c.run_id, *_stays(RetentionKind.DEAD_LETTERS, ahead))),
    ]


def _tracebacks(_rule: RetentionRule, before: datetime, _ahead: Foreseen | None) -> list[RowCondition]:
    of_attempt = attempts.c.run_id == tracebacks.c.run_id, attempts.c.number == tracebacks.c.attempt
    return [exists().where(*of_attempt, attempts.c.ended_at < before)]


def _logs(_rule: RetentionRule, before: datetime, _ahead: Foreseen | None) -> list[RowCondition]:
    ended = exists().where(_of_run.c.id == run_logs.c.run_id, _of_run.c.ended_at.is_not(None))
    return [run_logs.c.at < before, ended]


def _inbox(rule: RetentionRule, before: datetime, _ahead: Foreseen | None) -> list[RowCondition]:
    pending = exists().where(deliveries.c.run_id == inbox.c.run_id, deliveries.c.next_at.is_not(None))
    return [
        inbox.c.created_at < before,
        *([] if rule.unread else [inbox.c.read_at.is_not(None)]),
        *([inbox.c.state.in_(rule.states)] if rule.states else []),
        not_(pending),
    ]


def _deliveries(_rule: RetentionRule, before: datetime, _ahead: Foreseen | None) -> list[RowCondition]:
    of_message = _of_message.c.run_id == deliveries.c.run_id
    return [deliveries.c.next_at.is_(None), exists().where(of_message, _of_message.c.created_at < before)]


_CONDITIONS: dict[RetentionKind, Callable[[RetentionRule, datetime, Foreseen | None], list[RowCondition]]] = {
    RetentionKind.RUNS: _runs,
    RetentionKind.EVENTS: _events,
    RetentionKind.ATTEMPTS: _attempts,
    RetentionKind.TRACEBACKS: _tracebacks,
    RetentionKind.LOGS: _logs,
    RetentionKind.INBOX: _inbox,
    RetentionKind.DELIVERIES: _deliveries,
    RetentionKind.DEAD_LETTERS: lambda _rule, before, _ahead: [dead_letters.c.at < before],
    RetentionKind.USAGE: lambda _rule, before, _ahead: [usage.c.at < before],
}
