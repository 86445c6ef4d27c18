"""Changes that an actor makes to a task, through the service and a real store, with a clock that the test moves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from duetime.scheduler.delivery import Channels
from duetime.scheduler.errors import InvalidArgument, InvalidArguments, Refused, StaleRevision, TaskNotFound
from duetime.scheduler.events import EventFilter, EventKind
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.outcomes import Done
from duetime.scheduler.principal import LOCAL
from duetime.scheduler.records import Change
from duetime.scheduler.request import Request
from duetime.scheduler.rules.settlement import settle
from duetime.scheduler.rules.time import zones
from duetime.scheduler.run_records import Settlement, Start, Verdict
from duetime.scheduler.service.change_notices import ChangeNotices
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store, open_store
from duetime.scheduler.task import InboxMessage, State
from duetime.scheduler.views import TaskRecord, TaskView
from duetime.widgets.payload import task_payload

from tests import blank
from tests.builders import some
from tests.flow.tools.calls import asked_of

START = datetime(2026, 11, 21, 16, 0, tzinfo=UTC)  # a Saturday, 09:00 in Denver


class Clock:
    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now

    def forward(self, **by: float) -> None:
        self.now += timedelta(**by)


class House:
    """A scheduler over a real store, and a hand that fires what is due."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self.store, self.clock = store, clock
        self.changed: list[str] = []
        planner = Planner(Handlers.load(), "America/Denver", channels=Channels())
        self.scheduler = Scheduler(store, planner, notices=ChangeNotices(on_change=self.changed.extend))

    def start(self) -> list[str]:
        """Start every run that is due; return their ids."""
        ready = [Start(run.run_id) for run in self.store.claims.make_ready(limit=100)]
        claims = self.store.claims.start(ready, worker="test", epoch=None, lease=timedelta(seconds=30))
        return [claim.run.id for claim in claims]

    def fire(self, task_id: str) -> None:
        """Run the task's due run to success, without a next occurrence."""
        ready = [Start(run.run_id) for run in self.store.claims.make_ready(limit=100)]
        claims = self.store.claims.start(ready, worker="test", epoch=None, lease=timedelta(seconds=30))
        done = [self._done(claim.run.id, claim.run.attempt, claim.task.revision, task_id) for claim in claims]
        assert done
        assert set(self.store.claims.settle(done)) == {Verdict.SETTLED}

    def _done(self, run_id: str, attempt: int, revision: int, task_id: str) -> Settlement:
        message = InboxMessage(
            id=f"m_{run_id}",
            tenant="local",
            user="local",
            task_id=task_id,
            run_id=run_id,
            title="t",
            text="done",
            state=State.SUCCEEDED,
            created_at=self.clock.now,
        )
        return Settlement(
            run_id=run_id,
            attempt=attempt,
            task_revision=revision,
            to=State.SUCCEEDED,
            kind=EventKind.SUCCEEDED,
            outcome="done",
            summary="done",
            inbox=message,
        )


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    clock = Clock()
    blank.make(tmp_path / "duetime.db")
    store = open_store(f"sqlite:///{tmp_path / 'duetime.db'}", clock=clock, synchronous="OFF")
    yield House(store, clock)
    store.close()


def state(view: TaskView) -> State:
    return view.record.run.state


def due(view: TaskView) -> datetime:
    return view.record.run.scheduled_for


def test_a_wall_time_is_read_in_the_zone_of_the_caller(house: House) -> None:
    view = house.scheduler.schedule("Call John", when="tomorrow 9am")
    assert due(view) == datetime(2026, 11, 22, 16, 0, tzinfo=UTC)
    assert view.record.task.timezone == "America/Denver"
    assert view.created
    assert house.changed == [view.record.task.id]


def test_a_reminder_that_says_no_time_is_refused_with_an_example(house: House) -> None:
    with pytest.raises(InvalidArgument, match=r"when: a reminder needs a time.*in 2 hours"):
        house.scheduler.schedule("Call John")


def test_every_wrong_argument_is_reported_at_once(house: House) -> None:
    with pytest.raises(InvalidArguments) as caught:
        house.scheduler.schedule("", when="soon", action="fly", deliver_to=["pigeon"], labels=["x"] * 11)
    assert [problem.argument for problem in caught.value.problems] == [
        "title",
        "when",
        "action",
        "deliver_to",
        "labels",
    ]


def test_a_dry_run_shows_the_next_five_occurrences_and_stores_nothing(house: House) -> None:
    view = house.scheduler.schedule("Stand-up", repeat="every weekday at 9:00", dry_run=True)
    assert view.created is None
    assert [o.wall.isoformat() for o in view.upcoming] == [f"2026-11-{day}T09:00:00" for day in (23, 24, 25, 26, 27)]
    assert house.scheduler.tasks.list().views == ()


