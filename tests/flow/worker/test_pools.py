"""Running work with pools: what is reserved is proven, used, given back, and never outlived by what runs on it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta

import pytest
from duetime.scheduler.dispatch.dispatcher import Dispatcher
from duetime.scheduler.dispatch.maintenance import Maintenance
from duetime.scheduler.handlers import Context, Handler, Handlers, handler
from duetime.scheduler.outcomes import Done, Outcome, Retry
from duetime.scheduler.queue import Kind, Limits, QueueLost, QueueUnavailable
from duetime.scheduler.queue.memory.queue import MemoryQueue
from duetime.scheduler.store import Store
from duetime.scheduler.task import State
from duetime.scheduler.views import TaskRecord
from duetime.scheduler.worker.worker import Worker, WorkerOptions

from tests.builders import NOON, TENANT, Clock, added
from tests.flow.waiting import eventually

GRACE = timedelta(seconds=10)
LEASE = timedelta(seconds=30)


@pytest.fixture
def queue(clock: Clock) -> MemoryQueue:
    made = MemoryQueue(lambda: clock().timestamp() * 1000)
    made.set_pool("tokens", Limits(Kind.BUDGET, 100, resets=((NOON + timedelta(days=1)).timestamp() * 1000,)))
    made.set_pool("gpu", Limits(Kind.SLOTS, 4, failures=1, cooldown=60_000))
    return made


class House:
    """A worker over a store and a queue; `act` is what its only handler does."""

    def __init__(self, store: Store, queue: MemoryQueue, *, lease: timedelta = LEASE) -> None:
        self.stopped = False
        self.store, self.queue = store, queue
        self.act: Callable[[Context], Outcome] = lambda _: Done()
        self.allowed = 99
        self.worker = Worker(
            store,
            queue,
            Handlers([self.handler()]),
            WorkerOptions("w", threads=4, lease=lease, allowance=lambda threads: min(threads, self.allowed)),
        )

    def stop(self) -> None:
        if not self.stopped:
            self.stopped, self.allowed = True, 99
            self.worker.stop(GRACE)

    def handler(self) -> Handler:
        @handler("reminder")
        def remind(ctx: Context) -> Outcome:
            """Do what the test wants."""
            return self.act(ctx)

        return remind

    def schedule(self, needs: Mapping[str, int]) -> TaskRecord:
        record = added(self.store, needs=needs)
        Dispatcher(self.store, self.queue).step()
        return record

    def state(self, record: TaskRecord) -> State:
        return self.store.tasks.get(TENANT, record.task.id).run.state

    def await_(self, record: TaskRecord, state: State) -> None:
        eventually(lambda: self.state(record) is state, f"the run to be {state}")
        eventually(lambda: self.queue.stats().leased == 0, "the queue to let go")

    def outcomes(self, record: TaskRecord) -> list[tuple[str | None, str | None]]:
        return [(each.outcome, each.reason) for each in self.store.history.attempts(TENANT, record.task.id)]


@pytest.fixture
def house(store: Store, queue: MemoryQueue) -> Iterator[House]:
    made = House(store, queue)
    yield made
    made.stop()


@pytest.fixture
def hasty(store: Store, queue: MemoryQueue) -> Iterator[House]:
    """Make a worker that renews its leases several times a second; by the clock that counts they never end."""
    made = House(store, queue, lease=timedelta(seconds=0.6))
    yield made
    made.stop()


def test_the_actual_usage_is_settled_with_the_queue_and_kept_in_the_database(house: House) -> None:
    def act(ctx: Context) -> Done:
        assert ctx.needs == {"tokens": 60, "gpu": 1}
        ctx.use("tokens", 10)
        return Done()

    house.act = act
    record = house.schedule({"tokens": 60, "gpu": 1})
    house.worker.start()
    house.await_(record, State.SUCCEEDED)
    pools = house.queue.stats().pools
    assert (pools["tokens"].spent, pools["tokens"].used, pools["gpu"].used) == (10, 0, 0)
    assert house.store.usage.since({"tokens": NOON, "gpu": NOON}) == {"tokens": 10.0, "gpu": 1.0}


def test_a_retry_is_a_failure_of_the_pools_it_had_and_a_busy_provider_is_not(house: House) -> None:
    house.act = lambda ctx: ctx.throttled("gpu", timedelta(seconds=5))
    record = house.schedule({"gpu": 1})
    house.worker.start()
    house.await_(record, State.SUSPENDED)
    assert house.queue.stats().pools["gpu"].state == "stopped"
    assert house.store.tasks.get(TENANT, record.task.id).run.failures == 0
    house.act = lambda _: Retry("down")
    house.queue.set_pool("net", Limits(Kind.SLOTS, 1, failures=1))
    other = house.schedule({"net": 1})
    house.await_(other, State.RETRYING)
    assert house.queue.stats().pools["net"].state == "tripped"


@pytest.mark.parametrize(("counted", "charged"), [(0, 0.0), (7, 7.0)])
def test_an_attempt_that_gives_up_before_a_busy_provider_is_charged_only_what_it_counted(
    house: House, counted: int, charged: float
) -> None:
    def act(ctx: Context) -> Outcome:
        if counted:
            ctx.use("tokens", counted)
        return ctx.throttled("gpu", timedelta(seconds=5))

    house.act = act
    record = house.schedule({"gpu": 1, "tokens": 60})
    house.worker.start()
    house.await_(record, State.SUSPENDED)
    assert house.queue.stats().pools["tokens"].spent == charged
    assert house.store.usage.since({"tokens": NOON}).get("tokens", 0.0) == charged


def test_a_run_that_fails_without_a_count_is_charged_what_it_had_reserved(house: House) -> None:
    house.act = lambda _: Retry("it may have used all of it")
    record = house.schedule({"tokens": 60})
    house.worker.start()
    house.await_(record, State.RETRYING)
    assert house.queue.stats().pools["tokens"].spent == 60
    assert house.store.usage.since({"tokens": NOON}) == {"tokens": 60.0}


def test_an_exception_of_a_handler_is_a_failure_of_its_pools(house: House) -> None:
    def act(_: Context) -> Done:
        raise ValueError("down")

    house.act = act
    record = house.schedule({"gpu": 1})
    house.worker.start()
    house.await_(record, State.RETRYING)
    assert house.queue.stats().pools["gpu"].state == "tripped"


@pytest.mark.parametrize("how", ["emptied", QueueLost, QueueUnavailable])
def test_nothing_starts_on_a_reservation_that_cannot_be_proven(
    house: House, monkeypatch: pytest.MonkeyPatch, how: str | type[Exception]
) -> None:
    """Between the take and the claim the queue loses everything, or is away."""
    began: list[str] = []

    def act(ctx: Context) -> Done:
        began.append(ctx.run_id)
        return Done()

    house.act = act
    real, failures = house.queue.renew, [1]

    def renew(worker: str, tokens: Mapping[str, str], lease: float) -> set[str]:
        if failures and failures.pop():
            if not isinstance(how, str):
                raise how("away")
            return set(tokens)
        return real(worker, tokens, lease)

    monkeypatch.setattr(house.queue, "renew", renew)
    record = house.schedule({"gpu": 1})
    house.worker.start()
    house.await_(record, State.SUSPENDED)
    assert house.outcomes(record) == [("yielded", "its pool reservation was lost")]
    assert (began, house.store.tasks.get(TENANT, record.task.id).run.failures) == ([], 0)
    Dispatcher(house.store, house.queue).step()
    house.await_(record, State.SUCCEEDED)


def test_a_run_without_needs_asks_the_queue_nothing(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(house.queue, "renew", lambda *_: pytest.fail("it asked"))
    record = house.schedule({})
    house.worker.start()
    house.await_(record, State.SUCCEEDED)


@pytest.mark.parametrize("needs", [{"gpu": 1}, {}])
def test_a_run_on_a_lost_reservation_is_interrupted_and_handed_back_and_one_without_needs_goes_on(
    hasty: House, needs: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    house = hasty
    began, go_on, lost = threading.Event(), threading.Event(), list[set[str]]()

    def act(_: Context) -> Done:
        began.set()
        while not go_on.wait(0.001):
            pass
        return Done()

    house.act = act
    record = house.schedule(needs)
    house.worker.start()
    assert began.wait(60)
    real = house.queue.renew

    def renew(worker: str, tokens: Mapping[str, str], lease: float) -> set[str]:
        found = real(worker, tokens, lease)
        lost.append(found)
        return found

    monkeypatch.setattr(house.queue, "renew", renew)
    assert house.queue.begin_rebuild("test")
    assert house.queue.end_rebuild("test")
    eventually(lambda: any(lost), "a renewal")
    assert next(filter(None, lost)) == {record.run.id}
    if needs:
        house.await_(record, State.SUSPENDED)
        assert house.outcomes(record) == [("yielded", "its pool reservation was lost")]
        go_on.set()
    else:
        go_on.set()
        house.await_(record, State.SUCCEEDED)


def test_a_queue_that_is_away_stops_nothing_that_runs(hasty: House, monkeypatch: pytest.MonkeyPatch) -> None:
    house = hasty
    began, go_on, asked = threading.Event(), threading.Event(), threading.Event()

    def act(_: Context) -> Done:
        began.set()
        assert go_on.wait(60)
        return Done()

    def renew(*_: object) -> set[str]:
        asked.set()
        raise QueueUnavailable("away")

    house.act = act
    record = house.schedule({"gpu": 1})
    house.worker.start()
    assert began.wait(60)
    monkeypatch.setattr(house.queue, "renew", renew)
    assert asked.wait(60)
    go_on.set()
    house.await_(record, State.SUCCEEDED)


def test_a_lease_that_cannot_be_finished_holds_up_nobody(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    def finish(*_: object, **__: object) -> set[str]:
        raise QueueUnavailable("away")

    monkeypatch.setattr(house.queue, "finish", finish)
    record = house.schedule({"gpu": 1})
    house.worker.start()
    eventually(lambda: house.state(record) is State.SUCCEEDED, "the run to succeed")
    eventually(lambda: house.worker.running == 0, "the hand to be empty")


def test_a_machine_under_pressure_takes_less_and_all_of_it_in_the_end(house: House) -> None:
    running, most, go_on = set[str](), list[int](), threading.Event()

    def act(ctx: Context) -> Done:
        running.add(ctx.run_id)
        most.append(len(running))
        go_on.wait(60)
        running.discard(ctx.run_id)
        return Done()

    house.act = act
    house.allowed = 0
    records = [house.schedule({}) for _ in range(4)]
    house.worker.start()
    house.worker.check()
    assert house.queue.take("other", 0, 1.0).grants == ()
    assert house.queue.stats().waiting[2] == 4
    house.allowed = 2
    eventually(lambda: len(running) == 2, "two to run")
    assert house.queue.stats().waiting[2] == 2
    go_on.set()
    for record in records:
        house.await_(record, State.SUCCEEDED)
    assert max(most) <= 2


def test_how_long_it_took_is_learned_by_maintenance_and_at_the_end(house: House) -> None:
    maintenance = Maintenance(house.store, house.queue, worker=house.worker)
    record = house.schedule({})
    house.worker.start()
    house.await_(record, State.SUCCEEDED)
    maintenance.step()
    assert house.store.estimates.get([(TENANT, "reminder")])[TENANT, "reminder"].samples == 1
    other = house.schedule({})
    house.await_(other, State.SUCCEEDED)
    house.stop()
    assert house.store.estimates.get([(TENANT, "reminder")])[TENANT, "reminder"].samples == 2


def test_the_claim_keeps_the_token_and_what_is_reserved_while_it_runs(house: House) -> None:
    seen: list[tuple[str, dict[str, int]]] = []

    def act(_: Context) -> Done:
        seen.extend((each.token, dict(each.reserved)) for each in house.store.claims.running(limit=9))
        return Done()

    house.act = act
    record = house.schedule({"gpu": 2})
    house.worker.start()
    house.await_(record, State.SUCCEEDED)
    assert seen == [("1.1", {"gpu": 2})]
    assert house.store.claims.running(limit=9) == []
