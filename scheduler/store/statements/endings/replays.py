"""Replays in a chain that recurs: side runs by which steps of an earlier generation run again, next to the one to come.

The end of such a run decides nothing about the generation to come. When it has succeeded, the steps that had ended with
it follow as side runs, each when nothing before it holds it in that generation. A step that asks, or waits for an
event before each of its runs, does not follow. Nor does one after a replay that spawned tasks: they are of no chain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any, Final, NamedTuple

from duetime.scheduler.chain.judgement import DependencyLink, judge
from duetime.scheduler.chain.result_schema import mismatch
from duetime.scheduler.events import DUETIME_ACTOR, EventKind
from duetime.scheduler.rules.series.before_run import before_run
from duetime.scheduler.rules.series.reruns import side_run
from duetime.scheduler.rules.states import TERMINAL
from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.schema.rows import RUN_FIELDS, TASK_FIELDS, new_run_values, task_and_run
from duetime.scheduler.store.schema.tables.chains import chain_steps, dependencies
from duetime.scheduler.store.schema.tables.tasks import runs, tasks
from duetime.scheduler.store.sql.commit_notes import notes_of
from duetime.scheduler.store.sql.locks import lock_tasks
from duetime.scheduler.store.statements import event_log
from duetime.scheduler.store.statements.endings import places
from duetime.scheduler.store.statements.endings.claimed_run import AttemptEnd
from duetime.scheduler.task import Run, State, Task
from sqlalchemy import BindParameter, Connection, bindparam, false, literal_column, select, update

_IDS: BindParameter[str] = bindparam("task_ids", expanding=True)
_own, _other = chain_steps.alias("own"), chain_steps.alias("other")
_REPLAYS = (
    select(runs.c.id, runs.c.task_id, runs.c.number, chain_steps.c.name)
    .join_from(runs, chain_steps, chain_steps.c.task_id == runs.c.task_id)
    .where(runs.c.id.in_(bindparam("run_ids", expanding=True)), runs.c.current == false())
    .order_by(runs.c.id)
)
_INNER = (
    select(
        dependencies.c.task_id, dependencies.c.upstream_id, dependencies.c.after_failure, dependencies.c.valid_output
    )
    .join_from(dependencies, _own, _own.c.task_id == dependencies.c.task_id)
    .join(_other, (_other.c.task_id == dependencies.c.upstream_id) & (_other.c.chain_id == _own.c.chain_id))
    .order_by(dependencies.c.task_id, dependencies.c.upstream_id)
)
_BEHIND = _INNER.where(dependencies.c.upstream_id == bindparam("of_task"))
_LINKS = _INNER.where(dependencies.c.task_id.in_(_IDS))
_OF_GENERATION = (
    select(*TASK_FIELDS, *RUN_FIELDS)
    .join_from(tasks, runs, runs.c.task_id == tasks.c.id)
    .where(tasks.c.id.in_(_IDS), runs.c.number == bindparam("of_number"))
    .order_by(runs.c.scheduled_for, runs.c.generation)
)
_CHANGED = (
    update(tasks)
    .where(tasks.c.id.in_(_IDS))
    .values(revision=tasks.c.revision + 1, updated_at=bindparam("now", type_=tasks.c.updated_at.type))
)
_HOLD = update(runs).where(runs.c.task_id.in_(_IDS), runs.c.ended_at.is_(None)).values(paused=literal_column("true"))
_ENDED_WITH: Final = frozenset({State.FAILED, State.SKIPPED})
"""States in which a step ends with the one before it, while its chain continues."""


class _Replay(NamedTuple):
    """The run by which a step of an earlier generation, whose number it has, ran again."""

    run_id: str
    task_id: str
    number: int
    name: str


Latest = Mapping[str, tuple[Task, Run]]
"""The latest run that each step has of one generation, by task."""


def other_ends(connection: Connection, ended: Sequence[AttemptEnd], now: datetime) -> Sequence[AttemptEnd]:
    """Follow the replays among these ends, and return the others. Makes no query where there can be no replay."""
    found, ends = _among(connection, ended), {end.claim.run_id: end.settlement for end in ended}
    for replay in found:
        if ends[replay.run_id].to is State.SUCCEEDED and not ends[replay.run_id].spawned:
            _follow(connection, replay, now)
    replayed = {replay.run_id for replay in found}
    return [end for end in ended if end.claim.run_id not in replayed]


def runs_replayed(connection: Connection, ended: Sequence[AttemptEnd]) -> set[str]:
    """Return those of the ended runs that are replays."""
    return {replay.run_id for replay in _among(connection, ended)}


def _among(connection: Connection, ended: Sequence[AttemptEnd]) -> list[_Replay]:
    run_ids = sorted(end.claim.run_id for end in ended if _may_be_replay(end))
    return [_Replay(*row) for row in connection.execute(_REPLAYS, {"run_ids": run_ids})] if run_ids else []


def _may_be_replay(end: AttemptEnd) -> bool:
    """Whether a run may be next to another one of a step; a task that nobody changed has no such run."""
    claim = end.claim
    return claim.followed and claim.repeat is None and claim.revision > 1 and end.settlement.to in TERMINAL


def _follow(connection: Connection, replay: _Replay, now: datetime) -> None:
    """Let the steps continue that come after a replayed one, that ended with it and that nothing else holds."""
    behind = list(connection.execute(_BEHIND, {"of_task": replay.task_id}).scalars())
    if not behind:
        return
    lock_tasks(connection, behind)  # of two replays that end at once the second sees the first
    rows = unreadable.rows(connection, _LINKS, {"task_ids": behind})
    links = {task_id: list(group) for task_id, group in groupby(rows, key=lambda row: row.task_id)}
    steps = sorted({*behind, *(row.upstream_id for row in rows)})
    given = {"task_ids": steps, "of_number": replay.number}
    latest = {
        task.id: (task, run) for task, run in map(task_and_run, unreadable.rows(connection, _OF_GENERATION, given))
    }
    free = [latest[each] for each in behind if each in latest and _is_free(*latest[each], links[each], latest)]
    _begin(connection, free, replay, now)


def _is_free(task: Task, run: Run, links: Sequence[Any], latest: Latest) -> bool:
    if run.state not in _ENDED_WITH or run.started_at is not None or before_run(task).holds_when_due:
        return False
    return judge(_judged(link, latest) for link in links).to is State.SCHEDULED


def _judged(link: Any, latest: Latest) -> DependencyLink:
    """Return how the step before ended in the generation; a result of another form counts as a failure."""
    found = latest.get(link.upstream_id)
    outcome = found[1].state if found and found[1].ended_at else None
    differs = None
    if found and link.valid_output and outcome is State.SUCCEEDED:
        differs = mismatch(link.valid_output, found[1].result)
    outcome = State.FAILED if differs else outcome
    return DependencyLink(link.upstream_id, None, link.after_failure, outcome, differs)


def _begin(connection: Connection, free: Sequence[tuple[Task, Run]], replay: _Replay, now: datetime) -> None:
    """Store side runs of steps that continue, as a change of their tasks: lists of a task look for them after one."""
    if not free:
        return
    begun = places.placed(connection, [side_run(task, run, now) for task, run in free])
    pairs = [(task, run) for (task, _), run in zip(free, begun, strict=True)]
    places.ADD_RUNS.run(connection, [new_run_values(task, run) for task, run in pairs])
    connection.execute(_CHANGED, {"task_ids": [task.id for task, _ in pairs], "now": now})
    if held := [task.id for task, _ in pairs if task.paused]:
        connection.execute(_HOLD, {"task_ids": held})
    event_log.append(connection, [_event(task, run, replay, now) for task, run in pairs])
    notes_of(connection).freed.extend(task.id for task, _ in pairs)


def _event(task: Task, run: Run, replay: _Replay, now: datetime) -> event_log.EventValues:
    return event_log.entry(
        run.tenant,
        run.task_id,
        run.id,
        now,
        kind=EventKind.RUN_NOW,
        actor=DUETIME_ACTOR,
        reason=f"{replay.name} ({replay.task_id}) was run again, and succeeded",
        move=(None, run.state),
        revision=task.revision + 1,
    )
