"""The hot writes in the form of the database that is opened: chosen here, once, and asked for nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from duetime.scheduler.run_records import Claim, Settlement
from duetime.scheduler.store.database.database import Database
from duetime.scheduler.store.database.postgres import Postgres
from duetime.scheduler.store.statements import add, start
from sqlalchemy import Connection, Row


@dataclass(frozen=True, slots=True)
class Forms:
    """The writes that differ; each has one signature on every database.

    The forms `at_once` are single statements, for a database that is a round trip away; they may leave some.
    """

    store_new: add.StoreNew
    move_to_ready: Callable[[Connection, Sequence[Row[Any]], datetime], None]
    start: Callable[..., list[Claim]]
    start_at_once: Callable[..., list[Claim]]
    settle_at_once: Callable[[Connection, Sequence[Settlement], datetime], set[int]]


def _starts_none(*_given: Any, **_how: Any) -> list[Claim]:
    return []


def _settles_none(_connection: Connection, _settlements: Sequence[Settlement], _now: datetime) -> set[int]:
    return set()


PORTABLE_FORMS = Forms(add.store_new, start.move_to_ready, start.start, _starts_none, _settles_none)


def forms_of(database: Database) -> Forms:
    if not isinstance(database, Postgres):
        return PORTABLE_FORMS
    from duetime.scheduler.store.postgres import add as postgres_add  # noqa: PLC0415 - a file needs none of it
    from duetime.scheduler.store.postgres import settle as postgres_settle  # noqa: PLC0415 - likewise
    from duetime.scheduler.store.postgres import start as postgres_start  # noqa: PLC0415 - likewise

    return Forms(
        postgres_add.store_new,
        postgres_start.move_to_ready,
        postgres_start.start,
        postgres_start.at_once,
        postgres_settle.settle,
    )
