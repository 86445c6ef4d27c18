"""The loop of retention: a sweep a day, by one process at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from duetime.scheduler.dispatch import retention as dispatch
from duetime.scheduler.dispatch.retention import SWEEP_CHECK_INTERVAL_S, RetentionLoop, Sweep
from duetime.scheduler.dispatch.retention_run import delete_due
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.history.retention import RetentionKind, RetentionPolicy, RetentionRule, ScopedRule
from duetime.scheduler.nodes.engine import Engine
from duetime.scheduler.queue.memory.queue import MemoryQueue
from duetime.scheduler.store import Store
from duetime.scheduler.store.migrations.upgrade import HEAD_VERSION
from duetime.scheduler.store.retention import archive, retention, selection
from duetime.scheduler.store.retention.selection import Selected
from duetime.scheduler.store.schema.tables.tasks import tasks
from duetime.scheduler.worker.worker import WorkerOptions

from tests.builders import TENANT, Clock, added, cancelled

POLICY = RetentionPolicy((RetentionRule(RetentionKind.TASKS, timedelta(days=30)),))


def swept(loop: RetentionLoop) -> None:
    """Let the loop do whatever is due."""
    while loop.step() != SWEEP_CHECK_INTERVAL_S:
        pass


def number_of_tasks(store: Store) -> int:
    return store.integrity.examine().rows


def test_old_tasks_go_and_the_next_sweep_is_a_day_later(store: Store, clock: Clock) -> None:
    loop = RetentionLoop(store, POLICY)
    cancelled(store, added(store))
    clock.forward(days=31)
    swept(loop)
    assert number_of_tasks(store) == 0
    cancelled(store, added(store))
    clock.forward(hours=23)
    assert loop.step() == SWEEP_CHECK_INTERVAL_S
    clock.forward(days=31)
    swept(loop)
    assert number_of_tasks(store) == 0


def test_another_process_takes_over_after_the_end_of_the_one_that_swept(store: Store, clock: Clock) -> None:
    first, second = RetentionLoop(store, POLICY), RetentionLoop(store, POLICY)
    cancelled(store, added(store))
    clock.forward(days=31)
    first.step()
    assert second.step() == SWEEP_CHECK_INTERVAL_S
    assert number_of_tasks(store) > 0
    first.close()
    swept(second)
    assert number_of_tasks(store) == 0


@pytest.mark.parametrize("policy", [POLICY, RetentionPolicy()])
def test_an_engine_has_the_loop_only_where_there_are_rules(store: Store, policy: RetentionPolicy) -> None:
    queue = MemoryQueue(lambda: store.now().timestamp() * 1000)
    engine = Engine(store, queue, Handlers(), WorkerOptions("w", threads=1, retention=policy), epoch=0)
    engine.start()
    engine.end(timedelta(0))
    assert (engine._retention is not None) == bool(policy.rules)


def test_only_old_ones_of_several_tasks_go(store: Store, clock: Clock, tmp_path: Path) -> None:
    cancelled(store, added(store))
    clock.forward(days=31)
    young = added(store)
    swept(RetentionLoop(store, POLICY))
    assert store.tasks.get(TENANT, young.task.id).task == young.task


def test_rows_that_cannot_be_looked_through_keep_no_others(
    store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    rules = (RetentionRule(RetentionKind.INBOX, timedelta(days=30)), *POLICY.rules)
    cancelled(store, added(store))
    clock.forward(days=31)
    pages = store.retention.pages

    def failing(scope: ScopedRule, limit: datetime) -> Iterator[Sequence[Selected]]:
        if scope.rule.kind is RetentionKind.INBOX:
            raise ValueError("a row that nobody can read")
        return pages(scope, limit)

    monkeypatch.setattr(store.retention, "pages", failing)
    swept(RetentionLoop(store, RetentionPolicy(rules)))
    assert number_of_tasks(store) == 0
    assert store.retention.last_sweeps()[RetentionKind.INBOX].problem == "ValueError: a row that nobody can read"
    assert "retention of inbox stops, and the other rules go on" in caplog.text


@pytest.mark.parametrize("moments", [0, 3, 4, 5])
def test_runs_that_have_no_time_archive_each_task_once(
    store: Store, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moments: int
) -> None:
    monkeypatch.setattr(
        retention, "LONE_WRITER_BATCH_WORK_S", 0.0
    )  # a machine on which each batch but the first is one task
    policy = RetentionPolicy(POLICY.rules, archive=tmp_path)
    ids = [cancelled(store, added(store)).task.id for _ in range(14)]
    clock.forward(days=31)
    for _ in ids:
        asked = count()
        if delete_due(store, policy, [RetentionKind.TASKS], has_time=lambda it=asked: next(it) < moments).complete:  # type: ignore[misc] # bound now
            break
    files = [archive.read(path, HEAD_VERSION) for path in tmp_path.rglob("*.jsonl.gz")]
    assert sorted(row["id"] for file in files for row in file.of(tasks)) == sorted(ids)
    assert number_of_tasks(store) == 0


def test_a_run_that_has_no_time_reads_to_the_end_where_no_row_is_due(
    store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selection, "MAX_ROWS_SELECTED", 1)
    pages: list[tuple[Selected, ...]] = []
    for _ in range(4):
        added(store)
    clock.forward(days=31)
    read = store.retention.pages

    def noted(*given: Any) -> Iterator[tuple[Selected, ...]]:
        for page in read(*given):
            pages.append(page)
            yield page

    monkeypatch.setattr(store.retention, "pages", noted)
    policy = RetentionPolicy((RetentionRule(RetentionKind.EVENTS, timedelta(days=30)),))
    done = delete_due(store, policy, [RetentionKind.EVENTS], has_time=lambda: False)
    assert (set(pages), len(pages) > 1, done.complete) == ({()}, True, True), (
        "else each repeat begins at the first page"
    )


def test_a_kind_that_stops_behind_its_archive_leaves_the_next_one_its_limit(
    store: Store, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatch, "FIRST_BATCH_ROWS", 1)
    for _ in range(3):
        cancelled(store, added(store))
    clock.forward(days=31)
    delete, calls = store.retention.delete, count()

    def broken(*given: Any) -> Any:
        if next(calls):
            raise LookupError("no such row")
        return delete(*given)

    monkeypatch.setattr(store.retention, "delete", broken)
    sweep = Sweep(store, RetentionPolicy(POLICY.rules, archive=tmp_path))
    sweep._portion = 99
    owed = [sweep.owes for _ in sweep.run([RetentionKind.TASKS])]
    assert (owed, sweep.owes) == ([False, True], False)
