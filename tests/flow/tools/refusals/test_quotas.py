"""Quotas of a tenant: a refusal names the quota and when there is room; repeats and other tenants are not refused."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from duetime.scheduler.calls.bulk_change import Became
from duetime.scheduler.errors import Refused
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.principal import Principal
from duetime.scheduler.quotas import CostQuota, Quota, RateReached, TenantQuotas
from duetime.scheduler.request import Request
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store, open_store
from duetime.scheduler.task import State

from tests.builders import Clock, settlement, started

ROOT = Principal("acme", "root", frozenset({"tasks", "admin"}))
ANN, BOB, OTHER = Principal("acme", "ann"), Principal("acme", "bob"), Principal("globex", "carol")


def scheduler(store: Store, **quotas: Any) -> Scheduler:
    return Scheduler(store, Planner(Handlers.load(entry_points=False), "UTC"), quotas=TenantQuotas(**quotas))


def request(title: str, key: str | None = None) -> Request:
    return Request(title, when="in 2 hours", idempotency_key=key)


def test_so_many_tasks_are_scheduled_in_a_minute_and_the_next_when_the_refusal_says(store: Store, clock: Clock) -> None:
    service = scheduler(store, schedules_per_minute=2)
    service.submit(request("one"), by=ANN)
    clock.forward(seconds=20)
    service.submit(request("two"), by=BOB)
    with pytest.raises(Refused, match=r"^tenant_schedules_per_minute: .* 2 tasks a minute.*repeat the call in 40 s"):
        service.submit(request("three"), by=ANN)
    service.submit(request("three"), by=OTHER)
    clock.forward(seconds=40)
    service.submit(request("three"), by=ANN)
    with pytest.raises(Refused, match="in 20 s"):
        service.submit(request("four"), by=ANN)


def test_a_tenant_that_spent_its_day_schedules_again_when_the_day_has_ended(store: Store, clock: Clock) -> None:
    """It is 13:00 in the zone of the day; the attempt of the day before does not count."""
    quota = CostQuota(3_000_000, "EUR", "Europe/Berlin", store.usage.cost_since)
    service = Scheduler(store, Planner(Handlers.load(entry_points=False), "UTC"), quotas=TenantQuotas(daily_cost=quota))
    claims = [started(store, clock.at, tenant="acme") for _ in range(3)]
    noon = clock.at
    for claim, hours, cost in zip(claims, (-14, -1, 0), (1_000_000, 2_999_999, 1), strict=True):
        service.submit(request("while there is money", f"key {hours}"), by=ANN)
        clock.at = noon + timedelta(hours=hours)
        store.claims.settle([settlement(claim, used={"tokens": 1.0}, costs={"tokens": cost})])
    clock.at = noon
    with pytest.raises(
        RateReached, match=r"^tenant_daily_cost: .* 3\.00 EUR a day, .* cost 3\.00 today.* in 11 h.*Europe/Berlin"
    ) as refused:
        service.submit(request("one"), by=BOB)
    assert service.submit(request("while there is money", "key 0"), by=ANN).created is False
    service.submit(request("one"), by=OTHER)
    clock.forward(seconds=refused.value.wait_s)
    service.submit(request("one"), by=BOB)


def test_an_open_task_makes_room_when_it_is_cancelled(store: Store) -> None:
    service = scheduler(store, open_tasks=2)
    first, _ = (service.submit(request(title), by=ANN) for title in ("one", "two"))
    with pytest.raises(Refused, match=r"^tenant_open_tasks: this tenant may have 2 open tasks"):
        service.submit(request("three"), by=BOB)
    service.submit(request("three"), by=OTHER)
    service.cancel(first.record.task.id, by=ANN)
    service.submit(request("three"), by=BOB)


@pytest.mark.parametrize(
    ("quota", "value"), [("open_tasks", 3), ("payload_bytes", 120)], ids=["open_tasks", "payload_bytes"]
)
def test_a_refusal_says_when_the_next_task_is_due_to_make_room(
    store: Store, clock: Clock, quota: str, value: int
) -> None:
    service = scheduler(store, **{quota: value})
    payload = {"message": "x" * 24}
    service.submit(Request("daily", repeat="every day at 9:00", payload=payload), by=ANN)
    service.submit(Request("waits", wait_for={"event": "paid"}, payload=payload), by=ANN)
    third = service.submit(Request("third", when="in 90 minutes", payload=payload), by=ANN)
    fourth = Request("fourth", when="in 2 hours", payload=payload)

    def refusal() -> str:
        with pytest.raises(Refused, match=f"^tenant_{quota}: ") as refused:
            service.submit(fourth, by=ANN)
        return str(refused.value)

    assert refusal().endswith("when a task has ended or is cancelled, and the next one is due in 1 h 30 min.")
    clock.forward(minutes=90)
    assert refusal().endswith("and the next one is due now.")
    service.reschedule(third.record.task.id, pause=True, by=ANN)
    assert refusal().endswith("Nothing was stored; no open task ends by itself at a known time, so cancel one.")
    service.cancel(third.record.task.id, by=ANN)
    service.submit(fourth, by=ANN)


def test_more_tasks_at_once_than_may_be_open_are_never_right(store: Store) -> None:
    service = scheduler(store, open_tasks=2)
    with pytest.raises(
        Refused, match=r"^tenant_open_tasks: .* 2 open tasks\. Nothing was stored; schedule fewer at once"
    ):
        service.task_creator.create_many([request(title) for title in ("one", "two", "three")], by=ANN)


def test_a_repeated_call_is_never_refused(store: Store) -> None:
    service = scheduler(store, open_tasks=1, schedules_per_minute=1)
    first = service.submit(request("one", "key"), by=ANN)
    again = service.submit(request("one", "key"), by=ANN)
    assert (again.record.task.id, again.created) == (first.record.task.id, False)


@pytest.mark.parametrize("quota", ["open_tasks", "schedules_per_minute"])
def test_many_at_once_are_stored_all_or_none(store: Store, quota: str) -> None:
    service = scheduler(store, **{quota: 3})
    service.task_creator.create_many([request("one"), request("two")], by=ANN)
    for count in (2, 9):
        with pytest.raises(Refused, match=f"^tenant_{quota}"):
            service.task_creator.create_many([request(str(number)) for number in range(count)], by=ANN)
    service.task_creator.create_many([request("three")], by=ANN)
    assert len(service.tasks.list(by=ANN).views) == 3


def test_a_dry_run_uses_up_nothing(store: Store) -> None:
    service = scheduler(store, open_tasks=1)
    for _ in range(2):
        service.submit(Request("one", when="in 2 hours", dry_run=True), by=ANN)
    service.submit(request("one"), by=ANN)


def large(title: str, message: str) -> Request:
    return Request(title, when="in 2 hours", payload={"message": message}, idempotency_key=title)


def test_the_payloads_of_open_tasks_have_so_many_bytes_together(store: Store) -> None:
    service = scheduler(store, payload_bytes=100)
    first = service.submit(large("one", "x" * 60), by=ANN)
    with pytest.raises(
        Refused, match=r"^tenant_payload_bytes: .* may have 100 bytes together.* have 7\d, .* adds 3\d.*room"
    ):
        service.submit(large("two", "x" * 20), by=BOB)
    service.submit(large("one", "x" * 60), by=ANN)
    service.submit(large("two", "x" * 20), by=OTHER)
    service.cancel(first.record.task.id, by=ANN)
    service.submit(large("two", "x" * 20), by=BOB)
    with pytest.raises(Refused, match=r"these alone have 11\d: make them smaller"):
        service.submit(large("three", "x" * 100), by=ANN)
    with pytest.raises(Refused, match="tenant_payload_bytes"):
        service.task_creator.create_many([large(str(number), "x" * 20) for number in range(3)], by=ANN)


def seen_bytes(store: Store, tenant: str) -> int:
    seen: list[int] = []
    store.tasks.check(tenant, lambda counts: seen.append(counts.payload_bytes()))
    return seen[0]


def test_payload_bytes_are_counted_on_each_database(migrated_postgres_url: str, store: Store) -> None:
    shared = open_store(migrated_postgres_url)
    for each in (store, shared):
        service = scheduler(each, payload_bytes=1)
        scheduler(each).submit(large("one", "x" * 60), by=ANN)
        assert 60 < seen_bytes(each, "acme") < 90
        assert seen_bytes(each, "globex") == 0
        with pytest.raises(Refused):
            service.submit(large("two", "x"), by=ANN)
    shared.close()


@pytest.mark.parametrize("many", [False, True], ids=["single calls", "batches"])
@pytest.mark.parametrize(
    ("quota", "most", "room"), [("open_tasks", 2, 2), ("schedules_per_minute", 2, 2), ("payload_bytes", 40, 1)]
)
def test_calls_at_once_store_no_more_than_the_quota(
    migrated_postgres_url: str, store: Store, quota: str, most: int, room: int, *, many: bool
) -> None:
    shared = open_store(migrated_postgres_url)
    for each in (store, shared):
        service, ready = scheduler(each, **{quota: most}), threading.Barrier(8)

        def is_stored(number: int, service: Scheduler = service, ready: threading.Barrier = ready) -> bool:
            asked = large(f"{number}", "x" * 20)
            ready.wait()
            try:
                service.task_creator.create_many([asked], by=ANN) if many else service.submit(asked, by=ANN)
            except Refused:
                return False
            return True

        with ThreadPoolExecutor(8) as pool:
            assert sum(pool.map(is_stored, range(8))) == room
        assert len(service.tasks.list(by=ANN).views) == room
    shared.close()


@pytest.mark.parametrize("steps", [None, [{"name": "a"}, {"name": "b"}]])
def test_a_dry_run_is_refused_as_the_call_would_be(store: Store, steps: list[dict[str, Any]] | None) -> None:
    refused: list[Quota] = []
    service = scheduler(store, open_tasks=2, refused=refused.append)
    made = [service.submit(request(title, title), by=ANN) for title in ("one", "two")]
    call: dict[str, Any] = {"when": "in 2 hours", "steps": steps}
    with pytest.raises(Refused, match=r"^tenant_open_tasks: this tenant may have 2 open tasks"):
        service.submit(Request("three", **call, dry_run=True), by=ANN)
    assert refused == [], "nothing was asked to be stored"
    service.submit(Request("three", **call, dry_run=True), by=OTHER)
    again = replace(request("one", "one"), dry_run=True)
    assert service.submit(again, by=ANN).record.task.title == made[0].record.task.title, "a repeat stores nothing"


def test_an_undo_within_its_time_brings_back_more_than_the_quota(store: Store) -> None:
    service = scheduler(store, open_tasks=1)
    first = service.submit(request("one"), by=ANN)
    cancelled = service.cancel(first.record.task.id, by=ANN)
    service.submit(request("two"), by=ANN)
    service.act(first.record.task.id, "undo", undo=cancelled.undo, by=ANN)
    assert len(service.tasks.list(by=ANN).views) == 2


# -- changes of tasks that are stored already


def sized(title: str, length: int) -> Request:
    return Request(title, when="in 2 hours", payload={"message": "x" * length})


def test_a_change_of_a_payload_stays_within_the_quota_and_a_smaller_one_always_may(store: Store) -> None:
    service = scheduler(store, payload_bytes=200)
    task_id = service.submit(sized("one", 100), by=ANN).record.task.id
    with pytest.raises(Refused, match=r"^tenant_payload_bytes: .*200 bytes"):
        service.reschedule(task_id, payload={"message": "x" * 1_900}, by=ANN)
    with pytest.raises(Refused, match=r"^tenant_payload_bytes: "):
        service.reschedule(task_id, payload={"message": "x" * 1_900}, dry_run=True, by=ANN)
    assert service.tasks.get(task_id, by=ANN).record.task.payload == {"message": "x" * 100}
    service.reschedule(task_id, payload={"message": "x" * 150}, by=ANN)
    service.reschedule(task_id, title="another title", by=ANN)
    tight = scheduler(store, payload_bytes=20)
    tight.reschedule(task_id, payload={"message": "x" * 90}, by=ANN)


@pytest.mark.parametrize(("dry_run", "counted"), [(False, [Quota.PAYLOAD_BYTES]), (True, [])])
def test_a_refused_change_is_counted_and_a_dry_run_of_it_is_not(
    store: Store, counted: list[Quota], *, dry_run: bool
) -> None:
    refused = list[Quota]()
    service = scheduler(store, payload_bytes=200, refused=refused.append)
    task_id = service.submit(sized("one", 100), by=ANN).record.task.id
    with pytest.raises(Refused):
        service.reschedule(task_id, payload={"message": "x" * 1_900}, dry_run=dry_run, by=ANN)
    assert refused == counted


def failed(store: Store, clock: Clock, count: int) -> list[str]:
    """Store tasks of a tenant whose only run failed for good; return their ids."""
    found = []
    for _ in range(count):
        claim = started(store, clock.at, tenant="acme")
        ended = settlement(claim, State.FAILED, error="no address", reason="no address", dead_letter=True)
        store.claims.settle([ended])
        found.append(claim.run.task_id)
    return found


def test_tasks_that_run_again_count_as_open_and_no_more_run_than_may_be_open(store: Store, clock: Clock) -> None:
    ids = failed(store, clock, 4)
    service = scheduler(store, open_tasks=2)
    tried = service.letters.replay(reason="again", dry_run=True, by=ROOT)
    done = service.letters.replay(reason="again", by=ROOT)
    assert [each.task_id for each in tried.closed] == [each.task_id for each in done.closed]
    assert [each.run_id for each in tried.skipped] == [each.run_id for each in done.skipped]
    assert (len(done.closed), [skipped.why[:17] for skipped in done.skipped]) == (2, ["tenant_open_tasks"] * 2)
    left = next(task_id for task_id in ids if task_id not in {letter.task_id for letter in done.closed})
    with pytest.raises(Refused, match=r"^tenant_open_tasks: .* 2 open tasks"):
        service.act(left, "run_now", by=ANN)


def test_a_change_of_many_refuses_each_task_that_has_no_room(store: Store, clock: Clock) -> None:
    ids = failed(store, clock, 3)
    service = scheduler(store, open_tasks=2)
    done = service.bulk.change("replay", ids, reason="again", by=ROOT)
    assert done.counts == {Became.CHANGED: 2, Became.REFUSED: 1}


def test_an_undo_gives_back_what_was_there_beyond_the_quotas(store: Store) -> None:
    service = scheduler(store, open_tasks=1, payload_bytes=120)
    first = service.submit(sized("one", 90), by=ANN).record.task.id
    undo = service.cancel(first, by=ANN).undo
    service.submit(sized("two", 90), by=ANN)
    assert undo is not None
    assert service.act(first, "undo", undo=undo, by=ANN).record.run.state is State.SCHEDULED
