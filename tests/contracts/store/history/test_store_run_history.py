"""The history of runs: every filter, every page and every count, against a reading of all runs in Python."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import product
from zoneinfo import ZoneInfo

import pytest
from duetime.scheduler.events import EventKind
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.history.runs import BucketWidth, RunFilter, RunGroup, RunSummary
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.principal import Principal
from duetime.scheduler.records import Change
from duetime.scheduler.run_records import Claim
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.store.run_history import run_counts, run_list
from duetime.scheduler.store.text_index import text_search
from duetime.scheduler.task import Run, State, Tier
from duetime.scheduler.views import TaskRecord

from tests.builders import NOON, TENANT, Clock, a_run, a_task, added, cancelled, restarted, settlement, started

OTHER = "globex"
SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)


def ended(store: Store, clock: Clock, claim: Claim, to: State, *, after: timedelta = SECOND, **values: object) -> None:
    clock.at += after
    store.claims.settle([settlement(claim, to, **{"reason": values.get("error"), **values})])


def retitled(record: TaskRecord) -> Change:
    task = replace(record.task, title="Pay the bills", revision=record.task.revision + 1)
    return Change(task, record.run)


def fill(store: Store, clock: Clock) -> None:
    """Store runs that differ in all that a filter knows; a second tenant has some that are alike."""
    for tenant in (TENANT, OTHER):
        ended(store, clock, started(store, tenant=tenant, title="Quick"), State.SUCCEEDED, used={"tokens": 5.0})
        slow = started(store, tenant=tenant, action="webhook", worker="w2", priority=Tier.HIGH, labels=("web",))
        used = {"tokens": 900.0, "gpu": 1.0}
        ended(store, clock, slow, State.SUCCEEDED, after=HOUR, used=used, costs={"tokens": 2700, "gpu": 1_500_000})
        broken = started(store, tenant=tenant, title="Import", action="webhook", labels=("web", "data"), worker="w2")
        ended(store, clock, broken, State.FAILED, error="HTTP 503", reason="HTTP 503 from the zebra", failures=1)
        again = added(store, clock.at, tenant=tenant, title="Twice", owner="bob")
        first = restarted(store, again, worker="w3")
        ended(store, clock, first, State.RETRYING, wake_at=clock.at + MINUTE, reason="no zebra", error="no zebra")
        clock.at += 10 * MINUTE
        ended(
            store,
            clock,
            restarted(store, again, worker="w1"),
            State.SUCCEEDED,
            used={"gpu": 2.0},
            costs={"gpu": 3_000_000},
        )
        late = a_task(clock.at, tenant=tenant, title="Late", priority=Tier.CRITICAL)
        store.tasks.add(late[0], replace(late[1], deadline=clock.at + MINUTE), actor="alice")
        found = store.tasks.get(tenant, late[0].id)
        clock.at += 2 * MINUTE
        ended(store, clock, restarted(store, found), State.FAILED, after=5 * MINUTE, error="too late")
        cancelled(store, added(store, clock.at + HOUR, tenant=tenant, title="Gone"), reason="he called")
        series(store, clock, tenant)
        started(store, clock.at, tenant=tenant, title="At work", worker="w3")
        changed = added(store, clock.at + 2 * HOUR, tenant=tenant, owner="bob")
        store.tasks.change(tenant, changed.task.id, actor="carol", kind=EventKind.RESCHEDULED, decide=retitled)


def series(store: Store, clock: Clock, tenant: str) -> None:
    """Run a recurring task three times: its ended runs are not current."""
    task, run = a_task(clock.at, tenant=tenant, title="Daily", repeat="FREQ=DAILY", timezone="UTC", action="report")
    store.tasks.add(task, run, actor="alice")
    for to in (State.SUCCEEDED, State.FAILED, State.SUCCEEDED):
        record = store.tasks.get(tenant, task.id)
        clock.at = max(clock.at, record.run.scheduled_for)
        claim = restarted(store, record, worker="w9")
        following = a_run(task, clock.at + HOUR, number=claim.run.number + 1)
        ended(store, clock, claim, to, next_run=following, error="disk full" if to is State.FAILED else None)


def every(store: Store, tenant: str | None, where: RunFilter, *, limit: int = 100) -> list[RunSummary]:
    """Return the runs of all pages."""
    found: list[RunSummary] = []
    cursor = None
    for _ in range(200):
        page = store.run_history.page(tenant, where, limit=limit, cursor=cursor)
        assert len(page.runs) <= limit
        found += page.runs
        cursor = page.cursor
        if cursor is None:
            return found
    raise AssertionError("the pages have no end")


def ids(found: Sequence[RunSummary]) -> list[str]:
    return [run.id for run in found]


@pytest.fixture
def how(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Let a page compare all runs, or five; and let words be looked up, or found on the way."""
    way: str = request.param
    if way != "as it is":
        monkeypatch.setattr(run_list, "MAX_RUNS_SEARCHED_FIRST", 3)
        monkeypatch.setattr(run_list, "MAX_RUNS_SEARCHED", 5)
    if way == "no word is rare":
        monkeypatch.setattr(text_search, "MAX_INDEXED_MATCHES", 0)
    if way in {"rare words of many runs", "no word is rare"}:
        monkeypatch.setattr(run_list, "MAX_RUNS_LOOKED_UP", 0)
    return way


