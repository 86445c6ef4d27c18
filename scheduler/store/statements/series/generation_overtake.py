"""Generations of chains that give way to the next one: their open steps are asked to stop, or end."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from duetime.scheduler.events import DUETIME_ACTOR, EventKind
from duetime.scheduler.records import Change, ChangeOrigin
from duetime.scheduler.remedies import OVERTAKEN_REASON
from duetime.scheduler.rules.occurrences import newest_due
from duetime.scheduler.rules.series.moved_overlap import give_way
from duetime.scheduler.rules.series.overtake import ends_series, next_overtake_try
from duetime.scheduler.store.schema.rows import IS_CURRENT
from duetime.scheduler.store.schema.tables.tasks import runs
from duetime.scheduler.store.statements import change as changing
from duetime.scheduler.store.statements import read
from duetime.scheduler.store.statements.endings import generation_rows
from duetime.scheduler.store.statements.endings.generation_rows import Generation
from duetime.scheduler.task import Run, State
from sqlalchemy import Connection, bindparam, false, update

_PUT_OFF: Final = (
    update(runs)
    .where(runs.c.task_id.in_(bindparam("task_ids", expanding=True)), IS_CURRENT)
    .where(runs.c.ended_at.is_(None), runs.c.cancel_requested == false())
    .values(overtaken_at=bindparam("at"))
)


def overtake(connection: Connection, chain_id: str, now: datetime) -> list[Run]:
    """Let the current generation of a chain give way if the next one is due; return the runs that did."""
    generation = generation_rows.locked_with_steps(connection, chain_id)
    (series, run), opened = generation.as_series(), generation.opened
    is_ending = any(ends_series(each) for _, each in generation.all)
    coming = None if opened is None or is_ending else newest_due(series, run, opened, now)
    if coming is not None:
        return _give_way(connection, generation, coming, now)
    task_ids = [task.id for task, _ in generation.all]
    connection.execute(_PUT_OFF, {"task_ids": task_ids, "at": next_overtake_try(series, run, now)})
    return []


def _give_way(connection: Connection, generation: Generation, coming: Run, now: datetime) -> list[Run]:
    """Stop the open steps, the last ones first: the end of a step decides nothing about one that has ended."""
    moved = list[Run]()
    for task, run in (*reversed(generation.steps), *generation.spawned):
        if run.ended_at is None and not run.cancel_requested:
            way = give_way(run, coming, now)
            kind = EventKind.CANCELLED if way.state is State.CANCELLED else EventKind.CANCEL_REQUESTED
            record = read.record(connection, task.tenant, task.id)
            change, by = Change(record.task, way, kind=kind), ChangeOrigin(DUETIME_ACTOR, kind, OVERTAKEN_REASON)
            changing.apply(connection, record, change, by, now)
            moved.append(way)
    return moved
