"""`duetime retention`: what the rules would delete is counted first, and only what they name goes."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import closing, nullcontext
from datetime import timedelta
from pathlib import Path

import pytest
from duetime.scheduler.audit.entry import AuditEntry, AuditFilter, AuditKind
from duetime.scheduler.errors import StoreUnavailable
from duetime.scheduler.records import IdempotencyKey
from duetime.scheduler.store import open_store
from duetime.scheduler.store.audit.log import AuditLog
from duetime.scheduler.store.retention.retention import Retention
from duetime.server.cli.main import run
from duetime.server.cli.storage.imports import show_import

from tests import blank
from tests.builders import Clock, a_task, added, cancelled

Said = Callable[..., str]
NOTHING_DELETED = {
    "schema": "duetime.retention_run/1",
    "dry_run": False,
    "complete": True,
    "rows": {},
    "longest_batch_seconds": 0.0,
}


@pytest.fixture
def said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Said:
    """Run a command on a database of the test's own; return stdout, or stderr where it fails."""
    for name in [name for name in os.environ if name.upper().startswith("DUETIME_")]:
        monkeypatch.delenv(name)
    blank.make(tmp_path / "duetime.db")
    monkeypatch.setenv("DUETIME_DATABASE_URL", f"sqlite:///{tmp_path}/duetime.db")
    monkeypatch.setenv("DUETIME_CONFIG", f"{tmp_path}/duetime.toml")

    def answered(*arguments: str, code: int = 0) -> str:
        capsys.readouterr()
        assert run(arguments) == code
        written = capsys.readouterr()
        return written.err if code else written.out

    return answered


@pytest.fixture(autouse=True)
def logs_of_others() -> Iterator[None]:
    """Keep the handlers of other tests' logs: a run configures those of its process."""
    root = logging.getLogger()
    before = [*root.handlers]
    yield
    root.handlers[:] = before
    logging.captureWarnings(capture=False)


@pytest.fixture(autouse=True)
def three_old_tasks(tmp_path: Path) -> None:
    """Write a rule, and tasks that were cancelled long before the clock of this machine."""
    (tmp_path / "duetime.toml").write_text('[[retention]]\nwhat = "tasks"\nage = "30 days"\n')
    clock = Clock()
    clock.forward(days=-4000)
    blank.make(tmp_path / "duetime.db")
    store = open_store(f"sqlite:///{tmp_path}/duetime.db", clock=clock)
    for _ in range(3):
        long_ago = clock.at - timedelta(days=1)
        cancelled(store, added(store, clock.at, created_at=long_ago, updated_at=long_ago))
    store.close()


def test_a_dry_run_counts_by_table_and_deletes_nothing(said: Said) -> None:
    for _ in range(2):
        counted = json.loads(said("retention", "run", "--dry-run", "--json"))
        assert (counted["dry_run"], counted["rows"]["tasks"]) == (True, {"events": 6, "runs": 3, "tasks": 3})
    assert said("retention", "run", "--dry-run").splitlines()[0].split() == ["RULE", "TABLE", "WOULD", "GO"]


