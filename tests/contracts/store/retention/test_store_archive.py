"""The archive: rows are on the disk before they are deleted, and an import brings back exactly what went."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from duetime.scheduler.audit.entry import AuditEntry, AuditKind
from duetime.scheduler.dispatch.retention import Sweep
from duetime.scheduler.errors import Refused
from duetime.scheduler.history.retention import RetentionKind, RetentionPolicy, RetentionRule
from duetime.scheduler.store import Store, open_store
from duetime.scheduler.store.migrations.upgrade import HEAD_VERSION
from duetime.scheduler.store.retention import deletion
from duetime.scheduler.store.schema.base import Base
from duetime.scheduler.store.schema.tables.events import events
from duetime.scheduler.task import State
from duetime.scheduler.waits.fire_address import FireAddress, FireToken
from sqlalchemy import select

from tests.builders import (
    NOON,
    TENANT,
    Clock,
    a_run,
    added,
    cancelled,
    delivery,
    log_chunk,
    message,
    restarted,
    settlement,
    started,
)
from tests.invariants import assert_sound

ALL_KINDS = tuple(RetentionRule(kind, timedelta(days=90)) for kind in RetentionKind)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "archive"
    made.mkdir()
    return made


def swept(store: Store, folder: Path, *rules: RetentionRule) -> Counter[str]:
    sweep = Sweep(store, RetentionPolicy(rules or ALL_KINDS[:1], folder))
    assert list(sweep.run())
    return sweep.deleted


def files(folder: Path) -> list[Path]:
    """Return the files of the archive, those of tasks first and then those of runs."""
    found = sorted(folder.rglob("*.jsonl.gz"), key=lambda path: (path.name[:4] != "task", path.name[:4] != "runs"))
    return sorted(found, key=lambda path: path.name.startswith("deliveries"))


def contents(store: Store) -> dict[str, set[str]]:
    """Return every row of the store but what belongs to the running database alone."""
    apart = {"retention_sweeps", "server_keys", "audit_entries"}

    def rows(connection: Any, table: Any) -> set[str]:
        columns = [column for column in table.columns if column.name not in {"tx", "history_from"}]
        return {repr(row) for row in connection.execute(select(*columns))}

    def work(connection: Any) -> dict[str, set[str]]:
        return {name: rows(connection, table) for name, table in Base.metadata.tables.items() if name not in apart}

    return store._database.read(work)


def fill(store: Store, clock: Clock) -> None:
    """Store tasks with all that tasks can have."""
    claim = started(
        store,
        title="Zürich → 会議 \U0001f600",
        labels=("a", "b"),
        estimate=timedelta(seconds=7),
        key_template="{window}",
    )
    gone = delivery(claim)
    failure = settlement(
        claim,
        State.FAILED,
        inbox=message(claim),
        deliveries=(gone,),
        dead_letter=True,
        used={"tokens": 3.5},
        traceback="Traceback",
        log=(log_chunk(claim, 1, "a\u2028", "b", cut=2, last=True),),
        error="no 'luck'",
    )
    store.claims.settle([failure])
    record = added(store, repeat="every hour")
    for n in range(1, 4):
        claim = restarted(store, store.tasks.get(TENANT, record.task.id))
        following = a_run(record.task, NOON + timedelta(hours=n), number=n + 1)
        store.claims.settle([settlement(claim, next_run=following, inbox=message(claim), result={"n": [n]})])
        clock.forward(hours=1)
    store.inbox.mark_read(TENANT, "alice")
    store._database.write(
        lambda connection: connection.exec_driver_sql("UPDATE deliveries SET next_at = NULL, state = 'delivered'")
    )
    cancelled(store, added(store))
    added(store, NOON + timedelta(days=900))


def test_an_import_brings_back_exactly_what_was_deleted(store: Store, clock: Clock, folder: Path) -> None:
    fill(store, clock)
    before = contents(store)
    clock.forward(days=91)
    assert swept(store, folder).total() > 10
    assert contents(store) != before
    for path in files(folder):
        store.retention.import_file(path)
    assert contents(store) == before


def test_rows_of_every_kind_come_back(store: Store, clock: Clock, folder: Path) -> None:
    fill(store, clock)
    before = contents(store)
    clock.forward(days=91)
    for rule in reversed(ALL_KINDS):
        swept(store, folder, rule)
    for path in files(folder):
        store.retention.import_file(path)
    assert contents(store) == before


def test_a_second_import_stores_nothing(store: Store, clock: Clock, folder: Path) -> None:
    fill(store, clock)
    clock.forward(days=91)
    swept(store, folder)
    [path] = files(folder)
    stored, there = store.retention.import_file(path)
    assert (stored.total() > 0, there) == (True, 0)
    assert store.retention.import_file(path) == (Counter(), stored.total())


def test_a_task_that_is_there_stays_as_it_is(store: Store, clock: Clock, folder: Path) -> None:
    """A process was killed after it wrote the file; then somebody changed the task."""
    record = added(store)
    cancelled(store, record)
    clock.forward(days=91)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deletion, "delete_batch", lambda *_: (Counter(), False))
        swept(store, folder)
    cancelled(store, added(store, title="Later"))
    before = contents(store)
    [path] = files(folder)
    assert store.retention.import_file(path)[0] == Counter()
    assert contents(store) == before


def test_a_task_with_a_fire_address_comes_back_without_it(store: Store, clock: Clock, folder: Path) -> None:
    record, token = added(store), FireToken.new()
    made = FireAddress(token.id, TENANT, record.task.id, token.digest, store.now(), "alice")
    act = AuditEntry(TENANT, AuditKind.FIRE_ADDRESS_MADE, "alice", subject=record.task.id)
    store.fire_addresses.add(made, act, renew=False)
    cancelled(store, record)
    before = contents(store)
    clock.forward(days=91)
    swept(store, folder)
    [path] = files(folder)
    assert token.digest not in gzip.decompress(path.read_bytes()).decode(), "no file opens a way in"
    store.retention.import_file(path)
    assert contents(store) == {**before, "fire_addresses": set()}


def test_another_database_can_import_it_next_to_its_own_tasks(
    store: Store, clock: Clock, folder: Path, tmp_path: Path
) -> None:
    fill(store, clock)
    clock.forward(days=91)
    swept(store, folder)
    other = open_store(f"sqlite:///{tmp_path}/other.db", clock=clock)
    cancelled(other, added(other))
    for path in files(folder):
        other.retention.import_file(path)
    other.history.since(0)
    assert_sound(other)
    cancelled(other, added(other))
    other.close()


def test_the_audit_chain_holds_without_and_with_what_came_back(store: Store, clock: Clock, folder: Path) -> None:
    fill(store, clock)
    sealed = store.audit_chain.seal()
    clock.forward(days=91)
    swept(store, folder)
    [without] = store.audit_chain.verify(TENANT)
    assert (without.broken, 0 < without.removed < sealed) == (None, True)
    for path in files(folder):
        store.retention.import_file(path)
    while store.audit_chain.seal():
        pass
    [whole] = store.audit_chain.verify(TENANT)
    assert (whole.broken, whole.removed, whole.checked) == (None, 0, whole.entries)


def test_the_chain_of_another_database_has_what_was_imported(
    store: Store, clock: Clock, folder: Path, postgres_url: str
) -> None:
    fill(store, clock)
    clock.forward(days=91)
    swept(store, folder)
    other = open_store(postgres_url, clock=clock)
    cancelled(other, added(other))
    for path in files(folder):
        other.retention.import_file(path)
    while other.audit_chain.seal():
        pass
    [found] = other.audit_chain.verify(TENANT)
    other.close()
    assert (found.broken, found.checked > 3) == (None, True)


def test_the_chain_of_a_database_with_gaps_in_its_numbers_has_what_was_imported(
    store: Store, clock: Clock, folder: Path, tmp_path: Path
) -> None:
    fill(store, clock)
    with closing(open_store(f"sqlite:///{tmp_path}/other.db", clock=clock)) as other:
        for _ in range(30):
            cancelled(other, added(other, tenant="bank"))
        clock.forward(days=91)
        swept(store, folder)
        assert list(Sweep(other, RetentionPolicy(ALL_KINDS[:1])).run())
        cancelled(other, added(other))
        while other.audit_chain.seal():
            pass
        for path in files(folder):
            other.retention.import_file(path)
        while other.audit_chain.seal():
            pass
        assert {found.tenant: found.broken for found in other.audit_chain.verify()} == {TENANT: None, "bank": None}


def test_imported_events_are_no_news(store: Store, clock: Clock, folder: Path) -> None:
    fill(store, clock)
    latest = store.history.latest()
    clock.forward(days=91)
    swept(store, folder)
    for path in files(folder):
        store.retention.import_file(path)
    assert store.history.since(latest) == []
    numbers = store._database.read(lambda connection: list(connection.execute(select(events.c.id)).scalars()))
    assert len(numbers) == len(set(numbers))


def test_without_its_folder_nothing_is_deleted_and_the_status_says_why(
    store: Store, clock: Clock, folder: Path
) -> None:
    fill(store, clock)
    clock.forward(days=91)
    before = contents(store)
    folder.rmdir()
    assert list(Sweep(store, RetentionPolicy(ALL_KINDS[:1], folder)).run())
    assert contents(store) == before
    assert "FileNotFoundError" in str(store.retention.last_sweeps()[RetentionKind.TASKS].problem)


def test_a_file_that_was_not_written_to_its_end_is_not_there(
    store: Store, clock: Clock, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(store, clock)
    clock.forward(days=91)
    before = contents(store)

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    list(Sweep(store, RetentionPolicy(ALL_KINDS[:1], folder)).run())
    monkeypatch.undo()
    assert [path for path in folder.rglob("*") if path.is_file()] == []
    assert contents(store) == before


Damage = Callable[[list[str]], list[str]]

DAMAGES: dict[str, tuple[Damage, str]] = {
    "cut off": (lambda lines: lines[:-1], "the file ends before its last line"),
    "a row is missing": (lambda lines: [*lines[:2], *lines[3:]], "rows were read"),
    "no JSON": (lambda lines: [lines[0], "{", *lines[2:]], "line 2: it cannot be read"),
    "no archive": (lambda lines: ['{"schema": "other/1"}', *lines[1:]], "line 1: it is not an archive"),
    "a newer schema": (lambda lines: [lines[0].replace(HEAD_VERSION, "9999"), *lines[1:]], "line 1: a newer Duetime"),
    "another table": (
        lambda lines: [lines[0], lines[1].replace('"tasks"', '"users"', 1), *lines[2:]],
        "line 2: it is not a row",
    ),
    "another column": (lambda lines: [lines[0], lines[1].replace('"owner"', '"boss"'), *lines[2:]], "no column 'boss'"),
    "no time": (
        lambda lines: [lines[0], re.sub(r'"anchor":"[^"]*"', '"anchor":"noon"', lines[1]), *lines[2:]],
        "line 2: tasks.anchor cannot be read",
    ),
    "a wrong type": (
        lambda lines: [lines[0], lines[1].replace('"revision":', '"revision":"x","r":'), *lines[2:]],
        "line 2:",
    ),
    "an unknown state": (
        lambda lines: [line.replace('"state":"cancelled"', '"state":"dreaming"') for line in lines],
        "runs.state cannot be read",
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_file_is_refused_by_its_line_and_nothing_of_it_is_stored(
    store: Store, clock: Clock, folder: Path, name: str
) -> None:
    cancelled(store, added(store))
    clock.forward(days=91)
    swept(store, folder)
    before = contents(store)
    [path] = files(folder)
    damage, said = DAMAGES[name]
    lines = gzip.decompress(path.read_bytes()).decode().splitlines()
    path.write_bytes(gzip.compress("".join(f"{line}\n" for line in damage(lines)).encode()))
    with pytest.raises(Refused, match=re.escape(said)):
        store.retention.import_file(path)
    assert contents(store) == before


def test_a_file_with_broken_bytes_is_refused(store: Store, clock: Clock, folder: Path) -> None:
    cancelled(store, added(store))
    clock.forward(days=91)
    swept(store, folder)
    [path] = files(folder)
    whole = path.read_bytes()
    for broken in (whole[: len(whole) // 2], whole[:-6] + b"\0" * 6, b"no gzip"):
        path.write_bytes(broken)
        with pytest.raises(Refused, match=r"it cannot be read|ends before"):
            store.retention.import_file(path)


def test_a_file_of_another_tenant_is_refused(store: Store, clock: Clock, folder: Path) -> None:
    cancelled(store, added(store, tenant="bank"))
    clock.forward(days=91)
    swept(store, folder)
    [path] = files(folder)
    with pytest.raises(Refused, match="rows of the tenant 'bank', not only of 'acme'"):
        store.retention.import_file(path, tenant=TENANT)
    assert store.retention.import_file(path, tenant="bank")[0]["tasks"] == 1


def test_runs_whose_task_is_gone_are_refused(store: Store, clock: Clock, folder: Path) -> None:
    fill(store, clock)
    clock.forward(days=91)
    swept(store, folder, ALL_KINDS[1])
    [path] = files(folder)
    lines = gzip.decompress(path.read_bytes()).decode()
    named = json.loads(lines.splitlines()[1])["row"]["task_id"]
    path.write_bytes(gzip.compress(lines.replace(named, "t_gone").encode()))
    with pytest.raises(Refused, match="t_gone, which runs belong to, is not in the table tasks"):
        store.retention.import_file(path)


def test_the_hash_chain_is_whole_after_a_sweep_and_after_the_import(store: Store, clock: Clock, folder: Path) -> None:
    fill(store, clock)
    while store.audit_chain.seal():
        pass
    clock.forward(days=91)
    swept(store, folder)
    for path in files(folder):
        assert broken(store) == [None]
        store.retention.import_file(path)
    assert broken(store) == [None]


def broken(store: Store) -> list[object]:
    """Seal all that there is, and return what is wrong with each chain."""
    while store.audit_chain.seal():
        pass
    return [verdict.broken for verdict in store.audit_chain.verify()]
