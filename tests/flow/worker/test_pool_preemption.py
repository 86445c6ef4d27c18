"""An urgent run gets the units of a pool that less urgent runs hold, also those of another worker."""

from __future__ import annotations

import pytest
from duetime.scheduler.queue import DispatchQueue, Kind, Limits
from duetime.scheduler.task import Tier
from duetime.scheduler.worker.threads.preemption import GAVE_WAY

from tests.builders import NOON, TENANT, Clock
from tests.flow.waiting import eventually
from tests.flow.worker.house import House


@pytest.fixture(autouse=True)
def _pools(queue: DispatchQueue) -> None:
    for name, capacity in {"gpu": 1, "three": 3}.items():
        queue.set_pool(name, Limits(Kind.SLOTS, capacity))


def test_a_background_run_that_holds_the_pool_gives_it_to_a_critical_one_and_goes_on_later(
    house: House, clock: Clock
) -> None:
    background = house.one(Tier.BACKGROUND, gpu=1)
    house.start(threads=4)
    eventually(lambda: house.runs(background), "the background run")
    clock.forward(minutes=1)

    critical = house.one(Tier.CRITICAL, gpu=1)
    eventually(lambda: house.runs(critical), "the critical run")
    assert house.store.tasks.get(TENANT, critical.task.id).run.first_ready_at == clock()
    assert house.running == {critical.task.id}
    house.release(critical)
    eventually(lambda: house.runs(background), "the background run to resume")
    assert house.seen[background.task.id] == {"turn": 1}
    assert house.store.tasks.get(TENANT, background.task.id).run.first_ready_at == NOON
    assert house.reasons(background)[0] == GAVE_WAY
    house.release(background, house.one(Tier.LOW))
    eventually(lambda: house.ended(background), "the background run to end")
    eventually(lambda: house.preempted() == 1, "it to be counted")


def test_the_run_that_holds_the_pool_may_be_on_another_worker(house: House) -> None:
    background = house.one(Tier.BACKGROUND, gpu=1)
    house.start(threads=1, name="w")
    eventually(lambda: house.runs(background), "the background run")
    house.start(threads=1, name="x")

    critical = house.one(Tier.CRITICAL, gpu=1)
    eventually(lambda: house.runs(critical), "the critical run")
    house.release(critical, background)
    eventually(lambda: house.ended(critical) and house.ended(background), "both to end")
    assert (house.turns[critical.task.id], house.turns[background.task.id]) == (1, 2)


def test_holders_on_two_workers_give_way_together(house: House) -> None:
    first = house.one(Tier.BACKGROUND, three=1)
    house.start(threads=1, name="w")
    eventually(lambda: house.runs(first), "the first run")
    second = house.one(Tier.BACKGROUND, three=2)
    house.start(threads=1, name="x")
    eventually(lambda: house.runs(second), "the second run")
    assert {house.where[record.task.id] for record in (first, second)} == {"w", "x"}

    critical = house.one(Tier.CRITICAL, three=3)
    eventually(lambda: house.runs(critical), "the critical run")
    assert house.running == {critical.task.id}
    house.release(critical, first, second)
    eventually(lambda: all(map(house.ended, [critical, first, second])), "all to end")


def test_of_two_holders_the_one_that_holds_enough_gives_way_and_the_other_goes_on(house: House) -> None:
    one, two = house.one(Tier.BACKGROUND, three=1), house.one(Tier.BACKGROUND, three=2)
    house.start(threads=4)
    eventually(lambda: house.runs(one) and house.runs(two), "both")
    critical = house.one(Tier.CRITICAL, three=2)
    eventually(lambda: house.runs(critical), "the critical run")
    assert house.running == {critical.task.id, one.task.id}
    house.release(critical, one, two)
    eventually(lambda: all(map(house.ended, [critical, one, two])), "all to end")
    assert house.turns[one.task.id] == 1


def test_with_threads_and_pool_taken_by_one_run_it_gives_both(house: House) -> None:
    high, background = house.one(Tier.HIGH), house.one(Tier.BACKGROUND, gpu=1)
    house.start(threads=2)
    eventually(lambda: house.runs(high) and house.runs(background), "both threads to be busy")
    critical = house.one(Tier.CRITICAL, gpu=1)
    eventually(lambda: house.runs(critical), "the critical run")
    assert house.running == {critical.task.id, high.task.id}
    house.release(critical, high, background)
    eventually(lambda: all(map(house.ended, [critical, high, background])), "all to end")


def test_a_run_that_waits_for_two_pools_gets_both(house: House) -> None:
    gpu, three = house.one(Tier.BACKGROUND, gpu=1), house.one(Tier.LOW, three=3)
    house.start(threads=4)
    eventually(lambda: house.runs(gpu) and house.runs(three), "both")
    critical = house.one(Tier.CRITICAL, gpu=1, three=1)
    eventually(lambda: house.runs(critical), "the critical run")
    house.release(critical, gpu, three)
    eventually(lambda: all(map(house.ended, [critical, gpu, three])), "all to end")


def test_a_run_whose_handler_never_asks_keeps_its_units(house: House) -> None:
    deaf, willing = house.one(Tier.BACKGROUND, three=2), house.one(Tier.BACKGROUND, gpu=1)
    house.deaf.add(deaf.task.id)
    house.start(threads=4)
    eventually(lambda: house.runs(deaf) and house.runs(willing), "both")
    stuck, helped = house.one(Tier.CRITICAL, three=2), house.one(Tier.CRITICAL, gpu=1)
    eventually(lambda: house.runs(helped), "the critical run that can be helped")
    assert not house.runs(stuck)
    house.release(deaf)
    eventually(lambda: house.runs(stuck), "the other one")
    house.release(stuck, helped, willing)
    eventually(lambda: all(map(house.ended, [deaf, stuck, helped, willing])), "all to end")
    assert house.turns[deaf.task.id] == 1