def test_a_retried_call_of_an_agent_returns_the_first_task_for_a_minute(house: House) -> None:
    raw = {"title": "Call John", "when": "in 2 hours"}
    first = house.scheduler.schedule("Call John", when="in 2 hours", raw=raw)
    house.clock.forward(seconds=59)
    again = house.scheduler.schedule("Call John", when="in 2 hours", raw=raw)
    assert (again.created, again.record.task.id) == (False, first.record.task.id)
    assert "repeats an earlier call" in again.warnings[0]
    house.clock.forward(seconds=61)
    assert house.scheduler.schedule("Call John", when="in 2 hours", raw=raw).created


def test_after_a_cancel_the_same_call_schedules_again(house: House) -> None:
    raw = {"title": "Call John", "when": "in 2 hours"}
    first = house.scheduler.schedule("Call John", when="in 2 hours", raw=raw)
    house.scheduler.cancel(first.record.task.id)
    assert house.scheduler.schedule("Call John", when="in 2 hours", raw=raw).created


def test_a_near_duplicate_is_made_and_names_the_other_one(house: House) -> None:
    first = house.scheduler.schedule("Call John", when="tomorrow 9am")
    second = house.scheduler.schedule("call john", when="tomorrow 9am")
    assert second.created
    assert first.record.task.id in second.warnings[-1]


def test_many_are_stored_together_or_not_at_all(house: House) -> None:
    with pytest.raises(InvalidArgument, match="when"):
        house.scheduler.task_creator.create_many([Request("Good", when="in 1 hour"), Request("Bad", when="soon")])
    assert house.scheduler.tasks.list().views == ()
    assert (
        len(house.scheduler.task_creator.create_many([Request("A", when="in 1 hour"), Request("B", when="in 2 hours")]))
        == 2
    )


def test_a_cancel_can_be_undone_for_thirty_seconds(house: House) -> None:
    view = house.scheduler.schedule("Call John", when="in 2 hours")
    cancelled = house.scheduler.cancel(view.record.task.id, reason="changed my mind")
    assert state(cancelled) is State.CANCELLED
    back = house.scheduler.act(view.record.task.id, "undo", undo=cancelled.undo)
    assert (state(back), due(back), back.record.run.generation) == (State.SCHEDULED, due(view), 2)


def test_an_undo_that_comes_too_late_is_refused(house: House) -> None:
    view = house.scheduler.schedule("Call John", when="in 2 hours")
    cancelled = house.scheduler.cancel(view.record.task.id)
    house.clock.forward(seconds=36)
    with pytest.raises(Refused, match="not cancelled in the last 30 s"):
        house.scheduler.act(view.record.task.id, "undo", undo=cancelled.undo)


def test_an_undo_without_a_token_of_what_is_not_cancelled_says_that_a_token_is_missing(house: House) -> None:
    task_id = house.scheduler.schedule("Call John", when="in 2 hours").record.task.id
    house.scheduler.reschedule(task_id, title="Call Jane")
    with pytest.raises(Refused, match="is not cancelled; other changes are undone with their token") as refused:
        house.scheduler.act(task_id, "undo")
    assert "Schedule a new task" not in str(refused.value)


def test_cancelling_twice_changes_nothing(house: House) -> None:
    view = house.scheduler.schedule("Call John", when="in 2 hours")
    first = house.scheduler.cancel(view.record.task.id)
    second = house.scheduler.cancel(view.record.task.id)
    assert second.record.task.revision == first.record.task.revision
    assert "already cancelled" in second.warnings[0]


def test_a_repeated_cancel_has_no_undo_whoever_repeats_it(house: House) -> None:
    task_id = house.scheduler.schedule("Call John", when="in 2 hours").record.task.id
    assert house.scheduler.cancel(task_id).undo
    assert house.scheduler.cancel(task_id).undo is None
    assert house.scheduler.cancel(task_id, by=replace(LOCAL, user="maria")).undo is None


@pytest.mark.parametrize(
    "nothing", [{"remove": ["retry"]}, {"title": "Call John"}, {"title": "Call John", "pause": False}]
)
def test_a_call_that_changed_nothing_does_not_offer_the_undo_of_the_cancel_before_it(
    house: House, nothing: dict[str, Any]
) -> None:
    task_id = house.scheduler.schedule("Call John", when="in 2 hours").record.task.id
    house.scheduler.cancel(task_id)
    told, content = asked_of(house.scheduler)("reschedule_task", task_id=task_id, **nothing)
    assert ("nothing was changed" in told, "undo" in told.lower(), content.get("undo")) == (True, False, None)
    assert house.scheduler.reschedule(task_id, dry_run=True, **nothing).undo is None


