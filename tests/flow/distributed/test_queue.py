"""A shared queue may go away or lose everything: nobody who works with it fails, and nothing is lost or left behind."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial

import pytest
from duetime.scheduler.dispatch.dispatcher import Dispatcher
from duetime.scheduler.dispatch.placement import Placement
from duetime.scheduler.dispatch.rebuild import (
    IDLE_PROBE_DELAY_S,
    QUEUE_CLAIM_INTERVAL_S,
    QUEUE_PROBE_INTERVAL_S,
    QueueMonitor,
    rebuild,
)
from duetime.scheduler.queue import Entry, Finish, Kind, Limits, QueueLost, QueueUnavailable
from duetime.scheduler.queue.failsafe import FailsafeQueue
from duetime.scheduler.run_records import Start
from duetime.scheduler.runtime.notifier import RunNotifier
from duetime.scheduler.store import Store
from duetime.scheduler.task import State
from duetime.server.telemetry.notice_log import log_notice

from tests.builders import LEASE, NOON, Clock, added, started
from tests.flow.breaking import Breaking

MINUTE_MS = 60_000.0


@pytest.fixture
def inner(clock: Clock) -> Breaking:
    return Breaking(lambda: clock().timestamp() * 1000)


class Seconds:
    """A clock that goes on when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def seconds() -> Seconds:
    return Seconds()


@pytest.fixture
def queue(inner: Breaking, seconds: Seconds) -> FailsafeQueue:
    return FailsafeQueue(inner, clock=seconds)


@pytest.fixture
def claims() -> list[str]:
    return []


@pytest.fixture
def monitor(store: Store, queue: FailsafeQueue, seconds: Seconds, claims: list[str]) -> QueueMonitor:
    def fill() -> None:
        queue.set_pool("gpu", Limits(Kind.SLOTS, 1))

    return QueueMonitor(
        store,
        queue,
        fill=fill,
        placement=Placement(),
        owner="me",
        claim=lambda: claims.append("claimed"),
        notifier=RunNotifier(observers=(log_notice,)),
        clock=seconds,
    )


def ready(store: Store, queue: FailsafeQueue, n: int = 1) -> list[str]:
    """Make `n` runs that are due, and dispatch them."""
    made = [added(store, NOON).run.id for _ in range(n)]
    Dispatcher(store, queue).step()
    return made


# --- while it is away ----------------------------------------------------------------------------------------------


def test_a_queue_that_is_away_hands_out_nothing_and_nobody_fails(queue: FailsafeQueue, inner: Breaking) -> None:
    inner.away = True
    assert queue.put([Entry("r_1", 1.0)]) == 0
    assert queue.take("w", 1, MINUTE_MS).grants == ()
    assert queue.finish("w", [Finish("r_1", "t")]) == set()
    assert queue.give_back("w", "r_1", "t") is False
    assert queue.reap() == []
    assert queue.rescore("r_1", 2.0) is False
    assert queue.cancel("r_1") == "absent"


def test_questions_and_proofs_say_that_it_is_away(queue: FailsafeQueue, inner: Breaking) -> None:
    inner.away = True
    renew = partial(queue.renew, "w", {"r_1": "t"}, MINUTE_MS)
    for ask in (queue.stats, renew, partial(queue.explain, "r_1"), partial(queue.set_pool, "gpu", None)):
        with pytest.raises(QueueUnavailable):
            ask()


def test_once_it_is_known_to_be_away_nobody_waits_for_it_to_time_out(queue: FailsafeQueue, inner: Breaking) -> None:
    inner.away = True
    queue.reap()
    before = inner.asked.total()
    queue.put([Entry("r_1", 1.0)])
    queue.take("w", 1, MINUTE_MS)
    with pytest.raises(QueueUnavailable):
        queue.renew("w", {}, MINUTE_MS)
    assert inner.asked.total() == before


def test_the_first_who_finds_it_away_says_so_and_only_the_first(queue: FailsafeQueue, inner: Breaking) -> None:
    said: list[bool] = []
    queue.on_trouble = lambda: said.append(True)
    inner.away = True
    queue.reap()
    queue.reap()
    assert said == [True]


def test_a_waiting_worker_sleeps_until_the_queue_is_back(queue: FailsafeQueue, inner: Breaking) -> None:
    inner.away = True
    queue.reap()
    waiter = threading.Thread(target=queue.wait, args=(0, 600.0))
    waiter.start()
    assert waiter.is_alive()
    inner.away = False
    queue.back()
    waiter.join(120)
    assert not waiter.is_alive()


