"""The proxy does what its modes say: a fault test is worth what its fault is worth."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress

import pytest

from tests.faults.proxy import Proxy


@pytest.fixture
def heard() -> list[bytes]:
    return []


@pytest.fixture
def proxy(heard: list[bytes]) -> Iterator[Proxy]:
    """Give a proxy before a server that answers each request with itself."""
    listener = socket.create_server(("127.0.0.1", 0))

    def answer(peer: socket.socket) -> None:
        with peer, suppress(ConnectionError):
            while data := peer.recv(1000):
                heard.append(data)
                peer.sendall(data)

    def accept() -> None:
        while True:
            try:
                peer, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=answer, args=(peer,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    with closing(Proxy(listener.getsockname()[1])) as made:
        yield made
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()


@pytest.fixture
def client(proxy: Proxy) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=60) as connection:
        yield connection


def asked(client: socket.socket, request: bytes) -> bytes:
    client.sendall(request)
    return client.recv(1000)


def test_it_forwards_both_ways(client: socket.socket) -> None:
    assert [asked(client, b"one"), asked(client, b"two")] == [b"one", b"two"]


def test_a_lost_reply_is_lost_once_and_the_request_was_heard(
    proxy: Proxy, client: socket.socket, heard: list[bytes]
) -> None:
    proxy.cut_reply(b"take")
    assert asked(client, b"put") == b"put"
    with pytest.raises(ConnectionResetError):
        asked(client, b"take 5")
    assert heard == [b"put", b"take 5"]
    assert proxy.hits == 1
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=60) as again:
        assert asked(again, b"take 6") == b"take 6"


def test_down_ends_what_is_open_and_what_comes(proxy: Proxy, client: socket.socket) -> None:
    assert asked(client, b"one") == b"one"
    proxy.mode = "down"
    with pytest.raises(ConnectionError):
        asked(client, b"two")
    with pytest.raises(ConnectionError), socket.create_connection(("127.0.0.1", proxy.port), timeout=60) as late:
        asked(late, b"three")


def test_a_black_hole_answers_nothing_until_it_is_over(proxy: Proxy, client: socket.socket) -> None:
    proxy.mode = "blackhole"
    client.settimeout(0.3)
    with pytest.raises(TimeoutError):
        asked(client, b"one")
    proxy.mode = "ok"
    client.settimeout(60)
    assert client.recv(1000) == b"one"


def test_latency_is_added_each_way(proxy: Proxy, client: socket.socket) -> None:
    proxy.mode = "latency:100"
    began = time.monotonic()
    assert asked(client, b"one") == b"one"
    assert time.monotonic() - began >= 0.2
