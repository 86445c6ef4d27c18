"""`duetime serve`, `duetime` alone and the verbs next to them, as processes of their own on one file."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from duetime.scheduler.principal import LOCAL
from duetime.scheduler.store import open_store
from duetime.scheduler.task import State

from tests import forked
from tests.builders import some

DUETIME = [sys.executable, "-m", "duetime"]
PATIENCE_S = 120
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}


@pytest.fixture
def surroundings(tmp_path: Path) -> dict[str, str]:
    """Return an environment with a home and a database of the test's own."""
    kept = {name: value for name, value in os.environ.items() if not name.upper().startswith(("DUETIME_", "XDG_"))}
    ours = {"DATABASE_URL": f"sqlite:///{tmp_path}/duetime.db", "TIMEZONE": "UTC", "DESKTOP_NOTIFICATIONS": "off"}
    return {**kept, "HOME": str(tmp_path), **{f"DUETIME_{name}": value for name, value in ours.items()}}


def call(surroundings: Mapping[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a verb in the home of the test, where modules are found as well."""
    return forked.run([*DUETIME, *arguments], env=dict(surroundings), cwd=surroundings["HOME"], timeout=PATIENCE_S)


def answer(surroundings: Mapping[str, str], *arguments: str) -> Any:
    done = call(surroundings, *arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def wait_until(true: Callable[[], bool], description: str) -> None:
    end = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < end, f"waited in vain until {description}"
        time.sleep(0.05)


@contextmanager
def serving(surroundings: Mapping[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run `duetime serve` until the end of the block, from the moment at which it runs tasks."""
    with log.open("wb") as errors:
        process = forked.popen([*DUETIME, "serve", "--port", "0"], env=dict(surroundings), stderr=errors)
    try:
        said = ("serves MCP at", "is now the runner")
        wait_until(lambda: all(words in log.read_text("utf-8") for words in said), "it serves and runs tasks")
        yield process
    finally:
        process.kill()
        process.wait(PATIENCE_S)


def test_a_task_scheduled_on_the_command_line_is_run_by_the_process_that_serves(
    surroundings: dict[str, str], tmp_path: Path
) -> None:
    with serving(surroundings, tmp_path / "log") as process:
        task = answer(surroundings, "schedule", "Call John", "--when", "in 1 second")
        with closing(open_store(surroundings["DUETIME_DATABASE_URL"])) as store:
            wait_until(
                lambda: store.tasks.get(LOCAL.tenant, task["id"]).run.state is State.SUCCEEDED, "the reminder fired"
            )
        assert answer(surroundings, "show", task["id"])["state"] == "succeeded"
        checks = {check["name"]: check for check in answer(surroundings, "doctor")["checks"]}
        assert checks["runner"]["said"].startswith(f"process {process.pid} has been running tasks")
        history = answer(surroundings, "history", task["id"])
        assert [attempt["outcome"] for attempt in history["attempts"]] == ["done"]
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
    lines = [json.loads(line) for line in (tmp_path / "log").read_text("utf-8").splitlines()]
    assert any(line["message"].startswith("duetime serves MCP at http://127.0.0.1:") for line in lines)
    assert {line["process"] for line in lines} == {f"{socket.gethostname()[:60]}-{process.pid}"}


@pytest.mark.parametrize("verb", ["http", "stdio"])
def test_objects_that_a_server_has_loaded_are_left_out_of_collections_so_that_its_end_is_quick(
    surroundings: dict[str, str], verb: str
) -> None:
    program = (
        f"import gc; from duetime.server.transport import serve_{verb} as serve\n"
        "from duetime.server.settings import load_settings\n"
        f"serve.run_{verb} = lambda *_, ends, **__: ends.close() or gc.get_freeze_count()\n"
        f"assert serve.serve_{verb}(load_settings()) > 10_000"
    )
    environment = {**surroundings, "DUETIME_PORT": "0"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_person_is_told_the_address_in_a_bare_sentence_and_a_port_that_is_taken_in_another(
    surroundings: dict[str, str], tmp_path: Path
) -> None:
    with serving({**surroundings, "DUETIME_LOG_FORMAT": "text"}, tmp_path / "log"):
        lines = (tmp_path / "log").read_text("utf-8").splitlines()
        [told] = [line for line in lines if line.startswith("duetime serves MCP at http://127.0.0.1:")]
        taken = call(surroundings, "serve", "--port", told.split("http://127.0.0.1:")[1].split("/")[0])
    assert taken.returncode == 2
    assert "is in use by another program" in taken.stderr
    assert "Traceback" not in taken.stderr


def test_without_a_verb_it_speaks_nothing_but_the_protocol_until_its_input_ends(surroundings: dict[str, str]) -> None:
    done = subprocess.run(
        DUETIME,
        env=surroundings,
        input=f"{json.dumps(HELLO)}\n",
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    assert json.loads(line)["result"]["serverInfo"]["name"] == "duetime"


SHOUT = """
import subprocess, sys
from duetime import Done, handler

print("printed at import")

@handler("shout")
def shout(ctx):
    print("shouted", "twice", end="")
    sys.stdout.flush()
    sys.__stdout__.write("around the capture\\n")
    subprocess.run([sys.executable, "-c", "print('by a child')"], check=True)
    return Done()
"""


def test_output_of_a_handler_over_stdio_is_a_line_of_the_log_and_never_of_the_protocol(
    surroundings: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "shop.py").write_text(SHOUT)
    settings = {"PYTHONPATH": str(tmp_path), "DUETIME_HANDLERS": "shop"}
    task = answer({**surroundings, **settings}, "schedule", "Now", "--when", "now", "--action", "shout")
    log = tmp_path / "log"
    with (
        log.open("wb") as errors,
        subprocess.Popen(
            DUETIME, env={**surroundings, **settings}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors
        ) as process,
    ):
        listing = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "list_tasks", "arguments": {}}}
        ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        assert process.stdin is not None
        process.stdin.write("".join(f"{json.dumps(each)}\n" for each in (HELLO, ready, listing)).encode())
        process.stdin.flush()
        wait_until(lambda: '"shouted twice"' in log.read_text("utf-8"), "it ran")
        out, _ = process.communicate(timeout=PATIENCE_S)
    assert all(json.loads(line)["jsonrpc"] == "2.0" for line in some(out.splitlines()))
    told = [json.loads(line) for line in log.read_text("utf-8").splitlines() if "shouted twice" in line]
    assert [(line["task"], line["action"], line["attempt"]) for line in told] == [(task["id"], "shout", 1)]


def test_a_wrong_setting_ends_the_server_for_a_chat_client_before_it_says_anything(
    surroundings: dict[str, str],
) -> None:
    done = call({**surroundings, "DUETIME_PORTT": "1"})
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("duetime: DUETIME_PORTT in the environment: there is no such setting")


def test_the_shell_completes_verbs_and_options(surroundings: dict[str, str]) -> None:
    asked = {**surroundings, "_DUETIME_COMPLETE": "complete_bash"}
    verbs = call({**asked, "COMP_WORDS": "duetime re", "COMP_CWORD": "1"})
    options = call({**asked, "COMP_WORDS": "duetime cancel --re", "COMP_CWORD": "2"})
    assert (verbs.stdout.split(), options.stdout.split()) == (
        ["reschedule", "reject", "report", "retention"],
        ["--reason", "--revision"],
    )
