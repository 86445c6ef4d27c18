"""Messages to the runner from other processes of this machine: a line of JSON to a port on the loopback interface.

A wake-up is only a hint: the work is in the database, and the runner looks there every two seconds anyway. A question
concerns the queue, which only the runner has. A message names the file of its database: a copy of one has the address
of the runner of the other.
"""

from __future__ import annotations

import hmac
import json
import secrets
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from duetime.scheduler.errors import DuetimeError
from duetime.scheduler.queue.remote import Question
from duetime.scheduler.records import RunnerRecord
from duetime.scheduler.store import Store
from duetime.scheduler.task import Json

MAX_REQUEST_BYTES = 65_536
MAX_ANSWER_BYTES = 1 << 24
WAKE_TIMEOUT_S = 0.04
"""Seconds for one wake-up in all; a tool call waits no longer."""

LOOPBACK = "127.0.0.1"
REQUEST_TIMEOUT_S = 1.0
ANSWER_TIMEOUT_S = 1.0
"""Seconds for one answer; a live runner replies within a millisecond, a busy one later."""

ACCEPT_RETRY_DELAY_S = 0.1
"""Seconds after a connection that could not be accepted: the process may have no free descriptor for a moment."""

MAX_CALLERS = 16
"""Connections that are served at once; more are closed unread."""


class RunnerServer:
    """Accepts wake-ups and questions while this process is the runner, on a port that the system chooses.

    `file` is that of its database, as `Store.file` names it: messages about any other one are refused.
    """

    def __init__(
        self,
        woken: Callable[[], None],
        answer: Callable[[Question], Json] = lambda _question: None,
        *,
        file: str = "",
    ) -> None:
        self.token = secrets.token_urlsafe(24)
        self._file = file
        self._woken = woken
        self._answer_to = answer
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=64)
        self._port: int = self._socket.getsockname()[1]
        self._room = threading.Semaphore(MAX_CALLERS)
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._accept, name="duetime-wake", daemon=True)

    @property
    def endpoint(self) -> str:
        return f"{LOOPBACK}:{self._port}"

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._closed.set()
        with suppress(OSError):
            socket.create_connection((LOOPBACK, self._port), timeout=REQUEST_TIMEOUT_S).close()  # ends its accept()
        self._socket.close()

    def _accept(self) -> None:
        while not self._closed.is_set():
            try:
                connection, _ = self._socket.accept()
            except OSError:
                self._closed.wait(ACCEPT_RETRY_DELAY_S)
                continue
            if not self._room.acquire(blocking=False):
                connection.close()
                continue
            try:
                threading.Thread(target=self._answer, args=(connection,), daemon=True).start()
            except RuntimeError:
                self._room.release()
                connection.close()

    def _answer(self, connection: socket.socket) -> None:
        """Read one line from any client; act on it, and reply, only with the right token and file."""
        try:
            with connection, suppress(OSError):
                connection.settimeout(REQUEST_TIMEOUT_S)
                message = _read(connection.makefile("rb").readline(MAX_REQUEST_BYTES))
                connection.sendall(json.dumps(self._reply(message)).encode() + b"\n")
        finally:
            self._room.release()

    def _reply(self, message: Mapping[str, Json]) -> dict[str, Json]:
        about = message.get("file", self._file)  # a process of before the upgrade names none
        if not _knows(message, self.token) or about != self._file:
            return {"woken": False}
        question = message.get("question")
        if isinstance(question, dict):
            return {"answer": self._answer_to(question)}
        self._woken()
        return {"woken": True}


def _read(line: bytes) -> Mapping[str, Json]:
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return message if isinstance(message, dict) else {}


def _knows(message: Mapping[str, Json], token: str) -> bool:
    given = message.get("token")
    return isinstance(given, str) and hmac.compare_digest(given.encode(errors="replace"), token.encode())


class RunnerClient:
    """Wakes the runner of a database, but not of a copy, from another process.

    A call takes well under a millisecond while the runner lives.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._runner: RunnerRecord | None = None

    def wake(self, patience: float = WAKE_TIMEOUT_S) -> bool:
        """Wake the runner; False when none can be reached, which is no error: it looks by itself within two seconds.

        `patience` is in seconds: short for a tool call, longer for a command that checks whether a runner lives.
        """
        return self._asked({}, patience).get("woken") is True

    def ask(self, question: Question, patience: float = ANSWER_TIMEOUT_S) -> Json:
        """Return the runner's answer; None when it has none, or no runner can be reached."""
        return self._asked({"question": question}, patience).get("answer")

    def _asked(self, message: Mapping[str, Json], patience: float) -> Mapping[str, Json]:
        deadline = time.monotonic() + patience
        message = {"file": self._store.file(), **message}
        reply = _exchange(self._runner, message, deadline) if self._runner is not None else {}
        if reply and reply != {"woken": False}:
            return reply
        try:
            self._runner = self._store.runners.current()
        except DuetimeError:
            return {}
        return _exchange(self._runner, message, deadline) if self._runner is not None else {}


def _exchange(runner: RunnerRecord, message: Mapping[str, Json], deadline: float) -> Mapping[str, Json]:
    """Return the runner's reply, empty without one in time."""
    port = runner.endpoint.rpartition(":")[2]
    try:
        with socket.create_connection((LOOPBACK, int(port)), timeout=_left(deadline)) as connection:
            connection.sendall(json.dumps({"token": runner.token, **message}).encode() + b"\n")
            connection.settimeout(_left(deadline))
            return _read(connection.makefile("rb").readline(MAX_ANSWER_BYTES))
    except (OSError, ValueError):
        return {}


def _left(deadline: float) -> float:
    return max(deadline - time.monotonic(), 0.001)
