"""The work of some time: what ended, what was missed and how late, what it cost, and the trend."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

from duetime.scheduler.foresight.report_text import report_lines
from duetime.scheduler.history.work_report import ActionWork
from duetime.scheduler.records import RunHolder, WorkerProcess
from duetime.scheduler.run_records import Start
from duetime.scheduler.store import Store
from duetime.scheduler.task import State

from tests.builders import LEASE, NOON, TENANT, Clock, a_task, pool_act, settlement, started, with_deadline

WEEK = timedelta(days=7)


def ends(store: Store, clock: Clock, *, minutes: int, to: State = State.SUCCEEDED, **values: object) -> None:
    """Let a run with a deadline of 10 minutes end so many minutes after it is due."""
    task, run = with_deadline(*a_task(clock(), **values), after=timedelta(minutes=10))
    store.tasks.add(task, run, actor="alice")
    store.claims.make_ready(limit=9)
    [claim] = store.claims.start([Start(run.id)], worker="w", epoch=None, lease=LEASE)
    clock.forward(minutes=minutes)
    store.claims.settle([settlement(claim, to, used={"tokens": 5.0}, costs={"tokens": 2_500})])


def test_a_report_adds_up_what_ended_by_action_with_its_lateness_and_cost(store: Store, clock: Clock) -> None:
    store.pools.put("tokens", {"kind": "budget", "capacity": 100, "per": "day"}, pool_act("alice"))
    ends(store, clock, minutes=5)
    ends(store, clock, minutes=20)
    ends(store, clock, minutes=40, action="webhook")
    ends(store, clock, minutes=1, to=State.FAILED, action="webhook", tenant="globex")
    store.claims.settle([settlement(started(store, clock()))])
    clock.forward(minutes=1)
    found = store.run_history.report(None, NOON, clock())
    minutes = timedelta(minutes=1)
    assert found.work.actions == (
        ActionWork("reminder", ended=3, deadlines=2, missed=1, late=1, lateness=10 * minutes, latest=10 * minutes),
        ActionWork(
            "webhook", ended=2, failed=1, deadlines=2, missed=2, late=1, lateness=30 * minutes, latest=30 * minutes
        ),
    )
    assert found.work.units == {"tokens": 20.0}
    assert found.work.cost == Decimal("0.01")
    assert [each.action for each in found.work.worst()] == ["webhook", "reminder"]
    mine = store.run_history.report(TENANT, NOON, clock()).work
    assert (mine.total().ended, mine.units) == (4, {}), "pools are of all tenants"
    assert mine.cost == Decimal("0.0075")


def test_a_report_counts_as_dead_letters_the_failed_runs_that_have_one(store: Store, clock: Clock) -> None:
    store.claims.settle([settlement(started(store), State.FAILED, dead_letter=True)])
    store.claims.settle([settlement(started(store), State.FAILED)])  # as one that fails with a task that it came after
    clock.forward(minutes=1)
    found = store.run_history.report(TENANT, NOON, clock())
    assert found.work.actions == (ActionWork("reminder", ended=2, failed=2, dead_letters=1),)
    assert "dead letters: 1 (none the time before)" in list(report_lines(found, "UTC", "EUR"))


def test_a_report_counts_what_was_cancelled_and_not_its_deadline(store: Store, clock: Clock) -> None:
    ends(store, clock, minutes=5)
    ends(store, clock, minutes=20, to=State.CANCELLED)
    clock.forward(minutes=1)
    found = store.run_history.report(TENANT, NOON, clock())
    assert found.work.actions == (ActionWork("reminder", ended=2, cancelled=1, deadlines=1),)
    _, headline, deadlines, *_ = report_lines(found, "UTC", "EUR")
    assert headline == "2 runs ended (none the time before): 1 succeeded, 0 failed, 0 expired, 1 cancelled"
    assert deadlines == "deadlines: 0 of 1 missed (0.0%)"


def test_a_report_shows_the_trend_against_the_same_time_before(store: Store, clock: Clock) -> None:
    for count in (2, 3):
        for _ in range(count):
            ends(store, clock, minutes=1)
        clock.at = NOON + WEEK
    clock.forward(days=1)
    found = store.run_history.report(None, clock() - WEEK, clock())
    assert (found.work.total().ended, found.before.total().ended) == (3, 2)
    lines = list(report_lines(found, "UTC", "EUR"))
    assert lines[0] == "Wed 25 Nov 12:00 to Wed 02 Dec 2026 12:00 UTC"
    assert lines[1] == "3 runs ended (+50%): 3 succeeded, 0 failed, 0 expired, 0 cancelled"
    assert lines[2] == "deadlines: 0 of 3 missed (0.0%, the time before 0.0%)"
    assert lines[3:5] == ["dead letters: 0 (as before)", "cost: 0.0075 EUR (+50%)"]


def test_a_report_of_nothing_says_so(store: Store, clock: Clock) -> None:
    lines = list(report_lines(store.run_history.report(None, NOON - WEEK, NOON), "America/Edmonton", "EUR"))
    assert "cost" not in "".join(lines)
    assert lines[1:3] == [
        "0 runs ended (as before): 0 succeeded, 0 failed, 0 expired, 0 cancelled",
        "no run had a deadline",
    ]


def test_runs_of_workers_are_those_that_run_now_the_longest_first(store: Store, clock: Clock) -> None:
    ended = started(store, worker="w1")
    store.claims.settle([settlement(ended)])
    first = started(store, worker="w2", tenant="globex", action="webhook")
    clock.forward(seconds=5)
    second = started(store, worker="w1")

    assert [(run.run_id, run.worker, run.tenant, run.action, run.attempt) for run in store.workers.runs()] == [
        (first.run.id, "w2", "globex", "webhook", 1),
        (second.run.id, "w1", TENANT, "reminder", 1),
    ]
    assert [run.run_id for run in store.workers.runs(limit=1)] == [first.run.id]


def test_the_holder_of_a_running_run_is_told_with_its_last_sign_and_the_end_of_its_lease(
    store: Store, clock: Clock
) -> None:
    seen, unseen = started(store, clock(), worker="w_seen"), started(store, clock(), worker="w_unseen")
    store.workers.beat(WorkerProcess("w_seen", "host", 1, 2, NOON))
    ended = started(store, clock(), worker="w_seen")
    store.claims.settle([settlement(ended)])
    assert store.workers.holders([each.run.id for each in (seen, unseen, ended)]) == {
        seen.run.id: RunHolder("w_seen", NOON, NOON + LEASE),
        unseen.run.id: RunHolder("w_unseen", None, NOON + LEASE),
    }
