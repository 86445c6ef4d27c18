"""Queries that every dispatcher and every rebuild repeats are answered from an index, however many runs there are.

SQLite says so without statistics, the same every time; the indexes are those of PostgreSQL too.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from duetime.scheduler.events import EventFilter
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.history.dead_letters import DeadLetterFilter
from duetime.scheduler.history.events import EventGroup
from duetime.scheduler.history.runs import RunFilter, RunGroup
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store, open_store
from duetime.scheduler.store.statements import side_runs
from duetime.scheduler.store.statements.series import generation_overtake
from duetime.scheduler.store.text_index import sqlite_index, text_search
from duetime.scheduler.task import State
from duetime.scheduler.views import TaskFilter
from sqlalchemy import event

from tests.builders import NOON, TENANT, Clock, added, counted

Ask = Callable[[Store], object]
TASKS, RUNS = ([f"{kind}_{number}k3m9qx2w4h" for number in range(10, 99)] for kind in "tr")


QUESTIONS: dict[str, tuple[Ask, set[str]]] = {
    "next_times": (lambda store: store.claims.next_times(), {"runs_wake", "runs_drop", "tasks_paused_until"}),
    "make_ready": (lambda store: store.claims.make_ready(limit=9), {"runs_wake"}),
    "forget_keys": (lambda store: store.tasks.forget_keys(limit=9), {"idempotency_keys_by_look"}),
    "note_paused": (lambda store: store.claims.note_paused(limit=9), {"runs_wake"}),
    "expire": (lambda store: store.claims.expire(limit=9), {"runs_drop"}),
    "relax": (lambda store: store.claims.relax(limit=9), {"runs_drop"}),
    "end_pauses": (lambda store: store.series.end_pauses(limit=9), {"tasks_paused_until"}),
    "ready": (lambda store: store.claims.ready(limit=9), {"runs_active"}),
    "the next page of ready": (lambda store: store.claims.ready(limit=9, after="r_1"), {"runs_active"}),
    "running": (lambda store: store.claims.running(limit=9), {"attempts_open"}),
    "recover": (lambda store: store.claims.recover(epoch=1), {"attempts_open"}),
    "recover_lapsed": (
        lambda store: store.claims.recover_lapsed(epoch=None, held=(), before=NOON),
        {"attempts_open"},
    ),
    "usage": (lambda store: store.usage.since({"tokens": NOON}), {"usage_by_pool"}),
    "the look for a twin": (added, {"runs_by_twin"}),
    "counts": (lambda store: counted(store, TaskFilter(), 9), {"runs_by_phase", "attempts_open", "runs_failed"}),
    "events by what their runs say": (
        lambda store: store.history.events(TENANT, EventFilter(worker="w1", error="503", min_cost=Decimal(1)), limit=9),
        {"events_by_time", "sqlite_autoindex_runs_1"},
    ),
    "open dead letters": (
        lambda store: list(store.dead_letters.ids(TENANT, DeadLetterFilter())),
        {"dead_letters_by_state"},
    ),
    "the count of open dead letters": (
        lambda store: store.dead_letters.count(TENANT, DeadLetterFilter()),
        {"dead_letters_by_state"},
    ),
    "dead letters of a task": (
        lambda store: store.dead_letters.count(TENANT, DeadLetterFilter(None, task_id="t_1")),
        {"dead_letters_by_task"},
    ),
    "tasks with open dead letters": (
        lambda store: store.dead_letters.open_runs(TENANT, ["t_1", "t_2"]),
        {"dead_letters_by_task"},
    ),
    "failures": (lambda store: store.tasks.page(TENANT, TaskFilter((State.FAILED,)), limit=9), {"runs_failed"}),
}

SORTS_ALL = re.compile(r"TEMP B-TREE FOR (?:ORDER|GROUP|DISTINCT)")
"""Sorts of every row. The right part of an order is sorted among the few rows that share its left part."""

PARTIAL = {"runs_active", "attempts_open"}
"""Indexes that hold only what is asked for, so that all of one may be read."""


def plans(store: Store, ask: Ask) -> list[str]:
    """Return how SQLite finds what the question asks for, one line for each table."""
    asked: list[tuple[str, Any]] = []

    def note(_connection: object, _cursor: object, sql: str, values: Any, *_: object) -> None:
        if sql.lstrip().startswith(("SELECT", "WITH")):
            asked.append((sql, values))

    engine = store._database.engine
    event.listen(engine, "before_cursor_execute", note)
    ask(store)
    event.remove(engine, "before_cursor_execute", note)
    with engine.connect() as connection:
        found = [connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {sql}", values).all() for sql, values in asked]
    return [row.detail for rows in found for row in rows]


@pytest.mark.parametrize("name", QUESTIONS)
def test_no_question_of_the_machinery_looks_at_every_run_or_sorts_them(name: str, tmp_path: Path) -> None:
    ask, indexes = QUESTIONS[name]
    store = open_store(f"sqlite:///{tmp_path}/duetime.db", clock=Clock())
    store.runners.take_over(pid=1, endpoint="", token="")
    steps = plans(store, ask)
    store.close()
    assert {index for index in indexes if any(f"INDEX {index}" in step for step in steps)} == indexes
    assert [step for step in steps if SORTS_ALL.search(step)] == []
    assert [step for step in steps if step.startswith("SCAN runs") and PARTIAL.isdisjoint(step.split())] == []


@pytest.mark.parametrize(
    "ask",
    [
        lambda store: store.tasks.titles(TENANT, TASKS),
        lambda store: store.tasks.of_runs(TENANT, RUNS),
        lambda store: store.batches.still(TENANT, TASKS),
        lambda store: store.dependencies.known(TENANT, TASKS),
        lambda store: store.dead_letters.open_tasks(TENANT, RUNS),
    ],
    ids=["titles", "of_runs", "still", "known", "open_tasks"],
)
def test_rows_that_ids_name_are_looked_up_by_these_and_not_among_all_of_their_tenant(ask: Ask, tmp_path: Path) -> None:
    with closing(open_store(f"sqlite:///{tmp_path}/duetime.db", clock=Clock())) as store:
        steps = plans(store, ask)
    assert steps
    assert [step for step in steps if step.endswith("(tenant=?)")] == []


@pytest.mark.parametrize(
    "ask",
    [lambda store: store.usage.since({"tenant:*": NOON}), lambda store: store.usage.first("tenant:*")],
    ids=["since", "first"],
)
def test_the_use_of_a_template_is_looked_up_pool_by_pool(ask: Ask, tmp_path: Path) -> None:
    with closing(open_store(f"sqlite:///{tmp_path}/duetime.db", clock=Clock())) as store:
        steps = [step for step in plans(store, ask) if " usage" in step]
    of_one = [step for step in steps if "INDEX usage_by_pool (pool" in step]
    assert (len(steps), len(of_one)) == (3, 2), steps  # the first pool, each next one, and the use of one


DAY = TaskFilter(after=NOON, before=NOON + timedelta(days=1))
AMONG_CHAINS: dict[str, Ask] = {
    "agenda": lambda store: store.tasks.agenda(
        TENANT, TaskFilter(after=NOON, before=NOON + timedelta(days=1)), limit=9
    ),
    "the end of a run": lambda store: store._database.read(lambda each: side_runs.succeed(each, ["r_1"])),
}


@pytest.mark.parametrize("ask", AMONG_CHAINS.values(), ids=AMONG_CHAINS)
def test_whether_a_task_is_a_step_is_looked_up_by_its_id_however_many_chains_others_have(
    ask: Ask, tmp_path: Path
) -> None:
    with closing(open_store(f"sqlite:///{tmp_path}/duetime.db", clock=Clock())) as store:
        steps = plans(store, ask)
    assert any(step.startswith("SEARCH chain_steps") for step in steps)
    whole = ("SCAN chain_steps", "SCAN dependencies", "SCAN own", "SCAN above")
    assert [step for step in steps if step.startswith(whole)] == []


FROM_NOW_ON = TaskFilter(after=NOON)
LISTS: dict[str, Ask] = {
    "a page": lambda store: store.tasks.page(TENANT, TaskFilter((State.RUNNING,)), limit=9),
    "the counts": lambda store: counted(store, TaskFilter((State.RUNNING,)), 9),
    "a window": lambda store: store.tasks.agenda(TENANT, DAY, limit=9),
}


@pytest.mark.parametrize("ask", LISTS.values(), ids=LISTS)
def test_extra_runs_of_a_list_are_found_among_those_that_are_open_and_not_in_the_history(
    ask: Ask, tmp_path: Path
) -> None:
    with closing(open_store(f"sqlite:///{tmp_path}/duetime.db", clock=Clock())) as store:
        added(store, repeat="FREQ=DAILY")
        steps = [step for step in plans(store, ask) if step.split()[1] == "side"]
    assert steps
    assert all("INDEX runs_side" in step for step in steps), steps


HELD_LATER: dict[str, Ask] = {
    "a page": lambda store: store.tasks.page(TENANT, FROM_NOW_ON, limit=9),
    "the counts": lambda store: counted(store, FROM_NOW_ON, 9),
}


@pytest.mark.parametrize("ask", HELD_LATER.values(), ids=HELD_LATER)
def test_a_list_without_an_end_reads_no_open_run_before_its_start_but_those_that_a_pause_holds(
    ask: Ask, tmp_path: Path
) -> None:
    with closing(open_store(f"sqlite:///{tmp_path}/duetime.db", clock=Clock())) as store:
        steps = plans(store, ask)
    assert any(step == "SEARCH runs USING INDEX runs_open (tenant=? AND listed_at>?)" for step in steps)
    assert [step for step in steps if "INDEX runs_open (tenant=? AND listed_at<?)" in step] == []
    assert [step for step in steps if step.startswith("SCAN runs")] == []


def test_tasks_outside_a_generation_are_looked_up_by_its_steps(tmp_path: Path) -> None:
    with closing(open_store(f"sqlite:///{tmp_path}/duetime.db", clock=Clock())) as store:
        outside = generation_overtake.OUTSIDE
        steps = plans(
            store,
            lambda store: store._database.read(lambda each: each.execute(outside, {"task_ids": ["t_1", "t_2"]}).all()),
        )
    found = [step for step in steps if "dependencies" in step]
    assert len(found) == 2  # those before the steps, and those after them
    assert all("(task_id=?" in step or "(upstream_id=?" in step for step in found), found


def test_waiters_of_a_task_that_no_other_comes_after_are_not_searched(tmp_path: Path) -> None:
    with closing(open_store(f"sqlite:///{tmp_path}/duetime.db", clock=Clock())) as store:
        alone = added(store).task.id
        steps = plans(store, lambda store: store.dependencies.waiters(TENANT, alone))
    assert steps == ["SEARCH tasks USING INDEX sqlite_autoindex_tasks_1 (id=?)"]


def test_a_change_of_links_reads_no_table_whole(tmp_path: Path) -> None:
    with closing(open_store(f"sqlite:///{tmp_path}/duetime.db", clock=Clock())) as store:
        upstreams = store.dependencies.known
        scheduler = Scheduler(store, Planner(Handlers.load(entry_points=False), zone="UTC", upstreams=upstreams))
        first, second = (scheduler.schedule(title, when="in 2 hours").record.task.id for title in ("First", "Second"))
        steps = plans(store, lambda _: scheduler.reschedule(second, after=[first]))
    assert any(step.startswith("SEARCH dependencies") for step in steps)
    gathered = {"SCAN CONSTANT ROW", "SCAN above", "SCAN near", "MATERIALIZE near"}  # found by their ids
    assert [step for step in steps if step.startswith(("SCAN", "MATERIALIZE")) and step not in gathered] == []


def test_a_search_of_many_titles_begins_with_the_events_that_their_index_lacks(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/duetime.db"
    with closing(open_store(url, clock=Clock())) as store, store._database.engine.begin() as connection:
        sqlite_index.create(connection)
        connection.exec_driver_sql("ANALYZE")
        large = [("tasks", "tasks_by_age", "200000 200000 1"), ("events", "events_by_time", "4000000 4000000 4 1")]
        connection.exec_driver_sql("INSERT INTO sqlite_stat1 VALUES (?, ?, ?)", large)
    with closing(open_store(url, clock=Clock())) as store:
        look = plans(store, lambda store: store._database.read(lambda each: text_search.rare_words(each, "seldom")))
    assert any("SEARCH events" in step for step in look)
    assert [step for step in look if step.startswith("SCAN tasks")] == []


@pytest.mark.parametrize(
    "ask",
    [
        lambda store: store.run_history.counts(TENANT, RunFilter(), RunGroup.LABEL),
        lambda store: store.history.event_counts(TENANT, EventFilter(), EventGroup.LABEL),
    ],
    ids=["runs", "events"],
)
def test_a_count_by_label_reads_the_tasks_of_what_is_counted_and_no_labels_of_others(ask: Ask, tmp_path: Path) -> None:
    with closing(open_store(f"sqlite:///{tmp_path}/duetime.db", clock=Clock())) as store:
        steps = plans(store, ask)
    assert [step for step in steps if "task_labels" in step] == []
    assert {step for step in steps if " tasks " in step} == {"SEARCH tasks USING INDEX sqlite_autoindex_tasks_1 (id=?)"}
