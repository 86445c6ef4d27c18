"""Logs: one line of JSON for machines, text for people, nothing from libraries that only their developers want."""

from __future__ import annotations

import io
import json
import logging
import os
import socket
import warnings
from collections.abc import Iterator
from typing import Literal

import pytest
from duetime.server.runtime.logs import called, configure_logs


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    """Give the root logger back to pytest."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:], root.level = handlers, level
    logging.captureWarnings(capture=False)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def fail() -> None:
    cause = ValueError("the cause\nof it")
    logging.getLogger("duetime.test").error("it %s", "failed", exc_info=cause, extra={"task_id": "t_1"})


def test_a_record_is_one_line_of_json_with_its_traceback_and_extras() -> None:
    stream = io.StringIO()
    configure_logs("info", stream=stream)
    fail()

    [line] = stream.getvalue().splitlines()
    found = json.loads(line)
    assert (found["level"], found["logger"], found["message"]) == ("error", "duetime.test", "it failed")
    assert found["task_id"] == "t_1"
    assert "ValueError: the cause\nof it" in found["traceback"]
    assert found["at"].endswith("+00:00")


@pytest.mark.parametrize(("style", "as_json"), [("auto", False), ("json", True), ("text", False)])
def test_a_terminal_gets_text_unless_json_is_asked_for(
    style: Literal["auto", "json", "text"], *, as_json: bool
) -> None:
    stream = Terminal()
    configure_logs("info", style, stream=stream)
    fail()

    assert stream.getvalue().startswith("{") is as_json
    assert "it failed" in stream.getvalue()


def test_each_line_says_which_process_it_is_from() -> None:
    stream = io.StringIO()
    assert configure_logs("info", "json", stream=stream) is False
    fail()
    called("host-1-abc")
    fail()
    assert configure_logs("info", "text", stream=stream) is True
    called("of no use to a person, who sees the pid")
    logging.getLogger("duetime.test").info("well")

    first, second, text = stream.getvalue().splitlines()
    assert json.loads(first)["process"] == f"{socket.gethostname()[:60]}-{os.getpid()}"
    assert json.loads(second)["process"] == "host-1-abc"
    assert text.split()[1:] == [str(os.getpid()), "info", "duetime.test:", "well"]


def test_a_half_emoji_in_a_message_is_logged_and_does_no_harm() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="utf-8")
    configure_logs("info", stream=stream)
    logging.getLogger("duetime").info("half \ud83d")
    stream.flush()

    assert json.loads(raw.getvalue())["message"] == "half \ud83d"


@pytest.mark.parametrize(("level", "heard"), [("info", ["duetime"]), ("debug", ["duetime", "mcp.server"])])
def test_libraries_chat_only_at_debug(level: str, heard: list[str]) -> None:
    stream = io.StringIO()
    configure_logs(level, stream=stream)
    for name in ("duetime", "mcp.server"):
        logging.getLogger(name).info("chat")
    logging.getLogger("duetime").debug("detail")

    loggers = [json.loads(line)["logger"] for line in stream.getvalue().splitlines()]
    assert loggers == heard + (["duetime"] if level == "debug" else [])


def test_a_warning_of_python_is_a_log_line_too() -> None:
    stream = io.StringIO()
    configure_logs("info", stream=stream)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("this will go away", DeprecationWarning, stacklevel=1)

    assert "this will go away" in json.loads(stream.getvalue())["message"]


@pytest.mark.parametrize("style", ["json", "text"])
def test_a_line_is_cut_where_a_library_repeats_what_a_client_sent(style: Literal["json", "text"]) -> None:
    stream = io.StringIO()
    configure_logs("info", style, stream=stream)
    logging.getLogger("duetime.test").warning("Invalid Origin header: %s", "e" * 100_000)

    assert "Invalid Origin header: eee" in stream.getvalue()
    assert "more characters)" in stream.getvalue()
    assert len(stream.getvalue()) < 5_000
