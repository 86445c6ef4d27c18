"""A blocked task is shown over REST, as a resource of MCP and on the command line, with a sentence for a voice."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import anyio
import pytest
from duetime.scheduler.rules.states import BLOCKED_PREFIX
from duetime.server.cli.main import run

from tests.builders import a_task
from tests.flow.auth.conftest import Site
from tests.flow.rest.conftest import sent

pytestmark = pytest.mark.anyio

SAID = (
    "Call John is blocked, and continues once its requirements are met."
    " It says, secret crm, there is none of this name."
)


def blocked(site: Site) -> str:
    """Store a task of the local user that misses a secret; return its id."""
    task, due = a_task(site.app.store.now() + timedelta(hours=2), tenant="local", owner="local", action="webhook")
    missing = replace(due, summary=f"{BLOCKED_PREFIX}secret 'crm': there is none of this name")
    return site.app.store.tasks.add(task, missing, actor="local").record.task.id


async def test_a_blocked_task_is_shown_and_said_on_each_surface(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    task_id = blocked(site)
    over_rest = (await sent(site, "GET", f"/tasks/{task_id}")).json()
    resource = (await site.modern(None, "resources/read", uri=f"duetime://tasks/{task_id}")).json()["result"]
    for name in [name for name in os.environ if name.upper().startswith("DUETIME_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("DUETIME_DATABASE_URL", f"sqlite:///{tmp_path}/duetime.db")
    assert await anyio.to_thread.run_sync(run, ["show", task_id, "--json"]) == 0, capsys.readouterr().err
    shown = json.loads(capsys.readouterr().out)
    for task in (over_rest, json.loads(resource["contents"][0]["text"]), shown):
        assert (task["blocked"], task["speech"]) == (True, SAID)
        assert "there is none of this name" in task["waiting_for"][0]
