"""Counts of events by group and by time: each filter, each group, bounded, and of all tenants for an operator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from duetime.scheduler.events import Event, EventFilter, EventKind
from duetime.scheduler.history.events import EventGroup
from duetime.scheduler.history.runs import BucketWidth
from duetime.scheduler.store import Store
from duetime.scheduler.store.lists import event_counts
from duetime.scheduler.task import State

from tests.builders import TENANT, Clock
from tests.contracts.store.history.test_store_event_history import FILTERS, OTHER, every, fill

OF_EVENT: dict[EventGroup, Callable[[Event], str | None]] = {
    EventGroup.KIND: lambda event: event.kind.value,
    EventGroup.STATE: lambda event: event.to_state and event.to_state.value,
    EventGroup.ACTOR: lambda event: event.actor,
    EventGroup.SURFACE: lambda event: event.via and event.via.partition(" ")[0],
    EventGroup.TENANT: lambda event: event.tenant,
}


def start_of(at: datetime, width: BucketWidth, zone: str) -> datetime:
    local = at.astimezone(ZoneInfo(zone)).replace(second=0, microsecond=0)
    if width is not BucketWidth.MINUTE:
        local = local.replace(minute=0)
    return (local.replace(hour=0) if width is BucketWidth.DAY else local).astimezone(UTC)


def test_events_are_counted_by_group_with_each_filter(store: Store, clock: Clock) -> None:
    fill(store, clock, TENANT)
    fill(store, clock, OTHER)
    for tenant in (TENANT, None):
        for where, _ in FILTERS.values():
            listed = every(store, tenant, where, limit=100)
            for group, word in OF_EVENT.items():
                found = store.history.event_counts(tenant, where, group)
                expected = Counter(named for event in listed if (named := word(event)))
                assert found.counts == expected, (tenant, where, group)
                assert list(found.counts.values()) == sorted(expected.values(), reverse=True)
                assert found.counted_to is None


def test_events_are_counted_by_what_their_tasks_say(store: Store, clock: Clock) -> None:
    fill(store, clock, TENANT)
    events, labelled = every(store, TENANT, EventFilter(), limit=100), EventFilter(label="home")
    home = len(every(store, TENANT, labelled, limit=100))
    webhook = len(every(store, TENANT, EventFilter(action="webhook"), limit=100))
    by_label = store.history.event_counts(TENANT, EventFilter(), EventGroup.LABEL).counts
    by_action = store.history.event_counts(TENANT, EventFilter(), EventGroup.ACTION).counts

    assert by_label["home"] == home
    assert by_action == {"webhook": webhook, "reminder": len(events) - webhook}
    assert store.history.event_counts(TENANT, labelled, EventGroup.LABEL).counts["home"] == home
    text = EventFilter(text="no bank today")
    assert store.history.event_counts(TENANT, text, EventGroup.KIND).counts == {"cancelled": 1}


@pytest.mark.parametrize("of_task", [False, True])
def test_a_count_of_more_events_than_are_read_says_how_far_back_it_goes(
    store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch, of_task: bool
) -> None:
    fill(store, clock, TENANT)
    failed = every(store, TENANT, EventFilter(state=State.FAILED), limit=1)[0].task_id
    where = EventFilter(task_id=failed if of_task else None)
    newest = every(store, TENANT, where, limit=100)
    monkeypatch.setattr(event_counts, "MAX_COUNTED_EVENTS", 3)
    found = store.history.event_counts(TENANT, where, EventGroup.KIND)

    assert len(newest) > 3
    assert found.counts == Counter(event.kind.value for event in newest[:3])
    assert found.counted_to == newest[2].at
    assert store.history.event_counts(OTHER, where, EventGroup.KIND).counts == {}
    monkeypatch.setattr(event_counts, "MAX_COUNTED_EVENTS", len(newest))
    assert store.history.event_counts(TENANT, where, EventGroup.KIND).counted_to is None, "none is older"


@pytest.mark.parametrize("zone", ["UTC", "America/St_Johns", "Asia/Kathmandu"])
def test_buckets_of_events_are_those_of_the_zone(store: Store, clock: Clock, zone: str) -> None:
    fill(store, clock, TENANT)
    clock.forward(hours=5)
    fill(store, clock, TENANT)
    for width in BucketWidth:
        expected: dict[datetime, Counter[EventKind]] = {}
        for event in every(store, TENANT, EventFilter(), limit=100):
            expected.setdefault(start_of(event.at, width, zone), Counter())[event.kind] += 1
        found = store.history.event_buckets(TENANT, EventFilter(), width, zone)
        assert [(each.start, each.counts) for each in found.buckets] == sorted(expected.items())


def test_bounds_in_time_bound_a_count(store: Store, clock: Clock) -> None:
    began = clock.at
    fill(store, clock, TENANT)
    clock.forward(hours=1)
    fill(store, clock, TENANT)
    early = EventFilter(until=began + timedelta(minutes=30))
    late = EventFilter(since=began + timedelta(minutes=30))
    total = [sum(store.history.event_counts(TENANT, where, EventGroup.KIND).counts.values()) for where in (early, late)]

    assert total[0] == total[1] > 0
