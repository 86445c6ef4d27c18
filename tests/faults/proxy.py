"""A TCP proxy on loopback that misbehaves as networks do, for Redis and PostgreSQL alike."""

from __future__ import annotations

import re
import socket
import struct
import threading
import time
from collections import Counter
from contextlib import suppress

CHUNK_BYTES = 65536
SCRIPT = re.compile(rb"EVALSHA\r\n\$40\r\n([0-9a-f]{40})\r\n")
LOOK_INTERVAL_S = 0.02
"""Seconds between looks at the mode while something is held back."""


class Proxy:
    """Forwards to `port` from a port of its own.

    `hits` counts the replies that it has swallowed, `scripts` the calls of each script of Redis, by hash. Modes: `ok`;
    `down` (resets what is open, and whoever connects); `blackhole` (nothing gets through, nothing ends) and
    `latency:MS` (each way). `cut_reply(part)` lets the next request that contains `part` through, swallows what is
    answered and resets the connection.
    """

    def __init__(self, port: int) -> None:
        self.hits = 0
        self.scripts: Counter[bytes] = Counter()
        self._target = port
        self._mode = "ok"
        self._needles: list[bytes] = []
        self._lock = threading.Lock()
        self._links: set[_Link] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def mode(self) -> str:
        return self._mode

    @mode.setter
    def mode(self, mode: str) -> None:
        assert mode in {"ok", "down", "blackhole"} or mode.startswith("latency:"), mode
        self._mode = mode
        if mode == "down":
            self._reset_all()

    def cut_reply(self, part: bytes) -> None:
        with self._lock:
            self._needles.append(part)

    def found(self, data: bytes, before: bytes = b"") -> bool:
        """Whether the reply of this request shall be lost; each `cut_reply` counts once.

        `before` is what came before it: what is looked for may begin there, and has to end in `data`.
        """
        with self._lock:
            self.scripts.update(SCRIPT.findall(before + data))
            ends = {needle: (before + data)[max(0, len(before) - len(needle) + 1) :] for needle in self._needles}
            here = [needle for needle in self._needles if needle in ends[needle]]
            if here:
                self._needles.remove(here[0])
                self.hits += 1
            return bool(here)

    def delay(self) -> None:
        """Hold back what is to be forwarded for as long as the mode says."""
        while self._mode == "blackhole":
            time.sleep(LOOK_INTERVAL_S)
        if self._mode.startswith("latency:"):
            time.sleep(float(self._mode.partition(":")[2]) / 1000)

    def close(self) -> None:
        self._listener.close()
        self._mode = "down"
        self._reset_all()

    def _accept(self) -> None:
        with suppress(OSError):  # the listener was closed
            while True:
                client, _ = self._listener.accept()
                if self._mode == "down":
                    _reset(client)
                else:
                    self._link(client)

    def _link(self, client: socket.socket) -> None:
        try:
            link = _Link(self, client, socket.create_connection(("127.0.0.1", self._target)))
        except OSError:  # the server is not there
            _reset(client)
            return
        with self._lock:
            self._links.add(link)
        link.start()  # known first: what has been answered once is reset by the next fault
        if self._mode == "down":
            link.reset()

    def _reset_all(self) -> None:
        with self._lock:
            links, self._links = self._links, set()
        for link in links:
            link.reset()


def _reset(end: socket.socket) -> None:
    """End a connection with RST, as a peer does that is gone."""
    with suppress(OSError):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        end.shutdown(socket.SHUT_RD)  # wakes its thread, and says nothing to the peer
    end.close()


class _Link:
    """One connection through the proxy: a thread each way."""

    def __init__(self, proxy: Proxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy = proxy
        self._sockets = (client, server)
        self._cut = False
        for each in self._sockets:
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def start(self) -> None:
        client, server = self._sockets
        threading.Thread(target=self._pump, args=(client, server, True), daemon=True).start()
        threading.Thread(target=self._pump, args=(server, client, False), daemon=True).start()

    def reset(self) -> None:
        for each in self._sockets:
            _reset(each)

    def _pump(self, source: socket.socket, target: socket.socket, asking: bool) -> None:
        before = b""
        with suppress(OSError):
            while data := source.recv(CHUNK_BYTES):
                self._proxy.delay()
                if asking and self._proxy.found(data, before):
                    self._cut = True
                elif not asking and self._cut:
                    break
                before = data[-128:]
                target.sendall(data)
        self.reset()
