"""A wait for the queue in Redis ends at its time, sends nothing until then, and takes no baton without saying so."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from statistics import median
from threading import Thread
from uuid import uuid4

import pytest
import redis
from duetime.scheduler.queue import QueueUnavailable
from duetime.scheduler.queue.redis.queue import RedisQueue
from duetime.scheduler.queue.redis.wakeup import MAX_BLOCKING_S, WakeupToken, connect

from tests.services import valkey_server

TOKEN = "1"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Start a server that nobody else asks anything, and that may be made to refuse things."""
    with valkey_server() as url:
        yield url


@pytest.fixture
def server(url: str) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(url, decode_responses=True) as client:
        yield client


@pytest.fixture
def wakeup(url: str) -> Iterator[WakeupToken]:
    with connect(url) as client:
        wakeup = WakeupToken(client, f"{{{uuid4().hex}}}")
        wakeup.wait(wakeup.generation, 0.05)  # both connections are there from now on
        yield wakeup


def waited(wakeup: WakeupToken, timeout: float) -> bool:
    """Wait, and return whether something was heard."""
    generation = wakeup.generation
    wakeup.wait(generation, timeout)
    return wakeup.generation != generation


def asked(server: redis.Redis) -> dict[str, int]:
    counts = {name.removeprefix("cmdstat_"): of["calls"] for name, of in server.info("commandstats").items()}
    return {name: calls for name, calls in counts.items() if name not in {"info", "config|resetstat"}}


def before_the_end_of_a_wait(wakeup: WakeupToken, monkeypatch: pytest.MonkeyPatch, then: Callable[[], object]) -> None:
    end = wakeup._end_listening

    def later(connection: redis.Connection) -> bool:
        then()
        return end(connection)

    monkeypatch.setattr(wakeup, "_end_listening", later)


@pytest.mark.parametrize("timeout", [0.0, 0.0005, 0.03, 0.3, 1.4])
def test_a_wait_ends_at_its_time_though_redis_looks_at_the_time_once_a_second(
    wakeup: WakeupToken, server: redis.Redis, timeout: float
) -> None:
    server.config_set("hz", "1")
    late = []
    for _ in range(5):
        began = time.monotonic()
        assert not waited(wakeup, timeout)
        late.append(time.monotonic() - began - timeout)
    assert min(late) >= 0
    assert median(late) < 0.25  # Redis would be late by up to a second; some may be, on a machine that does much else


def test_a_wait_asks_once_when_it_begins_and_once_when_it_ends(wakeup: WakeupToken, server: redis.Redis) -> None:
    server.config_resetstat()
    assert not waited(wakeup, 1.0)
    assert asked(server).items() <= {"blpop": 1, "lpush": 1, "expire": 1, "del": 1}.items()


def test_a_baton_ends_a_wait_and_is_gone(wakeup: WakeupToken, server: redis.Redis) -> None:
    server.lpush(wakeup._wakeup, TOKEN)
    assert waited(wakeup, 60)
    assert server.llen(wakeup._wakeup) == 0


