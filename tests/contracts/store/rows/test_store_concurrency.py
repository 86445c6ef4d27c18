"""Several threads, connections and processes at once: nothing is done twice, nothing is lost."""

from __future__ import annotations

import os
import sqlite3
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import pytest
from duetime.scheduler.errors import DuetimeError, IllegalMove, StaleRevision, StoreUnavailable
from duetime.scheduler.events import EventFilter, EventKind
from duetime.scheduler.records import Change, IdempotencyKey, NewTask
from duetime.scheduler.run_records import Start, Verdict
from duetime.scheduler.store import Store, open_store
from duetime.scheduler.store.database.dialects import DIALECT, POSTGRES
from duetime.scheduler.store.database.sqlite import Sqlite
from duetime.scheduler.store.schema.tables.tasks import tasks
from duetime.scheduler.store.statements import event_log
from duetime.scheduler.task import State
from duetime.scheduler.views import TaskFilter, TaskRecord
from sqlalchemy import Connection, create_engine, event, func, select, text

from tests import forked, services
from tests.builders import (
    LEASE,
    NOON,
    TENANT,
    Clock,
    a_task,
    added,
    cancelled,
    delivery,
    message,
    settlement,
    started,
    with_deadline,
)

T = TypeVar("T")


@pytest.fixture
def stores(url: str, clock: Clock) -> Iterator[list[Store]]:
    """Two stores on one database, as two processes would have them."""
    opened = [open_store(url, clock=clock, synchronous="OFF") for _ in range(2)]
    yield opened
    for store in opened:
        store.close()


