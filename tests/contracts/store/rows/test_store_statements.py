"""Statements and round trips of one call on PostgreSQL, counted on the wire by libpq's own trace."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import replace
from datetime import timedelta
from itertools import count, pairwise
from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch

import psycopg
import pytest
from duetime.scheduler.chain.dependency import Dependency, DependentTask
from duetime.scheduler.errors import StoreUnavailable
from duetime.scheduler.events import EventFilter, EventKind
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.records import Change, IdempotencyKey, NewTask
from duetime.scheduler.run_records import Claim, Start, StartTerms
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store, open_store
from duetime.scheduler.store.database.postgres import Postgres
from duetime.scheduler.store.postgres import add_many, add_one, known_keys
from duetime.scheduler.store.postgres import start as postgres_start
from duetime.scheduler.store.schema.tables.tasks import runs
from duetime.scheduler.store.statements import idempotency
from duetime.scheduler.store.statements.idempotency import Name
from duetime.scheduler.store.text_index import text_search
from duetime.scheduler.task import State
from duetime.scheduler.views import TaskFilter, TaskRecord, TaskView
from sqlalchemy import Connection, event, select, text

from tests import services
from tests.builders import (
    LEASE,
    NOON,
    TENANT,
    Clock,
    a_run,
    a_task,
    delivery,
    message,
    settlement,
    started,
)
from tests.contracts.store import sessions
from tests.contracts.store.conftest import emptied

pytestmark = pytest.mark.postgres

Counted = Callable[[Callable[[], object]], list[str]]


@pytest.fixture
def store(postgres_tables: str, clock: Clock) -> Iterator[Store]:
    sessions.end()  # what a session counts, prepares and plans is looked at: it begins here
    opened = open_store(emptied(postgres_tables), clock=clock)
    yield opened
    opened.close()


@pytest.fixture
def scheduler(store: Store) -> Scheduler:
    return Scheduler(store, Planner(Handlers.load(entry_points=False), zone="America/Edmonton"))


@contextmanager
def traced(store: Store, to: Path) -> Iterator[None]:
    """Write every message of every connection to a file."""
    opened: list[Any] = []

    def begin(raw: Any, _record: Any, _proxy: Any) -> None:
        raw.pgconn.trace(file.fileno())
        opened.append(raw)

    assert isinstance(store._database, Postgres)
    engines = store._database.engine, store._database.reader
    with to.open("wb") as file:
        for engine in engines:
            event.listen(engine, "checkout", begin)
        try:
            yield
        finally:
            for engine in engines:
                event.remove(engine, "checkout", begin)
            for raw in opened:
                raw.pgconn.untrace()
            os.fsync(file.fileno())


@pytest.fixture
def trips(store: Store, tmp_path: Path) -> Counted:
    """Return what a call says to the server, one thing behind the answer to the other, BEGIN and COMMIT too."""

    def count(call: Callable[[], object]) -> list[str]:
        with traced(store, tmp_path / "trace"):
            call()
        lines = [line.split("\t") for line in (tmp_path / "trace").read_text().splitlines()]
        sent = [(line[3].strip(), line[-1].strip()) for line in lines if len(line) > 3 and line[1] == "F"]
        return [what for kind, what in sent if kind in {"Query", "Execute"}]

    return count


@pytest.fixture
def said(trips: Counted) -> Counted:
    """Return what a call says to the server, BEGIN and COMMIT apart."""

    def count(call: Callable[[], object]) -> list[str]:
        return [what for what in trips(call) if not what.startswith(('"BEGIN', '"COMMIT'))]

    return count


def calls_of(owner: type, name: str) -> AbstractContextManager[Mock]:
    """Count the calls of a method in the block."""
    return patch.object(owner, name, autospec=True, side_effect=getattr(owner, name))


def schedule(scheduler: Scheduler, key: str = "k", **arguments: Any) -> TaskView:
    asked: dict[str, Any] = {"action": "reminder", "when": "in 2 hours", "labels": ("home", "phone"), **arguments}
    return scheduler.schedule("Call John", payload={"message": "Call John"}, idempotency_key=key, **asked)


def test_statements_are_counted_one_by_one(store: Store, said: Counted) -> None:
    def three() -> None:
        with store._database.engine.connect() as connection:
            for _ in range(2):
                connection.execute(text("SELECT 1"))
            connection.exec_driver_sql("SET LOCAL lock_timeout = 1000")
            connection.commit()

    assert len(said(three)) == 3


@pytest.mark.parametrize("times", [1, 12], ids=["at first", "when the driver has prepared it"])
def test_scheduling_is_one_round_trip(scheduler: Scheduler, trips: Counted, times: int) -> None:
    for number in range(times):
        schedule(scheduler, f"earlier {number}")
    assert len(trips(lambda: schedule(scheduler))) == 1
    assert len(trips(lambda: schedule(scheduler, "daily", repeat="every day at 9:00", when=None))) == 1


def test_a_schedule_call_gives_the_driver_one_thing_to_do(scheduler: Scheduler) -> None:
    """No BEGIN, COMMIT or ROLLBACK around a statement that is a transaction of its own, and no other cursor."""
    schedule(scheduler, "earlier")
    with calls_of(psycopg.Connection, "wait") as done, calls_of(psycopg.RawCursor, "__init__") as made:
        assert schedule(scheduler).created
    assert (done.call_count, made.call_count) == (1, 0)


def test_a_call_that_repeats_another_takes_two(scheduler: Scheduler, trips: Counted) -> None:
    first, again = schedule(scheduler), []
    assert len(trips(lambda: again.append(schedule(scheduler)))) == 2
    assert again[0].record == first.record
    assert not again[0].created


def test_scheduling_finds_the_twin_in_the_same_breath(scheduler: Scheduler, trips: Counted) -> None:
    twin, views = schedule(scheduler, "one"), []
    assert len(trips(lambda: views.append(schedule(scheduler, "two")))) == 1
    assert twin.record.task.id in views[0].warnings[0]


def test_a_task_that_comes_after_another_takes_eight(store: Store, trips: Counted) -> None:
    upstreams = store.dependencies.known
    scheduler = Scheduler(store, Planner(Handlers.load(entry_points=False), zone="UTC", upstreams=upstreams))
    first = scheduler.schedule("First", when="in 2 hours").record.task.id
    second = scheduler.schedule("Second", after=[first]).record.task.id
    scheduler.schedule("Third", after=[second])
    assert len(trips(lambda: scheduler.schedule("Fourth", after=[first, second]))) == 8


def test_a_standing_task_that_is_to_come_after_another_reads_each_row_once(store: Store, said: Counted) -> None:
    upstreams = store.dependencies.known
    scheduler = Scheduler(store, Planner(Handlers.load(entry_points=False), zone="UTC", upstreams=upstreams))
    first = scheduler.schedule("First", when="in 2 hours").record.task.id
    second = scheduler.schedule("Second", when="in 3 hours").record.task.id
    views: list[TaskView] = []
    told = said(lambda: views.append(scheduler.reschedule(second, after=[first])))
    assert len(told) == 10
    assert views[0].record == store.tasks.get(views[0].record.task.tenant, second)
    assert views[0].record.run.state is State.WAITING
    assert views[0].waits == scheduler.get(second).waits != ()


def test_many_tasks_after_each_other_touch_no_row_twice(store: Store, said: Counted) -> None:
    new = [NewTask(*a_task(), "alice")]
    for _ in range(40):
        task, run = a_task()
        after = (Dependency(new[-1].task.id),)
        new.append(DependentTask(task, replace(run, state=State.WAITING, wake_at=None), "alice", after=after))
    assert len(said(lambda: store.tasks.add_many(new))) == 2, "the tasks, and the dependencies"
    store.claims.make_ready(limit=1)
    [claim] = store.claims.start([Start(new[0].run.id)], worker="w", epoch=None, lease=LEASE)
    store.claims.settle([settlement(claim)])
    assert store.tasks.get(TENANT, new[1].task.id).run.state is State.SCHEDULED


def told(store: Store) -> TaskRecord:
    """Return a daily task with a key, whose first run has ended and was delivered, and with a side run."""
    task, run = a_task(repeat="FREQ=DAILY")
    store.tasks.add(task, run, actor="alice", key=IdempotencyKey("k", {"title": "A"}))
    store.claims.make_ready(limit=9)
    [claim] = store.claims.start([Start(run.id)], worker="w", epoch=None, lease=timedelta(seconds=30))
    following = a_run(task, NOON + timedelta(days=1), number=2)
    sent = (delivery(claim), delivery(claim, "webhook"))
    store.claims.settle([settlement(claim, inbox=message(claim), deliveries=sent, next_run=following)])
    extra = a_run(task, NOON, current=False, generation=2)

    def beside(it: TaskRecord) -> Change:
        return Change(it.task, it.run, extra_run=extra)

    return store.tasks.change(TENANT, task.id, actor="a", kind=EventKind.RUN_NOW, decide=beside)


def test_a_repeated_call_returns_the_task_whole(store: Store, said: Counted) -> None:
    record, found = told(store), []
    key = IdempotencyKey("k", {"title": "A"})
    assert len(said(lambda: found.append(store.tasks.add(*a_task(), actor="alice", key=key)))) <= 2
    assert found[0].record == store.tasks.get(TENANT, record.task.id)
    assert len(found[0].record.deliveries) == 2
    assert len(found[0].record.side_runs) == 1


def test_a_task_that_has_ended_is_returned_whole_too(store: Store) -> None:
    key = IdempotencyKey("k", {"title": "A"})
    task, run = a_task()
    store.tasks.add(task, run, actor="alice", key=key)
    store.claims.make_ready(limit=9)
    [claim] = store.claims.start([Start(run.id)], worker="w", epoch=None, lease=timedelta(seconds=30))
    store.claims.settle([settlement(claim, inbox=message(claim), deliveries=(delivery(claim),))])
    again = store.tasks.add(*a_task(), actor="alice", key=key)
    assert again.record == store.tasks.get(TENANT, task.id)
    assert again.record.last_run is not None
    assert not again.created


def test_many_tasks_with_keys_of_their_own_are_added_by_one_statement(store: Store, said: Counted) -> None:
    new = [NewTask(*a_task(), "alice", IdempotencyKey(f"k{number}", {"title": "A"})) for number in range(40)]
    answers: list[bool] = []
    assert len(said(lambda: answers.extend(each.created for each in store.tasks.add_many(new)))) == 1
    assert answers == [True] * 40


def test_a_key_that_is_let_go_between_two_looks_at_it_is_taken(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    record = store.tasks.add(*a_task(), actor="alice", key=IdempotencyKey("k", {"title": "A"})).record

    def too_late(connection: Connection, *_rest: object) -> dict[Name, TaskRecord]:
        idempotency.forget(connection, [(TENANT, "k", record.task.id)])
        return {}

    monkeypatch.setattr(known_keys, "known", too_late)
    again = store.tasks.add(*a_task(), actor="alice", key=IdempotencyKey("k", {"title": "A"}))
    assert again.created
    assert again.record.task.id != record.task.id


def test_the_event_of_a_task_is_its_own_when_its_key_is_taken_later_than_those_of_others(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = store.tasks.add(*a_task(), actor="alice", key=IdempotencyKey("k", {"title": "A"})).record

    def too_late(connection: Connection, *_rest: object) -> dict[Name, TaskRecord]:
        idempotency.forget(connection, [(TENANT, "k", held.task.id)])
        return {}

    monkeypatch.setattr(known_keys, "known", too_late)
    new = [NewTask(*a_task(title="First"), "alice"), NewTask(*a_task(), "bob", IdempotencyKey("k", {"title": "A"}))]
    _, second = store.tasks.add_many(new)
    where = EventFilter(task_id=second.record.task.id)
    [created] = store.history.events(TENANT, where, limit=9).events
    assert created.after is not None
    assert (created.actor, created.after["title"]) == ("bob", "Call John")


def test_rows_of_many_tasks_are_read_once_and_joined_with_nothing(store: Store) -> None:
    """Joined with each other, they would cost the square of their number, as no index is on them."""
    with store._database.engine.connect() as connection:
        plan = connection.exec_driver_sql(f"EXPLAIN (GENERIC_PLAN) {add_many.ADD_MANY.sql}").scalars().all()
    assert [line for line in plan if "Join Filter" in line] == []
    assert len([line for line in plan if "Function Scan on jsonb_array_elements line" in line]) == 1


def test_a_key_that_is_never_there_to_be_read_is_given_up(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.tasks.add(*a_task(), actor="alice", key=IdempotencyKey("k", {"title": "A"}))
    monkeypatch.setattr(known_keys, "known", lambda *_: {})
    with pytest.raises(StoreUnavailable, match="try again"):
        store.tasks.add(*a_task(), actor="alice", key=IdempotencyKey("k", {"title": "A"}))
    assert store.tasks.counts(TENANT, TaskFilter()) == {State.SCHEDULED: 1}


@pytest.mark.parametrize("number", [1, 12])
def test_a_batch_takes_as_many_statements_as_one_run(store: Store, said: Counted, number: int) -> None:
    new = store.tasks.add_many([NewTask(*a_task(), "alice") for _ in range(number)])
    claims: list[Claim] = []
    wishes = [Start(each.record.run.id) for each in new]
    assert len(said(lambda: store.claims.make_ready(limit=99))) == 2
    assert len(said(lambda: claims.extend(store.claims.start(wishes, worker="w", epoch=None, lease=LEASE)))) == 2
    told = [settlement(claim, inbox=message(claim), deliveries=(delivery(claim),)) for claim in claims]
    assert len(said(lambda: store.claims.settle([replace(each, claim=None) for each in told]))) == 3
    assert len(claims) == number


@pytest.mark.parametrize("number", [1, 12])
def test_runs_are_started_by_one_round_trip(store: Store, trips: Counted, number: int) -> None:
    for _ in range(8):  # the driver prepares what it says often
        store.tasks.add_many([NewTask(*a_task(), "alice") for _ in range(number)])
        wishes = [Start(run.run_id, "token") for run in store.claims.make_ready(limit=99)]
        claims: list[Claim] = []
        said = trips(lambda: claims.extend(store.claims.start(wishes, worker="w", epoch=None, lease=LEASE)))  # noqa: B023 - it is called at once
        assert (len(said), len(claims)) == (1, number)


@pytest.mark.parametrize("number", [1, 12])
def test_runs_are_settled_by_one_round_trip(store: Store, trips: Counted, number: int) -> None:
    for _ in range(8):
        claims = [started(store) for _ in range(number)]
        ended = [
            settlement(
                claim,
                State.FAILED,
                inbox=message(claim),
                deliveries=(delivery(claim),),
                dead_letter=True,
                used={"tokens": 7},
            )
            for claim in claims
        ]
        said = trips(lambda: store.claims.settle(ended))  # noqa: B023 - it is called at once
        assert len(said) == 1
        assert {store.tasks.get(TENANT, claim.task.id).run.state for claim in claims} == {State.FAILED}


IN_PLACE = text("SELECT pg_stat_get_xact_tuples_hot_updated('runs'::regclass)")
INDEXED = text(
    "SELECT DISTINCT attname FROM pg_index JOIN pg_depend ON objid = indexrelid AND refobjid = indrelid"
    " JOIN pg_attribute ON attrelid = indrelid AND attnum = refobjsubid WHERE indrelid = 'runs'::regclass"
)


def test_a_start_and_a_renewal_write_no_index(store: Store) -> None:
    """PostgreSQL writes a row's new version into its page alone, when no column of any index has another value."""
    store.tasks.add_many([NewTask(*a_task(), "alice") for _ in range(6)])
    wishes = [Start(run.run_id, "token") for run in store.claims.make_ready(limit=9)]

    def start(connection: Connection) -> tuple[list[Claim], int]:
        claims = postgres_start.at_once(connection, wishes, StartTerms("w", None, LEASE), NOON)
        return claims, connection.execute(IN_PLACE).scalar_one()

    claims, in_place = store._database.write(start)
    assert (len(claims), in_place) == (6, 6)
    with store._database.engine.connect() as connection:
        indexed = set(connection.execute(INDEXED).scalars())
    assert {"id", "phase", "wake_at", "ended_at", "listed_at"} < indexed
    assert indexed.isdisjoint(
        {"state", "attempt", "started_at", "worker", "lease_until", "reserved", "token", "progress", "checkpoint"}
    )


