"""A week of 50 tenants on a virtual clock: clock changes, an outage, a broken chain, a watch, a move and its undo."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from duetime.scheduler.history.dead_letters import DeadLetterFilter
from duetime.scheduler.history.runs import RunFilter, RunSummary
from duetime.scheduler.principal import Principal
from duetime.scheduler.request import StepArguments
from duetime.scheduler.rules.states import TERMINAL
from duetime.scheduler.store import open_store
from duetime.scheduler.task import ApprovalRequest, RetryPolicy, State, Tier
from duetime.scheduler.views import TaskFilter

from tests.builders import Clock
from tests.series.week import Begun, Week, tenant

TENANT_COUNT = 50
BEGIN = datetime(2026, 3, 28, 18, tzinfo=UTC)
END = BEGIN + timedelta(days=7, hours=6)
"""In between Berlin moves its clocks forward (29 March, 01:00 UTC), and Sydney back (4 April, 16:00 UTC)."""

ZONES = (ZoneInfo("Europe/Berlin"), ZoneInfo("Australia/Sydney"))
NIGHT, MORNING = time(2, 30), time(9)
OUTAGE = (datetime(2026, 4, 1, 12, tzinfo=UTC), datetime(2026, 4, 1, 13, tzinfo=UTC))
ASKED_IN_OUTAGE_COUNT = 200
BRANCHES = ("eu", "us", "asia")
MAX_ATTEMPTS_IN_OUTAGE = 20
MAX_OF_MEAN_RATIO = 3
MINUTE = timedelta(minutes=1)


def at(day: int, hour: int, minute: int = 0, month: int = 4) -> datetime:
    return datetime(2026, month, day, hour, minute, tzinfo=UTC)


@pytest.fixture
def week(tmp_path: Path) -> Iterator[Week]:
    clock = Clock(BEGIN)
    store = open_store(f"sqlite:///{tmp_path / 'duetime.db'}", clock=clock, synchronous="OFF")
    yield Week(store, clock)
    store.close()


def zone_of(number: int) -> ZoneInfo:
    return ZONES[number % 2]


def wall_times(zone: ZoneInfo, wall: time, *, weekdays: bool) -> list[datetime]:
    """Return when a wall time comes in the week: the first of two, the end of the gap for one that is left out."""
    found = []
    for ahead in range(-1, 10):
        day = date(2026, 3, 28) + timedelta(days=ahead)
        local = datetime.combine(day, wall, zone)
        instant = local.astimezone(UTC)
        if instant.astimezone(zone).time() != wall:  # it is left out: clocks jump over it
            instant = datetime.combine(day, time(3), zone).astimezone(UTC)
        if BEGIN <= instant < END and (day.weekday() < 5 or not weekdays):
            found.append(instant)
    return found


def past_runs(week: Week, by: Principal) -> list[RunSummary]:
    found: list[RunSummary] = []
    cursor = None
    while True:
        page = week.scheduler.past.runs(RunFilter(), limit=100, cursor=cursor, by=by)
        found += page.runs
        cursor = page.cursor
        if cursor is None:
            return found


def schedule_series(week: Week) -> None:
    for number in range(TENANT_COUNT):
        zone, by = zone_of(number).key, tenant(number)
        week.scheduler.schedule("Night", action="sync", repeat="every day at 2:30", timezone=zone, by=by)
        needs = {"model": 1}
        week.scheduler.schedule(
            "Morning", action="report", repeat="every weekday at 9:00", timezone=zone, needs=needs, by=by
        )


def schedule_chain(week: Week) -> str:
    """Schedule 12 steps: three branches between a first and two last ones; the load of one branch is broken."""
    week.world.broken = {"load-us"}
    parts = (("split", "fetch"), ("load", "split-{}"), ("check", "load-{}"))
    branches = [_step(f"{part}-{name}", after.format(name)) for name in BRANCHES for part, after in parts]
    merge = _step("merge", *(f"check-{name}" for name in BRANCHES))
    steps = [_step("fetch"), *branches, merge, _step("mail", "merge")]
    view = week.scheduler.schedule("Load the world", when=at(31, 8, month=3), steps=steps, by=tenant(0))
    assert view.chain is not None
    assert len(view.chain.steps) == 12
    return view.chain.id


def _step(name: str, *after: str) -> StepArguments:
    return {"name": name, "action": "step", "payload": {"name": name}, "after": list(after)}


def states_of_steps(week: Week) -> Counter[State]:
    views = week.scheduler.tasks.list(TaskFilter(query="load the world"), limit=100, by=tenant(0)).views
    return Counter(view.record.run.state for view in views)


def ask_in_the_outage(week: Week) -> None:
    """Schedule reports of all tiers for the hour in which the provider is away."""
    retry = RetryPolicy(max_attempts=10, backoff=MINUTE)
    for number in range(ASKED_IN_OUTAGE_COUNT):
        week.scheduler.schedule(
            "Urgent report",
            action="report",
            when=OUTAGE[0] + MINUTE * (5 + number * 45 / ASKED_IN_OUTAGE_COUNT),
            priority=list(Tier)[number % len(Tier)],
            needs={"model": 1},
            retry=retry,
            by=tenant(number % TENANT_COUNT),
        )


def begun_of(week: Week, title: str) -> list[Begun]:
    return [each for each in week.begun if each.claim.task.title == title]


def check_series(week: Week) -> None:
    for number in range(TENANT_COUNT):
        runs = past_runs(week, tenant(number))
        for title, wall, weekdays in (("Night", NIGHT, False), ("Morning", MORNING, True)):
            ended = sorted(run.scheduled_for for run in runs if run.title == title and run.state in TERMINAL)
            assert ended == wall_times(zone_of(number), wall, weekdays=weekdays), (number, title)
        lost = [run.title for run in runs if run.state in TERMINAL - {State.SUCCEEDED, State.FAILED}]
        assert lost == (["Delete"] if number == 3 else [])


def check_outage(week: Week) -> None:
    """Nothing failed, few asked in vain, and the rest were let go by priority and at an even pace."""
    asked = begun_of(week, "Urgent report")
    during = [each for each in asked if each.at < OUTAGE[1]]
    after = [each for each in asked if each.at >= OUTAGE[1]]
    assert len(during) <= MAX_ATTEMPTS_IN_OUTAGE
    assert len({each.claim.run.id for each in asked}) == ASKED_IN_OUTAGE_COUNT
    for number in range(TENANT_COUNT):
        runs = past_runs(week, tenant(number))
        assert {run.state for run in runs if run.title == "Urgent report"} == {State.SUCCEEDED}
    places = {tier: [place for place, each in enumerate(after) if each.tier is tier] for tier in Tier}
    means = [statistics.mean(places[tier]) for tier in Tier]
    assert means == sorted(means)
    seconds = Counter(int((each.at - after[0].at).total_seconds()) for each in after)
    mean = len(after) / ((after[-1].at - after[0].at).total_seconds() + 1)
    assert max(seconds.values()) <= MAX_OF_MEAN_RATIO * mean


def test_a_week_goes_as_it_was_scheduled(week: Week) -> None:
    schedule_series(week)
    schedule_chain(week)
    ask_in_the_outage(week)
    week.world.away = OUTAGE
    week.world.shipped_at = at(2, 10, 10)
    watch = {"check": "parcel", "condition": "@ == 'shipped'", "every": "30 min", "until": "7 days"}
    parcel = week.scheduler.schedule("Parcel", action="watch", when=at(29, 9, month=3), payload=watch, by=tenant(1))
    unpack = week.scheduler.schedule("Unpack", action="sync", after=[parcel.record.task.id], by=tenant(1))
    asked: ApprovalRequest = {"question": "Delete the old reports?", "by": "2 hours", "default": "reject"}
    offer = week.scheduler.schedule("Delete", action="sync", when=at(30, 9, month=3), approval=asked, by=tenant(3))
    week.turn(at(29, 8, month=3))
    week.scheduler.signals.send("goods.sent", {"order": 7}, event_id="e-7", by=tenant(4))
    week.turn(at(29, 8, 30, month=3))
    waits = {"event": "goods.sent", "match": {"order": 7}, "lookback": "1 hour", "timeout": "1 day"}
    bill = week.scheduler.schedule("Bill", action="sync", wait_for=waits, by=tenant(4)).record.task.id
    calls = [
        week.scheduler.schedule(f"Call {name}", when=at(3, 13 + place), by=tenant(2)).record.task.id
        for place, name in enumerate(("Ann", "Bob", "Cleo"))
    ]

    week.turn(at(31, 12, month=3))
    assert begun_of(week, "Delete") == []
    assert week.scheduler.get(bill, by=tenant(4)).record.run.state is State.SUCCEEDED, "the event had come before"
    assert week.scheduler.get(offer.record.task.id, by=tenant(3)).record.run.state is State.CANCELLED
    assert states_of_steps(week) == {State.SUCCEEDED: 8, State.FAILED: 4}
    [letter], _ = week.scheduler.letters.page(DeadLetterFilter(), by=tenant(0))
    assert letter.title == "Load the world: load-us"
    week.world.broken.clear()
    week.scheduler.letters.replay([letter.run_id], by=tenant(0))
    week.turn(at(31, 13, month=3))
    assert states_of_steps(week) == {State.SUCCEEDED: 12}
    tries = Counter(each.claim.task.title for each in week.begun if each.claim.task.action == "step")
    assert tries.most_common(2)[0] == ("Load the world: load-us", 2)
    assert tries.total() == 12 + 1
    assert sorted(week.world.inputs["merge"].values()) == ["check-asia", "check-eu", "check-us"]

    week.turn(at(3, 8))
    [found] = begun_of(week, "Unpack")
    assert at(2, 10, 10) <= found.at < at(2, 10, 45)
    assert week.scheduler.get(unpack.record.task.id, by=tenant(1)).record.run.state is State.SUCCEEDED
    where = TaskFilter(query="call")
    moved = week.scheduler.bulk.change("move", where=where, to="1 day later", expect=3, by=tenant(2))
    assert [week.scheduler.get(each, by=tenant(2)).record.run.scheduled_for for each in calls] == [
        at(4, 13 + place) for place in range(3)
    ]
    week.turn(at(3, 8, 5))
    week.scheduler.bulk.change("undo", undo=moved.undo, by=tenant(2))

    week.turn(END)
    assert [each.at for title in ("Call Ann", "Call Bob", "Call Cleo") for each in begun_of(week, title)] == [
        at(3, 13 + place) for place in range(3)
    ]
    check_series(week)
    check_outage(week)
    assert week.store.integrity.examine().findings == ()