def test_a_waiting_worker_can_be_stopped_while_the_queue_is_away(queue: FailsafeQueue, inner: Breaking) -> None:
    inner.away = True
    queue.reap()
    waiter = threading.Thread(target=queue.wait, args=(0, 600.0))
    waiter.start()
    while waiter.is_alive() and time.monotonic():
        queue.wake()
        waiter.join(0.01)
    assert not waiter.is_alive()


def test_an_ending_that_could_not_be_told_is_told_when_it_is_back(
    queue: FailsafeQueue, inner: Breaking, clock: Clock
) -> None:
    queue.set_pool("gpu", Limits(Kind.SLOTS, 1))
    queue.put([Entry("r_1", 1.0, needs={"gpu": 1}), Entry("r_2", 2.0, needs={"gpu": 1})])
    (grant,) = queue.take("w", 2, MINUTE_MS).grants
    inner.away = True
    queue.finish("w", [Finish("r_1", grant.token)])
    inner.away = False
    queue.back()
    assert queue.take("w", 2, MINUTE_MS).run_ids == ("r_2",), "its pool is free again"


def one_started(queue: FailsafeQueue) -> Finish:
    """Start the first of two runs, which has the only unit of a pool; return its end."""
    queue.set_pool("gpu", Limits(Kind.SLOTS, 1))
    queue.put([Entry("r_1", 1.0, needs={"gpu": 1}), Entry("r_2", 2.0, needs={"gpu": 1})])
    (grant,) = queue.take("w", 2, MINUTE_MS).grants
    return Finish("r_1", grant.token)


def test_a_result_whose_call_fails_as_the_queue_comes_back_is_sent(queue: FailsafeQueue, inner: Breaking) -> None:
    end = one_started(queue)

    def mend() -> None:
        inner.away = False
        queue.back()

    queue.on_trouble = mend
    inner.away = True
    queue.finish("w", [end])
    assert queue.take("w", 2, MINUTE_MS).run_ids == ("r_2",), "its pool is free again"


class BackAtAppend(deque[Callable[[], object]]):
    """Results that are kept: as one is appended, another thread mends the queue, and is given time to be first."""

    def __init__(self, mend: Callable[[], None]) -> None:
        super().__init__()
        self.mending = threading.Thread(target=mend)

    def append(self, call: Callable[[], object], /) -> None:
        self.mending.start()
        self.mending.join(0.1)
        super().append(call)


def test_a_result_that_is_kept_as_the_queue_comes_back_is_sent(queue: FailsafeQueue, inner: Breaking) -> None:
    end = one_started(queue)
    inner.away = True
    queue.reap()
    inner.away = False
    queue._owed = owed = BackAtAppend(queue.back)
    queue.finish("w", [end])
    owed.mending.join()
    assert queue.take("w", 2, MINUTE_MS).run_ids == ("r_2",), "its pool is free again"


def test_a_run_that_could_not_be_given_back_is_given_back_later(queue: FailsafeQueue, inner: Breaking) -> None:
    queue.put([Entry("r_1", 1.0)])
    (grant,) = queue.take("w", 1, MINUTE_MS).grants
    inner.away = True
    queue.give_back("w", "r_1", grant.token)
    inner.away = False
    queue.back()
    assert queue.take("other", 1, MINUTE_MS).run_ids == ("r_1",)


def test_runs_of_a_lost_answer_are_requested_again(queue: FailsafeQueue, inner: Breaking) -> None:
    queue.put([Entry("r_1", 1.0), Entry("r_2", 2.0)])
    inner.deaf = 1
    assert queue.take("w", 1, MINUTE_MS, nonce="first").run_ids == ()
    queue.back()
    assert queue.take("w", 1, MINUTE_MS, nonce="second").run_ids == ("r_1",), "not the next one"
    assert queue.take("w", 1, MINUTE_MS, nonce="third").run_ids == ("r_2",)


# --- what looks after it ----------------------------------------------------------------------------------------------


def test_a_run_that_fell_due_while_the_queue_was_away_is_put_when_it_is_back(
    store: Store, queue: FailsafeQueue, inner: Breaking, monitor: QueueMonitor
) -> None:
    inner.away = True
    made = ready(store, queue, 3)
    assert monitor.step() == QUEUE_PROBE_INTERVAL_S
    inner.away = False
    assert monitor.step() == pytest.approx(IDLE_PROBE_DELAY_S)
    assert sorted(queue.take("w", 9, MINUTE_MS).run_ids) == sorted(made)


