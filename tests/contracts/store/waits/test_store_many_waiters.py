"""One event for which very many tasks wait: they go on a page at a time, and a process that dies loses none of them."""

from __future__ import annotations

import sqlite3
from dataclasses import replace

import pytest
from duetime.scheduler.chain.dependency import DependentTask
from duetime.scheduler.errors import StoreUnavailable
from duetime.scheduler.store import Store
from duetime.scheduler.store.signals import send_signal
from duetime.scheduler.task import State
from duetime.scheduler.views import TaskFilter
from duetime.scheduler.waits.signal import SentSignal

from tests.builders import TENANT, a_task
from tests.contracts.store.statement_log import statements_of
from tests.contracts.store.waits.test_store_signals import a_wait, send

WAITERS_COUNT = 1_300


def waiters(store: Store, number: int) -> None:
    """Add tasks that wait for one event."""
    new = []
    for _ in range(number):
        task, run = a_task()
        held = replace(run, state=State.WAITING, wake_at=None)
        new.append(DependentTask(task, held, "alice", wait=a_wait()))
    store.tasks.add_many(new)


def states(store: Store) -> dict[State, int]:
    return dict(store.tasks.counts(TENANT, TaskFilter()))


@pytest.fixture
def pages_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(send_signal, "MAX_WAITERS_LET_GO", 2)


def test_an_event_lets_very_many_tasks_go_by_few_statements_and_few_parameters_each(store: Store) -> None:
    waiters(store, WAITERS_COUNT)
    if store._database.engine.dialect.name == "sqlite":  # as many parameters for these tasks as usual for 10,000
        raw = store._database._raw  # type: ignore[attr-defined]  # a database on SQLite
        raw.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, 32_766 * WAITERS_COUNT // 10_000)
    with statements_of(store) as statements:
        found = send(store)
    assert (found.freed, states(store)) == (WAITERS_COUNT, {State.SCHEDULED: WAITERS_COUNT})
    assert len(statements) < WAITERS_COUNT / 10
    joined = [each for each in statements if "UPDATE signal_waits" in each and "jsonb_to_recordset" in each]
    closing = [each for each in statements if each.startswith("UPDATE signal_waits")]
    assert len(closing) == 2, "the ids of all waits are one parameter"
    assert not joined, "which compares each row that is given with each open wait"


@pytest.mark.usefixtures("pages_of_two")
def test_tasks_that_go_on_in_pages_are_counted_together(store: Store) -> None:
    waiters(store, 5)
    first, again = send(store), send(store)
    assert (first.freed, first.matched, again.freed, again.repeated) == (5, 0, 5, True)
    assert states(store) == {State.SCHEDULED: 5}


@pytest.mark.usefixtures("pages_of_two")
@pytest.mark.parametrize(
    "problem", [ConnectionError, StoreUnavailable], ids=["the process dies", "the database is busy"]
)
def test_tasks_whose_page_is_not_stored_go_on_by_the_repair(
    store: Store, monkeypatch: pytest.MonkeyPatch, problem: type[Exception]
) -> None:
    waiters(store, 5)
    let_go, pages = send_signal.let_go, list[object]()

    def once(*args: object, **kwargs: object) -> SentSignal:
        pages.append(args)
        if len(pages) == 3:
            raise problem
        return let_go(*args, **kwargs)  # type: ignore[arg-type]  # the arguments of a call, handed on

    monkeypatch.setattr(send_signal, "let_go", once)
    if problem is StoreUnavailable:
        assert send(store).freed == 4
    else:
        with pytest.raises(ConnectionError):
            send(store)
    assert states(store) == {State.SCHEDULED: 4, State.WAITING: 1}
    assert send(store).repeated
    assert store.dependencies.repair(limit=9) == 1
    assert states(store) == {State.SCHEDULED: 5}
