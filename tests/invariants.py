"""Whether the rows of a store meet every invariant, by one statement.

Nearly every test of the store ends with this question. `Integrity.examine` reads each table in pages, which takes
longer than many of these tests. It is asked only what to say of a store that is broken.
"""

from __future__ import annotations

from functools import cache
from itertools import groupby

from duetime.scheduler.store import Store
from duetime.scheduler.store.schema.constraints import INVARIANTS


def assert_sound(store: Store) -> None:
    """Fail with what `examine` finds, if a row of any table breaks an invariant."""
    broken = broken_tables(store)
    assert not broken, store.integrity.examine().findings


def broken_tables(store: Store) -> set[str]:
    """Return the tables that have a row which breaks an invariant; an unknown answer (NULL) breaks it too."""
    found = store._database.look(lambda connection: connection.exec_driver_sql(_statement()).scalars().all())
    return set(found)


@cache
def _statement() -> str:
    selects: list[str] = []
    for table, invariants in groupby(INVARIANTS, lambda each: each.table):
        holds = " AND ".join(f"coalesce(({each.holds}), FALSE)" for each in invariants)
        selects.append(f"SELECT '{table}' WHERE EXISTS (SELECT 1 FROM {table} WHERE NOT ({holds}))")
    return " UNION ALL ".join(selects)