def test_a_queue_that_is_well_is_looked_at_now_and_then(
    inner: Breaking, monitor: QueueMonitor, seconds: Seconds
) -> None:
    assert monitor.step() == pytest.approx(IDLE_PROBE_DELAY_S)
    assert dict(inner.asked) == {"explain": 1}
    seconds.now += IDLE_PROBE_DELAY_S
    assert monitor.step() == pytest.approx(IDLE_PROBE_DELAY_S)
    assert dict(inner.asked) == {"explain": 2}


def test_a_queue_that_answers_others_is_not_looked_at(
    inner: Breaking, queue: FailsafeQueue, monitor: QueueMonitor, seconds: Seconds, claims: list[str]
) -> None:
    monitor.step()
    while seconds.now < 1000 + QUEUE_CLAIM_INTERVAL_S - IDLE_PROBE_DELAY_S:
        seconds.now += IDLE_PROBE_DELAY_S / 2
        queue.take("w", 1, MINUTE_MS)
        assert monitor.step() == pytest.approx(min(IDLE_PROBE_DELAY_S, 1000 + QUEUE_CLAIM_INTERVAL_S - seconds.now))
    assert (inner.asked["explain"], len(claims)) == (1, 1)


def test_a_queue_is_claimed_again_though_it_answers_others(
    queue: FailsafeQueue, monitor: QueueMonitor, seconds: Seconds, claims: list[str]
) -> None:
    monitor.step()
    seconds.now += QUEUE_CLAIM_INTERVAL_S
    queue.take("w", 1, MINUTE_MS)
    assert monitor.step() == pytest.approx(IDLE_PROBE_DELAY_S)
    assert len(claims) == 2


def test_a_queue_that_was_away_is_claimed_before_it_is_used_again(
    inner: Breaking, queue: FailsafeQueue, monitor: QueueMonitor, seconds: Seconds, claims: list[str]
) -> None:
    monitor.step()
    inner.away = True
    queue.take("w", 1, MINUTE_MS)
    seconds.now += QUEUE_PROBE_INTERVAL_S
    assert monitor.step() == QUEUE_PROBE_INTERVAL_S
    inner.away = False
    monitor.step()
    assert queue.away is None
    assert len(claims) > 1