def test_the_undo_of_a_new_title_does_not_offer_the_undo_of_the_cancel_before_it(house: House) -> None:
    task_id = house.scheduler.schedule("Call John", when="in 2 hours").record.task.id
    house.scheduler.cancel(task_id)
    renamed = house.scheduler.reschedule(task_id, title="Call Jane")
    back = house.scheduler.act(task_id, "undo", undo=renamed.undo)
    assert (back.record.task.title, back.record.run.state, back.undo) == ("Call John", State.CANCELLED, None)


def test_a_new_wait_of_an_ended_task_is_refused_by_the_argument_that_was_given(house: House) -> None:
    task_id = house.scheduler.schedule("Call John", when="in 2 hours").record.task.id
    house.scheduler.cancel(task_id)
    changes: dict[str, Any] = {"wait_for": {"event": "x"}, "approval": "Go?", "after": [task_id]}
    for name, value in changes.items():
        with pytest.raises(Refused, match="has already ended") as refused:
            house.scheduler.reschedule(task_id, **{name: value})
        assert refused.value.argument == name


def test_a_stale_revision_is_refused_and_says_what_changed(house: House) -> None:
    view = house.scheduler.schedule("Call John", when="in 2 hours")
    house.scheduler.reschedule(view.record.task.id, when="in 3 hours", revision=1)
    with pytest.raises(StaleRevision, match=r"revision 2, not 1.*rescheduled"):
        house.scheduler.reschedule(view.record.task.id, when="in 4 hours", revision=1)


def test_a_task_of_another_name_is_never_guessed(house: House) -> None:
    view = house.scheduler.schedule("Call John", when="in 2 hours")
    mistyped = view.record.task.id[:-1] + ("0" if view.record.task.id[-1] != "0" else "1")
    with pytest.raises(TaskNotFound, match=view.record.task.id):
        house.scheduler.cancel(mistyped)


def test_a_new_zone_alone_keeps_the_wall_time(house: House) -> None:
    view = house.scheduler.schedule("Call John", when="tomorrow 9am")
    moved = house.scheduler.reschedule(view.record.task.id, timezone="Europe/Berlin")
    assert due(moved) == datetime(2026, 11, 22, 8, 0, tzinfo=UTC)
    assert any(said.startswith("its wall time is kept: it was due Sun 22 Nov 2026 17:00 in") for said in moved.warnings)
    again = house.scheduler.reschedule(view.record.task.id, timezone="Europe/Berlin", title="Call Jane")
    assert again.warnings == ()
    told, _ = asked_of(house.scheduler)("get_task", task_id=view.record.task.id, history=True)
    assert "times in Europe/Berlin:" in told
    assert "when Sun 22 Nov 2026 17:00 -> Sun 22 Nov 2026 09:00" in told, "both by the clock that the history names"


def test_a_reschedule_that_changes_nothing_is_refused(house: House) -> None:
    view = house.scheduler.schedule("Call John", when="tomorrow 9am")
    with pytest.raises(InvalidArgument, match="nothing to change"):
        house.scheduler.reschedule(view.record.task.id)
    with pytest.raises(InvalidArgument, match="nothing to change"):
        house.scheduler.reschedule(view.record.task.id, remove=[])


def test_repeating_a_reschedule_is_harmless(house: House) -> None:
    view = house.scheduler.schedule("Call John", when="in 2 hours")
    first = house.scheduler.reschedule(view.record.task.id, when="tomorrow 9am", pause=True)
    again = house.scheduler.reschedule(view.record.task.id, when="tomorrow 9am", pause=True)
    assert again.warnings == ("it already has these values; nothing was changed",)
    assert again.record.task.revision == first.record.task.revision


def test_running_a_one_shot_now_moves_it_to_now(house: House) -> None:
    view = house.scheduler.schedule("Call John", when="tomorrow 9am")
    assert due(house.scheduler.act(view.record.task.id, "run_now")) == START
    assert len(house.start()) == 1


def test_a_paused_task_does_not_start_and_runs_at_once_when_resumed_late(house: House) -> None:
    view = house.scheduler.schedule("Call John", when="in 2 hours")
    house.scheduler.reschedule(view.record.task.id, pause=True)
    house.clock.forward(hours=3)
    assert house.start() == []
    resumed = house.scheduler.reschedule(view.record.task.id, pause=False)
    assert house.start() == [resumed.record.run.id]


