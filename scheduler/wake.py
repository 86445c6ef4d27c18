"""How the other processes of this machine wake the runner: one line of JSON to a port on the loopback interface.

Only a hint travels here: what to do is in the database, and the runner looks there every two seconds anyway.
"""

from __future__ import annotations

import hmac
import json
import secrets
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from duetime.scheduler.errors import DuetimeError
from duetime.scheduler.store import Runner, Store

LONGEST_LINE = 1024
PATIENCE = 0.04
"""Seconds that waking may take in all: nobody's tool call waits for longer."""

LOOPBACK = "127.0.0.1"
READ_TIMEOUT = 1.0
MOST_CALLERS = 16
"""Connections that are answered at once; more are closed unheard."""


class WakeServer:
    """Listens for wake-ups while this process is the runner, on a port that the system chooses."""

    def __init__(self, woken: Callable[[], None]) -> None:
        self.token = secrets.token_urlsafe(24)
        self._woken = woken
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=64)
        self._port: int = self._socket.getsockname()[1]
        self._room = threading.Semaphore(MOST_CALLERS)
        self._closing = False
        self._thread = threading.Thread(target=self._accept, name="duetime-wake", daemon=True)

    @property
    def endpoint(self) -> str:
        return f"{LOOPBACK}:{self._port}"

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._closing = True
        with suppress(OSError):
            socket.create_connection((LOOPBACK, self._port), timeout=READ_TIMEOUT).close()  # ends its accept()
        self._socket.close()

    def _accept(self) -> None:
        while not self._closing:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            if self._room.acquire(blocking=False):
                threading.Thread(target=self._answer, args=(connection,), daemon=True).start()
            else:
                connection.close()

    def _answer(self, connection: socket.socket) -> None:
        """Answer one line, whoever sent it; wake up only for one who knows the token."""
        try:
            with connection, suppress(OSError):
                connection.settimeout(READ_TIMEOUT)
                known = _knows(connection.makefile("rb").readline(LONGEST_LINE), self.token)
                if known:
                    self._woken()
                connection.sendall(json.dumps({"woken": known}).encode() + b"\n")
        finally:
            self._room.release()


def _knows(line: bytes, token: str) -> bool:
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        return False
    given = said.get("token") if isinstance(said, dict) else None
    return isinstance(given, str) and hmac.compare_digest(given.encode(errors="replace"), token.encode())


class WakeClient:
    """Wakes the runner of a database from another process, in well under a millisecond when it lives."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._runner: Runner | None = None

    def wake(self, patience: float = PATIENCE) -> bool:
        """Wake the runner; False when there is none to be reached, which is no error: it looks by itself, later.

        `patience` is in seconds: a tool call has little, a person who asks whether anybody runs tasks has more.
        """
        deadline = time.monotonic() + patience
        if self._runner is not None and _say(self._runner, deadline):
            return True
        try:
            self._runner = self._store.runners.current()
        except DuetimeError:
            return False
        return self._runner is not None and _say(self._runner, deadline)


def _say(runner: Runner, deadline: float) -> bool:
    port = runner.endpoint.rpartition(":")[2]
    try:
        with socket.create_connection((LOOPBACK, int(port)), timeout=_left(deadline)) as connection:
            connection.sendall(json.dumps({"token": runner.token}).encode() + b"\n")
            connection.settimeout(_left(deadline))
            return b"true" in connection.recv(LONGEST_LINE)
    except (OSError, ValueError):
        return False


def _left(deadline: float) -> float:
    return max(deadline - time.monotonic(), 0.001)
