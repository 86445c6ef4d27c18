"""Hostile archives: whatever a file says, it is refused by its line, or what it stored meets every invariant."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from duetime.scheduler.dispatch.retention import Sweep
from duetime.scheduler.errors import Refused
from duetime.scheduler.history.retention import RetentionKind, RetentionPolicy, RetentionRule
from duetime.scheduler.store import Store
from duetime.scheduler.store.retention import archive
from duetime.scheduler.task import State
from hypothesis import settings

from tests.builders import TENANT, Clock, added, cancelled, delivery, message, settlement, started
from tests.search import USUAL_EXAMPLE_COUNT

HOSTILE: tuple[Any, ...] = (
    None, "", "a\0b", "\ud800", "../../etc/passwd", "x" * 100_000, "9999-12-31T23:59:59.999999-23:59", "2026-02-30",
    -1, 0, 2**31, 2**63, 10**300, -(2**63) - 1, 1e308, float("nan"), float("inf"), True, [], ["\0"], [[1]] * 3,
    {}, {"\0": 1}, {"a": {"\ud800": 2**70}}, {"x": "y"}, {"max_attempts": 10**9, "backoff": 1e300, "max_backoff": 0},
)  # fmt: skip

PART_COUNT = 18


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "archive"
    made.mkdir()
    return made


def archived(store: Store, clock: Clock, folder: Path) -> list[dict[str, Any]]:
    """Store a task with all that one can have, archive it, and return the lines of the file."""
    claim = started(store, labels=("a",), estimate=timedelta(seconds=7))
    told = settlement(
        claim, State.FAILED, inbox=message(claim), deliveries=(delivery(claim),),
        used={"tokens": 3.5}, traceback="Traceback", error="no luck",
    )  # fmt: skip
    store.claims.settle([told])
    store.inbox.mark_read(TENANT, "alice")
    store._database.write(
        lambda connection: connection.exec_driver_sql("UPDATE deliveries SET next_at = NULL, state = 'delivered'")
    )
    clock.forward(days=91)
    list(Sweep(store, RetentionPolicy((RetentionRule(RetentionKind.TASKS, timedelta(days=90)),), folder)).run())
    [path] = folder.rglob("*.jsonl.gz")
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]


def imported(store: Store, path: Path, lines: list[Any], tenant: str | None = None) -> bool:
    """Import these lines; return whether anything was stored."""
    texts = (line if isinstance(line, str) else json.dumps(line) for line in lines)
    path.write_bytes(gzip.compress("".join(f"{text}\n" for text in texts).encode(), 1))
    try:
        return store.retention.import_file(path, tenant=tenant)[0].total() > 0
    except Refused as refused:
        if len(str(refused)) > 1024:
            raise
        return False


def mutations(lines: list[dict[str, Any]]) -> Iterator[tuple[str, list[Any]]]:
    """Yield the file with each value of each table replaced by hostile values: a part of them, in a search by all."""
    searching = settings().max_examples > USUAL_EXAMPLE_COUNT
    seen = set()
    for at, line in enumerate(lines):
        for name in line.get("row", {}):
            if (line["table"], name) in seen:
                continue
            seen.add((line["table"], name))
            for value in HOSTILE if searching else HOSTILE[crc32(name.encode()) % PART_COUNT :: PART_COUNT]:
                changed = {**line, "row": {**line["row"], name: value}}
                yield f"{line['table']}.{name} = {str(value)[:40]!r}", [*lines[:at], changed, *lines[at + 1 :]]


def emptied(store: Store) -> None:
    def work(connection: Any) -> None:
        for table in ("events", "task_labels", "dead_letters", "deliveries", "inbox", "usage", "tracebacks"):
            connection.exec_driver_sql(f"DELETE FROM {table}")
        for table in ("attempts", "runs", "tasks"):
            connection.exec_driver_sql(f"DELETE FROM {table}")

    store._database.write(work)


@pytest.mark.random_walk
def test_no_value_of_a_row_breaks_anything(store: Store, clock: Clock, folder: Path) -> None:
    """A file is refused, or what came of it is whole: no row is damaged, and each can be read."""
    lines, path, wrong, stored = archived(store, clock, folder), folder / "hostile.jsonl.gz", [], 0
    for said, changed in mutations(lines):
        try:
            kept = imported(store, path, changed)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is wrong
            wrong.append(f"{said}: {type(error).__name__} {str(error)[:100]}")
            continue
        if kept:
            stored += 1
            found = (*store.integrity.examine().findings, *store.integrity.damaged().findings)
            wrong += [f"{said}: {each.table} {each.broken} {each.examples}" for each in found]
            emptied(store)
    assert wrong == [], f"{len(wrong)} wrong:\n" + "\n".join(wrong[:60])
    assert stored > 5


def test_no_line_breaks_anything(store: Store, clock: Clock, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines, path = archived(store, clock, folder), folder / "hostile.jsonl.gz"
    head, row, last = json.dumps(lines[0]), json.dumps(lines[1]), lines[-1]
    bodies: list[list[Any]] = [
        [head, '{"a":' * 50_000, last], [head, "[" * 100_000],
        [head, '{"table": "tasks", "row": ' + "9" * 5_000 + "}"], [*lines, *lines],
        [head, row.replace('"tasks"', '"tasks", "table": "runs"'), last],
        [head, row[:-2] + ', "id": "t_other"}}', last],
        [head, row.replace('"row"', '"row": {}, "row"'), *lines[2:]], [head, "", last], ["\ufeff" + head, *lines[1:]],
        [{**lines[0], "database": "\u0661"}, *lines[1:]], [{**lines[0], "database": "9" * 5_000}, *lines[1:]],
        [{**lines[0], "kind": ["tasks"]}, *lines[1:]], [{**lines[0], "kind": "../tasks"}, *lines[1:]],
        [lines[0], lines[1], *lines[1:-1], {"rows": len(lines) - 1}], [*lines[:-1], {"rows": True}],
        [lines[0], {"table": ["tasks"], "row": {}}, last], [lines[0], {"table": "server_keys", "row": {}}, last],
        [lines[0], {"table": "tasks", "row": []}, last], [lines[0], "null", last], [lines[0], "1e400", last],
        [lines[0], {"row": {"__class__": "x"}}, last], [lines[0], {"rows": 0}], [], ["\0" * 1000],
    ]  # fmt: skip
    for body in bodies:
        assert not imported(store, path, body), str(body)[:200]
    monkeypatch.setattr(archive, "MAX_FILE_CHARS", 1_000_000)
    assert not imported(store, path, [head, *[row] * 3_000, {"rows": 3_000}])
    with pytest.raises(Refused, match="more than 1,000,000 characters unpacked"):
        store.retention.import_file(path)
    monkeypatch.setattr(archive, "MAX_SENT_CHARS", 500_000)
    with pytest.raises(Refused, match="more than 500,000 characters unpacked"):
        store.retention.import_file(path, content=path.read_bytes())


def test_no_file_adds_to_a_task_of_another_tenant_or_starts_anything(store: Store, clock: Clock, folder: Path) -> None:
    """Neither with rows that name the tenant of their importer, nor with rows that name none."""
    lines, path = archived(store, clock, folder), folder / "hostile.jsonl.gz"
    victim = cancelled(store, added(store, tenant="bank"))
    for line in lines[1:-1]:
        own: dict[str, Any] = {name: victim.task.id for name in ("task_id",) if name in line["row"]}
        own |= {name: victim.run.id for name in ("run_id",) if name in line["row"]}
        own |= {"seq": 99, "id": 10**6} if line["table"] == "events" else {}
        for kind in RetentionKind:
            forged = [{**lines[0], "kind": kind}, {**line, "row": {**line["row"], **own}}, {"rows": 1}]
            if own:
                assert not imported(store, path, forged, TENANT), line["table"]
    ready = [
        {**line, "row": {**line["row"], "state": "ready", "ended_at": None}} if line.get("table") == "runs" else line
        for line in lines
    ]
    assert not imported(store, path, ready)
    assert imported(store, path, lines, TENANT)
