"""Lines that a handler logs are kept with its run, however the handler is run, and however it ends."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from datetime import timedelta

import pytest
from duetime.scheduler.handlers import Context, Handler, Handlers, handler
from duetime.scheduler.history.run_log import MAX_CHUNK_BYTES, MAX_RUN_LOG_BYTES, TRACEBACK_LOGGER
from duetime.scheduler.outcomes import Done
from duetime.scheduler.queue import Entry
from duetime.scheduler.queue.memory.queue import MemoryQueue
from duetime.scheduler.runtime.attempt_context import attempt_context, keep_logs
from duetime.scheduler.runtime.secret_mask import learn_secret, secrets_masked
from duetime.scheduler.store import Store
from duetime.scheduler.task import RetryPolicy, State
from duetime.scheduler.view_parts import LogLine
from duetime.scheduler.views import TaskRecord
from duetime.scheduler.worker.logs.attempt_log import MAX_RUN_LOG_LINE_CHARS, AttemptLog
from duetime.scheduler.worker.logs.log_writer import LOG_FLUSH_INTERVAL_S, RunLogWriter
from duetime.scheduler.worker.worker import Worker, WorkerOptions

from tests.builders import NOON, TENANT, added
from tests.flow.waiting import eventually
from tests.flow.worker import isolated_handlers
from tests.flow.worker.test_handler_logs import NAME, Process, talks_here, talks_later

NOON_MS = NOON.timestamp() * 1000
shop = logging.getLogger("shop")
VALUE = "swordfish+9"


@pytest.fixture(autouse=True)
def info() -> Iterator[None]:
    shop.setLevel(logging.INFO)
    yield
    shop.setLevel(logging.NOTSET)


def worker_of(store: Store, item: Handler, attempts: int = 1) -> tuple[Worker, TaskRecord]:
    """Let a worker run one task with this handler."""
    queue = MemoryQueue(lambda: NOON_MS)
    record = added(store, action=item.name, payload={}, retry=RetryPolicy(max_attempts=attempts))
    store.claims.make_ready(limit=1)
    queue.put([Entry(record.run.id, NOON_MS)])
    worker = Worker(store, queue, Handlers([item]), WorkerOptions("w", threads=1))
    worker.start()
    return worker, record


def log_of(store: Store, record: TaskRecord) -> tuple[LogLine, ...]:
    return store.run_logs.read(TENANT, record.run.id, limit=1_000).lines


def ran(store: Store, item: Handler, state: State = State.SUCCEEDED) -> tuple[LogLine, ...]:
    worker, record = worker_of(store, item)
    eventually(lambda: store.tasks.get(TENANT, record.task.id).run.state is state, "it ran")
    worker.stop(timedelta(0))
    return log_of(store, record)


@pytest.mark.parametrize("item", [talks_here, talks_later, isolated_handlers.talks])
def test_the_log_and_output_of_a_handler_are_kept_with_its_run(
    store: Store, monkeypatch: pytest.MonkeyPatch, item: Handler
) -> None:
    with Process(monkeypatch):
        lines = ran(store, item)
    said = [(line.level, line.logger, line.text.partition("\n")[0]) for line in lines]
    assert said == [
        ("info", "shop", "by logging"),
        ("error", "shop", "with its traceback"),
        ("info", "shop", "in another thread"),
        ("info", "duetime.print", "printed 100%s"),
        ("info", "duetime.print", "not ended"),
    ]
    assert lines[1].text.endswith("LookupError: caught")
    assert [(line.attempt, line.number) for line in lines] == [(1, number) for number in range(1, 6)]


def test_lines_are_stored_while_the_handler_runs(store: Store) -> None:
    """So much is left of them when the process is killed."""
    told, go_on = threading.Event(), threading.Event()

    @handler("long")
    def long(_ctx: Context) -> Done:
        shop.info("begun")
        told.set()
        go_on.wait(20)
        shop.info("done")
        return Done()

    worker, record = worker_of(store, long)
    told.wait(20)
    eventually(lambda: log_of(store, record), "the first line to be stored")
    assert [line.text for line in log_of(store, record)] == ["begun"]
    go_on.set()
    eventually(lambda: store.tasks.get(TENANT, record.task.id).run.state is State.SUCCEEDED, "it ran")
    assert [line.text for line in log_of(store, record)] == ["begun", "done"]
    worker.stop(timedelta(0))


def test_the_traceback_of_a_failed_attempt_is_in_the_log_once(store: Store) -> None:
    @handler("raises-alone")
    def raises_alone(_ctx: Context) -> Done:
        raise LookupError("caught")

    @handler("logs-and-raises")
    def logs_and_raises(_ctx: Context) -> Done:
        try:
            isolated_handlers.fail()
        except LookupError:
            shop.exception("cannot go on")
            raise
        return Done()

    alone = ran(store, raises_alone, State.FAILED)
    logged = ran(store, logs_and_raises, State.FAILED)
    assert [(line.logger, line.level) for line in alone] == [(TRACEBACK_LOGGER, "error")]
    assert [line.logger for line in logged] == ["shop"]
    for [line] in (alone, logged):
        assert line.text.count("Traceback") == 1
        assert line.text.endswith("LookupError: caught")


def test_a_program_that_configures_its_logs_later_still_can() -> None:
    """A handler of the root logger would make `basicConfig` do nothing, and warnings vanish from stderr."""
    before = list(logging.getLogger().handlers)
    keep_logs()
    once = logging.getLogRecordFactory()
    keep_logs()
    assert logging.getLogRecordFactory() is once
    assert logging.getLogger().handlers == before


# --- one attempt's lines ----------------------------------------------------------------------------------------------


def log_through(log: AttemptLog, *said: str) -> None:
    keep_logs()
    with attempt_context(NAME, log.keep):
        for text in said:
            shop.info("%s", text)


def new_log() -> AttemptLog:
    return AttemptLog("r_1", 1, lambda: None)


def texts(log: AttemptLog) -> str:
    return "\n".join(chunk.text for chunk in log.take())


def test_the_secrets_that_an_attempt_read_and_other_credentials_are_masked() -> None:
    log = new_log()
    with secrets_masked():
        learn_secret(VALUE)
        log_through(log, f"sent {VALUE}", "password=hunter2")
    assert "sent ***" in texts(log)
    assert not {VALUE, "hunter2"} & set(texts(log).replace('"', " ").split())
    other = new_log()
    with secrets_masked():
        log_through(other, f"{VALUE} is no secret of this attempt")
    assert VALUE in texts(other)


class Speechless(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


def test_a_record_that_cannot_be_formatted_stops_no_handler() -> None:
    log = new_log()
    keep_logs()
    with attempt_context(NAME, log.keep), pytest.MonkeyPatch.context() as patch:
        patch.setattr(logging, "raiseExceptions", False)
        patch.setattr(logging.getLogger(), "handlers", [])  # those of the tests raise
        shop.info("%d of %d", "one")
        shop.info("\ud800 %s", "\x00")
        shop.error(Speechless())
    assert [chunk.lines for chunk in log.take()] == [3]
    assert "%d of %d" in texts(log)
    assert "Speechless" in texts(log)


def test_lines_become_chunks_and_of_too_many_the_oldest_go() -> None:
    log = new_log()
    log_through(log, "x" * 2 * MAX_RUN_LOG_LINE_CHARS)
    [first] = log.take()
    assert MAX_RUN_LOG_LINE_CHARS <= first.size <= MAX_RUN_LOG_LINE_CHARS + 100
    log_through(log, *["y" * 1_000] * 400)
    taken = log.take()
    assert sum(chunk.size for chunk in taken) <= MAX_RUN_LOG_BYTES
    assert max(chunk.size for chunk in taken) <= MAX_CHUNK_BYTES
    assert taken[0].cut + sum(chunk.lines for chunk in taken) == 401
    assert taken[0].first == taken[0].cut + 1
    assert log.may_be_long


def test_stored_lines_are_not_stored_again_and_the_end_takes_only_the_rest() -> None:
    log = new_log()
    log_through(log, "a")
    taken = log.take()
    log_through(log, "b")
    log.stored(taken)
    assert [(chunk.first, chunk.lines) for chunk in log.take()] == [(1, 2)]
    assert [(chunk.first, chunk.lines, chunk.last) for chunk in log.close()] == [(2, 1, True)]
    log_through(log, "too late")
    assert [chunk.lines for chunk in log.close()] == [1]


def test_lines_wait_a_moment_for_others_and_a_write_that_failed_is_repeated(store: Store) -> None:
    now = [0.0]
    record = added(store)
    log = AttemptLog(record.run.id, 1, lambda: writer.wake())  # noqa: PLW0108 - it is made below
    writer = RunLogWriter(store, lambda: [log], lambda: now[0])
    assert writer.step() is None
    log_through(log, "a", "b")
    assert writer.step() == LOG_FLUSH_INTERVAL_S
    now[0] = LOG_FLUSH_INTERVAL_S
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store.run_logs, "write", full)
        with pytest.raises(OSError, match="full"):
            writer.step()
    assert writer.step() == LOG_FLUSH_INTERVAL_S
    now[0] *= 2
    assert (writer.step(), log.pending) == (None, False)
    assert [line.text for line in log_of(store, record)] == ["a", "b"]


def full(*_: object, **__: object) -> None:
    raise OSError("the disk is full")
