"""The calls in the README do what it says: the first on a fresh installation, the second with its handler and pools."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from duetime.scheduler.errors import InvalidArguments
from duetime.scheduler.principal import LOCAL
from duetime.scheduler.task import State
from duetime.server.app import App, build
from duetime.server.settings.source import load_settings
from duetime.tools.registration import StrictTool, make_tools
from mcp.types import CallToolResult

from tests.flow.waiting import eventually

README = (Path(__file__).resolve().parents[2] / "README.md").read_text("utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


FRESH_CALL, WORK_CALL = (json.loads(block) for block in blocks("json"))


def installed(folder: Path, config: str = "") -> App:
    """Return the application of a new installation with this `duetime.toml`."""
    file = folder / "duetime.toml"
    file.write_text(config, "utf-8")
    given = {"database_url": f"sqlite:///{folder / 'duetime.db'}", "desktop_notifications": "off", "timezone": "UTC"}
    return build(load_settings(file, **given))


def answered(app: App, call: dict[str, Any]) -> CallToolResult:
    tool = next(tool for tool in make_tools(lambda: app.scheduler) if tool.name == call["tool"])
    assert isinstance(tool, StrictTool)
    return tool.calls.execute(call["arguments"], LOCAL)


def test_the_first_call_works_on_a_fresh_installation(tmp_path: Path) -> None:
    with installed(tmp_path) as app:
        answer = answered(app, FRESH_CALL)
    assert not answer.is_error, answer.content


def test_the_second_call_needs_the_handler_and_the_pools_that_stand_above_it(tmp_path: Path) -> None:
    with installed(tmp_path) as app, pytest.raises(InvalidArguments, match=r"(?s)no action 'summarise'.*no pool 'gpu'"):
        answered(app, WORK_CALL)


def test_the_second_call_runs_with_the_handler_and_the_pools_that_stand_above_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (handlers,), (config,) = blocks("python"), blocks("toml")
    (tmp_path / "summaries.py").write_text(handlers, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    with installed(tmp_path, config) as app:
        answer = answered(app, WORK_CALL)
        assert not answer.is_error, answer.content
        assert answer.structured_content is not None
        task_id = answer.structured_content["id"]
        app.start()
        eventually(lambda: app.scheduler.get(task_id).record.run.state is State.SUCCEEDED, "the run to succeed")
