"""Quiet hours: what is not urgent is held until they end, and then told as one digest."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from duetime.scheduler.audit.entry import AuditEntry, AuditFilter, AuditKind
from duetime.scheduler.delivery import ChannelError, Channels
from duetime.scheduler.delivery.deliverer import DELIVERY_LEASE, Deliverer
from duetime.scheduler.delivery.quiet_hours import QuietHours, QuietPlan
from duetime.scheduler.errors import InvalidArgument, InvalidSetting
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.outcomes import Done
from duetime.scheduler.principal import Principal, Scope
from duetime.scheduler.rules.settlement import settle
from duetime.scheduler.run_records import Start
from duetime.scheduler.service.quiet_hours import QuietHoursView
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.task import InboxMessage, State, Tier
from duetime.scheduler.views import NOTHING_HELD, HeldDeliveries
from duetime.server.settings.model import Settings
from duetime.server.settings.notices import quiet_plan

from tests.builders import NOON, TENANT, Clock, delivery, message, settlement, started

SIESTA = QuietHours(time(11), time(14), "UTC")
END = NOON + timedelta(hours=2)


class Reader:
    """A channel that remembers what it was given."""

    def __init__(self, name: str = "desktop") -> None:
        self.name = name
        self.read: list[InboxMessage] = []

    def send(self, message: InboxMessage, *, key: str) -> None:
        assert key
        self.read.append(message)

    def close(self) -> None:
        """Keep what was read."""


def fire(store: Store, title: str, *, channel: str = "desktop", to: State = State.SUCCEEDED, **values: Any) -> None:
    claim = started(store, title=title, **values)
    told = message(claim, text=f"{title} ended", state=to, created_at=store.now())
    sent = delivery(claim, channel, next_at=store.now())
    store.claims.settle([settlement(claim, to, inbox=told, deliveries=(sent,))])


def tick(store: Store, *readers: Reader, plan: QuietPlan = QuietPlan(SIESTA)) -> int:  # noqa: B008 - a frozen value
    deliverer = Deliverer(store.deliveries, Channels(readers), quiet=plan)
    return deliverer.tick(store.now())


def test_a_message_that_can_wait_is_held_and_comes_in_one_digest_at_the_end(store: Store, clock: Clock) -> None:
    phone = Reader()
    fire(store, "Backup")
    clock.forward(minutes=5)
    fire(store, "Import", to=State.FAILED)
    tick(store, phone)
    assert phone.read == []
    assert len(store.inbox.unread(TENANT, "alice")) == 2, "the inbox has each at once"
    assert store.deliveries.held(TENANT, "alice", most=9) == (2, END)
    assert store.deliveries.held(TENANT, "bob", most=9) == (0, None)
    assert store.deliveries.next_wake() == END
    clock.forward(hours=2)
    assert tick(store, phone) == 1, "a digest is one message"
    [digest] = phone.read
    assert (digest.title, digest.state) == ("2 outcomes of your quiet hours", State.FAILED)
    assert digest.text == "Import: Import ended\nBackup: Backup ended"
    assert store.deliveries.next_wake() is None
    tick(store, phone)
    assert len(phone.read) == 1


class Failing(Reader):
    """A channel that takes a message and fails, twice."""

    def __init__(self) -> None:
        super().__init__()
        self.keys: list[str] = []

    def send(self, message: InboxMessage, *, key: str) -> None:
        super().send(message, key=key)
        self.keys.append(key)
        if len(self.keys) < 3:
            raise ChannelError("no answer")


def test_a_digest_that_fails_is_tried_again_as_the_same_message(store: Store, clock: Clock) -> None:
    phone = Failing()
    for title in ("Backup", "Import", "Report"):
        fire(store, title)
        clock.forward(minutes=5)
    tick(store, phone)
    while (wake := store.deliveries.next_wake()) is not None:
        clock.at = wake
        assert tick(store, phone) == 1
    assert len(phone.keys) == 3
    assert len(set(phone.keys)) == 1
    assert {(each.title, each.text) for each in phone.read} == {
        ("3 outcomes of your quiet hours", "Backup: Backup ended\nImport: Import ended\nReport: Report ended")
    }


def test_a_digest_whose_process_ended_is_sent_as_one_by_another(store: Store, clock: Clock) -> None:
    phone = Reader()
    for title in ("Backup", "Import"):
        fire(store, title)
    tick(store, phone)
    clock.at = END
    ids = [each.id for each, _ in store.deliveries.due(limit=9)]
    assert store.deliveries.take(ids, lease=DELIVERY_LEASE) == set(ids)
    clock.at = END + DELIVERY_LEASE
    assert tick(store, phone) == 1
    assert [each.title for each in phone.read] == ["2 outcomes of your quiet hours"]


def test_a_digest_that_is_tried_again_takes_in_nothing_that_was_held_later(store: Store, clock: Clock) -> None:
    phone = Failing()
    for title in ("Backup", "Import"):
        fire(store, title)
    tick(store, phone)
    clock.at = END
    tick(store, phone)
    clock.at = NOON + timedelta(days=1)
    fire(store, "Report")
    tick(store, phone)
    clock.at = END + timedelta(days=1)
    while store.deliveries.next_wake() is not None:
        tick(store, phone)
        clock.forward(hours=2)
    assert sorted(each.title for each in phone.read) == ["2 outcomes of your quiet hours"] * 3 + ["Report"]


def test_of_more_held_deliveries_than_are_counted_the_first_is_named(store: Store) -> None:
    for title in "ABCDE":
        fire(store, title)
    due = [each.id for each, _ in store.deliveries.due(limit=9)]
    ends = {delivery_id: END - timedelta(minutes=5 - abs(2 - place)) for place, delivery_id in enumerate(due)}
    store.deliveries.postpone(ends)
    for most in (1, 2, 9):
        assert store.deliveries.held(TENANT, "alice", most=most) == (min(most, 5), END - timedelta(minutes=5))


def test_an_urgent_message_comes_at_once(store: Store) -> None:
    phone = Reader()
    for tier in Tier:
        fire(store, tier.value, priority=tier)
    tick(store, phone)
    assert {each.title for each in phone.read} == {"critical", "high"}


def test_a_question_whose_time_ends_in_quiet_hours_comes_at_once(store: Store, clock: Clock) -> None:
    phone = Reader()
    scheduler = Scheduler(store, Planner(Handlers.load(entry_points=False), "UTC", channels=Channels([phone])))
    asked: dict[str, Any] = {"before": "1 hour", "at the end": "2 hours", "after": "3 hours", "never": None}
    views = {
        title: scheduler.schedule(title, approval={"question": "Pay?", "by": by}, deliver_to=["desktop"])
        for title, by in asked.items()
    }
    tick(store, phone)
    assert sorted(each.title for each in phone.read) == ["at the end", "before"]
    held = {title: scheduler.get(view.record.task.id).held_until for title, view in views.items()}
    assert held == {"before": None, "at the end": None, "after": END, "never": END}
    clock.at = END
    tick(store, phone, plan=QuietPlan(SIESTA, digest=False))
    assert {each.title for each in phone.read} == set(asked)


def run_all(store: Store) -> None:
    ready = [Start(run.run_id) for run in store.claims.make_ready(limit=9)]
    for claim in store.claims.start(ready, worker="w", epoch=None, lease=timedelta(minutes=1)):
        store.claims.settle([settle(claim, Done("told"), now=store.now(), jitter=0.0)])


def test_all_of_a_run_whose_hard_deadline_passes_in_quiet_hours_comes_at_once(store: Store) -> None:
    phone = Reader()
    scheduler = Scheduler(store, Planner(Handlers.load(entry_points=False), "UTC", channels=Channels([phone])))
    asked: dict[str, dict[str, Any]] = {
        "hard": {"deadline": "today 14:00", "deadline_type": "hard"},
        "hard, after them": {"deadline": "today 14:01", "deadline_type": "hard"},
        "soft": {"deadline": "today 13:00", "deadline_type": "soft"},
    }
    for title, terms in asked.items():
        scheduler.schedule(f"Pay: {title}", approval={"question": "Pay?"}, deliver_to=["desktop"], **terms)
        scheduler.schedule(title, when="now", deliver_to=["desktop"], **terms)
    run_all(store)
    tick(store, phone)
    assert sorted(each.title for each in phone.read) == ["Pay: hard", "hard"]


def test_the_outcome_of_a_run_whose_hard_deadline_has_passed_can_wait(store: Store, clock: Clock) -> None:
    phone = Reader()
    scheduler = Scheduler(store, Planner(Handlers.load(entry_points=False), "UTC", channels=Channels([phone])))
    scheduler.schedule("Late", when="now", deadline="today 13:00", deadline_type="hard", deliver_to=["desktop"])
    run_all(store)
    clock.at = NOON + timedelta(hours=1)
    tick(store, phone)
    assert phone.read == []


def test_a_single_outcome_and_those_of_a_webhook_stay_as_they_are(store: Store, clock: Clock) -> None:
    phone, program = Reader(), Reader("webhook:crm")
    fire(store, "Backup")
    fire(store, "One", channel="webhook:crm")
    fire(store, "Two", channel="webhook:crm")
    tick(store, phone, program)
    clock.forward(hours=2)
    tick(store, phone, program)
    assert [each.text for each in phone.read] == ["Backup ended"]
    assert sorted(each.title for each in program.read) == ["One", "Two"]


def test_without_a_digest_each_comes_by_itself_and_a_tenant_has_hours_of_its_own(store: Store, clock: Clock) -> None:
    phone = Reader()
    fire(store, "Backup")
    fire(store, "Import")
    tick(store, phone, plan=QuietPlan(None, {"globex": SIESTA}))
    assert len(phone.read) == 2
    fire(store, "Third")
    fire(store, "Fourth")
    own = QuietPlan(None, {TENANT: SIESTA}, digest=False)
    tick(store, phone, plan=own)
    clock.forward(hours=2)
    tick(store, phone, plan=own)
    assert sorted(each.title for each in phone.read[2:]) == ["Fourth", "Third"]


def test_a_user_has_hours_of_their_own_or_none(store: Store, clock: Clock) -> None:
    phone = Reader()
    plan = QuietPlan(None, {TENANT: SIESTA}, by_user={(TENANT, "bob"): None, ("globex", "alice"): None})
    for owner in ("alice", "bob"):
        fire(store, f"Backup of {owner}", owner=owner)
    tick(store, phone, plan=plan)
    assert [each.title for each in phone.read] == ["Backup of bob"]
    clock.forward(hours=2)
    tick(store, phone, plan=plan)
    assert [each.title for each in phone.read[1:]] == ["Backup of alice"]


def test_the_digest_of_a_user_is_by_their_own_hours(store: Store, clock: Clock) -> None:
    phone = Reader()
    plan = QuietPlan(None, by_user={(TENANT, "alice"): SIESTA})
    for title in ("One", "Two"):
        fire(store, title)
        fire(store, f"{title} of bob", owner="bob")
        clock.forward(seconds=1)
    tick(store, phone, plan=plan)
    clock.forward(hours=2)
    tick(store, phone, plan=plan)
    assert [each.title for each in phone.read] == ["One of bob", "Two of bob", "2 outcomes of your quiet hours"]


def test_the_inbox_says_of_each_outcome_until_when_it_is_held(store: Store) -> None:
    scheduler = Scheduler(store, Planner(Handlers.load(entry_points=False), "UTC"))
    phone, alice, bob = Reader(), Principal(TENANT, "alice"), Principal(TENANT, "bob")
    fire(store, "Backup")
    fire(store, "Alarm", priority=Tier.CRITICAL)
    assert scheduler.inbox.held(by=alice) == NOTHING_HELD
    tick(store, phone)
    assert {each.title: each.held_until for each in scheduler.inbox.unread(by=alice)} == {"Backup": END, "Alarm": None}
    assert scheduler.inbox.held(by=alice) == HeldDeliveries(1, END)
    assert [scheduler.inbox.held(by=other) for other in (bob, Principal("globex", "alice"))] == [NOTHING_HELD] * 2


@pytest.mark.parametrize(
    ("now", "until"),
    [
        ("2026-11-24T21:59", None),
        ("2026-11-24T22:00", "2026-11-25T07:00"),
        ("2026-11-25T06:59", "2026-11-25T07:00"),
        ("2026-11-25T07:00", None),
        ("2026-10-24T23:00", "2026-10-25T07:00"),  # the clocks go back that night
    ],
)
def test_quiet_hours_follow_the_wall_clock_over_midnight(now: str, until: str | None) -> None:
    night = QuietHours.read("22:00-07:00 Europe/Berlin", "UTC")
    found = night.until(_berlin(now))
    assert found == (_berlin(until) if until else None)


def _berlin(wall: str) -> datetime:
    return datetime.fromisoformat(wall).replace(tzinfo=ZoneInfo("Europe/Berlin")).astimezone(UTC)


@pytest.mark.parametrize("text", ["22-7", "24:00-07:00", "07:00-07:00", "at night"])
def test_a_text_without_hours_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(InvalidArgument, match="22:00-07:00"):
        QuietHours.read(text, "UTC")


def test_the_settings_have_hours_of_tenants_and_of_users_and_none_of_either() -> None:
    settings = Settings.model_validate(
        {
            "timezone": "UTC",
            "quiet_hours": "22:00-07:00",
            "tenant_quiet_hours": {"acme": "20:00-08:00", "globex": "none"},
            "user_quiet_hours": {
                "acme": {"ann": "21:00-09:00 Europe/Berlin", "bob": "none"},
                "globex": {"ann": "1:00-2:00"},
            },
        }
    )
    plan = quiet_plan(settings, settings.timezone)
    asked = [("acme", "ann"), ("acme", "bob"), ("acme", "eve"), ("globex", "ann"), ("globex", "bob"), ("other", "ann")]
    found = [hours and hours.start.hour for hours in (plan.of(*each) for each in asked)]
    assert found == [21, None, 20, 1, None, 22]
    with pytest.raises(InvalidSetting, match=r"acme\.ann"):
        Settings(user_quiet_hours={"acme": {"ann": "at night"}})


NEVER = QuietPlan()


def own(store: Store, plan: QuietPlan = NEVER) -> tuple[Scheduler, QuietPlan]:
    scheduler = Scheduler(store, Planner(Handlers.load(entry_points=False), "Europe/Berlin"), quiet=plan)
    return scheduler, replace(plan, stored=store.quiet_hours.texts)


def test_the_hours_of_a_user_go_before_all_settings_until_they_are_cleared(store: Store, clock: Clock) -> None:
    settings = QuietPlan(SIESTA, by_user={(TENANT, "alice"): SIESTA})
    scheduler, plan = own(store, settings)
    alice, phone = Principal(TENANT, "alice"), Reader()
    assert scheduler.quiet_hours.read(by=alice) == QuietHoursView(TENANT, "alice", SIESTA, own=False, until=END)
    set_ = scheduler.quiet_hours.set("None", by=alice)
    assert set_ == scheduler.quiet_hours.read(by=alice) == QuietHoursView(TENANT, "alice", None, own=True)
    for owner in ("alice", "bob"):
        fire(store, f"Backup of {owner}", owner=owner)
    tick(store, phone, plan=plan)
    assert [each.title for each in phone.read] == ["Backup of alice"]
    assert scheduler.quiet_hours.clear(by=alice).own is False
    fire(store, "Import")
    tick(store, phone, plan=plan)
    assert len(phone.read) == 1


def test_a_held_message_is_counted_and_freed_in_the_last_minute_too(store: Store, clock: Clock) -> None:
    scheduler, plan = own(store)
    alice, phone = Principal(TENANT, "alice"), Reader()
    scheduler.quiet_hours.set("9:00 - 15:00", by=alice)
    fire(store, "Backup")
    tick(store, phone, plan=plan)
    clock.forward(seconds=(END - clock()).total_seconds() - 20)
    assert scheduler.inbox.held(by=alice) == HeldDeliveries(1, END)
    assert [each.held_until for each in scheduler.inbox.unread(by=alice)] == [END]
    scheduler.quiet_hours.clear(by=alice)
    assert scheduler.inbox.held(by=alice) == NOTHING_HELD
    tick(store, phone, plan=plan)
    assert [each.title for each in phone.read] == ["Backup"]


def test_a_delivery_on_its_way_is_not_held_however_long_its_lease(store: Store, clock: Clock) -> None:
    scheduler, plan = own(store)
    alice = Principal(TENANT, "alice")
    scheduler.quiet_hours.set("9:00 - 15:00", by=alice)
    fire(store, "Backup")
    tick(store, Reader(), plan=plan)
    clock.forward(seconds=(END - clock()).total_seconds())
    [(due, _)] = store.deliveries.due(limit=9)
    assert store.deliveries.take([due.id], lease=timedelta(hours=1)) == {due.id}
    assert scheduler.inbox.held(by=alice) == NOTHING_HELD
    scheduler.quiet_hours.clear(by=alice)
    assert store.deliveries.due(limit=9) == [], "its lease holds"


def test_hours_without_a_zone_are_of_the_configured_one_and_others_keep_theirs(store: Store) -> None:
    scheduler, plan = own(store)
    alice = Principal(TENANT, "alice")
    view = scheduler.quiet_hours.set("9:00 - 15:00", by=alice)
    assert (str(view.hours), view.until) == ("09:00-15:00 Europe/Berlin", END)
    for other in (Principal(TENANT, "bob"), Principal("globex", "alice")):
        assert scheduler.quiet_hours.read(by=other).hours is None
    assert plan.with_stored([(TENANT, "alice"), (TENANT, "bob")]).by_user == {(TENANT, "alice"): view.hours}


def test_a_held_message_waits_for_the_new_end_or_comes_at_once(store: Store, clock: Clock) -> None:
    scheduler, plan = own(store, QuietPlan(SIESTA))
    alice, phone = Principal(TENANT, "alice"), Reader()
    for title in ("One", "Two"):
        fire(store, title)
        fire(store, f"{title} of bob", owner="bob")
    tick(store, phone, plan=plan)
    scheduler.quiet_hours.set("11:00-13:00 UTC", by=alice)
    tick(store, phone, plan=plan)
    assert scheduler.inbox.held(by=alice) == HeldDeliveries(2, NOON + timedelta(hours=1))
    assert scheduler.inbox.held(by=Principal(TENANT, "bob")) == HeldDeliveries(2, END)
    clock.forward(hours=1)
    tick(store, phone, plan=plan)
    assert [each.title for each in phone.read] == ["2 outcomes of your quiet hours"]
    fire(store, "Three")
    scheduler.quiet_hours.set("11:00-15:00 UTC", by=alice)
    tick(store, phone, plan=plan)
    scheduler.quiet_hours.set("none", by=alice)
    tick(store, phone, plan=plan)
    assert [each.title for each in phone.read[1:]] == ["Three"]


def test_each_change_of_quiet_hours_is_in_the_audit_log_and_a_clear_of_none_is_not(store: Store) -> None:
    scheduler, _ = own(store)
    alice = Principal(TENANT, "alice", via="rest 10.0.0.7")
    scheduler.quiet_hours.clear(by=alice)
    scheduler.quiet_hours.set("22:00-07:00 UTC", by=alice)
    scheduler.quiet_hours.clear(by=alice)
    scheduler.quiet_hours.clear(by=alice)
    found = store.audit.page(TENANT, AuditFilter(), limit=9).entries
    said = [(each.kind, each.actor, each.via, each.subject, each.detail) for each in found]
    assert said == [
        (AuditKind.QUIET_HOURS_CLEARED, "alice", "rest 10.0.0.7", "alice", None),
        (AuditKind.QUIET_HOURS_SET, "alice", "rest 10.0.0.7", "alice", {"hours": "22:00-07:00 UTC"}),
    ]


def test_only_an_administrator_sets_the_hours_of_others_and_only_an_operator_those_of_other_tenants(
    store: Store,
) -> None:
    scheduler, _ = own(store)
    alice, admin = Principal(TENANT, "alice"), Principal(TENANT, "root", frozenset({Scope.ADMIN}))
    for by, whose in ((alice, {"user": "bob"}), (alice, {"tenant": "globex"}), (admin, {"tenant": "globex"})):
        hours = scheduler.quiet_hours
        for call in (hours.read, partial(hours.set, "none"), hours.clear):
            with pytest.raises(InvalidArgument, match=r"only an (administrator|operator) may"):
                call(by=by, **whose)
    assert store.quiet_hours.all() == []
    scheduler.quiet_hours.set("1:00-2:00", user="bob", by=admin)
    scheduler.quiet_hours.set("none", user="eve", tenant="globex", by=replace(admin, operator=True))
    assert [(each.tenant, each.user, each.hours, each.set_by) for each in store.quiet_hours.all()] == [
        (TENANT, "bob", "01:00-02:00 Europe/Berlin", "root"),
        ("globex", "eve", "none", "root"),
    ]
    assert [each.user for each in store.quiet_hours.all("globex")] == ["eve"]


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("22-7", "22:00-07:00"),
        ("10pm to 6:30 am", "22:00-06:30"),
        ("12am - 12pm UTC", "00:00-12:00"),
        ("24:00-07:00", "00:00-07:00"),
        ("", "22:00-07:00 America/Denver"),
        ("at night", "22:00-07:00 America/Denver"),
        ("07:00-07:00", "22:00-07:00 America/Denver"),
        ("22:00-99:00", "22:00-07:00 America/Denver"),
        ("22:00-07:00 Mars/Base", "22:00-07:00"),
    ],
)
def test_a_text_that_names_no_hours_is_refused_with_what_was_meant(store: Store, text: str, right: str) -> None:
    scheduler, _ = own(store)
    with pytest.raises(InvalidArgument) as refused:
        scheduler.quiet_hours.set(text)
    assert (refused.value.argument, refused.value.example) == ("hours", f"hours='{right}'")
    assert store.quiet_hours.all() == []
    assert scheduler.quiet_hours.set(right).own


def test_a_stored_text_that_names_no_hours_leaves_those_of_the_settings(store: Store) -> None:
    scheduler, plan = own(store, QuietPlan(SIESTA))
    entry = AuditEntry(TENANT, AuditKind.QUIET_HOURS_SET, "alice")
    store.quiet_hours.set(TENANT, "alice", "damaged", entry)
    assert plan.with_stored([(TENANT, "alice")]).of(TENANT, "alice") == SIESTA
    assert scheduler.quiet_hours.read(by=Principal(TENANT, "alice")).hours == SIESTA
