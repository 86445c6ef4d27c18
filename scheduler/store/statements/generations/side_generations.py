"""Generations of a chain next to its current one: overtaken ones that continue, and earlier ones that run again.

Their runs are side runs with the number of their generation, and the runs of a generation decide about one another
alone. A step that waits in it continues or ends with those before it. After a replay that has succeeded, the steps that
had ended with it follow, each when nothing before it holds it. A step that asks, or waits for an event, does so again.
Where a run spawned tasks, the steps behind it wait for these as well, in its generation.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Final, NamedTuple

from duetime.scheduler.chain.judgement import DependencyLink, LinkVerdict, judge, prevents_run
from duetime.scheduler.events import DUETIME_ACTOR, EventKind
from duetime.scheduler.rules.series.before_run import before_run
from duetime.scheduler.rules.series.reruns import replayed_run
from duetime.scheduler.rules.states import NOT_RUN_PREFIX, TERMINAL
from duetime.scheduler.store.schema.rows import IS_CURRENT, new_run_values
from duetime.scheduler.store.schema.tables.chains import chain_steps, spawned_tasks
from duetime.scheduler.store.schema.tables.tasks import runs
from duetime.scheduler.store.sql.commit_notes import notes_of
from duetime.scheduler.store.statements import event_log
from duetime.scheduler.store.statements.approvals import questions
from duetime.scheduler.store.statements.endings import places
from duetime.scheduler.store.statements.endings.claimed_run import AttemptEnd
from duetime.scheduler.store.statements.endings.conclusions import Judged
from duetime.scheduler.store.statements.generations import failure_counts, judged_runs, later_steps
from duetime.scheduler.store.statements.generations.generation_rows import CHANGED, HOLD
from duetime.scheduler.store.statements.generations.later_steps import LaterStep
from duetime.scheduler.store.statements.signals import kept_waits
from duetime.scheduler.task import Run, State, Task
from duetime.scheduler.waits.signal import KeptWait, OnTimeout
from sqlalchemy import BindParameter, Connection, bindparam, false, literal_column, select, true

_IDS: BindParameter[str] = bindparam("task_ids", expanding=True)
_SIDE_ENDS = (
    select(runs.c.id, runs.c.task_id, runs.c.number, chain_steps.c.name, runs.c.state, runs.c.task_id)
    .join_from(runs, chain_steps, chain_steps.c.task_id == runs.c.task_id)
    .where(runs.c.id.in_(bindparam("run_ids", expanding=True)), runs.c.current == false(), runs.c.ended_at.is_not(None))
    .order_by(runs.c.id)
)
_of_step = runs.alias("of_step")
_SPAWNED_ENDS = (
    select(runs.c.id, runs.c.task_id, _of_step.c.number, spawned_tasks.c.name, runs.c.state, _of_step.c.task_id)
    .join_from(spawned_tasks, runs, (runs.c.task_id == spawned_tasks.c.task_id) & IS_CURRENT)
    .join(_of_step, _of_step.c.id == spawned_tasks.c.run_id)
    .where(spawned_tasks.c.task_id.in_(_IDS), runs.c.ended_at.is_not(None))
    .order_by(runs.c.id)
)
_WAITING = (
    select(runs.c.task_id, runs.c.number)
    .where(runs.c.task_id.in_(_IDS), literal_column("NOT current AND ended_at IS NULL"))
    .where((runs.c.state == State.WAITING).is_(true()))
)
"""Without an order, for which SQLite would read the whole history of the tasks."""

_ENDED_WITH: Final = frozenset({State.FAILED, State.SKIPPED})
"""States in which a step ends with the one before it, while its chain continues."""


class _SideEnd(NamedTuple):
    """A side run of a step that has ended, in the generation that has this number; or a task that one spawned."""

    run_id: str
    task_id: str
    number: int
    name: str
    state: State
    step_id: str


def other_ends(connection: Connection, ended: Sequence[AttemptEnd], now: datetime) -> Sequence[AttemptEnd]:
    """Follow the ends of side runs among these, and return the others. Makes no query where there can be none."""
    found = _ended(connection, [end.claim.run_id for end in ended if _may_be_side_run(end)])
    _follow_all(connection, found, now)
    side_runs = {each.run_id for each in found}
    return [end for end in ended if end.claim.run_id not in side_runs]


def follow(connection: Connection, run_ids: Collection[str], now: datetime) -> None:
    """Follow those of these runs that are side runs of steps and have ended."""
    _follow_all(connection, _ended(connection, run_ids), now)


def follow_spawned(connection: Connection, task_ids: Collection[str], now: datetime) -> None:
    """Follow those of these tasks that have ended: each of the generation of the run that spawned it."""
    found = connection.execute(_SPAWNED_ENDS, {"task_ids": sorted(task_ids)}) if task_ids else ()
    _follow_all(connection, [_SideEnd(*row) for row in found], now)


def _ended(connection: Connection, run_ids: Collection[str]) -> list[_SideEnd]:
    found = connection.execute(_SIDE_ENDS, {"run_ids": sorted(run_ids)}) if run_ids else ()
    return [_SideEnd(*row) for row in found]


def _may_be_side_run(end: AttemptEnd) -> bool:
    """Whether a run may be next to another one of a step; a task that nobody changed has no such run."""
    claim = end.claim
    return claim.followed and claim.repeat is None and claim.revision > 1 and end.settlement.to in TERMINAL


def _follow_all(connection: Connection, ended: Sequence[_SideEnd], now: datetime) -> None:
    followed = set[str]()
    while ended:
        followed |= {each.run_id for each in ended}
        ended = [further for each in ended for further in _follow(connection, each, now)]
    failure_counts.count(connection, followed, now)


def _follow(connection: Connection, end: _SideEnd, now: datetime) -> list[_SideEnd]:
    """Let the steps behind a side run continue, end or run again; return the ends that follow from it."""
    found = later_steps.behind(connection, end.step_id, end.number)
    if end.state is State.SUCCEEDED:
        alone = _ended_alone(connection, found)
        _begin(connection, [each for each in found if each.run.id not in alone and _runs_again(each)], end, now)
    return _decide(connection, found, now)


def settle(
    connection: Connection,
    task_ids: Collection[str],
    now: datetime,
    *,
    why: str | None = None,
    failing: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Let the side runs of steps that wait continue or end, where that is decided.

    `why` they continue is given where it is not the end of another step. The `failing` runs end, each with its reason.
    """
    found = connection.execute(_WAITING, {"task_ids": sorted(task_ids)}).all() if task_ids else []
    for task_id, number in sorted(map(tuple, found)):
        behind = later_steps.in_generation(connection, [task_id], number)
        _follow_all(connection, _decide(connection, behind, now, why=why, failing=failing), now)