def at_once(count: int, work: Callable[[int], T]) -> list[T]:
    gate = threading.Barrier(count, timeout=120)

    def run(number: int) -> T:
        gate.wait()
        return work(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


def seqs(store: Store, task_id: str) -> list[int]:
    return [event.seq for event in store.history.events(TENANT, EventFilter(task_id=task_id), limit=999).events][::-1]


def test_the_same_key_from_eight_threads_makes_one_task(stores: list[Store]) -> None:
    results = at_once(
        8, lambda n: stores[n % 2].tasks.add(*a_task(), actor="alice", key=IdempotencyKey("k", {"title": "A"}))
    )
    assert sorted(result.created for result in results) == [False] * 7 + [True]
    assert len({result.record.task.id for result in results}) == 1
    assert stores[0].tasks.counts(TENANT, TaskFilter()) == {State.SCHEDULED: 1}


def test_two_claimers_never_start_one_run(stores: list[Store]) -> None:
    stores[0].tasks.add_many([NewTask(*a_task(), "alice") for _ in range(60)])
    ready = [Start(run.run_id) for run in stores[0].claims.make_ready(limit=100)]
    batches = [ready[i : i + 10] for i in range(0, 60, 10)]

    def claim(number: int) -> list[str]:
        found = []
        for batch in batches if number % 2 else reversed(batches):
            claims = stores[number % 2].claims.start(batch, worker=f"w{number}", epoch=None, lease=LEASE)
            found += [it.run.id for it in claims]
        return found

    claimed = [run_id for found in at_once(4, claim) for run_id in found]
    assert sorted(claimed) == sorted(start.run_id for start in ready)


def test_two_dispatchers_never_make_one_run_ready_twice(stores: list[Store]) -> None:
    stores[0].tasks.add_many([NewTask(*a_task(), "alice") for _ in range(60)])

    def dispatch(number: int) -> list[str]:
        found: list[str] = []
        while batch := stores[number % 2].claims.make_ready(limit=7):
            found += [run.run_id for run in batch]
        return found

    made = [run_id for found in at_once(4, dispatch) for run_id in found]
    made += [run.run_id for run in stores[0].claims.make_ready(limit=99)]
    assert len(made) == len(set(made)) == 60
    assert stores[0].tasks.counts(TENANT, TaskFilter()) == {State.READY: 60}


def test_each_lapsed_run_is_recovered_once_by_many_at_once_and_names_the_dead(
    stores: list[Store], clock: Clock
) -> None:
    claims = [started(stores[0], worker="w-dead") for _ in range(20)]
    clock.forward(minutes=1)

    def recover(number: int) -> int:
        return len(stores[number % 2].claims.recover_lapsed(epoch=None, held=(), before=clock.at))

    assert sum(at_once(4, recover)) + recover(0) == 20
    for claim in claims:
        run = stores[0].tasks.get(TENANT, claim.task.id).run
        assert (run.state, run.crashes) == (State.RETRYING, 1)
        event = stores[0].history.events(TENANT, EventFilter(task_id=claim.task.id), limit=1).events[0]
        assert (event.kind, event.actor) == (EventKind.CRASHED, "w-dead")
        assert "w-dead" in (event.reason or "")


def test_each_run_expires_once_by_many_at_once(stores: list[Store], clock: Clock) -> None:
    items = [NewTask(*with_deadline(*a_task(), after=timedelta(hours=1)), "alice") for _ in range(40)]
    stores[0].tasks.add_many(items)
    clock.forward(hours=1)

    def expire(number: int) -> list[str]:
        found: list[str] = []
        while gone := stores[number % 2].claims.expire(limit=3):
            found += [run.run_id for run in gone]
        return found

    expired = [run_id for found in at_once(4, expire) for run_id in found]
    expired += [run.run_id for run in stores[0].claims.expire(limit=99)]
    assert len(expired) == len(set(expired)) == 40
    assert stores[0].tasks.counts(TENANT, TaskFilter()) == {State.EXPIRED: 40}


def test_each_delivery_is_taken_once_by_many_at_once(stores: list[Store]) -> None:
    claims = [started(stores[0]) for _ in range(20)]
    ends = [settlement(claim, inbox=message(claim), deliveries=(delivery(claim),)) for claim in claims]
    stores[0].claims.settle(ends)
    due = [found.id for found, _ in stores[0].deliveries.due(limit=99)]
    taken = at_once(4, lambda number: stores[number % 2].deliveries.take(due, lease=LEASE))
    taken.append(stores[0].deliveries.take(due, lease=LEASE))
    assert sorted(one for found in taken for one in found) == sorted(due)


@pytest.mark.postgres
def test_a_row_that_another_process_is_taking_is_passed_over_without_waiting(migrated_postgres_url: str) -> None:
    """Each transaction that is still open stands for a process that is slow, or frozen."""
    store = open_store(migrated_postgres_url, clock=(clock := Clock()), synchronous="OFF")
    told, lost = started(store), started(store)
    store.claims.settle([settlement(told, inbox=message(told), deliveries=(delivery(told),))])
    store.tasks.add(*with_deadline(*a_task(), after=timedelta(minutes=1)), actor="alice")
    [(due, _)] = store.deliveries.due(limit=9)
    clock.forward(minutes=2)
    other = create_engine(store._database.engine.url)
    with other.connect() as slow:
        for table in ("tasks", "runs", "deliveries"):
            slow.execute(text(f"SELECT 1 FROM {table} FOR UPDATE"))
        assert store.deliveries.take([due.id], lease=LEASE) == set()
        assert store.claims.expire(limit=9) == []
        assert store.claims.make_ready(limit=9) == []
        assert not store.claims.recover_lapsed(epoch=None, held=(), before=clock.at)
    other.dispose()
    assert store.deliveries.take([due.id], lease=LEASE) == {due.id}
    assert len(store.claims.expire(limit=9)) == 1
    assert len(store.claims.recover_lapsed(epoch=None, held=(), before=clock.at)) == 1
    assert store.tasks.get(TENANT, lost.task.id).run.state is State.RETRYING
    store.close()


def test_one_of_many_changes_of_the_same_revision_wins(stores: list[Store]) -> None:
    record = added(stores[0])

    def rename(number: int) -> bool:
        def decide(it: TaskRecord) -> Change:
            return Change(replace(it.task, title=f"Title {number}"), it.run)

        try:
            stores[number % 2].tasks.change(
                TENANT, record.task.id, actor="a", kind=EventKind.RESCHEDULED, decide=decide, revision=1
            )
        except StaleRevision:
            return False
        return True

    assert sorted(at_once(6, rename)) == [False] * 5 + [True]
    assert seqs(stores[0], record.task.id) == [1, 2]


def test_changes_without_a_revision_all_happen_one_after_the_other(stores: list[Store]) -> None:
    record = added(stores[0])

    def label(number: int) -> None:
        def decide(it: TaskRecord) -> Change:
            return Change(replace(it.task, labels=(*it.task.labels, str(number))), it.run)

        for store in stores:
            store.tasks.change(TENANT, record.task.id, actor="a", kind=EventKind.RESCHEDULED, decide=decide)

    at_once(6, label)
    stored = stores[0].tasks.get(TENANT, record.task.id)
    assert stored.task.revision == 13
    assert len(stored.task.labels) == 14
    assert seqs(stores[0], record.task.id) == list(range(1, 14))


def asked_to_stop(it: TaskRecord) -> Change:
    return Change(it.task, it.run if it.run.ended_at else replace(it.run, cancel_requested=True))


@pytest.mark.parametrize("_time", range(4))
def test_a_settlement_and_a_cancel_at_once_leave_one_story(stores: list[Store], _time: int) -> None:
    claim = started(stores[0])

    def race(number: int) -> object:
        if number:
            return stores[0].claims.settle([settlement(claim, inbox=message(claim))])
        kind = EventKind.CANCEL_REQUESTED
        return stores[1].tasks.change(TENANT, claim.task.id, actor="a", kind=kind, decide=asked_to_stop)

    assert at_once(2, race)[1] == [Verdict.SETTLED]
    numbers = seqs(stores[0], claim.task.id)
    assert numbers == list(range(1, len(numbers) + 1))
    assert stores[1].tasks.get(TENANT, claim.task.id).run.state is State.SUCCEEDED


def test_one_read_sees_one_moment_and_holds_up_no_writer(stores: list[Store]) -> None:
    count = select(func.count()).select_from(tasks)

    def work(connection: Connection) -> list[int | None]:
        before = connection.scalar(count)
        added(stores[1])
        return [before, connection.scalar(count)]

    assert stores[0]._database.read(work) == [0, 0]
    assert stores[0]._database.read(lambda connection: connection.scalar(count)) == 1


@pytest.mark.postgres
def test_followers_miss_no_event_of_a_slow_transaction(migrated_postgres_url: str) -> None:
    """Ids are given when a row is inserted, not when it is committed: the slow one must not be passed over."""
    store = open_store(migrated_postgres_url, clock=Clock())
    slow, quick = added(store), added(store)
    start = store.history.latest()
    other = create_engine(migrated_postgres_url, execution_options={DIALECT: POSTGRES})
    with other.connect() as connection:
        told = event_log.entry(
            TENANT, slow.task.id, None, NOON, kind=EventKind.RESCHEDULED, actor="a", revision=slow.task.revision
        )
        event_log.append(connection, [told])
        cancelled(store, quick)
        assert store.history.latest() == start
        seen = store.history.since(start)
        connection.commit()
    seen += store.history.since(seen[-1].id if seen else start)
    assert [event.task_id for event in seen] == [slow.task.id, quick.task.id]
    assert store.history.since(store.history.latest()) == []
    other.dispose()
    store.close()


@pytest.mark.postgres
def test_a_write_in_another_database_of_the_server_holds_up_no_news(
    migrated_postgres_url: str, postgres_server: str
) -> None:
    """Transactions are numbered for the whole server; another database's can write no event of this one."""
    store = open_store(migrated_postgres_url, clock=Clock())
    with services.postgres_database(postgres_server) as elsewhere:
        other = create_engine(elsewhere)
        with other.begin() as connection:
            connection.exec_driver_sql("SELECT pg_current_xact_id()")
            first = added(store)
            assert [event.task_id for event in store.history.since(0)] == [first.task.id]
            last = store.history.latest()
            second = added(store)
            assert [event.task_id for event in store.history.since(last)] == [second.task.id]
        other.dispose()
    store.close()


def add_from_a_process(url: str, number: int) -> None:
    store = open_store(url, synchronous="OFF")
    for count in range(10):
        store.tasks.add(*a_task(title=f"{number}/{count}"), actor="alice", key=IdempotencyKey(f"{count}", {"n": count}))
    store.close()


def test_processes_share_one_database(url: str, stores: list[Store]) -> None:
    program = f"import sys; from {__name__} import add_from_a_process as add; add(sys.argv[1], int(sys.argv[2]))"
    command = [sys.executable, "-c", program, url]
    processes = [forked.popen([*command, number], cwd=forked.ROOT) for number in ("0", "1")]
    assert [process.wait(120) for process in processes] == [0, 0]
    assert stores[0].tasks.counts(TENANT, TaskFilter()) == {State.SCHEDULED: 10}


# --- faults -------------------------------------------------------------------------------------------------------


def sqlite_store(tmp_path: Path) -> tuple[Store, Path]:
    path = tmp_path / "duetime.db"
    return open_store(f"sqlite:///{path}", clock=Clock()), path


def pragma(store: Store, words: str) -> Any:
    """Set or read a setting of the connection that writes."""
    database = store._database
    assert isinstance(database, Sqlite)
    return (database._raw.execute(f"PRAGMA {words}").fetchone() or [None])[0]


def test_a_locked_file_is_an_error_that_says_so_and_nothing_is_stored(tmp_path: Path) -> None:
    store, path = sqlite_store(tmp_path)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    pragma(store, "busy_timeout=10")
    with pytest.raises(StoreUnavailable, match="busy: others have been writing for 5 seconds"):
        added(store)
    assert store.tasks.counts(TENANT, TaskFilter()) == {}  # reading goes on
    other.execute("COMMIT")
    other.close()
    added(store)
    store.close()


def test_a_full_disk_stores_nothing_and_heals(tmp_path: Path) -> None:
    store, _ = sqlite_store(tmp_path)
    pragma(store, f"max_page_count={pragma(store, 'page_count')}")
    with pytest.raises(StoreUnavailable, match="disk is full"):
        added(store, payload={"message": "x" * 50_000})
    assert store.tasks.counts(TENANT, TaskFilter()) == {}
    pragma(store, "max_page_count=1000000")
    added(store, payload={"message": "x" * 50_000})
    store.close()


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "duetime.db").write_text("this is a diary, not a database" * 100)
    with pytest.raises(StoreUnavailable, match="not an SQLite database"):
        sqlite_store(tmp_path)
    with pytest.raises(StoreUnavailable, match="cannot be opened"):
        open_store(f"sqlite:///{tmp_path}/no/such/folder/duetime.db")