def test_a_dry_run_counts_a_row_of_two_rules_once_and_says_so(
    said: Said, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rules = "".join(f'[[retention]]\nwhat = "{what}"\nage = "30 days"\n' for what in ("tasks", "runs", "events"))
    (tmp_path / "duetime.toml").write_text(rules)
    counted = json.loads(said("retention", "run", "--dry-run", "--json"))["rows"]
    assert sum(of.get("events", 0) for of in counted.values()) == 6
    assert run(("retention", "run", "--dry-run")) == 0
    assert "A row that two rules allow to be deleted counts for the first of them." in capsys.readouterr().err


def test_an_age_of_one_day_is_one_day(said: Said, tmp_path: Path) -> None:
    (tmp_path / "duetime.toml").write_text('[[retention]]\nwhat = "tasks"\nage = "1 day"\n')
    assert said("retention", "status").splitlines()[1].split()[:3] == ["tasks", "1", "day"]


def test_a_run_deletes_and_says_what_and_the_status_knows(said: Said) -> None:
    assert said("retention", "status").splitlines()[1].split()[:6] == ["tasks", "30", "days", "all", "all", "never"]
    assert [line.split() for line in said("retention", "run").splitlines()[1:]] == [
        ["tasks", "events", "6"],
        ["tasks", "runs", "3"],
        ["tasks", "tasks", "3"],
    ]
    assert said("retention", "run") == "Nothing was old enough.\n"
    [sweep] = json.loads(said("retention", "status", "--json"))["sweeps"]
    assert (sweep["what"], sweep["deleted"], "problem" in sweep) == ("tasks", 0, False)


@pytest.mark.parametrize("as_json", [False, True])
def test_a_run_that_an_archive_stops_says_so_and_fails(
    said: Said, tmp_path: Path, capsys: pytest.CaptureFixture[str], *, as_json: bool
) -> None:
    rule = '[[retention]]\nwhat = "tasks"\nage = "30 days"\n'
    (tmp_path / "duetime.toml").write_text(f'archive_directory = "{tmp_path}/gone"\n{rule}')
    capsys.readouterr()
    assert run(("retention", "run", *(["--json"] if as_json else []))) == 1
    written = capsys.readouterr()
    if as_json:
        assert "gone" in json.loads(written.out)["problems"]["tasks"]
    else:
        assert "Retention of tasks stopped, so older rows of this kind are left: " in written.err
        assert "Nothing was old enough" not in written.out
    with closing(open_store(f"sqlite:///{tmp_path}/duetime.db")) as store:
        newest = store.audit.page("local", AuditFilter(), limit=1).entries[0]
    assert newest.kind is AuditKind.RETENTION_FAILED
    assert "gone" in str(newest.detail)


def test_a_run_writes_a_log_line_with_its_count_where_stderr_is_no_terminal(
    said: Said, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert run(("retention", "run")) == 0
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines() if line.startswith("{")]
    assert [line["message"].partition(";")[0] for line in lines] == ["retention of tasks deleted 12 rows"]


def test_a_run_where_nobody_serves_forgets_expired_keys_which_keep_their_tasks(said: Said, tmp_path: Path) -> None:
    clock = Clock()
    clock.forward(days=-4000)
    store = open_store(f"sqlite:///{tmp_path}/duetime.db", clock=clock)
    task, run = a_task(clock.at, created_at=clock.at, updated_at=clock.at)
    cancelled(store, store.tasks.add(task, run, actor="alice", key=IdempotencyKey("k", {})).record)
    store.close()
    deleted = json.loads(said("retention", "run", "--json"))["rows"]["tasks"]
    assert deleted["tasks"] == 4, "three without a key, and the one with a key"


def test_a_kind_without_a_rule_is_left_alone(said: Said, capsys: pytest.CaptureFixture[str]) -> None:
    assert said("retention", "run", "--only", "events") == "No rule is of that kind.\n"
    assert run(("retention", "run", "--only", "events", "--json")) == 0
    written = capsys.readouterr()
    assert (json.loads(written.out), written.err) == (NOTHING_DELETED, "No rule is of that kind.\n")


def test_without_rules_an_example_is_shown(said: Said, tmp_path: Path) -> None:
    (tmp_path / "duetime.toml").write_text("")
    for verb in ("status", "run"):
        assert 'age = "90 days"' in said("retention", verb)
    assert json.loads(said("retention", "run", "--json")) == NOTHING_DELETED
    assert json.loads(said("retention", "run", "--dry-run", "--json")) == {**NOTHING_DELETED, "dry_run": True}


def test_former_rules_are_shown_apart_with_their_last_day_and_delete_nothing(
    said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    former = '{"what": "tasks", "age": "7 days", "tenant": "acme", "until": "2026-03-31"}'
    monkeypatch.setenv("DUETIME_RETENTION", f"[{former}]")
    lines = said("retention", "status").splitlines()
    assert lines[0].startswith("There is no rule of retention, so nothing is deleted.")
    assert [line.split() for line in lines[1:3]] == [
        ["FORMER", "RULE", "OLDER", "THAN", "STATES", "TENANT", "UNTIL"],
        ["tasks", "7", "days", "all", "acme", "2026-03-31"],
    ]
    assert said("retention", "run").startswith("There is no rule of retention")


def test_while_another_process_deletes_a_run_is_refused(said: Said, tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path}/duetime.db")
    with store.retention.alone():
        assert "Another process" in said("retention", "run", "--reason", "the disk is full", code=4)
    [refused, begun] = store.audit.page("local", AuditFilter(), limit=9).entries
    assert (refused.kind, begun.kind) == ("retention_refused", "retention_begun")
    assert (refused.reason, refused.detail) == (
        "the disk is full",
        {"problem": "Another process deletes by these rules at the moment; `duetime retention status` shows more."},
    )
    store.close()


def acts(tmp_path: Path) -> list[tuple[str, str | None]]:
    """Return what callers did and why, the newest first."""
    store = open_store(f"sqlite:///{tmp_path}/duetime.db")
    found = [(entry.kind.value, entry.reason) for entry in store.audit.page("local", AuditFilter(), limit=9).entries]
    store.close()
    return [(kind, why) for kind, why in found if kind != "rows_removed"]


def test_a_run_that_another_process_stops_says_what_it_deleted_before(
    said: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "duetime.toml").write_text(
        "".join(f'[[retention]]\nwhat = "{what}"\nage = "30 days"\n' for what in ("tasks", "runs"))
    )
    alone = iter((True, False))
    monkeypatch.setattr(Retention, "alone", lambda _retention: nullcontext(next(alone)))
    assert run(("retention", "run", "--json")) == 1
    done = json.loads(capsys.readouterr().out)
    assert done["rows"]["tasks"] == {"events": 6, "runs": 3, "tasks": 3}
    assert done["problems"]["runs"].startswith("Another process deletes")


def test_a_run_and_an_import_are_in_the_audit_log_with_their_reason(said: Said, tmp_path: Path) -> None:
    (tmp_path / "archive").mkdir()
    text = (tmp_path / "duetime.toml").read_text()
    (tmp_path / "duetime.toml").write_text(f'archive_directory = "{tmp_path / "archive"}"\n{text}')
    said("retention", "run", "--dry-run", "--reason", "looking")
    assert acts(tmp_path) == []
    said("retention", "run", "--reason", "the disk is full")
    [file] = [str(path) for path in (tmp_path / "archive").rglob("*.jsonl.gz")]
    said("import", file, "--reason", "an inquiry")
    assert acts(tmp_path) == [
        ("rows_imported", "an inquiry"), ("retention_run", "the disk is full"), ("retention_begun", "the disk is full"),
    ]  # fmt: skip


def test_a_run_that_fails_is_in_the_audit_log_as_failed(
    said: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut_off(*_: object) -> None:
        raise StoreUnavailable("the database does not answer")

    monkeypatch.setattr("duetime.scheduler.dispatch.retention_run.Sweep.run", cut_off)
    said("retention", "run", code=1)
    assert acts(tmp_path) == [("retention_failed", None), ("retention_begun", None)]


def test_a_run_during_which_the_database_goes_away_has_begun_by_the_audit_log(
    said: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = AuditLog.record

    def gone(self: AuditLog, entry: AuditEntry) -> None:
        if entry.kind is not AuditKind.RETENTION_BEGUN:
            raise StoreUnavailable("the database does not answer")
        record(self, entry)

    monkeypatch.setattr(AuditLog, "record", gone)
    with closing(open_store(f"sqlite:///{tmp_path}/duetime.db")) as store, store.retention.alone():
        assert "Another process" in said("retention", "run", code=4)
    assert acts(tmp_path) == [("retention_begun", None)]


def test_archived_and_deleted_rows_are_imported_again(said: Said, tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    archive.mkdir()
    text = (tmp_path / "duetime.toml").read_text()
    (tmp_path / "duetime.toml").write_text(f'archive_directory = "{archive}"\n{text}')
    said("retention", "run")
    files = [str(path) for path in archive.rglob("*.jsonl.gz")]
    assert str(archive) in said("retention", "status")
    assert "bank" in said("import", *files, "--tenant", "bank", code=4)
    assert json.loads(said("import", *files, "--json")) == {
        "schema": "duetime.import/1",
        "stored": {"tasks": 3, "runs": 3, "events": 6},
        "there": 0,
    }
    assert said("import", *files) == "12 rows were there already.\n"


def test_an_import_that_ends_at_a_bad_file_says_which_were_stored(
    said: Said, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "archive").mkdir()
    text = (tmp_path / "duetime.toml").read_text()
    (tmp_path / "duetime.toml").write_text(f'archive_directory = "{tmp_path / "archive"}"\n{text}')
    said("retention", "run")
    [good] = [str(path) for path in (tmp_path / "archive").rglob("*.jsonl.gz")]
    bad = tmp_path / "usage-bad.jsonl.gz"
    bad.write_bytes(b"no archive")
    refused = said("import", str(bad), good, code=4)
    assert f"Stored 1 of 2 files before this one, the last of them {good}." in refused
    assert said("import", good) == "12 rows were there already.\n"
    assert "files before" not in said("import", str(bad), code=4)


def test_an_import_says_what_the_next_sweep_leaves(capsys: pytest.CaptureFixture[str]) -> None:
    show_import({"stored": {"tasks": 1}, "there": 0}, as_json=False)
    written = capsys.readouterr()
    assert "The next sweep deletes those that a rule of retention covers. Unread messages keep their task." in (
        written.out + written.err
    )
