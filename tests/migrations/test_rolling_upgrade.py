"""Upgrades while others work: killed at any step nothing has happened, and old code goes on with a schema it knows."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from duetime.scheduler.errors import SchemaTooNew
from duetime.scheduler.run_records import Start
from duetime.scheduler.store import migrate_store, open_store
from duetime.scheduler.store.database import postgres
from duetime.scheduler.store.migrations import absent_indexes, table_locks, upgrade
from duetime.scheduler.store.migrations import run as running
from duetime.scheduler.store.migrations.table_locks import Blocker
from duetime.scheduler.store.store import connect
from duetime.scheduler.task import State
from duetime.server.cli import main as cli
from duetime.server.cli.installation import show_waiting
from duetime.server.doctor.check import CheckVerdict
from duetime.server.doctor.database import indexes_check
from sqlalchemy import Connection, Engine, event, update

from tests import forked
from tests.builders import LEASE, TENANT, added, settlement
from tests.flow.cli.environment import isolate
from tests.migrations.old_code import SCHEMA_14, unpack
from tests.migrations.test_store_migrations import as_it_was

KILLED_AT_STEPS = """
import os, signal, sys
from sqlalchemy import event
from duetime.scheduler.store.store import migrate_store
from duetime.scheduler.store.migrations import run, upgrade
import alembic.command

def killed_at(step, url):
    from sqlalchemy.engine import Engine
    @event.listens_for(Engine, "after_cursor_execute")
    def look(connection, cursor, statement, parameters, context, executemany):
        if statement.startswith("UPDATE duetime_version") and step in statement + str(parameters):
            os.kill(os.getpid(), signal.SIGKILL)
    migrate_store(url)
    os._exit(3)

url, *steps = sys.argv[1:]
for number in map(int, steps):
    child = os.fork()
    if child == 0:
        killed_at(f"{number:04d}", url)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL, (number, status)