def test_a_write_that_fails_halfway_leaves_nothing(store: Store) -> None:
    class Broken(Exception):
        """Stands for whatever may happen inside a transaction."""

    claim = started(store)
    record = store.tasks.get(TENANT, claim.task.id)
    broken = settlement(claim, result={"a": object()})
    with pytest.raises(Exception, match="JSON serializable"):
        store.claims.settle([settlement(started(store)), broken])

    def fail(_record: TaskRecord) -> Change:
        raise Broken

    with pytest.raises(Broken):
        store.tasks.change(TENANT, claim.task.id, actor="a", kind=EventKind.PAUSED, decide=fail)
    assert store.tasks.get(TENANT, claim.task.id) == record
    assert store.tasks.counts(TENANT, TaskFilter()) == {State.RUNNING: 2}
    assert store.claims.settle([settlement(claim)]) == [Verdict.SETTLED]


@pytest.mark.postgres
def test_a_dropped_connection_is_made_again_and_the_transaction_tried_once_more(migrated_postgres_url: str) -> None:
    store = open_store(migrated_postgres_url, clock=Clock())
    added(store)
    kill = text("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'duetime'")
    engine = store._database.engine
    other = open_store(migrated_postgres_url)
    other._database.engine.dispose()
    with engine.connect() as connection:
        pid = connection.execute(text("SELECT pg_backend_pid()")).scalar()
    others = text(f"{kill.text} AND pid <> pg_backend_pid()")
    with other._database.engine.connect() as connection:
        assert True in list(connection.execute(others).scalars()), pid
    assert store.tasks.counts(TENANT, TaskFilter()) == {State.SCHEDULED: 1}
    with other._database.engine.connect() as connection:
        connection.execute(others)
    added(store)
    assert store.tasks.counts(TENANT, TaskFilter()) == {State.SCHEDULED: 2}
    store.close()
    other.close()


