"""The hot writes in the form of the database that is opened: chosen here, once, and asked for nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from duetime.scheduler.records import Claim
from duetime.scheduler.store.database.database import Database
from duetime.scheduler.store.database.postgres import Postgres
from duetime.scheduler.store.postgres import add as postgres_add
from duetime.scheduler.store.postgres import start as postgres_start
from duetime.scheduler.store.statements import add, start
from sqlalchemy import Connection, Row


@dataclass(frozen=True, slots=True)
class Forms:
    """The writes that differ; each has one signature on every database."""

    store_new: add.StoreNew
    move_to_ready: Callable[[Connection, Sequence[Row[Any]], datetime], None]
    start: Callable[..., list[Claim]]


PORTABLE = Forms(add.store_new, start.move_to_ready, start.start)
POSTGRES = Forms(postgres_add.store_new, postgres_start.move_to_ready, postgres_start.start)


def forms_of(database: Database) -> Forms:
    return POSTGRES if isinstance(database, Postgres) else PORTABLE
