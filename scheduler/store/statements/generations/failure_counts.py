"""Counts failures in a row of generations that run at once (`allow_all`), in the order in which they end."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime

from duetime.scheduler.rules.series.overlap import pause_after_failures
from duetime.scheduler.rules.series.overtake import ends_series
from duetime.scheduler.rules.states import FAILURES
from duetime.scheduler.store.schema.tables.chains import chain_steps
from duetime.scheduler.store.schema.tables.tasks import runs, tasks
from duetime.scheduler.store.statements.endings import first_runs, pauses
from duetime.scheduler.store.statements.generations import generation_rows
from duetime.scheduler.store.statements.generations.generation_rows import Generation
from duetime.scheduler.task import Overlap, RepeatPolicy, State
from sqlalchemy import BindParameter, Connection, bindparam, select, update

_RUN_IDS: BindParameter[str] = bindparam("run_ids", expanding=True)
_ENDED = (
    select(chain_steps.c.chain_id, runs.c.task_id, runs.c.number, runs.c.id, tasks.c.repeat_policy)
    .join_from(runs, chain_steps, chain_steps.c.task_id == runs.c.task_id)
    .join(tasks, tasks.c.id == runs.c.task_id)
    .where(runs.c.id.in_(_RUN_IDS), tasks.c.repeat_policy.is_not(None))
)
_COUNT = update(runs).where(runs.c.id.in_(_RUN_IDS)).values(failed_before=bindparam("failed"))


def count(connection: Connection, run_ids: Collection[str], now: datetime) -> None:
    """Count those overtaken generations that ended with these runs, and pause a chain of which too many failed.

    A generation has ended when each step has ended for the first time. A replay counts neither way, nor does a
    generation of which a step was cancelled. A chain of which no generation follows does not pause.
    """
    rows = connection.execute(_ENDED, {"run_ids": sorted(run_ids)}) if run_ids else ()
    counted = [row for row in rows if _counts(row.repeat_policy)]
    ended = dict[tuple[str, int], set[str]]()
    for row in counted:
        ended.setdefault((row.chain_id, row.number), set()).add(row.id)
    if counted:
        generation_rows.lock_with_chains(connection, [row.task_id for row in counted])
    for (chain_id, number), of_generation in sorted(ended.items()):
        _count_generation(connection, chain_id, number, of_generation, now)


def _counts(policy: RepeatPolicy) -> bool:
    return policy.overlap is Overlap.ALLOW_ALL and policy.pause_after is not None


def _count_generation(connection: Connection, chain_id: str, number: int, ended: set[str], now: datetime) -> None:
    chain = generation_rows.locked(connection, chain_id)
    first = first_runs.ends(connection, [task.id for task, _ in chain.steps], number)
    if number == chain.chain.number or ended.isdisjoint(each.run_id for each in first):
        return
    if {each.state for each in first} & {None, State.CANCELLED}:
        return
    task, _ = chain.steps[0]
    lost = [each for each in first if each.state in FAILURES]
    failed = chain.failed_before + 1 if lost else 0
    if failed == chain.failed_before:
        return
    open_runs = [(each, replace(of_it, failed_before=failed)) for each, of_it in chain.steps]
    connection.execute(_COUNT, {"run_ids": [of_it.id for _, of_it in open_runs], "failed": failed})
    if (why := pause_after_failures(task, failed, "generation")) and _goes_on(chain, now):
        began = [each.run_id for each in lost if each.started] or [each.run_id for each in lost]
        pauses.pause_chain(connection, open_runs, began, why, now)


def _goes_on(chain: Generation, now: datetime) -> bool:
    """Whether there is something to pause: the current generation is open, or another one is about to follow it."""
    latest = [run for _, run in chain.all]
    if any(map(ends_series, latest)):
        return False
    return any(run.ended_at is None for run in latest) or chain.continuation(now).next_run is not None
