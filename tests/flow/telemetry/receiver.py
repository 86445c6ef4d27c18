"""A server on this machine that stands for the receivers of webhooks and for a collector of traces."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Received:
    """One request."""

    path: str
    headers: dict[str, str]
    body: bytes


class Receiver(ThreadingHTTPServer):
    """Keeps every POST. With `hangs`, it answers none until it is closed."""

    daemon_threads = True

    def __init__(self, *, hangs: bool = False) -> None:
        self.received: list[Received] = []
        self.released = threading.Event()
        if not hangs:
            self.released.set()
        super().__init__(("127.0.0.1", 0), _Handler)

    def url(self, path: str = "") -> str:
        return f"http://127.0.0.1:{self.server_address[1]}{path}"

    def at(self, path: str) -> list[Received]:
        return [request for request in self.received if request.path == path]


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.received.append(Received(self.path, headers, body))
        self.server.released.wait()
        try:
            self.send_response(503 if self.path == "/away" else 200)
            self.send_header("content-length", "0")
            self.end_headers()
        except OSError:
            self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it
        """Say nothing."""


@contextmanager
def receiving(*, hangs: bool = False) -> Iterator[Receiver]:
    server = Receiver(hangs=hangs)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server
    finally:
        server.released.set()
        server.shutdown()
        thread.join()
        server.server_close()