def test_a_paused_recurring_task_goes_on_with_the_next_occurrence(house: House) -> None:
    view = house.scheduler.schedule("Stand-up", repeat="every day at 10:00")
    house.scheduler.reschedule(view.record.task.id, pause=True)
    house.clock.forward(days=3)
    resumed = house.scheduler.reschedule(view.record.task.id, pause=False)
    assert due(resumed) == datetime(2026, 11, 24, 17, 0, tzinfo=UTC)
    assert resumed.record.last_run is None or resumed.record.last_run.state is State.SKIPPED


def test_skipping_leaves_out_one_occurrence(house: House) -> None:
    view = house.scheduler.schedule("Stand-up", repeat="every day at 10:00")
    skipped = house.scheduler.reschedule(view.record.task.id, skip_next=True)
    assert due(skipped) == due(view) + timedelta(days=1)
    one_shot = house.scheduler.schedule("Once", when="in 2 hours")
    with pytest.raises(Refused, match="runs once"):
        house.scheduler.act(one_shot.record.task.id, "skip_next")


@pytest.mark.parametrize(
    ("change", "could_be_meant"),
    [
        ({"skip_next": True}, True),
        ({"when": "1 hour later"}, True),
        ({"when": "18:00"}, False),
        ({"pause": True}, False),
    ],
)
def test_a_repeat_of_what_could_be_meant_once_more_says_how_to_ask_for_it(
    house: House, change: dict[str, Any], *, could_be_meant: bool
) -> None:
    task_id = house.scheduler.schedule("Stand-up", repeat="every day at 10:00").record.task.id
    said = [
        house.scheduler.reschedule(task_id, **change, raw={"task_id": task_id, **change}).warnings for _ in range(2)
    ]
    assert any(note.endswith("with an idempotency_key it is made once more") for note in said[1]) == could_be_meant
    assert any(note.startswith("this repeats an earlier call, so nothing was changed") for note in said[1])


def test_an_occurrence_can_be_moved_to_the_time_of_one_that_was_skipped(house: House) -> None:
    view = house.scheduler.schedule("Stand-up", repeat="every day at 10:00")
    house.scheduler.act(view.record.task.id, "skip_next")
    moved = house.scheduler.reschedule(view.record.task.id, when="today 10:00")
    assert due(moved) == due(view)


def test_snoozing_what_has_fired_makes_its_next_generation(house: House) -> None:
    view = house.scheduler.schedule("Call John", when="in 1 hour")
    house.clock.forward(hours=1)
    house.fire(view.record.task.id)
    snoozed = house.scheduler.act(view.record.task.id, "snooze", minutes=10)
    assert (due(snoozed), snoozed.record.run.generation) == (house.clock.now + timedelta(minutes=10), 2)
    assert snoozed.record.last_run is not None
    assert snoozed.record.last_run.state is State.SUCCEEDED


@pytest.mark.parametrize(
    ("when", "becomes", "said"),
    [
        ("monday", "2026-11-23 13:00", "no time given: 13:00 is kept"),
        ("2026-12-24", "2026-12-24 13:00", "no time given: 13:00 is kept"),
        ("demain", "2026-11-22 13:00", "no time given: 13:00 is kept"),
        ("same time on monday", "2026-11-23 13:00", "same time read as 13:00"),
        ("monday same time", "2026-11-23 13:00", "same time read as 13:00"),
        ("1 day later", "2026-11-23 13:00", "counted from its present time"),
        ("2 hours later", "2026-11-22 15:00", "counted from its present time"),
        ("monday 8:00", "2026-11-23 08:00", None),
        ("tomorrow evening", "2026-11-22 18:00", "evening read as 18:00"),
    ],
)
def test_a_new_day_keeps_the_time_of_day(house: House, when: str, becomes: str, said: str | None) -> None:
    task_id = house.scheduler.schedule("Lunch", when="tomorrow 13:00").record.task.id
    moved = house.scheduler.reschedule(task_id, when=when)
    local = due(moved).astimezone(zones.load(moved.record.task.timezone))
    assert f"{local:%Y-%m-%d %H:%M}" == becomes
    assert said is None or said in moved.warnings


def test_a_new_rule_keeps_the_time_of_day_unless_it_names_one(house: House) -> None:
    task_id = house.scheduler.schedule("Lunch", repeat="every day at 13:00").record.task.id
    moved = house.scheduler.reschedule(task_id, repeat="every monday")
    assert (moved.repeat_text, "no time given: 13:00 is kept" in moved.warnings) == ("every Monday at 13:00", True)
    assert house.scheduler.reschedule(task_id, repeat="daily at 8").repeat_text == "every day at 08:00"


