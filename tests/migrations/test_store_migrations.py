"""The schema: the migrations make what the models say, older databases are upgraded, newer ones refused."""

from __future__ import annotations

import re
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from duetime.scheduler.errors import InvalidSetting, SchemaTooNew, SchemaTooOld
from duetime.scheduler.run_records import Start, Verdict
from duetime.scheduler.store import migrate_store, open_store
from duetime.scheduler.store.deliveries.deliveries import IS_HELD
from duetime.scheduler.store.migrations import run as running
from duetime.scheduler.store.migrations import upgrade
from duetime.scheduler.store.schema.base import Base
from duetime.scheduler.store.schema.tables.approvals import approvals
from duetime.scheduler.store.schema.tables.chains import chains
from duetime.scheduler.store.schema.tables.deliveries import deliveries
from duetime.scheduler.store.schema.tables.events import events, keys
from duetime.scheduler.store.schema.tables.pools import server_keys
from duetime.scheduler.store.schema.tables.signals import signal_waits
from duetime.scheduler.store.schema.tables.tasks import runs
from duetime.scheduler.store.schema.values import to_microseconds
from duetime.scheduler.store.store import connect
from duetime.scheduler.task import ApprovalAnswer, DeadlineType, Penalty, State, Tier
from duetime.scheduler.views import TaskFilter
from duetime.scheduler.waits.signal import OnTimeout
from sqlalchemy import Connection, insert, inspect, select, text, update

from tests.builders import NOON, Clock, a_task, settlement

TO_COME = f"{int(upgrade.HEAD_VERSION) + 1:04d}"


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/duetime.db"


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def url(request: pytest.FixtureRequest, sqlite_url: str) -> str:
    found: str = sqlite_url if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    return found


def migrated(connection: Connection) -> None:
    running.run(connection, "head")


def described(connection: Connection) -> dict[str, Any]:
    """Return what the database itself says of its tables, constraints and indexes."""
    if connection.dialect.name == "sqlite":
        query = "SELECT type, name, sql FROM sqlite_master WHERE name NOT LIKE '%duetime_version%'"
        return {f"{row.type} {row.name}": parts_of(row.sql or "") for row in connection.execute(text(query))}
    columns = text(
        "SELECT table_name || '.' || column_name, (data_type, is_nullable, column_default)::text"
        " FROM information_schema.columns WHERE table_schema = 'public' AND table_name <> 'duetime_version'"
    )
    constraints = text(
        "SELECT conrelid::regclass || ' ' || conname, pg_get_constraintdef(oid) FROM pg_constraint"
        " WHERE connamespace = 'public'::regnamespace AND conrelid::regclass::text <> 'duetime_version'"
    )
    indexes = text("SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'")
    options = text("SELECT relname || ' options', reloptions FROM pg_class WHERE reloptions <> '{}' AND relkind = 'r'")
    queries = (columns, constraints, indexes, options)
    return {name: value for query in queries for name, value in connection.execute(query)}


def parts_of(sql: str) -> list[str]:
    """Return a statement's columns and constraints in any order: an added column stands behind the constraints."""
    depth, parts = 0, [""]
    for character in " ".join(sql.replace('"', "").split()):
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 1:
            parts.append("")
        else:
            parts[-1] += character
    head, _, parts[0] = parts[0].partition("(")
    parts[-1], _, tail = parts[-1].rpartition(")")
    return sorted(part.strip() for part in [head, *parts, tail])


def test_the_newest_migration_and_the_models_are_equal(url: str) -> None:
    database = connect(url)
    database.migrate(migrated)
    options = {"compare_type": True, "compare_server_default": True}
    differences = database.read(
        lambda connection: compare_metadata(MigrationContext.configure(connection, opts=options), Base.metadata)
    )
    database.close()
    apart = ("duetime_version", "_trigrams")  # made by hand, where the server has what they need
    assert [item for item in differences if not any(name in repr(item) for name in apart)] == []


def test_a_new_database_is_made_as_the_migrations_make_it(url: str) -> None:
    new = connect(url)
    assert upgrade.upgrade(new) == upgrade.Upgrade(None, upgrade.HEAD_VERSION)
    assert upgrade.upgrade(new) == upgrade.Upgrade(upgrade.HEAD_VERSION, upgrade.HEAD_VERSION)
    from_models = new.read(described)
    new.write(Base.metadata.drop_all)
    new.write(upgrade.version.drop)
    new.migrate(migrated)
    from_migrations = new.read(described)
    assert new.read(upgrade.revision) == upgrade.HEAD_VERSION
    new.close()
    from_models.pop("duetime_version_pkey", None)
    from_migrations.pop("duetime_version_pkc", None)
    assert from_migrations == from_models
    assert len(from_models) > 20


