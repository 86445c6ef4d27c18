"""From a stored task to a settled run: handlers of both kinds, limits, cancelling, retries, and a graceful end."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from duetime.scheduler.delivery import Channels, deliverer
from duetime.scheduler.delivery.deliverer import Deliverer
from duetime.scheduler.dispatch.dispatcher import Dispatcher
from duetime.scheduler.dispatch.pool_registry import PoolRegistry
from duetime.scheduler.errors import RunnerReplaced, StoreUnavailable
from duetime.scheduler.events import EventFilter, EventKind
from duetime.scheduler.handlers import Context, Handler, Handlers, handler, reminder
from duetime.scheduler.nodes.runner import Runner, RunnerOptions
from duetime.scheduler.nodes.term import RunnerTerm
from duetime.scheduler.outcomes import Done, Failed, Outcome, Retry, Yielded
from duetime.scheduler.rules import changes
from duetime.scheduler.run_records import Claim, EndedRun, Start
from duetime.scheduler.runtime.interrupt import WorkerStopping
from duetime.scheduler.runtime.notifier import RunEvent, RunNotifier
from duetime.scheduler.store import Store, open_store
from duetime.scheduler.task import DeliveryState, InboxMessage, RetryPolicy, State
from duetime.scheduler.views import TaskRecord
from duetime.server.telemetry.notice_log import log_notice
from duetime.server.telemetry.run_log import log_runs

from tests.builders import TENANT, added
from tests.flow.waiting import eventually

NO_BACKOFF = RetryPolicy(max_attempts=3, backoff=timedelta(0), max_backoff=timedelta(0))


class House:
    """One database with one runner of the handlers that a test brings."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = self.open()
        self.told: list[str] = []
        self.runners: list[Runner] = []
        self.notifier = RunNotifier(self.told.extend, observers=(log_notice,))

    def listen(self, notifier: RunNotifier) -> None:
        """Let the next runners notify another listener."""
        self.notifier = notifier

    def open(self) -> Store:
        return open_store(f"sqlite:///{self.folder}/duetime.db", synchronous="OFF")

    def run(self, *handlers: Handler, lease: float = 30, wait: bool = True) -> Runner:
        options = RunnerOptions(self.folder / "runner.lock", threads=4, lease=timedelta(seconds=lease))
        runner = Runner(self.store, Handlers([reminder, *handlers]), options, notifier=self.notifier)
        self.runners.append(runner)
        runner.start()
        if wait:
            eventually(lambda: runner.running, "the runner")
        return runner

    def add(self, action: str, **values: Any) -> str:
        values = {"payload": {}, "deliver_to": ("inbox",), "retry": NO_BACKOFF} | values
        task_id = added(self.store, datetime.now(UTC), action=action, **values).task.id
        for runner in self.runners:
            runner.wake()
        return task_id

    def record(self, task_id: str) -> TaskRecord:
        return self.store.tasks.get(TENANT, task_id)

    def reaches(self, task_id: str, state: State) -> TaskRecord:
        eventually(lambda: self.record(task_id).run.state is state, f"{task_id} to be {state}")
        return self.record(task_id)

    def cancel(self, task_id: str) -> None:
        self.store.tasks.change(
            TENANT,
            task_id,
            actor="alice",
            kind=EventKind.CANCEL_REQUESTED,
            decide=lambda record: changes.cancel(record, self.store.now()),
        )

    def kinds(self, task_id: str) -> list[str]:
        page = self.store.history.events(TENANT, EventFilter(task_id=task_id), limit=100)
        return [event.kind.value for event in reversed(page.events)]

    def reasons(self, task_id: str) -> list[str | None]:
        return [attempt.reason for attempt in self.store.history.attempts(TENANT, task_id)]


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    house = House(tmp_path)
    yield house
    for runner in house.runners:
        runner.stop(timedelta(0))
    house.store.close()


class Gate:
    """A handler that reports that it began, and stays until it is let go or stopped."""

    def __init__(self, name: str = "gate", **options: Any) -> None:
        self.begun = threading.Semaphore(0)
        self.go = threading.Event()
        self.contexts: list[Context] = []
        self.stopped_by: list[type[BaseException]] = []
        self.handler = handler(name, **options)(self.work)

    def work(self, ctx: Context) -> Done:
        """Wait."""
        self.contexts.append(ctx)
        self.begun.release()
        try:
            while not self.go.is_set():
                time.sleep(0.001)
        except BaseException as error:
            self.stopped_by.append(type(error))
            raise
        return Done("let go")

    def await_begun(self) -> None:
        assert self.begun.acquire(timeout=60)


