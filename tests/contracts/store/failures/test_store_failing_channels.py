"""Deliveries that were given up are counted by channel, and are sent again when somebody asks for it."""

from __future__ import annotations

from datetime import timedelta

from duetime.scheduler.delivery import ChannelError, Channels
from duetime.scheduler.delivery.deliverer import Deliverer
from duetime.scheduler.store import Store
from duetime.scheduler.store.deliveries.deliveries import MIN_FAILED_ATTEMPTS, FailingChannel
from duetime.scheduler.task import InboxMessage, State

from tests.builders import Clock, delivery, message, settlement, started


class Receiver:
    """A channel that fails with an error until it is mended."""

    def __init__(self, name: str, error: ChannelError | None) -> None:
        self.name, self.error = name, error
        self.keys: list[str] = []

    def send(self, message: InboxMessage, *, key: str) -> None:
        assert message.text
        if self.error:
            raise self.error
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
    for tries in range(MIN_FAILED_ATTEMPTS):
        assert (tries, store.deliveries.failing()) == (tries, [])
        deliverer.tick(store.now())
        clock.at += timedelta(hours=1)
    assert store.deliveries.failing() == [FailingChannel("crm", 0, 1, "HTTP 500")]
    assert store.deliveries.send_again("crm") == 0