def test_a_server_that_is_down_is_said_in_one_sentence() -> None:
    with pytest.raises(StoreUnavailable) as down:
        open_store("postgresql://nobody@127.0.0.1:1/none")
    assert len(str(down.value)) < 400
    assert isinstance(down.value, DuetimeError)
    assert not isinstance(down.value, IllegalMove)


def test_nothing_is_lost_when_a_store_is_opened_again(url: str, clock: Clock) -> None:
    first = open_store(url, clock=clock)
    record = added(first, NOON)
    first.close()
    again = open_store(url, clock=clock, migrate=False)
    assert again.tasks.get(TENANT, record.task.id) == record
    again.close()


@pytest.mark.skipif(os.name != "posix", reason="modes of files are POSIX's")
def test_only_its_owner_can_read_a_new_file(tmp_path: Path) -> None:
    store, path = sqlite_store(tmp_path)
    added(store)
    assert {stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()} == {0o600}
    assert path.exists()
    store.close()


def test_a_connection_that_a_thread_still_has_when_its_store_closes_is_closed_once_it_is_returned(store: Store) -> None:
    closed: list[object] = []
    event.listen(store._database.engine.pool, "close", lambda connection, _entry: closed.append(connection))
    with store._database.engine.connect() as late:
        kept = late.connection.dbapi_connection
        store.close()
        assert kept not in closed
        late.execute(text("SELECT 1"))
    assert kept in closed
