"""Ends attempts: the attempt, the run, its event and all consequences, in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from duetime.scheduler.rules.states import FAILURES, TERMINAL, attempt_outcome, check_move
from duetime.scheduler.run_records import Settlement
from duetime.scheduler.store.schema.rows import (
    DELIVERY_FIELDS,
    LAST_FAILURE,
    MESSAGE_FIELDS,
    RUN_VALUES,
    chunk_values,
    delivery_values,
    message_values,
    run_values,
    traceback_values,
)
from duetime.scheduler.store.schema.tables.dead_letters import dead_letters
from duetime.scheduler.store.schema.tables.deliveries import deliveries, inbox
from duetime.scheduler.store.schema.tables.logs import run_logs
from duetime.scheduler.store.schema.tables.pools import usage
from duetime.scheduler.store.schema.tables.tasks import attempts, runs, tasks, tracebacks
from duetime.scheduler.store.sql.batch import Batch, together
from duetime.scheduler.store.sql.locks import exactly
from duetime.scheduler.store.sql.recordset import Rows
from duetime.scheduler.store.statements import event_log, side_runs
from duetime.scheduler.store.statements.approvals import questions
from duetime.scheduler.store.statements.endings import events as ending_events
from duetime.scheduler.store.statements.endings import follow_ups, pauses, turns
from duetime.scheduler.store.statements.endings.claimed_run import AttemptEnd, Claimed
from duetime.scheduler.task import Run, State
from sqlalchemy import Connection, bindparam, false, func, insert, null, select, true, update

END_RUNS = (
    update(runs)
    .where(runs.c.id == bindparam("run_id"), runs.c.attempt == bindparam("fence"))
    .where((runs.c.state == State.RUNNING).is_(true()))  # finds the row by id, never by the index of running runs
    .values(
        state=bindparam("new_state"),
        wake_at=bindparam("new_wake_at"),
        listed_at=bindparam("new_listed_at"),
        ended_at=bindparam("new_ended_at"),
        failures=bindparam("new_failures"),
        crashes=runs.c.crashes + bindparam("more_crashes"),
        summary=bindparam("new_summary"),
        result=bindparam("new_result"),
        error=bindparam("new_error"),
        last_failure=bindparam("is_failure"),
        checkpoint=func.coalesce(bindparam("new_checkpoint", type_=runs.c.checkpoint.type), runs.c.checkpoint),
        lease_until=null(),
        reserved=null(),
        token=null(),
    )
)
_SETTLE = Batch(END_RUNS)
_END_ATTEMPT = Batch(
    update(attempts)
    .where(attempts.c.run_id == bindparam("of_run"), attempts.c.number == bindparam("fence"))
    .values(ended_at=bindparam("ended"), outcome=bindparam("how"), reason=bindparam("why"))
)
_AT_ITS_TIME = (runs.c.task_id == bindparam("of_task"), runs.c.scheduled_for == bindparam("of_time"))
NEXT_GENERATION = select(func.coalesce(func.max(runs.c.generation), 0) + 1).where(*_AT_ITS_TIME)
TWIN_HASH_OF_ENDING = select(runs.c.twin_hash).where(runs.c.id == bindparam("ending"))

# The next runs of series.
# Parameters: the values of the run without its generation; `of_task` and `of_time`, its place; `ending`, the run that
#   ends.
# Generation: the next free one, since other runs may have had this place, such as one that was run again.
# Twin hash: of tenant, owner and title, which the next run shares with the one that ends.
INSERT_NEXT = Batch(
    insert(runs).values(generation=NEXT_GENERATION.scalar_subquery(), twin_hash=TWIN_HASH_OF_ENDING.scalar_subquery()),
    [name for name in RUN_VALUES if name != "generation"],
)
_ending = runs.alias("ended_now")
_NUMBER = select(_ending.c.number).where(_ending.c.id == bindparam("ending")).scalar_subquery()
_SUPERSEDE = Batch(  # its index has the last failure of each task alone
    update(runs)
    .where(runs.c.task_id == bindparam("of_task"), runs.c.scheduled_for <= bindparam("of_time"))
    .where(runs.c.number <= _NUMBER)  # a replay of an earlier generation
    .where(LAST_FAILURE, runs.c.id != bindparam("ending"))
    .values(last_failure=false())
)
_PAYLOAD = select(tasks.c.payload).where(tasks.c.id == bindparam("of_task")).scalar_subquery()
_LETTERS = Batch(insert(dead_letters).values(payload=_PAYLOAD), ("run_id", "task_id", "tenant", "at", "reason"))
_MESSAGES = Batch(insert(inbox), [column.name for column in MESSAGE_FIELDS])
_DELIVERIES = Batch(insert(deliveries), [column.name for column in DELIVERY_FIELDS])
_USAGE, _TRACEBACKS, _LOGS = (
    Batch(insert(table), [column.name for column in table.c]) for table in (usage, tracebacks, run_logs)
)


def write(connection: Connection, endings: Sequence[AttemptEnd], now: datetime) -> None:
    """Store the ends, each with its event and consequences."""
    if not endings:
        return
    endings = turns.released(connection, endings, now)
    _write_next(connection, endings, now)
    settled = together(
        connection, (_SETTLE, [run_row(ending, now) for ending in endings]), *parts(connection, endings, now)
    )
    exactly(len(endings), settled)
    follow_ups.write(connection, endings, now)


def parts(connection: Connection, endings: Sequence[AttemptEnd], now: datetime) -> list[tuple[Batch, Rows]]:
    """Return the batches that are stored together with the ending runs; each row names its run."""
    return [
        (_END_ATTEMPT, [_attempt_row(ending, now) for ending in endings]),
        *_following(connection, endings, now),
    ]


def follow(connection: Connection, endings: Sequence[AttemptEnd], now: datetime) -> None:
    """Store the consequences of ends: next occurrences, events, messages, use of pools."""
    questions.withdraw(connection, [(ending.claim.run_id, ending.claim.state) for ending in endings], now)
    endings = turns.released(connection, endings, now)
    _write_next(connection, endings, now)
    together(connection, *_following(connection, endings, now))
    follow_ups.write(connection, endings, now)


def _following(connection: Connection, endings: Sequence[AttemptEnd], now: datetime) -> list[tuple[Batch, Rows]]:
    return [
        event_log.appending(connection, [entry for ending in endings for entry in ending_events.entries(ending, now)]),
        (_SUPERSEDE, [_origin(ending.claim) for ending in endings if _supersedes(ending)]),
        (_LETTERS, [_letter(ending, now) for ending in endings if ending.settlement.dead_letter]),
        (
            questions.ADD_APPROVALS,
            [questions.values_of(ending.settlement.asks) for ending in endings if ending.settlement.asks],
        ),
        (_MESSAGES, [message_values(ending.settlement.inbox) for ending in endings if ending.settlement.inbox]),
        (_DELIVERIES, [delivery_values(each) for ending in endings for each in ending.settlement.deliveries]),
        (_USAGE, [row for ending in endings for row in _usage_rows(ending, now)]),
        (_LOGS, [chunk_values(chunk) for ending in endings for chunk in ending.settlement.log]),
        (_TRACEBACKS, [traceback_values(ending.settlement) for ending in endings if ending.settlement.traceback]),
    ]


def run_row(ending: AttemptEnd, now: datetime) -> dict[str, Any]:
    settlement, claim = ending.settlement, ending.claim
    check_move(claim.state, settlement.to)
    ended = now if settlement.to in TERMINAL else None
    wake = None if ended else settlement.wake_at
    return {
        "run_id": settlement.run_id,
        "fence": settlement.attempt,
        "new_state": settlement.to,
        "new_wake_at": wake,
        "new_listed_at": ended or wake or claim.scheduled_for,
        "new_ended_at": ended,
        "new_failures": settlement.failures,
        "more_crashes": int(ending.crashed),
        "new_summary": settlement.summary,
        "new_result": settlement.result,
        "new_error": settlement.error,
        "new_checkpoint": settlement.checkpoint,
        "is_failure": settlement.to in FAILURES,
    }


def _attempt_row(ending: AttemptEnd, now: datetime) -> dict[str, Any]:
    settlement = ending.settlement
    return {
        "of_run": settlement.run_id,
        "fence": settlement.attempt,
        "ended": now,
        "how": attempt_outcome(settlement.outcome, settlement.to),
        "why": settlement.reason,
    }


def _write_next(connection: Connection, endings: Sequence[AttemptEnd], now: datetime) -> None:
    """Make the next occurrences current. An occurrence that was skipped or moved before gets its next generation."""
    last = [ending.claim for ending in endings if may_have_heirs(ending.settlement, ending.claim.revision)]
    side_runs.succeed(connection, [claim.run_id for claim in last])
    rows = next_rows(endings)
    if rows:
        side_runs.NOT_CURRENT.run(connection, [{"run_id": row["ending"]} for row in rows if row["current"]])
        INSERT_NEXT.run(connection, rows)
        pauses.write(connection, endings, now)


def may_have_heirs(settlement: Settlement, revision: int) -> bool:
    """Whether a side run may have to become the current run; a task that nobody changed has no side runs."""
    return settlement.to in TERMINAL and settlement.next_run is None and revision > 1


def next_rows(endings: Sequence[AttemptEnd]) -> list[dict[str, Any]]:
    """Return the rows of next and of skipped occurrences; each names the `ending` run before it."""
    return [_next_values(ending.claim, run) for ending in endings for run in ending.beginning()]


def _next_values(ended: Claimed, run: Run) -> dict[str, Any]:
    values = {name: value for name, value in run_values(run).items() if name != "generation"}
    return {**values, "of_task": run.task_id, "of_time": run.scheduled_for, "ending": ended.run_id}


def _supersedes(ending: AttemptEnd) -> bool:
    """Whether an earlier run of the task may be its last failure so far; an unchanged one-shot has none."""
    claim = ending.claim
    return ending.settlement.to in TERMINAL and (claim.repeat is not None or claim.revision > 1)


def _origin(claim: Claimed) -> dict[str, Any]:
    return {"ending": claim.run_id, "of_task": claim.task_id, "of_time": claim.scheduled_for}


def _usage_rows(ending: AttemptEnd, now: datetime) -> list[dict[str, Any]]:
    claim, end = ending.claim, ending.settlement
    same = {"run_id": claim.run_id, "attempt": claim.attempt, "tenant": claim.tenant, "at": now}
    return [{**same, "pool": pool, "units": units, "cost": end.costs.get(pool)} for pool, units in end.used.items()]


def _letter(ending: AttemptEnd, now: datetime) -> dict[str, Any]:
    claim, settlement = ending.claim, ending.settlement
    return {
        "run_id": claim.run_id,
        "task_id": claim.task_id,
        "of_task": claim.task_id,
        "tenant": claim.tenant,
        "at": now,
        "reason": settlement.reason or settlement.error or "failed",
    }
