"""A hundred thousand tasks in seconds: rows of a sample, copied by the database under other ids, without events."""

from __future__ import annotations

from contextlib import closing

from duetime.scheduler.store import open_store
from duetime.scheduler.store.schema.tables.dead_letters import dead_letters
from duetime.scheduler.store.schema.tables.tasks import attempts, labels, runs, tasks
from sqlalchemy import Connection, Table, create_engine, text

from tests.flow.admin.sample import fill

SAMPLE_TASKS_COUNT = 250
COPY_CHARS = 3
NAMED = {"tasks": ("id",), "runs": ("id", "task_id")}
OF_OTHERS = ("task_id", "run_id", "replayed_as")


def fill_many(url: str, count: int) -> None:
    """Write a day of `count` tasks into a database of SQLite."""
    fill(url, SAMPLE_TASKS_COUNT)
    engine = create_engine(url)
    with engine.begin() as connection:
        for table in (tasks, runs, labels, attempts, dead_letters):
            _copied(connection, table, count // SAMPLE_TASKS_COUNT - 1)
    engine.dispose()
    with closing(open_store(url, synchronous="OFF")) as store:
        while store.search.advance():
            pass


def _copied(connection: Connection, table: Table, times: int) -> None:
    named = NAMED.get(table.name, OF_OTHERS)
    columns = [column for column in table.columns if column.computed is None]
    values = [_other(column.name) if column.name in named else f'of."{column.name}"' for column in columns]
    names = ", ".join(f'"{column.name}"' for column in columns)
    connection.execute(
        text(
            f"WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {times}) "
            f'INSERT INTO "{table.name}" ({names}) SELECT {", ".join(values)} FROM "{table.name}" AS of, numbers'
        )
    )


def _other(name: str) -> str:
    """Return the expression of another id: a letter that no id has and the number of the copy, then the random ones."""
    return f"""substr(of."{name}", 1, 2) || printf('u%0{COPY_CHARS}d', n) || substr(of."{name}", {4 + COPY_CHARS})"""
