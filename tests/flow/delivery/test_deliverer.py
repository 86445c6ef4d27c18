"""Telling users outcomes: each delivery on a real store, with its own state and its own retries."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from duetime.scheduler.delivery import Channel, ChannelError, ChannelOptions, Channels, WebhookTarget
from duetime.scheduler.delivery import deliverer as delivery
from duetime.scheduler.delivery.deliverer import (
    DELIVERY_RETRY,
    MAX_DELIVERIES_PER_TICK,
    MAX_THREADS_PER_CHANNEL,
    Deliverer,
)
from duetime.scheduler.delivery.desktop import DesktopChannel
from duetime.scheduler.delivery.message_json import message_json
from duetime.scheduler.errors import InvalidArgument, InvalidSetting
from duetime.scheduler.events import EventKind
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.ids import new_id, new_task_id
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.run_records import Settlement, Start
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store, open_store
from duetime.scheduler.store.deliveries.deliveries import Deliveries
from duetime.scheduler.task import Delivery, DeliveryState, InboxMessage, RetryPolicy, Run, State, Task
from duetime.widgets.payload import task_payload

from tests import blank

START = datetime(2026, 11, 21, 12, tzinfo=UTC)


class Clock:
    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


class FakeChannel:
    """Remembers what it was given; `faults` are raised first, one a send."""

    def __init__(self, name: str = "team", *faults: BaseException) -> None:
        self.name = name
        self.faults = list(faults)
        self.sent: list[tuple[str, str]] = []
        self.closed = False

    def send(self, message: InboxMessage, *, key: str) -> None:
        self.sent.append((message.text, key))
        if self.faults:
            raise self.faults.pop(0)

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> Iterator[Store]:
    blank.make(tmp_path / "duetime.db")
    opened = open_store(f"sqlite:///{tmp_path / 'duetime.db'}", clock=clock, synchronous="OFF")
    yield opened
    opened.close()


def fire(
    store: Store, *channels: str, text: str = "done", outcome: State = State.SUCCEEDED, error: str | None = None
) -> str:
    """Store a task, run it to its end with deliveries to `channels`, and give the id of its run."""
    task = Task(
        id=new_task_id(),
        tenant="local",
        owner="local",
        title="Call John",
        action="reminder",
        payload={},
        timezone="UTC",
        when="now",
        repeat=None,
        anchor=START,
        until=None,
        max_runs=None,
        paused=False,
        retry=RetryPolicy(),
        deliver_to=channels,
        labels=(),
        revision=1,
        created_at=START,
        updated_at=START,
    )
    run = Run(new_id("r"), task.id, "local", START, State.SCHEDULED, wake_at=START)
    store.tasks.add(task, run, actor="local")
    store.claims.make_ready(limit=10)
    (claim,) = store.claims.start([Start(run.id)], worker="w", epoch=None, lease=timedelta(seconds=30))
    message = InboxMessage(new_id("m"), "local", "local", task.id, run.id, task.title, text, outcome, store.now())
    settlement = Settlement(
        run.id,
        claim.run.attempt,
        1,
        to=outcome,
        kind=EventKind(outcome),
        outcome="done",
        error=error,
        inbox=message,
        deliveries=tuple(
            Delivery(new_id("d"), "local", task.id, run.id, name, next_at=store.now()) for name in channels
        ),
    )
    store.claims.settle([settlement])
    return run.id


def deliverer(store: Store, *channels: Channel, **options: Any) -> Deliverer:
    return Deliverer(store.deliveries, Channels(channels), draw=lambda: 1.0, **options)


def deliveries(store: Store, limit: int = 10) -> list[Delivery]:
    from duetime.scheduler.views import TaskFilter

    records, _ = store.tasks.page("local", TaskFilter(), limit=limit)
    return [delivery for record in records for delivery in record.deliveries]


def state(store: Store) -> tuple[DeliveryState, int, str | None]:
    (found,) = deliveries(store)
    return found.state, found.attempts, found.error


def test_an_outcome_is_sent_once_under_the_id_of_its_run(store: Store) -> None:
    channel = FakeChannel()
    run_id = fire(store, "team", text="Bring the contract")
    publisher = deliverer(store, channel)
    assert publisher.tick(store.now()) == 1
    assert channel.sent == [("Bring the contract", run_id)]
    assert state(store) == (DeliveryState.DELIVERED, 1, None)
    assert publisher.next_wake() is None
    assert publisher.tick(store.now()) == 0
    assert len(channel.sent) == 1


def test_each_channel_is_told_and_settled_by_itself(store: Store) -> None:
    good, bad = FakeChannel("good"), FakeChannel("bad", ChannelError("busy"))
    fire(store, "good", "bad")
    assert deliverer(store, good, bad).tick(store.now()) == 2
    found = {delivery.channel: delivery.state for delivery in deliveries(store)}
    assert found == {"good": DeliveryState.DELIVERED, "bad": DeliveryState.PENDING}


def test_a_failed_send_is_tried_again_later_and_later_under_the_same_key(store: Store, clock: Clock) -> None:
    channel = FakeChannel("team", *[ChannelError("busy")] * 3)
    run_id = fire(store, "team")
    publisher = deliverer(store, channel)
    waits = []
    for _ in range(3):
        publisher.tick(store.now())
        wake = publisher.next_wake()
        assert wake is not None
        waits.append(round((wake - clock.now).total_seconds()))
        assert publisher.tick(store.now()) == 0
        clock.now = wake
    assert waits == [30, 60, 120]
    publisher.tick(store.now())
    assert channel.sent == [("done", run_id)] * 4
    assert state(store) == (DeliveryState.DELIVERED, 4, None)


def test_a_receiver_that_was_away_for_half_a_day_gets_the_outcome(store: Store, clock: Clock) -> None:
    channel = FakeChannel("team", *[ChannelError("away")] * 99)
    fire(store, "team")
    publisher, back = deliverer(store, channel), clock.now + timedelta(hours=12)
    while (wake := publisher.next_wake()) is not None:
        clock.now = max(clock.now, wake)
        if clock.now >= back:
            channel.faults.clear()
        publisher.tick(store.now())
    assert [each.state for each in deliveries(store)] == [DeliveryState.DELIVERED]
    assert clock.now - back <= DELIVERY_RETRY.max_backoff


def test_after_a_day_and_more_it_is_given_up_with_the_last_reason(store: Store, clock: Clock) -> None:
    channel = FakeChannel("team", *[ChannelError("busy")] * 99)
    fire(store, "team")
    began = clock.now
    publisher = deliverer(store, channel)
    while (wake := publisher.next_wake()) is not None:
        clock.now = max(clock.now, wake)
        publisher.tick(store.now())
    assert timedelta(days=1) <= clock.now - began <= timedelta(days=2)
    assert state(store) == (DeliveryState.FAILED, len(channel.sent), "busy")
    assert len(channel.sent) <= 24


def test_a_permanent_refusal_is_not_repeated(store: Store) -> None:
    channel = FakeChannel("team", ChannelError("no such address", permanent=True))
    fire(store, "team")
    publisher = deliverer(store, channel)
    publisher.tick(store.now())
    assert publisher.next_wake() is None
    assert state(store) == (DeliveryState.FAILED, 1, "no such address")


def test_the_wait_that_the_other_side_asked_for_is_kept(store: Store, clock: Clock) -> None:
    channel = FakeChannel("team", ChannelError("busy", retry_after=timedelta(minutes=10)))
    fire(store, "team")
    publisher = deliverer(store, channel)
    publisher.tick(store.now())
    wake = publisher.next_wake()
    assert wake is not None
    assert wake >= clock.now + timedelta(minutes=10)


def test_an_exception_of_a_library_fails_the_send_and_its_text_is_kept_to_itself(store: Store) -> None:
    fire(store, "team")
    deliverer(store, FakeChannel("team", RuntimeError("token=secret"))).tick(store.now())
    assert state(store) == (DeliveryState.PENDING, 1, "RuntimeError in channel team")


def test_a_channel_that_ends_its_thread_fails_the_send_and_is_tried_again(store: Store, clock: Clock) -> None:
    fire(store, "team")
    team = FakeChannel("team", SystemExit(1), SystemExit(1), SystemExit(1))
    telling = deliverer(store, team)
    for tries in range(1, MAX_THREADS_PER_CHANNEL + 2):
        telling.tick(store.now())
        assert state(store) == (DeliveryState.PENDING, tries, "SystemExit in channel team")
        clock.advance(86_400)
    telling.tick(store.now())
    assert state(store)[0] is DeliveryState.DELIVERED


def test_a_channel_that_is_gone_is_waited_for(store: Store, clock: Clock) -> None:
    fire(store, "team")
    deliverer(store).tick(store.now())
    assert state(store) == (DeliveryState.PENDING, 1, "channel 'team' is no longer configured")
    clock.advance(60)
    deliverer(store, FakeChannel()).tick(store.now())
    assert state(store)[0] is DeliveryState.DELIVERED


def test_a_channel_that_hangs_holds_up_nobody_else(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    patience = timedelta(seconds=2)  # of the good one too, on a machine that does much else
    monkeypatch.setattr(delivery, "DELIVERY_PAUSE", patience)
    release = threading.Event()

    class Hanging(FakeChannel):
        def send(self, message: InboxMessage, *, key: str) -> None:
            release.wait(60)
            super().send(message, key=key)

    good = FakeChannel("good")
    fire(store, "hanging", "good")
    assert deliverer(store, Hanging("hanging"), good, patience=patience).tick(store.now()) == 2
    release.set()
    found = {delivery.channel: (delivery.state, delivery.error) for delivery in deliveries(store)}
    assert found["good"] == (DeliveryState.DELIVERED, None)
    assert found["hanging"] == (DeliveryState.PENDING, "no answer in time")


def test_many_messages_to_a_channel_that_hangs_hold_up_neither_those_due_with_them_nor_later_ones(
    store: Store, clock: Clock
) -> None:
    release = threading.Event()

    class Hanging(FakeChannel):
        def send(self, message: InboxMessage, *, key: str) -> None:
            super().send(message, key=key)
            release.wait(60)

    hanging, good = Hanging("hanging"), FakeChannel("good")
    for _ in range(MAX_DELIVERIES_PER_TICK + 1):
        fire(store, "hanging")
        clock.advance(1)
    fire(store, "good")
    publisher = deliverer(store, hanging, good)
    assert publisher.tick(store.now()) == MAX_THREADS_PER_CHANNEL + 1
    assert len(good.sent) == 1
    fire(store, "good")
    assert publisher.tick(store.now()) == 1
    assert (len(good.sent), len(hanging.sent)) == (2, MAX_THREADS_PER_CHANNEL)
    found = [(delivery.state, delivery.attempts) for delivery in deliveries(store, 20) if delivery.channel == "hanging"]
    assert found == [(DeliveryState.PENDING, 0)] * (MAX_DELIVERIES_PER_TICK + 1)
    release.set()
    while publisher.tick(store.now()):
        pass
    assert {delivery.state for delivery in deliveries(store, 20)} == {DeliveryState.DELIVERED}
    assert sorted({key for _, key in hanging.sent}) == sorted(key for _, key in hanging.sent)


def test_a_send_that_never_ends_keeps_its_thread_and_gets_no_more_than_two(store: Store, clock: Clock) -> None:
    release = threading.Event()

    class Hanging(FakeChannel):
        def send(self, message: InboxMessage, *, key: str) -> None:
            super().send(message, key=key)
            release.wait(60)

    hanging = Hanging()
    fire(store, "team")
    publisher = deliverer(store, hanging, patience=timedelta(0))
    sent = []
    for _ in range(4):
        sent.append(publisher.tick(store.now()))
        clock.advance(3600)
    release.set()
    assert sent == [1, 1, 0, 0]
    assert state(store) == (DeliveryState.PENDING, 2, "no answer in time")


@pytest.mark.parametrize("hanging", [1, 20])
def test_of_any_number_of_hanging_channels_none_delays_a_good_one_for_longer_than_its_turn(
    store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch, hanging: int
) -> None:
    monkeypatch.setattr(delivery, "DELIVERY_PAUSE", timedelta(0))
    release, told = threading.Event(), threading.Semaphore(0)

    class Hanging(FakeChannel):
        def send(self, message: InboxMessage, *, key: str) -> None:
            super().send(message, key=key)
            release.wait(60)

    class Good(FakeChannel):
        def send(self, message: InboxMessage, *, key: str) -> None:
            super().send(message, key=key)
            told.release()

    names = [f"hanging-{number}" for number in range(hanging)]
    good = Good("good")
    publisher = deliverer(store, *map(Hanging, names), good)
    turns = hanging // MAX_DELIVERIES_PER_TICK + 1
    for _ in range(4):  # the second round fills every thread of every hanging channel
        fire(store, *names)
        clock.advance(1)
        fire(store, "good")
        for _ in range(turns):
            publisher.tick(store.now())
        assert told.acquire(timeout=10)
        clock.advance(1)
    release.set()
    assert len(good.sent) == 4


class Released(FakeChannel):
    """A channel that answers once it is released."""

    def __init__(self, name: str = "team") -> None:
        super().__init__(name)
        self.began, self.release = threading.Event(), threading.Event()

    def send(self, message: InboxMessage, *, key: str) -> None:
        super().send(message, key=key)
        self.began.set()
        self.release.wait(60)


def test_a_send_that_answers_while_its_process_ends_is_not_repeated(
    store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "DELIVERY_PAUSE", timedelta(0))
    channel, successor = Released(), FakeChannel()
    fire(store, "team")
    publisher = deliverer(store, channel)
    assert publisher.tick(store.now()) == 1
    assert channel.began.wait(60)
    threading.Timer(0.05, channel.release.set).start()
    publisher.finish(store.now(), timedelta(seconds=60))
    assert state(store) == (DeliveryState.DELIVERED, 1, None)
    clock.advance(delivery.DELIVERY_LEASE.total_seconds())
    assert (deliverer(store, successor).tick(store.now()), successor.sent) == (0, [])


@pytest.mark.parametrize("hurried", [False, True])
def test_a_process_ends_in_time_though_a_channel_hangs(
    store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch, *, hurried: bool
) -> None:
    monkeypatch.setattr(delivery, "DELIVERY_PAUSE", timedelta(0))
    monkeypatch.setattr(delivery, "MAX_FINISH", timedelta(hours=1) if hurried else timedelta(0))
    channel, successor = Released(), FakeChannel()
    fire(store, "team")
    publisher = deliverer(store, channel)
    publisher.tick(store.now())
    if hurried:
        threading.Timer(0.05, publisher.hurry).start()
    publisher.finish(store.now(), timedelta(hours=1))
    assert state(store) == (DeliveryState.PENDING, 0, None)
    clock.advance(delivery.DELIVERY_LEASE.total_seconds())
    assert (deliverer(store, successor).tick(store.now()), len(successor.sent)) == (1, 1)
    channel.release.set()


class LookedBefore:
    """An outbox whose owner has looked for what is due, and was then held up."""

    def __init__(self, outbox: Deliveries) -> None:
        self._found = outbox.due(limit=9)
        self.take, self.hold, self.next_wake = outbox.take, outbox.hold, outbox.next_wake
        self.settle_delivered, self.settle_failed = outbox.settle_delivered, outbox.settle_failed
        self.drop, self.urgent, self.postpone = outbox.drop, outbox.urgent, outbox.postpone
        self.unverified = outbox.unverified
        self.fail_others, self.retry_others = outbox.fail_others, outbox.retry_others

    def due(self, *, limit: int) -> list[tuple[Delivery, InboxMessage]]:
        return self._found[:limit]


def test_a_delivery_that_one_process_is_sending_no_other_sends(store: Store) -> None:
    fire(store, "team")
    other, found = FakeChannel(), []
    held_up = Deliverer(LookedBefore(store.deliveries), Channels([other]), draw=lambda: 1.0)

    class Slow(FakeChannel):
        def send(self, message: InboxMessage, *, key: str) -> None:
            super().send(message, key=key)
            found.extend([deliverer(store, other).tick(store.now()), held_up.tick(store.now())])

    channel = Slow()
    assert deliverer(store, channel).tick(store.now()) == 1
    assert (found, len(channel.sent), other.sent) == ([0, 0], 1, [])
    assert state(store) == (DeliveryState.DELIVERED, 1, None)


def test_a_hanging_delivery_stays_taken_as_long_as_its_process_lives(
    store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "DELIVERY_LEASE", timedelta(seconds=0.5))
    release = threading.Event()

    class Hanging(FakeChannel):
        def send(self, message: InboxMessage, *, key: str) -> None:  # noqa: ARG002 - it never comes so far
            clock.advance(0.4)
            release.wait(60)

    fire(store, "team")
    publisher = deliverer(store, Hanging())
    publisher.tick(store.now())
    clock.advance(0.3)
    assert store.deliveries.due(limit=9) == []
    assert publisher.next_wake() == START
    release.set()
    clock.advance(0.3)
    assert len(store.deliveries.due(limit=9)) == 1


def test_of_two_who_send_the_same_only_one_settles(store: Store, clock: Clock) -> None:
    """A runner that was only frozen wakes up in the middle of a send: the message repeats, under one key, once."""
    frozen = FakeChannel()
    run_id = fire(store, "team")
    successor = FakeChannel()

    class Freezing(FakeChannel):
        def send(self, message: InboxMessage, *, key: str) -> None:
            frozen.send(message, key=key)
            clock.advance(delivery.DELIVERY_LEASE.total_seconds())
            deliverer(store, successor).tick(store.now())
            raise ChannelError("too late")

    deliverer(store, Freezing()).tick(store.now())
    assert frozen.sent == successor.sent == [("done", run_id)]
    assert state(store) == (DeliveryState.DELIVERED, 1, None)


def test_more_than_a_batch_is_sent_in_several_ticks(store: Store) -> None:
    channel = FakeChannel()
    for _ in range(10):
        fire(store, "team")
    publisher = deliverer(store, channel)
    assert [publisher.tick(store.now()) for _ in range(3)] == [8, 2, 0]
    assert len({key for _, key in channel.sent}) == 10


def test_deliveries_that_failed_together_are_not_repeated_together(store: Store) -> None:
    for _ in range(8):
        fire(store, "team")
    channel = FakeChannel("team", *[ChannelError("busy")] * 8)
    Deliverer(store.deliveries, Channels([channel])).tick(store.now())
    moments = {delivery.next_at for delivery in deliveries(store)}
    assert len(moments) == 8


# --- the outcomes that a channel takes ------------------------------------------------------------------------------

FAILURES = (State.FAILED, State.EXPIRED)


def failures_only(store: Store, *channels: Channel) -> Deliverer:
    return Deliverer(store.deliveries, Channels(channels, outcomes={"pager": FAILURES}), draw=lambda: 1.0)


@pytest.mark.parametrize("outcome", [State.SUCCEEDED, State.FAILED])
def test_a_channel_is_told_of_the_outcomes_that_it_takes(store: Store, outcome: State) -> None:
    pager, team = FakeChannel("pager"), FakeChannel("team")
    fire(store, "pager", "team", outcome=outcome)
    loop = failures_only(store, pager, team)
    loop.tick(store.now())

    assert (len(pager.sent), len(team.sent)) == (int(outcome in FAILURES), 1)
    assert loop.next_wake() is None


def test_a_channel_of_failures_is_told_of_what_succeeded_unverified(store: Store) -> None:
    pager = FakeChannel("pager")
    for error in (None, "unverified: no order_id"):
        fire(store, "pager", error=error)
        failures_only(store, pager).tick(store.now())
        assert len(pager.sent) == int(error is not None)
    assert deliveries(store)[0].state is DeliveryState.DELIVERED


def test_a_channel_is_told_in_what_a_result_is_not_as_expected(store: Store) -> None:
    fire(store, "team", error="no order_id")
    fire(store, "team")
    fire(store, "team", outcome=State.FAILED, error="502")
    told: list[Any] = [message_json(message)["data"] for _, message in store.deliveries.due(limit=9)]
    assert [(each["state"], each.get("unverified")) for each in told] == [
        ("succeeded", "no order_id"),
        ("succeeded", None),
        ("failed", None),
    ]


def test_an_outcome_that_no_channel_takes_is_delivered_to_the_inbox(store: Store) -> None:
    fire(store, "pager")
    assert failures_only(store, FakeChannel("pager")).tick(store.now()) == 0
    (view,) = Scheduler(store, Planner(Handlers.load(entry_points=False), "UTC")).tasks.list().views
    part = task_payload(view).delivery

    assert deliveries(store) == []
    assert part is not None
    assert (part.channel, part.state) == ("inbox", DeliveryState.DELIVERED)
    assert len(store.inbox.unread("local", "local")) == 1


def test_a_channel_that_takes_all_again_is_told_of_what_waits(store: Store) -> None:
    fire(store, "pager")
    pager = FakeChannel("pager")
    deliverer(store, pager).tick(store.now())
    assert len(pager.sent) == 1


def test_a_webhook_takes_outcomes_by_its_bare_name() -> None:
    channels = opened(webhooks={"team": WebhookTarget("https://example.com", SECRET)}, outcomes={"team": FAILURES})
    assert channels.takes("webhook:team", State.FAILED)
    assert channels.takes("webhook:team", State.EXPIRED)
    assert not channels.takes("webhook:team", State.SUCCEEDED)
    assert channels.takes("gone", State.SUCCEEDED)


# --- the registry of channels ---------------------------------------------------------------------------------------


class Screen(DesktopChannel):
    """A desktop that is there or not, without asking this machine."""

    def __init__(self, *, there: bool) -> None:
        super().__init__()
        self._there = there

    def available(self) -> bool:
        return self._there


QUIET = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")
"""Apprise reads a module that Python 3.13 drops; its users are told by Apprise, not by us."""

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def opened(*, there: bool = False, **options: Any) -> Channels:
    return Channels.from_options(ChannelOptions(**options), desktop=Screen(there=there))


@pytest.mark.parametrize(
    ("setting", "there", "names"),
    [
        ("auto", True, ("desktop",)),
        ("auto", False, ()),
        ("on", False, ("desktop",)),
        ("off", True, ()),
    ],
)
def test_the_desktop_is_a_default_where_there_is_one(setting: str, there: bool, names: tuple[str, ...]) -> None:
    channels = opened(there=there, desktop=setting)
    assert tuple(channels) == names
    assert channels.default_channels() == names


@QUIET
def test_configured_channels_are_known_by_name() -> None:
    channels = opened(
        webhooks={"team": WebhookTarget("https://example.com", SECRET)}, apprise={"mail": "json://localhost"}
    )
    assert list(channels) == ["webhook:team", "mail"]
    assert channels["team"] is channels["webhook:team"]
    assert channels.default_channels() == ()


def test_names_in_deliver_to_are_checked_against_what_is_configured() -> None:
    channels = Channels([FakeChannel("desktop"), FakeChannel("webhook:team")])
    assert channels.check(["inbox", "team", "webhook:team", "desktop"]) == ("webhook:team", "desktop")
    with pytest.raises(InvalidArgument) as refused:
        channels.check(["inbox", "slack"])
    assert str(refused.value) == (
        "deliver_to: no channel 'slack' is configured. Accepted: inbox, desktop, webhook:team. "
        "Example: deliver_to=['inbox']"
    )


def test_origin_is_named_as_accepted_for_a_task_whose_client_has_an_address_alone() -> None:
    channels = Channels([FakeChannel("desktop"), FakeChannel("origin:app")])
    accepted = {"app": "inbox, desktop, origin", "other": "inbox, desktop", None: "inbox, desktop"}
    for client, names in accepted.items():
        with pytest.raises(InvalidArgument) as refused:
            channels.check(["slack"], {"client": client} if client else {})
        assert f"Accepted: {names}. " in str(refused.value)
        assert channels.besides_inbox({"client": client} if client else {}) == tuple(names.split(", ")[1:])


@QUIET
@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"webhooks": {"team": WebhookTarget("https://example.com", "whsec_c2hvcnQ=")}}, "webhook secret"),
        ({"apprise": {"mail": "nonsense://token@host"}}, "channels.mail"),
    ],
)
def test_a_channel_that_cannot_be_opened_is_named_without_its_secret(options: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidSetting, match=named) as refused:
        opened(**options)
    assert "c2hvcnQ" not in str(refused.value)
    assert "token" not in str(refused.value)


def test_without_apprise_the_setting_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "apprise", None)
    with pytest.raises(InvalidSetting, match=r"pip install '\.\[channels\]'"):
        opened(apprise={"mail": "json://localhost"})


def test_closing_closes_each_channel() -> None:
    one, two = FakeChannel("one"), FakeChannel("two")
    Channels([one, two]).close()
    assert one.closed
    assert two.closed


def test_a_question_goes_to_every_channel_and_a_default_no_to_those_that_take_expiries() -> None:
    channels = Channels(
        [FakeChannel("pager"), FakeChannel("team")], outcomes={"pager": FAILURES, "team": [State.SUCCEEDED]}
    )
    assert [channels.takes(name, State.WAITING) for name in ("pager", "team")] == [True, True]
    assert [channels.takes(name, State.CANCELLED) for name in ("pager", "team")] == [True, False]


@pytest.fixture
def stuck() -> Iterator[FakeChannel]:
    """Yield a channel that answers no send before the end of the test."""
    release = threading.Event()

    class Stuck(FakeChannel):
        def send(self, message: InboxMessage, *, key: str) -> None:
            super().send(message, key=key)
            release.wait(60)

    yield Stuck("stuck")
    release.set()


def test_the_backlog_of_a_hanging_channel_hides_no_delivery_of_another(
    store: Store, clock: Clock, stuck: FakeChannel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "MAX_DUE_ROWS_PER_TICK", 5)
    good = FakeChannel("good")
    for _ in range(12):
        fire(store, "stuck")
        clock.advance(0.01)
    fire(store, "good")
    publisher = deliverer(store, stuck, good, patience=timedelta(seconds=0.2))
    assert publisher.tick(store.now()) == MAX_THREADS_PER_CHANNEL + 1
    assert (len(good.sent), len(stuck.sent)) == (1, MAX_THREADS_PER_CHANNEL)
