"""Follow-ups of failures: the task that `on_failure` names, stored with the end, and the tier that it raises."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from duetime.scheduler.events import DUETIME_ACTOR, EventKind
from duetime.scheduler.rules.failures.follow_up import is_more_urgent
from duetime.scheduler.rules.states import check_move
from duetime.scheduler.run_records import Failure, MadeTask
from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.schema.rows import (
    LABEL_VALUES,
    TASK_VALUES,
    in_json,
    label_rows,
    new_run_values,
    task_values,
)
from duetime.scheduler.store.schema.tables.follow_ups import follow_ups
from duetime.scheduler.store.schema.tables.tasks import labels, tasks
from duetime.scheduler.store.sql.batch import Batch
from duetime.scheduler.store.sql.commit_notes import notes_of
from duetime.scheduler.store.statements import event_log
from duetime.scheduler.store.statements.endings import places
from duetime.scheduler.store.statements.endings.claimed_run import AttemptEnd, Claimed
from duetime.scheduler.task import Tier
from sqlalchemy import Connection, Row, bindparam, insert, select, update

MAX_FOLLOW_UPS_SHOWN = 3

_TASKS = Batch(insert(tasks), TASK_VALUES)
_LABELS = Batch(insert(labels), LABEL_VALUES)
_ADD = Batch(insert(follow_ups), [column.name for column in follow_ups.c])
_TIERS = select(tasks.c.id, tasks.c.priority, tasks.c.revision).where(
    tasks.c.id.in_(bindparam("task_ids", expanding=True))
)
_RAISE = Batch(
    update(tasks)
    .where(tasks.c.id == bindparam("of_task"))
    .values(priority=bindparam("tier"), revision=bindparam("next_revision"), updated_at=bindparam("at"))
)
_FAILURE = (
    select(*(follow_ups.c[name] for name in ("of_task", "of_run", "title", "state", "why", "result")))
    .where(follow_ups.c.task_id == bindparam("of_task"), follow_ups.c.tenant == bindparam("tenant"))
    .limit(1)
)
_MADE = (
    select(follow_ups.c.task_id)
    .where(follow_ups.c.of_task == bindparam("of_task"), follow_ups.c.tenant == bindparam("tenant"))
    .order_by(follow_ups.c.at.desc(), follow_ups.c.task_id)
    .limit(MAX_FOLLOW_UPS_SHOWN)
)


def write(connection: Connection, endings: Sequence[AttemptEnd], now: datetime) -> None:
    """Store the tasks that follow from these ends, and raise tiers; costs nothing where neither is asked for."""
    raising = [(end.claim, to) for end in endings if (to := end.settlement.raises)]
    if raising:
        _raise(connection, raising, now)
    following = [(end.claim, end.settlement.follow_up) for end in endings if end.settlement.follow_up]
    if following:
        _add(connection, following, now)


def failure(connection: Connection, tenant: str, task_id: str) -> Failure | None:
    """Return the failure that made a task, None for any other task."""
    rows = unreadable.rows(connection, _FAILURE, {"tenant": tenant, "of_task": task_id})
    return Failure(*rows[0]) if rows else None


def made_by(connection: Connection, tenant: str, task_id: str) -> list[str]:
    """Return the newest tasks that failures of a task have made."""
    return list(connection.execute(_MADE, {"tenant": tenant, "of_task": task_id}).scalars())


def _raise(connection: Connection, raising: Sequence[tuple[Claimed, Tier]], now: datetime) -> None:
    """Raise the tiers of tasks, which the caller has locked, to the most urgent one, where theirs is less urgent."""
    tiers = {claim.task_id: (claim, to) for claim, to in sorted(raising, key=lambda each: each[1].rank, reverse=True)}
    found = connection.execute(_TIERS, {"task_ids": sorted(tiers)}).all()
    raised = [(claim, row, to) for row in found for claim, to in [tiers[row.id]] if is_more_urgent(to, row.priority)]
    changes = [{"of_task": was.id, "tier": to, "next_revision": was.revision + 1, "at": now} for _, was, to in raised]
    _RAISE.run(connection, changes)
    event_log.append(connection, [_raised(claim, was, to, now) for claim, was, to in raised])


def _raised(claim: Claimed, was: Row[str, Tier, int], to: Tier, now: datetime) -> event_log.EventValues:
    return event_log.entry(
        claim.tenant,
        claim.task_id,
        claim.run_id,
        now,
        kind=EventKind.RESCHEDULED,
        actor=DUETIME_ACTOR,
        reason="on_failure raises its tier",
        before={"priority": was.priority.value},
        after={"priority": to.value},
        revision=was.revision + 1,
    )


def _add(connection: Connection, following: Sequence[tuple[Claimed, MadeTask]], now: datetime) -> None:
    items = [each.new for _, each in following]
    _TASKS.run(connection, [task_values(item.task) for item in items])
    places.ADD_RUNS.run(connection, [new_run_values(item.task, item.run) for item in items])
    _LABELS.run(connection, label_rows(item.task for item in items))
    _ADD.run(connection, [_row(each, now) for _, each in following])
    event_log.append(connection, [_created(each, now) for _, each in following])
    notes_of(connection).freed.extend(item.task.id for item in items)


def _row(follow_up: MadeTask, now: datetime) -> dict[str, object]:
    cause, task = follow_up.failure, follow_up.new.task
    return {
        "task_id": task.id,
        "tenant": task.tenant,
        "of_task": cause.task_id,
        "of_run": cause.run_id,
        "title": cause.title,
        "state": cause.state,
        "why": cause.why,
        "result": cause.result,
        "at": now,
    }


def _created(follow_up: MadeTask, now: datetime) -> event_log.EventValues:
    task, run = follow_up.new.task, follow_up.new.run
    check_move(None, run.state)
    return event_log.entry(
        task.tenant,
        task.id,
        run.id,
        now,
        kind=EventKind.CREATED,
        actor=follow_up.new.actor,
        reason=f"on_failure of {follow_up.failure.task_id}: {follow_up.failure.sentence}",
        move=(None, run.state),
        after={"title": task.title, "action": task.action, "scheduled_for": in_json(run.scheduled_for)},
        revision=task.revision,
    )
