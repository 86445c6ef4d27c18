"""Deliveries that were given up are counted by channel, and are sent again when somebody asks for it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from random import Random

import pytest
from duetime.scheduler.delivery import ChannelError, Channels
from duetime.scheduler.delivery.deliverer import DELIVERY_RETRY, Deliverer
from duetime.scheduler.rules.retry import MIN_CHANNEL_FAILURES
from duetime.scheduler.store import Store
from duetime.scheduler.store.deliveries.channel_failures import FailingChannel
from duetime.scheduler.task import Delivery, InboxMessage, State

from tests.builders import Clock, delivery, message, settlement, started

MESSAGES_COUNT = 6
LEASE, HOUR = timedelta(seconds=30), timedelta(hours=1)


class Receiver:
    """A channel that fails with an error until it is mended."""

    def __init__(self, name: str, error: ChannelError | None) -> None:
        self.name, self.error = name, error
        self.keys: list[str] = []
        self.tries = 0
        self.refused: set[str] = set()

    def send(self, message: InboxMessage, *, key: str) -> None:
        assert message.text
        self.tries += 1
        if self.error or key in self.refused:
            raise self.error or ChannelError("HTTP 500")
        self.keys.append(key)

    def close(self) -> None:
        """Keep the keys."""


def fire(store: Store, title: str, channel: str) -> str:
    claim = started(store, title=title)
    told = message(claim, text=f"{title} ended", state=State.SUCCEEDED, created_at=store.now())
    sent = delivery(claim, channel, next_at=store.now())
    store.claims.settle([settlement(claim, State.SUCCEEDED, inbox=told, deliveries=(sent,))])
    return claim.run.id


def test_given_up_deliveries_are_named_with_their_newest_error_and_sent_again_under_the_same_keys(
    store: Store, clock: Clock
) -> None:
    dead, well = Receiver("crm", ChannelError("HTTP 410", permanent=True)), Receiver("phone", None)
    deliverer = Deliverer(store.deliveries, Channels([dead, well]))
    assert store.deliveries.failing() == []
    ids = []
    for title in ("One", "Two"):
        ids.append(fire(store, title, "crm"))
        fire(store, f"{title} again", "phone")
        deliverer.tick(store.now())
        clock.at += timedelta(minutes=1)
        dead.error = ChannelError("HTTP 404", permanent=True)
    assert store.deliveries.failing() == [FailingChannel("crm", 2, 0, "HTTP 404")]

    dead.error = None
    assert store.deliveries.send_again("phone") == 0
    assert store.deliveries.send_again("crm") == 2
    deliverer.tick(store.now())
    assert sorted(dead.keys) == sorted(ids)
    assert store.deliveries.failing() == []


def test_a_delivery_that_failed_several_times_and_is_still_tried_is_of_a_channel_that_fails(
    store: Store, clock: Clock
) -> None:
    deliverer = Deliverer(store.deliveries, Channels([Receiver("crm", ChannelError("HTTP 500"))]), draw=lambda: 0.5)
    fire(store, "One", "crm")
    for tries in range(MIN_CHANNEL_FAILURES):
        assert (tries, store.deliveries.failing()) == (tries, [])
        deliverer.tick(store.now())
        clock.at += timedelta(hours=1)
    assert store.deliveries.failing() == [FailingChannel("crm", 0, 1, "HTTP 500", deliverer.next_wake())]
    assert store.deliveries.send_again("crm") == 0


def dead_for(store: Store, clock: Clock, deliverer: Deliverer, hours: float) -> None:
    """Let a process deliver what is due, for so many hours."""
    ends = clock.at + timedelta(hours=hours)
    while (wake := deliverer.next_wake()) is not None and wake <= ends:
        clock.at = max(clock.at, wake)
        deliverer.tick(store.now())
    clock.at = ends


def test_a_channel_that_is_dead_for_a_day_costs_hardly_more_for_many_messages_than_for_one(
    store: Store, clock: Clock
) -> None:
    dead = Receiver("crm", ChannelError("HTTP 503"))
    deliverer = Deliverer(store.deliveries, Channels([dead]), draw=lambda: 0.5)
    for number in range(MESSAGES_COUNT):
        fire(store, f"Message {number}", "crm")
    dead_for(store, clock, deliverer, 72)
    assert dead.tries <= (MIN_CHANNEL_FAILURES * MESSAGES_COUNT) + 2 * DELIVERY_RETRY.max_attempts
    [found] = store.deliveries.failing()
    assert (found.given_up, found.failing) == (MESSAGES_COUNT, 0)


def test_messages_that_another_process_has_taken_keep_the_others_waiting_for_nothing(
    store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver = Receiver("crm", None)
    deliverer = Deliverer(store.deliveries, Channels([receiver]))
    ids = [fire(store, f"Message {number}", "crm") for number in range(MESSAGES_COUNT)]
    take, wait = store.deliveries.take, deliverer._wait
    of_others: list[str] = []

    def overtaken(delivery_ids: Sequence[str], *, lease: timedelta) -> set[str]:
        if not of_others:
            of_others.extend(take(delivery_ids, lease=lease))
        return take(delivery_ids, lease=lease)

    def wait_for_an_answer(seconds: float) -> None:
        assert deliverer._sendings, "nothing is under way"
        wait(seconds)

    monkeypatch.setattr(store.deliveries, "take", overtaken)
    monkeypatch.setattr(deliverer, "_wait", wait_for_an_answer)
    assert deliverer.tick(clock()) == MESSAGES_COUNT - len(of_others)
    assert set(receiver.keys) < set(ids)


def test_a_message_that_was_sent_is_not_sent_again_when_a_failure_of_its_channel_was_counted_before(
    store: Store, clock: Clock
) -> None:
    fire(store, "One", "crm")
    [(read, _)] = store.deliveries.due(limit=9)
    assert store.deliveries.fail_others("crm", least=0, error="HTTP 503", next_at=clock() + HOUR, lease=LEASE) == 1
    clock.at += HOUR
    assert store.deliveries.take([read.id], lease=LEASE) == {read.id}
    assert store.deliveries.settle_delivered([read.id], read.attempts)
    assert store.deliveries.next_wake() is None


def test_once_a_channel_takes_one_message_again_it_gets_all_that_it_has_missed(store: Store, clock: Clock) -> None:
    dead = Receiver("crm", ChannelError("HTTP 503"))
    deliverer = Deliverer(store.deliveries, Channels([dead]), draw=lambda: 0.5)
    ids = []
    for number in range(MESSAGES_COUNT):
        ids.append(fire(store, f"Message {number}", "crm"))
        dead_for(store, clock, deliverer, 0.5)
    dead_for(store, clock, deliverer, 6)
    assert store.deliveries.failing()[0].failing == MESSAGES_COUNT
    dead.error = None
    clock.at = store.deliveries.failing()[0].next_at or clock.at
    while deliverer.tick(store.now()):
        pass
    assert sorted(dead.keys) == sorted(ids)


def test_a_message_that_alone_is_refused_again_and_again_delays_no_other_one(store: Store, clock: Clock) -> None:
    receiver = Receiver("crm", None)
    deliverer = Deliverer(store.deliveries, Channels([receiver]), draw=lambda: 0.5)
    receiver.refused = {fire(store, "Poison", "crm")}
    dead_for(store, clock, deliverer, 1)
    waits = store.deliveries.failing()[0].next_at
    others = [fire(store, f"Message {number}", "crm") for number in range(MESSAGES_COUNT)]
    while deliverer.tick(store.now()):
        pass
    assert sorted(receiver.keys) == sorted(others)
    assert store.deliveries.failing()[0].next_at == waits


def test_messages_that_alone_are_refused_starve_no_other_one_after_an_outage(store: Store, clock: Clock) -> None:
    receiver = Receiver("crm", ChannelError("HTTP 503"))
    deliverer = Deliverer(store.deliveries, Channels([receiver]), draw=Random(7).random)
    receiver.refused = {fire(store, f"Poison {number}", "crm") for number in range(3)}
    others = [fire(store, f"Message {number}", "crm") for number in range(MESSAGES_COUNT)]
    dead_for(store, clock, deliverer, 3)
    assert store.deliveries.failing()[0].failing == MESSAGES_COUNT + 3
    receiver.error = None
    dead_for(store, clock, deliverer, 72)
    assert sorted(receiver.keys) == sorted(others)
    assert store.deliveries.failing() == [FailingChannel("crm", 3, 0, "HTTP 500")]


def test_a_new_message_that_a_channel_takes_lets_all_be_sent_that_wait(store: Store, clock: Clock) -> None:
    receiver = Receiver("crm", ChannelError("HTTP 503"))
    deliverer = Deliverer(store.deliveries, Channels([receiver]), draw=lambda: 0.5)
    ids = [fire(store, f"Message {number}", "crm") for number in range(MESSAGES_COUNT)]
    dead_for(store, clock, deliverer, 10)
    receiver.error = None
    ids.append(fire(store, "New", "crm"))
    while deliverer.tick(store.now()):
        pass
    assert sorted(receiver.keys) == sorted(ids)


def test_a_delivery_that_another_process_may_be_sending_is_left_alone(store: Store, clock: Clock) -> None:
    dead = Receiver("crm", ChannelError("HTTP 503"))
    deliverer = Deliverer(store.deliveries, Channels([dead]), draw=lambda: 0.5)
    for number in range(2):
        fire(store, f"Message {number}", "crm")
    dead_for(store, clock, deliverer, 1)
    first, second = store.deliveries.due(limit=2) or _all_due(store, clock)
    assert store.deliveries.take([second[0].id], lease=LEASE) == {second[0].id}
    store.deliveries.fail_others("crm", least=3, error="HTTP 503", next_at=store.now() + HOUR, lease=LEASE)
    clock.at += LEASE
    [left] = store.deliveries.due(limit=2)
    assert (left[0].id, left[0].attempts) == (second[0].id, second[0].attempts)
    assert first[0].id != left[0].id


def test_a_delivery_that_was_leased_by_a_clock_a_little_ahead_is_left_alone(store: Store, clock: Clock) -> None:
    deliverer = Deliverer(store.deliveries, Channels([Receiver("crm", ChannelError("HTTP 503"))]), draw=lambda: 0.5)
    for number in range(2):
        fire(store, f"Message {number}", "crm")
    dead_for(store, clock, deliverer, 1)
    (first, _), _ = _all_due(store, clock)
    clock.at += timedelta(seconds=3)
    assert store.deliveries.take([first.id], lease=LEASE) == {first.id}
    clock.at -= timedelta(seconds=3)
    assert store.deliveries.fail_others("crm", least=3, error="HTTP 503", next_at=store.now() + HOUR, lease=LEASE) == 1
    store.deliveries.retry_others("crm", least=3, lease=LEASE)
    assert first.id not in {each.id for each, _ in store.deliveries.due(limit=2)}


def test_a_process_without_the_channel_counts_no_failure_for_the_others(store: Store, clock: Clock) -> None:
    dead, old = Receiver("crm", ChannelError("HTTP 503")), Deliverer(store.deliveries, Channels([]), draw=lambda: 0.5)
    deliverer = Deliverer(store.deliveries, Channels([dead]), draw=lambda: 0.5)
    for number in range(MESSAGES_COUNT):
        fire(store, f"Message {number}", "crm")
    dead_for(store, clock, deliverer, 1)
    clock.at = store.deliveries.failing()[0].next_at or clock.at
    before = {each.id: each.attempts for each, _ in store.deliveries.due(limit=MESSAGES_COUNT)}
    assert old.tick(store.now()) == len(before) == MESSAGES_COUNT
    clock.at += timedelta(hours=5)
    after = {each.id: each.attempts for each, _ in store.deliveries.due(limit=MESSAGES_COUNT)}
    assert after == {delivery_id: attempts + 1 for delivery_id, attempts in before.items()}


def _all_due(store: Store, clock: Clock) -> list[tuple[Delivery, InboxMessage]]:
    clock.at = store.deliveries.failing()[0].next_at or clock.at
    return store.deliveries.due(limit=2)