def test_a_snooze_until_a_day_keeps_the_time_of_day(house: House) -> None:
    task_id = house.scheduler.schedule("Lunch", when="tomorrow 13:00").record.task.id
    snoozed = house.scheduler.act(task_id, "snooze", until="monday")
    assert due(snoozed) == due(house.scheduler.get(task_id))
    assert due(snoozed).astimezone(zones.load(snoozed.record.task.timezone)).hour == 13


def test_a_snooze_of_what_is_to_come_counts_from_when_it_is_due(house: House) -> None:
    view = house.scheduler.schedule("Call John", when="tomorrow 8:00")
    snoozed = house.scheduler.act(view.record.task.id, "snooze", minutes=60)
    assert due(snoozed) == due(view) + timedelta(hours=1)


def test_a_snooze_of_a_recurring_task_loses_no_occurrence(house: House) -> None:
    view = house.scheduler.schedule("Stand-up", repeat="every day at 10:00")
    house.clock.forward(minutes=5)
    snoozed = house.scheduler.act(view.record.task.id, "snooze", minutes=60)
    times = [seen.instant for seen in snoozed.upcoming]
    assert times[:2] == [due(view) + timedelta(hours=1), due(view) + timedelta(days=1)]


def test_a_snooze_until_a_time_before_it_is_due_is_refused(house: House) -> None:
    task_id = house.scheduler.schedule("Call John", when="monday 8:00").record.task.id
    with pytest.raises(Refused, match=r"is due Mon 23 Nov 2026 08:00 .*, after that time.* Reschedule it to move it"):
        house.scheduler.act(task_id, "snooze", until="tomorrow 8:00")
    house.clock.forward(days=3)
    house.fire(task_id)
    house.scheduler.act(task_id, "snooze", minutes=60)
    with pytest.raises(Refused, match="after that time"):
        house.scheduler.act(task_id, "snooze", until="in 10 minutes")


def test_running_a_recurring_task_now_keeps_its_next_occurrence(house: House) -> None:
    view = house.scheduler.schedule("Stand-up", repeat="every day at 10:00")
    after = house.scheduler.act(view.record.task.id, "run_now")
    assert due(after) == due(view)
    assert len(house.start()) == 1
    assert house.scheduler.get(view.record.task.id).record.run.state is State.SCHEDULED


def test_a_running_one_shot_cannot_be_moved_but_can_be_asked_to_stop(house: House) -> None:
    view = house.scheduler.schedule("Call John", when="in 1 hour")
    house.clock.forward(hours=1)
    house.start()
    with pytest.raises(Refused, match="running now"):
        house.scheduler.reschedule(view.record.task.id, when="in 2 hours")
    asked = house.scheduler.cancel(view.record.task.id)
    assert state(asked) is State.RUNNING
    assert asked.waiting_for == ("its handler to stop",)
    assert asked.undo is None


def test_done_marks_the_outcome_as_read(house: House) -> None:
    view = house.scheduler.schedule("Call John", when="in 1 hour")
    house.clock.forward(hours=1)
    house.fire(view.record.task.id)
    assert [message.task_id for message in house.scheduler.inbox.unread()] == [view.record.task.id]
    house.scheduler.act(view.record.task.id, "done")
    assert house.scheduler.inbox.unread() == []


def test_missed_outcomes_can_be_listed_until_they_are_read(house: House) -> None:
    view = house.scheduler.schedule("Call John", when="in 1 hour")
    house.clock.forward(hours=1)
    house.fire(view.record.task.id)
    for _ in range(2):
        page = house.scheduler.tasks.list(mention=True)
        assert ([m.task_id for m in page.unread], page.unread_count) == ([view.record.task.id], 1)
    house.scheduler.act(view.record.task.id, "done")
    assert house.scheduler.tasks.list(mention=True).unread == ()


def test_a_recurrence_can_be_ended_and_be_made_a_one_shot(house: House) -> None:
    view = house.scheduler.schedule("Stand-up", repeat="every day at 10:00", max_runs=3)
    assert len(view.upcoming) == 3
    once = house.scheduler.reschedule(view.record.task.id, repeat="never")
    assert (once.record.task.repeat, once.upcoming) == (None, ())


def test_a_new_rule_moves_the_next_occurrence(house: House) -> None:
    view = house.scheduler.schedule("Stand-up", repeat="every day at 10:00")
    changed = house.scheduler.reschedule(view.record.task.id, repeat="every monday at 8:00", until="end of month")
    assert due(changed) == datetime(2026, 11, 23, 15, 0, tzinfo=UTC)
    assert changed.record.task.until is not None


