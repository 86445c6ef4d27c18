"""The time that a request may take to arrive, and who is served when there are too many connections."""

from __future__ import annotations

import asyncio
import resource
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest
import uvicorn
from duetime.server.transport import connections
from duetime.server.transport.connections import BODY_TIMEOUT_S, HEAD_TIMEOUT_S, LimitedConnection
from uvicorn.server import ServerState

from tests.flow.protocol.test_http import serving

HEAD = b"GET /livez HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"
HALF_BODY = b"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 10\r\n\r\nabc"


@dataclass
class Timer:
    """A timer that only runs out when told to."""

    seconds: float
    work: Callable[[], object]
    cancelled: bool = False

    def cancel(self) -> None:
        self.cancelled = True


@dataclass
class Loop:
    """A loop with timers and no time of its own."""

    at: float = 0.0
    timers: list[Timer] = field(default_factory=list)

    def time(self) -> float:
        self.at += 1
        return self.at

    def call_later(self, seconds: float, work: Callable[[], object]) -> Timer:
        self.timers.append(Timer(seconds, work))
        return self.timers[-1]

    def create_task(self, work: Any, **_: object) -> asyncio.Task[None]:
        work.close()
        return cast("asyncio.Task[None]", _Task())

    def running(self) -> list[Timer]:
        return [timer for timer in self.timers if not timer.cancelled]


class _Task:
    def add_done_callback(self, _: object) -> None:
        """Nothing is run here."""


class Transport:
    """Bytes written to a client, and whether its connection was closed."""

    def __init__(self, address: str) -> None:
        self.address, self.written, self.closed = address, b"", False

    def get_extra_info(self, name: str) -> object:
        return (self.address, 40_000) if name == "peername" else None

    def write(self, data: bytes) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True


class House:
    """One server's connections."""

    def __init__(self) -> None:
        self.loop, self.state = Loop(), ServerState()
        self.config = uvicorn.Config(lambda *_: None, log_config=None)
        self.config.load()

    def connect(self, address: str = "127.0.0.1") -> tuple[LimitedConnection, Transport]:
        loop = cast("asyncio.AbstractEventLoop", self.loop)
        made, transport = LimitedConnection(self.config, self.state, {}, loop), Transport(address)
        made.connection_made(cast("asyncio.Transport", transport))
        return made, transport


@pytest.fixture
def house() -> Iterator[House]:
    made = House()
    yield made
    for connection in list(made.state.connections):
        connection.connection_lost(None)


def test_a_head_that_does_not_arrive_ends_the_connection(house: House) -> None:
    connection, transport = house.connect()
    connection.data_received(HEAD[:10])
    [timer] = house.loop.running()
    assert timer.seconds == HEAD_TIMEOUT_S
    timer.work()
    assert transport.closed
    assert transport.written.startswith(b"HTTP/1.1 408 ")


def test_each_byte_of_a_head_starts_no_new_time_limit(house: House) -> None:
    connection, _ = house.connect()
    for byte in HEAD[:20]:
        connection.data_received(bytes([byte]))
    assert len(house.loop.timers) == 1


def test_a_body_that_does_not_arrive_ends_the_connection_without_a_second_answer(house: House) -> None:
    connection, transport = house.connect()
    connection.data_received(HALF_BODY)
    [timer] = house.loop.running()
    assert timer.seconds == BODY_TIMEOUT_S
    timer.work()
    assert transport.closed
    assert transport.written == b""


def test_a_whole_request_may_be_answered_for_as_long_as_that_takes(house: House) -> None:
    connection, _ = house.connect()
    connection.data_received(HEAD)
    assert house.loop.running() == []


def test_when_all_places_are_taken_the_oldest_half_head_makes_way(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "max_connections", lambda: 3)
    busy, _ = house.connect("10.0.0.1")
    busy.data_received(HEAD)
    halves = [house.connect(address)[1] for address in ("10.0.0.2", "10.0.0.3")]
    _, newest = house.connect("10.0.0.4")
    assert [half.closed for half in halves] == [True, False]
    assert not newest.closed


def test_one_address_does_not_take_all_places(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "max_connections", lambda: 4)
    for _ in range(3):
        house.connect("10.0.0.1")[0].data_received(HEAD)
    _, fourth = house.connect("10.0.0.1")
    _, other = house.connect("10.0.0.2")
    assert fourth.written.startswith(b"HTTP/1.1 503 ")
    assert (fourth.closed, other.closed) == (True, False)


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="the limit of another process can be set on Linux only")
def test_a_client_is_served_despite_more_half_heads_than_there_are_places(tmp_path: Path) -> None:
    with serving(tmp_path) as site, ExitStack() as halves:
        resource.prlimit(site.process.pid, resource.RLIMIT_NOFILE, (200, 200))
        port = int(site.url.split(":")[2].split("/")[0])
        for _ in range(300):
            half = halves.enter_context(socket.create_connection(("127.0.0.1", port)))
            half.sendall(HEAD[:12])
        assert site.http.get(site.url.replace("/mcp", "/livez")).status_code == 200
        assert "duetime" in str(site.call("schedule_task", title="Call John", when="tomorrow 9am"))
