"""The end of a serving process: the first sign begins it, later ones shorten it, and none cuts off what runs."""

from __future__ import annotations

import logging
import signal
import threading

import pytest
from duetime.server.runtime import shutdown
from duetime.server.runtime.shutdown import Shutdown

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
