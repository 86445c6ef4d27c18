"""Waits of runs that have begun: stored with the end of the attempt that requests them; what ends one wakes its run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

from duetime.scheduler import remedies
from duetime.scheduler.chain.judgement import arrival_text
from duetime.scheduler.errors import Refused
from duetime.scheduler.events import DUETIME_ACTOR, EventKind
from duetime.scheduler.outcomes import Retry
from duetime.scheduler.rules.settlement import settle
from duetime.scheduler.run_records import Settlement
from duetime.scheduler.store.schema.tables.signals import signal_waits
from duetime.scheduler.store.schema.tables.tasks import runs
from duetime.scheduler.store.statements import event_log
from duetime.scheduler.store.statements.endings.claimed_run import AttemptEnd
from duetime.scheduler.store.statements.signals import kept_waits, name_locks, new_waits, wait_room
from duetime.scheduler.store.statements.signals.wait_room import OPEN_WAIT
from duetime.scheduler.store.statements.signals.wait_rows import WAITER_IDS, NewWait
from duetime.scheduler.store.text_index.text_search import among
from duetime.scheduler.task import Run, State
from duetime.scheduler.waits.signal import KeptWait, SignalWait
from sqlalchemy import Connection, select, update

_SUSPENDED = select(runs.c.id, runs.c.task_id, runs.c.tenant, runs.c.wake_at).where(
    runs.c.state == State.SUSPENDED, runs.c.ended_at.is_(None)
)
_OPEN = select(signal_waits.c.waiter_id).where(signal_waits.c.waiter_id.in_(WAITER_IDS), OPEN_WAIT)
_JUST_BEHIND: Final = timedelta(microseconds=1)
_MIDDLE_RATIO: Final = 0.5
"""Jitter of the next attempt of a run for whose wait there is no room."""


def lock_wait_names(connection: Connection, settlements: Sequence[Settlement]) -> Sequence[tuple[str, str]]:
    """Lock the names of the events for which runs are to wait, before any other row; return them with their tenants."""
    names = sorted({(each.claim.task.tenant, each.awaits.name) for each in settlements if each.awaits and each.claim})
    name_locks.share(connection, names)
    return names


def without_room_retry(
    connection: Connection, settlements: Sequence[Settlement], names: Sequence[tuple[str, str]], now: datetime
) -> Sequence[Settlement]:
    """Return the settlements, in which an attempt without room for its wait fails; `names` are locked."""
    full = {name: refused for name in names if (refused := _refusal(connection, *name))}
    return [_fitting(each, full, now) for each in settlements] if full else settlements


def _refusal(connection: Connection, tenant: str, name: str) -> str:
    try:
        wait_room.check(connection, tenant, name)
    except Refused as refused:
        return str(refused)
    return ""


def _fitting(end: Settlement, full: Mapping[tuple[str, str], str], now: datetime) -> Settlement:
    if end.awaits is None or end.claim is None:
        return end
    why = full.get((end.claim.task.tenant, end.awaits.name))
    return settle(end.claim, Retry(why), now=now, jitter=_MIDDLE_RATIO) if why else end


def store(connection: Connection, ended: Sequence[AttemptEnd], now: datetime) -> list[str]:
    """Store the waits of runs that were suspended for them; return the tasks of those whose event has come already."""
    waiting = [
        (end.claim, end.settlement.awaits)
        for end in ended
        if end.settlement.awaits and end.settlement.to is State.SUSPENDED
    ]
    if not waiting:
        return []
    before = kept_waits.kept(connection, [name for claim, _ in waiting for name in (claim.run_id, claim.task_id)])
    waits = [
        NewWait(
            claim.tenant,
            claim.task_id,
            claim.run_id,
            _again(wait, before.get(claim.run_id, before.get(claim.task_id))),
        )
        for claim, wait in waiting
    ]
    new_waits.store(connection, waits, now)
    stored = kept_waits.kept(connection, [each.waiter_id for each in waits])
    return wake(connection, {name: arrival_text(each.signal) for name, each in stored.items() if each.signal}, now)


def _again(wait: SignalWait, before: KeptWait | None) -> SignalWait:
    """Return the wait with a later `since`, so that it does not find the event of the wait before it again."""
    if before is None or before.signal is None or before.signal.at is None:
        return wait
    if (wait.name, wait.match) != (before.wait.name, before.wait.match):
        return wait
    return replace(wait, since=max(wait.since, before.signal.at + _JUST_BEHIND))


def wake(connection: Connection, reasons: Mapping[str, str], now: datetime) -> list[str]:
    """Wake the suspended ones of these runs, each with the reason for its event; return their tasks."""
    found = _suspended(connection, list(reasons))
    if not found:
        return []
    suspended = among(connection, runs.c.id, [row.id for row in found])
    connection.execute(update(runs).where(suspended).values(wake_at=now, listed_at=now))
    entries = [
        event_log.entry(
            row.tenant,
            row.task_id,
            row.id,
            now,
            kind=EventKind.UNBLOCKED,
            actor=DUETIME_ACTOR,
            reason=reasons[row.id],
        )
        for row in found
    ]
    event_log.append(connection, entries)
    return [row.task_id for row in found]


def _suspended(connection: Connection, run_ids: Sequence[str]) -> Sequence[Any]:
    return connection.execute(_SUSPENDED.where(among(connection, runs.c.id, run_ids))).all() if run_ids else ()


def moved(connection: Connection, run_ids: Sequence[str], now: datetime) -> set[str]:
    """Return those of the suspended runs that are to continue later than now, when their waits end."""
    found = _suspended(connection, run_ids)
    return {row.id for row in found if row.wake_at and now < row.wake_at}


def still_open(connection: Connection, run_ids: Sequence[str]) -> set[str]:
    """Return those of the runs whose waits have not ended."""
    return set(connection.execute(_OPEN, {"waiter_ids": list(run_ids)}).scalars())


def check_change(connection: Connection, old: Run, run: Run, now: datetime) -> None:
    """Refuse a change that would start a run before the event for which its handler waits, or before the end of that.

    The handler could take it for the end of its time.
    """
    if old.state is not State.SUSPENDED or run.state is not State.SUSPENDED or run.wake_at == old.wake_at:
        return
    found = kept_waits.of_waiter(connection, old.id)
    if found is not None and found.is_open and found.wait.until > now:
        raise Refused(
            f"{old.task_id} waits for the event {found.wait.name!r}, which it needs first: send it, or cancel it.",
            remedy=remedies.Inspect(old.task_id),
        )
