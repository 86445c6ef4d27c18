"""The start of `duetime` over stdio: its first answer waits neither for the store nor for what runs tasks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest

PATIENCE_S = 120
LOADED_LATER = {
    *("alembic", "apprise", "dramatiq", "fastapi", "httpcore2", "jwt", "psycopg", "redis", "rich", "sqlalchemy"),
    "prometheus_client",
    "standardwebhooks",
    *("tomllib", "typer"),
}
OURS_LOADED_LATER = {
    *("duetime.server.auth.guard", "duetime.server.auth.oauth"),
    *("duetime.server.telemetry.otel_traces", "opentelemetry.sdk", "opentelemetry.exporter"),
    "duetime.scheduler.handlers.messages",
    "duetime.server.rest.api",
    "duetime.widgets.payload",
    "duetime.widgets.schema",
    "duetime.widgets.text",
}
PROGRAM = """
import sys
from duetime.server.cli.main import run
from duetime.server.transport.stdio_wire import Outgoing

put = Outgoing.put

def put_and_report(self, message):
    put(self, message)
    print("loaded", *sys.modules, file=sys.stderr)

Outgoing.put = put_and_report
sys.exit(run([]))
"""
MODERN = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
}
INITIALIZE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Return an environment with a home and a database of the test's own."""
    kept = {name: value for name, value in os.environ.items() if not name.upper().startswith(("DUETIME_", "XDG_"))}
    url = f"sqlite:///{tmp_path}/duetime.db"
    return {**kept, "HOME": str(tmp_path), "DUETIME_DATABASE_URL": url, "DUETIME_TIMEZONE": "UTC"}


def asked(environment: dict[str, str], method: str, params: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """Return the answer to the only request of a client, and what the process wrote to stderr."""
    request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    command = [sys.executable, "-c", PROGRAM]
    with subprocess.Popen(command, env=environment, stdin=PIPE, stdout=PIPE, stderr=PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{json.dumps(request)}\n")
        process.stdin.flush()
        line = process.stdout.readline()
        rest, errors = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, rest) == (0, ""), errors
    return json.loads(line), errors


@pytest.mark.parametrize(
    ("method", "params"),
    [("initialize", INITIALIZE), ("server/discover", {"_meta": MODERN}), ("tools/list", {"_meta": MODERN})],
)
def test_the_first_answer_loads_and_opens_nothing_that_only_tasks_need(
    environment: dict[str, str], tmp_path: Path, method: str, params: dict[str, Any]
) -> None:
    answer, errors = asked(environment, method, params)
    assert "result" in answer, answer
    (loaded,) = (line.split()[1:] for line in errors.splitlines() if line.startswith("loaded "))
    assert "mcp" in loaded
    assert {name.partition(".")[0] for name in loaded} & LOADED_LATER == set()
    assert set(loaded) & OURS_LOADED_LATER == set()
    assert not (tmp_path / "duetime.db").exists()


def test_a_store_that_cannot_be_opened_is_said_by_each_call_and_ends_nothing(
    environment: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "duetime.db").write_text("this is no database, but it is long enough to have a header" * 10, "utf-8")
    call = {"_meta": MODERN, "name": "list_tasks", "arguments": {}}
    answer, _ = asked(environment, "tools/call", call)
    assert answer["result"]["isError"] is True
    assert "is not an SQLite database" in answer["result"]["content"][0]["text"]
