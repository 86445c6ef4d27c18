"""Statements of one call on SQLite, counted by its own trace: BEGIN and COMMIT too."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.records import NewTask
from duetime.scheduler.request import Request
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store, open_store
from duetime.scheduler.store.database.sqlite import Sqlite
from duetime.scheduler.views import TaskFilter, TaskView
from sqlalchemy import event
from sqlalchemy.exc import IntegrityError

from tests.builders import TENANT, Clock, a_task

Counted = Callable[[Callable[[], object]], list[str]]

_BEGINNING = re.compile(r"INSERT INTO \w+|\w+")
NEW_TASK = ["BEGIN", "INSERT INTO idempotency_keys", "SELECT", "INSERT INTO tasks", "INSERT INTO runs"]
EVENT = ["INSERT INTO events", "COMMIT"]


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> Iterator[Store]:
    opened = open_store(f"sqlite:///{tmp_path}/duetime.db", clock=clock, synchronous="OFF")
    yield opened
    opened.close()


@pytest.fixture
def scheduler(store: Store) -> Scheduler:
    return Scheduler(store, Planner(Handlers.load(entry_points=False), zone="America/Edmonton"))


@pytest.fixture
def said(store: Store) -> Counted:
    """Return how each statement of a call begins, with the table that it inserts into."""
    database = store._database
    assert isinstance(database, Sqlite)

    def count(call: Callable[[], object]) -> list[str]:
        found: list[str] = []
        database._raw.set_trace_callback(found.append)
        try:
            call()
        finally:
            database._raw.set_trace_callback(None)
        return [found[0] for found in map(_BEGINNING.match, found) if found]

    return count


def request(key: str | None, **arguments: Any) -> Request:
    return Request("Call John", when="in 2 hours", payload={"message": "Call John"}, idempotency_key=key, **arguments)


def test_a_schedule_call_is_one_look_and_four_inserts(scheduler: Scheduler, said: Counted) -> None:
    assert said(lambda: scheduler.submit(request("k"))) == NEW_TASK + EVENT


def test_without_a_key_none_is_inserted(scheduler: Scheduler, said: Counted) -> None:
    statements = said(lambda: scheduler.submit(request(None)))
    assert (len(statements), "INSERT INTO idempotency_keys" in statements) == (6, False)


def test_each_label_is_one_row_more(scheduler: Scheduler, said: Counted) -> None:
    labels = ["INSERT INTO task_labels"] * 2
    assert said(lambda: scheduler.submit(request("k", labels=("a", "b")))) == NEW_TASK + labels + EVENT


def test_tasks_of_one_call_are_adjacent_in_each_index_and_those_of_others_are_not(
    scheduler: Scheduler,
) -> None:
    calls = [scheduler.task_creator.create_many([request(f"{call}-{n}") for n in range(5)]) for call in range(20)]
    beginnings = [{view.record.task.id[:4] for view in views} for views in calls]
    assert {len(each) for each in beginnings} == {1}
    assert len(set.union(*beginnings)) > 10


def test_many_tasks_are_four_inserts_each(scheduler: Scheduler, said: Counted) -> None:
    requests = [request(f"k{number}") for number in range(40)]
    statements = Counter(said(lambda: scheduler.task_creator.create_many(requests)))
    inserts = dict.fromkeys((name for name in statements if name.startswith("INSERT")), 40)
    assert statements == {"BEGIN": 1, **inserts, "COMMIT": 1}
    assert len(inserts) == 4


def test_a_call_that_repeats_another_reads_and_changes_no_row(
    scheduler: Scheduler, store: Store, said: Counted
) -> None:
    first, again = scheduler.submit(request("k")), list[TaskView]()
    database = store._database
    assert isinstance(database, Sqlite)
    changed_before = database._raw.total_changes
    statements = said(lambda: again.append(scheduler.submit(request("k"))))
    assert again[0].record == first.record
    assert set(statements) == {"BEGIN", "INSERT INTO idempotency_keys", "SELECT", "COMMIT"}
    assert database._raw.total_changes == changed_before


def test_sqlalchemy_compiles_none_of_the_statements_of_a_schedule_call(scheduler: Scheduler, store: Store) -> None:
    compiled: list[object] = []
    event.listen(store._database.engine, "before_execute", lambda *found: compiled.append(found))
    scheduler.submit(request("k"))
    assert compiled == []


def test_an_insert_names_no_column_without_a_value(scheduler: Scheduler, store: Store) -> None:
    database, found = store._database, list[str]()
    assert isinstance(database, Sqlite)
    database._raw.set_trace_callback(found.append)
    scheduler.submit(request("k"))
    database._raw.set_trace_callback(None)
    columns = "".join(
        sql.partition("VALUES")[0] for sql in found if sql.startswith(("INSERT INTO tasks", "INSERT INTO runs"))
    )
    assert "scheduled_for" in columns
    assert not re.search("ended_at|checkpoint|repeat|tracestate", columns)


def test_a_row_that_the_database_refuses_is_an_error_of_sqlalchemy_and_undoes_the_rest(store: Store) -> None:
    task, run = a_task()
    store.tasks.add(task, run, actor="alice")
    with pytest.raises(IntegrityError):
        store.tasks.add_many([NewTask(*a_task(), "alice"), NewTask(task, run, "alice")])
    assert sum(store.tasks.counts(TENANT, TaskFilter()).values()) == 1
