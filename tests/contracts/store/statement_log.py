"""The statements that a store executes, for tests that count or read them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from duetime.scheduler.store import Store
from sqlalchemy import event


@contextmanager
def statements_of(store: Store) -> Iterator[list[str]]:
    """Give the statements that a store executes in the block; a batch of rows is one."""
    found: list[str] = []

    def note(_connection: Any, _cursor: Any, sql: str, *_: Any) -> None:
        found.append(sql)

    engines = {store._database.engine, getattr(store._database, "reader", store._database.engine)}
    for engine in engines:
        event.listen(engine, "before_cursor_execute", note)
    try:
        yield found
    finally:
        for engine in engines:
            event.remove(engine, "before_cursor_execute", note)
