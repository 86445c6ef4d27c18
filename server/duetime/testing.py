"""For the tests of a program: run a handler as a worker does, and open a scheduler that nothing else shares."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from duetime.scheduler.handlers import Context, Handler, Link, run_handler
from duetime.scheduler.outcomes import Outcome
from duetime.scheduler.task import Json
from duetime.server.python.scheduler import ProgramScheduler
from duetime.server.settings.model import Settings

__all__ = ["Link", "context", "open_scheduler", "run"]


def context(**facts: Any) -> Context:
    """Return a context without a worker; `facts` replaces any field, such as `attempt=2`."""
    return Context.for_test(**facts)


def run(tested: Handler, payload: Mapping[str, Json] | None = None, *, ctx: Context | None = None) -> Outcome:
    """Run one attempt as a worker does, and return its outcome.

    An exception becomes `Retry`; a payload that the handler's model refuses, and a result that is no outcome, `Failed`.
    """
    return run_handler(tested, ctx or Context.for_test(), payload or {})


@contextmanager
def open_scheduler(
    *, handlers: Sequence[Handler] = (), run: bool = False, **settings: Any
) -> Iterator[ProgramScheduler]:
    """Open a scheduler on a new database, which is gone after the block; it reads neither environment nor files.

    `settings` are those of `Settings`; times are in UTC unless they say otherwise. With `run`, what is due runs here.
    """
    with tempfile.TemporaryDirectory(prefix="duetime-") as folder:
        usual = {
            "database_url": f"sqlite:///{Path(folder) / 'duetime.db'}",
            "sqlite_synchronous": "OFF",
            "desktop_notifications": "off",
            "timezone": "UTC",
        }
        with ProgramScheduler.open(Settings.model_validate(usual | settings), handlers=handlers, run=run) as opened:
            yield opened
