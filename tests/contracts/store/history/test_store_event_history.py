"""The history of events: filters, pages that compare a bounded number of events, and all tenants for an operator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest
from duetime.scheduler.events import Event, EventFilter, EventKind
from duetime.scheduler.history.events import EventGroup
from duetime.scheduler.history.runs import RunFilter
from duetime.scheduler.rules.changes import pause
from duetime.scheduler.store import Store
from duetime.scheduler.store.lists import event_walk
from duetime.scheduler.store.text_index import text_search
from duetime.scheduler.task import State, Tier

from tests.builders import NOON, TENANT, Clock, a_task, added, cancelled, restarted, settlement

OTHER = "globex"
Meets = Callable[[Event], bool]


@pytest.fixture(params=["as it is", "compared by few", "nothing is rare"])
def how(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Let a page compare all events, or seven; and let labels and words be looked up, or found on the way."""
    way: str = request.param
    if way != "as it is":
        monkeypatch.setattr(event_walk, "MAX_EVENTS_COMPARED_FIRST", 3)
        monkeypatch.setattr(event_walk, "MAX_EVENTS_COMPARED", 7)
    if way == "nothing is rare":
        monkeypatch.setattr(text_search, "MAX_INDEXED_MATCHES", 0)
    return way


def limits(how: str, where: EventFilter, smallest: int = 2) -> tuple[int, ...]:
    """Return sizes of pages for a filter, none where its search is the same as another way.

    An index serves texts and labels until nothing is rare; all else is compared. A page of 2 asks for 3 events, as
    many as are compared at first. Some pages are full, and others end where the search stopped.
    """
    is_indexed = any(each is not None for each in (where.text, where.title, where.label))
    if how == "compared by few":
        return () if is_indexed or where == EventFilter() else (2,)
    if how == "as it is":
        return (smallest, 50)
    return (2,) if is_indexed else ()


def fill(store: Store, clock: Clock, tenant: str) -> None:
    """Store events of two tasks; several have one instant."""
    task, run = a_task(clock.at + timedelta(hours=1), tenant=tenant, title="Call the bank", labels=("rare",))
    store.tasks.add(task, run, actor="ann", via="mcp 10.0.0.7")
    store.tasks.change(tenant, task.id, actor="ann", via="mcp 10.0.0.8", kind=EventKind.PAUSED, decide=pause)
    for n in range(3):
        clock.forward(minutes=n % 2)
        claim = restarted(store, added(store, clock.at, tenant=tenant, action="webhook", labels=("home",)))
        store.claims.settle([settlement(claim, State.FAILED if n == 1 else State.SUCCEEDED, error="no answer")])
    task, run = a_task(clock.at + timedelta(hours=1), tenant=tenant, title="Later", labels=())
    cancelled(store, store.tasks.add(task, run, actor="bob", via="mcproxy").record, reason="no bank today")


def every(store: Store, tenant: str | None, where: EventFilter, *, limit: int) -> list[Event]:
    """Return the events of all pages."""
    found: list[Event] = []
    cursor = None
    for _ in range(200):
        page = store.history.events(tenant, where, limit=limit, cursor=cursor)
        assert len(page.events) <= limit
        assert (page.searched_to is None) or page.cursor
        found += page.events
        cursor = page.cursor
        if cursor is None:
            return found
    raise AssertionError("the pages have no end")


FILTERS: dict[str, tuple[EventFilter, Meets]] = {
    "all": (EventFilter(), lambda _: True),
    "state": (EventFilter(state=State.FAILED), lambda event: event.to_state is State.FAILED),
    "kind": (EventFilter(kind=EventKind.PAUSED), lambda event: event.kind is EventKind.PAUSED),
    "actor": (EventFilter(actor="ann"), lambda event: event.actor == "ann"),
    "actor of none": (EventFilter(actor="an"), lambda _: False),
    "surface": (EventFilter(via="mcp"), lambda event: (event.via or "").startswith("mcp ")),
    "surface and address": (EventFilter(via="mcp 10.0.0.8"), lambda event: event.via == "mcp 10.0.0.8"),
    "no pattern": (EventFilter(via="m%"), lambda _: False),
    "kind and actor": (
        EventFilter(kind=EventKind.CREATED, actor="bob"),
        lambda event: (event.kind, event.actor) == (EventKind.CREATED, "bob"),
    ),
}


@pytest.mark.parametrize("how", ["as it is", "compared by few"], indirect=True)
@pytest.mark.parametrize("tenant", [TENANT, None])
def test_each_filter_finds_the_events_that_meet_it_newest_first(
    how: str, store: Store, clock: Clock, tenant: str | None
) -> None:
    fill(store, clock, TENANT)
    fill(store, clock, OTHER)
    stored = [event for event in store.history.since(0, limit=500) if tenant in {None, event.tenant}]
    stored.sort(key=lambda event: (event.at, event.id), reverse=True)
    for name, (where, meets) in FILTERS.items():
        for limit in limits(how, where, smallest=1):
            found = [event.id for event in every(store, tenant, where, limit=limit)]
            assert found == [event.id for event in stored if meets(event)], (name, limit)


