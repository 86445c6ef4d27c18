"""Lists: in their order, page by page without gaps or doubles, under every filter."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, TypeVar

import pytest
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.events import Event, EventFilter, EventKind
from duetime.scheduler.records import Change
from duetime.scheduler.rules import changes
from duetime.scheduler.rules.states import BLOCKED_PREFIX
from duetime.scheduler.run_records import Start
from duetime.scheduler.store import Store
from duetime.scheduler.task import DeliveryState, State
from duetime.scheduler.views import TaskFilter, TaskRecord
from sqlalchemy.exc import IntegrityError

from tests.builders import (
    LEASE,
    NOON,
    TENANT,
    Clock,
    a_run,
    a_task,
    added,
    cancelled,
    counted,
    delivery,
    message,
    settlement,
    started,
)

T = TypeVar("T")
HOUR = timedelta(hours=1)


def every(fetch: Callable[[str | None], tuple[list[T], str | None]]) -> Iterator[T]:
    cursor: str | None = None
    while True:
        page, cursor = fetch(cursor)
        yield from page
        if cursor is None:
            return


def ids(store: Store, where: TaskFilter | None = None, *, limit: int = 2) -> list[str]:
    where = where or TaskFilter()
    records = every(lambda cursor: store.tasks.page(TENANT, where, limit=limit, cursor=cursor))
    return [record.task.id for record in records]


@pytest.fixture
def six(store: Store, clock: Clock) -> dict[str, TaskRecord]:
    """Three open tasks, two of them at the same time, and three that ended one after the other."""
    found = {
        "noon": added(store, NOON + HOUR, title="Lunch 100%", labels=("food",)),
        "also": added(store, NOON + HOUR, title="Lunch again", action="webhook"),
        "soon": added(store, NOON + HOUR / 2, title="Snack", labels=("food", "home")),
    }
    for name in ("first", "second", "third"):
        clock.forward(minutes=1)
        found[name] = cancelled(store, added(store, NOON + 9 * HOUR, title=name))
    return found


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 6, 7])
def test_open_tasks_come_by_due_time_then_ended_ones_newest_first(
    store: Store, six: dict[str, TaskRecord], limit: int
) -> None:
    same_time = sorted([six["noon"].task.id, six["also"].task.id])
    ended = [six[name].task.id for name in ("third", "second", "first")]
    assert ids(store, limit=limit) == [six["soon"].task.id, *same_time, *ended]


def test_ended_tasks_stand_by_when_they_ended_and_retried_ones_by_when_they_are_due(store: Store, clock: Clock) -> None:
    early, late, again = started(store, NOON - 2 * HOUR), started(store, NOON - HOUR), started(store, NOON - HOUR / 2)
    for claim in (late, early):
        clock.forward(minutes=1)
        store.claims.settle([settlement(claim)])
    soon = added(store, NOON + HOUR)
    store.claims.settle([settlement(again, State.RETRYING, wake_at=NOON + 2 * HOUR)])
    assert ids(store) == [soon.task.id, again.task.id, early.task.id, late.task.id]


def with_extra_run(store: Store, at: datetime, *, due: datetime = NOON + 48 * HOUR, **own: Any) -> str:
    """Store a series that is due at a later time, and a run next to it; return the id of the task.

    Its own next run is changed as `own` says.
    """
    made = added(store, due, repeat="FREQ=WEEKLY")
    extra = a_run(made.task, at, current=False, number=2)

    def decide(found: TaskRecord) -> Change:
        return Change(found.task, replace(found.run, **own), extra_run=extra, kind=EventKind.RUN_NOW)

    store.tasks.change(TENANT, made.task.id, actor="ann", kind=EventKind.RUN_NOW, decide=decide)
    return made.task.id


def run_extra(store: Store) -> None:
    """Start the runs that are due."""
    ready = [Start(run.run_id) for run in store.claims.make_ready(limit=9)]
    assert store.claims.start(ready, worker="w", epoch=None, lease=LEASE)


@pytest.mark.parametrize("limit", [1, 2, 3, 9])
def test_a_series_stands_where_the_run_next_to_it_comes_on_whichever_page_that_is(store: Store, limit: int) -> None:
    """Its own next time is behind all others: with two rows a page, on the fourth one."""
    runs = with_extra_run(store, NOON)
    run_extra(store)
    first, second = added(store, NOON + HOUR), added(store, NOON + 2 * HOUR)
    between = with_extra_run(store, NOON + 3 * HOUR)
    third = added(store, NOON + 4 * HOUR)
    behind = with_extra_run(store, NOON + 6 * HOUR, due=NOON + 5 * HOUR)
    ended = cancelled(store, added(store, NOON + 9 * HOUR))
    expected = [runs, first.task.id, second.task.id, between, third.task.id, behind]
    assert ids(store, limit=limit) == [*expected, ended.task.id]
    assert ids(store, TaskFilter(states=(State.SCHEDULED,)), limit=limit) == [*expected[1:], runs]
    assert ids(store, TaskFilter(query="john"), limit=limit) == ids(store, limit=limit)


def test_an_extra_run_of_a_series_is_found_and_counted_as_running_once(store: Store, clock: Clock) -> None:
    extra = with_extra_run(store, NOON)
    run_extra(store)
    own = started(store)
    running = TaskFilter(states=(State.RUNNING,))
    assert set(ids(store, running, limit=1)) == {extra, own.task.id}
    for where, counts in (
        (running, {State.RUNNING: 2}),
        (TaskFilter(states=(State.RUNNING, State.SCHEDULED)), {State.RUNNING: 1, State.SCHEDULED: 1}),
        (TaskFilter(states=(State.RUNNING,), action="reminder"), {State.RUNNING: 2}),
        (TaskFilter(), {State.RUNNING: 1, State.SCHEDULED: 1}),
    ):
        assert store.tasks.counts(TENANT, where) == counted(store, where, 9).by_state == counts, where
    store.tasks.change(
        TENANT, extra, actor="ann", kind=EventKind.CANCELLED, decide=lambda found: changes.cancel(found, clock())
    )
    assert ids(store, running) == [own.task.id]


@pytest.mark.parametrize("own", [{"summary": f"{BLOCKED_PREFIX}no handler"}, {"cancel_requested": True}])
def test_an_extra_run_behind_a_run_that_needs_its_user_is_found_under_its_own_state(
    store: Store, own: dict[str, Any]
) -> None:
    extra = with_extra_run(store, NOON, due=NOON + HOUR, **own)
    run_extra(store)
    later = added(store, NOON + 2 * HOUR)
    for states, found in (
        ((State.RUNNING,), {State.RUNNING: 1}),
        ((State.RUNNING, State.READY), {State.RUNNING: 1}),
        ((State.RUNNING, State.SCHEDULED), {State.SCHEDULED: 2}),
    ):
        where = TaskFilter(states=states)
        assert ids(store, where) == [extra, later.task.id][: sum(found.values())]
        assert store.tasks.counts(TENANT, where) == counted(store, where, 9).by_state == found


@pytest.mark.parametrize("limit", [1, 2, 9])
def test_bounds_are_of_the_time_of_a_run_or_of_its_next_attempt_whenever_it_ended(
    store: Store, clock: Clock, limit: int
) -> None:
    again, early = started(store, NOON - HOUR), cancelled(store, added(store, NOON + HOUR))
    store.claims.settle([settlement(again, State.RETRYING, wake_at=NOON + 2 * HOUR)])
    done, soon = started(store, NOON - HOUR), added(store, NOON + HOUR / 2)
    clock.forward(minutes=1)
    store.claims.settle([settlement(done)])

    past, coming = TaskFilter(before=NOON), TaskFilter(after=NOON)
    assert ids(store, past, limit=limit) == [done.task.id]
    assert ids(store, coming, limit=limit) == [soon.task.id, again.task.id, early.task.id]
    assert ids(store, TaskFilter(after=NOON - HOUR, before=NOON + HOUR), limit=limit) == [
        soon.task.id,
        done.task.id,
    ]
    assert counted(store, past, 1_000).by_state == {
        State.SUCCEEDED: 1,
    }
    assert counted(store, coming, 1_000).by_state == {
        State.RETRYING: 1,
        State.SCHEDULED: 1,
        State.CANCELLED: 1,
    }


def test_filters_find_what_they_say_and_counts_agree(store: Store, six: dict[str, TaskRecord]) -> None:
    wanted = {
        TaskFilter(states=(State.SCHEDULED,)): {"noon", "also", "soon"},
        TaskFilter(states=(State.CANCELLED,)): {"first", "second", "third"},
        TaskFilter(states=(State.FAILED,)): set(),
        TaskFilter(states=(State.SCHEDULED, State.RUNNING)): {"noon", "also", "soon"},
        TaskFilter(states=(State.SUCCEEDED, State.CANCELLED)): {"first", "second", "third"},
        TaskFilter(states=(State.SCHEDULED, State.CANCELLED), label="food"): {"noon", "soon"},
        TaskFilter(action="webhook"): {"also"},
        TaskFilter(label="food"): {"noon", "soon"},
        TaskFilter(label="food", query="SNACK"): {"soon"},
        TaskFilter(query="100%"): {"noon"},
        TaskFilter(query="_"): set(),
        TaskFilter(states=(State.SCHEDULED,), after=NOON + HOUR): {"noon", "also"},
        TaskFilter(after=NOON + HOUR / 2, before=NOON + HOUR): {"soon"},
        TaskFilter(states=(State.CANCELLED,), before=NOON + HOUR): set(),
        TaskFilter(states=(State.CANCELLED,), after=NOON + 9 * HOUR): {"first", "second", "third"},
        TaskFilter(before=NOON + 9 * HOUR): {"noon", "also", "soon"},
    }
    for where, names in wanted.items():
        assert set(ids(store, where)) == {six[name].task.id for name in names}, where
        assert sum(store.tasks.counts(TENANT, where).values()) == len(names), where
        assert counted(store, where, 100) == (
            store.tasks.counts(TENANT, where),
            frozenset(),
        ), where
    assert store.tasks.counts(TENANT, TaskFilter()) == {State.SCHEDULED: 3, State.CANCELLED: 3}


def test_a_page_stays_right_when_tasks_come_and_go_between(store: Store, six: dict[str, TaskRecord]) -> None:
    page, cursor = store.tasks.page(TENANT, TaskFilter(), limit=2)
    cancelled(store, page[0])
    added(store, NOON + HOUR / 4, title="before the cursor")
    rest = list(every(lambda at: store.tasks.page(TENANT, TaskFilter(), limit=2, cursor=at or cursor)))
    assert len({record.task.id for record in rest}) == len(rest) == 5


@pytest.mark.parametrize("cursor", ["", "x", "AAAA", "é", "bm90IGEgY3Vyc29yIGF0IGFsbA", "=" * 5])
def test_a_forged_cursor_is_refused(store: Store, cursor: str) -> None:
    if cursor:
        with pytest.raises(InvalidArgument, match="cursor: this server cannot read this cursor"):
            store.tasks.page(TENANT, TaskFilter(), limit=2, cursor=cursor)
        with pytest.raises(InvalidArgument, match="cursor"):
            store.history.events(TENANT, EventFilter(), limit=2, cursor=cursor)


def test_a_cursor_of_another_list_tenant_or_filter_is_refused(store: Store, six: dict[str, TaskRecord]) -> None:
    _, cursor = store.tasks.page(TENANT, TaskFilter(), limit=2)
    assert cursor
    for tenant, where in (("other", TaskFilter()), (TENANT, TaskFilter(label="food"))):
        with pytest.raises(InvalidArgument, match="cursor: this cursor was made with other filters"):
            store.tasks.page(tenant, where, limit=2, cursor=cursor)
    with pytest.raises(InvalidArgument, match="cursor"):
        store.history.events(TENANT, EventFilter(), limit=2, cursor=cursor)


def test_a_near_duplicate_is_found_by_title_time_and_owner(store: Store) -> None:
    def twin(at: datetime, **values: str) -> str | None:
        found = store.tasks.add(*a_task(at, **values), actor="alice")
        cancelled(store, found.record)
        return found.twin

    record = added(store, NOON + HOUR, title="Straße")
    assert twin(NOON + HOUR, title="STRASSE") == record.task.id
    assert twin(NOON + HOUR, title="Straße", owner="bob") is None
    assert twin(NOON + HOUR, title="Straße", tenant="other") is None
    assert twin(NOON, title="Straße") is None
    cancelled(store, record)
    assert twin(NOON + HOUR, title="Straße") is None


# --- events -------------------------------------------------------------------------------------------------------


def events(store: Store, where: EventFilter, *, limit: int = 2) -> list[Event]:
    def fetch(cursor: str | None) -> tuple[list[Event], str | None]:
        page = store.history.events(TENANT, where, limit=limit, cursor=cursor)
        return list(page.events), page.cursor

    return list(every(fetch))


def test_events_come_newest_first_under_every_filter(store: Store, six: dict[str, TaskRecord], clock: Clock) -> None:
    assert len(events(store, EventFilter())) == 9
    times = [event.at for event in events(store, EventFilter())]
    assert times == sorted(times, reverse=True)
    first = six["first"].task.id
    assert [event.kind for event in events(store, EventFilter(task_id=first), limit=1)] == ["cancelled", "created"]
    minute = timedelta(minutes=1)
    wanted = {
        EventFilter(state=State.CANCELLED): 3,
        EventFilter(action="webhook"): 1,
        EventFilter(label="food"): 2,
        EventFilter(text="lunch"): 2,
        EventFilter(text="%"): 1,
        EventFilter(since=NOON + 2 * minute): 4,
        EventFilter(until=NOON + 2 * minute): 5,
        EventFilter(since=NOON + minute, until=NOON + 2 * minute, state=State.CANCELLED): 1,
    }
    for where, count in wanted.items():
        assert len(events(store, where)) == count, where
    cancelled(store, six["noon"], reason="Ate EARLY")
    assert [event.reason for event in events(store, EventFilter(text="ate early"))] == ["Ate EARLY"]
    assert store.history.events("other", EventFilter(), limit=9).events == ()


def test_followers_get_each_event_of_all_tenants_once(store: Store) -> None:
    assert store.history.latest() == 0
    added(store)
    added(store, tenant="other")
    seen = store.history.since(0, limit=1)
    seen += store.history.since(seen[-1].id)
    assert [event.tenant for event in seen] == [TENANT, "other"]
    assert store.history.latest() == seen[-1].id
    assert store.history.since(seen[-1].id) == []


# --- inbox, deliveries, dead letters ------------------------------------------------------------------------------


def told(store: Store, count: int, clock: Clock) -> list[str]:
    found = []
    for _ in range(count):
        clock.forward(seconds=1)
        claim = started(store)
        sent = message(claim, created_at=clock.at)
        due = delivery(claim, next_at=clock.at)
        store.claims.settle([settlement(claim, inbox=sent, deliveries=(due,))])
        found.append(sent.id)
    return found


def test_the_inbox_is_read_newest_first_and_once(store: Store, clock: Clock) -> None:
    sent = told(store, 5, clock)
    newest = list(reversed(sent))
    assert [it.id for it in store.inbox.unread(TENANT, "alice", limit=3)] == newest[:3]
    assert store.inbox.unread(TENANT, "bob") == []
    assert store.inbox.mark_read(TENANT, "bob") == 0
    assert store.inbox.mark_read(TENANT, "alice", sent[:2]) == 2
    assert store.inbox.mark_read(TENANT, "alice", sent[:2]) == 0
    assert [it.id for it in store.inbox.unread(TENANT, "alice")] == newest[:3]
    assert store.inbox.mark_read(TENANT, "alice") == 3


def test_unread_outcomes_are_found_by_their_task_and_by_the_beginning_of_their_own_id(
    store: Store, clock: Clock
) -> None:
    sent = told(store, 3, clock)
    newest, *_ = store.inbox.unread(TENANT, "alice")
    assert [it.id for it in store.inbox.unread(TENANT, "alice", of=newest.task_id)] == [newest.id]
    assert [it.id for it in store.inbox.unread(TENANT, "alice", of=sent[0])] == [sent[0]]
    assert len(store.inbox.unread(TENANT, "alice", of=sent[0][:2])) == 3
    for nothing in (newest.task_id[:9], "m%", "m_%", "m_\x00", "no such"):
        assert store.inbox.unread(TENANT, "alice", of=nothing) == []


def test_missed_outcomes_come_failures_first_and_the_rest_is_counted(store: Store, clock: Clock) -> None:
    sent = told(store, 3, clock)
    claim = started(store)
    failed = message(claim, state=State.FAILED, created_at=NOON - HOUR)
    store.claims.settle([settlement(claim, State.FAILED, inbox=failed)])
    for _ in range(2):
        found, total = store.inbox.missed(TENANT, "alice", limit=3, most=1_000)
        assert ([it.id for it in found], total) == ([failed.id, sent[2], sent[1]], 4)
    store.inbox.mark_read(TENANT, "alice", [failed.id, sent[2]])
    assert store.inbox.missed(TENANT, "alice", limit=3, most=1_000)[1] == 2
    assert store.inbox.missed(TENANT, "bob", limit=3, most=1_000) == ([], 0)


def test_a_delivery_is_retried_until_it_is_delivered_or_given_up(store: Store, clock: Clock) -> None:
    told(store, 2, clock)
    assert store.deliveries.next_wake() == NOON + timedelta(seconds=1)
    [(first, about), (second, _)] = store.deliveries.due(limit=9)
    assert about.run_id == first.run_id
    later = clock.at + HOUR
    assert store.deliveries.settle_failed([first.id], 0, "busy", next_at=later)
    assert not store.deliveries.settle_failed([first.id], 0, "busy", next_at=later)
    assert [store.deliveries.settle_delivered([second.id], 0) for _ in range(2)] == [True, False]
    assert store.deliveries.due(limit=9) == []
    assert store.deliveries.next_wake() == later
    clock.forward(hours=1)
    [(again, _)] = store.deliveries.due(limit=9)
    assert (again.attempts, again.error) == (1, "busy")
    assert store.deliveries.settle_failed([again.id], 1, "gone", next_at=None)
    assert store.deliveries.next_wake() is None
    states = {it.state for it in store.tasks.get(TENANT, first.task_id).deliveries}
    assert states == {DeliveryState.FAILED}


def test_a_due_delivery_is_taken_by_one_and_is_due_again_when_that_one_is_gone(store: Store, clock: Clock) -> None:
    told(store, 2, clock)
    due = {delivery.id for delivery, _ in store.deliveries.due(limit=9)}
    [first, second] = sorted(due)
    assert store.deliveries.take([first, "d_unknown"], lease=LEASE) == {first}
    assert store.deliveries.take([first, second], lease=LEASE) == {second}
    assert store.deliveries.take([first, second], lease=LEASE) == set()
    assert store.deliveries.next_wake() == clock.at + LEASE
    clock.forward(seconds=20)
    store.deliveries.hold([first], lease=LEASE)
    clock.forward(seconds=10)
    assert [delivery.id for delivery, _ in store.deliveries.due(limit=9)] == [second]
    assert store.deliveries.settle_delivered([first], 0)
    store.deliveries.hold([first], lease=LEASE)
    clock.forward(hours=1)
    assert store.deliveries.take([first, second], lease=LEASE) == {second}


def test_a_delivery_needs_the_message_that_it_delivers(store: Store) -> None:
    claim = started(store)
    with pytest.raises(IntegrityError):
        store.claims.settle([settlement(claim, deliveries=(delivery(claim),))])
    assert store.deliveries.next_wake() is None


def test_dead_letters_carry_the_payload_and_every_reason(store: Store, clock: Clock) -> None:
    for number in range(3):
        clock.forward(seconds=1)
        claim = started(store, payload={"n": number})
        failed = settlement(claim, State.FAILED, reason=f"no {number}", dead_letter=True)
        store.claims.settle([failed])
    letters = list(every(lambda cursor: store.dead_letters.page(TENANT, limit=1, cursor=cursor)))
    assert [(letter.payload, letter.reason) for letter in letters] == [({"n": n}, f"no {n}") for n in (2, 1, 0)]
    assert [attempt.reason for letter in letters for attempt in letter.attempts] == ["no 2", "no 1", "no 0"]
    assert store.dead_letters.page("other", limit=9) == ([], None)
    assert EventKind.FAILED in {event.kind for event in events(store, EventFilter(text="no 2"))}


def test_counting_stops_where_the_number_means_nothing_any_more(store: Store) -> None:
    for number in range(5):
        added(store, title=f"Call {number}")
    cancelled(store, added(store, title="Call nobody"))
    many, all_of_them = frozenset({State.SCHEDULED}), {State.SCHEDULED: 5, State.CANCELLED: 1}
    assert counted(store, TaskFilter(), 3) == (
        {State.SCHEDULED: 3, State.CANCELLED: 1},
        many,
    )
    assert counted(store, TaskFilter(), 6) == (all_of_them, frozenset())
    calls = TaskFilter(query="call")
    assert counted(store, calls, 3) == (
        {State.SCHEDULED: 3, State.CANCELLED: 1},
        many,
    )
    assert counted(store, calls, 6) == (all_of_them, frozenset())
    assert counted(store, TaskFilter(states=(State.CANCELLED,)), 9).by_state == {State.CANCELLED: 1}
