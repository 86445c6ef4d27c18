"""The end of a serving process: the first sign begins it, later ones shorten it, and none cuts off what runs."""

from __future__ import annotations

import logging
import os
import signal
import threading
from pathlib import Path

import pytest
from duetime.scheduler.errors import StoreUnavailable
from duetime.scheduler.store import open_store
from duetime.server.protocol.server import make_server
from duetime.server.protocol.subscriptions import Subscriptions
from duetime.server.runtime import shutdown
from duetime.server.runtime.shutdown import ProcessEnd, Shutdown
from duetime.server.transport.stdio import run_stdio
from duetime.server.transport.stdio_wire import Wire
from duetime.tools import threads

from tests.builders import a_task
from tests.flow.waiting import eventually


@pytest.fixture(autouse=True)
def left(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Note the exits that would have ended this very process."""
    codes: list[int] = []
    monkeypatch.setattr(shutdown, "_leave", codes.append)
    monkeypatch.setattr(shutdown, "_others_alive", lambda: False)
    return codes


def test_the_first_sign_begins_the_end_and_a_second_one_shortens_it(left: list[int]) -> None:
    begun, hurried = threading.Event(), threading.Event()
    with Shutdown(600) as ending:
        ending.on_begin(begun.set)
        ending.on_hurry(hurried.set)
        signal.raise_signal(signal.SIGINT)
        assert begun.wait(60)
        assert not hurried.is_set()
        signal.raise_signal(signal.SIGTERM)
        assert hurried.wait(60)
    assert (ending.code, left) == (0, [])


def test_a_signal_after_the_end_of_input_shortens_the_end(left: list[int]) -> None:
    hurried = threading.Event()
    with Shutdown(600) as ending:
        ending.on_hurry(hurried.set)
        ending.begin("the input ended")
        signal.raise_signal(signal.SIGTERM)
        assert hurried.wait(60)
    assert (ending.code, left) == (0, [])


def test_further_signs_shorten_only_once(left: list[int]) -> None:
    hurried: list[int] = []
    with Shutdown(600) as ending:
        ending.on_hurry(lambda: hurried.append(1))
        ending.begin("the input ended")
        for _ in range(3):
            signal.raise_signal(signal.SIGTERM)
        eventually(lambda: hurried, "the shortened end")
    assert (hurried, left) == ([1], [])


def test_a_callback_added_late_is_called_at_once(left: list[int]) -> None:
    told: list[str] = []
    first = threading.Event()
    with Shutdown(600) as ending:
        ending.on_hurry(first.set)
        ending.begin("the input ended")
        ending.on_begin(lambda: told.append("begin"))
        signal.raise_signal(signal.SIGTERM)
        assert first.wait(60)
        ending.on_hurry(lambda: told.append("hurry"))
    assert (told, left) == (["begin", "hurry"], [])


def test_a_shortened_end_that_does_not_come_is_forced_before_a_host_would_kill(
    left: list[int], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert shutdown.HURRIED_EXIT_DELAY_S < 2
    monkeypatch.setattr(shutdown, "HURRIED_EXIT_DELAY_S", 0)
    with caplog.at_level(logging.INFO), Shutdown(600) as ending:
        ending.begin("the input ended", code=7)
        signal.raise_signal(signal.SIGTERM)
        eventually(lambda: left, "the forced exit")
    assert left == [7]
    assert [record.message for record in caplog.records] == [
        "stopping: the input ended",
        "stopping sooner: SIGTERM",
        "shutdown took longer than 0 s; exiting without waiting",
    ]


class LateWork:
    """A call that ends only when it may."""

    def __init__(self) -> None:
        self.may_end, self.answered = threading.Event(), threading.Event()

    def run(self) -> None:
        assert self.may_end.wait(60)

    def answer(self) -> None:
        self.answered.set()


def test_nothing_is_closed_while_a_call_that_nobody_awaits_is_under_way(
    left: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    work, under_way, waited = LateWork(), list[bool](), list[float]()

    def finish_work(seconds: float) -> bool:
        waited.append(seconds)
        work.may_end.set()
        return work.answered.wait(60)

    monkeypatch.setattr(shutdown, "finish_work", finish_work)
    (incoming, requests), (answers, outgoing) = os.pipe(), os.pipe()
    os.close(requests)
    server = make_server(lambda: pytest.fail("no call is made"), Subscriptions(lambda: None))
    threads.begin(work)
    run_stdio(
        server, Wire(incoming, outgoing), ends=ProcessEnd(close=lambda: under_way.append(not work.answered.is_set()))
    )
    for file in (incoming, answers, outgoing):
        os.close(file)
    work.may_end.set()
    assert work.answered.wait(60)
    assert (under_way, waited, left) == ([False], [shutdown.CALL_END_GRACE_S], [])


def test_a_write_to_a_store_that_is_closed_says_so_and_is_no_defect(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path / 'duetime.db'}", synchronous="OFF")
    store.close()
    with pytest.raises(StoreUnavailable, match=r"^The database is closed, because this process is ending"):
        store.tasks.add(*a_task(), actor="alice")
