"""A steady load on the servers of an installation: writers schedule tasks, a reader lists them, over MCP.

A call that a server refuses, cuts off or leaves without an answer is repeated with its key. It goes to the next server
in rotation, as a client behind a load balancer does.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx2 as httpx

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "load", "version": "1"},
}
TIERS = ("critical", "high", "normal", "low")
WAITS = ("now", "now", "in 1 second", "in 5 seconds")
CALL_S = 20.0
"""Seconds after which a call without an answer is made again."""


@dataclass
class Load:
    """`rotation` has the servers that take calls; `writer_s` and `reader_s` have the seconds that each call took.

    Tasks are scheduled at `rate`, as many as `allow` lets in: a step that takes long on a busy machine gets no more.
    """

    rate: float
    rotation: list[str] = field(default_factory=list)
    acknowledged: set[str] = field(default_factory=set)
    writer_s: list[float] = field(default_factory=list)
    reader_s: list[float] = field(default_factory=list)
    repeated: int = 0

    def __post_init__(self) -> None:
        self._numbers = itertools.count()
        self._allowed = threading.Semaphore(0)
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._failed: list[BaseException] = []

    def allow(self, tasks: int) -> None:
        """Let in so many tasks more."""
        self._allowed.release(tasks)

    @contextmanager
    def going(self, writers: int) -> Iterator[None]:
        """Keep the load up while the block lasts; raise what a caller was refused for good."""
        works = [*[self._write] * writers, self._read]
        threads = [threading.Thread(target=self._guarded, args=(work, 1 / self.rate * writers)) for work in works]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._ended.set()
            for thread in threads:
                thread.join()
        if self._failed:
            raise self._failed[0]

    def _guarded(self, work: Any, every_s: float) -> None:
        try:
            with httpx.Client(timeout=CALL_S) as http:
                while not self._ended.wait(every_s):
                    work(http)
        except BaseException as error:  # noqa: BLE001 - told to the caller of `going`
            self._failed.append(error)

    def _write(self, http: httpx.Client) -> None:
        if not self._allowed.acquire(blocking=False):
            return
        number = next(self._numbers)
        arguments = {
            "title": f"Task {number}",
            "when": WAITS[number % len(WAITS)],
            "action": "effect",
            "payload": {"seconds": 0.02 * (number % 5)},
            "priority": TIERS[number % len(TIERS)],
            "idempotency_key": f"key-{number}",
            **({"needs": {"gpu": 1}} if number % 3 == 0 else {}),
        }
        began = time.monotonic()
        made = self._call(http, "schedule_task", arguments)
        with self._lock:
            self.writer_s.append(time.monotonic() - began)
            assert made["id"] not in self.acknowledged, f"two calls were answered with {made['id']}"
            self.acknowledged.add(made["id"])

    def _read(self, http: httpx.Client) -> None:
        began = time.monotonic()
        self._call(http, "list_tasks", {"limit": 10})
        self.reader_s.append(time.monotonic() - began)

    def _call(self, http: httpx.Client, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        for attempt in itertools.count(next(self._numbers) if tool == "list_tasks" else len(self.writer_s)):
            address = self.rotation[attempt % len(self.rotation)]
            with_answer = _asked(http, address, tool, arguments)
            if with_answer is not None:
                return with_answer
            self.repeated += 1
            time.sleep(0.05)
        raise AssertionError


def _asked(http: httpx.Client, address: str, tool: str, arguments: dict[str, Any]) -> dict[str, Any] | None:
    """Return the structured content of an answer; None where the call has to be repeated."""
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
    params = {"name": tool, "arguments": arguments, "_meta": META}
    headers = {
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": "tools/call",
        "Mcp-Name": tool,
    }
    try:
        answer = http.post(address, json=body | {"params": params}, headers=headers)
    except httpx.TransportError:
        return None
    if answer.status_code >= 500:
        return None
    result = answer.json()["result"]
    if result.get("isError"):
        assert "unavailable" in str(result) or "again" in str(result), result
        return None
    found: dict[str, Any] = result["structuredContent"]
    return found
