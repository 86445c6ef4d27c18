"""The schema: the migrations make what the models say, older databases are upgraded, newer ones refused."""

from __future__ import annotations

import re
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from duetime.scheduler.errors import InvalidSetting, SchemaTooNew, SchemaTooOld
from duetime.scheduler.rules.states import LEGAL
from duetime.scheduler.store import migrate_store, open_store, schema
from duetime.scheduler.store.legality import MOVES_CHECK
from duetime.scheduler.store.migrations import running
from duetime.scheduler.store.models import Base
from duetime.scheduler.store.opening import connect
from duetime.scheduler.task import State
from sqlalchemy import Connection, inspect, text, update


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
        rows = connection.execute(text(query))
        # Constraints may stand in any order.
        return {f"{row.type} {row.name}": sorted(re.split(r",\s*\n|\n", row.sql or "")) for row in rows}
    columns = text(
        "SELECT table_name || '.' || column_name, (data_type, is_nullable, column_default)::text"
        " FROM information_schema.columns WHERE table_schema = 'public' AND table_name <> 'duetime_version'"
    )
    constraints = text(
        "SELECT conrelid::regclass || ' ' || conname, pg_get_constraintdef(oid) FROM pg_constraint"
        " WHERE connamespace = 'public'::regnamespace AND conrelid::regclass::text <> 'duetime_version'"
    )
    indexes = text("SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'")
    return {name: value for query in (columns, constraints, indexes) for name, value in connection.execute(query)}


def test_the_newest_migration_and_the_models_are_equal(url: str) -> None:
    database = connect(url)
    database.migrate(migrated)
    options = {"compare_type": True, "compare_server_default": True}
    differences = database.read(
        lambda connection: compare_metadata(MigrationContext.configure(connection, opts=options), Base.metadata)
    )
    database.close()
    assert [item for item in differences if "duetime_version" not in repr(item)] == []


def test_a_new_database_is_made_as_the_migrations_make_it(url: str) -> None:
    new = connect(url)
    assert schema.upgrade(new) is None
    from_models = new.read(described)
    new.write(Base.metadata.drop_all)
    new.write(schema.version.drop)
    new.migrate(migrated)
    from_migrations = new.read(described)
    assert new.read(schema.revision) == schema.HEAD
    new.close()
    from_models.pop("duetime_version_pkey", None)
    from_migrations.pop("duetime_version_pkc", None)
    assert from_migrations == from_models
    assert len(from_models) > 20


def test_the_head_in_the_code_is_the_newest_migration() -> None:
    database = connect("sqlite://")
    scripts = database.read(lambda connection: ScriptDirectory.from_config(running.configuration(connection)))
    database.close()
    assert scripts.get_current_head() == schema.HEAD
    assert all(script.revision.isdigit() for script in scripts.walk_revisions())


def test_the_check_constraint_lists_exactly_the_legal_moves() -> None:
    connection = sqlite3.connect(":memory:")
    connection.execute(f"CREATE TABLE events (from_state TEXT, to_state TEXT, CHECK ({MOVES_CHECK}))")
    allowed = set()
    for before in (None, *State):
        for after in (None, *State):
            try:
                connection.execute("INSERT INTO events VALUES (?, ?)", (before, after))
            except sqlite3.IntegrityError:
                continue
            allowed.add((before, after))
    connection.close()
    legal = {(before, after) for before, states in LEGAL.items() for after in states}
    assert allowed == legal | {(None, None)}


def test_an_older_database_is_upgraded_after_a_copy_beside_it(
    sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is one migration so far: a second one stands in for the next release's."""
    open_store(sqlite_url).close()
    folder = tmp_path / "migrations"
    copied_tree(folder)
    (folder / "versions" / "0002_more.py").write_text(
        'revision, down_revision = "0002", "0001"\nbranch_labels = depends_on = None\n'
        "def upgrade():\n    from alembic import op\n    op.execute('CREATE TABLE more (id INTEGER)')\n"
    )
    monkeypatch.setattr(running, "__file__", str(folder / "running.py"))
    monkeypatch.setattr(schema, "HEAD", "0002")
    with pytest.raises(SchemaTooOld, match="duetime migrate"):
        open_store(sqlite_url, migrate=False)
    copy = migrate_store(sqlite_url)
    assert copy == f"{tmp_path}/duetime.db.schema-0001"
    assert tables_of(copy) == tables_of(f"{tmp_path}/duetime.db") - {"more"}
    assert migrate_store(sqlite_url) is None
    open_store(sqlite_url, migrate=False).close()
    assert not list(tmp_path.glob("*.partial*"))


def test_a_migration_that_fails_leaves_the_old_schema(
    sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_store(sqlite_url).close()
    folder = tmp_path / "migrations"
    copied_tree(folder)
    (folder / "versions" / "0002_more.py").write_text(
        'revision, down_revision = "0002", "0001"\nbranch_labels = depends_on = None\n'
        "def upgrade():\n    from alembic import op\n    op.execute('CREATE TABLE more (id INTEGER)')\n    1 / 0\n"
    )
    monkeypatch.setattr(running, "__file__", str(folder / "running.py"))
    monkeypatch.setattr(schema, "HEAD", "0002")
    with pytest.raises(ZeroDivisionError):
        open_store(sqlite_url)
    assert "more" not in tables_of(f"{tmp_path}/duetime.db")
    monkeypatch.undo()
    open_store(sqlite_url, migrate=False).close()


def copied_tree(folder: Path) -> None:
    (folder / "versions").mkdir(parents=True)
    source = Path(running.__file__).parent
    for name in ("env.py", "script.py.mako", "versions/0001_first_tables.py"):
        (folder / name).write_text((source / name).read_text())


def tables_of(path: str) -> set[str]:
    connection = sqlite3.connect(path)
    found = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    connection.close()
    return found


def test_a_newer_database_is_refused_and_left_alone(url: str) -> None:
    open_store(url).close()
    database = connect(url)
    database.write(lambda connection: connection.execute(update(schema.version).values(version_num="9999")))
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
    with pytest.raises(InvalidSetting, match=r"another program.*'photos'"):
        open_store(sqlite_url)
    assert tables_of(f"{tmp_path}/duetime.db") == {"photos"}


def test_several_starts_at_once_make_one_schema(url: str) -> None:
    failures: list[BaseException] = []
    gate = threading.Barrier(6, timeout=30)

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


def test_opening_a_database_that_is_current_does_not_import_alembic(sqlite_url: str) -> None:
    open_store(sqlite_url).close()
    code = "import sys; from duetime.scheduler.store import open_store; open_store(sys.argv[1]).close(); "
    command = [sys.executable, "-c", code + "sys.exit('alembic' in sys.modules)", sqlite_url]
    done = subprocess.run(command, check=False, capture_output=True)
    assert done.returncode == 0, done.stderr
