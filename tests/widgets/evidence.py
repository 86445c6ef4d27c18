"""Adds to the report of a failed browser test what its page had seen and its card showed: CI keeps no more."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from playwright.sync_api import Error, Frame, Page

SHORT_WAIT_MS = 5_000
"""A page that hangs says so, and no more."""
MAX_ENTRIES = 12
MAX_LINE_CHARS = 400


def evidence(page: Page) -> str:
    """Say what is known of a page, on a few lines; what cannot be read says why."""
    return "\n".join(line[:MAX_LINE_CHARS] for part in (_host, _frames, _console) for line in _lines(part, page))


def _lines(part: Callable[[Page], Iterator[str]], page: Page) -> list[str]:
    try:
        return list(part(page))
    except Error as error:
        return [f"{part.__name__.strip('_')}: {error.message.splitlines()[0]}"]


def _host(page: Page) -> Iterator[str]:
    """Return the newest of each thing that the chat of a test has seen; another chat keeps no such record."""
    given = page.wait_for_function("() => [window.host?.seen]", timeout=SHORT_WAIT_MS).json_value()
    for name, entries in (given[0] or {}).items():
        shown = f"{len(entries)}, at last {entries[-MAX_ENTRIES:]}" if isinstance(entries, list) else entries
        yield f"{name}: {shown}"


def _frames(page: Page) -> Iterator[str]:
    for frame in page.frames[1:]:
        yield f"frame: {_text(frame)!r}"


def _text(frame: Frame) -> str:
    shown: Any = frame.wait_for_function(
        "() => `${document.body.innerText} (${Date()}, focus: ${document.activeElement?.dataset.key}, "
        "height: ${document.documentElement.getBoundingClientRect().height} of ${innerHeight})`",
        timeout=SHORT_WAIT_MS,
    ).json_value()
    return str(shown)


def _console(page: Page) -> Iterator[str]:
    said = [f"{each.type}: {each.text}" for each in page.console_messages() if each.type != "debug"]
    yield f"console: {said[-MAX_ENTRIES:]}"
    yield f"errors: {[error.message for error in page.page_errors()]}"
