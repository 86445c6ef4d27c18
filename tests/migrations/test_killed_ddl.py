"""`duetime migrate` is killed between two statements: doctor says where the schema stands, and the next one ends it.

A migration that makes two tables and six indexes is killed at its beginning, twice in between, and at its end.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from duetime.scheduler.store import open_store
from duetime.scheduler.store.migrations import run as running
from duetime.scheduler.store.migrations import upgrade
from duetime.scheduler.store.schema.base import Base
from duetime.scheduler.store.store import connect
from duetime.server.cli import main as cli

from tests import forked
from tests.builders import TENANT
from tests.flow.cli.environment import isolate
from tests.migrations.test_store_migrations import as_it_was, described

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the script forks a process for each kill")

BEFORE = "0038"
STATEMENTS = (
    "CREATE TABLE signals",
    "CREATE INDEX signals_by_age",
    "CREATE TABLE signal_waits",
    "CREATE INDEX signal_waits_until",
)
INDEX_BUILD = "DROP INDEX CONCURRENTLY"
"""Goes before the build of each index of a table that holds rows, which follows the upgrade on PostgreSQL."""

KILLED = """
import contextlib, io, json, os, signal, sys
import alembic.command, duetime.scheduler.store, duetime.server.cli.verbs, duetime.server.doctor.examine  # once for all
from duetime.server.cli import main as cli
from sqlalchemy import event
from sqlalchemy.engine import Engine

def in_child(work):
    child = os.fork()
    if child == 0:
        work()
        os._exit(3)
    return os.waitpid(child, 0)[1]

def killed_after(beginning):
    @event.listens_for(Engine, "after_cursor_execute")
    def look(connection, cursor, statement, parameters, context, executemany):
        if " ".join(statement.split()).startswith(beginning):
            os.kill(os.getpid(), signal.SIGKILL)
    cli.run(["migrate"])

def examined():
    with contextlib.redirect_stdout(io.StringIO()) as written:
        cli.run(["doctor", "--json"])
    print(json.dumps(json.loads(written.getvalue())["checks"]), flush=True)

for beginning in sys.argv[1:]:
    status = in_child(lambda: killed_after(beginning))
    assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL, (beginning, status)
    in_child(examined)
"""


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def url(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return a database of before the migration, with a task, which the settings name."""
    isolate(monkeypatch, tmp_path)
    found = f"sqlite:///{tmp_path}/duetime.db" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    monkeypatch.setenv("DUETIME_DATABASE_URL", found)
    as_it_was(found)
    database = connect(found)
    database.migrate(lambda connection: running.run(connection, BEFORE))
    database.close()
    return str(found)


def checks_after_kills(*beginnings: str) -> list[dict[str, Any]]:
    """Kill `duetime migrate` after each statement that begins so, and return what doctor finds after each kill."""
    done = forked.run([sys.executable, "-c", KILLED, *beginnings], timeout=200)
    done.check_returncode()
    return [{check["name"]: check for check in json.loads(line)} for line in done.stdout.splitlines()]


def schema_of(url: str) -> dict[str, Any]:
    """Return what the database says of its schema, without the name of one key that Alembic gave."""
    database = connect(url)
    found = database.read(described)
    database.close()
    return {name: value for name, value in found.items() if not name.startswith("duetime_version_pk")}


def made_anew(url: str) -> dict[str, Any]:
    """Return the schema of a new database in the place of this one."""
    database = connect(url)
    database.write(Base.metadata.drop_all)
    database.write(upgrade.version.drop)
    upgrade.upgrade(database)
    database.close()
    return schema_of(url)


def test_a_migration_that_is_killed_after_any_of_its_statements_is_made_whole_by_the_next(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    left = schema_of(url)
    found = checks_after_kills(*STATEMENTS)
    assert len(found) == len(STATEMENTS)
    for checks in found:
        assert checks["database"]["verdict"] == "wrong"
        assert f"schema is {BEFORE}" in checks["database"]["said"]
        assert "Run `duetime migrate`" in checks["database"]["said"]
    assert schema_of(url) == left

    assert cli.run(["migrate"]) == 0
    assert f"from schema {BEFORE} to {upgrade.HEAD_VERSION}" in capsys.readouterr().out
    cli.run(["doctor", "--json"])
    checks = {check["name"]: check["verdict"] for check in json.loads(capsys.readouterr().out)["checks"]}
    assert (checks["database"], checks.get("indexes", "ok"), checks["rows"]) == ("ok", "ok", "ok")
    store = open_store(url, migrate=False)
    assert store.tasks.get(TENANT, "t_old").task.title == "Call John"
    store.close()
    assert schema_of(url) == made_anew(url)


@pytest.mark.parametrize("url", [pytest.param("postgres", marks=pytest.mark.postgres)], indirect=True)
def test_indexes_whose_build_is_killed_are_named_and_built_by_the_next(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    [checks] = checks_after_kills(INDEX_BUILD)
    assert checks["database"]["verdict"] == "ok"
    assert checks["indexes"]["verdict"] == "note"
    assert "duetime migrate" in checks["indexes"]["advice"]

    assert cli.run(["migrate"]) == 0
    assert "Built the indexes" in capsys.readouterr().out
    assert schema_of(url) == made_anew(url)