@pytest.mark.parametrize("tenant", [TENANT, None])
def test_an_event_is_found_by_its_task_on_any_way(how: str, store: Store, clock: Clock, tenant: str | None) -> None:
    fill(store, clock, TENANT)
    fill(store, clock, OTHER)
    factor = 1 if tenant else 2
    for where, count in (
        (EventFilter(action="webhook"), 12),
        (EventFilter(label="rare"), 2),
        (EventFilter(label="home"), 12),
        (EventFilter(label="home", state=State.FAILED), 1),
        (EventFilter(text="BANK"), 3),
        (EventFilter(text="bank", actor="ann"), 2),
        (EventFilter(title="BANK"), 2),
        (EventFilter(title="today"), 0),
        (EventFilter(title="bank", actor="bob"), 0),
        (EventFilter(title="later", text="no bank"), 1),
        (EventFilter(title="bank", label="home"), 0),
        (EventFilter(title="bank", label="rare", kind=EventKind.PAUSED), 1),
        (EventFilter(label="none"), 0),
    ):
        for limit in limits(how, where):
            found = every(store, tenant, where, limit=limit)
            assert len({event.id for event in found}) == len(found) == factor * count, where


@pytest.mark.parametrize("tenant", [TENANT, None])
def test_an_event_is_found_by_its_run_on_any_way_and_of_the_own_tenant(
    how: str, store: Store, clock: Clock, tenant: str | None
) -> None:
    fill(store, clock, TENANT)
    fill(store, clock, OTHER)
    for of in (TENANT, OTHER):
        due, deadline = clock.at, clock.at + timedelta(minutes=1)
        task, run = a_task(due, tenant=of, title="Call the bank", priority=Tier.HIGH, labels=("rare",))
        bound = replace(run, deadline=deadline)
        claim = restarted(store, store.tasks.add(task, bound, actor="ann").record, worker="night-1")
        clock.forward(minutes=6)
        ended = settlement(claim, State.FAILED, error="HTTP 503 of the bank")
        store.claims.settle([replace(ended, used={"tokens": 2.0}, costs={"tokens": 500_000})])
    late, one = timedelta(minutes=5), timedelta(microseconds=1)
    [ran] = store.run_history.page(TENANT, RunFilter(worker="night-1"), limit=9).runs
    took, waited = ran.duration or one, ran.delay or timedelta()
    factor = 1 if tenant else 2
    for where, count in (
        (EventFilter(worker="night-1"), 5),
        (EventFilter(tier=Tier.HIGH), 5),
        (EventFilter(tier=Tier.HIGH, label="rare"), 5),
        (EventFilter(error="http 503"), 5),
        (EventFilter(error="HTTP%503"), 0),
        (EventFilter(min_lateness=late), 5),
        (EventFilter(min_lateness=late + timedelta(seconds=1)), 0),
        (EventFilter(min_duration=took), 5),
        (EventFilter(min_duration=took + one), 0),
        (EventFilter(max_duration=took, worker="night-1"), 5),
        (EventFilter(max_duration=took - one, worker="night-1"), 0),
        (EventFilter(min_delay=waited, worker="night-1"), 5),
        (EventFilter(min_delay=waited + one, worker="night-1"), 0),
        (EventFilter(title="bank", min_duration=took), 5),
        (EventFilter(min_cost=Decimal("0.5")), 5),
        (EventFilter(min_cost=Decimal("0.500001")), 0),
        (EventFilter(worker="night-1", state=State.FAILED), 1),
        (EventFilter(text="bank", worker="night-1"), 5),
        (EventFilter(label="rare", min_cost=Decimal("0.1")), 5),
        (EventFilter(min_attempts=2), 0),
    ):
        for limit in limits(how, where):
            found = every(store, tenant, where, limit=limit)
            assert len({event.id for event in found}) == len(found) == factor * count, where
        if how == "as it is":  # a count knows of no other way
            counted = store.history.event_counts(tenant, where, EventGroup.TENANT).counts
            assert sum(counted.values()) == factor * count, where


def test_a_page_of_what_is_rare_ends_where_it_stopped_comparing(
    store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_walk, "MAX_EVENTS_COMPARED_FIRST", 2)
    monkeypatch.setattr(event_walk, "MAX_EVENTS_COMPARED", 3)
    added(store)
    for n in range(5):
        clock.at = NOON + timedelta(minutes=n + 1)
        added(store, clock.at)
    page = store.history.events(TENANT, EventFilter(kind=EventKind.PAUSED), limit=9)
    assert (page.events, page.searched_to) == ((), NOON + timedelta(minutes=3))
    assert page.cursor is not None


def test_events_of_a_task_are_found_by_an_operator_in_any_tenant(store: Store) -> None:
    task_id = added(store, tenant=OTHER).task.id
    added(store)
    assert [event.task_id for event in every(store, None, EventFilter(task_id), limit=1)] == [task_id]
    assert every(store, TENANT, EventFilter(task_id), limit=1) == []
