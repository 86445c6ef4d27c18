"""The parts of a shared installation, each by itself: news, heartbeats, the parent of workers, what doctor says."""

from __future__ import annotations

import gc
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from unittest.mock import MagicMock, Mock

import pytest
from duetime.scheduler.audit.entry import AuditEntry, AuditKind
from duetime.scheduler.errors import StoreUnavailable
from duetime.scheduler.nodes.heartbeat import (
    DRAIN_CHECK_INTERVAL_S,
    DRAINED,
    RUNNING,
    WORKER_FORGOTTEN_AFTER,
    WORKER_HEARTBEAT_INTERVAL_S,
    Heartbeat,
    any_worker_alive,
    state_of,
)
from duetime.scheduler.principal import LOCAL
from duetime.scheduler.queue import QueueUnavailable
from duetime.scheduler.queue.redis import health as redis_health
from duetime.scheduler.queue.redis.health import RedisHealth
from duetime.scheduler.queue.redis.pubsub import RedisSignalBus
from duetime.scheduler.records import WorkerProcess
from duetime.scheduler.store import Store
from duetime.scheduler.store.workers import DrainMode
from duetime.server.doctor import distributed
from duetime.server.doctor.distributed import actions_check, redis_check, skew_check, worker_actions, workers_check
from duetime.server.runtime import shutdown
from duetime.server.runtime.shutdown import Shutdown
from duetime.server.settings.model import Settings
from duetime.server.workers import supervisor, worker
from duetime.server.workers.supervisor import (
    MAX_RESTART_PAUSE_S,
    MIN_RESTART_PAUSE_S,
    STEADY_PROCESS_S,
    ChildProcess,
    run_processes,
)
from duetime.server.workers.worker import REPLACE_EXIT_CODE

from tests.builders import NOON, TENANT, Clock, added
from tests.flow.waiting import eventually
from tests.services import valkey_server

SETTINGS = Settings(
    database_url="postgresql+psycopg://localhost/duetime", redis_url="redis://:hunter2@localhost:1/0", timezone="UTC"
)


# --- news -------------------------------------------------------------------------------------------------------------


class Ears:
    """Remembers what was heard."""

    def __init__(self) -> None:
        self.words: list[str] = []

    def __call__(self, word: str) -> None:
        self.words.append(word)


def test_news_reach_all_others_of_the_namespace_and_nobody_else(valkey_url: str, tmp_path: Path) -> None:
    namespace = tmp_path.name
    one, other, stranger = (RedisSignalBus(valkey_url, namespace=name) for name in (namespace, namespace, "stranger"))
    ears = {news: Ears() for news in (one, other, stranger)}
    for news, heard in ears.items():
        news.listen(heard)

    def told() -> bool:
        one.send("due")
        return bool(ears[other].words)

    eventually(told, "the other receives it")
    assert set(ears[other].words) == {"due"}
    assert ears[one].words == ears[stranger].words == []
    for news in ears:
        news.close()


def test_news_are_heard_again_after_redis_was_away(tmp_path: Path) -> None:
    with valkey_server() as url:
        one, other, heard = RedisSignalBus(url), RedisSignalBus(url), Ears()
        other.listen(heard)

        def told() -> bool:
            one.send("due")
            return bool(heard.words)

        eventually(told, "it is heard")
        one._client.client_kill_filter(_type="pubsub")
        heard.words.clear()
        eventually(told, "it is heard again")
        one.close()
        other.close()


def test_a_listener_without_signals_stops_immediately(valkey_url: str, tmp_path: Path) -> None:
    news, other = (RedisSignalBus(valkey_url, namespace=tmp_path.name) for _ in range(2))
    heard = Ears()
    news.listen(heard)

    def told() -> bool:
        other.send("due")
        return bool(heard.words)

    eventually(told, "it listens")
    news.close()
    assert not news._loop._thread.is_alive()
    other.close()


def test_publishing_to_an_unreachable_redis_does_not_fail() -> None:
    news = RedisSignalBus("redis://127.0.0.1:1/0")
    news.send("due")
    news.close()


# --- heartbeats -------------------------------------------------------------------------------------------------------


def test_a_worker_says_who_it_is_how_it_fares_and_that_it_ends(store: Store, clock: Clock) -> None:
    heartbeat = Heartbeat(store, "w1", threads=lambda: 4, running=lambda: 3, lost_threads=lambda: 2)
    assert heartbeat.step() == WORKER_HEARTBEAT_INTERVAL_S
    (row,) = store.workers.all()
    assert (row.id, row.threads, row.running, row.state, row.seen_at) == ("w1", 4, 3, "running", NOON)
    assert row.lost_threads == 2
    clock.forward(seconds=5)
    heartbeat.step()
    assert store.workers.all()[0].seen_at == clock()
    heartbeat.draining()
    assert store.workers.all()[0].state == "draining"
    heartbeat.gone()
    assert store.workers.all() == []


