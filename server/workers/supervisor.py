"""Several worker processes under one parent, which replaces dead ones and ends all of them."""

from __future__ import annotations

import logging
import os
import subprocess
import threading
import time
from collections.abc import Sequence
from contextlib import suppress

from duetime.server.runtime.logs import configure_logs
from duetime.server.runtime.shutdown import Shutdown
from duetime.server.settings.model import Settings
from duetime.server.workers.worker import HAND_BACK_GRACE_S, STOP_MESSAGE, check_distributed, end_with_input

PROCESS_CHECK_INTERVAL_S = 0.1
"""Seconds between looks for processes that have died."""

MIN_RESTART_PAUSE_S = 0.5
MAX_RESTART_PAUSE_S = 15.0
STEADY_PROCESS_S = 30.0
"""Seconds after which a process that dies did not die of its start: it is replaced at once."""

KILL_GRACE_S = 3.0
"""Seconds that a process has beyond its own end before it is killed."""

log = logging.getLogger(__name__)


class ChildProcess:
    """One slot of the supervisor: its current process, and the time of the next start."""

    def __init__(self, number: int, command: Sequence[str], metrics_port: int | None = None) -> None:
        self._number = number
        self._environment = {} if not metrics_port else {"DUETIME_METRICS_PORT": str(metrics_port + number - 1)}
        self._command = command
        self.process: subprocess.Popen[bytes] | None = None
        self._began = 0.0
        self.start_at = 0.0
        self._pause = 0.0

    def look(self, now: float) -> None:
        """Start a process if there is none, at its time; `now` is in monotonic seconds."""
        if self.process is not None and self.process.poll() is not None:
            self._on_exit(self.process.returncode, now)
        if self.process is None and now >= self.start_at:
            self._start(now)

    def _start(self, now: float) -> None:
        try:
            # A session of its own: what a terminal sends to all reaches the parent alone, which ends them in order.
            self.process = subprocess.Popen(  # nosec B603 # noqa: S603 - this very program
                self._command, stdin=subprocess.PIPE, start_new_session=True, env={**os.environ, **self._environment}
            )
        except OSError as error:  # no memory, no process or no file is left: the other processes go on
            self._delay(now)
            log.warning("cannot start worker process %d; retrying in %g s: %s", self._number, self._pause, error)
        else:
            self._began = now

    @property
    def _name(self) -> str:
        return f"worker process {self._number} (pid {self.process.pid if self.process else 'none'})"

    def _on_exit(self, code: int, now: float) -> None:
        if now - self._began >= STEADY_PROCESS_S:
            self._pause = 0.0
        self._delay(now)
        log.warning("%s exited with code %d; restarting it in %g s", self._name, code, self._pause)
        self._close()
        self.process = None

    def _delay(self, now: float) -> None:
        """Delay the next start: twice as long as the one before."""
        self._pause = min(max(MIN_RESTART_PAUSE_S, 2 * self._pause), MAX_RESTART_PAUSE_S)
        self.start_at = now + self._pause

    def end(self) -> None:
        """End the process by closing its input."""
        self._close(STOP_MESSAGE)

    def _close(self, last: bytes = b"") -> None:
        if self.process is not None and self.process.stdin is not None:
            with suppress(OSError), self.process.stdin as stdin:
                stdin.write(last)

    def hurry(self) -> None:
        """Let the process hand back its runs without waiting for them any longer."""
        if self.process is not None:
            with suppress(OSError):
                self.process.terminate()

    def wait(self, until: float) -> None:
        """Wait for its end until `until`, in monotonic seconds; then kill it."""
        if self.process is None:
            return
        try:
            self.process.wait(max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            log.warning("killed %s, which did not exit; its runs will be retried elsewhere", self._name)
            self.process.kill()
            self.process.wait()


def run_processes(settings: Settings, command: Sequence[str], *, until_eof: bool = False) -> int:
    """Keep `processes` copies of `command` running until `run_worker` would end, then end them; return the exit code.

    The command ends when its stdin does: so it ends with this process as well, however that ends.
    """
    check_distributed(settings)
    configure_logs(settings.log_level, settings.log_format)
    longest = settings.grace_seconds + HAND_BACK_GRACE_S + KILL_GRACE_S
    with Shutdown(longest) as ending:
        stopped = threading.Event()
        ending.on_begin(stopped.set)
        if until_eof:
            end_with_input(ending)
        numbers = range(1, settings.processes + 1)
        places = [ChildProcess(number, command, settings.metrics_port) for number in numbers]
        while not stopped.is_set():
            for place in places:
                place.look(time.monotonic())
            stopped.wait(PROCESS_CHECK_INTERVAL_S)
        latest = time.monotonic() + longest
        for place in places:
            place.end()
            ending.on_hurry(place.hurry)
        for place in places:
            place.wait(latest)
    return ending.code
