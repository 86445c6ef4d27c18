"""Log records of a handler in a process of its own: they go over its pipe, and are logged by its worker.

So they go where the worker's own lines go, at the levels that are set there.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from duetime.scheduler.runtime.attempt_context import keep_record
from duetime.scheduler.runtime.secret_mask import mask_record
from duetime.scheduler.task import Json

MAX_LOGGED_CHARS: Final = 10_000
_BUILT_IN: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_SENT: Final = ("name", "levelno", "levelname", "created", "process", "pathname", "lineno", "funcName", "threadName")


class PipeLogHandler(logging.Handler):
    """Sends each record over the pipe."""

    def __init__(self, send: Callable[[Json], object]) -> None:
        super().__init__()
        self._send = send

    def emit(self, record: logging.LogRecord) -> None:
        """Send the record; its arguments and its exception as text."""
        try:
            mask_record(record)
            self._send(record_to_json(record))
        except Exception:  # noqa: BLE001 - as every handler of logging: a line that cannot be sent stops no one
            self.handleError(record)


def record_to_json(record: logging.LogRecord) -> Json:
    extras = {key: value for key, value in vars(record).items() if key not in _BUILT_IN}
    text = record.exc_text or (logging.Formatter().formatException(record.exc_info) if record.exc_info else None)
    return {
        **json.loads(json.dumps(extras, default=str)),
        **{name: getattr(record, name) for name in _SENT},
        "msg": record.getMessage()[:MAX_LOGGED_CHARS],
        "exc_text": text[:MAX_LOGGED_CHARS] if text else None,
    }


def levels() -> dict[str, int]:
    """Return the levels that are set here, by logger; that of the root logger has no name."""
    known = {
        name: logger.level
        for name, logger in list(logging.root.manager.loggerDict.items())  # a copy: other threads make loggers
        if isinstance(logger, logging.Logger)
    }
    return {"": logging.root.level} | {name: level for name, level in known.items() if level}


def send_logs(send: Callable[[Json], object], at: Mapping[str, int]) -> None:
    """Send the log lines of this process from now on, at these levels."""
    logging.basicConfig(handlers=[PipeLogHandler(send)], force=True)
    for name, level in at.items():
        logging.getLogger(name).setLevel(level)
    logging.captureWarnings(capture=True)


def log_again(value: Mapping[str, Any]) -> None:
    """Log a record of the process here, and keep it; its level was checked there."""
    record = logging.makeLogRecord({**value, "args": ()})
    keep_record(record)
    logging.getLogger(value["name"]).handle(record)