def test_the_head_in_the_code_is_the_newest_migration() -> None:
    database = connect("sqlite://")
    scripts = database.read(lambda connection: ScriptDirectory.from_config(running.configuration(connection)))
    database.close()
    assert scripts.get_current_head() == upgrade.HEAD_VERSION
    assert all(script.revision.isdigit() for script in scripts.walk_revisions())


def test_an_older_database_is_upgraded_after_a_copy_next_to_it(
    sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The migration of a release to come."""
    before = upgrade.HEAD_VERSION
    open_store(sqlite_url).close()
    folder = tmp_path / "migrations"
    copied_tree(folder)
    (folder / "versions" / f"{TO_COME}_more.py").write_text(
        f'revision, down_revision = "{TO_COME}", "{upgrade.HEAD_VERSION}"\nbranch_labels = depends_on = None\n'
        "def upgrade():\n    from alembic import op\n    op.execute('CREATE TABLE more (id INTEGER)')\n"
    )
    monkeypatch.setattr(running, "__file__", str(folder / "running.py"))
    monkeypatch.setattr(upgrade, "HEAD_VERSION", TO_COME)
    with pytest.raises(SchemaTooOld, match="duetime migrate"):
        open_store(sqlite_url, migrate=False)
    copy = f"{tmp_path}/duetime.db.schema-{before}"
    assert migrate_store(sqlite_url) == upgrade.Upgrade(before, TO_COME, copy)
    assert tables_of(copy) == tables_of(f"{tmp_path}/duetime.db") - {"more"}
    assert migrate_store(sqlite_url) == upgrade.Upgrade(TO_COME, TO_COME)
    open_store(sqlite_url, migrate=False).close()
    assert not list(tmp_path.glob("*.partial*"))


def test_rows_of_the_first_tables_are_kept_and_have_the_defaults_of_later_ones(url: str) -> None:
    as_it_was(url)
    migrate_store(url)
    store = open_store(url, migrate=False)
    task, run = (record := store.tasks.get("acme", "t_old")).task, record.run
    assert (task.title, task.payload, run.scheduled_for) == ("Call John", {"message": "Hi"}, NOON)
    assert (task.priority, task.deadline_type, task.penalty) == (Tier.NORMAL, DeadlineType.SOFT, Penalty.NONE)
    assert (task.needs, task.estimate, task.deadline, task.deadline_after) == ({}, None, None, None)
    assert (run.deadline, run.drop_at) == (None, None)
    store.close()


def test_runs_of_tasks_that_were_paused_before_leave_the_timers(url: str) -> None:
    as_it_was(url)
    database = connect(url)
    database.write(lambda connection: connection.exec_driver_sql("UPDATE tasks SET paused = NOT paused"))
    migrate_store(url)
    noted = "SELECT count(*) FROM runs WHERE paused"
    assert database.read(lambda connection: connection.exec_driver_sql(noted).scalar_one()) == 1
    database.close()


@pytest.mark.parametrize("old", [False, True])
def test_a_backup_has_the_keys_of_places_that_clients_keep_though_nobody_had_used_one(url: str, *, old: bool) -> None:
    if old:
        as_it_was(url)
    migrate_store(url)
    database = connect(url)
    names = database.read(lambda connection: connection.execute(select(server_keys.c.name)).scalars().all())
    database.close()
    assert sorted(names) == ["cursors", "hidden_numbers"]


OLD_KEY = """INSERT INTO idempotency_keys (tenant, key, task_id, fingerprint, expires_at, derived)
    VALUES ('acme', 'k', 't_old', '{}', NULL, {no})"""


def test_keys_of_before_are_looked_at_a_month_after_their_task_was_made(url: str) -> None:
    as_it_was(url)
    database = connect(url)
    no = "false" if url.startswith("postgres") else "0"
    database.write(lambda connection: connection.exec_driver_sql(OLD_KEY.replace("{no}", no)))
    migrate_store(url)
    found = database.read(lambda connection: connection.execute(select(keys.c.look_at)).scalar_one())
    assert found == NOON + timedelta(days=30)
    database.close()


OLD_TASK = """INSERT INTO tasks (id, tenant, owner, title, action, payload, timezone, "when", anchor, paused, retry,
    deliver_to, labels, revision, created_at, updated_at, title_folded) VALUES ('t_old', 'acme', 'alice', 'Call John',
    'reminder', '{"message":"Hi"}', 'UTC', 'noon', AT, NO, '{"max_attempts":5,"backoff":1,"max_backoff":60}', '[]',
    '[]', 1, AT, AT, 'call john')"""
OLD_RUN = """INSERT INTO runs (id, task_id, tenant, scheduled_for, state, generation, number, current, wake_at, attempt,
    failures, crashes, missed, cancel_requested, listed_at) VALUES ('r_old', 't_old', 'acme', AT, 'scheduled', 1, 1,
    YES, AT, 0, 0, 0, 0, NO, AT)"""


def test_open_tasks_of_before_are_found_as_twins(url: str) -> None:
    as_it_was(url)
    migrate_store(url)
    store = open_store(url)
    twin = store.tasks.add(*a_task(NOON, title="CALL John"), actor="alice").twin
    store.close()
    assert twin == "t_old"


def test_failed_attempts_of_before_have_no_traceback_and_later_ones_do(url: str) -> None:
    as_it_was(url)
    migrate_store(url)
    store = open_store(url, clock=Clock())
    store.claims.make_ready(limit=9)
    [claim] = store.claims.start([Start("r_old")], worker="w", epoch=None, lease=timedelta(seconds=30))
    failed = settlement(claim, State.RETRYING, wake_at=NOON, error="boom", traceback="Traceback")
    assert store.claims.settle([failed]) == [Verdict.SETTLED]
    [attempt] = store.history.attempts("acme", "t_old")
    store.close()
    assert attempt.traceback == "Traceback"


OLD_MESSAGE = """INSERT INTO inbox (id, tenant, "user", task_id, run_id, title, text, state, created_at)
    VALUES ('m_old', 'acme', 'alice', 't_old', 'r_old', 'Call John', 'called', 'succeeded', {at})"""
OLD_DELIVERIES = """INSERT INTO deliveries (id, tenant, task_id, run_id, channel, state, attempts, next_at) VALUES
    ('d_held', 'acme', 't_old', 'r_old', 'desktop', 'pending', 0, {held}),
    ('d_leased', 'acme', 't_old', 'r_old', 'phone', 'pending', 0, {leased}),
    ('d_tried', 'acme', 't_old', 'r_old', 'mail', 'pending', 2, {held})"""


def test_deliveries_that_quiet_hours_held_before_are_held(url: str) -> None:
    as_it_was(url)
    database, now = connect(url), datetime.now(UTC)
    times = {"at": now, "held": now + timedelta(hours=1), "leased": now + timedelta(seconds=50)}
    is_postgres = url.startswith("postgres")
    said = {name: f"'{at.isoformat()}'" if is_postgres else to_microseconds(at) for name, at in times.items()}
    database.write(lambda connection: connection.exec_driver_sql(OLD_MESSAGE.format(**said)))
    database.write(lambda connection: connection.exec_driver_sql(OLD_DELIVERIES.format(**said)))
    migrate_store(url)
    held = select(deliveries.c.id).where(IS_HELD)
    assert database.read(lambda connection: connection.execute(held).scalars().all()) == ["d_held"]
    database.close()


WAIT_ENDS = NOON + timedelta(hours=2)
LATE = {"r_asks": timedelta(days=1), "r_awaits": timedelta(days=1), "r_moved": timedelta(hours=3)}


def test_runs_that_waited_a_day_longer_before_are_due_when_their_waits_end(url: str) -> None:
    as_it_was(url)
    database = connect(url)
    database.migrate(lambda connection: running.run(connection, "0051"))
    none = dict.fromkeys(("failures", "crashes", "missed"), 0) | {"current": False, "cancel_requested": False}
    same = {"task_id": "t_old", "tenant": "acme"}
    question = {"attempt": 1, "default": ApprovalAnswer.REJECT, "asked_at": NOON, "ends_at": WAIT_ENDS}
    wait = {"name": "paid", "wanted": {}, "since": NOON, "until": WAIT_ENDS, "on_timeout": OnTimeout.RUN}

    def old(connection: Connection) -> None:
        for generation, (run_id, late) in enumerate(LATE.items(), start=2):
            due = WAIT_ENDS + late
            times = {"scheduled_for": NOON, "wake_at": due, "listed_at": due}
            run = {"id": run_id, "state": State.SUSPENDED, "generation": generation, "number": 1, "attempt": 1}
            connection.execute(insert(runs).values(**run, **same, **none, **times))
        for run_id in ("r_asks", "r_moved"):
            connection.execute(insert(approvals).values(run_id=run_id, **question))
        connection.execute(insert(signal_waits).values(waiter_id="r_awaits", at_once=False, **same, **wait))

    database.write(old)
    migrate_store(url)
    found = select(runs.c.id, runs.c.wake_at, runs.c.listed_at).where(runs.c.id.in_(list(LATE)))
    rows = database.read(lambda connection: connection.execute(found).all())
    database.close()
    moved = WAIT_ENDS + LATE["r_moved"]
    assert {row.id: row.wake_at for row in rows} == {"r_asks": WAIT_ENDS, "r_awaits": WAIT_ENDS, "r_moved": moved}
    assert all(row.listed_at == row.wake_at for row in rows)


def test_chains_of_before_have_counted_the_generations_that_were_not_left_out(url: str) -> None:
    as_it_was(url)
    database = connect(url)
    database.migrate(lambda connection: running.run(connection, "0052"))
    old = "INSERT INTO chains (id, tenant, owner, title, timezone, created_at, number) VALUES {}"
    at = "'2026-11-24 12:00+00'" if url.startswith("postgres") else str(to_microseconds(NOON))
    row = f"('c_old', 'acme', 'alice', 'Report', 'UTC', {at}, 7)"
    database.write(lambda connection: connection.exec_driver_sql(old.format(row)))
    migrate_store(url)
    count = select(chains.c.number, chains.c.generation)
    found = database.read(lambda connection: connection.execute(count).all())
    database.close()
    assert found == [(7, 7)]


OLD_FAILURES = """INSERT INTO runs (id, task_id, tenant, scheduled_for, state, generation, number, current, attempt,
    failures, crashes, missed, cancel_requested, listed_at, ended_at, started_at) VALUES
    ('r_early', 't_old', 'acme', {at[0]}, '{first}', 1, 1, {no}, 1, 1, 0, 0, {no}, {at[0]}, {at[0]}, {at[0]}),
    ('r_late', 't_old', 'acme', {at[1]}, '{last}', 1, 1, {no}, 1, 1, 0, 0, {no}, {at[1]}, {at[1]}, {at[1]}),
    ('r_skipped', 't_old', 'acme', {at[2]}, 'skipped', 1, 1, {no}, 0, 0, 0, 0, {no}, {at[2]}, {at[2]}, NULL)"""


@pytest.mark.parametrize(
    ("first", "last", "listed"), [("failed", "failed", 1), ("succeeded", "expired", 1), ("failed", "succeeded", 0)]
)
def test_tasks_whose_last_run_failed_before_are_found(url: str, first: str, last: str, listed: int) -> None:
    as_it_was(url)
    database = connect(url)
    on_postgres = url.startswith("postgres")
    times = [NOON - timedelta(hours=hours) for hours in (3, 2, 1)]
    at = [f"'{time.isoformat()}'" if on_postgres else str(to_microseconds(time)) for time in times]
    rows = OLD_FAILURES.format(at=at, first=first, last=last, no="false" if on_postgres else "0")
    database.write(lambda connection: connection.exec_driver_sql(rows))
    migrate_store(url)
    store = open_store(url)
    found, _ = store.tasks.page("acme", TaskFilter((State.FAILED, State.EXPIRED)), limit=9)
    store.close()
    database.close()
    assert [record.last_run.id for record in found if record.last_run] == ["r_late"] * listed


def test_constraints_of_before_are_gone_and_events_are_numbered_on(url: str) -> None:
    """SQLite copies the tables for that, with all that they hold."""
    as_it_was(url)
    database = connect(url)
    values = "('acme', 't_old', 'r_old', {n}, {at}, 'created', 'alice', NULL, 'scheduled')"
    at = "'2026-11-24 12:00+00'" if url.startswith("postgres") else str(to_microseconds(NOON))
    told = "INSERT INTO events (tenant, task_id, run_id, seq, at, kind, actor, from_state, to_state) VALUES "
    database.write(lambda it: it.exec_driver_sql(told + values.format(n=1, at=at)))
    migrate_store(url)
    store = open_store(url, migrate=False)
    assert store.integrity.examine().findings == ()
    stranger = values.format(n=2, at=at).replace("t_old", "t_gone").replace("NULL, 'scheduled'", "'failed', 'ready'")
    database.write(lambda it: it.exec_driver_sql(told + stranger))
    assert database.read(lambda it: it.execute(select(events.c.id).order_by(events.c.id)).scalars().all()) == [1, 2]
    assert len(store.integrity.examine().findings) >= 2
    store.close()
    database.close()


def as_it_was(url: str) -> None:
    """Make the tables of the first version, with one task."""

    def old(connection: Connection) -> None:
        running.run(connection, "0001")
        on_postgres = connection.dialect.name == "postgresql"
        words = {"AT": "'2026-11-24 12:00+00'" if on_postgres else str(to_microseconds(NOON))}
        words |= {"NO": "false", "YES": "true"} if on_postgres else {"NO": "0", "YES": "1"}
        for statement in (OLD_TASK, OLD_RUN):
            connection.exec_driver_sql(re.sub(r"\b(AT|NO|YES)\b", lambda found: words[found[0]], statement))

    database = connect(url)
    database.migrate(old)
    database.close()


def test_a_migration_that_breaks_a_reference_is_rolled_back(sqlite_url: str) -> None:
    orphan = "INSERT INTO attempts (run_id, number, worker, started_at) VALUES ('r_gone', 1, 'w', 0)"

    def breaking(connection: Connection) -> None:
        connection.exec_driver_sql(orphan)

    with closing(connect(sqlite_url)) as database:
        database.migrate(migrated)
        with pytest.raises(sqlite3.IntegrityError, match="the migration broke references"):
            database.migrate(breaking)
        count = text("SELECT count(*) FROM attempts")
        assert database.read(lambda connection: connection.execute(count).scalar()) == 0


def test_a_migration_that_fails_leaves_the_old_schema(
    sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_store(sqlite_url).close()
    folder = tmp_path / "migrations"
    copied_tree(folder)
    (folder / "versions" / f"{TO_COME}_more.py").write_text(
        f'revision, down_revision = "{TO_COME}", "{upgrade.HEAD_VERSION}"\nbranch_labels = depends_on = None\n'
        "def upgrade():\n    from alembic import op\n    op.execute('CREATE TABLE more (id INTEGER)')\n    1 / 0\n"
    )
    monkeypatch.setattr(running, "__file__", str(folder / "running.py"))
    monkeypatch.setattr(upgrade, "HEAD_VERSION", TO_COME)
    with pytest.raises(ZeroDivisionError):
        open_store(sqlite_url)
    assert "more" not in tables_of(f"{tmp_path}/duetime.db")
    monkeypatch.undo()
    open_store(sqlite_url, migrate=False).close()


def copied_tree(folder: Path) -> None:
    (folder / "versions").mkdir(parents=True)
    source = Path(running.__file__).parent
    for path in (source / "env.py", source / "script.py.mako", *(source / "versions").glob("0*.py")):
        (folder / path.relative_to(source)).write_text(path.read_text())


def tables_of(path: str) -> set[str]:
    connection = sqlite3.connect(path)
    found = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    connection.close()
    return found


def test_a_newer_database_is_refused_and_left_alone(url: str) -> None:
    open_store(url).close()
    database = connect(url)
    database.write(
        lambda connection: connection.execute(
            update(upgrade.version).values(version_num="9999", compatible_from="9999")
        )
    )
    database.close()
    for migrate in (True, False):
        with pytest.raises(SchemaTooNew, match=r"schema 9999.*Upgrade Duetime"):
            open_store(url, migrate=migrate)


def test_an_empty_database_is_not_made_without_asking(url: str) -> None:
    with pytest.raises(SchemaTooOld, match="schema is missing"):
        open_store(url, migrate=False)
    database = connect(url)
    assert database.read(lambda connection: inspect(connection).get_table_names()) == []
    database.close()


def test_a_file_of_another_program_is_not_touched(sqlite_url: str, tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "duetime.db")
    connection.execute("CREATE TABLE photos (id INTEGER)")
    connection.close()
    before = (tmp_path / "duetime.db").read_bytes()
    with pytest.raises(InvalidSetting, match=r"another program.*'photos'"):
        open_store(sqlite_url)
    assert (tmp_path / "duetime.db").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["duetime.db"]


def test_several_starts_at_once_make_one_schema(url: str) -> None:
    failures: list[BaseException] = []
    gate = threading.Barrier(6, timeout=120)

    def start() -> None:
        gate.wait()
        try:
            open_store(url).close()
        except BaseException as error:  # noqa: BLE001 - shown by the assertion
            failures.append(error)

    threads = [threading.Thread(target=start) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    open_store(url, migrate=False).close()


def test_a_start_waits_while_another_one_gives_the_new_file_its_journal(
    sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = sqlite3.connect(tmp_path / "duetime.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    monkeypatch.setattr(time, "sleep", lambda _: other.rollback())
    open_store(sqlite_url).close()
    assert not other.in_transaction
    other.close()


def test_opening_a_database_that_is_current_does_not_import_alembic(sqlite_url: str) -> None:
    open_store(sqlite_url).close()
    code = "import sys; from duetime.scheduler.store import open_store; open_store(sys.argv[1]).close(); "
    command = [sys.executable, "-c", code + "sys.exit('alembic' in sys.modules)", sqlite_url]
    done = subprocess.run(command, check=False, capture_output=True)
    assert done.returncode == 0, done.stderr
