"""Runs that wait for another one of their series to end: they continue when it has ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from duetime.scheduler.rules.series.overlap import skipped_runs
from duetime.scheduler.rules.states import TERMINAL
from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.schema.rows import IS_PAUSED, task_and_run
from duetime.scheduler.store.schema.tables.tasks import runs, tasks
from duetime.scheduler.store.sql.commit_notes import notes_of
from duetime.scheduler.store.statements.endings.claimed_run import AttemptEnd
from duetime.scheduler.store.statements.read import TASK_AND_RUN
from duetime.scheduler.task import Run
from sqlalchemy import BindParameter, Connection, bindparam, false, update

_THESE: BindParameter[Sequence[str]] = bindparam("task_ids", expanding=True)
_WAITING = TASK_AND_RUN.where(
    tasks.c.id.in_(_THESE), tasks.c.paused == false(), IS_PAUSED, runs.c.ended_at.is_(None)
).order_by(tasks.c.id, runs.c.id)
_FREE = update(runs).where(runs.c.id.in_(bindparam("run_ids", expanding=True))).values(paused=false())


def released(connection: Connection, endings: Sequence[AttemptEnd], now: datetime) -> Sequence[AttemptEnd]:
    """Let go what waits for these ends; return them with the occurrences that are skipped for one that waited."""
    ended = [each.claim for each in endings if each.settlement.to in TERMINAL and each.claim.repeat]
    of = sorted({claim.task_id for claim in ended if claim.revision > 1 and claim.followed})
    rows = unreadable.rows(connection, _WAITING, {"task_ids": of}) if of else []
    if not rows:
        return endings
    pairs = [task_and_run(row) for row in rows]
    connection.execute(_FREE, {"run_ids": [run.id for _, run in pairs]})
    notes_of(connection).freed.extend(dict.fromkeys(task.id for task, _ in pairs))
    left_out = {task.id: found for task, run in pairs if (found := skipped_runs(task, run, now))}
    return [_with_skipped(each, left_out.pop(each.claim.task_id, ())) for each in endings]


def _with_skipped(ending: AttemptEnd, runs_left_out: tuple[Run, ...]) -> AttemptEnd:
    if not runs_left_out:
        return ending
    settlement = ending.settlement
    return replace(ending, settlement=replace(settlement, skipped=(*settlement.skipped, *runs_left_out)))
