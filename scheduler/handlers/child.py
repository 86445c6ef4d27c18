"""The program of a process that runs one attempt of one handler, and ends with it.

It talks to its worker over the pipes of its stdin and stdout. Output of the handler goes to stderr, because the
worker's own stdout may carry a protocol. When the worker ends, so does this process.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from functools import partial
from queue import SimpleQueue
from typing import Any

from duetime.scheduler.handlers import messages, tracebacks
from duetime.scheduler.handlers.context import Link
from duetime.scheduler.handlers.declaration import Handler
from duetime.scheduler.handlers.invocation import explain, run_handler
from duetime.scheduler.handlers.log_records import send_logs
from duetime.scheduler.outcomes import Outcome, Retry
from duetime.scheduler.runtime import interrupt
from duetime.scheduler.runtime.attempt_context import attempt_context
from duetime.scheduler.runtime.event_loop import EventLoop
from duetime.scheduler.runtime.interrupt import Interrupt, Interruptible
from duetime.scheduler.runtime.print_capture import capture_prints
from duetime.scheduler.runtime.secret_mask import secrets_masked
from duetime.scheduler.task import Json

CHUNK_BYTES = 65_536


class ParentPipe:
    """The child's end of the pipes. Thread-safe, because handlers may use threads."""

    def __init__(self, incoming: int, outgoing: int) -> None:
        self._incoming = incoming
        self._outgoing = outgoing
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._answers: dict[int, SimpleQueue[Mapping[str, Any]]] = {}

    def received(self) -> Iterator[Mapping[str, Any]]:
        """Yield the messages of the worker, until it closes its end."""
        rest = b""
        while chunk := os.read(self._incoming, CHUNK_BYTES):
            *lines, rest = (rest + chunk).split(b"\n")
            yield from map(json.loads, lines)

    def listen(self, received: Iterator[Mapping[str, Any]], call: Interruptible) -> None:
        """Dispatch replies and interrupts; when the worker ends, kill this process and all that it started."""
        for message in received:
            if "interrupt" in message:
                call.interrupt(getattr(interrupt, message["interrupt"]))
            else:
                self._answers.pop(message["number"]).put(message)
        _end()

    def send(self, kind: str, value: Json, **more: Json) -> None:
        left = messages.line(kind, value, **more)
        with self._lock:
            while left:
                left = left[os.write(self._outgoing, left) :]

    def ask(self, name: str, *arguments: Json) -> Any:
        """Call the worker's `Link` and return the reply."""
        number, answer = next(self._numbers), SimpleQueue[Mapping[str, Any]]()
        self._answers[number] = answer
        self.send("call", name, arguments=list(arguments), number=number)
        message = answer.get()
        if "error" in message:
            raise messages.error_from_json(message["error"])
        return message["answer"]

    def link(self) -> Link:
        task_parts: dict[str, Any] = {
            name: partial(self.ask, name)
            for name in (
                *("save", "report", "use", "busy", "cancelled", "should_yield", "secret", "inputs"),
                *("approval", "event", "event_timed_out"),
            )
        }
        return Link(**task_parts, now=lambda: datetime.fromisoformat(self.ask("now")))


def main() -> None:
    """Run the attempt that the worker assigns."""
    channel = _take_pipes()
    received = channel.received()
    assignment = messages.assignment_from_json(next(received)["run"])
    sys.path[:] = assignment.path
    call = Interruptible()
    threading.Thread(target=channel.listen, args=(received, call), name="duetime-worker-pipe", daemon=True).start()
    _log_to(channel, assignment)
    try:
        with attempt_context(assignment.attempt_name), secrets_masked():
            outcome = _run(assignment, call, channel)
    except Interrupt:
        channel.send("interrupted", value=True)
    else:
        channel.send("outcome", messages.outcome_to_json(outcome))


def _log_to(channel: ParentPipe, assignment: messages.Assignment) -> None:
    """Send log lines to the worker, and prints too, if it captures those of its own."""
    send_logs(partial(channel.send, "log"), assignment.log_levels)
    if assignment.captures_prints:
        capture_prints()


def _run(assignment: messages.Assignment, call: Interruptible, channel: ParentPipe) -> Outcome:
    fn: object = None
    try:
        handler = _handler(assignment)
        fn = handler.fn
        return _called(handler, assignment, call, channel)
    except Interrupt as why:
        channel.send("traceback", tracebacks.of_interrupt(why, fn))
        raise
    except BaseException as error:  # noqa: BLE001 - whatever a module or a handler raises is an outcome, as in a thread
        channel.send("traceback", tracebacks.of_error(error, fn))
        return Retry(explain(error))


def _called(handler: Handler, assignment: messages.Assignment, call: Interruptible, channel: ParentPipe) -> Outcome:
    context = assignment.facts.context(channel.link())
    run = partial(run_handler, handler, context, assignment.payload, on_error=partial(channel.send, "traceback"))
    if not handler.is_async:
        return call.call(run)
    loop = EventLoop()
    loop.start()
    return run(wait_for=lambda work: call.wait_for(work, loop.loop))


def _handler(assignment: messages.Assignment) -> Handler:
    found = messages.imported(assignment.function)
    model = messages.imported(assignment.payload_model) if assignment.payload_model else None
    return Handler(name=assignment.name, fn=found.fn if isinstance(found, Handler) else found, payload_model=model)


def _take_pipes() -> ParentPipe:
    """Keep stdin and stdout for the worker: other readers find nothing, and prints go to stderr."""
    channel = ParentPipe(os.dup(0), os.dup(1))
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    try:
        os.dup2(2, 1)
    except OSError:  # there is no stderr
        os.dup2(nothing, 1)
    os.close(nothing)
    return channel


def _end() -> None:
    if sys.platform != "win32" and os.getpgid(0) == os.getpid():
        with suppress(OSError):
            os.killpg(0, signal.SIGKILL)
    os._exit(1)


if __name__ == "__main__":
    main()
