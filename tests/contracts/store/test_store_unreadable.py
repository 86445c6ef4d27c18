"""A row that this version cannot read is left alone, and everybody else's run goes on; on each database."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from datetime import timedelta
from functools import partial

import pytest
from duetime.scheduler.errors import UnreadableTask
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.principal import Principal
from duetime.scheduler.records import Start
from duetime.scheduler.service import Scheduler
from duetime.scheduler.store import Store, open_store
from duetime.scheduler.store.store import connect
from duetime.scheduler.task import State, TaskFilter
from sqlalchemy import Connection, TextClause, text

from tests.builders import (
    LEASE,
    NOON,
    TENANT,
    Clock,
    a_task,
    added,
    delivery,
    message,
    settlement,
    started,
    with_deadline,
)

pytestmark = pytest.mark.damages

Spoil = Callable[..., None]


@pytest.fixture
def spoil(url: str) -> Spoil:
    """Write into a row what no version of today writes."""

    def spoiled(table: str, row_id: str | int, **values: object) -> None:
        database = connect(url)
        for column, value in values.items():
            shape = isinstance(value, list)
            cast = "CAST(:value AS JSONB)" if shape and not url.startswith("sqlite") else ":value"
            statement = text(f"UPDATE {table} SET {column} = {cast} WHERE id = :id")
            given = {"value": json.dumps(value) if shape else value, "id": row_id}
            database.write(partial(_execute, statement=statement, given=given))
        database.close()

    return spoiled


def _execute(connection: Connection, *, statement: TextClause, given: dict[str, object]) -> None:
    connection.execute(statement, given)


SPOILED = [{"priority": "urgent"}, {"deadline_type": "firm"}, {"needs": ["gpu"]}]


@pytest.mark.parametrize("values", SPOILED, ids=str)
def test_a_run_that_cannot_be_read_keeps_no_other_from_being_made_ready(
    store: Store, clock: Clock, spoil: Spoil, values: dict[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    odd = added(store, NOON - timedelta(minutes=1))
    spoil("tasks", odd.task.id, **values)
    other, later = added(store, NOON), added(store, NOON + timedelta(hours=1))
    caplog.set_level(logging.ERROR)
    assert [run.run_id for run in store.claims.make_ready(limit=1)] == [other.run.id]
    assert store.claims.make_ready(limit=1) == []
    assert store.claims.next_times().first() == later.run.scheduled_for
    assert [run.run_id for run in store.claims.ready(limit=9)] == [other.run.id]
    assert [record.getMessage().count(odd.run.id) for record in caplog.records] == [1]


def test_a_run_that_was_mended_goes_on_like_any_other(url: str, store: Store, clock: Clock, spoil: Spoil) -> None:
    odd = added(store)
    spoil("tasks", odd.task.id, priority="urgent")
    assert store.claims.make_ready(limit=9) == []
    spoil("tasks", odd.task.id, priority="high")
    another = open_store(url, clock=clock, synchronous="OFF")
    assert [run.run_id for run in another.claims.make_ready(limit=9)] == [odd.run.id]
    another.close()


def test_what_is_ready_or_running_is_read_without_a_row_that_cannot_be(store: Store, spoil: Spoil) -> None:
    odd, other = added(store), added(store)
    store.claims.make_ready(limit=9)
    spoil("tasks", odd.task.id, priority="urgent")
    assert [run.run_id for run in store.claims.ready(limit=1)] == [other.run.id]
    [claim] = store.claims.start([Start(other.run.id, "t1")], worker="w", epoch=None, lease=LEASE)
    odd_claim = started(store)
    spoil("runs", odd_claim.run.id, reserved=["gpu"])
    assert [run.run_id for run in store.claims.running(limit=9)] == [claim.run.id]


def test_a_run_that_cannot_be_read_keeps_no_other_from_starting(store: Store, spoil: Spoil) -> None:
    odd, other = added(store), added(store)
    store.claims.make_ready(limit=9)
    spoil("tasks", odd.task.id, priority="urgent")
    starts = [Start(odd.run.id, "t1"), Start(other.run.id, "t2")]
    claims = store.claims.start(starts, worker="w", epoch=None, lease=LEASE)
    assert [claim.run.id for claim in claims] == [other.run.id]


def test_a_run_that_cannot_be_read_keeps_no_other_from_expiring_or_being_late(
    store: Store, clock: Clock, spoil: Spoil
) -> None:
    hard, odd = [with_deadline(*a_task(), after=timedelta(minutes=1)) for _ in range(2)]
    for task, run in (hard, odd):
        store.tasks.add(task, run, actor="a")
    spoil("tasks", odd[0].id, priority="urgent")
    clock.forward(minutes=2)
    assert [run.run_id for run in store.claims.expire(limit=1)] + [
        run.run_id for run in store.claims.expire(limit=1)
    ] == [hard[1].id]
    assert store.claims.relax(limit=9) == []
    store.claims.make_ready(limit=9)
    assert store.claims.next_times().drop_at is None


def test_crashed_attempts_are_ended_beside_one_that_cannot_be_read(store: Store, clock: Clock, spoil: Spoil) -> None:
    odd, other = started(store), started(store)
    spoil("tasks", odd.task.id, priority="urgent")
    clock.forward(minutes=1)
    assert set(store.claims.recover_lapsed(epoch=None, held=(), before=clock())) == {other.run.id}


def test_a_message_that_cannot_be_read_keeps_no_other_from_being_delivered(store: Store, spoil: Spoil) -> None:
    claims = [started(store) for _ in range(2)]
    for claim in claims:
        store.claims.settle([settlement(claim, inbox=message(claim), deliveries=(delivery(claim),))])
    [(first, _), (second, _)] = store.deliveries.due(limit=9)
    spoil("deliveries", first.id, state="pondering")
    assert [found.id for found, _ in store.deliveries.due(limit=1)] == [second.id]


def test_lists_and_histories_leave_out_what_cannot_be_read(store: Store, spoil: Spoil) -> None:
    odd, other = added(store), added(store)
    spoil("tasks", odd.task.id, priority="urgent")
    records, _ = store.tasks.page(TENANT, TaskFilter(), limit=9)
    assert [record.task.id for record in records] == [other.task.id]
    assert store.tasks.counts(TENANT, TaskFilter()) == {State.SCHEDULED: 2}
    [first, _] = store.history.since(0)
    spoil("events", first.id, kind="pondered")
    assert len(store.history.since(0)) == 1


def test_a_task_whose_title_is_bytes_blinds_nobody(url: str, store: Store, spoil: Spoil) -> None:
    if not url.startswith("sqlite"):
        pytest.skip("PostgreSQL stores no bytes as text")
    odd, other = added(store), added(store)
    spoil("tasks", odd.task.id, title=b"\xff\xfe")
    records, _ = store.tasks.page(TENANT, TaskFilter(), limit=9)
    assert [record.task.id for record in records] == [other.task.id]
    with pytest.raises(UnreadableTask, match=f"{odd.task.id} cannot be read"):
        store.tasks.get(TENANT, odd.task.id)
    store.claims.make_ready(limit=9)
    starts = [Start(odd.run.id, "t1"), Start(other.run.id, "t2")]
    claims = store.claims.start(starts, worker="w", epoch=None, lease=LEASE)
    assert [claim.run.id for claim in claims] == [other.run.id]


DAMAGED = [{"timezone": "Atlantis/Capital"}, {"repeat": "FREQ=NEVER"}, {"timezone": "Atlantis/Capital", "repeat": None}]


@pytest.mark.parametrize("values", DAMAGED, ids=str)
def test_a_task_whose_zone_or_rule_cannot_be_read_is_shown_as_damaged_and_can_be_cancelled(
    store: Store, clock: Clock, spoil: Spoil, values: dict[str, object]
) -> None:
    odd = store.tasks.add(*a_task(NOON + timedelta(hours=1), repeat="FREQ=DAILY"), actor="a").record.task
    other = added(store, NOON + timedelta(hours=2)).task
    spoil("tasks", odd.id, **values)
    service = Scheduler(store, Planner(Handlers.load(entry_points=False), "UTC"))
    by = Principal(TENANT, "alice")
    listed, whole = service.list(TaskFilter(), by=by).views, service.get(odd.id, by=by)
    assert [view.record.task.id for view in listed] == [odd.id, other.id]
    assert [bool(view.warnings) for view in listed] == [True, False]
    assert whole.warnings[0].startswith("damaged: its time zone or rule cannot be read here (")
    assert service.explain(odd.id, by=by)[1]
    cancelled = service.cancel(odd.id, by=by)
    assert cancelled.record.run.state is State.CANCELLED


def test_a_task_that_cannot_be_read_is_told_so_when_asked_for(store: Store, spoil: Spoil) -> None:
    odd = added(store)
    spoil("tasks", odd.task.id, priority="urgent")
    with pytest.raises(UnreadableTask, match=rf"{odd.task.id} cannot be read by this version .*urgent"):
        store.tasks.get(TENANT, odd.task.id)


def test_an_examination_names_the_runs_that_cannot_be_read(store: Store, spoil: Spoil) -> None:
    odd, waiting = added(store), added(store)
    store.claims.make_ready(limit=1)
    spoil("tasks", odd.task.id, priority="urgent")
    spoil("tasks", waiting.task.id, deadline_type="firm")
    assert store.claims.unreadable() == sorted([odd.run.id, waiting.run.id])