"""


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    found: str = f"sqlite:///{tmp_path}/duetime.db"
    return found if request.param == "sqlite" else request.getfixturevalue("postgres_url")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the script forks a process for each step")
def test_a_migration_that_is_killed_leaves_the_old_schema_and_the_next_one_upgrades(url: str) -> None:
    as_it_was(url)
    steps = ["2", str(int(upgrade.HEAD_VERSION) // 2), upgrade.HEAD_VERSION]
    forked.run([sys.executable, "-c", KILLED_AT_STEPS, url, *steps], timeout=200).check_returncode()
    database = connect(url)
    assert database.read(upgrade.revision) == "0001"
    database.close()
    assert migrate_store(url).now == upgrade.HEAD_VERSION
    store = open_store(url, migrate=False)
    assert store.tasks.get(TENANT, "t_old").task.title == "Call John"
    assert store.integrity.examine().findings == ()
    store.close()


def test_a_kill_at_any_step_of_a_migration_would_leave_the_old_schema(url: str) -> None:
    as_it_was(url)
    left: list[str] = []

    def look(connection: Connection, _cursor: object, statement: str, *_: object) -> None:
        if statement.startswith("UPDATE duetime_version"):
            left.append(what_a_kill_would_leave(connection, url))

    event.listen(Engine, "after_cursor_execute", look)
    try:
        migrate_store(url)
    finally:
        event.remove(Engine, "after_cursor_execute", look)
    assert left == [left[0]] * int(upgrade.HEAD_VERSION)  # the last says from which code on it can be used
    assert "sqlite" not in url or left[0] == "0001"


def what_a_kill_would_leave(connection: Connection, url: str) -> str:
    """Return the version in the files of SQLite as they are now; of PostgreSQL the transaction, all of which goes."""
    if connection.dialect.name == "postgresql":
        return str(connection.exec_driver_sql("SELECT pg_current_xact_id()").scalar())
    path = Path(url.removeprefix("sqlite:///"))
    with TemporaryDirectory() as folder:
        for each in path.parent.glob(f"{path.name}*"):
            shutil.copy(each, folder)
        with closing(sqlite3.connect(Path(folder, path.name))) as copy:
            return str(copy.execute("SELECT version_num FROM duetime_version").fetchone()[0])


@pytest.mark.parametrize(("oldest", "accepted"), [(upgrade.HEAD_VERSION, True), ("9999", False), (None, False)])
def test_a_newer_schema_is_accepted_where_it_says_that_this_code_may_use_it(
    url: str, oldest: str | None, accepted: bool
) -> None:
    open_store(url).close()
    database = connect(url)
    values = {"version_num": "9999", "compatible_from": oldest}
    database.write(lambda connection: connection.execute(update(upgrade.version).values(values)))
    database.close()
    for migrate in (True, False):
        if accepted:
            open_store(url, migrate=migrate).close()
        else:
            with pytest.raises(SchemaTooNew):
                open_store(url, migrate=migrate)


def test_of_a_newer_schema_that_it_may_use_older_code_says_which_one_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sqlite_url = f"sqlite:///{tmp_path}/duetime.db"
    isolate(monkeypatch, tmp_path)
    monkeypatch.setenv("DUETIME_DATABASE_URL", sqlite_url)
    open_store(sqlite_url).close()
    database = connect(sqlite_url)
    values = {"version_num": "9999", "compatible_from": upgrade.HEAD_VERSION}
    database.write(lambda connection: connection.execute(update(upgrade.version).values(values)))
    database.close()
    assert migrate_store(sqlite_url) == upgrade.Upgrade("9999", "9999")
    assert cli.run(["migrate"]) == 0
    usable = f"schema 9999, newer than this version ({upgrade.HEAD_VERSION}), which may use it"
    assert capsys.readouterr().out == (f"Nothing to do: the database has {usable}. {upgrade.NO_WAY_BACK}\n")
    cli.run(["doctor", "--json"])
    checks = {check["name"]: check for check in json.loads(capsys.readouterr().out)["checks"]}
    assert checks["database"]["verdict"] == "note"
    assert usable in checks["database"]["said"]
    assert "backup" in checks["database"]["advice"]


@pytest.mark.postgres
def test_older_code_builds_no_index_that_a_newer_schema_has_dropped(postgres_url: str) -> None:
    open_store(postgres_url).close()
    database = connect(postgres_url)
    values = {"version_num": "9999", "compatible_from": upgrade.HEAD_VERSION}
    database.write(lambda connection: connection.execute(update(upgrade.version).values(values)))
    database.write(lambda connection: connection.exec_driver_sql("DROP INDEX events_by_time"))
    database.close()
    assert migrate_store(postgres_url).indexes == ()
    with closing(open_store(postgres_url, migrate=False)) as store:
        assert store.schema.absent_indexes() == [], "the doctor does not advise to build it"


def test_an_upgrade_says_from_which_code_on_its_schema_can_be_used(url: str) -> None:
    as_it_was(url)
    migrate_store(url)
    database = connect(url)
    stored = database.read(lambda connection: connection.execute(upgrade.version.select()).one())
    database.close()
    assert tuple(stored) == (upgrade.HEAD_VERSION, upgrade.COMPATIBLE_FROM)


OLD_PROCESS = """
import sys, time
from datetime import UTC, datetime, timedelta
sys.path.insert(0, sys.argv[2])
import duetime.scheduler.store as package
assert package.__file__.startswith(sys.argv[2]), package.__file__
from duetime.scheduler.store import open_store
from duetime.scheduler.records import (Start, Verdict)
from tests.builders import added, settlement
store = open_store(sys.argv[1], migrate=False)
count = 0
print("open", flush=True)
for line in sys.stdin:
    for _ in range(20):
        now = store.now()
        record = added(store, now, created_at=now, updated_at=now)
        store.claims.make_ready(limit=100)
        lease = timedelta(seconds=60)
        [claim] = store.claims.start([Start(record.run.id)], worker="old", epoch=None, lease=lease)
        assert store.claims.settle([settlement(claim)]) == [Verdict.SETTLED]
        count += 1
    print(count, flush=True)
