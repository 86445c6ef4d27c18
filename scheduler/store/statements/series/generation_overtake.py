"""Generations of chains for which the next one does not wait: they give way, or continue next to it."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from itertools import permutations
from typing import Final

from duetime.scheduler.events import DUETIME_ACTOR, EventKind
from duetime.scheduler.records import Change, ChangeOrigin
from duetime.scheduler.remedies import OVERTAKEN_REASON
from duetime.scheduler.rules.occurrences import newest_due
from duetime.scheduler.rules.series.moved_overlap import give_way
from duetime.scheduler.rules.series.overtake import MAX_RUNS_AT_ONCE, ends_series, next_overtake_try
from duetime.scheduler.store.schema.rows import IS_CURRENT
from duetime.scheduler.store.schema.tables.chains import dependencies
from duetime.scheduler.store.schema.tables.tasks import runs
from duetime.scheduler.store.statements import change as changing
from duetime.scheduler.store.statements import read
from duetime.scheduler.store.statements.generations import generation_rows
from duetime.scheduler.store.statements.generations.generation_rows import Generation
from duetime.scheduler.store.statements.waiters import OPEN_DEPENDENCY
from duetime.scheduler.task import Overlap, Run, State
from sqlalchemy import (
    BindParameter,
    Connection,
    bindparam,
    distinct,
    false,
    func,
    literal_column,
    select,
    union_all,
    update,
)

GENERATION_STAYS_REASON: Final = "generation {} continues"
"""Why a generation began before the one before it had ended."""

_PUT_OFF: Final = (
    update(runs)
    .where(runs.c.task_id.in_(bindparam("task_ids", expanding=True)), IS_CURRENT)
    .where(runs.c.ended_at.is_(None), runs.c.cancel_requested == false())
    .values(overtaken_at=bindparam("at"))
)


_IDS: BindParameter[str] = bindparam("task_ids", expanding=True)
_OPEN_SIDE_RUNS = select(func.count(distinct(runs.c.number))).where(
    runs.c.task_id.in_(_IDS), literal_column("NOT current AND ended_at IS NULL")
)
OUTSIDE = union_all(
    *(
        select(dependencies.c.task_id).where(OPEN_DEPENDENCY, inside.in_(_IDS), outside.not_in(_IDS))
        for inside, outside in permutations([dependencies.c.task_id, dependencies.c.upstream_id])
    )
).limit(1)
"""Tasks outside a chain for which it waits, or that wait for it."""


def overtake(connection: Connection, chain_id: str, now: datetime) -> list[Run]:
    """Let the current generation of a chain give way if the next one is due; return the runs that did."""
    generation = generation_rows.locked_with_steps(connection, chain_id)
    (series, run), opened = generation.as_series(), generation.opened
    is_ending = any(ends_series(each) for _, each in generation.all)
    coming = None if opened is None or is_ending else newest_due(series, run, opened, now)
    allows = series.repeat_policy is not None and series.repeat_policy.overlap is Overlap.ALLOW_ALL
    if coming is not None and not allows:
        return _give_way(connection, generation, coming, now)
    if coming is not None and _may_overlap(connection, generation):
        return _begin_next(connection, generation, coming, now)
    task_ids = [task.id for task, _ in generation.all]
    connection.execute(_PUT_OFF, {"task_ids": task_ids, "at": next_overtake_try(series, run, now)})
    return []


def _may_overlap(connection: Connection, generation: Generation) -> bool:
    """Whether a generation is bound to no task outside its steps, and few enough are open."""
    if generation.spawned:
        return False
    given = {"task_ids": [task.id for task, _ in generation.steps]}
    open_ones = connection.execute(_OPEN_SIDE_RUNS, given).scalar_one()
    return open_ones + 1 < MAX_RUNS_AT_ONCE and connection.execute(OUTSIDE, given).first() is None


def _begin_next(connection: Connection, generation: Generation, coming: Run, now: datetime) -> list[Run]:
    """Begin the next generation next to this one, as a change of its tasks: their lists look for side runs then."""
    task_ids = [task.id for task, _ in generation.steps]
    connection.execute(_PUT_OFF, {"task_ids": task_ids, "at": None})
    connection.execute(generation_rows.CHANGED, {"task_ids": task_ids, "now": now})
    begun = generation_rows.store(
        connection,
        generation,
        replace(coming, failed_before=generation.failed_before),
        now,
        reason=GENERATION_STAYS_REASON.format(generation.chain.number),
    )
    return [run for _, run in begun]


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