def test_a_heartbeat_passes_the_requests_of_operators_to_its_worker(store: Store) -> None:
    left, asked = [2], list[DrainMode | None]()

    def follow(mode: DrainMode | None) -> bool:
        asked.append(mode)
        return len(asked) == 2

    heartbeat = Heartbeat(store, "w1", threads=lambda: 4, running=lambda: left[0], follow=follow)
    heartbeat.step()
    store.workers.drain(None, DrainMode.FINISH, AuditEntry.by(LOCAL, AuditKind.WORKER_DRAINED))
    (row,) = store.workers.all()
    assert (row.state, state_of(row, store.now())) == ("running", "draining"), "it has not answered yet"
    assert heartbeat.step() == DRAIN_CHECK_INTERVAL_S
    assert asked == [None, DrainMode.FINISH]
    assert store.workers.all()[0].state == "draining", "said at once"
    assert not any_worker_alive(store)
    left[0] = 0
    assert heartbeat.step() == WORKER_HEARTBEAT_INTERVAL_S
    assert store.workers.all()[0].state == "drained"
    store.workers.resume("w1", AuditEntry.by(LOCAL, AuditKind.WORKER_RESUMED))
    heartbeat.step()
    heartbeat.step()
    assert (asked[-1], store.workers.all()[0].state, any_worker_alive(store)) == (None, "running", True)


def test_workers_that_were_not_heard_of_for_long_are_forgotten(store: Store, clock: Clock) -> None:
    store.workers.beat(WorkerProcess("dead", "host", 1, 4, clock()))
    clock.forward(seconds=WORKER_FORGOTTEN_AFTER.total_seconds() + 1)
    Heartbeat(store, "w1", threads=lambda: 4, running=lambda: 0).step()
    assert [row.id for row in store.workers.all()] == ["w1"]


def test_a_worker_that_ends_without_a_database_ends_all_the_same(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: object) -> None:
        raise StoreUnavailable("away")

    heartbeat = Heartbeat(store, "w1", threads=lambda: 4, running=lambda: 0)
    monkeypatch.setattr(store.workers, "beat", away)
    monkeypatch.setattr(store.workers, "remove", away)
    heartbeat.draining()
    heartbeat.gone()


# --- the parent of workers --------------------------------------------------------------------------------------------


DYING = [sys.executable, "-c", "raise SystemExit(3)"]
STUBBORN = [sys.executable, "-c", "import time; time.sleep(600)"]


def wait_for_death(place: ChildProcess) -> None:
    assert place.process is not None
    place.process.wait(60)


def test_a_process_that_dies_at_its_start_is_replaced_after_longer_and_longer_pauses() -> None:
    place, now, pauses = ChildProcess(1, DYING), 0.0, []
    for _ in range(8):
        place.look(now)
        wait_for_death(place)
        place.look(now)
        assert place.process is None, "not at once"
        pauses.append(place.start_at - now)
        now = place.start_at
    assert pauses == [0.5, 1, 2, 4, 8, MAX_RESTART_PAUSE_S, MAX_RESTART_PAUSE_S, MAX_RESTART_PAUSE_S]


def test_a_process_that_had_worked_for_long_is_replaced_after_the_shortest_pause() -> None:
    place = ChildProcess(1, DYING)
    for now in (0.0, 100.0):
        place.look(now)
        wait_for_death(place)
        place.look(now + STEADY_PROCESS_S)
        assert place.start_at - now - STEADY_PROCESS_S == MIN_RESTART_PAUSE_S


