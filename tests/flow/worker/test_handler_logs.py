"""Each line that a handler logs or prints carries its task, run, attempt and action, however the handler is run."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import sys
import threading
from datetime import timedelta
from typing import Any, Self

import pytest
from duetime.scheduler.handlers import Context, Handler, Handlers, handler
from duetime.scheduler.handlers.log_records import levels
from duetime.scheduler.outcomes import Done
from duetime.scheduler.queue import Entry
from duetime.scheduler.queue.memory.queue import MemoryQueue
from duetime.scheduler.runtime.attempt_context import (
    MAX_PARTIAL_LINE_CHARS,
    AttemptFilter,
    AttemptName,
    attempt_context,
    current_attempt,
)
from duetime.scheduler.runtime.print_capture import PrintCapture, capture_prints, prints_are_captured
from duetime.scheduler.store import Store
from duetime.scheduler.task import State
from duetime.scheduler.views import TaskRecord
from duetime.scheduler.worker.worker import Worker, WorkerOptions
from duetime.server.runtime.logs import configure_logs

from tests.builders import NOON, TENANT, added
from tests.flow.waiting import eventually
from tests.flow.worker import isolated_handlers

say = print
NOON_MS = NOON.timestamp() * 1000
NAME = AttemptName("t_1", "r_2", 3, "resize")
NAMED = {"task": "t_1", "run": "r_2", "attempt": 3, "action": "resize"}


class Process:
    """Logs of this process, as JSON, and its prints: within the block, for pytest has a stdout for each step."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.below = io.StringIO()
        self.logged = io.StringIO()
        self._monkeypatch = monkeypatch

    def __enter__(self) -> Self:
        root = logging.getLogger()
        self._before = list(root.handlers), root.level
        self._monkeypatch.setattr(sys, "stdout", self.below)
        configure_logs("info", "json", stream=self.logged, prints=True)
        return self

    def __exit__(self, *_: object) -> None:
        root = logging.getLogger()
        root.handlers[:], root.level = self._before
        logging.captureWarnings(capture=False)
        self._monkeypatch.undo()

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.logged.getvalue().splitlines()]

    @property
    def messages(self) -> list[str]:
        return [line["message"] for line in self.lines]


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Process:
    return Process(monkeypatch)


def ran(store: Store, item: Handler) -> TaskRecord:
    """Let a worker run one task with this handler to its end."""
    queue = MemoryQueue(lambda: NOON_MS)
    record = added(store, action=item.name, payload={})
    store.claims.make_ready(limit=1)
    queue.put([Entry(record.run.id, NOON_MS)])
    worker = Worker(store, queue, Handlers([item]), WorkerOptions("w", threads=1))
    worker.start()
    eventually(lambda: store.tasks.get(TENANT, record.task.id).run.state is State.SUCCEEDED, "it ran")
    worker.stop(timedelta(0))
    return record


@handler("talks-here")
def talks_here(_ctx: Context) -> Done:
    isolated_handlers.talks.fn(_ctx)
    return Done()


@handler("talks-later")
async def talks_later(_ctx: Context) -> Done:
    log = logging.getLogger("shop")
    log.info("by %s", "logging", extra={"customer": 7})
    try:
        isolated_handlers.fail()
    except LookupError:
        log.exception("with its traceback")
    await asyncio.to_thread(log.info, "in another thread")
    say("printed 100%", "s", sep="")
    say("not ended", end="", flush=True)
    return Done()


@pytest.mark.parametrize("item", [talks_here, talks_later, isolated_handlers.talks])
def test_every_line_of_a_handler_names_its_attempt(store: Store, process: Process, item: Handler) -> None:
    with process:
        record = ran(store, item)
    named = {"task": record.task.id, "run": record.run.id, "attempt": 1, "action": item.name}
    found = [line for line in process.lines if line["logger"] in {"shop", "duetime.print"}]
    said = ["by logging", "with its traceback", "in another thread", "printed 100%s", "not ended"]
    assert [line["message"] for line in found] == said
    assert [{key: line.get(key) for key in named} for line in found] == [named] * 5
    assert [line["level"] for line in found] == ["info", "error", "info", "info", "info"]
    assert found[0]["customer"] == 7
    assert found[1]["traceback"].endswith("LookupError: caught")
    assert process.below.getvalue() == ""
    assert {key for line in process.lines if line not in found for key in line} & named.keys() == set()


def test_the_levels_that_are_set_here_hold_in_a_process(store: Store, process: Process) -> None:
    shop = logging.getLogger("shop")
    shop.setLevel(logging.ERROR)
    with process:
        ran(store, isolated_handlers.talks)
    shop.setLevel(logging.NOTSET)
    assert [line["message"] for line in process.lines if line["logger"] == "shop"] == ["with its traceback"]


