"""A command loads little: people wait for it each time, and most of the wait is imports."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

PATIENCE_S = 120
PROGRAM = """
import sys
from duetime.server.cli.main import run

for words in " ".join(sys.argv[1:]).split(" then "):
    if run(words.split()):
        sys.exit(f"{words} failed")
    print("loaded", *sys.modules, file=sys.stderr)
"""
"""Runs verbs with `then` between them, and says after each what was loaded by it and by those before it."""
ONLY_FOR_A_DATABASE = {"alembic", "dramatiq", "httpcore2", "httpx2", "mcp", "redis", "rich", "sqlalchemy"}


COLLECTIONS = """
import gc
import sys
from duetime.server.cli.main import main


def collections():
    return sum(generation["collections"] for generation in gc.get_stats())


before = collections()
try:
    main()
finally:
    from duetime.widgets.schema.task import TaskPayload

    print("loaded", collections() - before, TaskPayload.__pydantic_complete__, file=sys.stderr)
"""


def loaded_by(tmp_path: Path, *arguments: str) -> tuple[str, set[str]]:
    """Return what a command wrote to stdout, and the names of the modules and packages that it loaded."""
    said, modules = ran(tmp_path, PROGRAM, *arguments)
    return said, with_packages(modules)


def with_packages(modules: Sequence[str]) -> set[str]:
    return {*modules, *(name.partition(".")[0] for name in modules)}


def ran(tmp_path: Path, program: str, *arguments: str) -> tuple[str, list[str]]:
    """Return what a program wrote to stdout, and the words that it wrote to stderr after `loaded`."""
    said, (words,) = ran_all(tmp_path, program, *arguments)
    return said, words


def ran_all(tmp_path: Path, program: str, *arguments: str) -> tuple[str, list[list[str]]]:
    """Do the same for a program that says several times what was loaded."""
    kept = {name: value for name, value in os.environ.items() if not name.upper().startswith(("DUETIME_", "XDG_"))}
    url = f"sqlite:///{tmp_path}/duetime.db"
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env={**kept, "HOME": str(tmp_path), "DUETIME_DATABASE_URL": url, "DUETIME_TIMEZONE": "UTC"},
        capture_output=True,
        check=False,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, [line.split()[1:] for line in done.stderr.splitlines() if line.startswith("loaded ")]


@pytest.mark.parametrize("arguments", [("--help",), ("service", "--help"), ("pools", "--help")], ids=" ".join)
def test_help_loads_no_verb_and_nothing_that_a_verb_needs(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    said, modules = loaded_by(tmp_path, *arguments)
    assert "Commands:" in said
    assert modules & ONLY_FOR_A_DATABASE == set()
    assert "pydantic" not in modules or "service" in arguments or "pools" in arguments, "typer needs it for a group"
    loaded = {name.removeprefix("duetime.server.cli.") for name in modules if name.startswith("duetime.server.cli.")}
    tables = {name for name in loaded if name.endswith(".groups")}
    assert loaded - tables - {name.removesuffix(".groups") for name in tables} == {"help", "main", "verbs"}
    assert "duetime.server.settings" not in modules


LATER = {"alembic", "apprise", "dateparser", "dramatiq", "httpcore2", "httpx2", "mcp", "psycopg", "redis", "uvicorn"}
OURS_LATER = {
    "duetime.scheduler.nodes.engine",
    "duetime.scheduler.nodes.term",
    "duetime.scheduler.outbound.client",
    "duetime.scheduler.store.migrations.run",
    "duetime.scheduler.worker.worker",
    "duetime.server.protocol",
    "duetime.server.transport",
    "duetime.scheduler.store.postgres",
    "sqlalchemy.orm",
}


def test_a_verb_on_a_local_file_loads_no_worker_no_client_and_no_server(tmp_path: Path) -> None:
    said, modules = loaded_by(tmp_path, "schedule", "Call", "--when", "tomorrow", "--json")
    assert modules & (LATER | OURS_LATER) == set()
    task_id = json.loads(said)["id"]
    verbs = ["list", f"show {task_id}", "history", "inbox", f"explain {task_id}", "workers", "config"]
    verbs += [f"reschedule {task_id} --title Ann", f"cancel {task_id}", f"undo {task_id}"]
    _, loaded = ran_all(tmp_path, PROGRAM, " then ".join(verbs))
    for verb, modules_by_then in zip(verbs, loaded, strict=True):
        assert with_packages(modules_by_then) & (LATER | OURS_LATER) == set(), verb


def test_a_verb_collects_no_garbage_and_builds_no_schema_that_it_does_not_need(tmp_path: Path) -> None:
    _, (collections, _) = ran(tmp_path, COLLECTIONS, "schedule", "Call John", "--when", "tomorrow 9am")
    assert collections == "0"
    _, found = ran(tmp_path, COLLECTIONS, "list")
    assert found == ["0", "False"], "collections, and whether the model of a task was built"