def leave_out(connection: Connection, task: Task, run: Run, why: str, now: datetime, *, by_user: bool) -> None:
    """Skip a side run that was rejected, by a user or by default, with the steps that come after it."""
    verdict = LinkVerdict(State.SKIPPED, words=why)
    left_out = Judged(task, run, followed=True, verdict=verdict, by_user=by_user)
    judged_runs.end(connection, [left_out], now)
    follow(connection, [run.id], now)


def _decide(
    connection: Connection,
    found: Sequence[LaterStep],
    now: datetime,
    *,
    why: str | None = None,
    failing: Mapping[str, str] = MappingProxyType({}),
) -> list[_SideEnd]:
    """Let those of the runs go that wait next to the current one, or end them; return what ended."""
    waiting = [each for each in found if each.run.state is State.WAITING and not each.run.current]
    unanswered = questions.unanswered(connection, [each.run.id for each in waiting])
    awaited = kept_waits.kept(connection, [each.run.id for each in waiting if before_run(each.task).awaits])
    judged = [
        Judged(each.task, each.run, followed=True, verdict=_verdict(each, unanswered, awaited, failing))
        for each in waiting
    ]
    judged_runs.let_go(connection, [each for each in judged if each.verdict.to is State.SCHEDULED], now, why)
    ended = judged_runs.end(connection, [each for each in judged if each.verdict.to in TERMINAL], now)
    return _ended(connection, [end.claim.run_id for end in ended])


def _verdict(
    step: LaterStep, unanswered: Collection[str], awaited: Mapping[str, KeptWait], failing: Mapping[str, str]
) -> LinkVerdict:
    run_id = step.run.id
    if run_id in failing:
        return LinkVerdict(State.FAILED, words=failing[run_id])
    passes = before_run(step.task).passes_open_links(step.run)
    links = [link for link in _deciding(step) if link.outcome is not None or not passes]
    return judge(links, awaited.get(run_id), approval_open=run_id in unanswered)


def _deciding(step: LaterStep) -> Sequence[DependencyLink]:
    """Return what decides about a run: of one that repeats another, no bad end from before somebody wanted it."""
    run = step.run
    if run.repeats is None:
        return step.links
    return [link for link in step.links if not (prevents_run(link) and link.at and link.at <= run.scheduled_for)]


def _ended_alone(connection: Connection, steps: Sequence[LaterStep]) -> Collection[str]:
    """Return the runs that were rejected, or skipped as no event came: they did not end with a step before them."""
    ended = [each.run for each in steps if each.run.ended_at and before_run(each.task).holds_when_due]
    if not ended:
        return ()
    run_ids = [run.id for run in ended]
    late = {run_id for run_id, each in kept_waits.kept(connection, run_ids).items() if _skips(each)}
    return late | questions.rejected(connection, ended[0].tenant, run_ids)


def _skips(wait: KeptWait) -> bool:
    return wait.timed_out and wait.wait.on_timeout is OnTimeout.SKIP


def _runs_again(step: LaterStep) -> bool:
    """Whether a step ended with those before it, of which nothing holds it any more."""
    run = step.run
    if run.started_at is not None:
        return False
    with_another = run.state is State.CANCELLED and (run.summary or "").startswith(NOT_RUN_PREFIX)
    return (run.state in _ENDED_WITH or with_another) and judge(step.links).to is State.SCHEDULED


def _begin(connection: Connection, again: Sequence[LaterStep], replay: _SideEnd, now: datetime) -> None:
    """Store side runs of steps that continue, as a change of their tasks: lists of a task look for them after one."""
    if not again:
        return
    begun = places.placed(connection, [replayed_run(each.task, each.run, now) for each in again])
    pairs = [(each.task, run) for each, run in zip(again, begun, strict=True)]
    places.ADD_RUNS.run(connection, [new_run_values(task, run) for task, run in pairs])
    connection.execute(CHANGED, {"task_ids": [task.id for task, _ in pairs], "now": now})
    if held := [task.id for task, _ in pairs if task.paused]:
        connection.execute(HOLD, {"task_ids": held})
    event_log.append(connection, [_event(task, run, replay, now) for task, run in pairs])
    notes_of(connection).freed.extend(task.id for task, _ in pairs)


def _event(task: Task, run: Run, replay: _SideEnd, now: datetime) -> event_log.EventValues:
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