def test_a_run_that_may_not_start_is_checked_once_more_behind_its_lock(store: Store, trips: Counted) -> None:
    record = started(store, worker="other")
    wishes = [Start(record.run.id, "token")]
    assert len(trips(lambda: store.claims.start(wishes, worker="w", epoch=None, lease=LEASE))) == 5


def test_a_batch_of_a_backlog_is_made_ready_without_reading_and_sorting_all_of_it(store: Store) -> None:
    store.tasks.add_many([NewTask(*a_task(), "alice") for _ in range(1000)])
    asked: list[tuple[str, Any]] = []

    def note(_connection: object, _cursor: object, sql: str, values: Any, *_: object) -> None:
        asked.append((sql, values))

    event.listen(store._database.engine, "before_cursor_execute", note)
    assert len(store.claims.make_ready(limit=200)) == 200
    event.remove(store._database.engine, "before_cursor_execute", note)
    [(sql, values)] = [each for each in asked if "SKIP LOCKED" in each[0]]

    def planned(connection: Connection) -> Sequence[str]:
        # What the server has counted so far decides nothing here: with sorts priced out of reach, a plan sorts only
        # where no index has the rows in order.
        for way in ("sort", "incremental_sort", "seqscan", "bitmapscan"):
            connection.exec_driver_sql(f"SET LOCAL enable_{way} = off")
        return connection.exec_driver_sql(f"EXPLAIN {sql}", values).scalars().all()

    plan = store._database.write(planned)
    assert any("Index Scan using runs_wake" in line for line in plan), plan
    assert not any("Sort" in line for line in plan), plan


