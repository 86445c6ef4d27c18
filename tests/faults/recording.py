"""Reads a `Record` from a database, SQLite or PostgreSQL, and the ledger of the handlers."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

from duetime.scheduler.store import Store
from duetime.scheduler.store.models import attempts, dead_letters, events, inbox, runs, tasks
from sqlalchemy import Connection, Select, select

from tests.faults.record import AttemptFact, EventFact, Line, Record, RunFact

_RUNS = select(
    runs.c.id,
    runs.c.task_id,
    tasks.c.action,
    runs.c.state,
    runs.c.attempt,
    runs.c.crashes,
    runs.c.number,
    runs.c.generation,
    runs.c.scheduled_for,
    runs.c.current,
    runs.c.ended_at,
    runs.c.deadline,
    tasks.c.needs,
).select_from(runs.join(tasks, tasks.c.id == runs.c.task_id))
_ATTEMPTS = select(
    attempts.c.run_id,
    attempts.c.number,
    attempts.c.worker,
    attempts.c.started_at,
    attempts.c.ended_at,
    attempts.c.outcome,
)
_EVENTS = select(
    events.c.task_id,
    events.c.run_id,
    events.c.seq,
    events.c.at,
    events.c.kind,
    events.c.actor,
    events.c.from_state,
    events.c.to_state,
    events.c.attempt,
)


def record_of(store: Store, ledger: Path, acknowledged: Collection[str], **rest: Any) -> Record:
    """Return all that the database and the ledger say now; `rest` are the other fields of `Record`."""
    return store._database.read(lambda connection: _read(connection, lines(ledger), frozenset(acknowledged), rest))


def lines(ledger: Path) -> tuple[Line, ...]:
    """Read the ledger; a machine that is up has had one difference between its clocks all the time."""
    since = time.time() - time.monotonic()
    parts = (line.split() for line in ledger.read_text().splitlines()) if ledger.exists() else ()
    return tuple(
        Line(step, run_id, int(attempt), int(pid), since + float(at)) for step, run_id, attempt, pid, at in parts
    )


def _read(connection: Connection, ledger: tuple[Line, ...], acknowledged: frozenset[str], rest: Any) -> Record:
    return Record(
        acknowledged=acknowledged,
        runs=tuple(RunFact(*row) for row in _rows(connection, _RUNS)),
        attempts=tuple(AttemptFact(*row) for row in _rows(connection, _ATTEMPTS)),
        events=tuple(EventFact(*row) for row in _rows(connection, _EVENTS)),
        letters=tuple(run_id for (run_id,) in _rows(connection, select(dead_letters.c.run_id))),
        messages=tuple(run_id for (run_id,) in _rows(connection, select(inbox.c.run_id))),
        ledger=ledger,
        **rest,
    )


def _rows(connection: Connection, statement: Select[Any]) -> Iterable[list[Any]]:
    for row in connection.execute(statement):
        yield [value.timestamp() if isinstance(value, datetime) else value for value in row]
