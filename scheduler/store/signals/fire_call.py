"""A call of a fire address: the wait of its task or run ends by it, or else the task runs now."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from duetime.scheduler import remedies
from duetime.scheduler.errors import Refused
from duetime.scheduler.events import EventKind
from duetime.scheduler.records import ChangeOrigin
from duetime.scheduler.rules import changes
from duetime.scheduler.rules.series.occurrence_wait import waiter_of
from duetime.scheduler.rules.series.reruns import own_occurrence
from duetime.scheduler.store.signals import send_signal
from duetime.scheduler.store.sql.commit_notes import notes_of
from duetime.scheduler.store.statements import change as changing
from duetime.scheduler.store.statements import dependants, read
from duetime.scheduler.store.statements.signals import ended_waits, kept_waits, new_waits, run_waits
from duetime.scheduler.task import State
from duetime.scheduler.views import TaskRecord
from duetime.scheduler.waits.fire_address import FireAddress, Fired, NoSuchAddress
from duetime.scheduler.waits.signal import ReceivedSignal
from sqlalchemy import Connection

FIRE_ACTOR = "fire address"
FIRED = "fire"
"""The name of the event that a handler reads whose run waited for none."""


def fire(
    connection: Connection,
    address: FireAddress,
    stored: FireAddress | None,
    signal: ReceivedSignal,
    *,
    via: str | None,
    clock: Callable[[], datetime],
) -> Fired:
    """Start the task of an address that is `stored` still, once for each id of a signal."""
    if stored is None or stored.id != address.id:
        raise NoSuchAddress
    now = clock()
    # No name and no id of an event has a blank. So no run can wait for this event, and no sent event repeats it.
    noted = ReceivedSignal(f"{FIRED} {address.task_id}", f"{FIRED} {address.task_id} {signal.id}", signal.data, now)
    if not send_signal.stored(connection, address.tenant, noted, FIRE_ACTOR, now):
        return Fired(address.task_id, signal.id, repeated=True)
    send_signal.forget_surplus(connection, address.tenant, now)
    record = read.locked_record(connection, address.tenant, address.task_id)
    _check(record)
    came = ReceivedSignal(FIRED, signal.id, signal.data, now)
    why = f"its fire address was called ({signal.id})"
    if _ends_wait(connection, record, came, why, now):
        return Fired(address.task_id, signal.id)
    return Fired(address.task_id, signal.id, left=_run_now(connection, record, came, why=why, via=via, now=now))


def _check(record: TaskRecord) -> None:
    task_id = record.task.id
    if record.run.state is State.CANCELLED and not record.run.gives_way:
        raise NoSuchAddress
    if record.damage:
        raise Refused(f"{task_id} is damaged.", remedy=remedies.Inspect(task_id))
    if record.task.paused:
        raise Refused(f"{task_id} is paused.", remedy=remedies.Resume(task_id))


def _ends_wait(connection: Connection, record: TaskRecord, came: ReceivedSignal, why: str, now: datetime) -> bool:
    """End the open wait of a task before its first start, or of a suspended run; False where there is none."""
    waiter = {State.WAITING: waiter_of(record.task, record.run), State.SUSPENDED: record.run.id}.get(record.run.state)
    found = kept_waits.of_waiter(connection, waiter) if waiter else None
    if waiter is None or found is None or not found.is_open:
        return False
    ended_waits.close(connection, [waiter], came, found.wait.name)
    if record.run.state is State.WAITING:
        dependants.follow(connection, dependants.settle_waiting(connection, [record.task.id], now, why=why), now)
        ended_waits.log(connection, {waiter: why}, [record.task.id], now)
    else:
        notes_of(connection).freed.extend(run_waits.wake(connection, {waiter: why}, now))
    return True


def _run_now(
    connection: Connection, record: TaskRecord, came: ReceivedSignal, *, why: str, via: str | None, now: datetime
) -> tuple[str, ...]:
    """Let the task run now, as a button does, and note what its run has come by; return what leaves the queue.

    A call is a matter of its own: it does not complete what failed before.
    """
    change = changes.run_now(record, now, completing=False)
    if change.next_run:
        change = replace(change, next_run=own_occurrence(record.task, change.next_run, now))
    changing.apply(connection, record, change, ChangeOrigin(FIRE_ACTOR, EventKind.RUN_NOW, why, via), now)
    run = change.extra_run or change.next_run or change.run
    new_waits.note(connection, record.task.tenant, record.task.id, run.id, came)
    notes_of(connection).freed.append(record.task.id)
    return tuple(changes.runs_to_dequeue(record, change))