def test_the_use_of_a_template_is_looked_up_pool_by_pool_in_any_order_of_the_database(postgres_server: str) -> None:
    """Only in the order C is a prefix a range of an index."""
    asked: list[tuple[str, Any]] = []

    def note(_connection: object, _cursor: object, sql: str, values: Any, *_: object) -> None:
        asked.append((sql, values))

    order = "TEMPLATE template0 LC_COLLATE 'C.UTF-8' LC_CTYPE 'C.UTF-8'"
    with services.postgres_database(postgres_server, options=order) as url, closing(open_store(url)) as store:
        assert isinstance(store._database, Postgres)
        event.listen(store._database.reader, "before_cursor_execute", note)
        store.usage.since({"tenant:*": NOON})
        store.usage.first("tenant:*")
        explained = [(f"EXPLAIN (ANALYZE, BUFFERS OFF) {sql}", values) for sql, values in asked if "usage" in sql]

        def planned(connection: Connection) -> list[str]:
            for way in ("seqscan", "bitmapscan"):
                connection.exec_driver_sql(f"SET LOCAL enable_{way} = off")
            plans = [connection.exec_driver_sql(*each).scalars().all() for each in explained]
            return [line.strip() for plan in plans for line in ["", *plan, ""]]

        plan = store._database.write(planned)
    steps = [
        (before, after) for before, scan, after in zip(plan, plan[1:], plan[2:], strict=False) if " on usage" in scan
    ]
    of_one = [step for step in steps if "Index Cond: (" in step[1]]
    assert len(of_one) == 4, plan  # of either statement: each next pool, and the use of one
    assert ["Limit" in before for before, after in steps if (before, after) not in of_one] == [True] * 2, plan


