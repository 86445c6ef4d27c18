"""What a worker has in hand: each claim is begun once and settled once, and a later claim is another one."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from duetime.scheduler.handlers import Handlers, reminder
from duetime.scheduler.inhand import InHand
from duetime.scheduler.queue import Entry, MemoryQueue
from duetime.scheduler.store import Claim, open_store
from duetime.scheduler.worker import Worker, WorkerOptions

from tests.contracts.store.making import NOON, Clock, a_task, added
from tests.flow.waiting import eventually


def a_claim(run_id: str = "r") -> Claim:
    task, run = a_task()
    return Claim(replace(run, id=run_id), task, "w")


def test_a_claim_is_begun_and_handed_over_once() -> None:
    hand = InHand()
    hand.add([a_claim()])
    held = hand.get("r")
    assert held is not None
    assert (held.begin(), held.begin()) == (True, False)
    assert (held.hand_over(), held.hand_over()) == (True, False)


def test_letting_go_of_a_claim_keeps_a_later_one_of_the_same_run() -> None:
    hand = InHand()
    hand.add([a_claim()])
    first = hand.get("r")
    assert first is not None
    hand.add([a_claim()])
    hand.remove([first])
    assert hand.get("r") not in {None, first}
    assert len(hand) == 1


def test_waiting_for_an_empty_hand_ends_with_the_last_claim_or_with_patience() -> None:
    hand = InHand()
    hand.add([a_claim("a"), a_claim("b")])
    assert not hand.wait_until(lambda: not len(hand), timeout=0)
    hand.remove(hand.all())
    assert hand.wait_until(lambda: not len(hand), timeout=0)


def test_a_claim_has_left_the_hand_before_the_queue_may_hand_out_its_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    store = open_store(f"sqlite:///{tmp_path}/duetime.db", clock=clock, synchronous="OFF")
    queue = MemoryQueue(lambda: clock().timestamp() * 1000)
    worker = Worker(store, queue, Handlers([reminder]), WorkerOptions("w", threads=1))
    in_hand: list[int] = []
    real = queue.finish

    def finish(name: str, run_id: str) -> bool:
        in_hand.append(worker.running)
        return real(name, run_id)

    monkeypatch.setattr(queue, "finish", finish)
    record = added(store)
    store.claims.make_ready(limit=1)
    queue.put([Entry(record.run.id, NOON.timestamp() * 1000)])
    worker.start()
    eventually(lambda: in_hand, "the run to be finished in the queue")
    worker.stop(timedelta(seconds=30))
    store.close()
    assert in_hand == [0]
