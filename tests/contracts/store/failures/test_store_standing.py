"""Filters by how runs stand within their states: unverified, without what is expected, and blocked."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.events import EventKind
from duetime.scheduler.history.runs import RunFilter
from duetime.scheduler.outcomes import Done, Outcome, Wait
from duetime.scheduler.records import Change
from duetime.scheduler.rules.settlement import Unverified, settle
from duetime.scheduler.rules.states import blocked_by
from duetime.scheduler.store import Store
from duetime.scheduler.task import State
from duetime.scheduler.views import Standing, TaskFilter, TaskRecord
from duetime.tools.arguments.filters import parts_of

from tests.builders import TENANT, Clock, added, cancelled, restarted, settlement, started

UNMET = Unverified("ordered", {}, miss="the result has no `id`")
BLOCKED = Wait(timedelta(minutes=1), "blocked: no key")


def ended(store: Store, record: TaskRecord, outcome: Outcome) -> str:
    claim = restarted(store, record)
    store.claims.settle([settle(claim, outcome, now=store.now(), jitter=0.0)])
    return record.task.id


def listed(store: Store, standing: Standing, tenant: str = TENANT) -> list[str]:
    return found_by(store, TaskFilter(standing=standing), tenant)


def found_by(store: Store, where: TaskFilter, tenant: str = TENANT) -> list[str]:
    found, _, counts = store.tasks.page_and_counts(tenant, where, limit=99, most=99)
    assert sum(counts.by_state.values()) == len(found)
    assert sum(store.tasks.counts(tenant, where).values()) == len(found)
    return [each.task.id for each in found]


def test_a_task_is_unverified_while_its_last_run_is(store: Store, clock: Clock) -> None:
    once = ended(store, added(store), UNMET)
    ended(store, added(store), Done("ordered"))
    series = added(store, repeat="FREQ=DAILY", title="Sync")
    ended(store, series, UNMET)
    assert sorted(listed(store, Standing.UNVERIFIED)) == sorted([once, series.task.id])
    assert listed(store, Standing.UNVERIFIED, "other") == []
    clock.forward(days=1)
    ended(store, series, Done("ordered"))
    assert listed(store, Standing.UNVERIFIED) == [once]
    runs = store.run_history.page(TENANT, RunFilter(standing=Standing.UNVERIFIED), limit=9).runs
    assert {(run.task_id, run.error) for run in runs} == {
        (once, "the result has no `id`"),
        (series.task.id, "the result has no `id`"),
    }


def test_a_task_is_blocked_until_it_runs_again(store: Store, clock: Clock) -> None:
    blocked = ended(store, added(store), BLOCKED)
    ended(store, added(store), Wait(timedelta(minutes=1), "no answer"))
    record = store.tasks.get(TENANT, blocked)
    assert (record.run.state, blocked_by(record.run)) == (State.SUSPENDED, "no key")
    assert listed(store, Standing.BLOCKED) == [blocked]
    runs = store.run_history.page(TENANT, RunFilter(standing=Standing.BLOCKED), limit=9).runs
    assert [run.task_id for run in runs] == [blocked]
    clock.forward(minutes=2)
    ended(store, record, Done("ordered"))
    assert listed(store, Standing.BLOCKED) == []


@pytest.mark.parametrize("query", [None, "sync"])
def test_a_task_is_paused_until_it_is_resumed_and_so_is_its_run_unless_it_is_running(
    store: Store, clock: Clock, query: str | None
) -> None:
    series = added(store, repeat="FREQ=DAILY", title="Sync mail")
    once, running = (added(store, title=f"Sync {name}") for name in ("files", "photos"))
    added(store, title="Sync notes")
    claim = restarted(store, running)
    for record in (series, once, running):
        paused(store, record)
    where = TaskFilter(standing=Standing.PAUSED, query=query)
    assert sorted(found_by(store, where)) == sorted(each.task.id for each in (series, once, running))
    assert found_by(store, where, "other") == []
    assert found_by(store, replace(where, states=(State.RUNNING,))) == [running.task.id]
    runs = store.run_history.page(TENANT, RunFilter(standing=Standing.PAUSED), limit=9).runs
    assert {(run.task_id, run.stands) for run in runs} == {(each.task.id, "paused") for each in (series, once)}
    store.claims.settle([settlement(claim)])
    cancelled(store, once)
    assert found_by(store, where) == [series.task.id]
    paused(store, series, paused=False)
    assert found_by(store, where) == []


def paused(store: Store, record: TaskRecord, *, paused: bool = True) -> None:
    def decide(found: TaskRecord) -> Change:
        return Change(replace(found.task, paused=paused), found.run)

    kind = EventKind.PAUSED if paused else EventKind.RESUMED
    store.tasks.change(TENANT, record.task.id, actor="alice", kind=kind, decide=decide)


def test_the_next_run_of_a_series_that_was_paused_while_it_ran_is_among_the_paused_ones(
    store: Store, clock: Clock
) -> None:
    series = added(store, repeat="FREQ=DAILY", title="Sync")
    claim = restarted(store, series)
    paused(store, series)
    claim = replace(claim, task=store.tasks.get(TENANT, series.task.id).task)
    store.claims.settle([settle(claim, Done("synced"), now=store.now(), jitter=0.0)])
    [run] = store.run_history.page(TENANT, RunFilter(standing=Standing.PAUSED), limit=9).runs
    assert (run.state, run.stands) == (State.SCHEDULED, "paused")


@pytest.mark.parametrize("label", [None, "mail"])
def test_a_task_waits_also_where_its_handler_asked(store: Store, clock: Clock, label: str | None) -> None:
    labels = (label,) if label else ()
    asks = ended(store, added(store, labels=labels), Wait(approval="Send 500 mails?", by=timedelta(days=7)))
    awaits = ended(store, added(store, labels=labels), Wait(event="paid", timeout=timedelta(days=7)))
    ended(store, added(store, labels=labels), Wait(timedelta(minutes=1), "no answer"))
    ended(store, added(store, labels=labels), BLOCKED)
    where = TaskFilter(states=(State.WAITING,), label=label)
    assert sorted(found_by(store, where)) == sorted([asks, awaits])
    assert store.tasks.counts(TENANT, where) == {State.SUSPENDED: 2}
    assert len(found_by(store, replace(where, states=(State.WAITING, State.SUSPENDED)))) == 4
    assert found_by(store, where, "other") == []
    clock.forward(days=7)
    assert store.approvals.expire(limit=9) == [asks]
    assert found_by(store, where) == [awaits]


def test_a_standing_is_a_word_of_its_own_in_filters_of_states() -> None:
    assert parts_of("paused") == {"states": (), "standing": Standing.PAUSED}
    assert parts_of("blocked") == {"states": (), "standing": Standing.BLOCKED}
    assert parts_of("failed, expired") == {"states": (State.FAILED, State.EXPIRED), "standing": None}
    with pytest.raises(InvalidArgument, match="unverified stands alone"):
        parts_of("failed, unverified")


def test_a_cancelled_run_says_by_whom_and_why(store: Store, clock: Clock) -> None:
    cancelled(store, added(store, clock.at + timedelta(hours=1)), reason="he called")
    stopped = started(store, clock.at)

    def ask(record: TaskRecord) -> Change:
        return Change(record.task, replace(record.run, cancel_requested=True), kind=EventKind.CANCEL_REQUESTED)

    store.tasks.change(TENANT, stopped.task.id, actor="carol", kind=EventKind.CANCELLED, decide=ask, reason="too slow")
    end = settlement(stopped, State.CANCELLED, reason="cancelled while it ran")
    store.claims.settle([end, settlement(started(store, clock.at))])
    found = store.run_history.page(TENANT, RunFilter(), limit=9).runs
    assert {run.why for run in found} == {None, "cancelled by carol: too slow", "cancelled by alice: he called"}
