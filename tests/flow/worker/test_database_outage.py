"""An outage of the database costs a run nothing: its calls wait, and a run that cannot go on is handed back."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest
from duetime.scheduler.access.secret import SecretUnavailable
from duetime.scheduler.errors import StoreUnavailable
from duetime.scheduler.handlers import Context, Handler, Handlers, handler
from duetime.scheduler.outcomes import Done, Failed, Outcome, Retry, Wait
from duetime.scheduler.queue.memory.queue import MemoryQueue
from duetime.scheduler.rules.settlement import settle
from duetime.scheduler.runtime.event_loop import EventLoop
from duetime.scheduler.runtime.interrupt import TimeLimitReached
from duetime.scheduler.runtime.notifier import RunNotifier
from duetime.scheduler.store import Store
from duetime.scheduler.task import Notify, State
from duetime.scheduler.views import TaskFilter
from duetime.scheduler.worker import worker as worker_module
from duetime.scheduler.worker.active_runs import ActiveRun
from duetime.scheduler.worker.completer import BatchCompleter, CompletedRun
from duetime.scheduler.worker.executor import GIVEN_BACK_NO_DATABASE, Executor
from duetime.scheduler.worker.threads.store_wait import MAX_LOOP_WAIT_S, MAX_PAUSE_S, StoreWait
from duetime.scheduler.worker.worker import Worker, WorkerOptions

from tests.builders import NOON, TENANT, started
from tests.flow.waiting import eventually
from tests.flow.worker import isolated_handlers


def unknown_secret(ctx: Context) -> None:
    with suppress(SecretUnavailable):
        ctx.secret("token")


CALLS: dict[str, tuple[str, str, Callable[[Context], object]]] = {
    "inputs": ("dependencies", "results", lambda ctx: ctx.inputs),
    "event": ("signals", "wait_of_run", lambda ctx: ctx.event),
    "event_timed_out": ("signals", "wait_of_run", lambda ctx: ctx.event_timed_out),
    "approval": ("approvals", "answered", lambda ctx: ctx.approval),
    "secret": ("secrets", "value", unknown_secret),
    "checkpoint": ("claims", "checkpoint", lambda ctx: ctx.checkpoint({"at": 1})),
    "progress": ("claims", "progress", lambda ctx: ctx.progress(0.5)),
}


def handlers_of(use: Callable[[Context], object]) -> list[Handler[Any, Any]]:
    @handler("sync")
    def sync(ctx: Context) -> Outcome:
        """Use the context."""
        use(ctx)
        return Done("used")

    @handler("async")
    async def on_the_loop(ctx: Context) -> Outcome:
        """Use the context on the event loop."""
        use(ctx)
        return Done("used")

    return [sync, on_the_loop]


@dataclass
class Outage:
    """A database that fails the next `left` calls; `after_pause` is called in each pause of a run that waits."""

    store: Store
    monkeypatch: pytest.MonkeyPatch
    left: int = 0
    at: float = 100.0
    pauses: list[float] = field(default_factory=list)
    after_pause: Callable[[], object] = int

    def hit(self, room: str, method: str, *, calls: int) -> None:
        real = getattr(getattr(self.store, room), method)
        self.left = calls

        def call(*arguments: Any, **named: Any) -> Any:
            if self.left > 0:
                self.left -= 1
                raise StoreUnavailable("The database cannot be reached.")
            return real(*arguments, **named)

        self.monkeypatch.setattr(getattr(self.store, room), method, call)

    def pause(self, seconds: float) -> None:
        self.at += seconds
        self.pauses.append(seconds)
        self.after_pause()

    def run(self, loop: EventLoop, items: list[Handler[Any, Any]], held: ActiveRun) -> Any:
        wait = StoreWait(clock=lambda: self.at, pause=self.pause)
        executor = Executor(
            self.store, Handlers(items), loop, tuple, started=lambda _held, _limit: None, store_wait=wait
        )
        return executor.run(held)


@pytest.fixture
def outage(store: Store, monkeypatch: pytest.MonkeyPatch) -> Outage:
    return Outage(store, monkeypatch)


@pytest.fixture
def loop() -> Iterator[EventLoop]:
    made = EventLoop()
    made.start()
    yield made
    made.stop(60)


def active(store: Store, action: str) -> ActiveRun:
    return ActiveRun(started(store, action=action, payload={}))


@pytest.mark.parametrize("action", ["sync", "async"])
@pytest.mark.parametrize("call", CALLS)
def test_a_call_of_the_context_waits_for_the_database(
    store: Store, outage: Outage, loop: EventLoop, action: str, call: str
) -> None:
    room, method, use = CALLS[call]
    held = active(store, action)
    outage.hit(room, method, calls=3)
    assert outage.run(loop, handlers_of(use), held) == Done("used")
    assert (outage.left, outage.pauses) == (0, [0.05, 0.1, 0.2])


def test_a_handler_in_a_process_of_its_own_waits_for_the_database(
    store: Store, outage: Outage, loop: EventLoop
) -> None:
    claim = started(store, action="everything", payload={"words": ["a"]})
    held = ActiveRun(replace(claim, reserved={"gpu": 1}))
    outage.hit("claims", "checkpoint", calls=2)
    found = outage.run(loop, [isolated_handlers.everything], held)
    assert isinstance(found, Done)
    assert len(outage.pauses) == 2


@pytest.mark.parametrize("call", ["checkpoint", "inputs"])
def test_a_time_limit_that_comes_in_an_outage_hands_the_run_back(
    store: Store, outage: Outage, loop: EventLoop, call: str
) -> None:
    room, method, use = CALLS[call]
    held = active(store, "sync")
    outage.hit(room, method, calls=10_000)

    def interrupt() -> None:
        if len(outage.pauses) == 5:
            watchdog = threading.Thread(target=held.interrupt, args=[TimeLimitReached])
            watchdog.start()
            watchdog.join()

    outage.after_pause = interrupt
    found = outage.run(loop, handlers_of(use), held)
    assert found == GIVEN_BACK_NO_DATABASE
    ended = settle(held.claim, found, now=NOON, jitter=0.5)
    assert (ended.to, ended.failures, ended.dead_letter) == (State.SUSPENDED, 0, False)
    assert held.usage.finish(held.run_id, "token", ended.outcome).reports == ()


def test_an_event_loop_is_not_blocked_for_long(store: Store, outage: Outage, loop: EventLoop) -> None:
    outage.hit("claims", "checkpoint", calls=10_000)
    found = outage.run(loop, handlers_of(CALLS["checkpoint"][2]), active(store, "async"))
    assert found == GIVEN_BACK_NO_DATABASE
    assert MAX_LOOP_WAIT_S <= outage.at - 100.0 < MAX_LOOP_WAIT_S + MAX_PAUSE_S


def test_an_abandoned_attempt_stops_waiting(store: Store, outage: Outage, loop: EventLoop) -> None:
    held = active(store, "sync")
    outage.hit("claims", "checkpoint", calls=10_000)
    outage.after_pause = lambda: held.abandon() if len(outage.pauses) == 4 else None
    assert outage.run(loop, handlers_of(CALLS["checkpoint"][2]), held) == GIVEN_BACK_NO_DATABASE
    assert len(outage.pauses) == 4


def blocked_handlers() -> list[Handler[Any, Any]]:
    @handler("transfer", preflight=lambda _ctx: "no certificate")
    def transfer(_ctx: Context) -> Done:
        """Transfer money."""
        return Done("transferred")

    return [transfer]


def reminders(store: Store) -> list[str]:
    return [each.task.title for each in store.tasks.page(TENANT, TaskFilter(action="reminder"), limit=9)[0]]


def test_the_notice_of_a_blocked_run_waits_for_the_database(store: Store, outage: Outage, loop: EventLoop) -> None:
    held = active(store, "transfer")
    outage.hit("tasks", "add", calls=2)
    found = outage.run(loop, blocked_handlers(), held)
    assert isinstance(found, Wait)
    assert found.reason == "blocked: no certificate"
    assert reminders(store) == [f"Blocked: {held.claim.task.title}"]


def test_a_blocked_run_whose_notice_could_not_be_stored_is_handed_back_and_notifies_next_time(
    store: Store, outage: Outage, loop: EventLoop
) -> None:
    held = active(store, "transfer")
    outage.hit("tasks", "add", calls=9)
    outage.after_pause = lambda: held.call.interrupt(TimeLimitReached)
    assert outage.run(loop, blocked_handlers(), held) is GIVEN_BACK_NO_DATABASE
    assert reminders(store) == []
    outage.left = 0
    assert isinstance(outage.run(loop, blocked_handlers(), ActiveRun(held.claim)), Wait)
    assert reminders(store) == [f"Blocked: {held.claim.task.title}"]


def test_a_handler_that_fails_once_the_database_is_back_has_failed(
    store: Store, outage: Outage, loop: EventLoop
) -> None:
    def use(ctx: Context) -> None:
        ctx.checkpoint({"at": 1})
        raise LookupError("no such file")

    outage.hit("claims", "checkpoint", calls=2)
    found = outage.run(loop, handlers_of(use), active(store, "sync"))
    assert found == Retry("LookupError: no such file")


def test_a_result_that_is_compared_with_the_last_one_waits_for_the_database(store: Store, outage: Outage) -> None:
    held = ActiveRun(started(store, notify=Notify.CHANGE))
    outage.hit("tasks", "compared_with", calls=2)
    ended: list[CompletedRun] = []
    completer = BatchCompleter(store, on_settled=ended.extend)
    completer.start()
    completer.hand_in(held, Done("3 mails"))
    eventually(lambda: ended, "the end of the run")
    completer.close(60)
    assert ended[0].settlement.to is State.SUCCEEDED


def test_a_success_that_cannot_be_compared_before_a_shutdown_is_stored_as_a_success(
    store: Store, outage: Outage
) -> None:
    claim = started(store, notify=Notify.CHANGE)
    outage.hit("tasks", "compared_with", calls=1_000_000)
    ended: list[CompletedRun] = []
    completer = BatchCompleter(store, on_settled=ended.extend)
    completer.start()
    completer.hand_in(ActiveRun(claim), Done("3 mails"), wait=False)
    completer.close(0)
    eventually(lambda: ended, "the end of the run")
    outage.left = 0
    assert store.tasks.get(TENANT, claim.task.id).run.state is State.SUCCEEDED
    assert [message.text for message in store.inbox.unread(TENANT, claim.task.owner)] == ["3 mails"]


@pytest.mark.parametrize("wait", [True, False])
def test_a_success_whose_tasks_cannot_be_planned_before_a_shutdown_is_left_to_recovery(
    store: Store, *, wait: bool
) -> None:
    claim, asked = started(store), threading.Event()

    def spawns(*_: object) -> list[Any]:
        asked.set()
        raise StoreUnavailable("away")

    ended: list[CompletedRun] = []
    completer = BatchCompleter(store, on_settled=ended.extend, notifier=RunNotifier(spawns=spawns))
    completer.start()
    result = Done("split", spawn=({"title": "a part"},))
    handing = threading.Thread(target=completer.hand_in, args=(ActiveRun(claim), result), kwargs={"wait": wait})
    handing.start()
    assert asked.wait(60)
    completer.close(0)
    handing.join(60)
    completer._thread.join(60)
    assert (handing.is_alive(), completer._thread.is_alive(), ended) == (False, False, [])
    assert store.tasks.get(TENANT, claim.task.id).run.state is State.RUNNING


def test_the_result_of_a_lost_handler_is_handed_in_at_once_while_the_database_is_away(
    store: Store, outage: Outage
) -> None:
    """The thread that hands it in supervises every run of the worker: leases are renewed there."""
    held = ActiveRun(started(store, notify=Notify.CHANGE))
    outage.hit("tasks", "compared_with", calls=1_000_000)
    ended: list[CompletedRun] = []
    completer = BatchCompleter(store, on_settled=ended.extend)
    completer.start()
    handing = threading.Thread(
        target=completer.hand_in, args=(held, Failed("time limit of 2 s")), kwargs={"wait": False}
    )
    handing.start()
    handing.join(20)
    assert (handing.is_alive(), ended) == (False, [])
    outage.left = 0
    eventually(lambda: ended, "the end of the run")
    completer.close(60)
    assert ended[0].settlement.to is State.FAILED


def test_a_result_that_spawns_tasks_waits_for_the_database(store: Store) -> None:
    held, answers = ActiveRun(started(store)), [StoreUnavailable("away"), StoreUnavailable("away")]

    def spawns(*_: object) -> list[Any]:
        if answers:
            raise answers.pop()
        return []

    ended: list[CompletedRun] = []
    completer = BatchCompleter(store, on_settled=ended.extend, notifier=RunNotifier(spawns=spawns))
    completer.start()
    completer.hand_in(held, Done("split", spawn=({"title": "a part"},)))
    eventually(lambda: ended, "the end of the run")
    completer.close(60)
    assert ended[0].settlement.to is State.SUCCEEDED


def test_a_worker_stops_in_time_though_its_backlog_is_full_and_no_database_takes_it(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "MAX_UNSTORED_PER_THREAD", 1)
    worker = Worker(store, MemoryQueue(), Handlers(), WorkerOptions("w1", threads=1))
    worker.start()
    storing = threading.Event()

    def settle(_settlements: object, **_how: object) -> None:
        storing.set()
        raise StoreUnavailable("The database cannot be reached.")

    monkeypatch.setattr(store.claims, "settle", settle)
    first, second = (ActiveRun(started(store)) for _ in range(2))
    worker._completer.hand_in(first, Done())
    assert storing.wait(60)
    worker._completer.hand_in(second, Done())
    worker._active_runs.add([started(store)])
    stopping = threading.Thread(target=worker.stop, args=(timedelta(0),), daemon=True)
    stopping.start()
    stopping.join(30)
    assert not stopping.is_alive()
