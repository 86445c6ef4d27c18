"""A shared server as a company runs it: agents of three tenants over MCP and an admin in a browser, all at once.

Each tenant has another client: the Python SDK, the TypeScript SDK, and one with no SDK, which shakes hands as clients
of 2025 do.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from playwright.sync_api import Browser, Page, expect

from tests import forked
from tests.flow.auth.conftest import ACCEPTED, HELLO, bearer
from tests.flow.protocol.serve_process import ServerLog
from tests.widgets import provision, tooling

pytestmark = pytest.mark.browser

TENANTS = ("acme", "globex", "initech")
TASKS_PER_CLIENT = 15
AGENT = Path(__file__).parent / "agent.mjs"


@dataclass(frozen=True, slots=True)
class Installation:
    """A real `duetime serve` that asks for keys, and the command line of its machine."""

    environment: dict[str, str]
    url: str

    def key(self, tenant: str, *scopes: str) -> str:
        asked = [word for scope in scopes for word in ("--scope", scope)]
        return command(self.environment, "keys", "create", tenant, "--tenant", tenant, "--user", "agent", *asked)


def command(environment: dict[str, str], *arguments: str) -> str:
    """Run a verb in a process of its own; return its stdout."""
    run = [sys.executable, "-m", "duetime", *arguments]
    done = forked.run(run, env=environment, timeout=60)
    assert done.returncode == 0, done.stderr
    return str(done.stdout).strip()


@pytest.fixture
def installation(tmp_path: Path) -> Iterator[Installation]:
    kept = {name: value for name, value in os.environ.items() if not name.upper().startswith("DUETIME_")}
    settings = {"DATABASE_URL": f"sqlite:///{tmp_path}/duetime.db", "AUTH": "keys", "PORT": "0", "TIMEZONE": "UTC"}
    given = {f"DUETIME_{name}": value for name, value in settings.items()} | {"DUETIME_DESKTOP_NOTIFICATIONS": "off"}
    environment = kept | given
    serve = [sys.executable, "-m", "duetime", "serve"]
    with forked.popen(serve, stderr=subprocess.PIPE, text=True, env=environment) as process:
        log = ServerLog(process.stderr)
        try:
            yield Installation(environment, log.address.removesuffix("/mcp"))
        finally:
            process.terminate()
            log.rest()


def by_python(url: str, key: str, tenant: str) -> set[str]:
    """Schedule, cancel and list by the Python SDK; return the titles that the tenant sees at the end."""

    async def session() -> set[str]:
        async with (
            httpx2.AsyncClient(headers=bearer(key), trust_env=False, timeout=60) as http,
            Client(streamable_http_client(url, http_client=http)) as client,
        ):
            made = [
                (await client.call_tool("schedule_task", new(tenant, number))) for number in range(TASKS_PER_CLIENT)
            ]
            assert made[0].structured_content is not None
            await client.call_tool("cancel_task", unwanted(made[0].structured_content))
            return titles((await client.call_tool("list_tasks", {"limit": 100})).structured_content)

    return asyncio.run(session())


def by_typescript(url: str, key: str, tenant: str) -> set[str]:
    """Do the same by the TypeScript SDK."""
    modules = tooling.ensure_node_modules()
    script = modules.parent / "agent.mjs"  # Node looks for packages next to a script
    script.write_text(AGENT.read_text("utf-8"), "utf-8")
    said = provision.run(
        [provision.node(tooling.CACHE), str(script), url, key, tenant, str(TASKS_PER_CLIENT)], modules.parent
    )
    return set(json.loads(said))


def by_hand(url: str, key: str, tenant: str) -> set[str]:
    """Do the same with nothing but HTTP and JSON."""
    with httpx2.Client(headers=ACCEPTED | bearer(key), trust_env=False, timeout=60) as http:

        def asked(method: str, params: Mapping[str, object]) -> httpx2.Response:
            body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            return http.post(url, json=body).raise_for_status()

        def call(tool: str, arguments: Mapping[str, object]) -> Any:
            return asked("tools/call", {"name": tool, "arguments": arguments}).json()["result"]["structuredContent"]

        welcome = asked("initialize", HELLO)
        http.headers |= {"Mcp-Session-Id": welcome.headers["mcp-session-id"], "MCP-Protocol-Version": "2025-11-25"}
        http.post(url, json={"jsonrpc": "2.0", "method": "notifications/initialized"}).raise_for_status()
        made = [call("schedule_task", new(tenant, number)) for number in range(TASKS_PER_CLIENT)]
        call("cancel_task", unwanted(made[0]))
        return titles(call("list_tasks", {"limit": 100}))


def new(tenant: str, number: int) -> dict[str, Any]:
    return {"title": f"{tenant} task {number}", "when": "in 2 hours"}


def unwanted(task: Mapping[str, Any]) -> dict[str, Any]:
    return {"task_id": task["id"], "reason": "not needed"}


def titles(listed: Mapping[str, Any] | None) -> set[str]:
    assert listed is not None
    return {row["title"] for row in listed["tasks"]}


CLIENTS = (by_python, by_typescript, by_hand)


def log_in(page: Page, url: str, key: str) -> None:
    page.goto(f"{url}/admin")
    page.get_by_label("API key").fill(key)
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()


def test_agents_by_three_clients_and_an_admin_work_at_once_and_each_sees_what_is_theirs(
    installation: Installation, browser: Browser
) -> None:
    tooling.ensure_node_modules()  # on first use they are installed, which may take longer than the clients
    url = installation.url
    keys = {tenant: installation.key(tenant) for tenant in TENANTS}
    operator, reader = installation.key("local", "admin"), installation.key("acme", "admin:read")
    page = browser.new_page()
    log_in(page, url, operator)
    page.goto(f"{url}/admin/runs?state=to_come")

    with ThreadPoolExecutor(len(TENANTS)) as threads:
        work = {
            tenant: threads.submit(client, f"{url}/mcp", keys[tenant], tenant)
            for tenant, client in zip(TENANTS, CLIENTS, strict=True)
        }
        expect(page.locator("tbody tr[data-row]").first).to_be_visible()  # by itself, while they schedule
        seen = {tenant: future.result(timeout=60) for tenant, future in work.items()}

    assert seen == {tenant: {f"{tenant} task {number}" for number in range(TASKS_PER_CLIENT)} for tenant in TENANTS}
    expect(page.locator("tbody tr[data-row]")).to_have_count(len(TENANTS) * (TASKS_PER_CLIENT - 1))
    page.goto(f"{url}/admin/runs?state=cancelled&tenant=globex")
    expect(page.locator("tbody tr[data-row]")).to_have_count(1)
    page.context.clear_cookies()
    log_in(page, url, reader)
    page.goto(f"{url}/admin/runs?state=to_come&tenant=globex")  # an administrator of acme chooses in vain
    expect(page.locator("tbody tr[data-row]")).to_have_count(TASKS_PER_CLIENT - 1)
    expect(page.locator("body")).not_to_contain_text(re.compile("(globex|initech) task"))
    page.context.close()
    chains = json.loads(command(installation.environment, "audit", "verify", "--json"))["chains"]
    assert len(chains) > 1
    assert [chain for chain in chains if "broken" in chain] == []
