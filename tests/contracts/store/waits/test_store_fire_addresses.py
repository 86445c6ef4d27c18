"""Fire addresses: a call of one starts its task once, or ends its wait; only the digest of its secret is stored."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from duetime.scheduler.audit.entry import AuditEntry, AuditFilter, AuditKind
from duetime.scheduler.chain.dependency import Dependency
from duetime.scheduler.errors import Refused, TaskNotFound
from duetime.scheduler.events import EventFilter, EventKind
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.outcomes import Wait
from duetime.scheduler.principal import Principal
from duetime.scheduler.rules import changes
from duetime.scheduler.rules.settlement import settle
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.task import State
from duetime.scheduler.views import TaskRecord
from duetime.scheduler.waits.fire_address import FireAddress, Fired, FireToken, NoSuchAddress
from duetime.scheduler.waits.signal import ReceivedSignal, SignalWait
from duetime.widgets.outcome import with_details
from duetime.widgets.payload import task_payload
from duetime.widgets.text.task_text import task_text

from tests.builders import NOON, TENANT, Clock, a_task, added, restarted, settlement

HOUR = timedelta(hours=1)
MADE = AuditEntry(TENANT, AuditKind.FIRE_ADDRESS_MADE, "alice")
REVOKED = AuditEntry(TENANT, AuditKind.FIRE_ADDRESS_REVOKED, "alice")


def address(store: Store, record: TaskRecord, *, renew: bool = False, tenant: str = TENANT) -> FireAddress:
    token = FireToken.new()
    made = FireAddress(token.id, tenant, record.task.id, token.digest, store.now(), "alice")
    store.fire_addresses.add(made, replace(MADE, tenant=tenant, subject=record.task.id), renew=renew)
    return made


def fire(store: Store, made: FireAddress, event_id: str = "e1", **data: Any) -> Fired:
    return store.fire_addresses.fire(made, ReceivedSignal("", event_id, data), via="rest 127.0.0.1")


def run_of(store: Store, record: TaskRecord) -> Any:
    return store.tasks.get(TENANT, record.task.id).run


def event_of(store: Store, record: TaskRecord, run_id: str) -> ReceivedSignal | None:
    found = store.signals.wait_of_run(TENANT, record.task.id, run_id)
    return found.signal if found else None


def change(store: Store, record: TaskRecord, kind: EventKind, decide: Callable[..., Any]) -> None:
    store.tasks.change(TENANT, record.task.id, actor="alice", kind=kind, decide=decide)


def test_a_call_starts_a_task_that_is_to_come_and_its_run_has_the_data(store: Store, clock: Clock) -> None:
    told: list[str] = []
    store.commits.listen(told.extend)
    record = added(store, NOON + HOUR)
    made = address(store, record)
    assert fire(store, made, order=7) == Fired(record.task.id, "e1")
    assert told == [record.task.id]
    claim = restarted(store, record)
    assert event_of(store, record, claim.run.id) == ReceivedSignal("fire", "e1", {"order": 7}, clock())
    found = store.history.events(TENANT, EventFilter(task_id=record.task.id), limit=9, cursor=None).events
    event = next(each for each in found if each.kind is EventKind.RUN_NOW)
    assert (event.actor, event.reason, event.via) == (
        "fire address", "its fire address was called (e1)", "rest 127.0.0.1",
    )  # fmt: skip


def test_calls_with_one_id_are_one(store: Store, clock: Clock) -> None:
    record = added(store, NOON + HOUR, repeat="FREQ=HOURLY")
    made = address(store, record)
    assert [fire(store, made).repeated for _ in range(3)] == [False, True, True]
    assert len(store.tasks.get(TENANT, record.task.id).side_runs) == 1
    assert not fire(store, made, "e2").repeated
    assert len(store.tasks.get(TENANT, record.task.id).side_runs) == 2


def test_an_id_is_one_of_its_address_and_not_of_another_one(store: Store, clock: Clock) -> None:
    one, other = (address(store, added(store, NOON + HOUR)) for _ in range(2))
    store.signals.send(TENANT, ReceivedSignal("paid", "e1", {}), actor="bob")
    assert [fire(store, each).repeated for each in (one, other, one)] == [False, False, True]
    assert not store.signals.send(TENANT, ReceivedSignal("paid", "e2", {}), actor="bob").repeated
    fire(store, one, "e3")
    assert not store.signals.send(TENANT, ReceivedSignal("paid", "e3", {}), actor="bob").repeated


def test_a_recurring_task_runs_once_more_and_keeps_its_next_time(store: Store, clock: Clock) -> None:
    record = added(store, NOON + HOUR, repeat="FREQ=HOURLY")
    fire(store, address(store, record), order=7)
    found = store.tasks.get(TENANT, record.task.id)
    assert found.run.scheduled_for == NOON + HOUR
    [extra] = found.side_runs
    assert event_of(store, record, extra.id) == ReceivedSignal("fire", "e1", {"order": 7}, clock())
    assert event_of(store, record, found.run.id) is None


def test_a_task_that_has_ended_runs_again(store: Store, clock: Clock) -> None:
    record = added(store)
    made = address(store, record)
    store.claims.settle([settlement(restarted(store, record))])
    fire(store, made, order=8)
    again = restarted(store, record)
    assert again.run.id != record.run.id
    found = event_of(store, record, again.run.id)
    assert found is not None
    assert found.data == {"order": 8}


def test_a_call_ends_the_wait_for_an_event_whatever_it_wants(store: Store, clock: Clock) -> None:
    task, run = a_task()
    upstream = added(store)
    wait = SignalWait("paid", {"order": 7}, NOON, NOON + HOUR)
    held = replace(run, state=State.WAITING, wake_at=None)
    after = [Dependency(upstream.task.id)]
    record = store.tasks.add(task, held, actor="alice", wait=wait, after=after).record
    fire(store, address(store, record), other=1)
    assert run_of(store, record).state is State.WAITING, "it still comes after another one"
    store.claims.settle([settlement(restarted(store, upstream))])
    assert run_of(store, record).state is State.SCHEDULED
    assert event_of(store, record, record.run.id) == ReceivedSignal("paid", "e1", {"other": 1}, clock())


def test_a_call_wakes_a_run_whose_handler_waits_for_an_event(store: Store, clock: Clock) -> None:
    record = added(store)
    claim = restarted(store, record)
    store.claims.settle([settle(claim, Wait(event="paid", timeout=HOUR), now=clock(), jitter=0.5)])
    fire(store, address(store, record), order=7)
    again = restarted(store, record)
    assert (again.run.id, again.run.attempt) == (claim.run.id, 2)
    assert event_of(store, record, again.run.id) == ReceivedSignal("paid", "e1", {"order": 7}, clock())


def test_a_call_starts_nothing_that_runs_is_paused_or_waits_for_a_yes_and_may_be_repeated(
    store: Store, clock: Clock
) -> None:
    record = added(store)
    made = address(store, record)
    change(store, record, EventKind.PAUSED, changes.pause)
    with pytest.raises(Refused, match="is paused"):
        fire(store, made)
    change(store, record, EventKind.RESUMED, partial(changes.resume, now=clock()))
    claim = restarted(store, record)
    with pytest.raises(Refused, match="is running already"):
        fire(store, made)
    store.claims.settle([settle(claim, Wait(approval="Pay?", by=HOUR), now=clock(), jitter=0.5)])
    with pytest.raises(Refused, match="needs an approval first"):
        fire(store, made)
    store.claims.settle([settlement(claim)])
    again = added(store, NOON + HOUR)
    other = address(store, again)
    assert not fire(store, other).repeated, "a refused call has left nothing, and ids are of one address"


def test_a_task_has_one_address_which_ends_with_its_renewal_its_revocation_and_its_task(
    store: Store, clock: Clock
) -> None:
    record = added(store, NOON + HOUR)
    first = address(store, record)
    with pytest.raises(Refused, match="has a fire address already, which alice made on"):
        address(store, record)
    second = address(store, record, renew=True)
    assert (store.fire_addresses.find(first.id), store.fire_addresses.find(second.id)) == (None, second)
    with pytest.raises(NoSuchAddress):
        fire(store, first)
    assert store.fire_addresses.revoke(TENANT, record.task.id, replace(REVOKED, subject=record.task.id))
    assert not store.fire_addresses.revoke(TENANT, record.task.id, REVOKED)
    with pytest.raises(NoSuchAddress):
        fire(store, second)
    third = address(store, record)
    change(store, record, EventKind.CANCELLED, partial(changes.cancel, now=clock()))
    with pytest.raises(NoSuchAddress):
        fire(store, third)
    undone = partial(changes.undo_cancel, now=clock(), token=None)
    change(store, record, EventKind.CANCEL_UNDONE, undone)
    assert not fire(store, third).repeated
    page = store.audit.page(TENANT, AuditFilter(subject=record.task.id), limit=9)
    kinds = [each.kind for each in page.entries]
    assert sorted(kinds) == [AuditKind.FIRE_ADDRESS_MADE] * 3 + [AuditKind.FIRE_ADDRESS_REVOKED]


def test_a_cancelled_task_gets_no_address_and_keeps_the_one_that_it_has(store: Store, clock: Clock) -> None:
    record = added(store, NOON + HOUR)
    first = address(store, record)
    change(store, record, EventKind.CANCELLED, partial(changes.cancel, now=clock()))
    with pytest.raises(Refused, match="was cancelled: nothing would start it"):
        address(store, record, renew=True)
    assert store.fire_addresses.find(first.id) == first, "an undo of the cancel lets it work again"


def test_a_reader_of_a_task_sees_that_it_has_an_address_and_not_which(store: Store) -> None:
    record = added(store, NOON + HOUR)
    reader = Scheduler(store, Planner(Handlers.load(entry_points=False), "UTC"))
    by = Principal(tenant=TENANT, user="alice")
    assert not reader.get(record.task.id, by=by).addressed
    made = address(store, record)
    view = reader.get(record.task.id, by=by)
    payload = with_details(task_payload(view), view)
    assert payload.fire_address
    assert "A call of its fire address starts it." in task_text(payload)
    assert made.id not in payload.model_dump_json()


def test_other_tenants_can_neither_make_nor_end_it(store: Store) -> None:
    record = added(store, NOON + HOUR)
    made = address(store, record)
    with pytest.raises(TaskNotFound):
        address(store, record, tenant="globex", renew=True)
    with pytest.raises(TaskNotFound):
        store.fire_addresses.revoke("globex", record.task.id, REVOKED)
    assert store.fire_addresses.of_task("globex", record.task.id) is None
    with pytest.raises(NoSuchAddress):
        fire(store, replace(made, tenant="globex"))
    assert store.fire_addresses.of_task(TENANT, record.task.id) == made


def test_of_calls_at_once_with_one_id_one_counts(store: Store) -> None:
    record = added(store, NOON + HOUR, repeat="FREQ=HOURLY")
    made, found = address(store, record), list[Fired]()
    threads = [threading.Thread(target=lambda: found.append(fire(store, made))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert sorted(each.repeated for each in found) == [False, True, True, True]
    assert len(store.tasks.get(TENANT, record.task.id).side_runs) == 1
