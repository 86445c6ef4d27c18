"""Forks processes that have Duetime imported: `python -m tests.forker SOCKET`. Ends when its stdin does."""

from __future__ import annotations

import atexit
import gc
import json
import os
import runpy
import selectors
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from typing import Any

from duetime.scheduler.intake.translated_phrases import load_languages
from duetime.scheduler.outcomes import Done
from duetime.scheduler.rules.settlement import settle
from duetime.scheduler.run_records import Start
from duetime.scheduler.runtime import failpoints
from duetime.server.app import build
from duetime.server.settings.model import Settings
from duetime.server.transport.browsers import HttpAccess
from duetime.server.transport.http import HttpSite, http_app
from duetime.server.transport.serve_http import connect, surfaces

from tests import compiled
from tests.builders import LEASE
from tests.forked import NUMBER, STANDARD_STREAMS

IMPORTED = (
    "duetime.scheduler.queue.redis.ownership",
    "duetime.scheduler.store.postgres.start",
    "duetime.server.admin.site",
    "duetime.server.app",
    "duetime.server.cli.lists",
    "duetime.server.cli.main",
    "duetime.server.cli.serve",
    "duetime.server.cli.tasks",
    "duetime.server.cli.verbs",
    "duetime.server.distributed",
    "duetime.server.doctor.examine",
    "duetime.server.protocol.server",
    "duetime.server.rest.api",
    "duetime.server.transport.serve_http",
    "duetime.server.transport.serve_stdio",
    "duetime.server.workers.worker",
    "psycopg",
)
"""Modules that servers and workers import first, or as soon as they have read their settings."""

Request = Mapping[str, Any]

MAX_EXIT_CODE = 0xFF
"""The system keeps eight bits of an exit code."""


class Forks:
    """The processes that have not ended, and the connections on which they were asked for."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._peers: dict[int, socket.socket] = {}
        self._signalled, wake = socket.socketpair()
        for end in (self._signalled, wake):
            end.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake.fileno())
        self._wake = wake

    def next_request(self) -> Request | None:
        """Fork and tell until stdin ends. Return the request in the fork that has to serve it, and else None."""
        with selectors.DefaultSelector() as selector:
            for each in (self._listener, self._signalled, sys.stdin):
                selector.register(each, selectors.EVENT_READ)
            while True:
                ready = [key.fileobj for key, _ in selector.select()]
                if self._signalled in ready:
                    self._signalled.recv(4096)
                    self._tell_ended()
                if self._listener in ready and (request := self._forked()) is not None:
                    return request
                if sys.stdin in ready:
                    return None

    def _tell_ended(self) -> None:
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                with self._peers.pop(ended[0]) as peer, suppress(OSError):
                    peer.sendall(NUMBER.pack(ended[1]))

    def _forked(self) -> Request | None:
        peer, _ = self._listener.accept()
        request, streams = received(peer)
        pid = os.fork() if request else None
        if pid == 0:
            self._let_go(peer)
            take(streams)
            return request
        for stream in streams:
            os.close(stream)
        if pid is None:
            peer.close()
            return None
        self._peers[pid] = peer
        with suppress(OSError):
            peer.sendall(NUMBER.pack(pid))
        return None

    def _let_go(self, peer: socket.socket) -> None:
        """Leave to the parent what is the parent's."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for each in (self._listener, self._signalled, self._wake, peer, *self._peers.values()):
            each.close()


def received(peer: socket.socket) -> tuple[Request | None, list[int]]:
    """Return a program that is asked for, and its streams; no program where who asks was killed before the end."""
    head, streams, _, _ = socket.recv_fds(peer, NUMBER.size, len(STANDARD_STREAMS))
    length = NUMBER.unpack(head)[0] if len(head) == NUMBER.size else 0
    words = peer.recv(length, socket.MSG_WAITALL) if length else b""
    return json.loads(words) if words and len(words) == length else None, streams


def take(streams: list[int]) -> None:
    """Make these the standard streams. The objects that Python made for the old ones live on in `sys.__stdin__`."""
    for number, stream in zip(STANDARD_STREAMS, streams, strict=True):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)


def run(request: Request) -> None:
    """Be the program that was asked for."""
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    time.tzset()
    failpoints.hit = failpoints.armed(os.environ.get(failpoints.FAILPOINT_VARIABLE))  # else read when it is imported
    sys.path[0] = request["folder"]
    sys.orig_argv = [sys.executable, *request["arguments"]]
    match request["arguments"]:
        case ["-m", module, *rest]:
            sys.argv = [module, *rest]
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        case ["-c", program, *rest]:
            sys.argv = ["-c", *rest]
            exec(compile(program, "<string>", "exec"), {"__name__": "__main__"})
        case [path, *rest]:
            sys.argv = [path, *rest]
            runpy.run_path(path, run_name="__main__")


def end_with(request: Request) -> None:
    """Run a program as Python does, but leave its memory to the system, which shares it with the other forks.

    To take each module apart would copy it all first: a third of a second of a processor. Whatever ends the program
    otherwise than by a code, and a stream that cannot be written, takes the way of Python.
    """
    ended = 0
    try:
        run(request)
    except SystemExit as error:
        if not isinstance(error.code, int | None):
            raise
        ended = error.code or 0
    threading._shutdown()  # type: ignore[attr-defined]  # this, the callbacks and the streams in the order of Python
    atexit._run_exitfuncs()
    try:
        for stream in filter(None, (sys.stdout, sys.stderr)):
            stream.flush()
    except (OSError, ValueError):
        sys.exit(ended)
    os._exit(ended & MAX_EXIT_CODE)


def warm_up() -> None:
    """Make a server and run a task: what a process compiles and caches for that is there in each fork."""
    compiled.share()
    load_languages()
    with tempfile.TemporaryDirectory(prefix="duetime-forker-") as folder:
        url = f"sqlite:///{folder}/duetime.db"
        given = {"database_url": url, "timezone": "UTC", "desktop_notifications": "off", "sqlite_synchronous": "OFF"}
        settings = Settings.model_validate(given)
        with build(settings) as app:
            routes = surfaces(app, None)
            http_app(HttpSite(connect(app), app.ready, HttpAccess.of(settings), routes, app.observers.refused))
            app.scheduler.schedule("Warm up", when="now")
            app.scheduler.tasks.list()
            ready = [Start(run.run_id) for run in app.store.claims.make_ready(limit=9)]
            claims = app.store.claims.start(ready, worker="w", epoch=None, lease=LEASE)
            ended = [settle(claim, Done("done"), now=app.store.now(), jitter=0.0) for claim in claims]
            app.store.claims.settle(ended)
    assert threading.active_count() == 1, "a fork has one thread, and no lock that another one holds"


def main(address: str) -> None:
    for name in IMPORTED:
        import_module(name)
    warm_up()
    gc.collect()
    gc.freeze()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        request = Forks(listener).next_request()
    if request is not None:
        end_with(request)


if __name__ == "__main__":
    main(sys.argv[1])
