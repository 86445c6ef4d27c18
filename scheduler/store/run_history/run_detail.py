"""Reads one run with all that is kept of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any, TypeVar

from duetime.scheduler.history.dead_letters import DeadLetter
from duetime.scheduler.history.run_detail import RunDetail, RunNotFound
from duetime.scheduler.ids import is_id
from duetime.scheduler.rules.limits.price import amount_of
from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.run_history.run_list import PoolUses
from duetime.scheduler.store.schema.rows import (
    ATTEMPT_FIELDS,
    DEAD_LETTER,
    DELIVERY_FIELDS,
    EVENT_FIELDS,
    MESSAGE_FIELDS,
    RUN_FIELDS,
)
from duetime.scheduler.store.schema.tables.dead_letters import dead_letters
from duetime.scheduler.store.schema.tables.deliveries import deliveries, inbox
from duetime.scheduler.store.schema.tables.events import events
from duetime.scheduler.store.schema.tables.pools import usage
from duetime.scheduler.store.schema.tables.tasks import attempts, runs, tracebacks
from duetime.scheduler.store.statements import read
from duetime.scheduler.store.statements.event_log import events_of
from duetime.scheduler.task import Attempt, Delivery, InboxMessage, Run
from sqlalchemy import Column, Connection, Select, bindparam, select

MAX_RUN_EVENTS_SHOWN = 200
MAX_RUN_ATTEMPTS_SHOWN = 200
MAX_TRACEBACKS_SHOWN = 20

_RUN = select(*RUN_FIELDS).where(runs.c.id == bindparam("run_id"))
_ATTEMPTS = (
    select(*ATTEMPT_FIELDS)
    .where(attempts.c.run_id == bindparam("run_id"))
    .order_by(attempts.c.number.desc())
    .limit(MAX_RUN_ATTEMPTS_SHOWN)
)
_TRACEBACKS = (
    select(tracebacks.c.attempt, tracebacks.c.text)
    .where(tracebacks.c.run_id == bindparam("run_id"))
    .order_by(tracebacks.c.attempt.desc())
    .limit(MAX_TRACEBACKS_SHOWN)
)
_DELIVERIES = select(*DELIVERY_FIELDS).where(deliveries.c.run_id == bindparam("run_id")).order_by(deliveries.c.channel)
_MESSAGE = select(*MESSAGE_FIELDS).where(inbox.c.run_id == bindparam("run_id"))
_DEAD_LETTER = select(*DEAD_LETTER).where(dead_letters.c.run_id == bindparam("run_id"))
_USAGE = select(usage.c.attempt, usage.c.pool, usage.c.units, usage.c.cost).where(usage.c.run_id == bindparam("run_id"))

V = TypeVar("V")


def detail(connection: Connection, tenant: str | None, run_id: str) -> RunDetail:
    """Return a run of a tenant, None for any; raises RunNotFound."""
    of_run = {"run_id": run_id}
    found = _values(connection, _RUN, Run, RUN_FIELDS, of_run) if is_id(run_id) else []
    if not found or tenant not in {None, found[0].tenant}:
        raise RunNotFound(run_id)
    run = found[0]
    letter = _values(connection, _DEAD_LETTER, DeadLetter, DEAD_LETTER, of_run)
    message = _values(connection, _MESSAGE, InboxMessage, MESSAGE_FIELDS, of_run)
    happened = (
        select(*EVENT_FIELDS)
        .where(events.c.task_id == run.task_id, events.c.run_id == run_id)
        .order_by(events.c.seq.desc())
    )
    used = _used(connection, of_run)
    return RunDetail(
        read.record(connection, run.tenant, run.task_id),
        run,
        attempts=_attempts(connection, of_run),
        deliveries=tuple(_values(connection, _DELIVERIES, Delivery, DELIVERY_FIELDS, of_run)),
        events=tuple(reversed(events_of(connection, happened.limit(MAX_RUN_EVENTS_SHOWN)))),
        units={attempt: {pool: units for pool, (units, _) in each.items()} for attempt, each in used.items()},
        costs={attempt: costs for attempt, each in used.items() if (costs := _costs(each))},
        message=message[0] if message else None,
        dead_letter=letter[0] if letter else None,
    )


def _attempts(connection: Connection, of_run: Mapping[str, str]) -> tuple[Attempt, ...]:
    texts = dict[int, str](unreadable.rows(connection, _TRACEBACKS, of_run))
    found = _values(connection, _ATTEMPTS, Attempt, ATTEMPT_FIELDS, of_run)
    return tuple(replace(each, traceback=texts.get(each.number)) for each in reversed(found))


def _used(connection: Connection, of_run: Mapping[str, str]) -> Mapping[int, PoolUses]:
    found: dict[int, dict[str, tuple[float, int | None]]] = {}
    for attempt, pool, units, cost in unreadable.rows(connection, _USAGE, of_run):
        found.setdefault(attempt, {})[pool] = (units, cost)
    return found


def _costs(used: PoolUses) -> dict[str, Decimal]:
    return {pool: amount_of(cost) for pool, (_, cost) in used.items() if cost is not None}


def _values(
    connection: Connection, statement: Select[Any], kind: type[V], columns: list[Column[Any]], of_run: Mapping[str, str]
) -> list[V]:
    return [value for value, _ in unreadable.values(connection, statement, kind, columns, of_run)]
