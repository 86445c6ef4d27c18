"""The logs of runs: lines are stored in batches, cut where they are too many, and read from any place on."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, Final

from duetime.scheduler.history.run_detail import RunNotFound
from duetime.scheduler.history.run_log import LOG_START_INDEX, MAX_RUN_LOG_BYTES, LogPlace
from duetime.scheduler.ids import is_id
from duetime.scheduler.rules.states import TERMINAL
from duetime.scheduler.rules.time.durations import EPOCH
from duetime.scheduler.run_records import LogChunk
from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.database.database import Database
from duetime.scheduler.store.database.dialects import dialect_of
from duetime.scheduler.store.schema.rows import chunk_values
from duetime.scheduler.store.schema.tables.logs import run_logs
from duetime.scheduler.store.schema.tables.tasks import runs
from duetime.scheduler.view_parts import LogLine, RunLog
from sqlalchemy import Connection, and_, bindparam, delete, func, or_, select, tuple_, update

MAX_CHUNKS_PER_WRITE: Final = 100
MIN_CHUNKS_READ: Final = 3
"""Chunks that mostly have the last lines of a run."""

_KEY: Final = tuple(run_logs.primary_key)
_PLACE: Final = run_logs.c.attempt, run_logs.c.first

_RUN = select(runs.c.tenant, runs.c.task_id, runs.c.state).where(runs.c.id == bindparam("wanted"))
_newer = run_logs.alias("newer")
_NEWER_BYTES = select(func.sum(_newer.c.size)).where(
    _newer.c.run_id == run_logs.c.run_id, tuple_(_newer.c.attempt, _newer.c.first) >= tuple_(*_PLACE)
)
_TOO_OLD = select(*_KEY, run_logs.c.lines, run_logs.c.cut).where(
    run_logs.c.run_id == bindparam("wanted"), _NEWER_BYTES.scalar_subquery() > MAX_RUN_LOG_BYTES
)
_FIRST = select(*_KEY).where(run_logs.c.run_id == bindparam("wanted")).order_by(*_PLACE).limit(1)
_OF_RUN = select(
    run_logs.c.attempt, run_logs.c.first, run_logs.c.cut, run_logs.c.text, run_logs.c.at, run_logs.c.lines
).where(run_logs.c.run_id == bindparam("wanted"))
_CUT = select(func.coalesce(func.sum(run_logs.c.cut), 0)).where(run_logs.c.run_id == bindparam("wanted"))


class RunLogs:
    """Lines that handlers logged, by run. A `tenant` of None is all tenants, for which only an operator may ask."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def write(self, chunks: Sequence[LogChunk], *, cut: Collection[str] = ()) -> None:
        """Store lines of running attempts; a chunk that has grown is replaced. The logs of runs to `cut` are cut.

        A power cut may lose the newest.
        """
        for start in range(0, len(chunks), MAX_CHUNKS_PER_WRITE):
            some = chunks[start : start + MAX_CHUNKS_PER_WRITE]
            self._database.write(partial(_write, chunks=some), durable=False)
        for run_id in sorted(cut):
            self._database.write(partial(_cut, run_id=run_id), durable=False)

    def read(self, tenant: str | None, run_id: str, *, after: LogPlace = LOG_START_INDEX, limit: int) -> RunLog:
        """Return the lines of a run behind a place. Raises RunNotFound."""
        return self._database.read(lambda connection: _read(connection, tenant, run_id, after, limit))

    def newest(self, tenant: str | None, run_id: str, *, limit: int) -> RunLog:
        """Return the last lines of a run. Raises RunNotFound."""
        return self._database.read(lambda connection: _newest(connection, tenant, run_id, limit))