def test_an_outage_is_noticed_and_logged_by_a_process_that_asks_the_queue_nothing(
    queue: FailsafeQueue, inner: Breaking, monitor: QueueMonitor, seconds: Seconds, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        for away in (False, True, True, False):
            inner.away = away
            seconds.now += monitor.step()
            monitor.step()
            assert (queue.away is not None) is away
    assert [message.split(":")[0].split(" after")[0] for message in caplog.messages] == [
        "the queue is unreachable, due runs start when it is back",
        "the queue is reachable again",
    ]


def test_an_outage_is_two_lines_in_the_log_however_long_it_is(
    store: Store, queue: FailsafeQueue, inner: Breaking, monitor: QueueMonitor, caplog: pytest.LogCaptureFixture
) -> None:
    inner.away = True
    with caplog.at_level(logging.INFO):
        for _ in range(50):
            ready(store, queue)
            queue.take("w", 1, MINUTE_MS)
            monitor.step()
        inner.away = False
        monitor.step()
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    assert "the queue is unreachable" in caplog.messages[0]
    assert "connection refused" in caplog.messages[0]
    assert "the queue is reachable again" in caplog.messages[1]


def test_a_queue_that_lost_everything_is_rebuilt_with_what_runs_and_what_is_ready(
    store: Store, queue: FailsafeQueue, inner: Breaking, monitor: QueueMonitor
) -> None:
    running, waiting = ready(store, queue, 2)
    queue.set_pool("gpu", Limits(Kind.SLOTS, 1))
    store.claims.start([Start(running, "t1", {"gpu": 1})], worker="w", epoch=None, lease=LEASE)
    inner.lose_everything()
    assert queue.take("w", 9, MINUTE_MS).run_ids == ()
    assert monitor.step() == pytest.approx(IDLE_PROBE_DELAY_S)
    assert queue.stats().pools["gpu"].used == 1
    assert queue.take("w", 9, MINUTE_MS).run_ids == (waiting,)
    assert queue.renew("w", {running: "t1", "r_none": "t2"}, MINUTE_MS) == {"r_none"}, "its old token holds it"
    assert queue.finish("w", [Finish(running, "t1")]) == set()
    assert queue.stats().pools["gpu"].used == 0


def test_an_empty_queue_is_rebuilt_before_anything_starts(
    store: Store, queue: FailsafeQueue, inner: Breaking, monitor: QueueMonitor, caplog: pytest.LogCaptureFixture
) -> None:
    made = ready(store, queue, 2)
    inner.lose_everything()
    with caplog.at_level(logging.INFO):
        monitor.open()
    assert sorted(queue.take("w", 9, MINUTE_MS).run_ids) == sorted(made)
    assert caplog.messages == ["rebuilt the empty queue from the database"], "it was never away"


def test_only_one_of_many_rebuilds_and_the_others_wait_for_it(
    store: Store, queue: FailsafeQueue, inner: Breaking, monitor: QueueMonitor
) -> None:
    made = ready(store, queue, 2)
    inner.lose_everything()
    queue.reap()
    assert inner.begin_rebuild("another")
    inner.lost = True  # as it looks to who asks before the other has written anything
    assert monitor.step() == QUEUE_PROBE_INTERVAL_S
    inner.lost = False
    assert inner.end_rebuild("another")
    assert monitor.step() == pytest.approx(IDLE_PROBE_DELAY_S)
    assert sorted(queue.take("w", 9, MINUTE_MS).run_ids) == sorted(made)


def test_while_another_fills_it_nobody_reads_all_that_is_ready_again_and_again(
    store: Store, queue: FailsafeQueue, inner: Breaking, monitor: QueueMonitor
) -> None:
    made = ready(store, queue, 2)
    assert inner.begin_rebuild("another")
    with pytest.raises(QueueLost):
        queue.renew("w", {"r_1": "t"}, MINUTE_MS)
    inner.asked.clear()
    assert [monitor.step() for _ in range(3)] == [QUEUE_PROBE_INTERVAL_S] * 3
    assert (inner.asked["put"], inner.asked["begin_rebuild"]) == (0, 0)
    assert inner.end_rebuild("another")
    assert monitor.step() == pytest.approx(IDLE_PROBE_DELAY_S)
    assert sorted(queue.take("w", 9, MINUTE_MS).run_ids) == sorted(made)


def test_a_rebuild_that_was_lost_on_the_way_says_so(store: Store, queue: FailsafeQueue, inner: Breaking) -> None:
    def taken_over() -> None:
        inner.end_rebuild("me")
        inner.begin_rebuild("another")

    assert rebuild(store, inner, fill=taken_over, placement=Placement(), owner="me") is False


def test_more_than_a_rebuild_has_time_for_follows_while_runs_are_handed_out(
    store: Store, queue: FailsafeQueue, inner: Breaking, monitor: QueueMonitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, seconds = ready(store, queue, 5), itertools.count(step=6.0)
    monkeypatch.setattr("duetime.scheduler.dispatch.rebuild.READY_PAGE_ROWS", 1)
    assert rebuild(store, inner, fill=lambda: None, placement=Placement(), owner="me", clock=lambda: next(seconds)), (
        "well before half a minute has passed"
    )
    assert sum(queue.stats().waiting) == 2
    inner.lose_everything()
    queue.reap()
    assert monitor.step() == pytest.approx(IDLE_PROBE_DELAY_S)
    assert sorted(queue.take("w", 9, MINUTE_MS).run_ids) == sorted(made)


def test_a_rebuild_without_a_database_is_tried_again_by_the_same_process(
    store: Store, queue: FailsafeQueue, inner: Breaking, monitor: QueueMonitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = ready(store, queue)
    inner.lose_everything()
    queue.reap()
    with monkeypatch.context() as broken:
        broken.setattr(store.claims, "running", lambda **_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            monitor.step()
    assert queue.away is not None
    assert monitor.step() == pytest.approx(IDLE_PROBE_DELAY_S)
    assert list(queue.take("w", 9, MINUTE_MS).run_ids) == made


def test_a_run_whose_lease_is_over_is_adopted_and_left_to_the_database(
    store: Store, queue: FailsafeQueue, inner: Breaking, monitor: QueueMonitor, clock: Clock
) -> None:
    claim = started(store)
    clock.forward(seconds=60)
    inner.lose_everything()
    queue.reap()
    monitor.step()
    assert queue.stats().leased == 1
    assert store.tasks.get(claim.task.tenant, claim.task.id).run.state is State.RUNNING