def ignoring(gate: Gate) -> Callable[[Context], Outcome]:
    def work(ctx: Context) -> Outcome:
        gate.contexts.append(ctx)
        gate.begun.release()
        gate.go.wait(60)  # one blocking call: an interrupt reaches it when it returns
        return Done("finished anyway")

    return work


def test_a_reminder_for_now_is_run_and_settled_with_its_message_and_events(house: House) -> None:
    house.run()
    task_id = house.add("reminder", payload={"message": "Stretch"})
    record = house.reaches(task_id, State.SUCCEEDED)
    assert (record.run.summary, record.run.attempt) == ("Stretch", 1)
    assert [message.text for message in house.store.inbox.unread(TENANT, "alice")] == ["Stretch"]
    assert house.kinds(task_id) == ["created", "ready", "started", "succeeded"]
    eventually(lambda: house.told.count(task_id) >= 3, "listeners to hear of ready, started and succeeded")


def test_an_async_handler_shares_one_loop_with_others(house: House) -> None:
    threads: list[int] = []

    @handler("nap")
    async def nap(_ctx: Context) -> Done:
        """Sleep a little."""
        threads.append(threading.get_ident())
        await asyncio.sleep(0.001)
        return Done("rested")

    house.run(nap)
    tasks = [house.add("nap") for _ in range(6)]
    for task_id in tasks:
        assert house.reaches(task_id, State.SUCCEEDED).run.summary == "rested"
    assert len(set(threads)) == 1


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_an_attempt_over_its_time_limit_is_stopped_and_tried_again(house: House, kind: str) -> None:
    attempts: list[int] = []

    def slow(ctx: Context) -> Done:
        """Hang at the first attempt."""
        attempts.append(ctx.attempt)
        while ctx.attempt == 1:
            time.sleep(0.001)
        return Done("second time lucky")

    async def slow_async(ctx: Context) -> Done:
        """Hang at the first attempt."""
        attempts.append(ctx.attempt)
        if ctx.attempt == 1:
            await asyncio.sleep(600)
        return Done("second time lucky")

    house.run(handler("slow", time_limit=0.05)(slow if kind == "sync" else slow_async))
    task_id = house.add("slow")
    house.reaches(task_id, State.SUCCEEDED)
    assert attempts == [1, 2]
    assert house.reasons(task_id) == ["time limit of 0.05 s", None]


def test_a_run_that_is_cancelled_while_it_runs_is_stopped_at_once(house: House) -> None:
    gate = Gate()
    runner = house.run(gate.handler)
    task_id = house.add("gate")
    gate.await_begun()
    house.cancel(task_id)
    runner.wake()
    record = house.reaches(task_id, State.CANCELLED)
    assert gate.contexts[0].cancelled
    assert house.kinds(task_id)[-2:] == ["cancel_requested", "cancelled"]
    assert record.run.ended_at is not None
    assert house.store.inbox.unread(TENANT, "alice") == []


def test_a_wish_to_cancel_that_nobody_told_of_is_found_when_the_lease_is_renewed(house: House) -> None:
    gate = Gate()
    house.run(gate.handler, lease=0.3)
    task_id = house.add("gate")
    gate.await_begun()
    house.cancel(task_id)
    house.reaches(task_id, State.CANCELLED)
    assert gate.contexts[0].cancelled


def test_a_handler_that_ignores_its_cancellation_keeps_its_slot_until_it_ends(house: House) -> None:
    gate = Gate()
    work = ignoring(gate)
    runner = house.run(handler("deaf", description="ignores")(work))
    task_id = house.add("deaf")
    gate.await_begun()
    house.cancel(task_id)
    runner.wake()
    eventually(lambda: gate.contexts[0].cancelled, "the wish to be known")
    assert house.record(task_id).run.state is State.RUNNING
    gate.go.set()
    house.reaches(task_id, State.CANCELLED)


