"""PostgreSQL restarts, its backends are killed, the answer to a COMMIT gets lost: nothing is lost, nothing is twice."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from duetime.scheduler.errors import StoreUnavailable
from duetime.scheduler.events import EventFilter, EventKind
from duetime.scheduler.outcomes import Done
from duetime.scheduler.queue import Entry, Grant
from duetime.scheduler.queue.memory.queue import MemoryQueue
from duetime.scheduler.records import IdempotencyKey, NewTask
from duetime.scheduler.run_records import Settlement, Start, StartTerms, Verdict
from duetime.scheduler.runtime.notifier import RunNotifier
from duetime.scheduler.store import Store, open_store
from duetime.scheduler.store.database import postgres
from duetime.scheduler.task import State
from duetime.scheduler.views import TaskFilter, TaskRecord
from duetime.scheduler.worker.active_runs import ActiveRun, ActiveRuns
from duetime.scheduler.worker.broker import CLAIM_RETRY_DELAY_MS
from duetime.scheduler.worker.claimer import Claimer
from duetime.scheduler.worker.completer import BatchCompleter, CompletedRun
from sqlalchemy import Connection, event, make_url, text

from tests import services
from tests.builders import LEASE, TENANT, Clock, a_task, added, settlement, started
from tests.contracts.store.conftest import emptied
from tests.faults.proxy import Proxy
from tests.services import OwnPostgres

pytestmark = pytest.mark.postgres

THREAD_COUNT = 6

COMMIT = b"Q\x00\x00\x00\x0bCOMMIT\x00"
"""As it is sent; BEGIN says READ COMMITTED, too."""

ADDED = b"WITH claimed"
STARTING = b'[["r_'
"""The first words of the wishes in the statement that starts runs by itself; its text is sent once a connection."""

ENDING = b"WITH ended"
"""The first words of the statement that ends runs by itself."""


@pytest.fixture(scope="module")
def server() -> Iterator[OwnPostgres]:
    with services.own_postgres() as own:
        open_store(own.url).close()
        yield own


@pytest.fixture
def proxy(server: OwnPostgres) -> Iterator[Proxy]:
    made = Proxy(server.port)
    yield made
    made.close()


@pytest.fixture
def store(server: OwnPostgres, proxy: Proxy) -> Iterator[Store]:
    """Give a store that reaches the server through the proxy."""
    emptied(server.url)
    url = make_url(server.url).set(port=proxy.port).render_as_string(hide_password=False)
    opened = open_store(url, clock=Clock())
    yield opened
    opened.close()


def at_once(work: Callable[[], object]) -> None:
    gate = threading.Barrier(THREAD_COUNT, timeout=120)

    def run(_number: int) -> None:
        gate.wait()
        work()

    with ThreadPoolExecutor(THREAD_COUNT) as pool:
        list(pool.map(run, range(THREAD_COUNT)))


def fill_the_pool(store: Store) -> None:
    """Leave several connections in the pool."""
    gate = threading.Barrier(THREAD_COUNT, timeout=120)

    def hold(connection: Connection) -> None:
        connection.execute(text("SELECT 1"))
        gate.wait()

    with ThreadPoolExecutor(THREAD_COUNT) as pool:
        list(pool.map(lambda _: store._database.read(hold), range(THREAD_COUNT)))


def plain(server: OwnPostgres) -> str:
    """Return its URL as psycopg has it."""
    return make_url(server.url).set(drivername="postgresql").render_as_string(hide_password=False)


def until_there_wait(server: OwnPostgres, sessions: int) -> None:
    """Return when so many sessions wait for a lock."""
    with psycopg.connect(plain(server), autocommit=True) as connection:
        asked = time.monotonic()
        while connection.execute("SELECT count(*) FROM pg_locks WHERE NOT granted").fetchone() != (sessions,):
            assert time.monotonic() < asked + 60


def kill(server: OwnPostgres, pid: int | None = None) -> None:
    """End one backend, or all of `duetime`, and return when they are gone."""
    with psycopg.connect(plain(server), autocommit=True) as connection:
        for each in server.backends() if pid is None else [pid]:
            connection.execute("SELECT pg_terminate_backend(%s, 60000)", (each,))


def kinds(store: Store, task_id: str) -> list[EventKind]:
    return [each.kind for each in store.history.events(TENANT, EventFilter(task_id=task_id), limit=99).events][::-1]


def everything(store: Store) -> None:
    """Take a new task through every step."""
    claim = started(store)
    assert store.claims.renew([claim.run.id], worker="w1", lease=LEASE) == set()
    assert store.claims.settle([settlement(claim)]) == [Verdict.SETTLED]
    assert store.tasks.get(TENANT, claim.task.id).run.state is State.SUCCEEDED


def test_each_step_goes_on_when_the_backends_have_been_killed(store: Store, server: OwnPostgres) -> None:
    fill_the_pool(store)
    kill(server)
    record = added(store)
    kill(server)
    assert [run.run_id for run in store.claims.make_ready(limit=9)] == [record.run.id]
    kill(server)
    [claim] = store.claims.start([Start(record.run.id)], worker="w", epoch=None, lease=LEASE)
    kill(server)
    assert store.claims.renew([record.run.id], worker="w", lease=LEASE) == set()
    kill(server)
    assert store.claims.settle([settlement(claim)]) == [Verdict.SETTLED]
    kill(server)
    assert store.tasks.counts(TENANT, TaskFilter()) == {State.SUCCEEDED: 1}


def test_one_try_more_is_enough_for_many_threads_with_dead_connections(store: Store, server: OwnPostgres) -> None:
    fill_the_pool(store)
    kill(server)
    at_once(lambda: added(store))
    assert store.tasks.counts(TENANT, TaskFilter()) == {State.SCHEDULED: THREAD_COUNT}


def test_work_that_is_killed_before_its_commit_is_done_once(store: Store, server: OwnPostgres) -> None:
    record, pids = added(store), []

    def work(connection: Connection) -> None:
        connection.execute(text("UPDATE tasks SET title = title || '!' WHERE id = :id"), {"id": record.task.id})
        pids.append(connection.scalar(text("SELECT pg_backend_pid()")))
        if len(pids) == 1:
            kill(server, pids[0])
            connection.execute(text("SELECT 1"))

    store._database.write(work)
    assert len(set(pids)) == 2
    assert store.tasks.get(TENANT, record.task.id).task.title == "Call John!"


def test_a_server_that_restarted_at_once_is_noticed_by_nobody(store: Store, server: OwnPostgres) -> None:
    fill_the_pool(store)
    claim = started(store)
    server.restart_at_once()
    assert store.claims.settle([settlement(claim)]) == [Verdict.SETTLED]
    server.restart_at_once()
    at_once(lambda: store.tasks.get(TENANT, claim.task.id))
    everything(store)


def test_a_server_that_is_away_is_one_sentence_and_then_all_goes_on(store: Store, proxy: Proxy) -> None:
    proxy.mode = "down"
    with pytest.raises(StoreUnavailable):  # what was sent on a connection that broke just then may have been stored
        added(store)
    with pytest.raises(StoreUnavailable, match="nothing was read or stored"):
        added(store)
    proxy.mode = "ok"
    everything(store)


# --- the answer to COMMIT is lost -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("token", "end"), [("t", STARTING), ("", COMMIT)], ids=["by one statement", "step by step"])
def test_a_start_whose_answer_is_lost_is_known_to_its_worker(
    store: Store, proxy: Proxy, token: str, end: bytes
) -> None:
    records = [added(store), added(store)]
    wishes = [Start(run.run_id, token) for run in store.claims.make_ready(limit=9)]
    proxy.cut_reply(end)
    claims = store.claims.start(wishes, worker="w", epoch=None, lease=LEASE)
    assert proxy.hits == 1
    assert sorted(claim.run.id for claim in claims) == sorted(record.run.id for record in records)
    assert {(claim.run.attempt, claim.token) for claim in claims} == {(1, token)}
    found = [store.tasks.get(TENANT, record.task.id) for record in records]
    assert {it.run.id: (it.run, it.task) for it in claims} == {it.run.id: (it.run, it.task) for it in found}
    assert set(store.claims.settle([settlement(claim) for claim in claims])) == {Verdict.SETTLED}
    assert kinds(store, records[0].task.id).count(EventKind.STARTED) == 1


def test_a_start_whose_answers_are_lost_again_and_again_is_known_to_its_worker(store: Store, proxy: Proxy) -> None:
    record = added(store)
    store.claims.make_ready(limit=9)
    for end in (STARTING, COMMIT, COMMIT):
        proxy.cut_reply(end)
    [claim] = store.claims.start([Start(record.run.id, "t")], worker="w", epoch=None, lease=LEASE)
    assert proxy.hits == 3
    assert claim.run.attempt == 1
    assert kinds(store, record.task.id) == [EventKind.CREATED, EventKind.READY, EventKind.STARTED]


def test_a_start_that_is_lost_starts_nothing_that_another_worker_has(store: Store, proxy: Proxy) -> None:
    taken, free = added(store), added(store)
    store.claims.make_ready(limit=9)
    store.claims.start([Start(taken.run.id, "older")], worker="w", epoch=None, lease=LEASE)
    wishes = [Start(taken.run.id, "newer"), Start(free.run.id, "t")]
    proxy.cut_reply(STARTING)
    [claim] = store.claims.start(wishes, worker="w", epoch=None, lease=LEASE)
    assert proxy.hits == 1
    assert claim.run.id == free.run.id
    assert kinds(store, taken.task.id).count(EventKind.STARTED) == 1


def test_a_start_that_is_killed_before_it_began_starts_once(store: Store, server: OwnPostgres) -> None:
    record = added(store)
    store.claims.make_ready(limit=9)
    with killed_at_once(store, server):
        [claim] = store.claims.start([Start(record.run.id, "t")], worker="w", epoch=None, lease=LEASE)
    assert claim.run.attempt == 1
    assert kinds(store, record.task.id) == [EventKind.CREATED, EventKind.READY, EventKind.STARTED]


def test_a_start_that_the_server_stores_after_its_connection_broke_is_known_to_its_worker(
    store: Store, proxy: Proxy, server: OwnPostgres
) -> None:
    """It waits for a lock, nobody listens any more, and then it goes on: whoever asks again waits behind it."""
    record = added(store)
    store.claims.make_ready(limit=9)
    with psycopg.connect(plain(server)) as holder, ThreadPoolExecutor(1) as pool:
        holder.execute("SELECT 1 FROM tasks FOR UPDATE")
        starting = pool.submit(store.claims.start, [Start(record.run.id, "t")], worker="w", epoch=None, lease=LEASE)
        until_there_wait(server, 1)
        proxy.mode = "down"
        proxy.mode = "ok"
        until_there_wait(server, 2)
        holder.rollback()
        [claim] = starting.result(60)
    assert (claim.run.attempt, claim.token) == (1, "t")
    assert kinds(store, record.task.id) == [EventKind.CREATED, EventKind.READY, EventKind.STARTED]
    assert store.claims.settle([settlement(claim)]) == [Verdict.SETTLED]


def test_runs_made_ready_whose_answer_is_lost_still_reach_the_queue(store: Store, proxy: Proxy) -> None:
    record = added(store)
    proxy.cut_reply(COMMIT)
    assert [run.run_id for run in store.claims.make_ready(limit=9)] == [record.run.id]
    assert proxy.hits == 1
    assert kinds(store, record.task.id) == [EventKind.CREATED, EventKind.READY]


WITH_KEY = pytest.mark.parametrize(
    "key", [None, IdempotencyKey("k", {"title": "A"})], ids=["without a key", "with a key"]
)


@WITH_KEY
@pytest.mark.parametrize("ends", [[ADDED], [ADDED, COMMIT]], ids=["once", "twice"])
def test_a_task_whose_answer_is_lost_was_scheduled(
    store: Store, proxy: Proxy, key: IdempotencyKey | None, ends: list[bytes]
) -> None:
    for end in ends:
        proxy.cut_reply(end)
    answer = store.tasks.add(*a_task(), actor="alice", key=key)
    assert proxy.hits == len(ends)
    assert answer.created
    assert store.tasks.get(TENANT, answer.record.task.id) == answer.record
    assert store.tasks.counts(TENANT, TaskFilter()) == {State.SCHEDULED: 1}


def test_many_tasks_with_keys_whose_answer_is_lost_were_scheduled(store: Store, proxy: Proxy) -> None:
    items = [NewTask(*a_task(), "alice", IdempotencyKey(name, {"title": name})) for name in ("one", "two")]
    proxy.cut_reply(COMMIT)
    assert [answer.created for answer in store.tasks.add_many(items)] == [True, True]
    assert proxy.hits == 1
    assert store.tasks.counts(TENANT, TaskFilter()) == {State.SCHEDULED: 2}


@WITH_KEY
def test_a_task_that_is_killed_before_it_began_is_scheduled_once(
    store: Store, server: OwnPostgres, key: IdempotencyKey | None
) -> None:
    with killed_at_once(store, server):
        answer = store.tasks.add(*a_task(), actor="alice", key=key)
    assert answer.created
    assert store.tasks.counts(TENANT, TaskFilter()) == {State.SCHEDULED: 1}


@WITH_KEY
def test_a_task_that_the_server_stores_after_its_connection_broke_is_scheduled_once(
    store: Store, proxy: Proxy, server: OwnPostgres, key: IdempotencyKey | None
) -> None:
    with psycopg.connect(plain(server)) as holder, ThreadPoolExecutor(1) as pool:
        holder.execute("LOCK TABLE task_labels IN SHARE MODE")
        adding = pool.submit(store.tasks.add, *a_task(), actor="alice", key=key)
        until_there_wait(server, 1)
        proxy.mode = "down"
        proxy.mode = "ok"
        until_there_wait(server, 2)
        holder.rollback()
        answer = adding.result(60)
    assert answer.created
    assert store.tasks.get(TENANT, answer.record.task.id) == answer.record
    assert store.tasks.counts(TENANT, TaskFilter()) == {State.SCHEDULED: 1}


def test_an_outcome_whose_answer_is_lost_is_stored_once_and_told_once(store: Store, proxy: Proxy) -> None:
    claim = started(store)
    ended: list[CompletedRun] = []
    told = threading.Event()

    def on_settled(each: Any) -> None:
        ended.extend(each)
        told.set()

    proxy.cut_reply(ENDING)
    completer = BatchCompleter(store, on_settled=on_settled)
    completer.start()
    completer.hand_in(ActiveRun(claim), Done("called"))
    assert told.wait(120)
    assert completer.close(60)
    assert proxy.hits == 1
    assert [(each.settlement.run_id, each.stored) for each in ended] == [(claim.run.id, True)]
    assert kinds(store, claim.task.id).count(EventKind.SUCCEEDED) == 1
    record = store.tasks.get(TENANT, claim.task.id)
    assert (record.run.state, record.run.summary) == (State.SUCCEEDED, "called")


def test_an_outcome_whose_commit_is_not_answered_is_known_to_be_stored(store: Store, proxy: Proxy) -> None:
    claim = started(store)
    proxy.cut_reply(COMMIT)
    assert store.claims.settle([replace(settlement(claim), claim=None)]) == [Verdict.SETTLED]
    assert proxy.hits == 1
    assert kinds(store, claim.task.id).count(EventKind.SUCCEEDED) == 1


def test_an_outcome_that_is_killed_before_it_began_is_stored(store: Store, server: OwnPostgres) -> None:
    claim = started(store)
    with killed_at_once(store, server):
        assert store.claims.settle([settlement(claim)]) == [Verdict.SETTLED]
    assert kinds(store, claim.task.id).count(EventKind.SUCCEEDED) == 1


def test_an_outcome_that_the_server_stores_after_its_connection_broke_is_stored_once(
    store: Store, proxy: Proxy, server: OwnPostgres
) -> None:
    claim = started(store)
    with psycopg.connect(plain(server)) as holder, ThreadPoolExecutor(1) as pool:
        holder.execute("SELECT 1 FROM tasks FOR UPDATE")
        settling = pool.submit(store.claims.settle, [settlement(claim)])
        until_there_wait(server, 1)
        proxy.mode = "down"
        proxy.mode = "ok"
        until_there_wait(server, 2)
        holder.rollback()
        assert settling.result(60) == [Verdict.SETTLED]
    assert kinds(store, claim.task.id).count(EventKind.SUCCEEDED) == 1
    assert store.tasks.get(TENANT, claim.task.id).run.state is State.SUCCEEDED


# --- the COMMIT itself is lost ----------------------------------------------------------------------------------------


@contextmanager
def killed_at_once(store: Store, server: OwnPostgres) -> Iterator[None]:
    """Kill the backend of the next statement when it is about to be sent."""

    def first(connection: Connection, *_rest: object) -> None:
        raw: Any = connection.connection.driver_connection
        kill(server, raw.info.backend_pid)

    event.listen(store._database.engine, "before_cursor_execute", first, once=True)
    yield


@contextmanager
def killed_at_commit(store: Store, server: OwnPostgres) -> Iterator[None]:
    """Kill the backend of the next transaction when it is about to commit."""

    def first(connection: Connection) -> None:
        raw: Any = connection.connection.driver_connection
        kill(server, raw.info.backend_pid)

    event.listen(store._database.engine, "commit", first, once=True)
    yield


def test_a_start_that_was_not_committed_says_so_and_starts_later(store: Store, server: OwnPostgres) -> None:
    record = added(store)
    store.claims.make_ready(limit=9)
    with killed_at_commit(store, server), pytest.raises(StoreUnavailable, match="may or may not be stored"):
        store.claims.start([Start(record.run.id)], worker="w", epoch=None, lease=LEASE)
    [claim] = store.claims.start([Start(record.run.id)], worker="w", epoch=None, lease=LEASE)
    assert claim.run.attempt == 1


def test_runs_whose_being_ready_was_not_committed_are_made_ready_again(store: Store, server: OwnPostgres) -> None:
    record = added(store)
    with killed_at_commit(store, server), pytest.raises(StoreUnavailable, match="may or may not be stored"):
        store.claims.make_ready(limit=9)
    assert [run.run_id for run in store.claims.make_ready(limit=9)] == [record.run.id]


def test_tasks_that_were_not_committed_are_not_said_to_be(store: Store, server: OwnPostgres) -> None:
    items = [NewTask(*a_task(), "alice", IdempotencyKey(name, {"title": name})) for name in ("one", "two")]
    with killed_at_commit(store, server), pytest.raises(StoreUnavailable, match="may or may not be stored"):
        store.tasks.add_many(items)
    assert store.tasks.counts(TENANT, TaskFilter()) == {}


def test_an_outcome_that_was_not_committed_is_stored_by_settling_again(store: Store, server: OwnPostgres) -> None:
    claim = started(store)
    ended = replace(settlement(claim), claim=None)
    with killed_at_commit(store, server), pytest.raises(StoreUnavailable, match="may or may not be stored"):
        store.claims.settle([ended])
    assert store.claims.settle([ended]) == [Verdict.SETTLED]
    assert store.claims.settle([ended]) == [Verdict.FENCED]


@pytest.mark.parametrize(("token", "end"), [("t", STARTING), ("", COMMIT)], ids=["by one statement", "step by step"])
def test_a_claim_whose_worker_never_learns_of_it_is_recovered_by_its_lease(
    store: Store, proxy: Proxy, token: str, end: bytes
) -> None:
    record = added(store)
    store.claims.make_ready(limit=9)

    def away(_error: Any) -> None:
        proxy.mode = "down"

    event.listen(store._database.engine, "handle_error", away, once=True)
    proxy.cut_reply(end)
    with pytest.raises(StoreUnavailable, match="may or may not be stored"):
        store.claims.start([Start(record.run.id, token)], worker="w", epoch=None, lease=LEASE)
    proxy.mode = "ok"
    assert store.claims.start([Start(record.run.id, token)], worker="w", epoch=None, lease=LEASE) == []
    late = store.now() + LEASE + timedelta(seconds=1)
    assert len(store.claims.recover_lapsed(epoch=None, held=(), before=late)) == 1
    assert store.tasks.get(TENANT, record.task.id).run.state is State.RETRYING


# --- the server stays away after a start ------------------------------------------------------------------------------


class Site:
    """A claimer and the queue that grants its runs, on a clock of the queue's own."""

    def __init__(self, store: Store, proxy: Proxy) -> None:
        self.store, self.proxy, self.now_ms = store, proxy, 0.0
        self.queue = MemoryQueue(lambda: self.now_ms)
        terms = StartTerms("w", None, LEASE, ["reminder"])
        self.active = ActiveRuns()
        self.claimer = Claimer(
            store, self.queue, self.active, terms, unproven=lambda _held: None, notifier=RunNotifier()
        )

    def granted(self, records: Sequence[TaskRecord]) -> Sequence[Grant]:
        self.queue.put([Entry(each.run.id, key=float(n)) for n, each in enumerate(records)])
        return self.queue.take("w", len(records), 1e6).grants

    def away_at_the_next(self, what: str) -> None:
        event.listen(self.store._database.engine, what, self._away, once=True)

    def _away(self, *_given: Any) -> None:
        self.proxy.mode = "down"


