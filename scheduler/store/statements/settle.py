"""Judges settlements: whether the attempt still holds its run, and whether the worker has the newest task."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from duetime.scheduler.events import EventKind
from duetime.scheduler.records import NewTask
from duetime.scheduler.rules.states import TERMINAL
from duetime.scheduler.run_records import Settlement, Verdict
from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.database.dialects import dialect_of
from duetime.scheduler.store.schema.damage import salvaged
from duetime.scheduler.store.schema.rows import ordered
from duetime.scheduler.store.schema.tables.chains import chain_steps
from duetime.scheduler.store.schema.tables.tasks import runs, tasks
from duetime.scheduler.store.sql import commit_check
from duetime.scheduler.store.sql.batch import Batch
from duetime.scheduler.store.sql.commit_notes import notes_of
from duetime.scheduler.store.sql.locks import among, lock_tasks_of
from duetime.scheduler.store.statements import add, dependants, links
from duetime.scheduler.store.statements.endings import endings
from duetime.scheduler.store.statements.endings.claimed_run import AttemptEnd, Claimed
from duetime.scheduler.store.statements.generations import spawned_rows
from duetime.scheduler.store.statements.signals import run_waits
from duetime.scheduler.task import State
from sqlalchemy import Connection, bindparam, insert, select

log = logging.getLogger(__name__)

_COLUMNS = ordered(
    Claimed,
    run_id=runs.c.id,
    task_id=runs.c.task_id,
    tenant=runs.c.tenant,
    state=runs.c.state,
    attempt=runs.c.attempt,
    worker=runs.c.worker,
    scheduled_for=runs.c.scheduled_for,
    cancel_requested=runs.c.cancel_requested,
    revision=tasks.c.revision,
    repeat=tasks.c.repeat,
    paused=tasks.c.paused,
    deadline=runs.c.deadline,
    penalty=tasks.c.penalty,
    followed=tasks.c.followed,
)
_CLAIMED = select(*_COLUMNS).select_from(runs.join(tasks, tasks.c.id == runs.c.task_id))
_CLAIMED_OF = _CLAIMED.where(runs.c.id.in_(bindparam("run_ids", expanding=True)))
_STEP_OF = select(chain_steps).where(chain_steps.c.task_id.in_(bindparam("task_ids", expanding=True)))
_STEPS = Batch(insert(chain_steps), [column.name for column in chain_steps.c])
_CLAIMED_AMONG = _CLAIMED.where(among(runs.c.id))


def settle(
    connection: Connection, settlements: Sequence[Settlement], now: datetime, *, may_be_stored: bool = False
) -> list[Verdict]:
    """Settle attempts; with `may_be_stored`, those that have ended just so are settled too: a reply was lost."""
    if not settlements:
        return []
    names = run_waits.lock_wait_names(connection, settlements)
    settlements = run_waits.without_room_retry(connection, settlements, names, now)
    claims = claimed(connection, [settlement.run_id for settlement in settlements])
    verdicts, holding = [], []
    for settlement in settlements:
        claim = claims.get(settlement.run_id)
        verdict = _judge(claim, settlement)
        verdicts.append(verdict)
        if claim and verdict is Verdict.SETTLED:
            del claims[settlement.run_id]  # a second settlement of a run is late
            holding.append(AttemptEnd(claim, _heeding(claim, settlement)))
    if may_be_stored and Verdict.FENCED in verdicts:
        verdicts = _known(connection, settlements, verdicts)
    endings.write(connection, holding, now)
    _spawn(connection, holding, now)
    notes_of(connection).freed.extend(run_waits.store(connection, holding, now))
    dependants.follow_ends(connection, holding, now)
    return verdicts


def _known(connection: Connection, settlements: Sequence[Settlement], verdicts: Sequence[Verdict]) -> list[Verdict]:
    stored = commit_check.settled(connection, settlements)
    return [
        Verdict.SETTLED if verdict is Verdict.FENCED and settlement.run_id in stored else verdict
        for settlement, verdict in zip(settlements, verdicts, strict=True)
    ]


def _spawn(connection: Connection, ended: Sequence[AttemptEnd], now: datetime) -> None:
    """Store the tasks that these runs spawn: steps of the same chain, for which what comes after them waits as well.

    A run next to the current generation of a chain spawns for its own generation alone, and so do its tasks.
    """
    spawning = [end for end in ended if end.settlement.spawned]
    if not spawning:
        return
    new = [item for end in spawning for _, item in end.settlement.spawned]
    add.add(connection, new, now, store_new=add.store_new)
    aside = spawned_rows.add(connection, spawning)
    followed: dict[str, list[tuple[str, NewTask]]] = {}
    for end in spawning:  # a task may have ended twice: its run, and one next to it
        if end.claim.run_id not in aside.run_ids:
            followed.setdefault(end.claim.task_id, []).extend(end.settlement.spawned)
    links.also_after(connection, {each: [item.task.id for _, item in spawned] for each, spawned in followed.items()})
    steps = [
        {**step, "task_id": item.task.id, "name": f"{step['name']}/{name}"}
        for step in connection.execute(_STEP_OF, {"task_ids": sorted(followed)}).mappings().all()
        for name, item in followed[step["task_id"]]
    ]
    _STEPS.run(connection, steps)
    links.mark_followed(connection, [*(step["task_id"] for step in steps), *aside.task_ids])  # by their generations
    notes_of(connection).freed.extend(item.task.id for item in new)


def claimed(connection: Connection, run_ids: Sequence[str]) -> dict[str, Claimed]:
    """Return the stored runs, with the columns of their tasks that decide about an end."""
    lock_tasks_of(connection, run_ids)
    statement = _CLAIMED_AMONG if dialect_of(connection).has_arrays else _CLAIMED_OF
    rows, damaged = unreadable.every(connection, statement, {"run_ids": list(run_ids)})
    found = [Claimed(*(salvaged(row, _COLUMNS).values if damaged else row)) for row in rows]
    return {claim.run_id: claim for claim in found}


def _heeding(claim: Claimed, settlement: Settlement) -> Settlement:
    """Turn a retry into a cancel when one was requested: the worker may not know, and the run would start again."""
    if settlement.to in TERMINAL or not claim.cancel_requested:
        return settlement
    return replace(settlement, to=State.CANCELLED, kind=EventKind.CANCELLED, wake_at=None, raises=None)


def _judge(claim: Claimed | None, settlement: Settlement) -> Verdict:
    if claim is None or claim.state is not State.RUNNING or claim.attempt != settlement.attempt:
        return Verdict.FENCED
    if claim.revision != settlement.task_revision and _decides_what_is_next(claim, settlement):
        return Verdict.STALE
    return Verdict.SETTLED


def _decides_what_is_next(claim: Claimed, settlement: Settlement) -> bool:
    """Whether a settlement continues (next occurrence, another attempt) although a change may have ended the task.

    A failure of a run that was to be cancelled counts as cancelled.
    """
    if claim.cancel_requested and settlement.to not in {State.SUCCEEDED, State.CANCELLED}:
        return True
    if settlement.to not in TERMINAL:
        return False
    return settlement.next_run is not None or claim.repeat is not None