def test_a_baton_that_comes_before_the_end_of_a_wait_is_heard_of(
    wakeup: WakeupToken, server: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    before_the_end_of_a_wait(wakeup, monkeypatch, lambda: server.lpush(wakeup._wakeup, TOKEN))
    assert waited(wakeup, 0.05)
    assert server.llen(wakeup._wakeup) == 0
    monkeypatch.undo()
    assert not waited(wakeup, 0.05), "what came too late to end the first wait has ended the second"


def test_a_baton_that_comes_after_the_end_of_a_wait_is_left_for_others(
    wakeup: WakeupToken, server: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    end = wakeup._end_listening

    def sooner(connection: redis.Connection) -> bool:
        ended = end(connection)
        server.lpush(wakeup._wakeup, TOKEN)
        return ended

    monkeypatch.setattr(wakeup, "_end_listening", sooner)
    assert not waited(wakeup, 0.05)
    assert server.llen(wakeup._wakeup) == 1


def test_no_baton_is_lost_when_it_comes_about_when_a_wait_ends(wakeup: WakeupToken, server: redis.Redis) -> None:
    swallowed = []
    for n in range(200):
        pushing = Thread(target=server.lpush, args=(wakeup._wakeup, TOKEN))
        before = wakeup.generation
        waiting = Thread(target=wakeup.wait, args=(before, wakeup._before + 0.0001 * (n % 40)))
        waiting.start()
        pushing.start()
        for thread in (waiting, pushing):
            thread.join()
        heard, left = wakeup.generation - before, server.llen(wakeup._wakeup)
        if heard + left != 1:
            swallowed.append((n, heard, left))
        server.delete(wakeup._wakeup)
    assert not swallowed


def test_a_waiter_that_gives_up_leaves_the_line(
    wakeup: WakeupToken, server: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(connection: redis.Connection, timeout: float = 0) -> bool:
        if timeout:
            raise KeyboardInterrupt
        return False

    monkeypatch.setattr(redis.Connection, "can_read", interrupted)
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        wakeup.wait(wakeup.generation, 60)
    while server.info("clients")["blocked_clients"]:
        assert time.monotonic() < began + MAX_BLOCKING_S / 2
    server.lpush(wakeup._wakeup, TOKEN)
    assert server.llen(wakeup._wakeup) == 1
    monkeypatch.undo()
    assert waited(wakeup, 60)


def test_a_redis_that_refuses_to_store_anything_ends_waits_by_itself(wakeup: WakeupToken, server: redis.Redis) -> None:
    server.config_set("maxmemory", "1")
    try:
        wakeup.wait(wakeup.generation, 0.05)
    finally:
        server.config_set("maxmemory", "0")


def test_a_server_that_stands_still_is_noticed_in_the_wait(wakeup: WakeupToken, server: redis.Redis) -> None:
    wakeup._client.connection_pool.connection_kwargs["socket_timeout"] = 0.2
    wakeup._client.connection_pool.disconnect()
    wakeup._client.connection_pool.reset()
    wakeup.wait(wakeup.generation, 0.05)
    server.client_pause(60_000, all=False)  # this client may still end it
    with pytest.raises(QueueUnavailable, match="does not answer"):
        wakeup.wait(wakeup.generation, 0.05)
    server.client_unpause()


def test_many_waits_of_one_process_end_each_at_its_time(wakeup: WakeupToken) -> None:
    late: dict[float, float] = {}
    for _ in range(10):  # on a machine that does much else some are late
        late = {timeout: at - timeout for timeout, at in ends_of_waits(wakeup, (0.1, 0.4, 0.2, 0.3)).items()}
        assert min(late.values()) >= 0
        if max(late.values()) < 0.1:
            return
    raise AssertionError(f"some waits always end late: {late}")


def ends_of_waits(wakeup: WakeupToken, timeouts: Sequence[float]) -> dict[float, float]:
    """Wait with each timeout at once, and return after how many seconds each wait ended."""
    ended: dict[float, float] = {}
    began = time.monotonic()

    def wait(timeout: float) -> None:
        wakeup.wait(wakeup.generation, timeout)
        ended[timeout] = time.monotonic() - began

    waiting = [Thread(target=wait, args=(timeout,)) for timeout in timeouts]
    for thread in waiting:
        thread.start()
    for thread in waiting:
        thread.join()
    return ended


def test_a_queue_that_is_closed_ends_its_waits_before_its_connections(url: str) -> None:
    queue = RedisQueue(url)
    failed: list[Exception] = []

    def wait() -> None:
        try:
            queue.wait(queue._wakeup.generation, 60)
        except Exception as error:  # noqa: BLE001 - whatever it is
            failed.append(error)

    for _ in range(20):
        waiting = Thread(target=wait)
        waiting.start()
        while not queue._wakeup._listening:
            pass
        queue.close()
        waiting.join()
    assert not failed