"""


@pytest.fixture(scope="session")
def old_code() -> Path:
    """Put the code of an older version together from the history, as a package next to its tests."""
    found = unpack(SCHEMA_14)
    if found is None:
        pytest.skip("the history of the repository is not here")
    return found


def old_process(url: str, code: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", OLD_PROCESS, url, str(code)]
    environment = {**os.environ, "PYTHONPATH": str(code)}
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, cwd=code
    )


def told(process: subprocess.Popen[str], line: str | None = None) -> str:
    assert process.stdin is not None
    assert process.stdout is not None
    if line is not None:
        process.stdin.write(f"{line}\n")
        process.stdin.flush()
    return process.stdout.readline().strip()


def test_old_code_goes_on_during_an_upgrade_and_after_it_and_nothing_is_lost(url: str, old_code: Path) -> None:
    database = connect(url)
    database.migrate(lambda connection: running.run(connection, "0014"))
    database.close()
    with old_process(url, old_code) as process:
        try:
            assert told(process) == "open"
            assert told(process, "go") == "20"
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
            assert migrate_store(url).now == upgrade.HEAD_VERSION  # while the old process writes
            assert told(process) == "40"
            store = open_store(url, migrate=False)
            record = added(store, store.now())
            store.claims.make_ready(limit=9)
            [claim] = store.claims.start([Start(record.run.id)], worker="new", epoch=None, lease=LEASE)
            store.claims.settle([settlement(claim)])
            assert told(process, "go") == "60"
            found = database_states(url)
            assert found == {State.SUCCEEDED.value: 61}
            assert store.integrity.examine().findings == ()
            store.close()
        finally:
            process.send_signal(signal.SIGKILL)


@pytest.mark.postgres
def test_no_transaction_that_an_upgrade_meets_is_the_victim_of_a_deadlock(postgres_url: str) -> None:
    """The upgrade alters `events` before `tasks`; this transaction uses them in the other order."""
    database = connect(postgres_url)
    database.migrate(lambda connection: running.run(connection, "0014"))
    with ThreadPoolExecutor(1) as beside, database.engine.connect() as old, database.engine.connect() as watch:
        old.exec_driver_sql("SET deadlock_timeout = '600ms'")  # it looks before the upgrade does, and would be ended
        old.exec_driver_sql("LOCK TABLE tasks IN ROW EXCLUSIVE MODE")
        upgraded = beside.submit(migrate_store, postgres_url)
        here = "database = (SELECT oid FROM pg_database WHERE datname = current_database())"
        waits = f"SELECT count(*) FROM pg_locks WHERE NOT granted AND {here}"
        while not watch.exec_driver_sql(waits).scalar() and not upgraded.done():
            watch.rollback()
        old.exec_driver_sql("LOCK TABLE events IN ROW EXCLUSIVE MODE")
        old.commit()
        assert upgraded.result(timeout=60).now == upgrade.HEAD_VERSION
    database.close()


@pytest.mark.postgres
def test_an_upgrade_that_waits_for_sessions_says_for_which(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    database = connect(postgres_url)
    database.migrate(lambda connection: running.run(connection, "0014"))
    monkeypatch.setattr(table_locks, "NOTICE_AFTER_S", 0.0)
    with database.engine.connect() as old:
        pid = old.exec_driver_sql("SELECT pg_backend_pid()").scalar()
        old.exec_driver_sql("LOCK TABLE tasks IN ROW EXCLUSIVE MODE")
        said: list[list[int]] = []

        def heard(blocker: Blocker, pids: list[int]) -> None:
            show_waiting(blocker, pids)
            said.append(pids)
            old.rollback()

        migrate_store(postgres_url, waiting=heard)
    database.close()
    assert said == [[pid]]
    written = capsys.readouterr().err
    assert written == f"Waiting for sessions that use its tables; PostgreSQL names the processes {pid}.\n"


@pytest.mark.postgres
def test_an_upgrade_that_waits_for_another_one_says_so_at_once_and_waits_as_long_as_it_takes(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The other one holds the table of the version too, as all tables, for longer than other locks are waited for."""
    monkeypatch.setattr(postgres, "BUSY_TIMEOUT_S", 1)
    database = connect(postgres_url)
    database.migrate(lambda connection: running.run(connection, "0014"))
    with ThreadPoolExecutor(1) as beside, database.engine.connect() as other:
        pid = other.exec_driver_sql("SELECT pg_backend_pid()").scalar()
        table_locks.hold_upgrades(other, table_locks.unnoticed)
        other.exec_driver_sql("LOCK TABLE duetime_version IN ACCESS EXCLUSIVE MODE")
        said: list[tuple[Blocker, list[int]]] = []

        def end_late() -> None:
            other.exec_driver_sql("SELECT pg_sleep(1.5)")
            other.rollback()

        def heard(blocker: Blocker, pids: list[int]) -> None:
            show_waiting(blocker, pids)
            said.append((blocker, pids))
            beside.submit(end_late)

        assert migrate_store(postgres_url, waiting=heard).now == upgrade.HEAD_VERSION
    database.close()
    assert said == [(Blocker.UPGRADE, [pid])]
    written = capsys.readouterr().err
    assert written == f"Waiting for another upgrade of this database; PostgreSQL names the processes {pid}.\n"


