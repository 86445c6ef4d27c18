"""Work on many rows in one transaction; where that fails, row by row: one that cannot be written holds up no other."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Final, NamedTuple, TypeVar

from duetime.scheduler.errors import RunnerReplaced, StoreUnavailable
from duetime.scheduler.store.database.database import Database, Work
from duetime.scheduler.store.database.unreadable import Unreadable
from sqlalchemy import Table

UNWRITABLE_RETRY_DELAY_S: Final = 30.0
"""Seconds for which a timer leaves a row alone that it could not write, so that such rows fill no batch."""

T = TypeVar("T")
Only = Collection[str] | None
"""The rows to work on, None for all that are due."""

log = logging.getLogger(__name__)


class Blame(NamedTuple):
    """The log's words for a row that fails: its kind, and the failure.

    Statements leave such a row of `table` alone for a while, by `unreadable.without`.
    """

    kind: str
    failure: str
    table: Table | None = None


def each(database: Database, work: Callable[[Only], T], due: Work[Sequence[str]], blame: Blame) -> Iterator[T]:
    """Yield what `work` returns for all rows; where that fails, what it returns for each of the `due` rows alone.

    `work` is one transaction. An outage of the database and a newer runner are no fault of a row: they raise.
    """
    try:
        done = work(None)
    except (StoreUnavailable, RunnerReplaced):
        raise
    except Exception as error:  # noqa: BLE001 - whatever it is, it is one of them
        together = error
    else:
        yield done
        return
    rows, failed = sorted(database.read(due)), 0
    if not rows:
        raise together
    for row_id in rows:
        found = alone(database, row_id, partial(work, [row_id]), blame)
        failed += not found
        yield from found
    if not failed:
        log.warning("%s rows could be written one by one, but not together", blame.kind, exc_info=together)


def collect(database: Database, work: Callable[[Only], Sequence[T]], due: Work[Sequence[str]], blame: Blame) -> list[T]:
    """Return what `work` returns for all rows, or where that fails for each row alone, as `each` does."""
    return list(chain.from_iterable(each(database, work, due, blame)))


def alone(database: Database, row_id: str, work: Callable[[], T], blame: Blame) -> list[T]:
    """Return the result of `work` on one row, or nothing if it fails. A failure is logged at first and once an hour."""
    try:
        return [work()]
    except (StoreUnavailable, RunnerReplaced):
        raise
    except Exception:
        if blame.table is not None:
            Unreadable.of(database.engine).leave(blame.table.name, row_id, UNWRITABLE_RETRY_DELAY_S)
        if database.unwritable.is_news(row_id):
            log.exception("%s %s: %s", blame.kind, row_id, blame.failure)
        return []