@pytest.fixture
def site(store: Store, proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setattr(postgres, "BUSY_TIMEOUT_S", 0.2)
    return Site(store, proxy)


def unanswered(site: Site) -> TaskRecord:
    """Return a task whose run is started, though its worker was not answered; the server is back."""
    record = added(site.store)
    site.store.claims.make_ready(limit=9)
    grants = site.granted([record])
    site.proxy.cut_reply(STARTING)
    site.away_at_the_next("handle_error")
    with pytest.raises(StoreUnavailable, match="may or may not be stored"):
        site.claimer.claim(grants)
    with pytest.raises(StoreUnavailable):
        site.claimer.give_back()
    site.proxy.mode = "ok"
    return record


def test_a_run_whose_start_was_never_answered_is_handed_back_and_has_not_crashed(site: Site, store: Store) -> None:
    record = unanswered(site)
    assert site.claimer.give_back()
    assert not site.claimer.give_back()
    run = store.tasks.get(TENANT, record.task.id).run
    assert (run.state, run.attempt, run.crashes, run.failures) == (State.SUSPENDED, 1, 0, 0)
    assert kinds(store, record.task.id)[-2:] == [EventKind.STARTED, EventKind.SUSPENDED]


def test_a_worker_that_stops_while_its_maintenance_hands_back_the_same_run_hands_it_back_once(
    site: Site, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    record, settle = unanswered(site), store.claims.settle

    def behind_another(settlements: Sequence[Settlement]) -> Sequence[Verdict]:
        monkeypatch.setattr(store.claims, "settle", settle)
        assert site.claimer.give_back()
        return settle(settlements)

    monkeypatch.setattr(store.claims, "settle", behind_another)
    site.claimer.give_back()
    assert kinds(store, record.task.id)[-2:] == [EventKind.STARTED, EventKind.SUSPENDED]


def test_a_run_that_was_started_before_the_server_went_away_runs_and_the_rest_is_granted_later(
    site: Site, store: Store, proxy: Proxy, server: OwnPostgres
) -> None:
    """One of two is left by the statement that starts them; the transaction that repeats it finds no server."""
    first, paused = added(store), added(store)
    store.claims.make_ready(limit=9)
    with psycopg.connect(plain(server), autocommit=True) as connection:
        connection.execute("UPDATE tasks SET paused = true WHERE id = %s", (paused.task.id,))
    grants = site.granted([first, paused])
    site.away_at_the_next("after_cursor_execute")
    assert site.claimer.claim(grants) == [first.run.id]
    assert site.active.get(first.run.id) is not None
    proxy.mode = "ok"
    assert not site.claimer.give_back()
    site.now_ms = CLAIM_RETRY_DELAY_MS
    assert [grant.run_id for grant in site.queue.take("w", 9, 1e6).grants] == [paused.run.id]
