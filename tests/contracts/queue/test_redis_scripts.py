"""Promises of the queue in Redis beyond the contract: lost servers, processes, keys, layouts, bounded work."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from threading import Thread
from typing import Any

import pytest
import redis
from duetime.scheduler.queue import (
    Entry,
    Finish,
    Kind,
    Limits,
    QueueChange,
    QueueDamaged,
    QueueLost,
    QueueUnavailable,
    Report,
)
from duetime.scheduler.queue.redis.queue import RedisQueue
from duetime.scheduler.rules.turns import TENANT_FORGOTTEN_AFTER_MS

from tests import forked
from tests.contracts.queue.suite import LEASE_MS, Clock
from tests.contracts.queue.test_redis_queue import opened

GPU = Limits(Kind.SLOTS, 1)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def server(valkey_url: str) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(valkey_url) as client:
        yield client


@pytest.fixture
def queue(valkey_url: str, clock: Clock) -> Iterator[RedisQueue]:
    queue = opened(valkey_url, clock)
    yield queue
    queue.close()


@pytest.fixture
def other(valkey_url: str, clock: Clock, queue: RedisQueue) -> Iterator[RedisQueue]:
    """Another process of the same queue."""
    other = RedisQueue(valkey_url, namespace=queue._key.strip("{}"), clock=clock)
    yield other
    other.close()


def entries(clock: Clock, count: int, needs: Callable[[int], dict[str, int]] = lambda _: {}) -> list[Entry]:
    return [Entry(f"r{n:05}", clock.ms + n, needs=needs(n), created=clock.ms) for n in range(count)]


def keys_of(queue: RedisQueue, server: redis.Redis) -> list[str]:
    return sorted(key.decode() for key in server.scan_iter(f"{queue._key}*"))


EVERY_CALL: dict[str, tuple[Any, ...]] = {
    "put": ([Entry("a", 1)],),
    "take": ("w", 1, LEASE_MS),
    "assign_preemptors": ("w", 1, (1, 4), 0.0),
    "runs_to_preempt": (["a"], 0.0),
    "renew": ("w", {"a": "t"}, LEASE_MS),
    "finish": ("w", [Finish("a", "t")]),
    "give_back": ("w", "a", "t"),
    "reap": (),
    "cancel": ("a",),
    "rescore": ("a", 1.0),
    "set_pool": ("gpu", GPU),
    "stats": (),
    "explain": ("a",),
    "adopt": ("w", Entry("a", 1), "t", LEASE_MS),
}


# --- a server that forgets, or is not there --------------------------------------------------------------------------


@pytest.mark.parametrize("name", EVERY_CALL)
def test_a_server_that_was_emptied_is_noticed_by_every_call(queue: RedisQueue, server: redis.Redis, name: str) -> None:
    queue.put([Entry("a", 1)])
    server.flushall()
    with pytest.raises(QueueLost, match="rebuilt"):
        getattr(queue, name)(*EVERY_CALL[name])


def test_an_emptied_queue_is_filled_again_and_goes_on(queue: RedisQueue, server: redis.Redis) -> None:
    server.flushall()
    assert not queue.end_rebuild("me")
    assert queue.begin_rebuild("me")
    assert queue.adopt("w", Entry("runs", 1, needs={"key:1": 1}), "token-in-the-store", LEASE_MS)
    queue.put([Entry("waits", 1, needs={"key:1": 1})])
    assert queue.end_rebuild("me")
    assert queue.take("w", 9, LEASE_MS).run_ids == ()
    assert queue.finish("w", [Finish("runs", "token-in-the-store")]) == set()
    assert queue.take("w", 9, LEASE_MS).run_ids == ("waits",)


@pytest.mark.parametrize("name", EVERY_CALL)
def test_a_server_that_is_not_there_is_unavailable(name: str) -> None:
    with pytest.raises(QueueUnavailable, match="does not answer"):
        getattr(RedisQueue("redis://127.0.0.1:1/0"), name)(*EVERY_CALL[name])


def test_waiting_for_a_server_that_is_not_there_says_so() -> None:
    queue = RedisQueue("redis://127.0.0.1:1/0")
    with pytest.raises(QueueUnavailable, match="does not answer"):
        queue.wait(0, 1.0)
    queue.wake()


def test_scripts_that_the_server_forgot_are_sent_again(queue: RedisQueue, server: redis.Redis, clock: Clock) -> None:
    queue.set_pool("gpu", GPU)
    queue.put(entries(clock, 6, lambda n: {"gpu": 1} if n % 2 else {}))
    done: list[str] = []
    while grants := queue.take("w", 2, LEASE_MS).grants:
        server.script_flush()
        assert queue.finish("w", [Finish(grant.run_id, grant.token) for grant in grants]) == set()
        server.script_flush()
        done += [grant.run_id for grant in grants]
    assert sorted(done) == [f"r{n:05}" for n in range(6)]


# --- several processes -----------------------------------------------------------------------------------------------

RACE = """
import sys
import redis
from duetime.scheduler.queue.redis.queue import RedisQueue
url, namespace, owner = sys.argv[1:]
queue = RedisQueue(url, namespace=namespace)
client = redis.Redis.from_url(url)
client.lpush("here:" + namespace, owner)
client.blpop("go:" + namespace, 60)
print(queue.begin_rebuild(owner))
"""


def test_of_processes_that_want_to_fill_an_empty_queue_one_does(server: redis.Redis, valkey_url: str) -> None:
    namespace = "race"
    server.delete(f"{{{namespace}}}")
    racing = [
        forked.popen([sys.executable, "-c", RACE, valkey_url, namespace, owner], stdout=subprocess.PIPE, text=True)
        for owner in ("one", "two", "three")
    ]
    for _ in racing:
        assert server.blpop([f"here:{namespace}"], 60)
    server.lpush(f"go:{namespace}", *"xyz")
    assert sorted(process.communicate(timeout=120)[0].strip() for process in racing) == ["False", "False", "True"]


def test_a_put_of_one_process_wakes_another(queue: RedisQueue, other: RedisQueue) -> None:
    generation = other.take("w2", 1, LEASE_MS).generation
    waiting = Thread(target=other.wait, args=(generation, 60), daemon=True)
    waiting.start()
    queue.put([Entry("a", 1)])
    waiting.join(120)
    assert not waiting.is_alive()
    assert other.take("w2", 1, LEASE_MS).run_ids == ("a",)


def test_a_take_that_awaits_a_change_is_one_round_trip(
    queue: RedisQueue, other: RedisQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = queue.take("w", 1, LEASE_MS)
    other.put([Entry("a", 1)])
    monkeypatch.setattr(queue._scripts, "ask", None)
    taken = queue.take("w", 1, LEASE_MS, nonce="n", after=QueueChange(before.generation, 60))
    assert (taken.run_ids, taken.generation) == (("a",), before.generation + 1)


def test_a_take_that_awaits_a_change_sends_a_script_that_the_server_forgot(
    queue: RedisQueue, other: RedisQueue, server: redis.Redis
) -> None:
    before = queue.take("w", 1, LEASE_MS)
    other.put([Entry("a", 1)])
    server.script_flush()
    assert queue.take("w", 1, LEASE_MS, nonce="n", after=QueueChange(before.generation, 60)).run_ids == ("a",)


def test_a_run_that_one_process_leaves_behind_wakes_the_next(
    queue: RedisQueue, other: RedisQueue, clock: Clock
) -> None:
    """One token is passed on: the first taker is woken by the put, the second by what the first left."""
    generation = other.take("w2", 1, LEASE_MS).generation
    queue.put(entries(clock, 2))
    queue.wait(queue.take("w1", 0, LEASE_MS).generation, 60)
    assert queue.take("w1", 1, LEASE_MS).run_ids == ("r00000",)
    other.wait(generation, 60)
    assert other.take("w2", 1, LEASE_MS).run_ids == ("r00001",)


def test_a_wait_without_news_ends_by_itself(queue: RedisQueue) -> None:
    waiting = Thread(target=queue.wait, args=(queue.take("w", 1, LEASE_MS).generation, 0.2), daemon=True)
    waiting.start()
    waiting.join(120)
    assert not waiting.is_alive()


def test_waking_ends_the_waits_of_this_process_only(queue: RedisQueue, other: RedisQueue, server: redis.Redis) -> None:
    server.delete(queue._wakeup._wakeup)  # lies there since the queue was filled
    mine = Thread(target=queue.wait, args=(queue._wakeup.generation, 60), daemon=True)
    theirs = Thread(target=other.wait, args=(other._wakeup.generation, 60), daemon=True)
    for thread in (mine, theirs):
        thread.start()
    queue.wake()
    mine.join(120)
    assert not mine.is_alive()
    assert theirs.is_alive()
    other.wake()
    theirs.join(120)
    assert not theirs.is_alive()


def test_a_repeated_take_does_not_grant_a_run_that_has_finished(queue: RedisQueue, clock: Clock) -> None:
    queue.put(entries(clock, 3))
    first = queue.take("w", 2, LEASE_MS, nonce="n")
    queue.finish("w", [Finish("r00000", first.grants[0].token)])
    assert queue.take("w", 2, LEASE_MS, nonce="n").grants == first.grants[1:]


# --- what is stored --------------------------------------------------------------------------------------------------


def busy(queue: RedisQueue, clock: Clock) -> None:
    """Leave something under every kind of key."""
    queue.set_pool("gpu", GPU)
    queue.set_pool("tpm", Limits(Kind.RATE, 2, refill=0.001))
    queue.put(entries(clock, 20, lambda n: [{}, {"gpu": 1}, {"tpm": 2}, {"key:1": 1}, {"nobody": 1}][n % 5]))
    queue.put([Entry("later", clock.ms, delay=10**6)])
    grants = queue.take("w", 8, LEASE_MS, nonce="n").grants
    queue.finish("w", [Finish(grants[0].run_id, grants[0].token, reports=(Report("tpm", ok=False),))])


def test_all_keys_are_in_one_slot_of_a_cluster(queue: RedisQueue, server: redis.Redis, clock: Clock) -> None:
    busy(queue, clock)
    keys = keys_of(queue, server)
    assert len(keys) > 15
    assert all(key == queue._key or key.startswith(f"{queue._key}:") for key in keys)


def test_emptying_leaves_nothing_of_what_was(queue: RedisQueue, server: redis.Redis, clock: Clock) -> None:
    busy(queue, clock)
    assert queue.begin_rebuild("me")
    assert keys_of(queue, server) == [queue._key]
    busy_pools = queue.stats().pools
    assert busy_pools == {}


def test_finished_work_leaves_nothing_that_grows(queue: RedisQueue, server: redis.Redis, clock: Clock) -> None:
    def work() -> None:
        queue.put(entries(clock, 50, lambda n: {f"key:{n}": 1, "tenant:a": 1}))
        while grants := queue.take("w", 8, LEASE_MS).grants:
            queue.finish("w", [Finish(grant.run_id, grant.token) for grant in grants])

    queue.set_pool("tenant:*", Limits(Kind.SLOTS, 3))
    work()
    lasting = [key for key in keys_of(queue, server) if server.ttl(key) == -1]
    work()
    assert [key for key in keys_of(queue, server) if server.ttl(key) == -1] == lasting
    assert len(lasting) <= 3  # the state, the limits, the baton


def test_a_namespace_that_a_newer_version_filled_is_refused(queue: RedisQueue, server: redis.Redis) -> None:
    server.eval("redis.call('SET', KEYS[1], cmsgpack.pack({99}))", 1, queue._key)
    with pytest.raises(QueueUnavailable, match=r'newer Duetime.*namespace of its own, for example "duetime-old"'):
        queue.put([Entry("a", 1)])
    with pytest.raises(QueueUnavailable, match="newer"):
        queue.begin_rebuild("me")


def test_a_queue_of_an_older_version_is_filled_again(queue: RedisQueue, server: redis.Redis) -> None:
    server.eval("redis.call('SET', KEYS[1], cmsgpack.pack({0}))", 1, queue._key)
    with pytest.raises(QueueLost):
        queue.take("w", 1, LEASE_MS)
    assert queue.begin_rebuild("me")
    assert queue.end_rebuild("me")


def test_a_script_that_refuses_has_written_nothing(queue: RedisQueue, clock: Clock) -> None:
    with pytest.raises(QueueDamaged, match="a class without a tier"):
        queue._scripts.call("put", "good", "3||", 1, 1, 0, "bad", "9|gpu=1", 1, 1, 0)
    assert queue.explain("good") is None
    assert queue.stats().waiting == (0, 0, 0, 0, 0)


@pytest.mark.parametrize("namespace", ["", "a b", "{a}", "a*", "x" * 101])
def test_a_namespace_is_one_plain_word(namespace: str) -> None:
    with pytest.raises(ValueError, match=r'namespace is .* for example "duetime-test"'):
        RedisQueue("redis://127.0.0.1:1/0", namespace=namespace)


@pytest.mark.parametrize("needs", [{"a,b": 1}, {"a=b": 1}, {"a b": 1}, {"gpu": 0}])
def test_needs_that_cannot_be_written_are_refused(queue: RedisQueue, needs: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r'needs has .* for example \{"gpu": 1\}'):
        queue.put([Entry("a", 1, needs=needs)])


# --- bounded work ----------------------------------------------------------------------------------------------------


def test_a_template_changes_thousands_of_pools_made_from_it(queue: RedisQueue, clock: Clock) -> None:
    """In pages: no script looks at all of them at once."""
    queue.put(entries(clock, 2600, lambda n: {f"key:{n % 1300}": 1}))
    took = 0
    while grants := queue.take("w", 100, LEASE_MS).grants:
        took += len(grants)
    assert took == 1300
    queue.set_pool("key:*", Limits(Kind.SLOTS, 2))
    while grants := queue.take("w", 100, LEASE_MS).grants:
        took += len(grants)
    assert took == 2600
    assert len(queue.stats().pools) == 1300


def test_a_batch_that_changes_thousands_of_pools_is_stored_whole(queue: RedisQueue, clock: Clock) -> None:
    """Lua passes at most 8,000 arguments to a command; a throttled pool is not forgotten when its run ends."""
    queue.put(entries(clock, 400, lambda n: {f"key:{n}-{pool}": 1 for pool in range(12)}))
    grants = [grant for _ in range(8) for grant in queue.take("w", 100, LEASE_MS).grants]
    ended = [
        Finish(grant.run_id, grant.token, reports=tuple(Report(name, throttled=True) for name in grant.needs))
        for grant in grants
    ]
    assert queue.finish("w", ended) == set()
    pools = queue.stats().pools
    assert len(pools) == 4800
    assert {pool.used for pool in pools.values()} == {0}


def test_counting_adds_up_over_pages(queue: RedisQueue, clock: Clock) -> None:
    queue.set_pool("gpu", GPU)
    queue.put(entries(clock, 1200, lambda n: {"gpu": 1, f"key:{n}": 1}))
    for _ in range(20):
        queue.take("w", 100, LEASE_MS)
    stats = queue.stats()
    assert (stats.parked, stats.leased, stats.pools["gpu"].parked) == (1199, 1, 1199)


def test_a_tenant_whose_last_run_was_long_ago_leaves_nothing_in_the_queue(
    queue: RedisQueue, server: redis.Redis, clock: Clock
) -> None:
    queue.put([Entry(f"a{n}", clock.ms + 1e6 + n, tenant="a") for n in range(3)])
    queue.put([Entry(f"b{n}", clock.ms + 1000 + n, tenant="b", by_deadline=True) for n in range(5)])
    while grants := queue.take("w", 1, LEASE_MS).grants:
        queue.finish("w", [Finish(each.run_id, each.token) for each in grants])
    sets = [key for key in keys_of(queue, server) if "turn" in key]
    assert {b"a", b"b"} <= {member for key in sets for member in server.zrange(key, 0, -1)}
    assert any("out_of_turn" in key and server.zscore(key, "b") for key in sets)

    clock.ms += TENANT_FORGOTTEN_AFTER_MS + 1
    queue.put([Entry("c", clock.ms, tenant="c")])
    assert queue.take("w", 1, LEASE_MS).run_ids == ("c",)
    sets = [key for key in keys_of(queue, server) if "turn" in key]
    assert {member for key in sets for member in server.zrange(key, 0, -1)} == {b"c"}


def test_the_servers_clock_counts_where_none_is_given(valkey_url: str) -> None:
    queue = opened(valkey_url)
    queue.put([Entry("a", 1)])
    assert queue.take("w", 1, -1.0).run_ids == ("a",)
    assert queue.reap() == ["a"]
    queue.close()
