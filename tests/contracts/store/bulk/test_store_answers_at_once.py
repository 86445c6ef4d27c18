"""PostgreSQL: answers to several tasks lock these in the order of their ids, and have the time behind the locks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
from duetime.scheduler.events import EventFilter, EventKind
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store, open_store
from duetime.scheduler.task import ApprovalAnswer
from duetime.scheduler.waits.approval import taken_back_by
from sqlalchemy import Connection, text

from tests.builders import Clock
from tests.contracts.store.access.test_store_alone import until_it_waits
from tests.contracts.store.desk import MORNING

pytestmark = pytest.mark.postgres

TENANT = "local"
LOCK = text("SELECT id FROM tasks WHERE id = :task_id FOR UPDATE NOWAIT")


@pytest.fixture
def store(empty_postgres: str, clock: Clock) -> Iterator[Store]:
    clock.at = MORNING
    opened = open_store(empty_postgres, clock=clock)
    yield opened
    opened.close()


@pytest.fixture
def asked(store: Store) -> list[str]:
    """Return two tasks that ask, in the order of their ids."""
    scheduler = Scheduler(store, Planner(Handlers.load(entry_points=False), "UTC"))
    return sorted(scheduler.schedule("Pay", when="in 1 hour", approval=True).record.task.id for _ in range(2))


def answer(store: Store, task_ids: list[str]) -> object:
    return store.approvals.answer_all(TENANT, task_ids, ApprovalAnswer.APPROVE, actor="bob")


def take_back(store: Store, task_ids: list[str]) -> object:
    run_id = store.tasks.get(TENANT, task_ids[0]).run.id
    token = taken_back_by(store.approvals.approved(TENANT, [run_id])[run_id])
    return store.approvals.take_back(TENANT, task_ids, token, None, actor="bob")


def prepared(store: Store, task_ids: list[str], change: Callable[[Store, list[str]], object]) -> None:
    if change is take_back:
        answer(store, task_ids)


@pytest.mark.parametrize("change", [answer, take_back])
def test_of_tasks_named_in_any_order_the_one_with_the_smallest_id_is_locked_first(
    store: Store, clock: Clock, asked: list[str], change: Callable[[Store, list[str]], object]
) -> None:
    prepared(store, asked, change)
    first, second = asked

    def hold(connection: Connection) -> None:
        connection.execute(LOCK, {"task_id": first})
        changing.append(pool.submit(change, store, [second, first]))
        until_it_waits(store, "SELECT tasks.id")
        clock.forward(seconds=5)
        connection.execute(LOCK, {"task_id": second})

    with ThreadPoolExecutor(1) as pool:
        changing = list[Future[object]]()
        store._database.write(hold)
        changing[0].result(60)
    kind = EventKind.APPROVED if change is answer else EventKind.UNDONE
    found = store.history.events(TENANT, EventFilter(task_id=second), limit=9).events
    assert [each.at for each in found if each.kind is kind] == [clock()]
