"""Forks processes that have Duetime imported: `python -m tests.forker SOCKET`. Ends when its stdin does."""

from __future__ import annotations

import gc
import json
import os
import runpy
import selectors
import signal
import socket
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from typing import Any

from duetime.scheduler.runtime import failpoints

from tests.forked import NUMBER, STANDARD_STREAMS

IMPORTED = (
    "duetime.scheduler.queue.redis.ownership",
    "duetime.scheduler.store.postgres.start",
    "duetime.server.admin.site",
    "duetime.server.app",
    "duetime.server.cli.main",
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
        head, streams, _, _ = socket.recv_fds(peer, NUMBER.size, len(STANDARD_STREAMS))
        request: Request = json.loads(peer.recv(NUMBER.unpack(head)[0], socket.MSG_WAITALL))
        pid = os.fork()
        if pid == 0:
            self._let_go(peer)
            take(streams)
            return request
        for stream in streams:
            os.close(stream)
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


def main(address: str) -> None:
    for name in IMPORTED:
        import_module(name)
    gc.collect()
    gc.freeze()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        request = Forks(listener).next_request()
    if request is not None:
        run(request)


if __name__ == "__main__":
    main(sys.argv[1])
