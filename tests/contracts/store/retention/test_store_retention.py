"""Retention: what is old goes with all that belongs to it, what is needed stays, and the rest is whole."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from duetime.scheduler.dispatch.retention import FIRST_BATCH_ROWS, BatchSize, Sweep
from duetime.scheduler.events import EventFilter, EventKind
from duetime.scheduler.history.retention import RetentionKind, RetentionPolicy, RetentionRule, scoped_rules
from duetime.scheduler.records import IdempotencyKey
from duetime.scheduler.run_records import Claim
from duetime.scheduler.store import Store
from duetime.scheduler.store.retention import deletion
from duetime.scheduler.store.retention.parts import parts
from duetime.scheduler.store.retention.retention import BATCH_WORK_S, LONE_WRITER_BATCH_WORK_S
from duetime.scheduler.store.retention.row_conditions import TABLES
from duetime.scheduler.store.retention.selection import Selected
from duetime.scheduler.store.schema.base import Base
from duetime.scheduler.store.schema.rows import run_values
from duetime.scheduler.store.schema.tables.chains import spawned_tasks
from duetime.scheduler.store.schema.tables.events import events
from duetime.scheduler.store.schema.tables.tasks import runs, tasks
from duetime.scheduler.task import State
from duetime.scheduler.views import TaskRecord
from sqlalchemy import Connection, delete, func, insert, select

from tests.builders import (
    NOON,
    TENANT,
    Clock,
    a_run,
    a_task,
    added,
    cancelled,
    delivery,
    log_chunk,
    message,
    restarted,
    settlement,
    started,
)
from tests.contracts.store.databases import on_each_database
from tests.invariants import assert_sound

DAYS_90 = timedelta(days=90)
_WRITTEN = {"retention_sweeps", "audit_entries", "server_keys"}  # by a sweep itself, or with the schema
MAX_WRITER_WAIT_S = 0.050
OF_A_TASK = {
    *("tasks", "runs", "events", "attempts", "tracebacks", "run_logs", "usage"),
    *("dead_letters", "deliveries", "inbox"),
}


def rule(kind: RetentionKind = RetentionKind.TASKS, **values: Any) -> RetentionRule:
    return replace(RetentionRule(kind, DAYS_90), **values)


def swept(store: Store, *rules: RetentionRule) -> Counter[str]:
    """Return what a sweep by these rules deletes."""
    sweep = Sweep(store, RetentionPolicy(rules or (rule(),)))
    assert list(sweep.run())
    return sweep.deleted


def rows(store: Store) -> dict[str, int]:
    """Return the number of rows of each table that has some, but for what sweeps write."""

    def work(connection: Any) -> dict[str, int]:
        counts = {
            name: connection.execute(select(func.count()).select_from(table)).scalar_one()
            for name, table in Base.metadata.tables.items()
        }
        return {name: count for name, count in counts.items() if count and name not in _WRITTEN}

    return store._database.read(work)


def failed(store: Store, *, read: bool = True, **values: Any) -> Claim:
    """Return a task that failed with all that a task can have."""
    claim = started(store, **values)
    channel = replace(delivery(claim), next_at=None)
    result = settlement(
        claim,
        State.FAILED,
        inbox=message(claim),
        deliveries=(channel,),
        dead_letter=True,
        used={"tokens": 3},
        traceback="Traceback",
        log=(log_chunk(claim, 1, "a", last=True),),
    )
    store.claims.settle([result])
    if read:
        store.inbox.mark_read(claim.run.tenant, "alice")
    return claim


def recurring(store: Store, clock: Clock, *, times: int) -> TaskRecord:
    """Return a task that recurs and has succeeded some times, an hour apart."""
    record = added(store, repeat="every hour")
    for n in range(1, times + 1):
        claim = restarted(store, store.tasks.get(TENANT, record.task.id))
        following = a_run(record.task, NOON + timedelta(hours=n), number=n + 1)
        store.claims.settle([settlement(claim, next_run=following)])
        clock.forward(hours=1)
    return store.tasks.get(TENANT, record.task.id)


def ids_of_runs(store: Store) -> list[str]:
    statement = select(runs.c.id).order_by(runs.c.scheduled_for)
    return store._database.read(lambda connection: list(connection.execute(statement).scalars()))


def test_an_old_task_goes_with_all_that_it_has_and_a_younger_one_stays(store: Store, clock: Clock) -> None:
    failed(store)
    clock.forward(days=1)
    kept = failed(store)
    before = rows(store)
    clock.forward(days=89, seconds=1)
    assert set(swept(store)) == OF_A_TASK
    assert rows(store) == {name: count // 2 for name, count in before.items()}
    assert store.tasks.get(TENANT, kept.task.id).run.state is State.FAILED


def test_without_a_rule_nothing_is_deleted(store: Store, clock: Clock) -> None:
    failed(store)
    before = rows(store)
    clock.forward(days=4000)
    assert list(Sweep(store, RetentionPolicy()).run()) == []
    assert list(Sweep(store, RetentionPolicy((rule(age=None),))).run()) == []
    assert rows(store) == before


def test_rows_that_a_sweep_would_delete_are_counted_and_not_deleted(store: Store, clock: Clock) -> None:
    failed(store)
    before = rows(store)
    clock.forward(days=91)
    due = Sweep(store, RetentionPolicy((rule(),))).due([RetentionKind.TASKS])[RetentionKind.TASKS]
    assert rows(store) == before
    assert +due == swept(store)


def test_open_tasks_stay_however_old_they_are(store: Store, clock: Clock) -> None:
    started(store)
    added(store, NOON + timedelta(days=500))
    before = rows(store)
    clock.forward(days=400)
    assert swept(store) == Counter()
    assert rows(store) == before


def test_a_task_stays_while_a_side_run_is_open(store: Store, clock: Clock) -> None:
    record = added(store)
    beside = a_run(record.task, NOON + timedelta(days=300), generation=2)
    cancelled(store, record)
    values = {**run_values(beside), "current": False}
    store._database.write(lambda connection: connection.execute(runs.insert().values(**values)))
    clock.forward(days=91)
    assert swept(store) == Counter()


def test_a_task_that_a_call_could_still_repeat_stays_until_its_key_is_forgotten(store: Store, clock: Clock) -> None:
    task, run = a_task()
    key = IdempotencyKey("k", {"title": "Call John"}, expires_at=None, derived=False)
    record = store.tasks.add(task, run, actor="alice", key=key).record
    cancelled(store, record)
    clock.forward(days=29)
    assert swept(store, rule(age=timedelta(days=2))) == Counter()
    clock.forward(days=2)
    store.tasks.forget_keys(limit=9)
    assert swept(store, rule(age=timedelta(days=2)))["tasks"] == 1


def test_a_task_with_an_unread_message_stays_unless_the_rule_says_otherwise(store: Store, clock: Clock) -> None:
    failed(store, read=False)
    clock.forward(days=91)
    assert swept(store) == Counter()
    assert swept(store, rule(unread=True))["tasks"] == 1


def test_one_sweep_takes_first_what_keeps_other_rows(store: Store, clock: Clock) -> None:
    """A message keeps its task, and a dead letter its attempts, until rules of their own let them go."""
    failed(store, read=False)
    failed(store, read=False, tenant="globex")
    clock.forward(days=91)
    inbox, letters = rule(RetentionKind.INBOX, unread=True), rule(RetentionKind.DEAD_LETTERS)
    of_tenant = rule(tenant=TENANT)
    found = swept(store, of_tenant, rule(RetentionKind.ATTEMPTS), inbox, letters)
    assert (found["inbox"], found["tasks"], found["dead_letters"], found["attempts"]) == (2, 1, 2, 2)


def test_a_task_with_a_pending_delivery_stays(store: Store, clock: Clock) -> None:
    claim = started(store)
    store.claims.settle([settlement(claim, State.FAILED, inbox=message(claim), deliveries=(delivery(claim),))])
    store.inbox.mark_read(TENANT, "alice")
    clock.forward(days=91)
    assert swept(store, rule(unread=True)) == Counter()


def test_a_rule_with_states_takes_these_alone(store: Store, clock: Clock) -> None:
    failed(store)
    stopped = added(store)
    cancelled(store, stopped)
    clock.forward(days=91)
    assert swept(store, rule(states=(State.CANCELLED, State.SUCCEEDED)))["tasks"] == 1
    assert set(rows(store)) == OF_A_TASK | {"task_labels"}


def test_a_tenant_with_rules_of_its_own_is_left_alone_by_the_others(store: Store, clock: Clock) -> None:
    for tenant in ("acme", "bank", "zoo"):
        cancelled(store, added(store, tenant=tenant))
    clock.forward(days=91)
    assert swept(store, rule(), rule(tenant="bank", age=None))["tasks"] == 2
    found = store._database.read(lambda connection: list(connection.execute(select(tasks.c.tenant)).scalars()))
    assert found == ["bank"]
    assert swept(store, rule(tenant="acme")) == Counter()
    assert swept(store, rule(tenant="bank"))["tasks"] == 1


def test_many_tasks_go_page_by_page(store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duetime.scheduler.store.retention.selection.MAX_TASKS_SELECTED", 2)
    for tenant in ("acme", "bank"):
        for _ in range(5):
            cancelled(store, added(store, tenant=tenant))
    clock.forward(days=91)
    assert swept(store)["tasks"] == 10
    assert rows(store) == {}


def test_earlier_runs_of_a_task_that_recurs_go_and_its_last_one_stays(store: Store, clock: Clock) -> None:
    record = recurring(store, clock, times=4)
    before = ids_of_runs(store)
    clock.forward(days=91)
    assert swept(store, rule(RetentionKind.RUNS)) == Counter(runs=3, attempts=3)
    assert ids_of_runs(store) == before[3:]
    assert store.tasks.get(TENANT, record.task.id).last_run is not None
    assert_sound(store)


def test_events_of_deleted_runs_stay_until_they_are_old_themselves(store: Store, clock: Clock) -> None:
    record = recurring(store, clock, times=4)
    clock.forward(days=91)
    whole = store.history.events(TENANT, EventFilter(task_id=record.task.id), limit=99).events
    swept(store, rule(RetentionKind.RUNS))
    assert store.history.events(TENANT, EventFilter(task_id=record.task.id), limit=99).events == whole


def test_old_events_go_but_for_the_first_and_the_last_and_numbers_go_on(store: Store, clock: Clock) -> None:
    record = recurring(store, clock, times=3)
    clock.forward(days=91)
    before = store.history.events(TENANT, EventFilter(task_id=record.task.id), limit=99).events
    swept(store, rule(RetentionKind.EVENTS))
    left = store.history.events(TENANT, EventFilter(task_id=record.task.id), limit=99).events
    assert left[-1].kind is EventKind.CREATED
    assert [event.seq for event in left[:-1]] == [before[0].seq]
    cancelled(store, store.tasks.get(TENANT, record.task.id))
    assert store.history.events(TENANT, EventFilter(task_id=record.task.id), limit=1).events[0].seq == before[0].seq + 1
    assert_sound(store)


def test_events_of_an_open_run_stay(store: Store, clock: Clock) -> None:
    started(store)
    clock.forward(days=91)
    assert swept(store, rule(RetentionKind.EVENTS)) == Counter()


@pytest.mark.parametrize(
    ("kind", "gone"),
    [
        (RetentionKind.TRACEBACKS, {"tracebacks"}),
        (RetentionKind.LOGS, {"run_logs"}),
        (RetentionKind.INBOX, {"inbox", "deliveries"}),
        (RetentionKind.DELIVERIES, {"deliveries"}),
        (RetentionKind.DEAD_LETTERS, {"dead_letters"}),
        (RetentionKind.USAGE, {"usage"}),
    ],
)
def test_rows_of_a_kind_go_by_a_rule_of_their_own(
    store: Store, clock: Clock, kind: RetentionKind, gone: set[str]
) -> None:
    failed(store)
    clock.forward(days=89)
    assert swept(store, rule(kind)) == Counter()
    clock.forward(days=2)
    assert swept(store, rule(kind, tenant="other")) == Counter()
    assert set(swept(store, rule(kind, tenant=TENANT))) == gone
    assert set(rows(store)) == (OF_A_TASK | {"task_labels"}) - gone


def test_attempts_go_but_for_those_of_a_dead_letter(store: Store, clock: Clock) -> None:
    failed(store)
    claim = started(store)
    store.claims.settle([settlement(claim, traceback="Traceback", log=(log_chunk(claim, 1, "a", last=True),))])
    clock.forward(days=91)
    assert swept(store, rule(RetentionKind.ATTEMPTS)) == Counter(attempts=1, tracebacks=1, run_logs=1)


@pytest.mark.parametrize("kind", RetentionKind)
def test_rows_are_found_by_an_index_and_no_batch_reads_a_whole_table(store: Store, kind: RetentionKind) -> None:
    """SQLite reads all rows for a list of keys of several columns; every writer would wait for it."""
    one: dict[type, Any] = {str: "x", int: 1}
    key = tuple(one.get(column.type.python_type, 1) for column in TABLES[kind].primary_key)

    def plans(connection: Connection) -> list[str]:
        if connection.dialect.name != "sqlite":
            return []
        statements = [delete(table).where(condition) for table, condition in parts(kind, [key, key])]
        said = [each.compile(connection, compile_kwargs={"render_postcompile": True}) for each in statements]
        return [
            row[3]
            for each in said
            for row in connection.exec_driver_sql(
                f"EXPLAIN QUERY PLAN {each}", tuple(each.params[name] for name in each.positiontup or ())
            )
        ]

    tables = Base.metadata.tables
    scans = [plan for plan in store._database.read(plans) if plan.startswith("SCAN") and plan.split()[1] in tables]
    assert scans == []


def test_a_task_that_is_changed_after_it_was_selected_stays(store: Store, clock: Clock) -> None:
    record = added(store)
    cancelled(store, record)
    clock.forward(days=91)
    [scope] = scoped_rules([rule()], RetentionKind.TASKS)
    limit = clock() - DAYS_90
    [page] = store.retention.pages(scope, limit)
    before = rows(store)
    touched = tasks.update().values(updated_at=clock())
    store._database.write(lambda connection: connection.execute(touched))
    assert store.retention.delete(rule(), limit, page).counts == Counter()
    assert rows(store) == before


def test_a_task_of_very_many_rows_goes_in_several_transactions(
    store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = recurring(store, clock, times=6)
    cancelled(store, record)
    clock.forward(days=91)
    monkeypatch.setattr(deletion, "MAX_ROWS_TOGETHER", 3)
    sizes: list[int] = []
    delete = store.retention.delete

    def noted(*arguments: Any) -> Any:
        done = delete(*arguments)
        sizes.append(done.counts.total())
        assert_sound(store)
        return done

    monkeypatch.setattr(store.retention, "delete", noted)
    swept(store)
    assert rows(store) == {}
    assert len(sizes) > 6
    assert max(sizes) <= 3


def test_one_process_at_a_time_sweeps(store: Store, clock: Clock) -> None:
    failed(store)
    clock.forward(days=91)
    with store.retention.alone() as is_alone:
        assert is_alone
        second = Sweep(store, RetentionPolicy((rule(),)))
        assert list(second.run()) == []
        assert second.refused
    assert swept(store)["tasks"] == 1


def test_the_next_sweep_may_begin_before_the_server_knows_that_the_last_one_hung_up(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    hang_up, open_ones = psycopg.Connection.close, list[Any]()

    def keep(connection: Any) -> None:
        open_ones.append(connection)

    monkeypatch.setattr(psycopg.Connection, "close", keep)
    for _ in range(3):
        with store.retention.alone() as is_alone:
            assert is_alone
    for connection in open_ones:
        hang_up(connection)


def test_a_sweep_is_kept_with_what_it_deleted(store: Store, clock: Clock) -> None:
    failed(store)
    clock.forward(days=91)
    deleted = swept(store)
    last = store.retention.last_sweeps()[RetentionKind.TASKS]
    assert (last.finished_at, last.deleted, last.problem) == (clock(), deleted.total(), None)


def test_a_poll_of_events_whose_last_one_was_deleted_returns_none_of_the_others_again(
    store: Store, clock: Clock
) -> None:
    added(store)
    cancelled(store, added(store))
    latest = store.history.latest()
    clock.forward(days=91)
    swept(store)
    assert store.history.since(latest) == []
    added(store)
    assert [event.kind for event in store.history.since(latest)] == [EventKind.CREATED]


def test_a_batch_that_took_too_long_makes_the_next_one_smaller() -> None:
    size = BatchSize(LONE_WRITER_BATCH_WORK_S)
    size.learn(FIRST_BATCH_ROWS, 10 * LONE_WRITER_BATCH_WORK_S)
    assert size.rows == FIRST_BATCH_ROWS // 10
    size.learn(size.rows, 0.001)
    assert FIRST_BATCH_ROWS // 10 < size.rows < FIRST_BATCH_ROWS // 4


@pytest.mark.parametrize("row_seconds", [0.00003, 0.0002, 0.001])
def test_batches_take_a_small_part_of_what_a_writer_may_wait(row_seconds: float) -> None:
    size = BatchSize(LONE_WRITER_BATCH_WORK_S)
    for _ in range(100):
        size.learn(size.rows, size.rows * row_seconds)
    assert MAX_WRITER_WAIT_S / 10 < size.rows * row_seconds < MAX_WRITER_WAIT_S / 5


def test_slow_statements_leave_batches_of_many_rows_where_not_all_writers_wait_for_them() -> None:
    size = BatchSize(BATCH_WORK_S)
    for _ in range(100):
        size.learn(size.rows, 0.012 + size.rows * 0.00003)
    assert size.rows > 400


@on_each_database
def test_a_batch_takes_longer_only_where_not_all_writers_wait_for_it(store: Store) -> None:
    has_one_writer = store._database.engine.dialect.name == "sqlite"
    assert store.retention.batch_work_s < (MAX_WRITER_WAIT_S / 5 if has_one_writer else MAX_WRITER_WAIT_S)
    assert (store.retention.batch_work_s < BATCH_WORK_S) == has_one_writer


def test_a_disk_that_is_slow_to_commit_does_not_make_batches_smaller(
    store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    cancelled(store, added(store))
    clock.forward(days=91)
    passed = iter(range(100))
    monkeypatch.setattr(time, "monotonic", lambda: float(next(passed)))
    [scope] = scoped_rules([rule()], RetentionKind.TASKS)
    [page] = store.retention.pages(scope, clock() - DAYS_90)
    done = store.retention.delete(rule(), clock() - DAYS_90, page)
    assert done.work_seconds < done.seconds


def test_batches_grow_although_rows_do_not_fill_them_to_the_last() -> None:
    size = BatchSize(LONE_WRITER_BATCH_WORK_S)
    size.learn(size.rows, 0.5)
    rows = [Selected((str(number),), weight=9) for number in range(100)]
    for _ in range(20):
        batch, left = size.split(rows)
        size.learn(sum(row.weight for row in batch), 0.001, full=bool(left))
    assert len(size.split(rows)[0]) > 10


def test_all_events_are_gone_with_their_tasks(store: Store, clock: Clock) -> None:
    cancelled(store, added(store))
    clock.forward(days=91)
    swept(store)
    assert store._database.read(lambda connection: connection.execute(select(events.c.id)).all()) == []


@on_each_database
def test_a_sweep_forgets_a_spawned_task_that_an_older_process_deleted(store: Store, clock: Clock) -> None:
    task = added(store)
    noted = [
        {"task_id": each, "tenant": TENANT, "name": "a/b", "run_id": task.run.id} for each in ("t_x", task.task.id)
    ]
    store._database.write(lambda connection: connection.execute(insert(spawned_tasks), noted))
    assert "spawned_tasks" in {each.table for each in store.integrity.examine().findings}
    swept(store)
    assert store.integrity.examine().findings == ()
    assert rows(store)["spawned_tasks"] == 1