def test_a_schedule_call_is_one_prepared_statement_whatever_of_it_is_left_out(
    store: Store, scheduler: Scheduler
) -> None:
    schedule(scheduler, "labelled")
    schedule(scheduler, "plain", labels=(), deadline="in 5 hours", priority="high", estimate="2 minutes")
    schedule(scheduler, "daily", repeat="every day at 9:00", when=None, max_runs=3)
    scheduler.schedule("Call Jane", when="in 2 hours", needs={})
    prepared = text("SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE '%INTO tasks%'")
    with store._database.engine.connect() as connection:
        assert connection.execute(prepared).scalar() == 1


@pytest.mark.parametrize("counted", [False, True])
def test_the_look_for_a_twin_is_planned_by_its_own_index_while_the_database_is_empty(
    store: Store, *, counted: bool
) -> None:
    """A plan is kept: one that looks through all runs of an instant would cost more with each that is added.

    Once the server has counted an empty table, all indexes of it cost the same.
    """
    if counted:
        with store._database.engine.execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
            connection.exec_driver_sql("VACUUM (ANALYZE) runs")
    with store._database.engine.connect() as connection:
        plan = connection.exec_driver_sql(f"EXPLAIN (GENERIC_PLAN) {add_one.ADD_ONE.sql}").scalars().all()
    looks = [
        line
        for line, condition in pairwise(plan)
        if " on runs " in line and "Cond: ((ROW(twin_hash, scheduled_for) >=" in condition
    ]
    assert [line.split(" using ")[1].split(" on ")[0] for line in looks] == ["runs_by_twin"]