def test_levels_are_read_while_other_threads_make_loggers() -> None:
    loggers: dict[str, object] = {"shop": logging.getLogger("shop")}

    class Meanwhile(logging.PlaceHolder):
        @property  # type: ignore[misc] # an object's class can be set, this one only be asked for
        def __class__(self) -> Any:  # whoever asks for it is interrupted by another thread
            loggers[f"new.{len(loggers)}"] = self
            return logging.PlaceHolder

    loggers["shop.busy"] = Meanwhile(logging.getLogger("shop"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logging.root.manager, "loggerDict", loggers)
        found = levels()
    assert found[""] == logging.root.level


def test_text_for_people_names_the_attempt_in_front_of_the_message(process: Process) -> None:
    stream = io.StringIO()
    with process:
        configure_logs("info", "text", stream=stream)
        with attempt_context(NAME):
            logging.getLogger("shop").info("resized")
        logging.getLogger("shop").info("outside")
    inside, outside = stream.getvalue().splitlines()
    assert inside.endswith(" info shop [t_1 r_2 attempt 3 resize]: resized")
    assert outside.endswith(" info shop: outside")


def test_an_extra_of_a_handler_with_a_name_of_ours_is_kept_under_another(process: Process) -> None:
    with process, attempt_context(NAME):
        logging.getLogger("shop").info("resized", extra={"task": "mine"})
    [line] = process.lines
    assert {key: line[key] for key in NAMED} == NAMED
    assert line["extra_task"] == "mine"


def test_a_program_with_logs_of_its_own_has_a_filter(caplog: pytest.LogCaptureFixture) -> None:
    caplog.handler.addFilter(AttemptFilter())
    caplog.set_level(logging.INFO)
    with attempt_context(NAME):
        logging.getLogger("shop").info("resized", extra={"run": "mine"})
    logging.getLogger("shop").info("outside")
    inside, outside = caplog.records
    assert [getattr(inside, key) for key in NAMED] == ["t_1", "mine", 3, "resize"]
    assert [getattr(outside, key) for key in NAMED] == ["", "", "", ""]


# --- prints -----------------------------------------------------------------------------------------------------------


def test_outside_of_handlers_prints_are_prints(process: Process) -> None:
    with process:
        say("for people")
        sys.stdout.writelines(["a", "b\n"])
        assert sys.stdout.closed is False
    assert (process.below.getvalue(), process.messages) == ("for people\nab\n", [])


def test_lines_are_put_together_by_thread_and_end_with_the_attempt(process: Process) -> None:
    def other() -> None:
        sys.stdout.write("other ")

    with process:
        with attempt_context(NAME):
            sys.stdout.write("one\r\ntw")
            asyncio.run(asyncio.to_thread(other))
            sys.stdout.writelines(["o", "\n\nthr", "ee"])
            assert current_attempt() == NAME
        assert current_attempt() is None
    assert sorted(process.messages) == ["", "one", "other ", "three", "two"]
    assert {line["attempt"] for line in process.lines} == {3}
    assert process.below.getvalue() == ""


def test_a_line_without_an_end_is_bounded(process: Process) -> None:
    with process, attempt_context(NAME):
        for _ in range(MAX_PARTIAL_LINE_CHARS + 2):
            sys.stdout.write("x")
    assert [len(message) for message in process.messages] == [MAX_PARTIAL_LINE_CHARS, 2]


def test_the_end_of_a_long_line_is_no_line_of_its_own(process: Process) -> None:
    with process, attempt_context(NAME):
        for text in ("x" * MAX_PARTIAL_LINE_CHARS, "", "short"):
            sys.stdout.write(text)
            sys.stdout.write("\n")
    assert [len(message) for message in process.messages] == [MAX_PARTIAL_LINE_CHARS, 0, 5]


def test_a_log_handler_that_prints_does_not_print_for_ever(process: Process) -> None:
    with process:
        logging.getLogger().addHandler(logging.StreamHandler(sys.stdout))
        with attempt_context(NAME):
            say("once")
    assert (process.below.getvalue(), process.messages) == ("once\n", ["once"])


def test_a_plain_thread_of_a_handler_prints_as_before(process: Process) -> None:
    with process, attempt_context(NAME):
        thread = threading.Thread(target=lambda: say("elsewhere"))
        thread.start()
        thread.join()
    assert process.below.getvalue() == "elsewhere\n"


def test_prints_are_captured_once_and_only_where_that_was_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    capture_prints()
    assert not prints_are_captured()
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    capture_prints()
    first = sys.stdout
    capture_prints()
    assert isinstance(first, PrintCapture)
    assert sys.stdout is first
