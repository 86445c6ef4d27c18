"""A search of the history by a rare text finds old runs as well, of whose events retention has deleted what was old."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from duetime.scheduler.dispatch.retention import Sweep
from duetime.scheduler.events import EventFilter
from duetime.scheduler.history.retention import RetentionKind, RetentionPolicy, RetentionRule
from duetime.scheduler.history.runs import RunFilter
from duetime.scheduler.store import Store
from duetime.scheduler.store.database.postgres import Postgres
from duetime.scheduler.store.run_history import run_list
from duetime.scheduler.task import State

from tests.builders import TENANT, Clock, a_run, added, cancelled, restarted, settlement

KEPT = timedelta(days=30)


@pytest.fixture(autouse=True)
def short_walk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a search read two runs before it asks the index of texts."""
    monkeypatch.setattr(run_list, "MAX_RUNS_SEARCHED_FIRST", 2)


def swept(store: Store, *kinds: RetentionKind) -> None:
    list(Sweep(store, RetentionPolicy(tuple(RetentionRule(kind, KEPT) for kind in kinds))).run())


def recurred(store: Store, clock: Clock, times: int = 6) -> list[str]:
    """Let a task recur: its first run fails, its second one is tried twice, the others succeed. Return their ids."""
    record, found = added(store, clock(), repeat="every hour"), list[str]()
    for number in range(1, times + 1):
        claim = restarted(store, store.tasks.get(TENANT, record.task.id))
        if number == 2:
            again = settlement(claim, State.RETRYING, wake_at=clock(), reason="the giraffe is asleep")
            store.claims.settle([again])
            claim = restarted(store, store.tasks.get(TENANT, record.task.id))
        following = a_run(record.task, clock() + timedelta(hours=1), number=number + 1)
        state, error = (State.FAILED, "the zebra is out") if number == 1 else (State.SUCCEEDED, None)
        store.claims.settle([settlement(claim, state, next_run=following, error=error, reason=error)])
        found.append(claim.run.id)
        clock.forward(hours=1)
    indexed(store)
    return found


def indexed(store: Store) -> None:
    while store.search.advance():
        pass


def saying(store: Store, words: str) -> list[str]:
    return [run.id for run in store.run_history.page(TENANT, RunFilter(text=words), limit=9).runs]


def reasons_of(store: Store, run_id: str) -> list[str]:
    found = store.history.events(TENANT, EventFilter(), limit=99).events
    return [event.reason for event in found if event.run_id == run_id and event.reason]


@pytest.mark.parametrize("kinds", [(RetentionKind.EVENTS,), (RetentionKind.EVENTS, RetentionKind.LOGS)])
def test_the_error_of_an_old_run_and_the_reason_of_an_old_attempt_are_found_without_the_other_events(
    store: Store, clock: Clock, kinds: tuple[RetentionKind, ...]
) -> None:
    failed, tried, *_ = recurred(store, clock)
    clock.forward(days=31)
    swept(store, *kinds)
    assert (saying(store, "zebra is"), saying(store, "giraffe")) == ([failed], [tried])


def test_events_that_a_search_finds_go_when_nothing_says_the_same_any_more(store: Store, clock: Clock) -> None:
    failed, tried, *_ = recurred(store, clock)
    clock.forward(days=31)
    swept(store, RetentionKind.EVENTS)
    assert reasons_of(store, failed) == ["the zebra is out"]
    assert reasons_of(store, tried) == ["the giraffe is asleep"]
    swept(store, RetentionKind.ATTEMPTS)
    swept(store, RetentionKind.EVENTS)
    assert reasons_of(store, failed) == ["the zebra is out"], "the run itself still says it"
    assert reasons_of(store, tried) == []


@pytest.mark.parametrize("index_is_made_again", [False, True])
def test_deleted_runs_are_found_by_their_text_when_an_import_has_brought_them_back(
    store: Store, clock: Clock, tmp_path: Path, *, index_is_made_again: bool
) -> None:
    failed, tried, *_ = recurred(store, clock)
    [run] = store.run_history.page(TENANT, RunFilter(text="zebra is"), limit=9).runs
    cancelled(store, store.tasks.get(TENANT, run.task_id))
    clock.forward(days=31)
    for _ in range(3):
        added(store, clock(), title="Newer")
    list(Sweep(store, RetentionPolicy((RetentionRule(RetentionKind.TASKS, KEPT),), tmp_path)).run())
    if index_is_made_again and not isinstance(store._database, Postgres):
        store._database.write(lambda connection: connection.exec_driver_sql("DROP TABLE search_reason_terms"))
    indexed(store)
    assert (saying(store, "zebra is"), saying(store, "giraffe")) == ([], [])
    for path in tmp_path.rglob("*.jsonl.gz"):
        store.retention.import_file(path)
    indexed(store)
    assert (saying(store, "zebra is"), saying(store, "giraffe")) == ([failed], [tried])
    titled = store.run_history.page(TENANT, RunFilter(title="call j"), limit=99).runs
    assert {failed, tried} <= {each.id for each in titled}