def test_history_shows_who_did_what_and_why(house: House) -> None:
    view = house.scheduler.schedule("Call John", when="in 2 hours")
    house.scheduler.cancel(view.record.task.id, reason="he called")
    events = house.scheduler.past.events(EventFilter(task_id=view.record.task.id)).events
    assert [(e.kind, e.seq, e.actor, e.reason) for e in events] == [
        (EventKind.CANCELLED, 2, "local", "he called"),
        (EventKind.CREATED, 1, "local", None),
    ]


def test_a_recurrence_without_a_start_begins_with_the_first_of_its_days(house: House) -> None:
    view = house.scheduler.schedule("Water the plants", repeat="every 2 weeks on monday")
    assert [o.wall.isoformat() for o in view.upcoming[:2]] == ["2026-11-23T09:00:00", "2026-12-07T09:00:00"]
    assert view.warnings == ("no time given: 09:00 assumed",)


def test_elapsed_time_counts_from_the_call(house: House) -> None:
    view = house.scheduler.schedule("Stretch", repeat="every 15 minutes", max_runs=2)
    assert [o.instant - START for o in view.upcoming] == [timedelta(minutes=15), timedelta(minutes=30)]


def test_a_date_as_the_end_is_the_whole_day(house: House) -> None:
    view = house.scheduler.schedule("Stand-up", repeat="every day at 18:00", until="2026-11-23")
    assert [o.wall.day for o in view.upcoming] == [21, 22, 23]


def test_moving_a_recurring_task_moves_one_occurrence_and_says_so(house: House) -> None:
    view = house.scheduler.schedule("Stand-up", repeat="every weekday at 10:00")
    moved = house.scheduler.reschedule(view.record.task.id, when="tomorrow")
    assert moved.warnings == (
        "no time given: 10:00 is kept",
        "only the next occurrence was moved; to move them all, give all_following=true as well",
    )
    assert moved.record.task.repeat == view.record.task.repeat


def test_a_time_with_the_zone_that_the_task_has_moves_one_occurrence_too(house: House) -> None:
    view = house.scheduler.schedule("Notes", repeat="every weekday at 17:00", timezone="Europe/Berlin")
    moved = house.scheduler.reschedule(view.record.task.id, when="2026-11-23T17:30", timezone="Europe/Berlin")
    assert [o.wall.isoformat() for o in moved.upcoming[:2]] == ["2026-11-23T17:30:00", "2026-11-24T17:00:00"]
    assert task_payload(moved).repeat.moved_from == "2026-11-23T17:00:00+01:00"  # type: ignore[union-attr]  # it repeats


@pytest.mark.parametrize(
    ("repeat", "when", "text"),
    [
        ("every weekday at 17:00", "monday 17:30", "every weekday at 17:30"),
        ("0 17 * * 1-5", "monday 17:30", "every weekday at 17:30"),
        ("every day at 9:00 and 17:00", "today 17:30", "every day at 09:00 and 17:30"),
        ("first monday of the month at 17:00", "2026-12-07 17:30", "every month on the first Monday at 17:30"),
    ],
)
def test_a_whole_series_moves_to_another_time_of_day(house: House, repeat: str, when: str, text: str) -> None:
    view = house.scheduler.schedule("Notes", repeat=repeat, timezone="America/Denver")
    moved = house.scheduler.reschedule(view.record.task.id, when=when, all_following=True)
    assert moved.repeat_text == text
    assert {o.wall.time().isoformat() for o in some(moved.upcoming)} <= {"17:30:00", "09:00:00"}
    assert task_payload(moved).repeat.moved_from is None  # type: ignore[union-attr]  # it repeats


@pytest.mark.parametrize("when", ["17:30", "at 5:30 pm"])
def test_a_time_of_day_alone_moves_a_series_also_on_a_day_that_it_does_not_have(house: House, when: str) -> None:
    view = house.scheduler.schedule("Notes", repeat="every weekday at 17:00", timezone="America/Denver")
    assert house.clock().strftime("%A") == "Saturday"
    moved = house.scheduler.reschedule(view.record.task.id, when=when, all_following=True)
    assert moved.repeat_text == "every weekday at 17:30"
    assert moved.record.run.scheduled_for.isoformat() == "2026-11-24T00:30:00+00:00"