def _write(connection: Connection, chunks: Sequence[LogChunk]) -> None:
    upsert = dialect_of(connection).insert(run_logs)
    newest = {name: upsert.excluded[name] for name in ("lines", "size", "at", "text")}
    grown = upsert.excluded.lines > run_logs.c.lines
    statement = upsert.on_conflict_do_update(index_elements=list(_KEY), set_=newest, where=grown)
    in_order = sorted(chunks, key=lambda chunk: (chunk.run_id, chunk.attempt, chunk.first))
    connection.execute(statement, [chunk_values(chunk) for chunk in in_order])


def _cut(connection: Connection, run_id: str) -> None:
    """Delete the oldest lines of a run that has too many, and note how many they were."""
    old = connection.execute(_TOO_OLD, {"wanted": run_id}).all()
    if not old:
        return
    width = len(_KEY)
    connection.execute(delete(run_logs).where(tuple_(*_KEY).in_([tuple(row[:width]) for row in old])))
    gone = sum(row.lines + row.cut for row in old)
    first = connection.execute(_FIRST, {"wanted": run_id}).first()
    if first is not None:
        itself = and_(*(column == value for column, value in zip(_KEY, first, strict=True)))
        connection.execute(update(run_logs).where(itself).values(cut=run_logs.c.cut + gone))


def _read(connection: Connection, tenant: str | None, run_id: str, after: LogPlace, limit: int) -> RunLog:
    log = _empty(connection, tenant, run_id)
    attempt, number = after
    later = or_(
        run_logs.c.attempt > attempt,
        and_(run_logs.c.attempt == attempt, run_logs.c.first + run_logs.c.lines > number + 1),
    )
    statement = _OF_RUN.where(later).order_by(*_PLACE, run_logs.c.last)
    lines = _lines(unreadable.rows(connection, statement, {"wanted": run_id}), after)
    cut = connection.execute(_CUT, {"wanted": run_id}).scalar_one()
    return RunLog(log.run_id, log.task_id, tuple(lines[:limit]), int(cut), len(lines) > limit, log.ended)


def _newest(connection: Connection, tenant: str | None, run_id: str, limit: int) -> RunLog:
    log = _empty(connection, tenant, run_id)
    statement = _OF_RUN.order_by(run_logs.c.attempt.desc(), run_logs.c.first.desc(), run_logs.c.last.desc())
    found = unreadable.rows(connection, statement.limit(MIN_CHUNKS_READ), {"wanted": run_id})
    if not found:
        return log
    if len(found) == MIN_CHUNKS_READ and sum(row.lines for row in found) < limit:  # attempts of few lines each
        found = unreadable.rows(connection, statement.limit(limit), {"wanted": run_id})
    cut = connection.execute(_CUT, {"wanted": run_id}).scalar_one()
    return RunLog(
        log.run_id, log.task_id, tuple(_lines(found[::-1], LOG_START_INDEX)[-limit:]), int(cut), False, log.ended
    )


def _empty(connection: Connection, tenant: str | None, run_id: str) -> RunLog:
    found = connection.execute(_RUN, {"wanted": run_id}).first() if is_id(run_id) else None
    if found is None or tenant not in {None, found.tenant}:
        raise RunNotFound(run_id)
    return RunLog(run_id, found.task_id, ended=found.state in TERMINAL)


def _lines(rows: Sequence[Any], after: LogPlace) -> list[LogLine]:
    found: list[LogLine] = []
    for row in rows:
        for line in _of_row(row):
            if (line.attempt, line.number) > after:  # chunks may overlap
                found.append(line)
                after = (line.attempt, line.number)
    return found


def _of_row(row: Any) -> Iterator[LogLine]:
    for number, text in enumerate(row.text.split("\n"), row.first):
        try:
            milliseconds, level, logger, message = json.loads(text)
            at = EPOCH + timedelta(milliseconds=milliseconds)
            yield LogLine(row.attempt, number, at, str(level), str(logger), str(message))
        except (TypeError, ValueError, OverflowError):
            yield LogLine(row.attempt, number, row.at, "unreadable", "", text)
