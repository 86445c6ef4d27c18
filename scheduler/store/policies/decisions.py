"""Recorded decisions of the queue: the newest of them, for a while."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from duetime.scheduler.rules.policies.decision_record import Decision, DecisionPage, detail_of, facts_in, look_in
from duetime.scheduler.run_records import ReadyRun
from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.database.database import Database
from duetime.scheduler.store.schema.damage import is_damaged
from duetime.scheduler.store.schema.rows import Row
from duetime.scheduler.store.schema.tables.policies import decisions
from duetime.scheduler.store.sql.cursors import Cursors
from duetime.scheduler.store.statements.ready_runs import ready_by_id
from sqlalchemy import Select, delete, insert, select

_COLUMNS = (
    decisions.c.id,
    decisions.c.at,
    decisions.c.tenant,
    decisions.c.task_id,
    decisions.c.run_id,
    decisions.c.worker,
    decisions.c.detail,
)
_NEWEST_FIRST = select(*_COLUMNS).order_by(decisions.c.id.desc())


class Decisions:
    """The decisions of an installation. A `tenant` of None stands for all: only an operator may ask for that."""

    def __init__(self, database: Database, cursors: Cursors) -> None:
        self._database = database
        self._cursors = cursors

    def ready_runs(self, run_ids: Collection[str], at: datetime) -> list[ReadyRun]:
        """Return runs as a queue orders them, as they were at a time, in whatever state they are by now."""
        return self._database.read(lambda connection: ready_by_id(connection, run_ids, at))

    def add(self, found: Sequence[Decision]) -> None:
        """Store decisions. A crash may lose the last ones."""
        rows = [{**_fields(each), "detail": detail_of(each)} for each in found]
        if rows:
            self._database.write(lambda connection: connection.execute(insert(decisions), rows), durable=False)

    def trim(self, most: int, before: datetime) -> int:
        """Delete all but the newest `most`, and those of before a time; return how many."""
        oldest = select(decisions.c.id).order_by(decisions.c.id.desc()).offset(most).limit(1).scalar_subquery()
        too_old = delete(decisions).where((decisions.c.id <= oldest) | (decisions.c.at < before))
        return self._database.write(lambda connection: connection.execute(too_old).rowcount, durable=False)

    def page(
        self, tenant: str | None, *, limit: int, task_id: str | None = None, cursor: str | None = None
    ) -> DecisionPage:
        """Return a page of decisions, newest first. Raises InvalidArgument for a cursor of another list."""
        of = ("decisions", tenant, task_id)
        behind, statement = self._cursors.read(cursor, of=of), _of_tenant(tenant)
        if task_id is not None:
            statement = statement.where(decisions.c.task_id == task_id)
        if behind:
            statement = statement.where(decisions.c.id < str(behind[0]))
        found = self._read(statement.limit(limit + 1))
        if len(found) <= limit:
            return DecisionPage(tuple(found))
        return DecisionPage(tuple(found[:limit]), self._cursors.write([found[limit - 1].id], of=of))

    def get(self, tenant: str | None, decision_id: str) -> Decision | None:
        return next(iter(self._read(_of_tenant(tenant).where(decisions.c.id == decision_id))), None)

    def _read(self, statement: Select[Any]) -> list[Decision]:
        rows = self._database.look(lambda connection: unreadable.rows(connection, statement))
        return [_decision(row) for row in rows if not is_damaged(row)]


def _of_tenant(tenant: str | None) -> Select[Any]:
    return _NEWEST_FIRST if tenant is None else _NEWEST_FIRST.where(decisions.c.tenant == tenant)


def _decision(row: Row) -> Decision:
    look, facts = look_in(row[6]), facts_in(row[6])
    return Decision(row[0], row[1], row[2], row[3], row[4], row[5], look, facts)


def _fields(decision: Decision) -> dict[str, Any]:
    return {column.name: getattr(decision, column.name) for column in _COLUMNS[:-1]}
