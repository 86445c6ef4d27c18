"""Occurrences that are due and wait for an event first: their waits begin, in a transaction of their own.

Where they are asked for as well, the question is asked in it.
The lock of a name comes before those of tasks, as where a signal is sent; what makes runs ready locks tasks alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final, NamedTuple

from duetime.scheduler.errors import Refused
from duetime.scheduler.events import DUETIME_ACTOR, EventKind
from duetime.scheduler.rules.series.before_run import before_run
from duetime.scheduler.rules.series.occurrence_wait import names_awaited, opened_at
from duetime.scheduler.rules.states import check_move
from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.schema.rows import NOT_PAUSED, task_and_run
from duetime.scheduler.store.schema.tables.tasks import runs, tasks
from duetime.scheduler.store.schema.types import Instant
from duetime.scheduler.store.sql.batch import Batch
from duetime.scheduler.store.sql.commit_notes import notes_of
from duetime.scheduler.store.sql.locks import exactly
from duetime.scheduler.store.statements import dependants, event_log
from duetime.scheduler.store.statements.approvals import occurrences
from duetime.scheduler.store.statements.read import TASK_AND_RUN
from duetime.scheduler.store.statements.signals import name_locks, new_waits, own_waits, wait_room, wait_rows
from duetime.scheduler.store.statements.signals.wait_rows import NewWait
from duetime.scheduler.task import Run, State, Task
from sqlalchemy import BindParameter, Connection, bindparam, false, null, select, update

AWAITED_REASON: Final = "each of its runs waits for an event"
"""Why a due run waits."""

UNREADABLE_WAIT: Final = "what it waits for cannot be read"

_IDS: BindParameter[Sequence[str]] = bindparam("run_ids", expanding=True)
_WANTED = (
    select(tasks.c.tenant, tasks.c.asks).join_from(runs, tasks, tasks.c.id == runs.c.task_id).where(runs.c.id.in_(_IDS))
)
_DUE = (
    TASK_AND_RUN.where(runs.c.id.in_(_IDS), runs.c.state == State.SCHEDULED, runs.c.attempt == 0)
    .where(runs.c.wake_at <= bindparam("until", type_=Instant()), NOT_PAUSED, tasks.c.paused == false())
    .order_by(tasks.c.id)
    .with_for_update(of=[runs, tasks])
)
_WAIT = Batch(
    update(runs)
    .where(runs.c.id == bindparam("run_id"), runs.c.wake_at.is_not(None))
    .values(state=State.WAITING, wake_at=null(), first_ready_at=bindparam("opened"), listed_at=bindparam("listed"))
)


class _Beginning(NamedTuple):
    task: Task
    run: Run
    opened: datetime
    wait: NewWait | None
    why: str = ""
    """Why it cannot wait."""

    @property
    def waiting(self) -> tuple[Task, Run, Run]:
        run = replace(self.run, state=State.WAITING, wake_at=None, first_ready_at=self.opened)
        return self.task, self.run, run


def begin(connection: Connection, run_ids: Sequence[str], now: datetime, until: datetime) -> None:
    """Let those of these runs wait that are due by `until` and have not waited; their events may have come already.

    A run fails that cannot wait: for its event too many tasks wait, or what it waits for cannot be read.
    """
    locked = _lock_names(connection, run_ids)
    found = [_beginning(connection, task, run, now) for task, run in _due(connection, run_ids, until)]
    found = [each for each in found if each.wait is None or locked.issuperset(wait_rows.names([each.wait]))]
    rows = [{"run_id": each.run.id, "opened": each.opened, "listed": each.run.scheduled_for} for each in found]
    exactly(len(rows), _WAIT.run(connection, rows))
    event_log.append(connection, [_event(each, now) for each in found])
    new_waits.store(connection, [each.wait for each in found if each.wait], now)
    occurrences.ask_also(connection, [each.waiting for each in found if each.wait], now)
    failing = {each.run.id: each.why for each in found if each.why}
    begun = [each.task.id for each in found]
    dependants.let_waiting_go(connection, begun, now, failing=failing)
    notes_of(connection).freed.extend(begun)


def _lock_names(connection: Connection, run_ids: Sequence[str]) -> set[tuple[str, str]]:
    rows = unreadable.rows(connection, _WANTED, {"run_ids": list(run_ids)})
    wanted = {(row.tenant, name) for row in rows for name in names_awaited(row.asks)}
    name_locks.share(connection, wanted)
    return wanted


def _due(connection: Connection, run_ids: Sequence[str], until: datetime) -> list[tuple[Task, Run]]:
    rows = unreadable.rows(connection, _DUE, {"run_ids": list(run_ids), "until": until})
    found = {run.id: (task, run) for task, run in map(task_and_run, rows) if _waits(task, run)}
    return [found[run_id] for run_id in own_waits.yet_to_wait(connection, found)] if found else []


def _waits(task: Task, run: Run) -> bool:
    """Whether a run waits for an event: of a series its current one, of a chain one that is replayed as well."""
    return before_run(task).awaits_in_chain or (run.current and before_run(task).awaits)


def _beginning(connection: Connection, task: Task, run: Run, now: datetime) -> _Beginning:
    opened = opened_at(run, now)
    if not names_awaited(task.asks):
        return _Beginning(task, run, opened, None, UNREADABLE_WAIT)
    wait = own_waits.new_wait(connection, task, run, opened)
    try:
        for name in wait_rows.names([wait]):
            wait_room.check(connection, *name)
    except Refused as refused:
        return _Beginning(task, run, opened, None, str(refused))
    return _Beginning(task, run, opened, wait)


def _event(each: _Beginning, now: datetime) -> event_log.EventValues:
    check_move(each.run.state, State.WAITING)
    return event_log.entry(
        each.task.tenant,
        each.task.id,
        each.run.id,
        now,
        kind=EventKind.WAIT_BEGAN,
        actor=DUETIME_ACTOR,
        reason=AWAITED_REASON,
        move=(each.run.state, State.WAITING),
    )
