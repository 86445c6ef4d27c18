"""The lines that the handler of one attempt logs, until they are stored."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final

from duetime.scheduler.history.run_log import MAX_CHUNK_BYTES, MAX_RUN_LOG_BYTES, TRACEBACK_LOGGER
from duetime.scheduler.rules.redact import redacted
from duetime.scheduler.rules.sanitize import clean_text
from duetime.scheduler.run_records import LogChunk
from duetime.scheduler.runtime.secret_mask import masked

MAX_RUN_LOG_LINE_CHARS: Final = 4_000
MAX_LOGGER_CHARS: Final = 100
MAX_LEVEL_CHARS: Final = 20


@dataclass(slots=True)
class _Chunk:
    """Lines in a row; the first `stored` of them are in the database."""

    first: int
    at: datetime
    cut: int = 0
    lines: list[str] = field(default_factory=list)
    size: int = 0
    stored: int = 0

    @property
    def new(self) -> int:
        return len(self.lines) - self.stored


class AttemptLog:
    """Keeps at most 256 KiB until they are stored; the oldest go first. `wake` is called when there is a line to store.

    Thread-safe: handlers log on any thread.
    """

    def __init__(self, run_id: str, attempt: int, wake: Callable[[], None]) -> None:
        self.run_id = run_id
        self.attempt = attempt
        self._wake = wake
        self._lock = threading.Lock()
        self._chunks: list[_Chunk] = []
        self._size = 0
        self._next = 1
        self._written = 0
        self._closed = False
        self._exceptions: set[str] = set()

    @property
    def pending(self) -> bool:
        """Whether a line is not stored yet."""
        return any(chunk.new for chunk in self._chunks)

    @property
    def used(self) -> bool:
        """Whether the handler logged anything."""
        return self._written > 0

    @property
    def may_be_long(self) -> bool:
        """Whether the run may have more lines than are kept: those of earlier attempts count."""
        return self.attempt > 1 or self._written > MAX_RUN_LOG_BYTES

    def keep(self, record: logging.LogRecord) -> None:
        """Add a record, masked on the thread that logged it, which has the secrets of the attempt."""
        try:
            text = _text(record)
        except Exception:  # noqa: BLE001 - it cannot become text: `logging` itself reports that
            text = record.msg if isinstance(record.msg, str) else type(record.msg).__name__
        if record.exc_info or record.exc_text:
            self._exceptions.add(text.rstrip().rpartition("\n")[2])
        at = datetime.fromtimestamp(record.created, UTC)
        self._add(at, record.levelname.lower(), record.name, masked(text))

    def keep_traceback(self, text: str, at: datetime) -> None:
        """Add the traceback of the attempt, unless its handler has logged the same exception itself."""
        if text.rpartition("\n")[2] not in self._exceptions:
            self._add(at, "error", TRACEBACK_LOGGER, text)

    def _add(self, at: datetime, level: str, logger: str, text: str) -> None:
        safe = clean_text(redacted(text[: 2 * MAX_RUN_LOG_LINE_CHARS]), MAX_RUN_LOG_LINE_CHARS)
        line = json.dumps(
            [int(at.timestamp() * 1000), level[:MAX_LEVEL_CHARS], logger[:MAX_LOGGER_CHARS], safe], ensure_ascii=False
        )
        size = len(line.encode("utf-8", "replace")) + 1
        with self._lock:
            if self._closed:
                return
            first_one = not self.pending
            self._append(at, line, size)
        if first_one:
            self._wake()

    def _append(self, at: datetime, line: str, size: int) -> None:
        if not self._chunks or self._chunks[-1].size + size > MAX_CHUNK_BYTES:
            self._chunks.append(_Chunk(self._next, at))
        chunk = self._chunks[-1]
        chunk.lines.append(line)
        chunk.size += size
        chunk.at = at
        self._next += 1
        self._size += size
        self._written += size
        while self._size > MAX_RUN_LOG_BYTES and len(self._chunks) > 1:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        oldest = self._chunks.pop(0)
        self._size -= oldest.size
        self._chunks[0].cut += oldest.new + (0 if oldest.stored else oldest.cut)

    def take(self) -> list[LogChunk]:
        """Return the chunks that have lines to store, each with all its lines."""
        with self._lock:
            return [self._as_stored(chunk, 0) for chunk in self._chunks if chunk.new]

    def stored(self, chunks: Sequence[LogChunk]) -> None:
        """Forget lines that are stored; the newest chunk stays, because it grows."""
        counts = {chunk.first: chunk.lines for chunk in chunks}
        with self._lock:
            for chunk in self._chunks:
                chunk.stored = max(chunk.stored, counts.get(chunk.first, 0))
            self._chunks = [chunk for chunk in self._chunks if chunk.new or chunk is self._chunks[-1]]
            self._size = sum(chunk.size for chunk in self._chunks)

    def close(self) -> tuple[LogChunk, ...]:
        """Take no more lines; return those that are not stored, for the transaction that ends the attempt."""
        if not self._chunks:
            self._closed = True
            return ()
        with self._lock:
            self._closed = True
            return tuple(
                replace(self._as_stored(chunk, chunk.stored), last=True) for chunk in self._chunks if chunk.new
            )

    def _as_stored(self, chunk: _Chunk, start: int) -> LogChunk:
        lines = chunk.lines[start:]
        text = "\n".join(lines)
        return LogChunk(
            run_id=self.run_id,
            attempt=self.attempt,
            first=chunk.first + start,
            lines=len(lines),
            cut=0 if start else chunk.cut,
            size=len(text.encode("utf-8", "replace")),
            at=chunk.at,
            text=text,
        )


def _text(record: logging.LogRecord) -> str:
    message = record.getMessage()
    trace = record.exc_text
    if trace is None and record.exc_info and record.exc_info[0] is not None:
        trace = logging.Formatter().formatException(record.exc_info)
    return f"{message[: MAX_RUN_LOG_LINE_CHARS // 4]}\n{trace[-MAX_RUN_LOG_LINE_CHARS // 2 :]}" if trace else message
