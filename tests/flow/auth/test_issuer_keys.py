"""The keys of an authorization server that is slow, rotates, or answers with anything but keys."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any

import httpx2
import pytest
from duetime.server.auth import issuer_keys
from duetime.server.auth.issuer_keys import (
    KEYS_MAX_AGE_S,
    MAX_ISSUER_DOCUMENT_BYTES,
    IssuerKeys,
    IssuerUnavailable,
    fetched,
)

from tests.flow.auth.issuer import EC_KEY, RSA_KEY, jwk

ISSUER = "https://login.example.com"
KEYS_URL = f"{ISSUER}/keys"
GOOD = jwk(RSA_KEY, "first")
WAIT_S = 60


class Keys:
    """The keys of an issuer whose answer is set by hand, and their clock."""

    def __init__(self, answer: Callable[[], bytes]) -> None:
        self.now = 1000.0
        self.answer = answer
        self.found = IssuerKeys(ISSUER, KEYS_URL, refetch_s=60, fetch=lambda _: self.answer(), clock=lambda: self.now)


def document(*entries: Any) -> Callable[[], bytes]:
    return lambda: json.dumps({"keys": entries}).encode()


@contextmanager
def slow_fetch(keys: Keys, *entries: Any) -> Iterator[None]:
    """Let another thread fetch keys for as long as the block runs."""
    begun, end = Event(), Event()

    def answer() -> bytes:
        begun.set()
        end.wait(WAIT_S)
        return document(*entries)()

    keys.answer = answer
    fetching = Thread(target=keys.found.find, args=("new",))
    fetching.start()
    try:
        assert begun.wait(WAIT_S)
        yield
    finally:
        end.set()
        fetching.join()


def test_known_keys_hold_while_a_slow_issuer_is_fetched_from_however_long_that_takes() -> None:
    keys = Keys(document(GOOD))
    assert keys.found.find("first") is not None
    keys.now += KEYS_MAX_AGE_S + 1
    with slow_fetch(keys, GOOD):
        keys.now += 120
        assert keys.found.find("first") is not None


def test_a_new_key_is_not_wrong_while_it_is_being_fetched() -> None:
    keys = Keys(document(GOOD))
    keys.found.find("first")
    keys.now += 61
    with slow_fetch(keys, GOOD, jwk(EC_KEY, "new")), pytest.raises(IssuerUnavailable, match="not known yet"):
        keys.found.find("new")
    assert keys.found.find("new") is not None


def test_a_new_key_is_not_wrong_after_a_fetch_that_failed_until_one_succeeds() -> None:
    keys = Keys(document(GOOD))
    keys.found.find("first")
    keys.now += 61
    keys.answer = lambda: b"<html>"
    for later in (0, 1):
        keys.now += later
        with pytest.raises(IssuerUnavailable, match="not known yet"):
            keys.found.find("new")
    keys.now += 61
    keys.answer = document(GOOD)
    assert keys.found.find("new") is None
    keys.now += 61
    keys.answer = document(GOOD, jwk(EC_KEY, "new"))
    assert keys.found.find("new") is not None


@pytest.mark.parametrize("entries", [[], [{"kty": "oct", "k": "c2VjcmV0"}], [jwk(RSA_KEY, "first", use="enc")]])
def test_a_set_without_a_key_that_can_be_used_is_an_outage_in_which_known_keys_hold(entries: list[Any]) -> None:
    keys = Keys(document(GOOD))
    keys.found.find("first")
    keys.now += KEYS_MAX_AGE_S + 1
    keys.answer = document(*entries)
    assert keys.found.find("first") is not None
    with pytest.raises(IssuerUnavailable):
        keys.found.find("new")


@pytest.mark.parametrize(
    "other",
    [7, None, "text", [], {"kty": "RSA", "n": "!", "e": "AQAB"}, {"kty": "RSA", "n": 5, "e": []}, {"kty": {}}, {}],
)
def test_a_malformed_key_takes_no_other_away(other: Any) -> None:
    keys = Keys(document(other, GOOD))
    assert keys.found.find("first") is not None


@pytest.mark.parametrize("other", [[None], {"kid": {}}, {"kid": ["first"], "kty": "RSA"}])
def test_a_key_with_a_malformed_id_takes_no_other_away(other: Any) -> None:
    assert Keys(document(other, GOOD)).found.find("first") is not None


@pytest.mark.parametrize(
    "answer",
    [b"", b"<html>", b"[" * 200_000, b"null", b"7", b'{"keys": 7}', b"\xff\xfe", b'{"a": 1}'],
)
def test_an_answer_that_is_no_key_set_is_an_outage(answer: bytes) -> None:
    with pytest.raises(IssuerUnavailable):
        Keys(lambda: answer).found.find("first")


@pytest.mark.parametrize(
    "error", [httpx2.InvalidURL("no"), httpx2.StreamClosed(), TimeoutError(), ConnectionError(), RecursionError()]
)
def test_any_fault_on_the_way_is_an_outage(error: Exception) -> None:
    def fail() -> bytes:
        raise error

    with pytest.raises(IssuerUnavailable):
        Keys(fail).found.find("first")


def test_an_address_of_keys_that_is_none_is_an_outage() -> None:
    metadata = json.dumps({"issuer": ISSUER, "jwks_uri": "https://login.example.com:port/\x00"}).encode()

    def fetch(address: str) -> bytes:
        return metadata if "well-known" in address else fetched(address)

    keys = IssuerKeys(ISSUER, None, refetch_s=60, fetch=fetch)
    with pytest.raises(IssuerUnavailable):
        keys.find("first")


Answer = Callable[[BaseHTTPRequestHandler], None]


@contextmanager
def answering(answer: Answer) -> Iterator[str]:
    """Serve one answer on loopback."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer(self)

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    serving = Thread(target=server.serve_forever, args=(0.01,))
    serving.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/keys"
    finally:
        server.shutdown()
        serving.join()
        server.server_close()


def test_a_server_that_drips_is_left_after_the_whole_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(issuer_keys, "FETCH_TIMEOUT_S", 0.2)
    left = Event()

    def drip(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.end_headers()
        try:
            while not left.wait(0.02):
                request.wfile.write(b" ")
        except OSError:
            left.set()

    with answering(drip) as url:
        with pytest.raises(TimeoutError):
            fetched(url)
        left.set()


def test_a_document_that_is_too_long_is_not_read_to_its_end() -> None:
    def answer(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.end_headers()
        request.wfile.write(b" " * (MAX_ISSUER_DOCUMENT_BYTES + 1))

    with answering(answer) as url, pytest.raises(ValueError, match="more than"):
        fetched(url)


def test_a_redirect_is_not_followed() -> None:
    asked: list[str] = []

    def answer(request: BaseHTTPRequestHandler) -> None:
        asked.append(request.path)
        request.send_response(302)
        request.send_header("Location", "/elsewhere")
        request.send_header("Content-Length", "0")
        request.end_headers()

    with answering(answer) as url, pytest.raises(httpx2.HTTPStatusError):
        fetched(url)
    assert asked == ["/keys"]
