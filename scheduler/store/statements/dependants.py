"""Runs that wait for other tasks or for signals: in the transaction in which one ends, those behind it continue or end.

An end closes the dependencies on its task. Then each waiting run is judged by all of its own, behind the lock of its
task. So of two upstreams that end at once the second one sees the first. Runs that end by that are followed in turn.
One transaction closes 1,000 dependencies at most; `unfollowed_ends` finds where more were left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any, NamedTuple

from duetime.scheduler.chain.judgement import DependencyLink, LinkVerdict, judge
from duetime.scheduler.chain.result_schema import mismatch
from duetime.scheduler.rules.series.before_run import before_run
from duetime.scheduler.rules.series.occurrence_wait import waiter_of
from duetime.scheduler.rules.states import TERMINAL
from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.schema.rows import IS_CURRENT, task_and_run
from duetime.scheduler.store.schema.tables.chains import chain_steps, dependencies
from duetime.scheduler.store.schema.tables.signals import signal_waits
from duetime.scheduler.store.schema.tables.tasks import runs, tasks
from duetime.scheduler.store.sql.batch import Batch
from duetime.scheduler.store.sql.commit_notes import notes_of
from duetime.scheduler.store.sql.locks import lock_tasks
from duetime.scheduler.store.statements.approvals import questions
from duetime.scheduler.store.statements.endings import last_results, past_ends
from duetime.scheduler.store.statements.endings.claimed_run import AttemptEnd
from duetime.scheduler.store.statements.endings.conclusions import Judged
from duetime.scheduler.store.statements.generations import judged_runs, renewal, side_generations
from duetime.scheduler.store.statements.read import TASK_AND_RUN
from duetime.scheduler.store.statements.signals import kept_waits
from duetime.scheduler.store.statements.waiters import OPEN_DEPENDENCY
from duetime.scheduler.task import Json, Run, State, Task
from duetime.scheduler.waits.signal import KeptWait
from sqlalchemy import BindParameter, ColumnElement, Connection, bindparam, exists, or_, select, update

MAX_LINKS_CLOSED = 1_000
"""Dependencies that one transaction closes."""

Ends = Mapping[str, State]
"""The states in which runs ended, by task."""

_IDS: BindParameter[str] = bindparam("task_ids", expanding=True)
_own, _before = chain_steps.alias("own"), chain_steps.alias("before")
_IN_ONE_CHAIN = (
    exists()
    .where(_own.c.task_id == dependencies.c.task_id, _before.c.task_id == dependencies.c.upstream_id)
    .where(_own.c.chain_id == _before.c.chain_id)
)
_OPEN_ON = (
    select(
        dependencies.c.task_id,
        dependencies.c.upstream_id,
        dependencies.c.valid_output,
        _IN_ONE_CHAIN.label("in_one_chain"),
    )
    .where(dependencies.c.upstream_id.in_(_IDS), OPEN_DEPENDENCY)
    .order_by(dependencies.c.task_id, dependencies.c.upstream_id)
    .limit(bindparam("most"))
)
_CLOSE = Batch(
    update(dependencies)
    .where(dependencies.c.task_id == bindparam("of_task"), dependencies.c.upstream_id == bindparam("on_task"))
    .values(closed_at=bindparam("at"), outcome=bindparam("how"), mismatch=bindparam("differs"))
)
_AWAITED: ColumnElement[bool] = or_(
    *(
        select(signal_waits.c.waiter_id).where(signal_waits.c.waiter_id == waiter).correlate(tasks, runs).exists()
        for waiter in (tasks.c.id, runs.c.id)
    )
)
"""Whether a task or its run has a wait: two looks, since an index serves no condition on either of two columns."""

_WAITING = (
    TASK_AND_RUN.add_columns(
        tasks.c.followed,
        questions.HAS_OPEN_APPROVAL.label("is_asked"),
        _AWAITED.label("awaits"),
    )
    .where(tasks.c.id.in_(_IDS), IS_CURRENT, runs.c.state == State.WAITING)
    .order_by(tasks.c.id)
)
_LINKS = (
    select(
        dependencies.c.task_id,
        dependencies.c.upstream_id,
        tasks.c.title,
        dependencies.c.after_failure,
        dependencies.c.outcome,
        dependencies.c.mismatch,
        dependencies.c.closed_at,
    )
    .outerjoin_from(dependencies, tasks, tasks.c.id == dependencies.c.upstream_id)
    .where(dependencies.c.task_id.in_(_IDS))
    .order_by(dependencies.c.task_id, dependencies.c.closed_at, dependencies.c.upstream_id)
)
_NONE: Mapping[str, str] = {}
_ENDED_BY = Batch(
    update(dependencies)
    .where(dependencies.c.task_id == bindparam("of_task"), dependencies.c.upstream_id == bindparam("on_task"))
    .values(ended_run=bindparam("of_run"))
)


class _Waiting(NamedTuple):
    """A run that waits: whether others come after its task, a question about it is open, and it has a wait."""

    task: Task
    run: Run
    followed: bool
    is_asked: bool
    awaits: bool

    @property
    def waiter(self) -> str:
        return waiter_of(self.task, self.run)


def follow_ends(connection: Connection, ended: Sequence[AttemptEnd], now: datetime) -> None:
    """Update the tasks that come after these ended ones; makes no query where there are none."""
    followed = [end for end in ended if end.claim.followed]
    if followed and (ends := _followed(side_generations.other_ends(connection, followed, now))):
        follow(connection, ends, now)


def _followed(ended: Sequence[AttemptEnd]) -> Ends:
    return {end.claim.task_id: to for end in ended if (to := end.followed_as())}


def follow(connection: Connection, ends: Ends, now: datetime, *, of: datetime | None = None) -> None:
    """Follow up ends of tasks, and those that follow from these; all count as ends `of` a time, usually now."""
    left = MAX_LINKS_CLOSED
    ended = set(ends)
    while ends and left > 0:
        closed = _close(connection, ends, of or now, left)
        left -= len(closed)
        ends = settle_waiting(connection, [row["of_task"] for row in closed], now)
        ended |= ends.keys()
    notes_of(connection).freed.extend(renewal.renew(connection, ended, now))


def settle_waiting(
    connection: Connection,
    task_ids: Sequence[str],
    now: datetime,
    *,
    why: str | None = None,
    failing: Mapping[str, str] = _NONE,
) -> Ends:
    """Let those of the waiting runs go, or end them, for which that is decided; return what ended and is followed.

    `why` they go is given where it is not the end of another task. The `failing` runs end, each with its reason.
    """
    if not task_ids:
        return {}
    wanted = {"task_ids": sorted(set(task_ids))}
    lock_tasks(connection, task_ids)
    waiting = unreadable.rows(connection, _WAITING, wanted)
    found = [_Waiting(*task_and_run(row), row.followed, row.is_asked, row.awaits) for row in waiting]
    links = _deciding(connection, waiting)
    awaited = kept_waits.kept(connection, [each.waiter for each in found if each.awaits])
    judged = [_judged(each, links.get(each.task.id, ()), awaited.get(each.waiter), failing) for each in found]
    judged_runs.let_go(connection, [each for each in judged if each.verdict.to is State.SCHEDULED], now, why)
    return _end(connection, [each for each in judged if each.verdict.to in TERMINAL], now)


def let_waiting_go(
    connection: Connection,
    task_ids: Sequence[str],
    now: datetime,
    *,
    why: str | None = None,
    failing: Mapping[str, str] = _NONE,
) -> None:
    """Let the runs of tasks go, or end, whose answers or events decide about them now, with all that follows."""
    follow(connection, settle_waiting(connection, task_ids, now, why=why, failing=failing), now)
    side_generations.settle(connection, task_ids, now, why=why, failing=failing)


def _judged(
    each: _Waiting, links: Sequence[DependencyLink], awaited: KeptWait | None, failing: Mapping[str, str]
) -> Judged:
    early = awaited is not None and awaited.wait.at_once
    if before_run(each.task).passes_open_links(each.run):
        links = [link for link in links if link.outcome is not None]
    verdict = judge(links, awaited, approval_open=each.is_asked)
    if each.run.id in failing:
        verdict = LinkVerdict(State.FAILED, words=failing[each.run.id])
    return Judged(each.task, each.run, each.followed, verdict, early)


def _close(connection: Connection, ends: Ends, now: datetime, most: int) -> list[dict[str, Any]]:
    found = connection.execute(_OPEN_ON, {"task_ids": sorted(ends), "most": most}).all()
    results = _results(connection, found, ends)
    rows = [_closed(row, ends, results, now) for row in found]
    _CLOSE.run(connection, rows)
    return rows


def _results(connection: Connection, found: Sequence[Any], ends: Ends) -> Mapping[bool, Mapping[str, Json]]:
    """Return the results, by task, that a dependency compares with a schema: in one chain, and otherwise."""
    checked = [row for row in found if row.valid_output and ends[row.upstream_id] is State.SUCCEEDED]
    steps = {row.upstream_id for row in checked if row.in_one_chain}
    others = {row.upstream_id for row in checked if not row.in_one_chain}
    return {True: last_results.current(connection, steps), False: last_results.last(connection, others)}


def _closed(row: Any, ends: Ends, results: Mapping[bool, Mapping[str, Json]], now: datetime) -> dict[str, Any]:
    how, differs = ends[row.upstream_id], None
    if row.valid_output and how is State.SUCCEEDED:
        differs = mismatch(row.valid_output, results[row.in_one_chain].get(row.upstream_id))
    how = State.FAILED if differs else how
    return {"of_task": row.task_id, "on_task": row.upstream_id, "at": now, "how": how, "differs": differs}


def _deciding(connection: Connection, waiting: Sequence[Any]) -> Mapping[str, Sequence[DependencyLink]]:
    return past_ends.without(connection, _links(connection, [row[0] for row in waiting]))


def _links(connection: Connection, task_ids: Sequence[str]) -> dict[str, list[DependencyLink]]:
    rows = unreadable.rows(connection, _LINKS, {"task_ids": list(task_ids)}) if task_ids else []
    return {
        task_id: [DependencyLink(*row[1:]) for row in group] for task_id, group in groupby(rows, key=lambda row: row[0])
    }


def _end(connection: Connection, ended: Sequence[Judged], now: datetime) -> Ends:
    ends = judged_runs.end(connection, ended, now)
    causes = [
        {"of_task": each.task.id, "on_task": each.verdict.link.upstream_id, "of_run": each.run.id}
        for each in ended
        if each.verdict.link
    ]
    _ENDED_BY.run(connection, causes)
    return _followed(ends)