def took(run: RunSummary) -> timedelta:
    return timedelta(-1) if run.duration is None else run.duration


Meets = Callable[[RunSummary], bool]
FILTERS: dict[str, tuple[RunFilter, Meets]] = {
    "all": (RunFilter(), lambda _: True),
    "failed": (RunFilter(states=(State.FAILED,)), lambda run: run.state is State.FAILED),
    "running": (RunFilter(states=(State.RUNNING,)), lambda run: run.state is State.RUNNING),
    "two states": (
        RunFilter(states=(State.RUNNING, State.CANCELLED)),
        lambda run: run.state in {State.RUNNING, State.CANCELLED},
    ),
    "action": (RunFilter(action="webhook"), lambda run: run.action == "webhook"),
    "tier": (RunFilter(tier=Tier.CRITICAL), lambda run: run.tier is Tier.CRITICAL),
    "label": (RunFilter(label="web"), lambda run: "web" in run.labels),
    "label of none": (RunFilter(label="we"), lambda _: False),
    "worker": (RunFilter(worker="w2"), lambda run: run.worker == "w2"),
    "worker of an earlier attempt": (RunFilter(worker="w3"), lambda run: run.title in {"Twice", "At work"}),
    "owner": (RunFilter(actor="bob"), lambda run: run.title in {"Twice", "Pay the bills"}),
    "who changed it": (RunFilter(actor="carol"), lambda run: run.title == "Pay the bills"),
    "words of a title": (RunFilter(text="BILLS"), lambda run: run.title == "Pay the bills"),
    "words of an error": (RunFilter(text="disk"), lambda run: run.error == "disk full"),
    "title": (RunFilter(title="TWI"), lambda run: run.title == "Twice"),
    "title alone": (RunFilter(title="zebra"), lambda _: False),
    "title and words": (RunFilter(title="import", text="zebra"), lambda run: run.title == "Import"),
    "title and other words": (RunFilter(title="daily", text="zebra"), lambda _: False),
    "error": (RunFilter(error="Disk"), lambda run: run.error == "disk full"),
    "error alone": (RunFilter(error="daily"), lambda _: False),
    "title and error": (RunFilter(title="da", error="full"), lambda run: run.error == "disk full"),
    "reason": (RunFilter(text="Zebra"), lambda run: run.title in {"Import", "Twice"}),
    "title and state": (
        RunFilter(text="daily", states=(State.SUCCEEDED,)),
        lambda run: run.title == "Daily" and run.state is State.SUCCEEDED,
    ),
    "nothing": (RunFilter(text="no such words"), lambda _: False),
    "since": (RunFilter(since=NOON + HOUR), lambda run: run.at >= NOON + HOUR),
    "window": (RunFilter(since=NOON, until=NOON + HOUR), lambda run: NOON <= run.at < NOON + HOUR),
    "long": (RunFilter(min_duration=MINUTE), lambda run: took(run) >= MINUTE),
    "short": (RunFilter(max_duration=2 * SECOND), lambda run: timedelta(0) <= took(run) <= 2 * SECOND),
    "late": (RunFilter(min_lateness=MINUTE), lambda run: run.title == "Late"),
    "later": (RunFilter(min_lateness=HOUR), lambda _: False),
    "delayed": (RunFilter(min_delay=5 * MINUTE), lambda run: run.delay is not None and run.delay >= 5 * MINUTE),
    "attempts": (RunFilter(min_attempts=2), lambda run: run.attempt >= 2),
    "pool": (RunFilter(pool="gpu"), lambda run: run.units.get("gpu", 0) > 0),
    "units of a pool": (RunFilter(pool="tokens", min_units=100), lambda run: run.units.get("tokens", 0) >= 100),
    "units": (RunFilter(min_units=2), lambda run: sum(run.units.values()) >= 2),
    "cost": (RunFilter(min_cost=Decimal("1.502701")), lambda run: (run.cost or 0) >= Decimal("1.502701")),
    "cost of a pool": (
        RunFilter(pool="tokens", min_cost=Decimal("0.0027")),
        lambda run: run.units.get("tokens", 0) >= 100,
    ),
    "together": (
        RunFilter(action="webhook", worker="w2", label="data", states=(State.FAILED,), min_attempts=1),
        lambda run: run.title == "Import",
    ),
}  # fmt: skip


