"""A receiver of webhooks on this machine: it keeps what comes in, and answers what it was told to."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Received:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Answer:
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b"ok"
    write: Callable[[Any], None] | None = None


class Receiver(BaseHTTPRequestHandler):
    """Records what comes in and answers with the next prepared answer, or 200."""

    server: Server

    def answer(self) -> None:
        length = int(self.headers.get("content-length", 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.received.append(Received(self.command, self.path, headers, self.rfile.read(length)))
        answer = self.server.answers.pop(0) if self.server.answers else Answer()
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        if answer.write is None:
            self.send_header("content-length", str(len(answer.body)))
        self.end_headers()
        try:
            (answer.write or (lambda file: file.write(answer.body)))(self.wfile)
        except OSError:
            self.close_connection = True

    do_GET = do_POST = do_PUT = answer  # noqa: N815 - the base class names them

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it
        """Say nothing."""


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, host: str = "127.0.0.1", family: socket.AddressFamily = socket.AF_INET) -> None:
        self.address_family = family
        self.received: list[Received] = []
        self.answers: list[Answer] = []
        super().__init__((host, 0), Receiver)

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def url(self, host: str = "127.0.0.1", path: str = "/hook") -> str:
        return f"http://{host}:{self.port}{path}"


def serving(server: Server) -> Iterator[Server]:
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