def test_a_series_is_not_moved_to_a_day_that_it_does_not_have(house: House) -> None:
    view = house.scheduler.schedule("Notes", repeat="every weekday at 17:00")
    with pytest.raises(InvalidArgument, match="is not one of its days"):
        house.scheduler.reschedule(view.record.task.id, when="saturday 17:30", all_following=True)
    with pytest.raises(InvalidArgument, match="all_following"):
        house.scheduler.reschedule(view.record.task.id, all_following=True)


def test_a_dry_run_of_a_change_shows_it_and_stores_nothing(house: House) -> None:
    view = house.scheduler.schedule("Notes", repeat="every weekday at 17:00")
    task_id = view.record.task.id
    tried = house.scheduler.reschedule(task_id, when="monday 17:30", all_following=True, dry_run=True)
    assert tried.repeat_text == "every weekday at 17:30"
    assert len(tried.upcoming) == 5
    assert house.scheduler.get(task_id).record == view.record


def test_a_new_zone_keeps_the_wall_time_of_a_recurrence_that_names_none(house: House) -> None:
    view = house.scheduler.schedule("Stand-up", repeat="weekly", when="monday 8:00")
    moved = house.scheduler.reschedule(view.record.task.id, timezone="Europe/Berlin")
    assert due(moved) == datetime(2026, 11, 23, 7, 0, tzinfo=UTC)


def test_an_occurrence_that_was_moved_earlier_still_stands_for_its_slot(house: House) -> None:
    view = house.scheduler.schedule("Stand-up", repeat="every day at 10:00")
    moved = house.scheduler.reschedule(view.record.task.id, when="today 9:30")
    assert [o.wall.isoformat() for o in moved.upcoming[:2]] == ["2026-11-21T09:30:00", "2026-11-22T10:00:00"]
    skipped = house.scheduler.act(view.record.task.id, "skip_next")
    assert due(skipped) == due(view) + timedelta(days=1)


def test_a_skipped_occurrence_does_not_count_towards_max_runs(house: House) -> None:
    view = house.scheduler.schedule("Stand-up", repeat="every day at 10:00", max_runs=3)
    skipped = house.scheduler.act(view.record.task.id, "skip_next")
    assert [o.wall.day for o in skipped.upcoming] == [22, 23, 24]


def test_an_occurrence_passed_over_while_paused_is_not_called_missed(house: House) -> None:
    view = house.scheduler.schedule("Stand-up", repeat="every day at 10:00", max_runs=5)
    house.scheduler.reschedule(view.record.task.id, pause=True)
    house.clock.forward(days=3)
    resumed = house.scheduler.reschedule(view.record.task.id, pause=False)
    assert (resumed.record.run.missed, resumed.record.run.number) == (0, 1)


def test_a_new_time_given_while_paused_holds_when_the_task_goes_on(house: House) -> None:
    view = house.scheduler.schedule("Call John", when="in 2 hours")
    house.scheduler.reschedule(view.record.task.id, pause=True)
    house.scheduler.reschedule(view.record.task.id, when="tomorrow 9am")
    resumed = house.scheduler.reschedule(view.record.task.id, pause=False)
    assert resumed.record.run.wake_at == START + timedelta(days=1)


def test_a_repeated_call_whose_time_has_passed_returns_its_task(house: House) -> None:
    first = house.scheduler.schedule("Call John", when="2026-11-21 09:01", idempotency_key="k1")
    house.clock.forward(minutes=2)
    again = house.scheduler.schedule("Call John", when="2026-11-21 09:01", idempotency_key="k1")
    assert (again.created, again.record.task.id) == (False, first.record.task.id)
    with pytest.raises(InvalidArgument, match="past"):
        house.scheduler.schedule("Call John", when="2026-11-21 09:01", idempotency_key="k2")


def test_a_new_rule_that_the_end_of_the_task_leaves_nothing_of_is_refused(house: House) -> None:
    view = house.scheduler.schedule("Stand-up", repeat="every day at 10:00", until="2026-11-23")
    with pytest.raises(InvalidArgument, match=r"repeat: its first occurrence.*until='never'"):
        house.scheduler.reschedule(view.record.task.id, repeat="monthly on the 1st")
    freed = house.scheduler.reschedule(view.record.task.id, repeat="monthly on the 1st", until="never")
    assert (freed.record.task.until, due(freed).day) == (None, 1)


def recurring_that_fired(house: House) -> str:
    """Return a task that fired at ten, 9 minutes ago, and comes again tomorrow."""
    view = house.scheduler.schedule("Take the pill", repeat="every day at 10:00")
    house.clock.forward(hours=1)
    ready = [Start(run.run_id) for run in house.store.claims.make_ready(limit=9)]
    [claim] = house.store.claims.start(ready, worker="test", epoch=None, lease=timedelta(seconds=30))
    settlement = settle(claim, Done("taken"), now=house.clock.now, jitter=0.5)
    assert house.store.claims.settle([settlement]) == [Verdict.SETTLED]
    house.clock.forward(minutes=9)
    return view.record.task.id