def compared(name: str) -> bool:
    """Whether runs are compared with something, so that a bound on how many are compared matters."""
    where = FILTERS[name][0]
    return where != RunFilter(states=where.states, since=where.since, until=where.until)


def looked_up(name: str) -> bool:
    """Whether there is an index of something that the filter names: of words or of labels."""
    where = FILTERS[name][0]
    return any(each is not None for each in (where.text, where.title, where.label))


WAYS: dict[str, tuple[Callable[[str], bool], tuple[int, ...]]] = {
    "as it is": (lambda _: True, (1, 4)),
    "searched by few": (compared, (4,)),
    "rare words of many runs": (looked_up, (4,)),
    "no word is rare": (looked_up, (4,)),
}
"""For each way of a search: the filters that it makes a difference to, and the sizes of pages.

A page of 4 asks for 5 runs, as many as are compared: some pages are full, and others end where the search stopped.
Where all is compared, each filter meets each two of: one tenant or all, either order, one page or several. On the other
ways each filter finds the runs of one tenant; every second one also finds those of all tenants, in either order.
"""


@pytest.mark.parametrize("how", WAYS, indirect=True)
def test_each_filter_finds_the_runs_that_meet_it_in_either_order(how: str, store: Store, clock: Clock) -> None:
    fill(store, clock)
    while store.search.advance():
        pass
    everything = every(store, None, RunFilter())
    assert everything == sorted(everything, key=lambda run: (run.at, run.id), reverse=True)
    matters, limits = WAYS[how]
    for number, (name, (where, meets)) in enumerate(FILTERS.items()):
        if not matters(name):
            continue
        wanted = [run for run in everything if meets(run)]
        assert name == "all" or len(wanted) < len(everything)
        of_one = [run for run in wanted if run.tenant == TENANT]
        for limit in limits if name == "all" else limits[-1:]:
            assert ids(every(store, TENANT, where, limit=limit)) == ids(of_one), name
        if how == "as it is":  # a count knows of no other way
            assert ids(every(store, TENANT, replace(where, oldest_first=True))) == ids(of_one)[::-1], name
            assert ids(every(store, None, where)) == ids(wanted), name
            counted = store.run_history.counts(TENANT, where, RunGroup.ACTION).counts
            assert counted == Counter(run.action for run in of_one), name
        if how == "as it is" or number % 2 == 0:
            oldest_first = how == "as it is" or number % 4 == 0
            turned = replace(where, oldest_first=oldest_first)
            assert ids(every(store, None, turned, limit=5)) == ids(wanted)[:: -1 if oldest_first else 1], name


def test_the_bounds_of_time_and_length_are_met_to_the_microsecond(store: Store, clock: Clock) -> None:
    fill(store, clock)
    found = [run for run in every(store, TENANT, RunFilter()) if run.duration is not None]
    assert len({run.duration for run in found}) > 1
    for run in found:
        at, long, one = run.at, took(run), timedelta(microseconds=1)
        meeting = [
            RunFilter(since=at),
            RunFilter(until=at + one),
            RunFilter(min_duration=long),
            RunFilter(max_duration=long),
        ]
        missing = [
            RunFilter(since=at + one),
            RunFilter(until=at),
            RunFilter(min_duration=long + one),
            RunFilter(max_duration=long - one),
        ]
        assert [run.id in ids(every(store, TENANT, where)) for where in (*meeting, *missing)] == [True] * 4 + [
            False
        ] * 4