def test_a_run_out_of_attempts_fails_with_a_dead_letter_that_has_every_reason(house: House) -> None:
    @handler("broken")
    def broken(ctx: Context) -> Done:
        """Fail."""
        raise ValueError(f"attempt {ctx.attempt}")

    house.run(broken)
    task_id = house.add("broken", payload={})
    house.reaches(task_id, State.FAILED)
    letters, _ = house.store.dead_letters.page(TENANT, limit=9)
    assert [attempt.reason for attempt in letters[0].attempts] == [f"ValueError: attempt {n}" for n in (1, 2, 3)]


def test_a_handler_that_yields_goes_on_from_its_checkpoint_under_the_same_key(house: House) -> None:
    seen: list[tuple[Any, str]] = []

    @handler("pages")
    def pages(ctx: Context) -> Outcome:
        """Do a page at a time."""
        seen.append((ctx.checkpoint_state, ctx.idempotency_key))
        page = (ctx.checkpoint_state or 0) + 1
        return Done("all pages") if page == 3 else Yielded(page)

    house.run(pages)
    record = house.reaches(house.add("pages"), State.SUCCEEDED)
    assert seen == [(None, record.run.id), (1, record.run.id), (2, record.run.id)]
    assert (record.run.attempt, record.run.failures) == (3, 0)


def test_progress_and_checkpoints_are_stored_while_it_runs(house: House) -> None:
    begun, go = threading.Event(), threading.Event()

    @handler("half")
    def half(ctx: Context) -> Done:
        """Stand in the middle."""
        ctx.progress(0.5, "half")
        ctx.checkpoint({"page": 7})
        begun.set()
        go.wait(60)
        return Done()

    house.run(half)
    task_id = house.add("half")
    begun.wait(60)
    run = house.record(task_id).run
    assert (run.progress, run.checkpoint) == ({"fraction": 0.5, "text": "half"}, {"page": 7})
    go.set()
    house.reaches(task_id, State.SUCCEEDED)


def test_a_recurring_task_gets_its_next_occurrence_with_the_end_of_the_last(house: House) -> None:
    house.run()
    task_id = house.add("reminder", payload={"message": "Stretch"}, repeat="FREQ=HOURLY")
    eventually(lambda: house.record(task_id).last_run, "the first occurrence to end")
    record = house.record(task_id)
    assert record.last_run is not None
    assert record.last_run.state is State.SUCCEEDED
    assert record.run.number == 2
    assert record.run.scheduled_for > house.store.now()


def test_an_action_that_nobody_here_knows_waits_in_the_queue_and_uses_up_no_attempt(house: House) -> None:
    house.run()
    unknown = [house.add("resize"), house.add("resize")]
    house.reaches(house.add("reminder", payload={"message": "Stretch"}), State.SUCCEEDED)
    for task_id in unknown:
        record = house.reaches(task_id, State.READY)
        assert (record.run.attempt, record.run.failures) == (0, 0)


def test_stopping_lets_running_work_finish_within_the_grace_period(house: House) -> None:
    gate = Gate()
    runner = house.run(gate.handler)
    task_id = house.add("gate")
    gate.await_begun()
    stopping = threading.Thread(target=runner.stop, args=(timedelta(seconds=30),))
    stopping.start()
    eventually(gate.contexts[0].should_yield, "the handler to be asked to yield")
    gate.go.set()
    stopping.join(60)
    assert house.record(task_id).run.state is State.SUCCEEDED


def test_a_delivery_that_is_under_way_when_its_runner_stops_is_not_sent_again(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deliverer, "DELIVERY_PAUSE", timedelta(0))
    began, release = threading.Event(), threading.Event()

    class Slow:
        name = "team"

        def send(self, message: InboxMessage, *, key: str) -> None:  # noqa: ARG002 - it answers, and that is all
            began.set()
            release.wait(60)

        def close(self) -> None: ...

    runner = Runner(
        house.store,
        Handlers([reminder]),
        RunnerOptions(house.folder / "runner.lock", grace=timedelta(seconds=60)),
        deliverer=Deliverer(house.store.deliveries, Channels([Slow()])),
    )
    house.runners.append(runner)
    runner.start()
    task_id = house.add("reminder", payload={"message": "Stretch"}, deliver_to=("team",))
    assert began.wait(60)
    threading.Timer(0.05, release.set).start()
    runner.stop()
    assert [each.state for each in house.record(task_id).deliveries] == [DeliveryState.DELIVERED]