def test_a_process_that_the_machine_has_no_room_for_is_tried_again_later(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    place = ChildProcess(1, STUBBORN)
    with monkeypatch.context() as full:
        full.setattr(subprocess, "Popen", Mock(side_effect=BlockingIOError(11, "Resource temporarily unavailable")))
        for now in (0.0, MIN_RESTART_PAUSE_S / 2, MIN_RESTART_PAUSE_S):
            place.look(now)
    assert [record.getMessage() for record in caplog.records] == [
        f"cannot start worker process 1; retrying in {pause:g} s: [Errno 11] Resource temporarily unavailable"
        for pause in (MIN_RESTART_PAUSE_S, 2 * MIN_RESTART_PAUSE_S)
    ]
    place.look(place.start_at)
    assert place.process is not None
    place.end()
    place.wait(time.monotonic())


def test_a_process_that_does_not_end_is_killed() -> None:
    place = ChildProcess(1, STUBBORN)
    place.look(0.0)
    process = place.process
    assert process is not None
    place.end()
    place.wait(time.monotonic() + 0.2)
    assert process.poll() == -signal.SIGKILL


def test_a_process_receives_the_signal_to_end_from_its_parent() -> None:
    place = ChildProcess(1, [sys.executable, "-c", "import sys; sys.exit(sys.stdin.buffer.read() != b'end\\n')"])
    place.look(0.0)
    process = place.process
    assert process is not None
    place.end()
    place.wait(time.monotonic() + 60)
    assert process.returncode == 0


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no thread of another test count: with one left, an `AttemptResult` ends the whole process."""
    monkeypatch.setattr(shutdown, "_others_alive", lambda: False)


@pytest.mark.usefixtures("alone")
def test_the_parent_ends_with_0_and_leaves_nobody_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "KILL_GRACE_S", 0.1)
    monkeypatch.setattr(supervisor, "HAND_BACK_GRACE_S", 0.1)
    begun: list[subprocess.Popen[bytes]] = []
    look = ChildProcess.look

    def looked(place: ChildProcess, now: float) -> None:
        look(place, now)
        if place.process is not None and place.process not in begun:
            begun.append(place.process)
            if len(begun) == 2:
                signal.raise_signal(signal.SIGTERM)  # once: a second one would end this very process

    monkeypatch.setattr(ChildProcess, "look", looked)
    assert run_processes(SETTINGS.model_copy(update={"processes": 2, "grace_seconds": 0.1}), STUBBORN) == 0
    assert [process.poll() for process in begun] == [-signal.SIGKILL] * 2


@pytest.mark.usefixtures("alone")
def test_an_end_that_came_in_time_is_not_forced_afterwards() -> None:
    with Shutdown(600) as end:
        end.begin("it is time")
        limit = next(thread for thread in threading.enumerate() if isinstance(thread, threading.Timer))
    limit.join(60)
    assert not limit.is_alive()


# --- what doctor says -------------------------------------------------------------------------------------------------


def of_redis(monkeypatch: pytest.MonkeyPatch, health: RedisHealth | Exception) -> tuple[str, str, str]:
    def examine(_url: str) -> RedisHealth:
        if isinstance(health, Exception):
            raise health
        return health

    monkeypatch.setattr(redis_health, "examine", examine)
    check = redis_check(SETTINGS)
    assert "hunter2" not in check.finding + check.advice
    return check.verdict.value, check.finding, check.advice


def test_a_redis_that_keeps_what_it_is_given_is_well(monkeypatch: pytest.MonkeyPatch) -> None:
    said = of_redis(monkeypatch, RedisHealth("Valkey 9.0.0", (9, 0, 0), "noeviction"))
    assert said == ("ok", "redis://:***@localhost:1/0 (Valkey 9.0.0)", "")


def test_a_redis_that_drops_keys_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    verdict, said, advice = of_redis(monkeypatch, RedisHealth("Redis 8.0.0", (8, 0, 0), "allkeys-lru"))
    assert (verdict, advice) == ("wrong", "Set maxmemory-policy noeviction.")
    assert "allkeys-lru" in said


def test_a_redis_that_is_too_old_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    verdict, said, _ = of_redis(monkeypatch, RedisHealth("Redis 6.0.16", (6, 0, 16), "noeviction"))
    assert (verdict, "Redis 6.0.16" in said) == ("wrong", True)


def test_a_redis_that_does_not_answer_is_wrong_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    verdict, said, advice = of_redis(monkeypatch, QueueUnavailable("TimeoutError: no answer"))
    assert (verdict, "TimeoutError: no answer" in said) == ("wrong", True)
    assert "Tasks can be scheduled, but none starts" in advice


def test_a_real_server_says_what_it_is(valkey_url: str) -> None:
    health = redis_health.examine(valkey_url)
    assert health.name.startswith(("Valkey ", "Redis "))
    assert health.version >= distributed.MIN_REDIS_VERSION
    assert health.eviction == "noeviction"


def test_a_server_that_is_not_there_is_said_to_be_away() -> None:
    with pytest.raises(QueueUnavailable, match="ConnectionError"):
        redis_health.examine("redis://127.0.0.1:1/0")


@pytest.mark.parametrize(("hours", "words"), [(1, "behind"), (-1, "ahead of")])
def test_a_clock_that_differs_from_the_databases_is_wrong(
    store: Store, monkeypatch: pytest.MonkeyPatch, hours: float, words: str
) -> None:
    monkeypatch.setattr(store, "now", lambda: datetime.now(UTC) + timedelta(hours=hours))
    check = skew_check(store)
    assert (check.verdict.value, f"3600.0 s {words} the database" in check.finding) == ("wrong", True)


def test_clocks_that_agree_are_well(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "now", lambda: datetime.now(UTC))
    assert skew_check(store).verdict.value == "ok"


def test_workers_count_while_they_are_heard_of(store: Store, clock: Clock) -> None:
    assert workers_check(store).verdict.value == "wrong"
    store.workers.beat(WorkerProcess("w1", "host", 1, 4, clock()))
    assert workers_check(store).finding.startswith("1 process with 4 threads")
    clock.forward(seconds=16)
    assert workers_check(store).verdict.value == "wrong"


def test_doctor_says_that_all_workers_are_drained_and_how_they_take_runs_again(store: Store, clock: Clock) -> None:
    for name in ("w1", "w2"):
        store.workers.beat(WorkerProcess(name, "host", 1, 4, clock()))
    asked = AuditEntry("acme", AuditKind.WORKER_DRAINED, "ann")
    store.workers.drain("w1", DrainMode.FINISH, asked)
    some = workers_check(store)
    assert (some.verdict.value, some.finding) == (
        "ok", "2 processes with 8 threads, 1 of them draining; `duetime workers` lists them",
    )  # fmt: skip
    store.workers.drain("w2", DrainMode.FINISH, asked)
    every = workers_check(store)
    said = "no run starts: 2 processes with 8 threads, and all are draining."
    assert (every.verdict.value, every.finding) == ("wrong", said)
    for each, are in zip(store.workers.all(), ("drained or draining", "drained"), strict=True):
        store.workers.beat(replace(each, state=DRAINED))  # nothing runs there any more
        assert workers_check(store).finding == f"no run starts: 2 processes with 8 threads, and all are {are}."
    assert "`duetime workers resume --all`" in every.advice
    store.workers.resume(None, replace(asked, kind=AuditKind.WORKER_RESUMED))
    store.workers.beat(replace(store.workers.all()[0], state=RUNNING))
    assert workers_check(store).verdict.value == "ok"


def test_doctor_names_an_action_that_no_worker_knows(store: Store, clock: Clock) -> None:
    added(store, action="resize", payload={})
    store.claims.make_ready(limit=9)
    store.workers.beat(WorkerProcess("w1", "host", 1, 4, clock(), actions=("reminder",)))
    assert actions_check(worker_actions, store).finding == "no worker knows the action 'resize', and runs of it wait."
    store.workers.beat(WorkerProcess("w2", "host", 2, 4, clock(), actions=("resize",)))
    assert actions_check(worker_actions, store).verdict.value == "ok"


def test_doctor_names_an_external_action_that_no_worker_elsewhere_claims(store: Store, clock: Clock) -> None:
    added(store, action="transcribe", payload={})
    store.claims.make_ready(limit=9)
    store.workers.beat(WorkerProcess("w1", "host", 1, 4, clock(), actions=("reminder",)))
    looked = partial(actions_check, worker_actions, store, external=["transcribe"])
    assert looked().finding == "no worker elsewhere claims the external action 'transcribe', and runs of it wait."
    store.external_workers.asked("globex", "bot", ("transcribe",), client=None, everywhere=False)
    assert looked().verdict.value == "wrong"
    store.external_workers.asked(TENANT, "bot", ("transcribe",), client=None, everywhere=False)
    assert looked().verdict.value == "ok"


# --- a worker process with too many lost threads ----------------------------------------------------------------------


def test_a_worker_process_with_too_many_lost_threads_ends_to_be_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    app = MagicMock()

    def built(*_: object, exhausted: Callable[[], None], **__: object) -> MagicMock:
        app.__enter__.return_value.start.side_effect = exhausted
        return app

    monkeypatch.setattr(worker, "build", built)
    monkeypatch.setattr(worker, "configure_logs", lambda *_, **__: None)
    monkeypatch.setattr(gc, "freeze", lambda: None)
    # A worker process does not wait for threads that are stuck; this process has some of other tests.
    monkeypatch.setattr("duetime.server.runtime.shutdown._others_alive", lambda: False)
    assert worker.run_worker(SETTINGS) == REPLACE_EXIT_CODE
    app.__exit__.assert_called_once()  # what runs has been handed back