@pytest.mark.parametrize("counted", [False, True])
def test_the_reads_of_a_change_of_links_are_planned_by_ids_while_the_database_is_empty(
    store: Store, *, counted: bool
) -> None:
    """A plan is kept: one that looks through all that a tenant has would cost more with each task that is added."""
    upstreams, numbers = store.dependencies.known, count(1)
    scheduler = Scheduler(store, Planner(Handlers.load(entry_points=False), zone="UTC", upstreams=upstreams))
    first, second = (scheduler.schedule(title, when="in 2 hours").record.task.id for title in ("First", "Second"))
    engine, asked = store._database.engine, list[str]()
    event.listen(engine, "before_cursor_execute", lambda *given: asked.append(given[2]))
    scheduler.reschedule(second, after=[first])
    if counted:
        with engine.execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
            connection.exec_driver_sql("VACUUM (ANALYZE)")
    with engine.connect() as connection:
        reads = [re.sub(r"%\(\w+\)s", lambda _: f"${next(numbers)}", sql) for sql in asked if sql.startswith("SELECT")]
        plans = [connection.exec_driver_sql(f"EXPLAIN (GENERIC_PLAN) {sql}").scalars().all() for sql in reads]
    assert [line for plan in plans for line in plan if "Cond: ((tenant" in line or "Cond: (tenant" in line] == []


