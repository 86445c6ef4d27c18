"""Failed tasks: those whose latest ended run failed, whether they are over or scheduled again."""

from __future__ import annotations

from datetime import timedelta

import pytest
from duetime.scheduler.events import EventKind
from duetime.scheduler.outcomes import Done, Failed, Outcome, Retry
from duetime.scheduler.records import Change
from duetime.scheduler.rules import changes
from duetime.scheduler.rules.settlement import settle
from duetime.scheduler.run_records import Start
from duetime.scheduler.store import Store
from duetime.scheduler.store.schema.rows import LAST_FAILURE
from duetime.scheduler.store.schema.tables.tasks import runs
from duetime.scheduler.task import DeadlineType, RetryPolicy, State
from duetime.scheduler.views import TaskFilter, TaskRecord
from sqlalchemy import func, select

from tests.builders import LEASE, NOON, TENANT, Clock, added, cancelled, counted

DAY = timedelta(days=1)
HOUR = timedelta(hours=1)
FAILED = TaskFilter((State.FAILED,))
DAILY = "FREQ=DAILY"


def run(store: Store, clock: Clock, record: TaskRecord, outcome: Outcome) -> None:
    """Let everything that is due at the time of a task run, and end with an outcome."""
    clock.at = max(clock.at, store.tasks.get(TENANT, record.task.id).run.scheduled_for)
    ready = [Start(each.run_id) for each in store.claims.make_ready(limit=9)]
    claims = store.claims.start(ready, worker="w", epoch=None, lease=LEASE)
    store.claims.settle([settle(claim, outcome, now=clock.at, jitter=0.0) for claim in claims])


def listed(store: Store, where: TaskFilter = FAILED, *, limit: int = 9) -> list[str]:
    found: list[str] = []
    cursor = None
    while True:
        page, cursor = store.tasks.page(TENANT, where, limit=limit, cursor=cursor)
        found += [record.task.id for record in page]
        if cursor is None:
            return found


def daily(store: Store, **values: object) -> TaskRecord:
    return added(store, NOON, repeat=DAILY, timezone="UTC", **values)


def run_now(store: Store, clock: Clock, record: TaskRecord) -> None:
    def decide(found: TaskRecord) -> Change:
        return changes.run_now(found, clock.at)

    store.tasks.change(TENANT, record.task.id, actor="alice", kind=EventKind.RUN_NOW, decide=decide)


def test_a_recurring_task_whose_last_run_failed_is_listed_until_one_succeeds(store: Store, clock: Clock) -> None:
    report = daily(store)
    run(store, clock, report, Failed("no such file"))
    [found], _ = store.tasks.page(TENANT, FAILED, limit=9)
    assert (found.task.id, found.run.state) == (report.task.id, State.SCHEDULED)
    assert found.last_run is not None
    assert (found.last_run.state, found.last_run.error, found.last_run.attempt) == (State.FAILED, "no such file", 1)
    assert found.last_run.ended_at == NOON

    run(store, clock, report, Failed("still none"))
    assert listed(store) == [report.task.id]
    run(store, clock, report, Done("there it is"))
    assert listed(store) == []
    assert counted(store, TaskFilter(), 9).by_state == {State.SCHEDULED: 1}


def test_the_attempt_after_which_no_other_is_made_has_failed_for_good(store: Store, clock: Clock) -> None:
    report = added(store, NOON, retry=RetryPolicy(max_attempts=2))
    run(store, clock, report, Retry("no answer"))
    clock.forward(hours=1)
    run(store, clock, report, Retry("no answer"))
    assert store.tasks.get(TENANT, report.task.id).run.state is State.FAILED
    assert [attempt.outcome for attempt in store.history.attempts(TENANT, report.task.id)] == ["retry", "failed"]


@pytest.mark.parametrize("limit", [1, 2, 3, 9])
def test_failures_come_newest_first_whether_a_task_is_over_or_recurs(store: Store, clock: Clock, limit: int) -> None:
    wanted: list[str] = []
    for number in range(6):
        record = added(store, clock.at, title=f"task {number}", repeat=DAILY if number % 2 else None, timezone="UTC")
        run(store, clock, record, Failed("no"))
        wanted.insert(0, record.task.id)
        clock.forward(minutes=1)
    added(store, clock.at + HOUR)
    assert listed(store, limit=limit) == wanted


def test_a_task_has_one_mark_however_often_it_failed_and_none_after_a_success(store: Store, clock: Clock) -> None:
    """So the cost of a list does not grow with the history."""

    def marks() -> int:
        marked = select(func.count()).select_from(runs).where(LAST_FAILURE)
        return store._database.read(lambda connection: connection.execute(marked).scalar_one())

    report = daily(store)
    for _ in range(3):
        run(store, clock, report, Failed("no"))
        assert marks() == 1
    run(store, clock, report, Done("there"))
    assert marks() == 0


