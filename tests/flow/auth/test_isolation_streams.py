"""Subscriptions of two tenants on a real server: each is told of its own tasks alone, whatever address it names."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from duetime.scheduler.access.api_key import ApiKey
from duetime.scheduler.store import Store, open_store
from duetime.server.auth.key_format import KeyText

from tests import forked
from tests.flow.auth.conftest import ACCEPTED, MODERN, bearer
from tests.flow.protocol.serve_process import ServerLog

UPDATED = "notifications/resources/updated"
INBOX = "duetime://inbox"


class Caller:
    """A tenant's client, by what it sends and receives."""

    def __init__(self, http: httpx2.Client, address: str, token: str) -> None:
        self._http, self._address, self._token = http, address, token

    def _request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        named = {"Mcp-Name": params["name"]} if "name" in params else {}
        headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method, **named}
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"_meta": MODERN, **params}}
        return {"url": self._address, "json": body, "headers": ACCEPTED | bearer(self._token) | headers}

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        answer = self._http.post(**self._request("tools/call", {"name": tool, "arguments": arguments}))
        found: dict[str, Any] = answer.json()["result"]["structuredContent"]
        return found

    @contextmanager
    def listening(self, *uris: str) -> Iterator[Iterator[str]]:
        """Subscribe to these addresses; gives those that the server names, as it names them."""
        wanted = {"resourceSubscriptions": list(uris), "resourcesListChanged": True}
        with self._http.stream("POST", **self._request("subscriptions/listen", {"notifications": wanted})) as stream:
            messages = (json.loads(line[6:]) for line in stream.iter_lines() if line.startswith("data: {"))
            assert "acknowledged" in next(messages)["method"]
            yield (_said(message) for message in messages)


def _said(message: dict[str, Any]) -> str:
    return str(message.get("params", {}).get("uri", message.get("method", "")))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    found = open_store(f"sqlite:///{tmp_path}/duetime.db")
    yield found
    found.close()


@pytest.fixture
def callers(tmp_path: Path, store: Store) -> Iterator[tuple[Caller, Caller]]:
    """Serve two tenants."""
    settings = {
        "DUETIME_DATABASE_URL": f"sqlite:///{tmp_path}/duetime.db",
        "DUETIME_AUTH": "keys",
        "DUETIME_TIMEZONE": "UTC",
        "DUETIME_DESKTOP_NOTIFICATIONS": "off",
        "DUETIME_PORT": "0",
    }
    command = [sys.executable, "-m", "duetime", "serve"]
    with ExitStack() as stack:
        process = stack.enter_context(
            forked.popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, **settings})
        )
        log = ServerLog(process.stderr)
        stack.callback(log.rest)
        stack.callback(process.terminate)
        http = stack.enter_context(httpx2.Client(trust_env=False, timeout=60))
        yield tuple(Caller(http, log.address, key(store, tenant)) for tenant in ("globex", "acme"))  # type: ignore[misc]  # two of them


def key(store: Store, tenant: str) -> str:
    text = KeyText.new()
    store.api_keys.add(ApiKey(text.id, tenant, "ann", ("tasks",), "test", text.digest, store.now(), None))
    return text.text


def test_a_subscriber_receives_no_change_of_another_tenant(callers: tuple[Caller, Caller]) -> None:
    ours, theirs = callers
    foreign, own = (
        theirs.call("schedule_task", title="Theirs", when="in 2 hours")["id"],
        ours.call("schedule_task", title="Ours", when="in 2 hours")["id"],
    )
    addresses = [INBOX, f"duetime://tasks/{foreign}", f"duetime://tasks/{own}"]
    with ours.listening(*addresses) as heard, theirs.listening(*addresses) as told:
        theirs.call("reschedule_task", task_id=foreign, when="in 3 hours")
        assert next(told) == addresses[1]
        theirs.call("schedule_task", title="More of theirs", when="in 2 hours")
        assert "notifications/resources/list_changed" in told  # the first change may be told of again before it
        ours.call("reschedule_task", task_id=own, when="in 3 hours")  # all that went before would be heard before it
        assert next(heard) == addresses[2]
