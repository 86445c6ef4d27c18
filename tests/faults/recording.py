"""Reads a `Record` from a database, SQLite or PostgreSQL, and the ledger of the handlers."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterable
from datetime import datetime
from pathlib import Path
from threading import Lock
from typing import Any

from duetime.scheduler.store import Store
from duetime.scheduler.store.schema.tables.dead_letters import dead_letters
from duetime.scheduler.store.schema.tables.deliveries import inbox
from duetime.scheduler.store.schema.tables.events import events
from duetime.scheduler.store.schema.tables.tasks import attempts, runs, tasks
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


def record_of(store: Store, ledger: Ledger, acknowledged: Collection[str], **rest: Any) -> Record:
    """Return all that the database and the ledger say now; `rest` are the other fields of `Record`."""
    return store._database.read(lambda connection: _read(connection, ledger.lines(), frozenset(acknowledged), rest))


class Ledger:
    """The file as far as it has been written, read once: what has begun and what has had its effect. Thread-safe."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = Lock()
        self._offset = 0
        self._lines: list[Line] = []
        self._open: dict[tuple[str, int, int], Line] = {}
        self._effects: Counter[str] = Counter()
        self._since = time.time() - time.monotonic()  # a machine that is up has this difference all the time

    def lines(self) -> tuple[Line, ...]:
        with self._lock:
            self._catch_up()
            return tuple(self._lines)

    def effects(self) -> Counter[str]:
        """Count the effects of each run."""
        with self._lock:
            self._catch_up()
            return self._effects.copy()

    def open(self, pid: int) -> list[Line]:
        """Return what a process has begun and has not had its effect of."""
        with self._lock:
            self._catch_up()
            return [line for line in self._open.values() if line.pid == pid]

    def _catch_up(self) -> None:
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            file.seek(self._offset)
            new, _, _ = file.read().rpartition(b"\n")
        self._offset += len(new) + 1 if new else 0
        for text in new.decode().splitlines():
            step, run_id, attempt, pid, at = text.split()
            self._note(Line(step, run_id, int(attempt), int(pid), self._since + float(at)))

    def _note(self, line: Line) -> None:
        self._lines.append(line)
        key = (line.run_id, line.attempt, line.pid)
        if line.step == "start":
            self._open[key] = line
        else:
            self._open.pop(key, None)
            self._effects[line.run_id] += 1


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
