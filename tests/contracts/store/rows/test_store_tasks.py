"""Tasks are added once, read whole, and changed only by who has seen the newest."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from functools import partial

import pytest
from duetime.scheduler.errors import IdempotencyConflict, IllegalMove, Refused, StaleRevision, TaskNotFound
from duetime.scheduler.events import EventFilter, EventKind
from duetime.scheduler.records import Change, IdempotencyKey, NewTask
from duetime.scheduler.run_records import Start
from duetime.scheduler.store import Store
from duetime.scheduler.task import Json, RetryPolicy, Run, State
from duetime.scheduler.views import TaskFilter, TaskRecord

from tests.builders import (
    NOON,
    TENANT,
    Clock,
    a_run,
    a_task,
    added,
    cancelled,
    runs_of,
    settlement,
    started,
)

MINUTE = timedelta(minutes=1)


def a_key(
    name: str = "k1", *, derived: bool = False, expires_at: datetime | None = None, **content: Json
) -> IdempotencyKey:
    return IdempotencyKey(name, content or {"title": "Call John"}, expires_at, derived)


# --- adding and reading -------------------------------------------------------------------------------------------


def test_a_task_is_read_back_as_it_was_added(store: Store) -> None:
    task, run = a_task(
        NOON + timedelta(microseconds=123_457),
        title="Zahnarzt \N{TOOTH} anrufen",
        repeat="FREQ=DAILY",
        until=NOON + timedelta(days=9),
        max_runs=7,
        retry=RetryPolicy(2, timedelta(milliseconds=1500), timedelta(minutes=3)),
    )
    result = store.tasks.add(task, run, actor="alice")
    assert result.created
    assert result.record == store.tasks.get(TENANT, task.id) == TaskRecord(task, run)
    [event] = store.history.events(TENANT, EventFilter(task_id=task.id), limit=9).events
    assert (event.kind, event.actor, event.seq, event.from_state) == (EventKind.CREATED, "alice", 1, None)
    assert event.to_state is State.SCHEDULED
    assert event.after is not None
    assert event.after["scheduled_for"] == run.scheduled_for.isoformat()


def test_instants_come_back_in_utc_and_naive_ones_are_refused(store: Store) -> None:
    east = timezone(timedelta(hours=5, minutes=45))
    record = added(store, datetime(2026, 11, 25, 0, 0, tzinfo=east))
    stored = store.tasks.get(TENANT, record.task.id).run.scheduled_for
    assert stored == datetime(2026, 11, 24, 18, 15, tzinfo=UTC)
    assert stored.tzinfo is UTC
    with pytest.raises(Exception, match="naive"):
        added(store, datetime(2026, 11, 25))  # noqa: DTZ001 - that is the point


def test_words_that_no_database_can_store_do_not_fail_a_write(store: Store) -> None:
    claim = started(store)
    ended = settlement(claim, summary="a\0b", error="\ud800", result={"k\0": ["\udfff", "é"]})
    store.claims.settle([ended])
    run = store.tasks.get(TENANT, claim.task.id).run
    assert (run.summary, run.error, run.result) == ("a\ufffdb", "\ufffd", {"k\ufffd": ["\ufffd", "é"]})


def test_adding_many_is_all_or_nothing(store: Store) -> None:
    good, bad = a_task(), a_task()
    items = [NewTask(*good, "alice"), NewTask(bad[0], replace(bad[1], state=State.RUNNING), "alice")]
    with pytest.raises(IllegalMove):
        store.tasks.add_many(items)
    assert store.tasks.page(TENANT, TaskFilter(), limit=9) == ([], None)
    results = store.tasks.add_many([NewTask(*a_task(), "alice") for _ in range(50)])
    assert all(result.created for result in results)
    assert store.tasks.counts(TENANT, TaskFilter()) == {State.SCHEDULED: 50}


def test_a_task_of_another_tenant_does_not_exist(store: Store) -> None:
    mine = added(store)
    theirs = added(store, tenant="other", title="secret")
    with pytest.raises(TaskNotFound) as missing:
        store.tasks.get(TENANT, theirs.task.id)
    assert "secret" not in str(missing.value)
    assert store.tasks.counts("other", TaskFilter()) == {State.SCHEDULED: 1}
    assert [record.task.id for record in store.tasks.page(TENANT, TaskFilter(), limit=9)[0]] == [mine.task.id]
    with pytest.raises(TaskNotFound):
        cancelled(store, replace(theirs, task=replace(theirs.task, tenant=TENANT)))


def test_an_unknown_id_is_answered_with_the_closest_of_the_tenants_own(store: Store) -> None:
    record = added(store)
    added(store)
    mistyped = record.task.id[:-1] + ("z" if record.task.id[-1] != "z" else "y")
    with pytest.raises(TaskNotFound) as missing:
        store.tasks.get(TENANT, mistyped)
    assert missing.value.closest[0] == (record.task.id, "Call John")


# --- idempotency --------------------------------------------------------------------------------------------------


def test_the_same_key_and_content_return_the_first_task(store: Store) -> None:
    first = store.tasks.add(*a_task(), actor="alice", key=a_key())
    again = store.tasks.add(*a_task(), actor="alice", key=a_key())
    assert (first.created, again.created) == (True, False)
    assert again.record == store.tasks.get(TENANT, first.record.task.id)
    assert store.tasks.counts(TENANT, TaskFilter()) == {State.SCHEDULED: 1}
    assert store.tasks.add(*a_task(tenant="other"), actor="alice", key=a_key()).created


def test_the_same_key_with_other_content_names_what_differs(store: Store) -> None:
    long = {"text": "x" * 5_000}
    store.tasks.add(*a_task(), actor="alice", key=a_key(title="A", when="9:00", labels=["x"], payload=long))
    with pytest.raises(IdempotencyConflict) as conflict:
        store.tasks.add(*a_task(), actor="alice", key=a_key(title="B", when="9:00", repeat="daily", payload=long))
    assert conflict.value.differences == {
        "title": ("A", "B"),
        "labels": ('["x"]', "not given"),
        "repeat": ("not given", "daily"),
    }
    other = {"text": "x" * 5_001}
    with pytest.raises(IdempotencyConflict) as conflict:
        store.tasks.add(*a_task(), actor="alice", key=a_key(title="A", when="9:00", labels=["x"], payload=other))
    assert set(conflict.value.differences) == {"payload"}
    assert len(str(conflict.value)) < 500


def test_the_same_key_twice_in_one_call_makes_one_task(store: Store) -> None:
    items = [NewTask(*a_task(), "alice", a_key()) for _ in range(3)]
    results = store.tasks.add_many(items)
    assert [result.created for result in results] == [True, False, False]
    assert {result.record.task.id for result in results} == {items[0].task.id}
    items = [NewTask(*a_task(), "alice", a_key("k2", title="A")), NewTask(*a_task(), "alice", a_key("k2", title="B"))]
    with pytest.raises(IdempotencyConflict):
        store.tasks.add_many(items)
    assert store.tasks.counts(TENANT, TaskFilter()) == {State.SCHEDULED: 1}


def test_an_expired_key_can_be_used_again(store: Store, clock: Clock) -> None:
    first = store.tasks.add(*a_task(), actor="alice", key=a_key(expires_at=NOON + MINUTE, derived=True))
    clock.forward(seconds=59)
    assert not store.tasks.add(*a_task(), actor="alice", key=a_key(expires_at=NOON + 2 * MINUTE, derived=True)).created
    clock.forward(seconds=1)
    later = store.tasks.add(
        *a_task(), actor="alice", key=a_key(title="other", expires_at=NOON + 3 * MINUTE, derived=True)
    )
    assert later.created
    assert later.record.task.id != first.record.task.id


def test_a_derived_key_is_forgotten_when_its_task_is_cancelled_and_a_given_one_is_not(store: Store) -> None:
    for derived in (True, False):
        key = a_key(f"k{derived}", derived=derived, expires_at=NOON + MINUTE)
        record = store.tasks.add(*a_task(), actor="alice", key=key).record
        cancelled(store, record)
        assert store.tasks.add(*a_task(), actor="alice", key=key).created is derived


@pytest.mark.parametrize("is_many", [False, True], ids=["one", "many"])
def test_a_derived_key_is_forgotten_when_its_maker_changes_the_task(store: Store, is_many: bool) -> None:
    def again(key: IdempotencyKey) -> bool:
        items = [NewTask(*a_task(), "alice", each) for each in (key, a_key(f"beside {key.key}"))]
        return store.tasks.add_many(items[: 1 + is_many])[0].created

    def renamed(by: str, record: TaskRecord) -> None:
        title = replace(record.task, title=f"By {by}")
        store.tasks.change(
            TENANT,
            record.task.id,
            actor=by,
            kind=EventKind.RESCHEDULED,
            decide=lambda found: Change(title, found.run),
        )

    passing, given = a_key("passing", derived=True, expires_at=NOON + MINUTE), a_key("given")
    of_template = a_key("of template", derived=True)
    for key, is_free in ((passing, True), (given, False), (of_template, False)):
        record = store.tasks.add(*a_task(), actor="alice", key=key).record
        renamed("bob", record)
        assert not again(key)
        renamed("alice", store.tasks.get(TENANT, record.task.id))
        assert again(key) is is_free
        assert not again(key)


def test_a_given_key_holds_until_30_days_after_the_end_of_its_task(store: Store, clock: Clock) -> None:
    record = store.tasks.add(*a_task(), actor="alice", key=a_key()).record
    clock.forward(days=400)
    assert not store.tasks.add(*a_task(), actor="alice", key=a_key()).created
    cancelled(store, record)
    clock.forward(days=29, hours=23)
    assert [store.tasks.forget_keys() for _ in range(2)] == [1, 0]
    assert not store.tasks.add(*a_task(), actor="alice", key=a_key()).created
    clock.forward(hours=1)
    assert store.tasks.forget_keys() == 1
    assert store.tasks.forget_keys() == 0
    assert store.tasks.add(*a_task(), actor="alice", key=a_key()).created


def test_keys_that_are_past_their_time_are_forgotten_in_batches(store: Store, clock: Clock) -> None:
    for number in range(5):
        key = a_key(f"k{number}", expires_at=NOON + MINUTE, derived=True)
        store.tasks.add(*a_task(), actor="alice", key=key)
    store.tasks.add(*a_task(), actor="alice", key=a_key("given"))
    assert store.tasks.forget_keys() == 0
    clock.forward(minutes=1)
    assert [store.tasks.forget_keys(limit=2) for _ in range(4)] == [2, 2, 1, 0]
    assert not store.tasks.add(*a_task(), actor="alice", key=a_key("given")).created


def test_a_key_that_holds_is_looked_at_once_a_month_however_often_somebody_looks(store: Store, clock: Clock) -> None:
    for number in range(3):
        store.tasks.add(*a_task(), actor="alice", key=a_key(f"k{number}"))
    assert store.tasks.forget_keys() == 0
    clock.forward(days=30)
    assert [store.tasks.forget_keys(limit=2) for _ in range(3)] == [2, 1, 0]
    clock.forward(days=30)
    assert [store.tasks.forget_keys(limit=2) for _ in range(3)] == [2, 1, 0]
    assert not store.tasks.add(*a_task(), actor="alice", key=a_key("k0")).created


# --- changing -----------------------------------------------------------------------------------------------------


def later(record: TaskRecord) -> Change:
    at = record.run.scheduled_for + timedelta(hours=1)
    return Change(record.task, replace(record.run, scheduled_for=at, wake_at=at))


def test_a_change_is_stored_with_an_event_of_what_was_and_is(store: Store, clock: Clock) -> None:
    record = added(store)
    clock.forward(minutes=5)
    changed = store.tasks.change(
        TENANT, record.task.id, actor="bob", kind=EventKind.RESCHEDULED, decide=later, revision=1, reason="busy"
    )
    assert changed == store.tasks.get(TENANT, record.task.id)
    assert (changed.task.revision, changed.task.updated_at) == (2, clock.at)
    assert changed.run.scheduled_for == NOON + timedelta(hours=1)
    event = store.history.events(TENANT, EventFilter(task_id=record.task.id), limit=1).events[0]
    assert (event.kind, event.actor, event.reason, event.seq) == (EventKind.RESCHEDULED, "bob", "busy", 2)
    assert event.before == {"scheduled_for": NOON.isoformat(), "wake_at": NOON.isoformat()}
    assert event.after == {name: (NOON + timedelta(hours=1)).isoformat() for name in ("scheduled_for", "wake_at")}
    assert (event.from_state, event.to_state) == (None, None)


def test_a_stale_revision_changes_nothing_and_says_what_happened_since(store: Store) -> None:
    record = added(store)
    store.tasks.change(TENANT, record.task.id, actor="bob", kind=EventKind.RESCHEDULED, decide=later)
    with pytest.raises(StaleRevision) as stale:
        cancelled(store, record, revision=1)
    assert (stale.value.given, stale.value.current) == (1, 2)
    [change] = stale.value.changes
    assert "rescheduled by bob" in change
    assert "13:00" in change
    assert store.tasks.get(TENANT, record.task.id).run.state is State.SCHEDULED


def test_a_refused_change_leaves_everything_as_it_was(store: Store) -> None:
    record = added(store)

    def refuse(_record: TaskRecord) -> Change:
        raise Refused("no")

    with pytest.raises(Refused):
        store.tasks.change(TENANT, record.task.id, actor="bob", kind=EventKind.PAUSED, decide=refuse)
    assert store.tasks.get(TENANT, record.task.id) == record


def test_a_change_that_changes_nothing_writes_nothing(store: Store) -> None:
    record = added(store)
    same = store.tasks.change(
        TENANT, record.task.id, actor="bob", kind=EventKind.RESCHEDULED, decide=lambda it: Change(it.task, it.run)
    )
    assert same == record
    assert len(store.history.events(TENANT, EventFilter(), limit=9).events) == 1


def test_labels_and_titles_are_found_as_they_were_changed(store: Store) -> None:
    record = added(store)
    store.tasks.change(
        TENANT,
        record.task.id,
        actor="bob",
        kind=EventKind.RESCHEDULED,
        decide=lambda it: Change(replace(it.task, title="ÉCOLE", labels=("home", "work")), it.run),
    )
    assert store.tasks.counts(TENANT, TaskFilter(label="phone")) == {}
    assert store.tasks.counts(TENANT, TaskFilter(label="work", query="école")) == {State.SCHEDULED: 1}
    assert store.tasks.get(TENANT, record.task.id).task.labels == ("home", "work")


@pytest.mark.parametrize("state", [State.RUNNING, State.SUCCEEDED, State.RETRYING])
def test_an_illegal_move_is_refused_whoever_asks(store: Store, state: State) -> None:
    record = added(store)
    with pytest.raises(IllegalMove):
        store.tasks.change(
            TENANT,
            record.task.id,
            actor="bob",
            kind=EventKind.RUN_NOW,
            decide=lambda it: Change(it.task, replace(it.run, state=state)),
        )


def test_a_run_that_ended_stays_as_it_ended(store: Store) -> None:
    record = cancelled(store, added(store))
    with pytest.raises(IllegalMove, match="stays as it ended"):
        store.tasks.change(
            TENANT,
            record.task.id,
            actor="bob",
            kind=EventKind.RUN_NOW,
            decide=lambda it: Change(it.task, replace(it.run, summary="other")),
        )


def test_undoing_a_cancel_makes_the_next_generation_current(store: Store) -> None:
    gone = cancelled(store, added(store))

    def undo(record: TaskRecord) -> Change:
        again = a_run(record.task, record.run.scheduled_for, generation=record.run.generation + 1)
        return Change(record.task, record.run, next_run=again, kind=EventKind.CANCEL_UNDONE)

    back = store.tasks.change(TENANT, gone.task.id, actor="alice", kind=EventKind.RESUMED, decide=undo)
    assert back == store.tasks.get(TENANT, gone.task.id)
    assert (back.run.state, back.run.generation, back.run.current) == (State.SCHEDULED, 2, True)
    assert back.last_run is None, "a run that was cancelled before it started has nothing to tell"
    assert [run.generation for run in runs_of(store, gone.task.id)] == [2, 1]
    event = store.history.events(TENANT, EventFilter(), limit=1).events[0]
    assert (event.kind, event.run_id, event.to_state) == (EventKind.CANCEL_UNDONE, back.run.id, State.SCHEDULED)


def test_skipping_an_occurrence_ends_it_and_begins_the_next_with_an_event_each(store: Store) -> None:
    record = added(store, repeat="FREQ=DAILY")
    tomorrow = NOON + timedelta(days=1)

    def skip(it: TaskRecord) -> Change:
        return Change(it.task, replace(it.run, state=State.SKIPPED), next_run=a_run(it.task, tomorrow, number=2))

    now = store.tasks.change(TENANT, record.task.id, actor="alice", kind=EventKind.SKIPPED, decide=skip)
    assert (now.run.scheduled_for, now.run.number) == (tomorrow, 2)
    events = store.history.events(TENANT, EventFilter(task_id=record.task.id), limit=2).events
    assert [(event.kind, event.seq) for event in events] == [(EventKind.NEXT_OCCURRENCE, 3), (EventKind.SKIPPED, 2)]


def test_another_run_takes_over_only_from_one_that_ended(store: Store) -> None:
    record = added(store)
    with pytest.raises(IllegalMove, match="only take its place when it has ended"):
        store.tasks.change(
            TENANT,
            record.task.id,
            actor="bob",
            kind=EventKind.SNOOZED,
            decide=lambda it: Change(it.task, it.run, next_run=a_run(it.task, NOON + MINUTE)),
        )


def paused(record: TaskRecord, *, on: bool) -> Change:
    return Change(
        replace(record.task, paused=on), replace(record.run, wake_at=None if on else record.run.scheduled_for)
    )


def test_nothing_of_a_paused_task_starts(store: Store) -> None:
    record, ready = added(store), added(store)
    [first, _] = store.claims.make_ready(limit=9)
    assert first.task_id in {record.task.id, ready.task.id}

    def pause(it: TaskRecord) -> Change:
        return paused(it, on=True)

    store.tasks.change(TENANT, first.task_id, actor="a", kind=EventKind.PAUSED, decide=pause)
    assert store.claims.start([Start(first.run_id)], worker="w", epoch=None, lease=MINUTE) == []
    waiting = added(store)
    store.tasks.change(TENANT, waiting.task.id, actor="a", kind=EventKind.PAUSED, decide=pause)
    assert store.claims.next_times().first() is None
    assert store.claims.make_ready(limit=9) == []


def beside(record: TaskRecord) -> Change:
    extra: Run = a_run(record.task, NOON, generation=1, current=False)
    return Change(record.task, record.run, extra_run=extra, kind=EventKind.RUN_NOW)


def test_a_side_run_starts_and_is_cancelled_with_the_task(store: Store) -> None:
    record = added(store, NOON + timedelta(days=1), repeat="FREQ=DAILY")
    for _ in range(3):
        store.tasks.change(TENANT, record.task.id, actor="a", kind=EventKind.RUN_NOW, decide=beside)
    ready = store.claims.make_ready(limit=2)
    [claim] = store.claims.start([Start(ready[0].run_id)], worker="w", epoch=None, lease=MINUTE)
    assert store.tasks.get(TENANT, record.task.id).run == record.run
    cancelled(store, record)
    assert store.claims.unwanted([claim.run.id], worker="w") == {claim.run.id}
    assert store.claims.renew([claim.run.id], worker="w", lease=MINUTE) == {claim.run.id}
    assert store.claims.start([Start(ready[1].run_id)], worker="w", epoch=None, lease=MINUTE) == []
    assert store.claims.next_times().first() is None
    states = [run.state for run in runs_of(store, record.task.id)]
    assert sorted(states) == [State.CANCELLED, State.CANCELLED, State.CANCELLED, State.RUNNING]


def test_a_ready_side_run_of_a_paused_task_is_due_again_when_it_goes_on(store: Store) -> None:
    record = added(store, NOON + timedelta(days=1), repeat="FREQ=DAILY")
    store.tasks.change(TENANT, record.task.id, actor="a", kind=EventKind.RUN_NOW, decide=beside)
    [ready] = store.claims.make_ready(limit=9)
    for on in (True, False):
        assert store.claims.next_times().first() != NOON
        decide = partial(paused, on=on)
        store.tasks.change(TENANT, record.task.id, actor="a", kind=EventKind.PAUSED, decide=decide)
    assert store.claims.next_times().first() == NOON
    assert [run.run_id for run in store.claims.make_ready(limit=9)] == [ready.run_id]
