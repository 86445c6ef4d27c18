"""The attempt that the current thread or coroutine works for: every log line of its handler carries it.

It is a context variable: coroutines, their tasks and `asyncio.to_thread` inherit it, plain threads do not.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class AttemptName:
    """One attempt as log lines name it, by the ids of its task and its run."""

    task: str
    run: str
    attempt: int
    action: str


_CURRENT: ContextVar[AttemptName | None] = ContextVar("duetime_attempt", default=None)

NO_ATTEMPT: Final = AttemptName("", "", 0, "")


def current_attempt() -> AttemptName | None:
    """Return the attempt whose handler calls this, None outside of handlers."""
    return _CURRENT.get()


@contextmanager
def attempt_context(name: AttemptName) -> Iterator[None]:
    """Let the block work for this attempt."""
    token = _CURRENT.set(name)
    try:
        yield
    finally:
        _CURRENT.reset(token)


class AttemptFilter(logging.Filter):
    """Gives each record `task`, `run`, `attempt` and `action`, empty outside of handlers; it drops none.

    For a `logging.Handler` of a program's own: `handler.addFilter(AttemptFilter())`, then `%(task)s` in its format.
    What a line's own `extra=` says is kept.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Add the attributes."""
        for key, value in asdict(_CURRENT.get() or NO_ATTEMPT).items():
            if not hasattr(record, key):
                setattr(record, key, value)
        return True
