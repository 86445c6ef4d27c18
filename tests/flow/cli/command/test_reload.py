"""`duetime serve --reload` as a real process: new code runs, the session stays, and broken code changes nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

PATIENCE_S = 120
STAMP = """
from duetime import Done, Yielded, handler
import wording

@handler("stamp")
def stamp(ctx):
    return Done(wording.WORD)

@handler("slow")
def slow(ctx):
    {slow}
    return Done(wording.WORD)
"""
UNTIL_ASKED = """
    import time
    while not ctx.should_yield():
        time.sleep(0.01)
    return Yielded()
"""


def wait_until(true: Callable[[], bool], description: str) -> None:
    end = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < end, f"waited in vain until {description}"
        time.sleep(0.05)


class Served:
    """The process, its log, and one session with it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "log"
        kept = {name: value for name, value in os.environ.items() if not name.upper().startswith(("DUETIME_", "XDG_"))}
        ours = {"DATABASE_URL": f"sqlite:///{folder}/duetime.db", "TIMEZONE": "UTC", "DESKTOP_NOTIFICATIONS": "off"}
        settings = {f"DUETIME_{name}": value for name, value in (ours | {"HANDLERS": "shop"}).items()}
        self.environment = {**kept, **settings, "HOME": str(folder), "PYTHONPATH": str(folder)}
        command = [sys.executable, "-m", "duetime", "serve", "--port", "0", "--reload"]
        with self.log.open("wb") as errors:
            self.process = subprocess.Popen(command, env=self.environment, stderr=errors)
        self.says("is now the runner")
        self.says("serves MCP at")
        self.url = next(word for word in self.told.split('"') if "serves MCP at" in word).split()[-1]
        self.session: dict[str, str] = {}
        client = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
        self.ask("initialize", **client)

    @property
    def told(self) -> str:
        return self.log.read_text("utf-8")

    def says(self, words: str, times: int = 1) -> None:
        wait_until(lambda: self.told.count(words) >= times or self.process.poll() is not None, f"it says {words}")
        assert self.process.poll() is None, self.told

    def write(self, name: str, text: str) -> None:
        (self.folder / f"{name}.py").write_text(text)

    @contextmanager
    def standing_still(self) -> Iterator[None]:
        self.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def ask(self, method: str, **params: Any) -> Any:
        """Make a request in the one session that there is."""
        headers = {"accept": "application/json, text/event-stream", **self.session}
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        answer = httpx2.post(self.url, json=message, headers=headers, timeout=PATIENCE_S)
        assert answer.status_code == 200, answer.text
        self.session |= {key: value for key, value in answer.headers.items() if key == "mcp-session-id"}
        return answer.json()["result"]

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        result = self.ask("tools/call", name=tool, arguments=arguments)
        assert not result.get("isError"), result
        return dict(result["structuredContent"])

    def schedule(self, action: str) -> str:
        return str(self.call("schedule_task", title=f"{action} {time.time()}", action=action)["id"])

    def ends_with(self, task_id: str, summary: str) -> None:
        wait_until(lambda: self.call("get_task", task_id=task_id)["state"] == "succeeded", f"{task_id} succeeded")
        assert self.call("get_task", task_id=task_id)["last_run"]["summary"] == summary


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    (tmp_path / "wording.py").write_text('WORD = "one"\n')
    (tmp_path / "shop.py").write_text(STAMP.format(slow=UNTIL_ASKED))
    made = Served(tmp_path)
    yield made
    made.process.kill()
    made.process.wait(PATIENCE_S)


def test_changed_handlers_are_reloaded_and_broken_ones_leave_the_last_good_ones(served: Served) -> None:
    served.ends_with(served.schedule("stamp"), "one")
    running = served.schedule("slow")
    wait_until(lambda: served.call("get_task", task_id=running)["state"] == "running", "it runs")

    with served.standing_still():  # it sees both files changed, or neither
        served.write("wording", 'WORD = "number two"\n')
        served.write("shop", STAMP.format(slow="pass") + '\n@handler("added")\ndef added(ctx):\n    return Done()\n')
    served.says("reloaded, the actions are reminder, webhook, watch, stamp, slow, added")
    assert "shop.py, wording.py changed" in served.told
    served.ends_with(running, "number two")
    served.ends_with(served.schedule("stamp"), "number two")
    offered = next(tool for tool in served.ask("tools/list")["tools"] if tool["name"] == "schedule_task")
    assert "added" in json.dumps(offered)

    served.write("wording", "WORD = \n")
    served.says("wording.py changed, and the handlers stay as they were")
    assert "SyntaxError" in served.told
    served.ends_with(served.schedule("stamp"), "number two")

    served.write("wording", 'WORD = "the third one"\n')
    served.says(": reloaded, ", times=2)
    served.ends_with(served.schedule("stamp"), "the third one")

    served.process.send_signal(signal.SIGTERM)
    assert served.process.wait(PATIENCE_S) == 0
    assert "defect" not in served.told


def test_without_handlers_there_is_nothing_to_reload(tmp_path: Path) -> None:
    environment = {**os.environ, "HOME": str(tmp_path), "DUETIME_DATABASE_URL": f"sqlite:///{tmp_path}/duetime.db"}
    environment.pop("DUETIME_HANDLERS", None)
    command = [sys.executable, "-m", "duetime", "serve", "--port", "0", "--reload"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert done.returncode == 2
    assert done.stderr.startswith("duetime: handlers: --reload looks at the files of your own handlers")
