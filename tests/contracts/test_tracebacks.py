"""The traceback of a failed attempt: it begins in the handler, is bounded, and holds no locals and no credentials."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from duetime.scheduler.handlers import Context, handler, run_handler, tracebacks
from duetime.scheduler.handlers.tracebacks import MAX_FRAMES, MAX_KEPT_TRACEBACK_CHARS
from duetime.scheduler.outcomes import Done

CTX = Context.for_test()


def told(fn: Callable[..., Any]) -> str:
    kept: list[str] = []
    run_handler(handler("odd")(fn), CTX, {}, on_error=kept.append)
    [text] = kept
    return text


def inner(customer: str) -> None:
    raise LookupError("no such customer")


def test_it_begins_in_the_handler_and_ends_with_the_exception() -> None:
    def bill(_ctx: Context) -> None:
        inner("ann")

    lines = told(bill).splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[1].endswith(", in bill")
    assert lines[-1] == "LookupError: no such customer"
    assert [line for line in lines if line.startswith("  File")][-1].endswith(", in inner")


def test_that_of_an_async_handler_has_none_of_our_frames_either() -> None:
    async def bill(_ctx: Context) -> None:
        await asyncio.sleep(0)
        inner("ann")

    assert told(bill).splitlines()[1].endswith(", in bill")


def test_causes_are_printed_as_python_prints_them() -> None:
    def bill(_ctx: Context) -> None:
        try:
            inner("ann")
        except LookupError as error:
            raise RuntimeError("cannot bill") from error

    text = told(bill)
    assert text.index("no such customer") < text.index("direct cause") < text.index("RuntimeError: cannot bill")


def test_it_holds_neither_locals_nor_credentials() -> None:
    def bill(_ctx: Context) -> None:
        card = "4111-1111"
        raise ValueError(f"cannot reach redis://:hunter2@cache:6379/{len(card)}")

    text = told(bill)
    assert "4111" not in text.replace('card = "4111-1111"', "")
    assert "hunter2" not in text
    assert "redis://:***@cache" in text


def deeper(depth: int) -> None:
    if depth:
        deeper_still(depth)
    raise ValueError("x" * 100_000)


def deeper_still(depth: int) -> None:
    deeper(depth - 1)


def test_a_long_one_keeps_its_newest_frames_and_the_exception() -> None:
    text = told(lambda _ctx: deeper(400))
    assert len(text) <= MAX_KEPT_TRACEBACK_CHARS
    assert text.startswith("[older frames are left out]")
    assert "ValueError: xxx" in text
    assert text.count("in deeper") <= MAX_FRAMES
    assert text.index('raise ValueError("x"') < text.index("ValueError: xxx")


def test_a_group_of_many_is_bounded() -> None:
    def bill(_ctx: Context) -> None:
        raise ExceptionGroup("many", [ExceptionGroup("more", [ValueError(str(n)) for n in range(99)])] * 99)

    assert len(told(bill)) <= MAX_KEPT_TRACEBACK_CHARS


def test_text_that_cannot_be_stored_is_replaced() -> None:
    def bill(_ctx: Context) -> None:
        raise ValueError("a\x00b\ud800")

    assert told(bill).endswith("ValueError: a\ufffdb\ufffd")


def test_a_handler_that_cannot_be_called_has_only_the_exception() -> None:
    odd = handler("odd")(lambda _ctx: Done())
    object.__setattr__(odd, "takes_payload", True)
    kept: list[str] = []
    run_handler(odd, CTX, {}, on_error=kept.append)
    assert kept[0].startswith("TypeError: ")
    assert "File" not in kept[0]


def test_where_a_thread_stands_begins_in_the_handler() -> None:
    begun, go = threading.Event(), threading.Event()

    def stuck() -> None:
        begun.set()
        go.wait(60)

    def other() -> None:
        raise AssertionError

    thread = threading.Thread(target=stuck)
    thread.start()
    begun.wait(60)
    text = tracebacks.of_thread(thread.ident, stuck)
    strange = tracebacks.of_thread(thread.ident, other)
    go.set()
    thread.join()
    assert text is not None
    assert text.splitlines()[1].endswith(", in stuck")
    assert "go.wait(60)" in text
    assert (strange, tracebacks.of_thread(None, stuck), tracebacks.of_thread(thread.ident, stuck)) == (None, None, None)


@pytest.mark.parametrize("error", [KeyError("x"), OSError(2, "gone")])
def test_an_interrupt_from_outside_the_handler_gives_no_traceback(error: Exception) -> None:
    assert tracebacks.of_interrupt(error, told) is None