def test_snoozing_a_recurring_outcome_brings_it_again_and_keeps_the_next_occurrence(house: House) -> None:
    task_id = recurring_that_fired(house)
    house.scheduler.act(task_id, "snooze", minutes=10)
    snoozed = house.scheduler.act(task_id, "snooze", minutes=30)
    assert due(snoozed) == START + timedelta(days=1, hours=1)
    assert [run.wake_at for run in snoozed.record.side_runs] == [house.clock.now + timedelta(minutes=40)]
    assert snoozed.warnings == ("it also runs Sat 21 Nov 2026 10:49",)
    house.clock.forward(minutes=10)
    assert house.start() == []


def test_cancelling_takes_back_a_snooze_that_outlives_its_recurrence(house: House) -> None:
    task_id = recurring_that_fired(house)
    house.scheduler.act(task_id, "snooze", minutes=30)
    house.store.tasks.change("local", task_id, actor="t", kind=EventKind.CANCELLED, decide=_end_current(house))
    cancelled = house.scheduler.cancel(task_id)
    assert cancelled.record.side_runs == ()
    house.clock.forward(hours=1)
    assert house.start() == []


def _end_current(house: House) -> Callable[[TaskRecord], Change]:
    """End the current run as skipped and leave its side runs."""
    return lambda record: Change(
        record.task, replace(record.run, state=State.SKIPPED, wake_at=None, ended_at=house.clock.now)
    )


def test_a_skipped_occurrence_is_not_an_outcome(house: House) -> None:
    task_id = recurring_that_fired(house)
    skipped = house.scheduler.act(task_id, "skip_next")
    assert skipped.record.last_run is not None
    assert skipped.record.last_run.summary == "taken"


@pytest.mark.parametrize(
    "arguments",
    [
        {"repeat": "every day at 10:00"},
        {"when": "tomorrow 10am"},
        {"when": "tomorrow 10am", "steps": [{"name": "load"}, {"name": "mail", "after": ["load"]}]},
    ],
    ids=["series", "once", "step"],
)
def test_a_paused_task_is_not_run_now_and_stays_paused(house: House, arguments: dict[str, Any]) -> None:
    view = house.scheduler.schedule("Stand-up", **arguments)
    task_id = view.chain.steps[0].task_id if view.chain else view.record.task.id
    house.scheduler.reschedule(task_id, pause=True)
    with pytest.raises(Refused, match=r"is paused\. Resume it"):
        house.scheduler.act(task_id, "run_now")
    assert house.scheduler.get(task_id).record.task.paused
    house.scheduler.reschedule(task_id, pause=False)
    house.scheduler.act(task_id, "run_now")


def test_a_new_zone_of_an_overdue_task_only_changes_how_its_times_are_said(house: House) -> None:
    view = house.scheduler.schedule("Call John", when="in 1 hour")
    house.clock.forward(hours=2)
    moved = house.scheduler.reschedule(view.record.task.id, timezone="Europe/Berlin")
    assert (due(moved), moved.record.task.timezone) == (due(view), "Europe/Berlin")


def test_assumptions_are_said_for_each_of_many(house: House) -> None:
    [view] = house.scheduler.task_creator.create_many([Request("Call John", when="tomorrow")])
    assert view.warnings == ("no time given: 09:00 assumed",)


def test_undoing_a_cancel_brings_back_the_snooze_too(house: House) -> None:
    task_id = recurring_that_fired(house)
    house.scheduler.act(task_id, "snooze", minutes=30)
    cancelled = house.scheduler.cancel(task_id)
    assert cancelled.record.side_runs == ()
    back = house.scheduler.act(task_id, "undo", undo=cancelled.undo)
    assert [run.wake_at for run in back.record.side_runs] == [house.clock.now + timedelta(minutes=30)]
    house.clock.forward(minutes=31)
    assert len(house.start()) == 1


def test_the_undo_of_a_change_that_never_was_says_so(house: House) -> None:
    task_id = house.scheduler.schedule("Notes", when="tomorrow 9am").record.task.id
    house.scheduler.reschedule(task_id, when="tomorrow 10am")
    with pytest.raises(Refused, match=f"{task_id} has no change u_99: the last one is u_2"):
        house.scheduler.act(task_id, "undo", undo="u_99")
