"""Logs: to stderr and nowhere else, as text for people or one line of JSON for machines.

Each line says which process it is from: several of them often write into one log.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Literal, TextIO

from duetime.scheduler.runtime.attempt_context import log_fields
from duetime.scheduler.runtime.print_capture import capture_prints
from duetime.scheduler.runtime.secret_mask import masked_log

_OURS = "duetime"
_CHATTY = ("mcp", "uvicorn", "httpx2", "dramatiq", "asyncio", "sse_starlette")
"""Libraries whose `info` lines only help their developers; their level is `warning`."""

MAX_LOG_MESSAGE_CHARS = 4_000
"""Libraries repeat what a client sent, a header of any length say."""

_BUILT_IN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonLines(logging.Formatter):
    """One line of JSON a record: when, process, level, logger, message, what `extra=` gave, and the traceback.

    Secrets that this process has read are masked.

    `process` is the name under which a worker is known to others; until `called`, and elsewhere, its host and its pid.
    """

    def __init__(self) -> None:
        super().__init__()
        self.process = f"{socket.gethostname()[:60]}-{os.getpid()}"

    def format(self, record: logging.LogRecord) -> str:
        named = log_fields()
        line = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "process": self.process,
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _cut(masked_log(record.getMessage())),
            **named,
            **{_free(key, named): value for key, value in vars(record).items() if key not in _BUILT_IN},
        }
        if record.exc_info or record.exc_text:
            line["traceback"] = record.exc_text or self.formatException(record.exc_info or (None, None, None))
        return masked_log(json.dumps(line, default=str))


class ForPeople(logging.Formatter):
    """`10:00:00 4711 warning duetime.server: message`, with the pid, and the traceback below.

    Lines of a handler name its attempt: `10:00:00 4711 info shop [t_1 r_2 attempt 1 resize]: message`. In a trace, the
    ids of the trace and the span follow: `[t_1 r_2 attempt 1 resize trace 4bf9...-00f0...]`. More lines are indented.
    """

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(process)d %(levelname)s %(name)s%(of)s: %(message)s", datefmt="%H:%M:%S")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's own name
        record.levelname = record.levelname.lower()
        record.message = _cut(masked_log(record.message))
        of = log_fields()
        parts = ["{task} {run} attempt {attempt} {action}".format(**of)] if "task" in of else []
        parts += ["trace {trace_id}-{span_id}".format(**of)] if "trace_id" in of else []
        record.of = f" [{' '.join(parts)}]" if parts else ""
        return super().formatMessage(record)

    def format(self, record: logging.LogRecord) -> str:
        return _one_entry(masked_log(super().format(record)))


def _one_entry(text: str) -> str:
    """Return text whose further lines are indented, so that none passes for an entry, and that steers no terminal."""
    if text.isprintable():
        return text
    shown = "".join(char if char.isprintable() or char in "\n\t" else "\ufffd" for char in text.replace("\r\n", "\n"))
    return shown.replace("\n", "\n    ")


def _free(key: str, taken: Mapping[str, object]) -> str:
    """Return another key for what a handler gives by `extra=` under the name of a part of its attempt."""
    return f"extra_{key}" if key in taken else key


def _cut(message: str) -> str:
    more = len(message) - MAX_LOG_MESSAGE_CHARS
    return message if more <= 0 else f"{message[:MAX_LOG_MESSAGE_CHARS]}… ({more:,} more characters)"


def configure_logs(
    level: str = "info",
    style: Literal["auto", "json", "text"] = "auto",
    *,
    stream: TextIO | None = None,
    prints: bool = False,
) -> bool:
    """Send every log of this process to `stream` (stderr), replacing what was configured before.

    Return whether it is text: `auto` is that on a terminal, and JSON elsewhere. `debug` also lets libraries speak at
    length. With `prints`, what handlers print becomes log lines too.
    """
    if prints:
        capture_prints()
    target = stream or sys.stderr
    as_text = style == "text" or (style == "auto" and target.isatty())
    handler = logging.StreamHandler(target)
    handler.setFormatter(ForPeople() if as_text else JsonLines())
    logging.basicConfig(handlers=[handler], level=level.upper(), force=True)
    logging.captureWarnings(capture=True)
    logging.getLogger(_OURS).setLevel(level.upper())
    quieter = logging.DEBUG if level == "debug" else max(logging.WARNING, logging.getLogger().level)
    for name in _CHATTY:
        logging.getLogger(name).setLevel(quieter)
    return as_text


def called(name: str) -> None:
    """Set the process name of all later JSON lines."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler.formatter, JsonLines):
            handler.formatter.process = name
