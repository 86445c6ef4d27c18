"""A shared server as a company runs it: two agents of two tenants over MCP and an admin in a browser, all at once."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
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
from tests.flow.protocol.serve_process import ServerLog

pytestmark = pytest.mark.browser

TENANTS = ("acme", "globex")
TASKS_EACH = 15


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
    return subprocess.run(run, env=environment, check=True, capture_output=True, text=True, timeout=60).stdout.strip()


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


async def agent(url: str, key: str, tenant: str) -> set[str]:
    """Schedule, change, cancel and list over a real MCP session; return the titles that the tenant sees at the end."""
    bearer = {"Authorization": f"Bearer {key}"}
    async with (
        httpx2.AsyncClient(headers=bearer, trust_env=False, timeout=60) as http,
        Client(streamable_http_client(f"{url}/mcp", http_client=http)) as client,
    ):

        async def call(tool: str, **arguments: Any) -> dict[str, Any]:
            answer = await client.call_tool(tool, arguments)
            assert not answer.is_error, answer
            found: dict[str, Any] = answer.structured_content or {}
            return found

        made = [
            await call("schedule_task", title=f"{tenant} task {number}", when="in 2 hours")
            for number in range(TASKS_EACH)
        ]
        await call("cancel_task", task_id=made[0]["id"], reason="not needed")
        listed = await call("list_tasks", limit=100)
        return {row["title"] for row in listed["tasks"]}


def log_in(page: Page, url: str, key: str) -> None:
    page.goto(f"{url}/admin")
    page.get_by_label("API key").fill(key)
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()


def test_two_agents_and_an_admin_work_at_once_and_each_sees_what_is_theirs(
    installation: Installation, browser: Browser
) -> None:
    url = installation.url
    keys = {tenant: installation.key(tenant) for tenant in TENANTS}
    operator, reader = installation.key("local", "admin"), installation.key("acme", "admin:read")
    page = browser.new_page()
    log_in(page, url, operator)
    page.goto(f"{url}/admin/runs?state=to_come")

    with ThreadPoolExecutor(len(TENANTS)) as threads:
        work = {tenant: threads.submit(asyncio.run, agent(url, keys[tenant], tenant)) for tenant in TENANTS}
        expect(page.locator("tbody tr[data-row]").first).to_be_visible()  # by itself, while they schedule
        seen = {tenant: future.result(timeout=60) for tenant, future in work.items()}

    assert seen == {tenant: {f"{tenant} task {number}" for number in range(TASKS_EACH)} for tenant in TENANTS}
    expect(page.locator("tbody tr[data-row]")).to_have_count(len(TENANTS) * (TASKS_EACH - 1))
    page.goto(f"{url}/admin/runs?state=cancelled&tenant=globex")
    expect(page.locator("tbody tr[data-row]")).to_have_count(1)
    page.context.clear_cookies()
    log_in(page, url, reader)
    page.goto(f"{url}/admin/runs?state=to_come&tenant=globex")  # an administrator of acme chooses in vain
    expect(page.locator("tbody tr[data-row]")).to_have_count(TASKS_EACH - 1)
    expect(page.locator("body")).not_to_contain_text(re.compile("globex task"))
    page.context.close()
    chains = json.loads(command(installation.environment, "audit", "verify", "--json"))["chains"]
    assert [chain["broken"] for chain in chains] == [None] * len(chains)
