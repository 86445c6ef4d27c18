"""The queue in Redis keeps the contract of `DispatchQueue`, also when every reply is lost once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from duetime.scheduler.queue import DispatchQueue, Entry, QueueLost, QueueUnavailable
from duetime.scheduler.queue.constants import REBUILD_TURN_MS
from duetime.scheduler.queue.redis.queue import RedisQueue
from duetime.scheduler.queue.redis.source import LAYOUT_VERSION
from duetime.scheduler.rules.limits.admission import Kind, Limits

from tests.contracts.queue.admission import AdmissionContract
from tests.contracts.queue.explain import TellingContract
from tests.contracts.queue.feedback import FeedbackContract
from tests.contracts.queue.leases import LeaseContract
from tests.contracts.queue.order import OrderContract
from tests.contracts.queue.rebuilding import RebuildContract
from tests.contracts.queue.suite import Clock, QueueContract
from tests.search import FIRST_SEED, examples


def opened(url: str, clock: Clock | None = None) -> RedisQueue:
    """Return an empty queue in a namespace of its own."""
    queue = RedisQueue(url, namespace=f"test-{uuid4().hex}", clock=clock)
    assert queue.begin_rebuild("test")
    assert queue.end_rebuild("test")
    return queue


class TestRedisQueue(QueueContract):
    """Runs the suite on a real server, on a clock that only moves when told to."""

    @pytest.fixture
    def queue(self, clock: Clock, valkey_url: str) -> Iterator[DispatchQueue]:
        queue = opened(valkey_url, clock)
        yield queue
        queue.close()

    @pytest.mark.random_walk  # with more seeds on the queue in memory; another walk compares both
    @pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + examples(2).max_examples))
    def test_no_run_that_fits_stands_still_under_random_load(
        self, queue: DispatchQueue, clock: Clock, seed: int
    ) -> None:
        super().test_no_run_that_fits_stands_still_under_random_load(queue, clock, seed)


class TestRedisQueueWhoseRepliesAreLost(
    AdmissionContract, FeedbackContract, LeaseContract, OrderContract, RebuildContract, TellingContract
):
    """Runs what touches every script with each of them sent twice, as the client does when no reply arrives."""

    @pytest.fixture
    def queue(self, clock: Clock, valkey_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[DispatchQueue]:
        queue = opened(valkey_url, clock)
        once = queue._scripts._run

        def twice(name: str, slot: str, number: int, args: Any) -> Any:
            first = once(name, slot, number, args)
            second = once(name, slot, number, args)
            if name == "take":  # the hint may differ: it says how long to wait, not what is held
                assert json.loads(second)[1:] == json.loads(first)[1:]
                return first
            assert second == first or name == "begin_rebuild"
            return second

        monkeypatch.setattr(queue._scripts, "_run", twice)
        yield queue
        queue.close()


def test_a_process_thawed_after_a_rebuild_does_not_delete_the_new_queue(
    valkey_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    frozen = opened(valkey_url, clock)
    other = RedisQueue(valkey_url, namespace=frozen._key.strip("{}"), clock=clock)
    sweep = frozen._sweep

    def thawed(fill: str) -> None:
        clock.ms += REBUILD_TURN_MS
        assert other.begin_rebuild("other")
        other.set_pool("gpu", Limits(Kind.SLOTS, 1))
        other.put([Entry("r1", 1.0, needs={"gpu": 1})])
        assert other.end_rebuild("other")
        sweep(fill)

    monkeypatch.setattr(frozen, "_sweep", thawed)
    assert frozen.begin_rebuild("frozen")
    assert not frozen.end_rebuild("frozen")
    assert other.take("w", 1, 1000).run_ids == ("r1",)


def relabel(queue: RedisQueue, version: int) -> None:
    """Make the stored state one of another layout: an array whose first item is the version."""
    state = queue._client.get(queue._key)
    assert isinstance(state, bytes)
    assert state[3] == LAYOUT_VERSION
    queue._client.set(queue._key, state[:3] + bytes([version]) + state[4:])


def test_a_queue_of_an_older_layout_is_lost_and_a_rebuild_deletes_its_keys(valkey_url: str) -> None:
    queue = opened(valkey_url)
    queue.put([Entry("r1", 1.0)])
    relabel(queue, LAYOUT_VERSION - 1)
    with pytest.raises(QueueLost):
        queue.explain("r1")
    older = set(queue._client.keys(f"{queue._key}:*:runs"))
    assert older
    assert queue.begin_rebuild("me")
    queue.put([Entry("r1", 1.0)])
    assert queue.end_rebuild("me")
    assert not older & set(queue._client.keys(f"{queue._key}:*"))
    assert queue.take("w", 1, 1000).run_ids == ("r1",)


def test_a_process_leaves_a_queue_of_a_newer_layout_alone(valkey_url: str) -> None:
    queue = opened(valkey_url)
    relabel(queue, LAYOUT_VERSION + 1)
    before = queue._client.get(queue._key)
    with pytest.raises(QueueUnavailable, match="a newer Duetime"):
        queue.put([Entry("r1", 1.0)])
    with pytest.raises(QueueUnavailable, match="a newer Duetime"):
        queue.begin_rebuild("me", damage="a run is stuck")
    assert queue._client.get(queue._key) == before
