"""Urgent runs find a thread on a busy worker: some are kept for them, and less urgent runs give way when asked."""

from __future__ import annotations

from duetime.scheduler.task import Tier
from duetime.scheduler.worker.threads.preemption import GAVE_WAY

from tests.builders import NOON, TENANT, Clock
from tests.flow.waiting import eventually
from tests.flow.worker.house import House


def test_a_critical_run_starts_at_once_on_a_worker_full_of_background_runs_that_never_give_way(house: House) -> None:
    background = house.schedule(Tier.BACKGROUND, 20)
    house.start(threads=16)
    eventually(lambda: len(house.running) == 14, "all threads to be busy but those that are kept")

    [critical] = house.schedule(Tier.CRITICAL)
    eventually(lambda: house.runs(critical), "the critical run")
    assert house.turns.total() == 15
    assert house.queue.stats().waiting == (0, 0, 0, 0, 6)
    house.release(critical, *background)
    eventually(lambda: all(map(house.ended, [critical, *background])), "all to end")


def test_a_thread_that_comes_back_is_given_to_the_next_background_run(house: House) -> None:
    background = house.schedule(Tier.BACKGROUND, 16)
    house.start(threads=16)
    eventually(lambda: len(house.running) == 14, "all threads to be busy but those that are kept")
    first = next(record for record in background if record.task.id in house.running)
    house.release(first)
    eventually(lambda: len(house.turns) == 15, "another one to start")
    house.release(*background)
    eventually(lambda: all(map(house.ended, background)), "all to end")


def test_with_no_thread_left_the_least_urgent_run_gives_way_keeps_its_age_and_resumes(
    house: House, clock: Clock
) -> None:
    [high, low] = [*house.schedule(Tier.HIGH), *house.schedule(Tier.LOW)]
    house.start(threads=2)
    eventually(lambda: house.runs(high) and house.runs(low), "both threads to be busy")
    clock.forward(minutes=1)

    [critical] = house.schedule(Tier.CRITICAL)
    eventually(lambda: house.runs(critical), "the critical run")
    assert house.running == {high.task.id, critical.task.id}
    waiting = house.store.tasks.get(TENANT, low.task.id).run
    assert (waiting.attempt, waiting.failures) == (1, 0)

    house.release(critical)
    eventually(lambda: house.runs(low), "the low run to resume")
    assert house.seen[low.task.id] == {"turn": 1}
    assert house.store.tasks.get(TENANT, low.task.id).run.first_ready_at == NOON
    assert house.reasons(low)[0] == GAVE_WAY
    house.release(high, low)
    eventually(lambda: house.ended(high) and house.ended(low), "both to end")
    assert (house.turns[high.task.id], house.turns[low.task.id]) == (1, 2)


def test_a_run_that_gave_way_is_counted_and_not_pushed_aside_twice_before_it_got_further(house: House) -> None:
    [background] = house.schedule(Tier.BACKGROUND)
    house.start(threads=1)
    eventually(lambda: house.runs(background), "the background run")
    [first] = house.schedule(Tier.CRITICAL)
    eventually(lambda: house.runs(first), "the first critical run")
    house.release(first)
    eventually(lambda: house.runs(background), "the background run to resume")

    [second] = house.schedule(Tier.CRITICAL)
    looks = Looks(house)
    eventually(lambda: looks.count >= 3, "the worker to look for room several times")
    assert house.runs(background), "it saved nothing since it resumed"
    house.release(background)
    eventually(lambda: house.runs(second), "the second critical run")
    eventually(lambda: house.queue.stats().threads["w"].preempted == 1, "one to be counted")
    house.release(second)
    eventually(lambda: house.ended(second), "all to end")


class Looks:
    """Counts how often a worker looks for whom to make room."""

    def __init__(self, house: House) -> None:
        self.count = 0
        worker = house.workers["w"]
        preemption = worker._preemption
        real = preemption.make_room

        def counted(threads: object) -> None:
            real(threads)  # type: ignore[arg-type]  # it is passed on as it came
            self.count += 1

        preemption.make_room = counted  # type: ignore[method-assign]  # this one is counted
