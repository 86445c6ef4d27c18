"""`duetime worker`: runs due tasks, as one of many processes on a PostgreSQL database and a Redis."""

from __future__ import annotations

import logging
import os
import sys
import threading
from contextlib import AbstractContextManager, nullcontext
from functools import partial

from duetime.scheduler.errors import InvalidSetting
from duetime.server.app import App, Role, build
from duetime.server.runtime.garbage import collect_less
from duetime.server.runtime.logs import configure_logs
from duetime.server.runtime.shutdown import Shutdown
from duetime.server.runtime.start import once_reachable
from duetime.server.settings.model import Settings
from duetime.server.telemetry.alerts.watch import watching

HAND_BACK_GRACE_S = 3.0
"""Seconds beyond the grace period that it takes to interrupt what still runs and to hand it back."""

REPLACE_EXIT_CODE = 75
"""The exit code of a process that has lost too many threads (EX_TEMPFAIL): its supervisor is to start another."""

STOP_MESSAGE = b"end\n"
"""The line that a parent writes before it closes the stdin of its processes: they end on request."""

log = logging.getLogger(__name__)


def run_worker(settings: Settings, *, until_eof: bool = False) -> int:
    """Run tasks until SIGTERM or SIGINT, with `until_eof` until stdin ends, or until too many threads were lost.

    Then nothing more starts, and running work has the grace period before it is handed back; a second signal ends that
    period. Returns the exit code.
    Raises InvalidSetting without a Redis, where the serving process runs tasks itself.
    """
    check_distributed(settings)
    configure_logs(settings.log_level, settings.log_format, prints=settings.capture_prints)
    with Shutdown(settings.grace_seconds + HAND_BACK_GRACE_S) as ending:
        stopped = threading.Event()
        ending.on_begin(stopped.set)
        if until_eof:
            end_with_input(ending)
        exhausted = partial(ending.begin, "too many threads were lost", code=REPLACE_EXIT_CODE)
        make = partial(build, settings, role=Role.WORK, exhausted=exhausted)
        with (
            once_reachable(settings.database_url, make, pause=stopped.wait) as app,
            _metrics_of(app, settings.metrics_port),
            watching(app, settings),
        ):
            collect_less()
            ending.on_hurry(app.hurry)
            app.start()
            log.info("this process now runs tasks, %d at a time", settings.threads)
            stopped.wait()
    return ending.code


def _metrics_of(app: App, port: int | None) -> AbstractContextManager[object]:
    """Return what answers `/metrics`, where the settings name a port."""
    if port is None:
        return nullcontext()
    from duetime.server.workers.metrics_endpoint import answering_metrics  # noqa: PLC0415 - an HTTP server, where asked

    return answering_metrics(app, port)


def check_distributed(settings: Settings) -> None:
    """Raise InvalidSetting unless the settings name a PostgreSQL database and a Redis."""
    if not settings.distributed:
        raise InvalidSetting(
            "redis_url: a worker takes its tasks from Redis, but this is not set. Set DUETIME_REDIS_URL (for example "
            "redis://localhost:6379/0) here and for `duetime serve`; without Redis, `duetime serve` runs tasks itself."
        )


def end_with_input(ending: Shutdown) -> None:
    """Begin the shutdown at the end of stdin; the only input that counts is a farewell line at its end."""

    def read() -> None:
        received = b""
        while more := os.read(sys.stdin.fileno(), 4096):
            received = (received + more)[-len(STOP_MESSAGE) :]
        ending.begin("its parent ends" if received == STOP_MESSAGE else "its input ended")

    threading.Thread(target=read, name="duetime-stdin", daemon=True).start()
