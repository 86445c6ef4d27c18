"""A damaged row hides no other, is shown as damaged, can be cancelled, and fails once when it is due."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import timedelta

import pytest
from duetime.scheduler.errors import UnreadableTask
from duetime.scheduler.events import EventFilter, EventKind
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.history.dead_letters import DeadLetterFilter
from duetime.scheduler.history.events import EventGroup
from duetime.scheduler.history.runs import RunFilter, RunGroup
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.principal import Principal
from duetime.scheduler.records import IdempotencyKey
from duetime.scheduler.run_records import Start
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store, open_store
from duetime.scheduler.store.migrations import upgrade
from duetime.scheduler.store.schema.rows import RUN_FIELDS, TASK_FIELDS
from duetime.scheduler.task import State, Tier
from duetime.scheduler.views import TaskFilter, TaskRecord

from tests.builders import (
    LEASE,
    NOON,
    TENANT,
    Clock,
    a_task,
    added,
    delivery,
    message,
    pool_act,
    settlement,
    some,
    started,
    with_deadline,
)
from tests.contracts.store.damages import columns, damage, damages, of_each_column

pytestmark = pytest.mark.damages

ALICE = Principal(TENANT, "alice")
READ = {("tasks", column.name) for column in TASK_FIELDS} | {("runs", column.name) for column in RUN_FIELDS}
"""Columns that every answer about a task reads."""

HELD = frozenset({"paused", "cancel_requested"})
"""A damaged pause holds a run like a pause."""


@pytest.fixture
def service(store: Store) -> Scheduler:
    return Scheduler(store, Planner(Handlers.load(entry_points=False), "UTC"))


def spoiled(url: str, store: Store, table: str, column: str, **values: object) -> Iterator[TaskRecord]:
    """Yield tasks that are due, each with another damage of the column."""
    for value in damages(table, column, url):
        record = added(store, NOON - timedelta(minutes=1), **values)
        row_id = record.task.id if table == "tasks" else record.run.id
        damage(url, table, column, value, id=row_id)
        yield record


@of_each_column("tasks", "runs")
def test_a_damaged_task_is_listed_with_all_others_counted_and_can_be_cancelled(
    url: str, store: Store, service: Scheduler, table: str, column: str
) -> None:
    odd = [record.task.id for record in spoiled(url, store, table, column)]
    other = added(store).task.id
    page = service.tasks.list(TaskFilter(), by=ALICE)
    warned = {view.record.task.id for view in page.views if any("damaged" in each for each in view.warnings)}
    assert {view.record.task.id for view in page.views} == {*odd, other}
    assert warned == ({*odd} if (table, column) in READ else set())
    for task_id in (*odd, other):
        assert service.get(task_id, by=ALICE).record.task.id == task_id
        assert service.explain(task_id, by=ALICE)[1]
    assert service.past.events(EventFilter(), by=ALICE).events
    assert store.backlog.waiting(NOON)[Tier.NORMAL].count >= 1, "the one that is not damaged"
    found = [each for each in store.integrity.damaged().findings if each.table == table]
    assert sum(each.count for each in found if f"in {column}:" in each.broken) == len(odd)
    for task_id in odd:
        assert service.cancel(task_id, by=ALICE).record.run.state is State.CANCELLED
        assert service.get(task_id, by=ALICE).record.run.state is State.CANCELLED
    assert service.get(other, by=ALICE).record.run.state is State.SCHEDULED


def make_all_ready(store: Store) -> list[str]:
    """Return the runs that became ready, until nothing is due any more."""
    ready: list[str] = []
    for _ in range(20):
        found = store.claims.make_ready(limit=2)
        ready += [run.run_id for run in found]
        first = store.claims.next_times().first()
        if not found and (first is None or first > NOON):
            return ready
    raise AssertionError("something is due for ever")


@of_each_column("tasks", "runs")
def test_a_damaged_run_that_is_due_fails_once_and_all_others_run(
    url: str, store: Store, service: Scheduler, table: str, column: str
) -> None:
    odd = list(spoiled(url, store, table, column))
    other = added(store)
    ready = make_all_ready(store)
    store.claims.fail_damaged()
    starts = [Start(run_id, f"token of {run_id}") for run_id in ready]
    running = {claim.run.id for claim in store.claims.start(starts, worker="w", epoch=None, lease=LEASE)}
    assert other.run.id in running
    store.claims.fail_damaged()
    assert {run.run_id for run in store.claims.running(limit=99)} <= running
    for record in odd:
        run = service.get(record.task.id, by=ALICE).record.run
        if run.id not in running and column not in HELD:
            assert (run.state, (run.error or "")[:8]) == (State.FAILED, "damaged:")
            events = service.past.events(EventFilter(record.task.id), by=ALICE).events
            assert [event.kind for event in events].count(EventKind.FAILED) == 1
            assert record.run.id in [each.run_id for each in store.inbox.unread(TENANT, "alice")] or column == "owner"


@of_each_column("tasks", "runs")
def test_a_damaged_ready_or_running_task_hides_no_other(
    url: str, store: Store, service: Scheduler, *, clock: Clock, table: str, column: str
) -> None:
    for value in damages(table, column, url):
        ready, claim = added(store), started(store)
        row_ids = (ready.task.id, claim.task.id) if table == "tasks" else (ready.run.id, claim.run.id)
        store.claims.make_ready(limit=99)
        for row_id in row_ids:
            damage(url, table, column, value, id=row_id)
    other, working = added(store), started(store)
    assert other.run.id in {run.run_id for run in store.claims.ready(limit=99)}
    assert working.run.id in {run.run_id for run in store.claims.running(limit=99)}
    assert store.claims.start([Start(other.run.id, "t")], worker="w", epoch=None, lease=LEASE)
    assert store.claims.settle([settlement(working)])
    clock.forward(minutes=1)
    store.claims.fail_damaged()
    clock.forward(minutes=1)
    store.claims.recover_lapsed(epoch=None, held=(), before=clock())
    make_all_ready(store)
    store.claims.fail_damaged()
    listed = service.tasks.list(TaskFilter(), limit=50, by=ALICE).views
    assert State.RUNNING not in some(view.record.run.state for view in listed)


@of_each_column("events")
def test_a_damaged_event_is_shown_as_such_and_history_goes_on(
    url: str, store: Store, service: Scheduler, table: str, column: str
) -> None:
    task = added(store).task
    service.reschedule(task.id, when="in 2 days", by=ALICE)
    for value in damages(table, column, url):
        damage(url, table, column, value, task_id=task.id, seq=1)
        events = service.past.events(EventFilter(task.id), by=ALICE).events
        assert [event.seq for event in events] == [2, 1]
        if column not in {"revision", "tx"}:
            assert "damaged" in (events[1].reason or "")
        assert {event.seq for event in store.history.since(0)} >= {2}
        assert service.past.events(EventFilter(), by=ALICE).events
    assert service.cancel(task.id, by=ALICE).record.run.state is State.CANCELLED


def test_a_damaged_number_of_an_event_keeps_no_task_from_changing(url: str, store: Store, service: Scheduler) -> None:
    task, other = added(store).task, added(store).task
    for value in damages("events", "seq", url):
        damage(url, "events", "seq", value, task_id=task.id)
    assert service.cancel(task.id, by=ALICE).record.run.state is State.CANCELLED
    assert service.cancel(other.id, by=ALICE).record.run.state is State.CANCELLED


@of_each_column("deliveries", but=["held_until"])
def test_a_damaged_delivery_is_given_up_and_keeps_no_other(url: str, store: Store, table: str, column: str) -> None:
    sent = []
    for _ in range(len(damages(table, column, url)) + 1):
        claim = started(store)
        each = delivery(claim)
        sent.append((claim, each))
        store.claims.settle([settlement(claim, inbox=message(claim), deliveries=(each,))])
    (_, other), *odd = sent
    for value, (_, each) in zip(damages(table, column, url), odd, strict=True):
        damage(url, table, column, value, id=each.id)
    assert other.id in {found.id for found, _ in store.deliveries.due(limit=99)}
    assert store.deliveries.next_wake() == NOON
    assert store.deliveries.settle_delivered([other.id], 0)
    assert store.deliveries.due(limit=99) == []
    store.deliveries.next_wake()
    for claim, _ in sent:
        assert store.tasks.get(TENANT, claim.task.id).deliveries


def test_a_damaged_mark_of_quiet_hours_holds_no_delivery(url: str, store: Store) -> None:
    for value in some(damages("deliveries", "held_until", url)):
        claim = started(store)
        each = delivery(claim)
        store.claims.settle([settlement(claim, inbox=message(claim), deliveries=(each,))])
        damage(url, "deliveries", "held_until", value, id=each.id)
        assert each.id in {found.id for found, _ in store.deliveries.due(limit=99)}
        assert store.deliveries.held(TENANT, "alice", most=9) == (0, None)
        assert store.deliveries.settle_delivered([each.id], 0)


@pytest.mark.parametrize("table", ["inbox", "attempts", "tracebacks", "dead_letters", "idempotency_keys", "usage"])
def test_damage_around_a_task_hides_nothing(url: str, store: Store, service: Scheduler, table: str) -> None:
    task, run = a_task(NOON - timedelta(minutes=1))
    key = IdempotencyKey("key", {"title": "Call John"}, NOON + timedelta(days=1))
    store.tasks.add(task, run, actor="alice", key=key)
    store.claims.make_ready(limit=9)
    [claim] = store.claims.start([Start(run.id)], worker="w", epoch=None, lease=LEASE)
    end = settlement(
        claim, State.FAILED, inbox=message(claim), dead_letter=True, used={"gpu": 1}, traceback="Traceback"
    )
    store.claims.settle([end])
    changed = [name for name in columns(table) if name not in {"user", "key", "pool"}]
    found = [(name, value) for name in changed for value in damages(table, name, url)]
    if not found:
        pytest.skip("each value that these columns take can be read")
    for column, value in found:
        of = {"task_id": task.id} if table == "idempotency_keys" else {"run_id": run.id}
        damage(url, table, column, value, **of)
        assert service.tasks.list(TaskFilter(), by=ALICE, mention=True).views
        store.inbox.unread(TENANT, "alice")
        assert store.history.attempts(TENANT, task.id)
        assert store.dead_letters.page(TENANT, DeadLetterFilter(state=None), limit=9)[0]
        again = store.tasks.add(*a_task(), actor="alice", key=key)
        assert not again.created or column in {"expires_at", "look_at"}
        assert store.tasks.add(*a_task(), actor="alice").created
        store.tasks.forget_keys()
        store.usage.since({"gpu": NOON})


def test_damaged_pools_estimates_and_workers_hide_no_other(url: str, store: Store) -> None:
    for name in ("gpu", "other"):
        store.pools.put(name, {"capacity": 1}, pool_act("a"))
    store.estimates.add({(TENANT, "odd"): [1.0], (TENANT, "other"): [1.0]})
    for column in ("spec", "declared", "updated_at"):
        for value in damages("pools", column, url):
            damage(url, "pools", column, value, name="gpu")
            assert "other" in [pool.name for pool in store.pools.all()]
            store.pools.declare({"other": {"capacity": 2}}, pool_act("configuration"))
    assert store.pools.put("gpu", {"capacity": 3}, pool_act("a")).spec == {"capacity": 3}
    for value in damages("estimates", "histogram", url):
        damage(url, "estimates", "histogram", value, action="odd")
        assert [*store.estimates.get([(TENANT, "odd"), (TENANT, "other")])] == [(TENANT, "other")]
    store.estimates.add({(TENANT, "odd"): [1.0]})
    assert len(store.estimates.get([(TENANT, "odd"), (TENANT, "other")])) == 2


def test_a_series_goes_on_after_a_damaged_run_and_ends_with_a_damaged_task(url: str, store: Store) -> None:
    of_run, of_task = (store.tasks.add(*a_task(repeat="FREQ=DAILY"), actor="a").record for _ in range(2))
    column, value = ("generation", "'many'") if url.startswith("sqlite") else ("deadline", "'infinity'")
    damage(url, "runs", column, value, id=of_run.run.id)
    damage(url, "tasks", "payload", "'[1]'", id=of_task.task.id)
    starts = [Start(run_id, "t") for run_id in make_all_ready(store)]
    assert store.claims.start(starts, worker="w", epoch=None, lease=LEASE) == []
    assert store.tasks.get(TENANT, of_run.task.id).run.state is State.SCHEDULED
    ended = store.tasks.get(TENANT, of_task.task.id)
    assert (ended.run.state, ended.damage) == (State.FAILED, ())


def test_the_event_of_a_mended_task_keeps_what_stood_there(url: str, store: Store, service: Scheduler) -> None:
    task = added(store).task
    damage(url, "tasks", "needs", "'[\"gpu\"]'", id=task.id)
    service.cancel(task.id, by=ALICE)
    [told] = [
        each for each in service.past.events(EventFilter(task.id), by=ALICE).events if each.kind is EventKind.DAMAGED
    ]
    assert (told.actor, told.before) == ("alice", {"needs": '["gpu"]'})


def test_a_damaged_task_can_only_be_cancelled(url: str, store: Store, service: Scheduler) -> None:
    task = added(store, NOON + timedelta(hours=1)).task
    damage(url, "tasks", "priority", "'urgent'", id=task.id)
    with pytest.raises(UnreadableTask, match=r"damaged: its priority cannot be read \('urgent' is unknown\).*Cancel"):
        service.reschedule(task.id, when="in 2 days", by=ALICE)


def test_a_row_that_a_newer_version_wrote_is_left_alone(
    url: str, store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd, other = added(store, NOON - timedelta(minutes=1)), added(store)
    damage(url, "tasks", "priority", "'urgent'", id=odd.task.id)
    damage(url, upgrade.version.name, "version_num", "'9999'", version_num=upgrade.HEAD_VERSION)
    try:
        assert make_all_ready(store) == [other.run.id]
        with pytest.raises(UnreadableTask):
            Scheduler(store, Planner(Handlers.load(entry_points=False), "UTC")).cancel(odd.task.id, by=ALICE)
        assert store.tasks.get(TENANT, odd.task.id).run.state is State.SCHEDULED
    finally:
        damage(url, upgrade.version.name, "version_num", f"'{upgrade.HEAD_VERSION}'", version_num="9999")
    damage(url, "tasks", "priority", "'high'", id=odd.task.id)
    another = open_store(url, clock=clock, synchronous="OFF")
    assert [run.run_id for run in another.claims.make_ready(limit=9)] == [odd.run.id]
    another.close()


def test_damage_is_logged_once_a_minute_for_each_column(
    url: str, store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        damage(url, "tasks", "priority", "'urgent'", id=added(store).task.id)
    damage(url, "tasks", "deadline_type", "'firm'", id=added(store).task.id)
    caplog.set_level(logging.ERROR)
    for _ in range(3):
        store.tasks.page(TENANT, TaskFilter(), limit=9)
    assert sorted(record.getMessage().split(" ")[0] for record in caplog.records) == ["deadline_type", "priority"]


def test_a_damaged_run_keeps_no_other_from_expiring_or_being_late(url: str, store: Store, clock: Clock) -> None:
    hard, odd = [with_deadline(*a_task(), after=timedelta(minutes=1)) for _ in range(2)]
    for task, run in (hard, odd):
        store.tasks.add(task, run, actor="a")
    damage(url, "tasks", "priority", "'urgent'", id=odd[0].id)
    clock.forward(minutes=2)
    assert {run.run_id for run in store.claims.expire(limit=9)} == {hard[1].id, odd[1].id}
    assert store.tasks.get(TENANT, odd[0].id).run.state is State.FAILED
    assert store.claims.relax(limit=9) == []
    assert store.claims.next_times().drop_at is None


DAMAGED_ZONES = [
    {"timezone": "'Atlantis/Capital'"},
    {"repeat": "'FREQ=NEVER'"},
    {"timezone": "'Atlantis/Capital'", "repeat": "NULL"},
]


@pytest.mark.parametrize("values", DAMAGED_ZONES, ids=str)
def test_a_task_whose_zone_or_rule_cannot_be_read_is_shown_as_damaged_and_can_be_cancelled(
    url: str, store: Store, service: Scheduler, values: dict[str, str]
) -> None:
    odd = store.tasks.add(*a_task(NOON + timedelta(hours=1), repeat="FREQ=DAILY"), actor="a").record.task
    other = added(store, NOON + timedelta(hours=2)).task
    for column, value in values.items():
        damage(url, "tasks", column, value, id=odd.id)
    listed, whole = service.tasks.list(TaskFilter(), by=ALICE).views, service.get(odd.id, by=ALICE)
    assert [view.record.task.id for view in listed] == [odd.id, other.id]
    assert [bool(view.warnings) for view in listed] == [True, False]
    assert whole.warnings[0].startswith("damaged: its time zone or rule cannot be read here (")
    assert service.explain(odd.id, by=ALICE)[1]
    assert service.cancel(odd.id, by=ALICE).record.run.state is State.CANCELLED


def test_labels_that_cannot_be_read_are_counted_for_none_and_hide_no_others(url: str, store: Store) -> None:
    started(store, labels=("web",))
    for value in damages("tasks", "labels", url):
        damage(url, "tasks", "labels", value, id=started(store, labels=("home",)).task.id)
    assert store.run_history.counts(TENANT, RunFilter(), RunGroup.LABEL).counts == {"web": 1}
    assert store.history.event_counts(TENANT, EventFilter(), EventGroup.LABEL).counts.keys() == {"web"}
