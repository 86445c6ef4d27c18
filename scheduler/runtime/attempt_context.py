"""The attempt that the current thread or coroutine works for: log lines and prints of its handler carry it.

It is a context variable: coroutines, their tasks and `asyncio.to_thread` inherit it, plain threads do not.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from typing import Any, Final

from duetime.scheduler.runtime.secret_mask import mask_record

MAX_PARTIAL_LINE_CHARS: Final = 4_000
"""Characters that are printed without a line end before they become a line."""

TRACE_FIELDS: Final = ("trace_id", "span_id")

KeepRecord = Callable[[logging.LogRecord], None]
"""Takes a log record into the log of a run."""

PRINT_LOGGER: Final = "duetime.print"
_prints = logging.getLogger(PRINT_LOGGER)


@dataclass(frozen=True, slots=True)
class AttemptName:
    """One attempt as log lines name it, by the ids of its task and its run; `traceparent` is that of its span."""

    task: str
    run: str
    attempt: int
    action: str
    traceparent: str | None = None


class _Prints:
    """The lines that the handler of one attempt has begun to print, by thread."""

    def __init__(self, name: AttemptName, keep: KeepRecord | None) -> None:
        self.name = name
        self.keep = keep
        self._partial: dict[int, str] = {}
        self._cut: set[int] = set()
        self._lock = threading.Lock()

    def add(self, text: str) -> None:
        """Log each line that is complete."""
        thread = threading.get_ident()
        with self._lock:
            *lines, rest = (self._partial.pop(thread, "") + text).split("\n")
            if thread in self._cut and text:
                self._cut.remove(thread)
                lines = lines[1:] if lines[:1] == [""] else lines  # the end of the line that was cut
            if len(rest) >= MAX_PARTIAL_LINE_CHARS:
                lines, rest = [*lines, rest], ""
                self._cut.add(thread)
            if rest:
                self._partial[thread] = rest
        self._log(lines)

    def end(self) -> None:
        """Log the lines that have no end."""
        with self._lock:
            lines = list(self._partial.values())
            self._partial.clear()
        self._log(lines)

    @staticmethod
    def _log(lines: list[str]) -> None:
        for line in lines:
            _prints.info("%s", line.rstrip("\r"))


_CURRENT: ContextVar[_Prints | None] = ContextVar("duetime_attempt", default=None)


def current_attempt() -> AttemptName | None:
    """Return the attempt whose handler calls this, None outside of handlers."""
    current = _CURRENT.get()
    return current.name if current else None


def printed(text: str) -> bool:
    """Log what a handler prints, line by line; False outside of handlers."""
    current = _CURRENT.get()
    if current is not None:
        current.add(text)
    return current is not None


def log_fields() -> dict[str, Any]:
    """Return what lines logged here and now carry: the attempt by its ids, and the trace where there is one."""
    name = current_attempt()
    fields: dict[str, Any] = asdict(name) if name else {}
    ids = _ids_of(fields.pop("traceparent", None)) or _span_ids()
    return {**fields, **dict(zip(TRACE_FIELDS, ids, strict=True))} if ids else fields


def _span_ids() -> tuple[str, str] | None:
    """Return the ids of the current span of OpenTelemetry, and of its trace; a process without it loads none."""
    current = getattr(sys.modules.get("opentelemetry.trace"), "get_current_span", None)
    context = current().get_span_context() if current else None
    return (f"{context.trace_id:032x}", f"{context.span_id:016x}") if context and context.is_valid else None


def _ids_of(traceparent: str | None) -> tuple[str, str] | None:
    if not traceparent:
        return None
    _, trace_id, span_id, _ = traceparent.split("-")
    return trace_id, span_id


@contextmanager
def attempt_context(name: AttemptName, keep: KeepRecord | None = None) -> Iterator[None]:
    """Let the block work for this attempt; at its end, a line that was begun ends. `keep` gets what it logs."""
    current = _Prints(name, keep)
    token = _CURRENT.set(current)
    try:
        yield
    finally:
        current.end()
        _CURRENT.reset(token)


def keep_record(record: logging.LogRecord) -> None:
    """Keep a record in the log of the run that the caller works for."""
    current = _CURRENT.get()
    if current is not None and current.keep is not None:
        current.keep(record)


class _Keeping:
    """Makes log records as the factory before it did, and keeps those of handlers.

    A factory sees what a logger's level lets through, whatever a program has configured. A handler of the root logger
    would stop `logging.basicConfig` from configuring anything.
    """

    def __init__(self, before: Callable[..., logging.LogRecord]) -> None:
        self._before = before

    def __call__(self, name: str | None, *args: Any, **kwargs: Any) -> logging.LogRecord:
        record = self._before(name, *args, **kwargs)
        if name is not None:  # `makeLogRecord` fills its records later
            keep_record(record)
        return record


def keep_logs() -> None:
    """Keep what handlers log in this process from now on, where an attempt's context says so."""
    before = logging.getLogRecordFactory()
    if not isinstance(before, _Keeping):
        logging.setLogRecordFactory(_Keeping(before))


_NO_FIELDS: Final = dict.fromkeys(("task", "run", "attempt", "action", *TRACE_FIELDS), "")


class AttemptFilter(logging.Filter):
    """Gives each log record `task`, `run`, `attempt` and `action`, empty outside of handlers; it drops none.

    In a trace of OpenTelemetry, `trace_id` and `span_id` as well, empty elsewhere. Secrets that this process has
    read are masked in it.

    For a `logging.Handler` of a program's own: `handler.addFilter(AttemptFilter())`, then `%(task)s` in its format.
    Fields of a line's own `extra=` are kept.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Add the attributes, and mask secrets."""
        mask_record(record)
        for key, value in {**_NO_FIELDS, **log_fields()}.items():
            if not hasattr(record, key):
                setattr(record, key, value)
        return True
