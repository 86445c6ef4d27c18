"""The hot writes in the form of the database that is opened: chosen here, once, and asked for nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from duetime.scheduler.run_records import Claim, Settlement, Start, StartTerms
from duetime.scheduler.store.database.database import Database
from duetime.scheduler.store.database.postgres import Postgres
from duetime.scheduler.store.statements import add, start
from sqlalchemy import Connection, Row


class StartForm(Protocol):
    """Starts runs that may start; `may_be_stored`: those that an earlier try started count as started."""

    def __call__(
        self, connection: Connection, starts: Sequence[Start], terms: StartTerms, now: datetime, *, may_be_stored: bool
    ) -> list[Claim]: ...


@dataclass(frozen=True, slots=True)
class Forms:
    """The writes that differ; each has one signature on every database.

    The forms `at_once` are single statements, for a database that is a round trip away; they may leave some.
    """

    store_new: add.StoreNew
    move_to_ready: Callable[[Connection, Sequence[Row[Any]], datetime], None]
    start: StartForm
    start_at_once: Callable[[Connection, Sequence[Start], StartTerms, datetime], list[Claim]]
    stored_starts: Callable[[Connection, Sequence[Start], str], list[Claim]]
    settle_at_once: Callable[[Connection, Sequence[Settlement], datetime], set[int]]


def _starts_none(_: Connection, _starts: Sequence[Start], _terms: StartTerms, _now: datetime) -> list[Claim]:
    return []


def _knows_all(_connection: Connection, _starts: Sequence[Start], _worker: str) -> list[Claim]:
    """Return none: the worker learns of each start that a file stores."""
    return []


def _settles_none(_connection: Connection, _settlements: Sequence[Settlement], _now: datetime) -> set[int]:
    return set()


PORTABLE_FORMS = Forms(add.store_new, start.move_to_ready, start.start, _starts_none, _knows_all, _settles_none)


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
        postgres_start.stored_starts,
        postgres_settle.settle,
    )
