"""Runs that waited for others, once that is decided: they continue, or end without a start."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from duetime.scheduler.events import DUETIME_ACTOR, EventKind
from duetime.scheduler.rules.occurrences import with_deadline_like
from duetime.scheduler.rules.series.before_run import before_run
from duetime.scheduler.rules.series.occurrence_approval import after_wait
from duetime.scheduler.rules.states import FAILURES, check_move
from duetime.scheduler.run_records import EndedRun
from duetime.scheduler.store.schema.rows import listed_at
from duetime.scheduler.store.schema.tables.tasks import runs
from duetime.scheduler.store.sql.batch import Batch, together
from duetime.scheduler.store.sql.commit_notes import note_ends, notes_of
from duetime.scheduler.store.sql.locks import exactly
from duetime.scheduler.store.statements import event_log, waiters
from duetime.scheduler.store.statements.endings import endings, places
from duetime.scheduler.store.statements.endings.claimed_run import AttemptEnd
from duetime.scheduler.store.statements.endings.conclusions import Judged, ended_without_run, unclaimed
from duetime.scheduler.store.statements.signals import ended_waits
from duetime.scheduler.task import Run, State
from sqlalchemy import Connection, bindparam, null, true, update

_FREE = Batch(
    update(runs)
    .where(runs.c.id == bindparam("run_id"), (runs.c.state == State.WAITING).is_(true()))
    .values(
        state=State.SCHEDULED,
        scheduled_for=bindparam("due"),
        wake_at=bindparam("wake"),
        listed_at=bindparam("listed"),
        deadline=bindparam("by"),
        drop_at=bindparam("drop"),
        generation=bindparam("free"),
    )
)
_FREED = ("run_id", "due", "wake", "listed", "by", "drop", "free")
_END = Batch(
    update(runs)
    .where(runs.c.id == bindparam("run_id"), (runs.c.state == State.WAITING).is_(true()))
    .values(
        state=bindparam("new_state"),
        ended_at=bindparam("at"),
        listed_at=bindparam("at"),
        wake_at=null(),
        error=bindparam("new_error"),
        summary=bindparam("new_summary"),
        last_failure=bindparam("is_failure"),
        overtaken_at=null(),  # it ends with another task, and gives way to nothing
    )
)


def let_go(connection: Connection, freeing: Sequence[Judged], now: datetime, why: str | None = None) -> None:
    """Let runs go at their time, but now at the earliest: then they are due, and so their own deadline counts."""
    if not freeing:
        return
    due = [_due(each, now) for each in freeing]
    again = [run for run in due if not (run.current and run.generation == run.number == 1)]  # not the first of its task
    later = {run.id: run for run in places.placed(connection, again)}
    moved = [(each, later.get(run.id, run)) for each, run in zip(freeing, due, strict=True)]
    rows = [dict(zip(_FREED, _freed(run), strict=True)) for _, run in moved]
    unblocked = event_log.appending(connection, [_unblocked(each, run, now, why) for each, run in moved])
    exactly(len(rows), together(connection, (_FREE, rows), unblocked))
    notes_of(connection).freed.extend(each.task.id for each in freeing)


def _freed(run: Run) -> Sequence[Any]:
    times = (run.scheduled_for, run.wake_at, listed_at(run), run.deadline, run.drop_at)
    return (run.id, *times, run.generation)


def _due(each: Judged, now: datetime) -> Run:
    if before_run(each.task).keeps_time(each.run):
        return after_wait(each.task, each.run, now)
    run, at = each.run, now if each.at_once else max(each.run.scheduled_for, now)
    return with_deadline_like(each.task, replace(run, state=State.SCHEDULED, scheduled_for=at, wake_at=at), run)


def _unblocked(each: Judged, run: Run, now: datetime, why: str | None) -> event_log.EventValues:
    check_move(each.run.state, run.state)
    return event_log.entry(
        run.tenant,
        run.task_id,
        run.id,
        now,
        kind=EventKind.UNBLOCKED,
        actor=DUETIME_ACTOR,
        reason=why or each.verdict.reason,
        move=(each.run.state, run.state),
    )


def end(connection: Connection, ended: Sequence[Judged], now: datetime) -> list[AttemptEnd]:
    """End runs that do not start, with all that follows for their own tasks; return their ends."""
    claims = unclaimed(connection, [(each.task, each.run) for each in ended])
    ends = [ended_without_run(*pair, now) for pair in zip(claims, ended, strict=True)]
    exactly(len(ends), _END.run(connection, [_end_row(each, now) for each in ends]))
    if ends:
        endings.follow(connection, ends, now)
        ended_waits.end(connection, [(each.run.id, each.task.id, each.run.state) for each in ended], now)
        waiters.note(connection, [each.task.id for each in ended])
        pairs = zip(ended, ends, strict=True)
        note_ends(connection, [EndedRun.of(each.task, each.run, found.settlement.to) for each, found in pairs])
    return ends


def _end_row(end: AttemptEnd, now: datetime) -> dict[str, Any]:
    claim, settlement = end.claim, end.settlement
    check_move(claim.state, settlement.to)
    return {
        "run_id": claim.run_id,
        "new_state": settlement.to,
        "at": now,
        "new_error": settlement.error,
        "new_summary": settlement.summary,
        "is_failure": settlement.to in FAILURES,
    }
