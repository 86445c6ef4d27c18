"""Waits for signals as rows: one of what waits, and one for each further event that would end its wait too."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final, NamedTuple

from duetime.scheduler.store.schema.tables.signals import signal_waits
from duetime.scheduler.waits.signal import MAX_EVENTS_AWAITED, KeptWait, ReceivedSignal, SignalWait
from sqlalchemy import BindParameter, bindparam, select

WAITER_IDS: Final[BindParameter[str]] = bindparam("waiter_ids", expanding=True)
COLUMNS = select(
    signal_waits.c.waiter_id,
    *(signal_waits.c[name] for name in ("name", "wanted", "since", "until", "on_timeout", "at_once")),
    *(signal_waits.c[name] for name in ("closed_at", "signal_id", "data", "signal_at")),
)
_FURTHER = "+"
"""Stands in the id of a row between that of the waiter and the place among the events of which any ends its wait."""


class NewWait(NamedTuple):
    """A wait to be stored for a task or for a run of it."""

    tenant: str
    task_id: str
    waiter_id: str
    wait: SignalWait


def names(waits: Iterable[NewWait]) -> list[tuple[str, str]]:
    return sorted({(each.tenant, one.name) for each in waits for one in each.wait.all})


def further(waiter_ids: Iterable[str]) -> list[str]:
    """Return the ids under which the others of waits are stored."""
    return [f"{waiter}{_FURTHER}{place}" for waiter in waiter_ids for place in range(1, MAX_EVENTS_AWAITED)]


def first_id(waiter_id: str) -> str:
    """Return the id of the wait of which the one with this id is a further one, or itself."""
    return waiter_id.partition(_FURTHER)[0]


def row_of(each: NewWait, came: ReceivedSignal | None, now: datetime) -> dict[str, Any]:
    wait = each.wait
    return {
        "waiter_id": each.waiter_id,
        "task_id": each.task_id,
        "tenant": each.tenant,
        "name": wait.name,
        "wanted": dict(wait.match),
        "since": wait.since,
        "until": wait.until,
        "on_timeout": wait.on_timeout,
        "at_once": wait.at_once,
        "closed_at": now if came else None,
        "signal_id": came.id if came else None,
        "signal_at": came.at if came else None,
        "data": dict(came.data) if came else None,
    }


def kept_wait(row: Any) -> KeptWait:
    wait = SignalWait(row.name, row.wanted, row.since, row.until, row.on_timeout, row.at_once)
    signal = None if row.signal_id is None else ReceivedSignal(row.name, row.signal_id, row.data or {}, row.signal_at)
    return KeptWait(wait, row.closed_at, signal)
