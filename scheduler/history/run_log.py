"""The log of a run: the lines that its handler logged, as they are kept."""

from __future__ import annotations

from typing import Final

from duetime.scheduler.errors import InvalidArgument

MAX_RUN_LOG_BYTES: Final = 256 * 1024
"""Bytes that are kept of one run, over all its attempts; the oldest lines go first."""

MAX_CHUNK_BYTES: Final = 8 * 1024
"""Bytes of the lines that are stored as one row."""

TRACEBACK_LOGGER: Final = "duetime.traceback"
"""The logger of the line that has the traceback of a failed attempt."""


LogPlace = tuple[int, int]
"""An attempt, and the number of a line of it."""

LOG_START_INDEX: Final[LogPlace] = (0, 0)
MAX_PLACE_DIGITS: Final = 9


def log_place(cursor: str | None) -> LogPlace:
    """Return the place that a cursor names. Raises InvalidArgument for anything else."""
    if cursor is None:
        return LOG_START_INDEX
    attempt, _, number = cursor.partition(".")
    if not all(part.isascii() and part.isdigit() and len(part) <= MAX_PLACE_DIGITS for part in (attempt, number)):
        raise InvalidArgument(
            "after",
            f"{cursor[:40]!r} is not a place in a log",
            accepted="the `place` of a line",
            example="after='1.20'",
        )
    return int(attempt), int(number)