@pytest.mark.postgres
def test_indexes_of_tables_that_hold_rows_are_built_when_the_upgrade_is_over_while_others_write(
    postgres_url: str,
) -> None:
    as_it_was(postgres_url)
    said: list[str] = []
    event.listen(Engine, "before_cursor_execute", heard := lambda *args: said.append(args[2]))
    try:
        done = migrate_store(postgres_url)
    finally:
        event.remove(Engine, "before_cursor_execute", heard)
    over = max(number for number, each in enumerate(said) if each.startswith("UPDATE duetime_version"))
    locked = [each for each in said[:over] if each.startswith("CREATE INDEX") and " ON runs " in each]
    assert locked == []
    built = [each.split()[3] for each in said[over:] if each.startswith("CREATE INDEX CONCURRENTLY")]
    assert set(built) == set(done.indexes)
    assert {"runs_by_phase", "runs_blocked", "tasks_recurring"} <= set(built)
    database = connect(postgres_url)
    assert database.read(absent_indexes.absent) == []
    database.close()


@pytest.mark.postgres
def test_an_index_whose_build_was_interrupted_is_built_by_the_next_migrate(postgres_url: str) -> None:
    open_store(postgres_url).close()
    database = connect(postgres_url)
    unfinished = "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'runs_blocked'::regclass"
    database.write(lambda connection: connection.exec_driver_sql(unfinished))
    database.write(lambda connection: connection.exec_driver_sql("DROP INDEX runs_by_phase"))
    store = open_store(postgres_url, migrate=False)
    check = indexes_check(store)
    assert (check.verdict, check.finding) == (
        CheckVerdict.NOTE,
        "2 missing, so some lists take longer: runs_blocked, runs_by_phase.",
    )
    assert check.advice.startswith("Run `duetime migrate`")
    assert migrate_store(postgres_url).indexes == ("runs_blocked", "runs_by_phase")
    assert indexes_check(store).verdict is CheckVerdict.OK
    store.close()
    assert migrate_store(postgres_url).indexes == ()
    assert database.read(absent_indexes.absent) == []
    database.close()


@pytest.mark.postgres
def test_a_migrate_names_the_process_that_builds_indexes_and_builds_what_that_one_leaves(
    postgres_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    open_store(postgres_url).close()
    database = connect(postgres_url)
    database.write(lambda connection: connection.exec_driver_sql("DROP INDEX runs_by_phase"))
    with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as builder:
        pid = builder.exec_driver_sql("SELECT pg_backend_pid()").scalar()
        builder.exec_driver_sql(f"SELECT pg_advisory_lock({absent_indexes.BUILD_LOCK_ID})")
        said: list[tuple[Blocker, list[int]]] = []

        def heard(blocker: Blocker, pids: list[int]) -> None:
            show_waiting(blocker, pids)
            said.append((blocker, pids))
            builder.exec_driver_sql(f"SELECT pg_advisory_unlock({absent_indexes.BUILD_LOCK_ID})")

        assert migrate_store(postgres_url, waiting=heard).indexes == ("runs_by_phase",)
    database.close()
    assert said == [(Blocker.INDEXES, [pid])]
    written = capsys.readouterr().err
    assert written == f"Waiting for another process that builds indexes; PostgreSQL names the processes {pid}.\n"


def database_states(url: str) -> dict[str, int]:
    database = connect(url)
    statement = "SELECT state, count(*) FROM runs GROUP BY state"
    found = database.read(lambda it: {str(state): int(count) for state, count in it.exec_driver_sql(statement)})
    database.close()
    return found


def test_an_upgrade_logs_each_version_that_it_reaches(url: str) -> None:
    as_it_was(url)
    versions: list[str] = []
    migrate_store(url, versions.append)
    assert versions == [f"{number:04d}" for number in range(2, int(upgrade.HEAD_VERSION) + 1)]


def test_on_a_terminal_migrate_draws_how_far_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:///{tmp_path}/duetime.db"
    as_it_was(url)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert cli.run(["--database-url", url, "migrate"]) == 0
    drawn = capsys.readouterr().err.split("\r")
    assert drawn[-2] == f"Schema {upgrade.HEAD_VERSION} of {upgrade.HEAD_VERSION} [{'#' * 30}]"
