"""The traceback of a failed attempt, as text to keep: bounded, redacted, without locals and without our own frames."""

from __future__ import annotations

import sys
import traceback
from collections import deque
from collections.abc import Iterable
from types import CodeType, FrameType, TracebackType
from typing import Final

from duetime.scheduler.rules.redact import redacted
from duetime.scheduler.rules.sanitize import clean_text
from duetime.scheduler.runtime.secret_mask import masked

MAX_KEPT_TRACEBACK_CHARS: Final = 4_000
MAX_FRAMES: Final = 50
"""Frames of each exception that are read, the newest."""

MAX_PART_CHARS: Final = 1_000
"""Characters of one frame, or of the text of one exception."""

MAX_GROUP_EXCEPTIONS: Final = 5
MAX_GROUP_LEVELS: Final = 3
_HEADING: Final = "Traceback (most recent call last):\n"
_OMISSION: Final = "[older frames are left out]\n"
_OURS: Final = frozenset({"duetime", "asyncio", "importlib", "concurrent"})
"""The packages that call a handler or import it."""


def of_error(error: BaseException, fn: object) -> str:
    """Return the traceback of an exception that the handler `fn` raised, from the frame of `fn` on.

    Without that frame (its module cannot be imported, say), the frames of the worker and of `import` are left out.
    """
    below = _below(error.__traceback__, fn)
    if below is None:
        return _text(traceback.format_exception_only(error))
    found = traceback.TracebackException(
        type(error),
        error,
        below,
        limit=-MAX_FRAMES,
        max_group_width=MAX_GROUP_EXCEPTIONS,
        max_group_depth=MAX_GROUP_LEVELS,
    )
    return _text(found.format())


def of_interrupt(error: BaseException, fn: object) -> str | None:
    """Return where the handler stood when it was interrupted; None where that is not known."""
    cancelled = error.__cause__ or error  # what stopped a coroutine is the cause
    below = _below(cancelled.__traceback__, fn)
    return None if below is None else _stack(traceback.extract_tb(below, limit=-MAX_FRAMES))


def of_thread(thread_id: int | None, fn: object) -> str | None:
    """Return where the handler stands that runs on a thread; None when the thread does not run it."""
    newest = sys._current_frames().get(thread_id or 0)  # noqa: SLF001 - documented, in spite of its name
    frames = list[tuple[FrameType, int]]()
    for frame, line in traceback.walk_stack(newest) if newest else ():
        frames.append((frame, line))
        if frame.f_code is _code(fn):
            return _stack(traceback.StackSummary.extract(reversed(frames[:MAX_FRAMES])))
    return None


def _below(found: TracebackType | None, fn: object) -> TracebackType | None:
    """Cut the frames of the worker: those above the handler's function or, without it, those of its callers."""
    code, start = _code(fn), found
    while found is not None and found.tb_frame.f_code is not code:
        found = found.tb_next
    if found is None:
        while start is not None and _package(start) in _OURS:
            start = start.tb_next
    return found or start


def _code(fn: object) -> CodeType | None:
    return getattr(fn, "__code__", None) or getattr(getattr(fn, "__call__", None), "__code__", None)  # noqa: B004 - the method itself is wanted


def _package(found: TracebackType) -> str:
    return str(found.tb_frame.f_globals.get("__name__", "")).partition(".")[0]


def _stack(frames: traceback.StackSummary) -> str:
    return _text([_HEADING, *frames.format()])


def _text(parts: Iterable[str]) -> str:
    """Return the newest parts that there is room for."""
    kept, room = deque[str](), MAX_KEPT_TRACEBACK_CHARS - len(_OMISSION)
    for part in reversed([_cut(redacted(masked(part)[: 10 * MAX_PART_CHARS])) for part in parts]):
        room -= len(part)
        if room < 0:
            kept.appendleft(_OMISSION)
            break
        kept.appendleft(part)
    return clean_text("".join(kept).rstrip("\n"), MAX_KEPT_TRACEBACK_CHARS)


def _cut(part: str) -> str:
    return part if len(part) <= MAX_PART_CHARS else f"{part[: MAX_PART_CHARS - 2]}…\n"