def test_ids_that_many_runs_are_compared_with_are_a_set_that_no_planner_weighs_one_by_one(store: Store) -> None:
    def planned(connection: Connection) -> list[str]:
        among = text_search.in_set_of(connection, runs.c.task_id, [f"t_{number}" for number in range(12)])
        found = select(runs.c.id).where(among).compile(connection)
        return [*connection.exec_driver_sql(f"EXPLAIN {found}", found.params).scalars()]

    [condition] = [line for line in store._database.read(planned) if "Filter" in line]
    assert "hashed SubPlan" in condition
    assert "t_7" not in condition


def test_titles_that_no_index_finds_are_compared_without_a_copy_of_each(store: Store) -> None:
    def plan(connection: Connection) -> str:
        asked = list[tuple[str, Any]]()
        event.listen(connection, "before_cursor_execute", lambda *given: asked.append((given[2], given[3])))
        assert text_search.matching_tasks(connection, TENANT, "zz").complete
        [(sql, values)] = [each for each in asked if "title_folded" in each[0]]
        return "\n".join(connection.exec_driver_sql(f"EXPLAIN (COSTS OFF) {sql}", values).scalars())

    shown = store._database.read(plan)
    assert "title_folded)::text ~~ '%zz%'::text COLLATE \"C\"" in shown
    assert "trigrams" not in shown
