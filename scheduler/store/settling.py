"""How attempts end: the attempt, the run, its event and everything that follows, in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from duetime.scheduler.events import EventKind
from duetime.scheduler.rules.states import TERMINAL, check_move
from duetime.scheduler.store import journal
from duetime.scheduler.store.changing import held
from duetime.scheduler.store.locking import exactly, lock_tasks_of
from duetime.scheduler.store.models import attempts, dead_letters, deliveries, inbox, runs
from duetime.scheduler.store.reading import TASK_AND_RUN
from duetime.scheduler.store.rows import delivery_values, in_json, message_values, run_values, task_and_run
from duetime.scheduler.store.values import Claim, Settlement, Verdict
from duetime.scheduler.task import Run, State
from sqlalchemy import Connection, bindparam, false, func, insert, null, select, update

Conclude = Callable[[Claim, Settlement], Settlement]

_CLAIMED = TASK_AND_RUN.add_columns(runs.c.worker).where(runs.c.id.in_(bindparam("run_ids", expanding=True)))
_SETTLE = (
    update(runs)
    .where(runs.c.id == bindparam("run_id"), runs.c.state == State.RUNNING, runs.c.attempt == bindparam("fence"))
    .values(
        state=bindparam("to"),
        wake_at=bindparam("wake"),
        listed_at=bindparam("listed"),
        ended_at=bindparam("ended"),
        failures=bindparam("failed"),
        crashes=runs.c.crashes + bindparam("crashed"),
        summary=bindparam("said"),
        result=bindparam("gave"),
        error=bindparam("wrong"),
        checkpoint=func.coalesce(bindparam("kept", type_=runs.c.checkpoint.type), runs.c.checkpoint),
        lease_until=null(),
    )
)
_END_ATTEMPT = (
    update(attempts)
    .where(attempts.c.run_id == bindparam("of_run"), attempts.c.number == bindparam("fence"))
    .values(ended_at=bindparam("ended"), outcome=bindparam("how"), reason=bindparam("why"))
)
_TAKEN = select(func.coalesce(func.max(runs.c.generation), 0) + 1).where(
    runs.c.task_id == bindparam("of_task"), runs.c.scheduled_for == bindparam("of_time")
)
_INSERT_NEXT = insert(runs).values(generation=_TAKEN.scalar_subquery())
_NOT_CURRENT = update(runs).where(runs.c.id == bindparam("run_id")).values(current=false())


@dataclass(frozen=True, slots=True)
class Ending:
    """A settlement that holds, with the claim it ends."""

    claim: Claim
    settlement: Settlement
    crashed: bool = False


def settle(connection: Connection, settlements: Sequence[Settlement], now: datetime) -> list[Verdict]:
    if not settlements:
        return []
    claims = claimed(connection, [settlement.run_id for settlement in settlements])
    verdicts, endings = [], []
    for settlement in settlements:
        claim = claims.get(settlement.run_id)
        verdict = _judge(claim, settlement)
        verdicts.append(verdict)
        if claim and verdict is Verdict.SETTLED:
            del claims[settlement.run_id]  # a second settlement of the same run comes too late
            endings.append(Ending(claim, settlement))
    write(connection, endings, now)
    return verdicts


def claimed(connection: Connection, run_ids: Sequence[str]) -> dict[str, Claim]:
    """Return the runs as they are stored now, with their tasks and the worker that has them."""
    lock_tasks_of(connection, run_ids)
    found = {}
    for row in connection.execute(_CLAIMED, {"run_ids": list(run_ids)}).all():
        task, run = task_and_run(row)
        found[run.id] = Claim(run, task, row.worker or "")
    return found


def _judge(claim: Claim | None, settlement: Settlement) -> Verdict:
    if claim is None or claim.run.state is not State.RUNNING or claim.run.attempt != settlement.attempt:
        return Verdict.FENCED
    if claim.task.revision != settlement.task_revision and _decides_what_is_next(claim, settlement):
        return Verdict.STALE
    return Verdict.SETTLED


def _decides_what_is_next(claim: Claim, settlement: Settlement) -> bool:
    """Whether the settlement goes on (with an occurrence, or another attempt) where the change may have ended it."""
    if settlement.to not in TERMINAL:
        return claim.run.cancel_requested
    return settlement.next_run is not None or claim.task.repeat is not None


def write(connection: Connection, endings: Sequence[Ending], now: datetime) -> None:
    if not endings:
        return
    moved = connection.execute(_SETTLE, [_run_row(ending, now) for ending in endings])
    exactly(len(endings), moved.rowcount)
    connection.execute(_END_ATTEMPT, [_attempt_row(ending, now) for ending in endings])
    _write_next(connection, endings)
    journal.append(connection, [entry for ending in endings for entry in _entries(ending, now)])
    _write_told(connection, endings, now)


def _run_row(ending: Ending, now: datetime) -> dict[str, Any]:
    settlement, claim = ending.settlement, ending.claim
    check_move(claim.run.state, settlement.to)
    ended = now if settlement.to in TERMINAL else None
    wake = None if ended else settlement.wake_at
    return {
        "run_id": settlement.run_id,
        "fence": settlement.attempt,
        "to": settlement.to,
        "wake": wake,
        "listed": ended or wake or claim.run.scheduled_for,
        "ended": ended,
        "failed": settlement.failures,
        "crashed": int(ending.crashed),
        "said": settlement.summary,
        "gave": settlement.result,
        "wrong": settlement.error,
        "kept": settlement.checkpoint,
    }


def _attempt_row(ending: Ending, now: datetime) -> dict[str, Any]:
    settlement = ending.settlement
    return {
        "of_run": settlement.run_id,
        "fence": settlement.attempt,
        "ended": now,
        "how": settlement.outcome,
        "why": settlement.reason,
    }


def _next_run(ending: Ending) -> Run | None:
    run = ending.settlement.next_run
    return held(run, ending.claim.task, run.scheduled_for) if run else None


def _write_next(connection: Connection, endings: Sequence[Ending]) -> None:
    """Make the next occurrences current. One that was skipped or moved away before comes as its next generation."""
    following = [(ending.settlement.run_id, run) for ending in endings if (run := _next_run(ending))]
    if following:
        connection.execute(_NOT_CURRENT, [{"run_id": run_id} for run_id, _ in following])
        connection.execute(_INSERT_NEXT, [_next_values(run) for _, run in following])


def _next_values(run: Run) -> dict[str, Any]:
    values = {name: value for name, value in run_values(run).items() if name != "generation"}
    return {**values, "of_task": run.task_id, "of_time": run.scheduled_for}


def _entries(ending: Ending, now: datetime) -> list[journal.Entry]:
    settlement, run = ending.settlement, ending.claim.run
    ended = journal.entry(
        run.tenant,
        run.task_id,
        run.id,
        now,
        kind=settlement.kind,
        actor=ending.claim.worker,
        reason=settlement.reason,
        move=(run.state, settlement.to),
        attempt=run.attempt,
    )
    following = _next_run(ending)
    return [ended, _next_entry(following, now)] if following else [ended]


def _next_entry(run: Run, now: datetime) -> journal.Entry:
    check_move(None, run.state)
    return journal.entry(
        run.tenant,
        run.task_id,
        run.id,
        now,
        kind=EventKind.NEXT_OCCURRENCE,
        actor="duetime",
        move=(None, run.state),
        after={"scheduled_for": in_json(run.scheduled_for), "number": run.number},
    )


def _write_told(connection: Connection, endings: Sequence[Ending], now: datetime) -> None:
    letters = [_letter(ending, now) for ending in endings if ending.settlement.dead_letter]
    messages = [message_values(ending.settlement.inbox) for ending in endings if ending.settlement.inbox]
    told = [delivery_values(delivery) for ending in endings for delivery in ending.settlement.deliveries]
    for table, rows in ((dead_letters, letters), (inbox, messages), (deliveries, told)):
        if rows:
            connection.execute(insert(table), rows)


def _letter(ending: Ending, now: datetime) -> dict[str, Any]:
    task, settlement = ending.claim.task, ending.settlement
    return {
        "run_id": settlement.run_id,
        "task_id": task.id,
        "tenant": task.tenant,
        "at": now,
        "reason": settlement.reason or settlement.error or "failed",
        "payload": task.payload,
    }
