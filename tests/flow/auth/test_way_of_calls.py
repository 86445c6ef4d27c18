"""The history says by which way a change was made: the surface, and the address or the user of the machine."""

from __future__ import annotations

import json
import os
import pwd
from collections.abc import Sequence
from pathlib import Path

import httpx2
import pytest
from duetime import EventFilter, Principal, Scheduler
from duetime.scheduler.errors import InvalidSetting
from duetime.scheduler.events import Event
from duetime.scheduler.principal import LOCAL, Scope
from duetime.server.app import App, build
from duetime.server.auth.access import requires
from duetime.server.cli.main import run
from duetime.server.settings.model import Settings
from duetime.server.settings.source import load_settings
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from tests.flow.auth.conftest import Site, serving

TASK = {"title": "Call John", "when": "in 2 hours"}


def ways(events: Sequence[Event]) -> list[tuple[str, str | None]]:
    return [(event.actor, event.via) for event in events]


def history(app: App, by: Principal = LOCAL) -> list[tuple[str, str | None]]:
    return ways(app.scheduler.past.events(EventFilter(), by=by).events)


@pytest.mark.anyio
async def test_a_call_over_mcp_is_told_with_its_address(tmp_path: Path) -> None:
    async with serving(tmp_path, auth="keys") as site:
        await site.call(site.key("acme", "ann"), "schedule_task", **TASK)
        assert history(site.app, Principal("acme", "ann")) == [("ann", "mcp 127.0.0.1")]


@pytest.mark.anyio
async def test_so_is_a_call_of_the_local_user(tmp_path: Path) -> None:
    async with serving(tmp_path) as site:
        await site.call(None, "schedule_task", **TASK)
        assert history(site.app) == [("local", "mcp 127.0.0.1")]


async def told_of(site: Site, forwarded: str) -> list[tuple[str, str | None]]:
    site.http.headers["X-Forwarded-For"] = forwarded
    await site.call(site.key("acme", "ann"), "schedule_task", **TASK)
    return history(site.app, Principal("acme", "ann"))


@pytest.mark.anyio
async def test_nobody_names_another_address_than_his_own(tmp_path: Path) -> None:
    async with serving(tmp_path, auth="keys") as site:
        assert await told_of(site, "203.0.113.9") == [("ann", "mcp 127.0.0.1")]


@pytest.mark.anyio
async def test_a_trusted_proxy_names_the_address_that_called_it(tmp_path: Path) -> None:
    async with serving(tmp_path, auth="keys", trusted_proxies="127.0.0.0/8") as site:
        assert await told_of(site, "6.6.6.6, 203.0.113.9") == [("ann", "mcp 203.0.113.9")]


@pytest.mark.anyio
async def test_a_proxy_names_the_caller_of_a_route_too(tmp_path: Path) -> None:
    who = requires(Scope.TASKS, "rest")

    async def answer(request: Request) -> Response:
        return PlainTextResponse(who(request).via or "")

    async with serving(tmp_path, trusted_proxies="127.0.0.1", routes=[Route("/way", answer)]) as site:
        found: httpx2.Response = await site.http.get("/way", headers={"X-Forwarded-For": "203.0.113.9"})
        assert found.text == "rest 203.0.113.9"


@pytest.mark.parametrize("wrong", ["proxy.example.com", "10.0.0.0/99", "*"])
def test_a_proxy_is_named_by_its_address(wrong: str) -> None:
    with pytest.raises(InvalidSetting, match="IP address or a network"):
        load_settings(trusted_proxies=wrong)


def test_a_program_is_told_as_python_unless_its_principal_says_more(tmp_path: Path) -> None:
    settings = Settings(database_url=f"sqlite:///{tmp_path}/duetime.db", timezone="UTC", desktop_notifications="off")
    with Scheduler.open(settings, run=False) as scheduler:
        task = scheduler.schedule("Call John", when="in 2 hours").record.task
        scheduler.cancel(task.id, by=Principal(via="batch 7"))
        page = scheduler.history(EventFilter())
    assert ways(page.events) == [("local", "batch 7"), ("local", "python")]


def test_a_process_over_stdio_says_so(tmp_path: Path) -> None:
    settings = Settings(database_url=f"sqlite:///{tmp_path}/duetime.db", timezone="UTC", desktop_notifications="off")
    with build(settings, via="stdio") as app:
        app.scheduler.schedule("Call John", when="in 2 hours")
        assert history(app) == [("local", "stdio")]


def test_a_verb_is_told_with_the_user_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DUETIME_DATABASE_URL", f"sqlite:///{tmp_path}/duetime.db")
    monkeypatch.setenv("USER", "somebody else")
    assert run(["schedule", "Call John", "--when", "in 2 hours"]) == 0
    capsys.readouterr()
    assert run(["history", "--json"]) == 0
    [event] = json.loads(capsys.readouterr().out)["events"]
    assert (event["actor"], event["via"]) == ("local", f"cli {pwd.getpwuid(os.getuid()).pw_name}")
    assert run(["history"]) == 0
    assert f"local (cli {pwd.getpwuid(os.getuid()).pw_name})" in " ".join(capsys.readouterr().out.split())
