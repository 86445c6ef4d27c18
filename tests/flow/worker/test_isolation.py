"""A handler in a process of its own: all of its context works there, and what does not stop is killed."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from duetime.scheduler.errors import HandlerError, InvalidSetting, StoreUnavailable
from duetime.scheduler.events import EventKind
from duetime.scheduler.handlers import Context, Handler, Handlers, Link, handler, reminder, watch, webhook
from duetime.scheduler.handlers import process as isolation
from duetime.scheduler.handlers.process import HandlerProcess
from duetime.scheduler.outcomes import Done, Failed, Outcome, Retry, Wait
from duetime.scheduler.queue import Entry
from duetime.scheduler.queue.memory.queue import MemoryQueue
from duetime.scheduler.records import Change
from duetime.scheduler.runtime.interrupt import TimeLimitReached
from duetime.scheduler.store import Store
from duetime.scheduler.task import Json, State
from duetime.scheduler.views import TaskRecord
from duetime.scheduler.worker.watchdog import TIME_LIMIT_GRACE_S
from duetime.scheduler.worker.worker import Worker, WorkerOptions

from tests.builders import NOON, TENANT, added
from tests.flow.waiting import eventually
from tests.flow.worker import isolated_handlers

NOON_MS = NOON.timestamp() * 1000


def run(item: Handler, link: Link | None = None, **payload: Json) -> Outcome | None:
    context = Context.for_test(link=link, needs={"gpu": 1}, checkpoint_state={"at": 1})
    process = HandlerProcess(item, context, payload)
    process.assign()
    return process.run()


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def is_gone(pid: int) -> bool:
    """Whether a process has ended, though nobody may have waited for it."""
    try:
        return state_of(pid) == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


# --- one attempt ------------------------------------------------------------------------------------------------------


def test_everything_of_a_context_crosses_to_the_process_and_back(capfd: pytest.CaptureFixture[str]) -> None:
    told: list[Any] = []

    def tell(kind: str, value: Json) -> bool:
        told.append((kind, value))
        return True

    link = Link(
        save=lambda state: tell("save", state),
        report=lambda value: tell("report", value),
        use=lambda pool, units: told.append(("use", pool, units)),
        should_yield=lambda: True,
        now=lambda: datetime(2026, 5, 1, tzinfo=UTC),
    )
    outcome = run(isolated_handlers.everything, link, words=["a", "b"])
    assert isinstance(outcome, Done)
    result: Any = outcome.result
    assert outcome.summary == "a b"
    assert result["facts"] == ["Test", 1, {"at": 1}, False, True, "2026-05-01T00:00:00+00:00"]
    assert (result["saved"], result["shown"]) == (True, True)
    assert result["pid"] != os.getpid()
    assert told == [("use", "gpu", 0.5), ("save", {"at": 3}), ("report", {"fraction": 1.0, "text": "all"})]
    printed = capfd.readouterr()
    assert (printed.out, printed.err) == ("", "what a handler prints\n")


def test_outcomes_come_back_as_they_are() -> None:
    busy: list[object] = []
    link = Link(busy=lambda pool, pause: busy.append((pool, pause)))
    assert run(isolated_handlers.throttled, link) == Wait(timedelta(seconds=5), "gpu is busy", {"at": 4})
    assert busy == [("gpu", 5000.0)]
    assert run(isolated_handlers.fails) == Failed("no such customer", {"id": 7})
    assert run(isolated_handlers.raises) == Retry("LookupError: no such file")


def test_a_database_that_is_away_is_the_same_error_in_the_process() -> None:
    def away(_: Json) -> bool:
        raise StoreUnavailable("the database is away")

    outcome = run(isolated_handlers.everything, Link(save=away), words=[])
    assert outcome == Retry("StoreUnavailable: the database is away")


def test_a_process_that_dies_has_no_outcome_and_says_how_it_died() -> None:
    process = HandlerProcess(isolated_handlers.dies, Context.for_test(), {})
    process.assign()
    assert process.run() is None
    assert process.end == "was killed by SIGSEGV"


@pytest.mark.skipif(not hasattr(os, "waitid"), reason="this system cannot await a process without reaping it")
def test_a_process_that_is_killed_alone_ends_its_attempt_and_what_it_has_forked() -> None:
    forked: list[Any] = []

    def save(state: Json) -> bool:
        forked.append(state)
        return True

    process = HandlerProcess(isolated_handlers.is_killed, Context.for_test(link=Link(save=save)), {})
    process.assign()
    assert process.run() is None
    assert process.end == "was killed by SIGKILL"
    eventually(lambda: is_gone(forked[0]), "the end of what it had forked")


@pytest.mark.skipif(not hasattr(signal, "SIGRTMIN"), reason="this system has no real-time signals")
def test_a_process_that_a_signal_without_a_name_kills_says_its_number() -> None:
    number = signal.SIGRTMIN + 1
    process = HandlerProcess(isolated_handlers.dies, Context.for_test(), {})
    os.kill(process.pid, number)
    assert process.run() is None
    eventually(lambda: process._process.poll() is not None, "it has ended")
    assert process.end == f"was killed by signal {int(number)}"


class Unread:
    """A process that has stopped to read, and what is being written to it: an answer larger than a pipe holds."""

    def __init__(self) -> None:
        link = Link(inputs=self._inputs)
        self.process = HandlerProcess(isolated_handlers.asks, Context.for_test(link=link), {})
        self.process.assign()
        self.writing = threading.Event()
        self._to = self.process._to
        self.process._to = self  # type: ignore[assignment]  # to see that it writes
        self.running = threading.Thread(target=self.process.run, daemon=True)
        self.running.start()
        assert self.writing.wait(20)

    def _inputs(self) -> Mapping[str, Json]:
        os.kill(self.process.pid, signal.SIGSTOP)
        eventually(lambda: state_of(self.process.pid) == "T", "it has stopped")
        return {"t_1": "x" * 1_000_000}

    def write(self, message: bytes) -> int:
        if len(message) > 1_000_000:
            self.writing.set()
        return self._to.write(message)

    def flush(self) -> None:
        self._to.flush()

    def close(self) -> None:
        self._to.close()


@pytest.fixture
def unread() -> Iterator[Unread]:
    made = Unread()
    yield made
    with suppress(ProcessLookupError):
        os.killpg(made.process.pid, signal.SIGKILL)
    made.running.join(20)


def returns(call: Callable[[], object]) -> bool:
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(20)
    return not thread.is_alive()


def test_a_process_that_does_not_read_its_answers_can_be_killed(unread: Unread) -> None:
    assert returns(unread.process.kill), "whoever kills it supervises every run of the worker"
    unread.running.join(20)
    assert unread.process.end == "was killed by SIGKILL"


def test_an_interrupt_does_not_wait_for_a_process_that_does_not_read(unread: Unread) -> None:
    assert returns(lambda: unread.process.interrupt(TimeLimitReached))
    assert returns(unread.process.kill)


# --- what can be isolated ---------------------------------------------------------------------------------------------


def test_a_handler_that_another_process_cannot_import_is_refused_at_the_start() -> None:
    @handler("inner", isolation="process")
    def inner(_ctx: Context) -> Done:
        """Stand in a function."""
        return Done()

    with pytest.raises(HandlerError, match="top level of a module"):
        Handlers([inner])
    with pytest.raises(InvalidSetting, match=r"^isolated_actions: .*webhook.* cannot be found by another process"):
        Handlers([reminder, webhook()]).isolated(["webhook"])
    with pytest.raises(InvalidSetting, match=r"^isolated_actions: watch runs in threads only; give its checks"):
        Handlers([watch()]).isolated(["watch"])


def test_a_setting_names_the_actions_that_run_in_a_process_of_their_own() -> None:
    known = Handlers([reminder, webhook()]).isolated(["reminder"])
    assert {name: item.isolation for name, item in known.items()} == {"reminder": "process", "webhook": "thread"}
    with pytest.raises(InvalidSetting, match="no action resize; there are reminder"):
        Handlers([reminder]).isolated(["resize"])


def test_isolation_is_by_thread_or_by_process() -> None:
    with pytest.raises(HandlerError, match='"thread" or "process"'):
        replace(reminder, isolation="container")  # type: ignore[arg-type]  # that is what is refused


# --- in a worker ------------------------------------------------------------------------------------------------------


class House:
    """A worker of one thread, whose watch is set by hand."""

    def __init__(self, store: Store, item: Handler, **payload: Json) -> None:
        self.at = 100.0
        self.stopped = False
        self.store = store
        queue = MemoryQueue(lambda: NOON_MS)
        self.record = added(store, action=item.name, payload=payload)
        store.claims.make_ready(limit=1)
        queue.put([Entry(self.record.run.id, NOON_MS)])
        self.worker = Worker(store, queue, Handlers([item]), WorkerOptions("w", threads=1), monotonic=lambda: self.at)
        self.worker.start()

    def stop(self) -> None:
        if not self.stopped:
            self.stopped = True
            self.worker.stop(timedelta(0))

    def pass_time(self, seconds: float) -> None:
        self.at += seconds
        self.worker.check()

    @property
    def found(self) -> TaskRecord:
        return self.store.tasks.get(TENANT, self.record.task.id)

    def checkpoint(self) -> Any:
        eventually(lambda: self.found.run.checkpoint is not None, "its checkpoint")
        return self.found.run.checkpoint

    def reaches(self, state: State) -> str | None:
        eventually(lambda: self.found.run.state is state, f"the run to be {state}")
        [attempt] = self.store.history.attempts(TENANT, self.record.task.id)
        return attempt.reason


@pytest.fixture
def house(store: Store) -> Iterator[Callable[..., House]]:
    built: list[House] = []

    def make(item: Handler, **payload: Json) -> House:
        built.append(House(store, item, **payload))
        return built[-1]

    yield make
    for each in built:
        each.stop()


def test_a_process_that_does_not_stop_at_its_time_limit_is_killed_with_all_that_it_started(
    house: Callable[..., House],
) -> None:
    blocked = house(isolated_handlers.blocks)
    pids = blocked.checkpoint()
    [held] = blocked.worker._active_runs.all()
    blocked.pass_time(2)
    eventually(lambda: held.timed_out and held.kill_at is not None, "it is asked to stop")
    assert not is_gone(pids[0])
    blocked.pass_time(TIME_LIMIT_GRACE_S)
    assert blocked.reaches(State.RETRYING) == "time limit of 2 s"
    eventually(lambda: all(map(is_gone, pids)), "both processes are gone")
    assert blocked.worker.lost_threads == 0


def test_a_cancelled_process_that_does_not_stop_is_killed(house: Callable[..., House]) -> None:
    blocked = house(isolated_handlers.blocks)
    pids = blocked.checkpoint()
    [held] = blocked.worker._active_runs.all()
    blocked.store.tasks.change(
        TENANT,
        blocked.record.task.id,
        actor="alice",
        kind=EventKind.CANCEL_REQUESTED,
        decide=lambda it: Change(it.task, replace(it.run, cancel_requested=True)),
    )
    blocked.pass_time(1)
    eventually(lambda: held.kill_at is not None, "it is asked to stop")
    blocked.pass_time(TIME_LIMIT_GRACE_S)
    blocked.reaches(State.CANCELLED)
    eventually(lambda: all(map(is_gone, pids)), "both processes are gone")


def test_a_process_that_never_reads_its_assignment_is_killed(
    house: Callable[..., House], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(isolation, "_COMMAND", (sys.executable, "-c", "import time; time.sleep(60)"))
    deaf = house(isolated_handlers.blocks, words="x" * 1_000_000)
    eventually(lambda: [held.ends_by for held in deaf.worker._active_runs.all()], "it starts")
    [held] = deaf.worker._active_runs.all()
    eventually(lambda: held.kill is not None, "it can be killed")
    deaf.pass_time(2)
    eventually(lambda: held.kill_at is not None, "it is asked to stop")
    deaf.pass_time(TIME_LIMIT_GRACE_S)
    assert deaf.reaches(State.RETRYING) == "time limit of 2 s"
    assert deaf.worker.lost_threads == 0


def test_a_handler_in_a_process_is_interrupted_where_it_is(house: Callable[..., House]) -> None:
    spinning = house(isolated_handlers.spins)
    assert spinning.checkpoint() == "begun"
    spinning.pass_time(2)
    assert spinning.reaches(State.RETRYING) == "time limit of 2 s"


def test_a_process_ends_with_the_worker_that_hands_its_run_back(house: Callable[..., House]) -> None:
    blocked = house(isolated_handlers.blocks)
    pids = blocked.checkpoint()
    blocked.stop()
    assert blocked.reaches(State.SUSPENDED) == "the worker stopped"
    eventually(lambda: all(map(is_gone, pids)), "both processes are gone")


def test_a_process_that_dies_is_a_failed_attempt_and_the_worker_goes_on(house: Callable[..., House]) -> None:
    reason = house(isolated_handlers.dies).reaches(State.RETRYING)
    assert reason == "its handler process was killed by SIGSEGV before it returned"


def test_a_process_ends_when_its_worker_is_gone() -> None:
    told: list[Json] = []
    process = HandlerProcess(isolated_handlers.blocks, Context.for_test(link=Link(save=told.append)), {})
    process.assign()
    process._process.stdin.close()  # type: ignore[union-attr]  # as the system does when a worker is killed
    process.run()
    assert process.end == "was killed by SIGKILL"
