"""Every operation is one transaction: let each of its statements fail in turn, and all or nothing is there.

The loop ends when an operation has run without reaching the statement that was to fail, so none is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from duetime.scheduler.events import EventKind
from duetime.scheduler.records import Change, IdempotencyKey
from duetime.scheduler.run_records import Start
from duetime.scheduler.runtime.interrupt import TimeLimitReached
from duetime.scheduler.store import Store
from duetime.scheduler.store.dispatch.recover import recover
from duetime.scheduler.store.schema.base import Base
from duetime.scheduler.task import State
from duetime.scheduler.views import TaskRecord
from sqlalchemy import event, select

from tests.builders import (
    LEASE,
    NOON,
    TENANT,
    a_run,
    a_task,
    added,
    delivery,
    message,
    restarted,
    settlement,
    started,
)

Operation = Callable[[], object]


class Failure(Exception):
    """Stands for whatever can happen to a statement."""


@contextmanager
def failing(store: Store, at: int, failure: type[BaseException]) -> Iterator[list[str]]:
    """Let the `at`-th statement from now on fail; yields the statements that were tried."""
    tried: list[str] = []

    def count(_connection: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        tried.append(statement)
        if len(tried) == at:
            raise failure

    engine = store._database.engine
    event.listen(engine, "before_cursor_execute", count)
    try:
        yield tried
    finally:
        event.remove(engine, "before_cursor_execute", count)


@contextmanager
def interrupted(store: Store) -> Iterator[None]:
    """Interrupt the next statement within the driver, as a time limit may."""
    database = store._database
    engines = {database.engine, getattr(database, "reader", database.engine)}
    left = [TimeLimitReached]

    def interrupt(*_: object) -> None:
        if left:
            raise left.pop()

    for engine in engines:
        event.listen(engine, "do_execute", interrupt)
    try:
        yield
    finally:
        for engine in engines:
            event.remove(engine, "do_execute", interrupt)


def everything(store: Store) -> dict[str, list[Any]]:
    tables = Base.metadata.sorted_tables
    return store._database.read(
        lambda connection: {
            table.name: [tuple(row) for row in connection.execute(select(table).order_by(*table.primary_key))]
            for table in tables
        }
    )


def adding(store: Store) -> Operation:
    task, run = a_task(labels=("a", "b"))
    return lambda: store.tasks.add(task, run, actor="alice", key=IdempotencyKey("k", {"title": "A"}))


def changing(store: Store) -> Operation:
    record = added(store, repeat="FREQ=DAILY")

    def decide(it: TaskRecord) -> Change:
        following = a_run(it.task, NOON + timedelta(days=1), number=2)
        task = replace(it.task, title="New", labels=("c",), paused=True)
        return Change(task, replace(it.run, state=State.SKIPPED), next_run=following)

    return lambda: store.tasks.change(TENANT, record.task.id, actor="a", kind=EventKind.SKIPPED, decide=decide)


def cancelling(store: Store) -> Operation:
    record = added(store, NOON + timedelta(days=1), repeat="FREQ=DAILY")
    extra = a_run(record.task, NOON, current=False)

    def beside(it: TaskRecord) -> Change:
        return Change(it.task, it.run, extra_run=extra)

    def cancel(it: TaskRecord) -> Change:
        return Change(it.task, replace(it.run, state=State.CANCELLED))

    store.tasks.change(TENANT, record.task.id, actor="a", kind=EventKind.RUN_NOW, decide=beside)
    return lambda: store.tasks.change(TENANT, record.task.id, actor="a", kind=EventKind.CANCELLED, decide=cancel)


def making_ready(store: Store) -> Operation:
    added(store)
    added(store)
    return lambda: store.claims.make_ready(limit=9)


def starting(store: Store) -> Operation:
    added(store)
    added(store)
    ready = [Start(run.run_id) for run in store.claims.make_ready(limit=9)]
    return lambda: store.claims.start(ready, worker="w", epoch=None, lease=LEASE)


def settling(store: Store) -> Operation:
    daily, dead = started(store, repeat="FREQ=DAILY"), started(store)
    following = a_run(daily.task, NOON + timedelta(days=1), number=2)
    ended = settlement(daily, inbox=message(daily), deliveries=(delivery(daily),), next_run=following)
    failed = settlement(dead, State.FAILED, dead_letter=True, inbox=message(dead, state=State.FAILED))
    return lambda: store.claims.settle([ended, failed])


def recovering(store: Store) -> Operation:
    first = store.runners.take_over(pid=1, endpoint="", token="")
    restarted(store, added(store), epoch=first)
    restarted(store, added(store), epoch=first)
    newer = store.runners.take_over(pid=2, endpoint="", token="")
    how: dict[str, Any] = {"epoch": newer, "conclude": None, "now": NOON, "pools": {}}
    # The transaction itself: where it fails, the store recovers each run in one of its own.
    return lambda: store.commits.write(lambda connection: recover(connection, None, **how))


def test_an_interrupt_within_a_statement_stays_one_and_the_store_works(store: Store) -> None:
    record = added(store)
    calls: list[Operation] = [
        lambda: store.tasks.get(TENANT, record.task.id),
        lambda: store.claims.make_ready(limit=9),
    ]
    for call in calls:
        with interrupted(store), pytest.raises(TimeLimitReached):
            call()
        assert store.tasks.get(TENANT, record.task.id) == record


ENDED_BY_A_FAILURE = [adding, changing, cancelling, starting, settling, recovering]
"""A timer such as `making_ready` goes on row by row after one, which `test_store_timers.py` has."""


@pytest.mark.parametrize(
    ("prepare", "failure"),
    [
        *((each, Failure) for each in ENDED_BY_A_FAILURE),
        *((each, KeyboardInterrupt) for each in [*ENDED_BY_A_FAILURE, making_ready]),
    ],
    ids=lambda it: it.__name__,
)
def test_a_failure_at_any_statement_leaves_nothing_behind_and_a_store_that_works(
    store: Store, prepare: Callable[[Store], Operation], failure: type[BaseException]
) -> None:
    operation = prepare(store)
    before = everything(store)
    statement = 0
    while True:
        statement += 1
        with failing(store, statement, failure) as tried:
            try:
                operation()
            except failure:
                pass
            else:
                break
        assert everything(store) == before, f"after the failure of {tried[-1]}"
    assert statement > 1
    assert everything(store) != before