def test_open_runs_are_no_part_of_a_search_for_durations(
    store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They would be compared first, as those that are due later come before all that has ended."""
    ended(store, clock, started(store), State.SUCCEEDED, after=HOUR)
    for hour in range(9):
        added(store, clock.at + hour * HOUR)
    monkeypatch.setattr(run_list, "MAX_RUNS_SEARCHED_FIRST", 1)
    monkeypatch.setattr(run_list, "MAX_RUNS_SEARCHED", 2)
    assert len(store.run_history.page(TENANT, RunFilter(min_duration=HOUR), limit=9).runs) == 1
    assert every(store, TENANT, RunFilter(states=(State.SCHEDULED,), min_duration=HOUR)) == []


def test_rare_words_of_the_newest_runs_are_looked_up_when_comparing_does_not_fill_the_page(
    store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    for hour in range(9):
        added(store, clock.at + hour * HOUR, title="Call the dentist" if hour in {0, 7, 8} else "Call John")
    monkeypatch.setattr(run_list, "MAX_RUNS_SEARCHED_FIRST", 2)
    monkeypatch.setattr(run_list, "MAX_RUNS_SEARCHED", 4)
    store.search.advance()
    page = store.run_history.page(TENANT, RunFilter(title="dentist"), limit=3)
    assert (len(page.runs), page.searched_to) == (3, None)


def test_a_page_compares_fewer_runs_the_more_places_its_conditions_look_in(
    store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    for hour in range(9):
        added(store, clock.at + hour * HOUR)
    monkeypatch.setattr(run_list, "MAX_RUNS_SEARCHED_FIRST", 1)
    monkeypatch.setattr(run_list, "MAX_RUNS_SEARCHED", 6)
    one = RunFilter(tier=Tier.CRITICAL)
    two = replace(one, worker="w9")
    newest = every(store, TENANT, RunFilter())
    for where, compared in ((one, 6), (two, 3), (replace(two, pool="gpu"), 2)):
        reached = store.run_history.page(TENANT, where, limit=5).searched_to
        assert reached == newest[compared - 1].at, where


def test_a_run_says_what_its_task_says_and_what_it_used(store: Store, clock: Clock) -> None:
    fill(store, clock)
    [run] = every(store, TENANT, RunFilter(pool="tokens", min_units=100))
    assert (run.tenant, run.action, run.tier, run.labels) == (TENANT, "webhook", Tier.HIGH, ("web",))
    assert (run.state, run.worker, run.attempt, run.units) == (
        State.SUCCEEDED, "w2", 1, {"tokens": 900.0, "gpu": 1.0},
    )  # fmt: skip
    assert run.cost == Decimal("1.5027")
    assert (run.duration, run.at, run.lateness) == (HOUR, run.ended_at, None)


def test_a_run_says_what_stands_before_its_state(store: Store, clock: Clock) -> None:
    run = started(store, clock.at, title="Asked to stop").run
    overtaken = started(store, clock.at, title="Gives way").run
    for each, overtaken_at in ((run, None), (overtaken, clock.at)):
        asked = replace(each, cancel_requested=True, overtaken_at=overtaken_at)
        store.tasks.change(TENANT, each.task_id, actor="alice", kind=EventKind.CANCEL_REQUESTED, decide=to(asked))
    scheduler = Scheduler(store, Planner(Handlers.load(entry_points=False), "UTC"))
    by = Principal(TENANT)
    scheduler.schedule("Held", when=clock.at + HOUR, by=by)
    scheduler.reschedule(scheduler.tasks.find("Held", by=by), pause=True, by=by)
    missing = a_task(clock.at + HOUR, title="Misses")
    store.tasks.add(missing[0], replace(missing[1], summary="blocked: no key"), actor="alice")

    found = {each.title: each for each in every(store, TENANT, RunFilter())}

    stands = {title: (each.state, each.stands) for title, each in found.items()}
    assert stands == {
        "Asked to stop": (State.RUNNING, "stopping"),
        "Gives way": (State.RUNNING, "running"),
        "Held": (State.SCHEDULED, "paused"),
        "Misses": (State.SCHEDULED, "blocked"),
    }
    assert (found["Misses"].why, found["Held"].why) == ("no key", None)


def to(run: Run) -> Callable[[TaskRecord], Change]:
    """Return what makes this run of a task."""
    return lambda record: Change(replace(record.task, revision=record.task.revision + 1), run)


def test_the_runs_of_one_task_are_those_of_its_tenant(store: Store, clock: Clock) -> None:
    fill(store, clock)
    [daily] = {run.task_id for run in every(store, TENANT, RunFilter(text="Daily"))}
    assert len(every(store, TENANT, RunFilter(daily))) == 4
    assert every(store, OTHER, RunFilter(daily)) == []
    assert len(every(store, TENANT, RunFilter(daily, states=(State.SUCCEEDED,)), limit=1)) == 2


COUNTED: dict[RunGroup, dict[str, int]] = {
    RunGroup.TIER: {"normal": 10, "high": 1, "critical": 1},
    RunGroup.WORKER: {"w1": 3, "w2": 2, "w3": 1, "w9": 3},
    RunGroup.LABEL: {"home": 10, "phone": 10, "web": 2, "data": 1},
    RunGroup.ERROR: {"HTTP 503": 1, "too late": 1, "disk full": 1},
    RunGroup.TENANT: {TENANT: 12},
}


def test_runs_are_counted_by_group(store: Store, clock: Clock) -> None:
    fill(store, clock)
    for group, expected in COUNTED.items():
        found = store.run_history.counts(TENANT, RunFilter(), group)
        assert found.counts == expected, group
        assert list(found.counts.values()) == sorted(expected.values(), reverse=True)
        assert found.counted_to is None


def test_the_runs_of_one_task_are_counted_without_the_others(store: Store, clock: Clock) -> None:
    fill(store, clock)
    for run in every(store, TENANT, RunFilter()):
        of_task = RunFilter(run.task_id)
        expected = Counter(each.state for each in every(store, TENANT, of_task))
        assert store.run_history.counts(TENANT, of_task, RunGroup.STATE).counts == expected
        [*found] = store.run_history.buckets(TENANT, of_task, BucketWidth.DAY).buckets
        assert sum(sum(bucket.counts.values()) for bucket in found) == expected.total()
        assert store.run_history.counts(OTHER, of_task, RunGroup.STATE).counts == {}
    narrow = RunFilter(run.task_id, states=(State.FAILED,))
    assert store.run_history.counts(TENANT, narrow, RunGroup.STATE).counts.keys() <= {State.FAILED}
    assert store.run_history.counts(TENANT, RunFilter("t_none"), RunGroup.STATE).counts == {}


def test_an_operator_counts_the_runs_of_each_tenant(store: Store, clock: Clock) -> None:
    fill(store, clock)
    assert store.run_history.counts(None, RunFilter(), RunGroup.TENANT).counts == {TENANT: 12, OTHER: 12}


def test_a_count_of_more_runs_than_are_read_says_how_far_back_it_goes(
    store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(store, clock)
    newest = every(store, TENANT, RunFilter())
    monkeypatch.setattr(run_counts, "MAX_RUNS_COUNTED", 5)
    found = store.run_history.counts(TENANT, RunFilter(), RunGroup.STATE)
    assert found.counts == Counter(run.state.value for run in newest[:5])
    assert found.counted_to == newest[4].at
    monkeypatch.setattr(run_counts, "MAX_RUNS_COUNTED", len(newest) - 1)
    assert store.run_history.counts(TENANT, RunFilter(), RunGroup.STATE).counted_to == newest[-2].at
    monkeypatch.setattr(run_counts, "MAX_RUNS_COUNTED", len(newest))
    assert store.run_history.counts(TENANT, RunFilter(), RunGroup.STATE).counted_to is None, "none is older"


def test_buckets_are_those_of_the_zone(store: Store, clock: Clock) -> None:
    fill(store, clock)
    everything = every(store, TENANT, RunFilter())
    for width, zone in product(BucketWidth, ("UTC", "America/St_Johns", "Asia/Kathmandu")):
        expected: dict[datetime, Counter[State]] = {}
        for run in everything:
            expected.setdefault(start_of(run.at, width, zone), Counter())[run.state] += 1
        found = store.run_history.buckets(TENANT, RunFilter(), width, zone)
        assert [(each.start, each.counts) for each in found.buckets] == sorted(expected.items()), (width, zone)


def start_of(at: datetime, width: BucketWidth, zone: str) -> datetime:
    local = at.astimezone(ZoneInfo(zone)).replace(second=0, microsecond=0)
    if width is not BucketWidth.MINUTE:
        local = local.replace(minute=0)
    if width is BucketWidth.DAY:
        local = local.replace(hour=0)
    return local.astimezone(at.tzinfo)