def test_counts_of_failures_are_those_of_the_list_of_them(store: Store, clock: Clock) -> None:
    report, once = daily(store, labels=("work",)), added(store, NOON)
    run(store, clock, report, Failed("no"))
    for where in (TaskFilter(), TaskFilter(query="call"), TaskFilter(before=NOON + 30 * DAY)):
        found = counted(store, where, 9)
        assert found.by_state == {State.SCHEDULED: 1, State.FAILED: 2}, where
        assert store.tasks.counts(TENANT, where) == found.by_state
    for where, ids in {
        FAILED: {report.task.id, once.task.id},
        TaskFilter(FAILED.states, label="work"): {report.task.id},
        TaskFilter(FAILED.states, query="CALL"): {report.task.id, once.task.id},
        TaskFilter(FAILED.states, query="nobody"): set(),
        TaskFilter(FAILED.states, action="webhook"): set(),
        TaskFilter(FAILED.states, after=NOON): {report.task.id, once.task.id},
        TaskFilter(FAILED.states, before=NOON): set(),
    }.items():
        assert set(listed(store, where)) == ids, where
        assert counted(store, where, 9).by_state == ({State.FAILED: len(ids)} if ids else {}), where
        assert store.tasks.counts(TENANT, where).get(State.FAILED, 0) == len(ids), where
    assert counted(store, FAILED, 1) == ({State.FAILED: 1}, frozenset({State.FAILED}))
    assert counted(store, TaskFilter((State.SCHEDULED,)), 9).by_state == {State.SCHEDULED: 1}
    assert store.tasks.page("other", FAILED, limit=9) == ([], None)


def test_tasks_that_are_over_are_counted_as_they_are_listed(store: Store, clock: Clock) -> None:
    over = TaskFilter((State.SUCCEEDED, State.FAILED, State.CANCELLED, State.EXPIRED, State.SKIPPED))
    daily(store)
    once = added(store, NOON)
    run(store, clock, once, Failed("no"))
    assert listed(store, over) == [once.task.id]
    assert counted(store, over, 9).by_state == {State.FAILED: 1}


def test_a_failed_task_that_runs_again_is_listed_until_that_has_ended_well(store: Store, clock: Clock) -> None:
    once = added(store, NOON, timezone="UTC")
    run(store, clock, once, Failed("no"))
    run_now(store, clock, once)
    assert listed(store) == [once.task.id]
    run(store, clock, once, Retry("almost", after=HOUR))
    assert listed(store) == [once.task.id]
    clock.forward(hours=2)
    run(store, clock, once, Done("there"))
    assert listed(store) == []


def test_a_skipped_occurrence_is_no_success(store: Store, clock: Clock) -> None:
    report = daily(store)
    run(store, clock, report, Failed("no"))
    store.tasks.change(
        TENANT,
        report.task.id,
        actor="alice",
        kind=EventKind.SKIPPED,
        decide=lambda found: changes.skip_next(found, clock.at),
    )
    assert listed(store) == [report.task.id]
    cancelled(store, store.tasks.get(TENANT, report.task.id))
    assert listed(store) == [report.task.id]


def test_an_occurrence_that_expired_is_listed_as_expired(store: Store, clock: Clock) -> None:
    task, values = "Report", {"deadline_after": HOUR, "deadline_type": DeadlineType.HARD}
    record = daily(store, title=task, **values)
    store.tasks.change(
        TENANT,
        record.task.id,
        actor="alice",
        kind=EventKind.RESCHEDULED,
        decide=lambda found: changes.move(found, NOON + HOUR, clock.at),
    )
    clock.forward(days=1)
    assert [each.task_id for each in store.claims.expire(limit=9)] == [record.task.id]
    assert listed(store, TaskFilter((State.EXPIRED,))) == [record.task.id]
    assert listed(store, TaskFilter((State.EXPIRED, State.FAILED))) == [record.task.id]
    assert listed(store) == []
    assert counted(store, TaskFilter(), 9).by_state[State.EXPIRED] == 1


def test_a_run_on_the_side_that_ends_after_a_later_occurrence_does_not_hide_it(store: Store, clock: Clock) -> None:
    """The card shows the run that was due last; the list of failures agrees."""
    report = daily(store)
    run(store, clock, report, Done("first"))
    clock.forward(hours=1)
    run_now(store, clock, report)
    [aside] = store.claims.start(
        [Start(each.run_id) for each in store.claims.make_ready(limit=9)], worker="w", epoch=None, lease=10 * DAY
    )
    run(store, clock, report, Failed("no"))
    store.claims.settle([settle(aside, Done("late"), now=clock.at, jitter=0.0)])
    assert listed(store) == [report.task.id]


@pytest.mark.parametrize("repeat", [None, DAILY], ids=["once", "recurring"])
def test_a_run_that_waited_in_vain_has_expired_and_may_run_again(
    store: Store, clock: Clock, repeat: str | None
) -> None:
    record = added(store, NOON, repeat=repeat, timezone="UTC")
    run(store, clock, record, Failed("nothing came", {"looks": 3}, expired=True))
    [message] = store.inbox.unread(TENANT, "alice", limit=9)
    assert (message.state, message.text) == (State.EXPIRED, "nothing came")
    assert not store.dead_letters.page(TENANT, limit=9)[0]
    [attempt] = store.history.attempts(TENANT, record.task.id)
    assert (attempt.outcome, attempt.reason) == ("expired", "nothing came")
    assert listed(store, TaskFilter((State.EXPIRED,))) == [record.task.id]
    if repeat is None:
        run_now(store, clock, record)
    run(store, clock, record, Done("came"))
    assert store.history.attempts(TENANT, record.task.id)[-1].outcome == "done"