def test_a_runner_that_is_stopped_while_it_takes_over_starts_nothing(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    taking_over, going_on, take_over = threading.Event(), threading.Event(), RunnerTerm._take_over

    def take_over_slowly(term: RunnerTerm) -> int:
        epoch = take_over(term)
        taking_over.set()
        assert going_on.wait(60)
        return epoch

    monkeypatch.setattr(RunnerTerm, "_take_over", take_over_slowly)
    gate = Gate()
    gate.go.set()
    task_id = house.add("gate")
    runner = house.run(gate.handler, wait=False)
    assert taking_over.wait(60)
    stopping = threading.Thread(target=runner.stop)
    stopping.start()
    eventually(lambda: runner._stopped, "the stop to begin")
    going_on.set()
    stopping.join(60)
    assert (runner.running, gate.contexts) == (False, [])
    house.run(gate.handler)
    house.reaches(task_id, State.SUCCEEDED)
    assert len(gate.contexts) == 1, "the next runner has the lock, and makes the first attempt"


@pytest.mark.parametrize("fails", [True, False], ids=["that fails", "of a runner that has stopped"])
def test_a_take_over_without_a_start_leaves_no_thread_behind(
    house: House, monkeypatch: pytest.MonkeyPatch, *, fails: bool
) -> None:
    def full(_: Dispatcher) -> None:
        raise StoreUnavailable("the disk is full")

    runner = Runner(house.store, Handlers([reminder]), RunnerOptions(house.folder / "runner.lock"))
    runner.stop()
    if fails:
        monkeypatch.setattr(Dispatcher, "step", full)
    before = set(threading.enumerate())
    with pytest.raises(StoreUnavailable) if fails else nullcontext():
        runner._step()
    assert set(threading.enumerate()) <= before
    assert not runner.running


@pytest.mark.parametrize("deaf", [False, True], ids=["stops when told", "cannot be stopped"])
def test_work_that_outlasts_the_grace_period_is_handed_back_and_started_by_the_next_runner(
    house: House, deaf: bool, caplog: pytest.LogCaptureFixture
) -> None:
    gate = Gate()
    work = handler("gate", description="waits")(ignoring(gate)) if deaf else gate.handler
    first = house.run(work)
    task_id = house.add("gate")
    gate.await_begun()
    first.stop(timedelta(0))
    handed_back = house.record(task_id).run
    assert (handed_back.state, handed_back.failures) == (State.SUSPENDED, 0)
    assert house.reasons(task_id) == ["the worker stopped"]
    assert gate.stopped_by == ([] if deaf else [WorkerStopping])
    assert "1 runs (gate) did not end within the grace period. They start again elsewhere" in caplog.text
    assert ("did not stop; handed it back" in caplog.text) is deaf
    house.run(work)
    gate.await_begun()
    gate.go.set()
    record = house.reaches(task_id, State.SUCCEEDED)
    assert record.run.attempt == 2
    assert {context.idempotency_key for context in gate.contexts} == {record.run.id}


@pytest.mark.parametrize("deaf", [False, True], ids=["interrupted", "ignoring every interrupt"])
def test_a_runner_that_is_hurried_while_it_stops_hands_back_at_once(house: House, *, deaf: bool) -> None:
    gate = Gate()
    runner = house.run(handler("gate", description="waits")(ignoring(gate)) if deaf else gate.handler)
    task_id = house.add("gate")
    gate.await_begun()
    ending = threading.Thread(target=runner.stop, args=(timedelta(hours=1),))
    ending.start()
    eventually(gate.contexts[0].should_yield, "the end to begin")
    assert house.record(task_id).run.state is State.RUNNING
    runner.hurry()
    ending.join(60)
    assert not ending.is_alive()
    assert house.record(task_id).run.state is State.SUSPENDED
    assert house.reasons(task_id) == ["the worker stopped"]
    runner.stop()
    gate.go.set()


def test_a_stopped_runner_leaves_what_is_ready_to_the_next(house: House) -> None:
    gate = Gate()
    first = house.run(gate.handler)
    tasks = [house.add("gate") for _ in range(12)]
    gate.await_begun()
    eventually(lambda: all(house.record(task).run.state is not State.SCHEDULED for task in tasks), "all to be ready")
    first.stop(timedelta(0))
    gate.go.set()
    house.run(gate.handler)
    for task_id in tasks:
        house.reaches(task_id, State.SUCCEEDED)


def test_only_one_of_several_is_the_runner_and_another_follows_when_it_goes(house: House) -> None:
    first = house.run()
    second = house.run(wait=False)
    house.reaches(house.add("reminder"), State.SUCCEEDED)
    assert (first.running, second.running) == (True, False)
    first.stop()
    eventually(lambda: second.running, "the second to take over")
    house.reaches(house.add("reminder"), State.SUCCEEDED)


def test_a_candidate_wakes_the_runner_through_its_port(house: House) -> None:
    first = house.run()
    second = house.run(wait=False)
    woken: list[bool] = []
    assert first._term is not None
    first._term._endpoint._woken = lambda: woken.append(True)

    def wake_arrives() -> bool:
        second.wake()  # a hint, given up within a fraction of a second when the machine is busy
        return bool(woken)

    eventually(wake_arrives, "the wake-up to arrive")


def test_a_run_left_running_by_a_dead_runner_is_charged_to_its_pools(house: House) -> None:
    PoolRegistry(house.store).set("tokens", {"kind": "budget", "capacity": 10})
    epoch = house.store.runners.take_over(pid=1, endpoint="127.0.0.1:1", token="dead")
    record = added(house.store, datetime.now(UTC), payload={"message": "Stretch"}, needs={"tokens": 4})
    house.store.claims.make_ready(limit=9, epoch=epoch)
    start = Start(record.run.id, "token", {"tokens": 4})
    assert house.store.claims.start([start], worker="dead", epoch=epoch, lease=timedelta(seconds=30))
    runner = house.run()
    house.reaches(record.task.id, State.SUCCEEDED)
    assert runner._term is not None
    queue = runner._term.queue
    eventually(lambda: queue.stats().pools["tokens"].used == 0, "its lease to end")
    assert queue.stats().pools["tokens"].spent == 8, "both attempts"


def test_a_run_left_running_by_a_dead_runner_is_attempted_again_under_the_same_key(house: House) -> None:
    epoch = house.store.runners.take_over(pid=1, endpoint="127.0.0.1:1", token="dead")
    record = added(house.store, datetime.now(UTC), payload={"message": "Stretch"}, deliver_to=("inbox",))
    house.store.claims.make_ready(limit=9, epoch=epoch)
    assert house.store.claims.start([Start(record.run.id)], worker="dead", epoch=epoch, lease=timedelta(seconds=30))
    house.run()
    after = house.reaches(record.task.id, State.SUCCEEDED)
    assert (after.run.id, after.run.attempt, after.run.crashes) == (record.run.id, 2, 1)
    assert "crashed" in house.kinds(record.task.id)


def test_runs_that_are_freed_are_the_concern_of_a_runner_for_as_long_as_it_is_one(house: House) -> None:
    elsewhere: list[str] = []
    house.store.commits.listen(elsewhere.extend)
    runner = house.run()
    house.store.commits.notify(["during"])
    runner.stop(timedelta(0))
    house.store.commits.notify(["after"])
    assert (house.told, elsewhere) == (["during"], ["after"])


def test_a_runner_that_has_stopped_is_called_by_no_commit_and_kept_by_nothing(house: House) -> None:
    ended: list[EndedRun] = []
    house.store.commits.listen(ended=ended.extend)
    runner = house.run()
    assert runner._term is not None
    term = weakref.ref(runner._term)
    runner.stop(timedelta(0))
    house.cancel(added(house.store, datetime.now(UTC) + timedelta(hours=1)).task.id)
    eventually(lambda: (gc.collect(), term())[1] is None, "the term to be let go")
    assert [end.state for end in ended] == [State.CANCELLED]


def test_a_runner_whose_epoch_is_over_starts_nothing_more_and_steps_down(house: House) -> None:
    runner = house.run()
    house.store.runners.take_over(pid=1, endpoint="127.0.0.1:1", token="another")
    task_id = house.add("reminder")
    eventually(lambda: not runner.running, "the runner to step down")
    assert house.record(task_id).run.attempt == 0


def test_a_listener_that_fails_disturbs_nobody(house: House) -> None:
    notified: list[object] = []

    def fail(changed: Sequence[object]) -> None:
        notified.extend(changed)
        raise RuntimeError("the listener is broken")

    house.listen(RunNotifier(fail, subscribers=(fail,)))
    house.run()
    task_id = house.add("reminder")
    run = house.reaches(task_id, State.SUCCEEDED).run
    eventually(lambda: RunEvent(EventKind.SUCCEEDED, run.id) in notified, "the end to be notified all the same")
    assert task_id in notified


def test_subscribers_get_the_start_and_the_end_of_each_attempt(house: House) -> None:
    @handler("fails")
    def fails(_ctx: Context) -> Outcome:
        """Fail at the first attempt."""
        return Failed("no such customer")

    found: list[RunEvent] = []
    house.listen(RunNotifier(subscribers=(found.extend,)))
    house.run(fails)
    run = house.reaches(house.add("fails"), State.FAILED).run
    eventually(lambda: len(found) == 2, "the events")
    assert found == [
        RunEvent(EventKind.STARTED, run.id),
        RunEvent(EventKind.FAILED, run.id, "no such customer"),
    ]


def test_the_log_has_a_line_for_the_runs_to_which_the_same_happened(caplog: pytest.LogCaptureFixture) -> None:
    ended = [RunEvent(EventKind.EXPIRED, f"r_{n}", ("late", "later")[n // 2]) for n in range(3)]
    with caplog.at_level("INFO", logger="duetime"):
        log_runs([RunEvent(EventKind.STARTED, "r_9"), *ended, RunEvent(EventKind.CRASHED, "r_4")])
    assert [(record.levelname, record.message) for record in caplog.records] == [
        ("INFO", "expired: 2 runs (r_0, r_1): late"),
        ("INFO", "expired: 1 run (r_2): later"),
        ("WARNING", "crashed: 1 run (r_4)"),
    ]


def test_a_runner_that_was_never_started_stops(house: House) -> None:
    runner = Runner(house.store, Handlers(), RunnerOptions(house.folder / "runner.lock"))
    runner.stop()
    assert not runner.running
    assert house.run().running, "another one can have the lock"


def test_retry_after_a_failure_is_not_before_its_time(house: House) -> None:
    @handler("later")
    def later(_ctx: Context) -> Outcome:
        """Ask for an hour."""
        return Retry("busy", after=timedelta(hours=1))

    house.run(later)
    record = house.reaches(house.add("later"), State.RETRYING)
    assert record.run.wake_at is not None
    assert record.run.wake_at > house.store.now() + timedelta(minutes=59)


def test_a_candidate_that_loses_the_race_for_the_epoch_tries_again(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    races, recover = [1], house.store.claims.recover

    def lose_once(**arguments: Any) -> int:
        if races:
            races.pop()
            raise RunnerReplaced(1, 2)
        return recover(**arguments)

    monkeypatch.setattr(house.store.claims, "recover", lose_once)
    house.run()
    house.reaches(house.add("reminder"), State.SUCCEEDED)
    assert races == [], "it lost one"


def test_a_start_that_was_stored_though_it_seemed_to_fail_is_attempted_again(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures, start = [1], house.store.claims.start

    def start_and_lose_the_answer(*starts: Any, **options: Any) -> list[Claim]:
        claims = start(*starts, **options)
        if claims and failures:
            failures.pop()
            raise StoreUnavailable("the connection broke in the commit")
        return claims

    monkeypatch.setattr(house.store.claims, "start", start_and_lose_the_answer)
    runner = house.run(lease=0.3)
    task_id = house.add("reminder")

    def succeeds() -> bool:
        assert runner._term is not None
        runner._term.engine.maintenance.wake()  # it would look by itself, but only every 5 seconds
        return house.record(task_id).run.state is State.SUCCEEDED

    eventually(succeeds, "the run to be started again")
    run = house.record(task_id).run
    assert (run.attempt, run.crashes) == (2, 1)


def test_a_run_in_hand_is_left_alone_though_its_lease_could_not_be_renewed(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> set[str]:
        raise StoreUnavailable("the disk is full")

    monkeypatch.setattr(house.store.claims, "renew", fail)
    gate = Gate()
    runner = house.run(gate.handler, lease=0.1)
    task_id = house.add("gate")
    gate.await_begun()
    over = house.store.now() + timedelta(seconds=0.1)
    eventually(lambda: house.store.now() > over, "the lease to pass")
    assert runner._term is not None
    runner._term.engine.maintenance._step()
    assert house.record(task_id).run.state is State.RUNNING
    gate.go.set()
    record = house.reaches(task_id, State.SUCCEEDED)
    assert (record.run.attempt, record.run.crashes) == (1, 0)
