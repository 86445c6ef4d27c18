"""Runs one attempt of a handler in a process of its own, which can be killed; `child` is its program."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import IO, Any, Final, cast

from duetime.scheduler.handlers import messages
from duetime.scheduler.handlers.context import Context, Link
from duetime.scheduler.handlers.declaration import Handler
from duetime.scheduler.handlers.log_records import levels, log_again
from duetime.scheduler.handlers.messages import Assignment, ContextFacts, assignment_to_json, line, reference
from duetime.scheduler.outcomes import Outcome
from duetime.scheduler.runtime.interrupt import Interrupt
from duetime.scheduler.runtime.print_capture import prints_are_captured
from duetime.scheduler.runtime.process_group import OWN_GROUP, end_in_words, kill_group
from duetime.scheduler.task import Json

_COMMAND: Final = (sys.executable, "-P", "-m", "duetime.scheduler.handlers.child")


class HandlerProcess:
    """Starts the process; `assign` gives it the attempt, `run` serves it until it ends.

    `interrupt` and `kill` may come from other threads, and return at once, whether the process reads or not.
    It leads a process group of its own; `kill` and the end of `run` end the whole group.
    """

    def __init__(self, handler: Handler, context: Context, payload: Mapping[str, Json]) -> None:
        self._context = context
        self._writing = threading.Lock()
        self._ending = threading.Lock()
        self._ended = False
        self.traceback: str | None = None
        """That of the exception that its handler raised."""
        self._assignment = Assignment(
            name=handler.name,
            function=reference(handler.fn),
            payload_model=reference(handler.payload_model) if handler.payload_model else None,
            payload=payload,
            facts=ContextFacts.of(context),
            path=tuple(sys.path),
            log_levels=levels(),
            captures_prints=prints_are_captured(),
        )
        self._process = subprocess.Popen(  # nosec B603 # noqa: S603 - this very program
            _COMMAND,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            **OWN_GROUP,
        )
        self._to, self._from = cast("IO[bytes]", self._process.stdin), cast("IO[bytes]", self._process.stdout)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def end(self) -> str:
        """Return how the process ended, as part of a reason."""
        return end_in_words(self._process.returncode)

    def assign(self) -> None:
        """Give it the attempt; waits until it reads, or is killed."""
        self._send(line("run", assignment_to_json(self._assignment)))

    def run(self) -> Outcome | None:
        """Serve its calls until it ends; return the outcome, None when it ended without one."""
        outcome: Outcome | None = None
        if hasattr(os, "waitid"):
            threading.Thread(target=self._kill_rest, name="duetime-process-end", daemon=True).start()
        try:
            for message in map(messages.read, self._from):
                if "outcome" in message:
                    outcome = messages.outcome_from_json(message["outcome"])
                else:
                    self._heed(message)
        finally:
            self.close()
        return outcome

    def _heed(self, message: Mapping[str, Any]) -> None:
        if "call" in message:
            self._send(_answer(self._context.link, message))
        elif "log" in message:
            log_again(message["log"])
        elif "traceback" in message:
            self.traceback = message["traceback"]

    def _kill_rest(self) -> None:
        """Kill the rest of the group when the process has ended: what it has forked keeps the pipes open."""
        with suppress(ChildProcessError):  # it was waited for
            os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        self.kill()

    def interrupt(self, why: type[Interrupt]) -> None:
        """Raise `why` in its handler; a thread waits until the process reads that."""
        message = line("interrupt", why.__name__)
        threading.Thread(target=self._send, args=(message,), name="duetime-interrupt", daemon=True).start()

    def kill(self) -> None:
        """Kill the process group at once."""
        with self._ending:
            if not self._ended:  # until it is waited for, its id belongs to no other process
                kill_group(self._process)

    def close(self) -> None:
        """Kill the rest of the group; afterwards its id may belong to another process."""
        self.kill()
        with self._ending:
            ended, self._ended = self._ended, True
        if not ended:
            with suppress(OSError):  # unread messages are lost
                self._to.close()
            self._from.close()
            self._process.wait()

    def _send(self, message: bytes) -> None:
        with self._writing, suppress(OSError, ValueError):  # the process has ended, as `run` will notice
            self._to.write(message)
            self._to.flush()


def _answer(link: Link, message: Mapping[str, Any]) -> bytes:
    """Execute a call of the context."""
    number = message["number"]
    try:
        value = getattr(link, message["call"])(*message["arguments"])
    except Exception as error:  # noqa: BLE001 - raised in the handler, as in a thread
        return line("error", messages.error_to_json(error), number=number)
    return line("answer", value.isoformat() if message["call"] == "now" else value, number=number)
