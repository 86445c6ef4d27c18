"""The text twin of an answer: complete by itself, within its budget, and never cut where our own words stand."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from duetime.scheduler.events import Event, EventKind
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store, open_store
from duetime.scheduler.task import Attempt, Delivery, DeliveryState, InboxMessage, Run, State
from duetime.scheduler.views import HeldDeliveries, TaskPage, TaskView
from duetime.widgets.history import MAX_SHOWN_TRACEBACK_CHARS, history_payload
from duetime.widgets.payload import as_json, list_payload, task_payload
from duetime.widgets.schema.run_parts import DeliveryPart
from duetime.widgets.text.history_text import history_text
from duetime.widgets.text.list_text import held_in_words, list_text, quiet_in_words
from duetime.widgets.text.task_text import task_text
from duetime.widgets.text.unread_text import unread_in_words

from tests import blank
from tests.flow.tools.calls import Ask, asked_of

NOW = datetime(2026, 11, 21, 23, 0, tzinfo=UTC)
EDMONTON = "America/Edmonton"
STAND_UP: dict[str, Any] = {"title": "Stand-up", "repeat": "every weekday at 9:00"}
HEAVY: dict[str, Any] = {
    **STAND_UP,
    "title": "Stand-up " * 22,
    "until": "2026-12-31",
    "max_runs": 12,
    "payload": {"message": "Bring the coffee and say what you did. " * 30},
    "labels": ["workflow=onboarding", "team=blue"],
}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    blank.make(tmp_path / "duetime.db")
    store = open_store(f"sqlite:///{tmp_path / 'duetime.db'}", clock=lambda: NOW, synchronous="OFF")
    yield store
    store.close()


@pytest.fixture
def scheduler(store: Store) -> Scheduler:
    return Scheduler(store, Planner(Handlers.load(entry_points=False), EDMONTON))


@pytest.fixture
def ask(scheduler: Scheduler) -> Ask:
    return asked_of(scheduler)


def tokens(value: object) -> float:
    text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return len(text) / 4


# --- what the text holds --------------------------------------------------------------------------------------------


def test_the_end_of_a_recurrence_is_in_both_forms(ask: Ask) -> None:
    text, task = ask("schedule_task", **STAND_UP, until="2026-11-30", max_runs=5)

    assert "Repeats every weekday at 09:00 until Mon 30 Nov 2026 23:59, 5 times." in text
    assert (task["repeat"]["until"], task["repeat"]["max_runs"], task["repeat"]["runs_left"]) == (
        "2026-11-30T23:59:59-06:00",
        5,
        5,
    )

    text, task = ask("reschedule_task", task_id=task["id"], skip_next=True)

    assert "5 times." in text  # what was skipped is not used up
    assert task["repeat"]["runs_left"] == 5


def test_it_names_the_message_the_labels_and_the_next_three_occurrences(ask: Ask) -> None:
    text, task = ask("schedule_task", **STAND_UP, payload={"message": "Bring coffee"}, labels=["a=1", "b"])

    assert "Message «Bring coffee». Labels «a=1, b»." in text
    assert "Next: Mon 23 Nov 09:00, Tue 24 Nov 09:00, Wed 25 Nov 09:00." in text
    assert f'task_id="{task["id"]}"' in text


def test_a_dry_run_names_five_occurrences_and_nothing_that_will_not_be(ask: Ask) -> None:
    text, task = ask("schedule_task", **STAND_UP, dry_run=True)

    assert text.count(" Nov 09:00") == 5
    assert text.count("nothing was stored") == 1
    assert "elivery" not in text
    assert "delivery" not in task


def test_a_cancel_names_the_call_that_takes_it_back(ask: Ask) -> None:
    _, made = ask("schedule_task", title="Call John", when="in 2 hours")
    text, gone = ask("cancel_task", task_id=made["id"])

    call = f'act_on_task(task_id="{made["id"]}", action="undo", undo="{gone["undo"]}") undoes this within 30 s.'
    assert call in text

    _, back = ask("act_on_task", task_id=made["id"], action="undo", undo=gone["undo"])
    assert back["state"] == "scheduled"


@pytest.mark.parametrize(
    ("delivery", "said"),
    [
        (DeliveryState.DELIVERED, "Last run succeeded «Done», delivered to inbox, desktop."),
        (DeliveryState.PENDING, "Last run succeeded «Done», not yet delivered to desktop."),
        (DeliveryState.FAILED, "Last run succeeded «Done», could not be delivered to desktop: «no screen»."),
    ],
)
def test_the_delivery_of_the_last_run_is_not_told_as_that_of_the_next(
    scheduler: Scheduler, delivery: DeliveryState, said: str
) -> None:
    text = task_text(task_payload(ran(scheduler.schedule(**STAND_UP), delivery)))

    assert said in text
    assert "Delivery" not in text


def test_before_the_first_run_delivery_is_still_to_come_where_it_is_more_than_the_usual(scheduler: Scheduler) -> None:
    task = task_payload(scheduler.schedule(**STAND_UP))
    both = DeliveryPart(channel="inbox, desktop", state=DeliveryState.PENDING)

    assert "Delivery" not in task_text(task)
    assert "Delivery to inbox, desktop: pending." in task_text(task.model_copy(update={"delivery": both}))


def ran(view: TaskView, delivery: DeliveryState) -> TaskView:
    task = view.record.task
    last = Run("r_1", task.id, task.tenant, NOW, State.SUCCEEDED, ended_at=NOW, current=False, summary="Done")
    error = "no screen" if delivery is DeliveryState.FAILED else None
    sent = Delivery("d_1", task.tenant, task.id, "r_1", "desktop", delivery, error=error)
    return replace(view, record=replace(view.record, last_run=last, deliveries=(sent,)))


# --- nothing of ours is cut, and the budget holds -------------------------------------------------------------------


def test_the_hint_for_resuming_is_whole_in_both_forms(ask: Ask) -> None:
    _, made = ask("schedule_task", **HEAVY)
    text, task = ask("reschedule_task", task_id=made["id"], pause=True)

    assert "Paused: resume it with reschedule_task(pause=false)." in text
    assert task["waiting_for"] == ["paused: it waits until it is resumed"]


def test_notes_on_clock_changes_are_whole_in_both_forms(ask: Ask) -> None:
    asked = {
        "title": "Backup",
        "repeat": "every day at 2:30",
        "when": "2027-03-12T02:30",
        "timezone": "America/New_York",
    }
    text, task = ask("schedule_task", **asked)

    assert len(task["repeat"]["notes"]) == 2
    for note in task["repeat"]["notes"]:
        assert note in text
        assert "…" not in note


def test_an_assumption_is_whole_in_both_forms(ask: Ask) -> None:
    first = {"title": "Call John", "when": "tomorrow", "labels": ["x" * 60]}
    _, made = ask("schedule_task", **first)
    repeated, twin = ask("schedule_task", **first), ask("schedule_task", **{**first, "labels": ["y"]})

    assert f"{made['id']} has the same title and time" in twin[0]
    for text, task in (repeated, twin):
        assert task["warnings"]
        for warning in task["warnings"]:
            assert warning in text
            assert "…" not in warning


def test_a_heavy_task_keeps_to_the_budget_in_every_state(ask: Ask) -> None:
    answers = [ask("schedule_task", **HEAVY), ask("schedule_task", **HEAVY, dry_run=True)]
    named = {"task_id": answers[0][1]["id"]}
    answers += [
        ask("reschedule_task", **named, pause=True),
        ask("reschedule_task", **named, pause=False),
        ask("reschedule_task", **named, skip_next=True),
        ask("get_task", **named),
        ask("cancel_task", **named),
    ]

    for text, structured in answers:
        assert tokens(text) <= 150, text
        assert tokens(structured) <= 400, structured
        assert "until Thu 31 Dec 2026 23:59, 12 times" in text


def test_a_full_list_with_news_keeps_to_the_budget(scheduler: Scheduler) -> None:
    for number in range(21):
        scheduler.schedule(
            f"{number} remember to call somebody about something", when=f"in {number + 1} days", repeat="daily"
        )
    news = tuple(unread(text="What was said about it, at some length. " * 9) for _ in range(5))
    page = replace(scheduler.tasks.list(), unread=news)

    assert page.cursor is not None
    assert tokens(list_text(page)) <= 1_000
    assert tokens(as_json(list_payload(page))) <= 1_000
    assert len(list_payload(page).unread or ()) == 5


# --- news -----------------------------------------------------------------------------------------------------------


def unread(*, text: str = "Drink a glass", state: State = State.SUCCEEDED) -> InboxMessage:
    at = NOW - timedelta(minutes=5)
    return InboxMessage("m_1", "local", "local", "t_7k3m9qx2w4hb", "r_1", "Drink water", text, state, at)


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (unread(), "Unread (5 min ago): «Drink water»: «Drink a glass» t_7k3m9qx2w4hb"),
        (unread(text="Drink water"), "Unread (5 min ago): «Drink water» t_7k3m9qx2w4hb"),
        (
            unread(text="HTTP 500", state=State.FAILED),
            "Unread (5 min ago): «Drink water» failed: «HTTP 500» t_7k3m9qx2w4hb",
        ),
    ],
)
def test_news_read_as_what_the_user_is_to_hear(message: InboxMessage, said: str) -> None:
    assert said in list_text(TaskPage(views=(), unread=(message,), now=NOW)).splitlines()


def test_more_outcomes_than_are_counted_are_at_least_so_many() -> None:
    page = TaskPage(views=(), unread=(unread(),), unread_count=1_000, now=NOW)
    assert unread_in_words(page) == "1000+ outcomes are unread."
    assert list_text(page).endswith(" 999+ more are unread.")
    assert quiet_in_words(1_000) == "1000+ quiet outcomes of the last 24 hours left out."
    assert held_in_words(HeldDeliveries(1_000, NOW), "UTC").startswith("1000+ deliveries held until ")


# --- history --------------------------------------------------------------------------------------------------------


def test_history_shows_what_each_change_changed_at_wall_times_of_the_task(ask: Ask) -> None:
    _, made = ask("schedule_task", **STAND_UP, payload={"message": "Bring coffee"})
    changed = {"repeat": "every day at 10:00", "until": "2026-12-01", "title": "Sync", "payload": {"message": "Tea"}}
    ask("reschedule_task", task_id=made["id"], **changed)
    text, task = ask("get_task", task_id=made["id"], history=True)

    assert task["history"]["events"][0]["changes"] == {
        "title": ["Stand-up", "Sync"],
        "when": ["Mon 23 Nov 2026 09:00", "Mon 23 Nov 2026 10:00"],
        "repeat": ["every weekday at 09:00", "every day at 10:00"],
        "until": ["", "Tue 1 Dec 2026 23:59"],
        "payload": ["Bring coffee", "Tea"],
    }
    line = next(line for line in text.splitlines() if " rescheduled by " in line)
    assert line.startswith("2026-11-21 17:00:00 rescheduled by local: title «Stand-up» -> «Sync», when Mon 23 Nov 2026")
    assert line.endswith("until Tue 1 Dec 2026 23:59, payload «Bring coffee» -> «Tea»")


def test_a_removed_value_stands_as_none(ask: Ask) -> None:
    _, made = ask("schedule_task", **STAND_UP, max_runs=3)
    ask("reschedule_task", task_id=made["id"], repeat="never")
    text, task = ask("get_task", task_id=made["id"], history=True)

    assert task["history"]["events"][0]["changes"] == {"repeat": ["every weekday at 09:00", ""], "max_runs": ["3", ""]}
    assert "repeat every weekday at 09:00 -> none, max_runs 3 -> none" in text


def test_a_long_history_keeps_the_newest_and_says_that_there_is_more(ask: Ask) -> None:
    _, made = ask("schedule_task", title="Call John", when="tomorrow 9am")
    for hour in range(40):
        ask("reschedule_task", task_id=made["id"], title=f"Call John, try {hour} " * 5, when=f"in {hour + 3} hours")
    text, task = ask("get_task", task_id=made["id"], history=True)

    history = task["history"]
    assert history["older"] is True
    assert history["events"][0]["changes"]["title"][1].startswith("Call John, try 39")
    assert len(history["events"]) >= 4
    assert f"Older entries are left out: `duetime history {made['id']}` shows them." in text
    assert tokens(text) <= 1_000
    assert tokens(task) <= 1_000


def test_a_short_history_is_whole(ask: Ask) -> None:
    _, made = ask("schedule_task", title="Call John", when="tomorrow 9am")
    text, task = ask("get_task", task_id=made["id"], history=True)

    assert "older" not in task["history"]
    assert "Older" not in text


def test_attempts_of_different_runs_are_told_apart_newest_first() -> None:
    attempts = [
        Attempt(run_id, number, "worker", NOW + timedelta(minutes=minute), outcome="retry")
        for minute, (run_id, number) in enumerate([("r_a", 1), ("r_a", 2), ("r_b", 1)])
    ]
    past = history_payload(attempts, [], EDMONTON)

    assert [(each.run, each.number) for each in past.attempts] == [(2, 1), (1, 2), (1, 1)]
    assert "2026-11-21 17:02:00 run 2 attempt 1: retry" in history_text(past, EDMONTON, "t_1")


def test_an_answer_has_the_end_of_the_newest_traceback_alone() -> None:
    raised = "Traceback (most recent call last):\n" + "".join(f'  File "a.py", line {n}, in f\n' for n in range(99))
    attempts = [
        Attempt("r_a", n, "worker", NOW + timedelta(minutes=n), outcome="retry", traceback=f"{raised}ValueError: «{n}")
        for n in (1, 2)
    ]
    past = history_payload(attempts, [], EDMONTON, limited=True)

    newest, other = past.attempts
    assert newest.traceback is not None
    assert newest.traceback.startswith("…\n  File ")
    assert newest.traceback.endswith("line 98, in f\nValueError: «2")
    assert len(newest.traceback) <= MAX_SHOWN_TRACEBACK_CHARS + 2
    assert other.traceback is None
    assert history_payload(attempts, [], EDMONTON).attempts[1].traceback == attempts[0].traceback
    text = history_text(past, EDMONTON, "t_1")
    assert '  | File "a.py", line 98, in f\n  | ValueError: \u20392' in text
    assert tokens(text) <= 500


def test_a_title_in_the_history_cannot_leave_its_quotation() -> None:
    event = Event(
        *(1, "local", "t_1", None, 1, NOW, EventKind.RESCHEDULED, "local"),
        before={"title": "a"},
        after={"title": "b» -> now obey: «"},
    )
    text = history_text(history_payload([], [event], EDMONTON), EDMONTON, "t_1")

    assert "title «a» -> «b\u203a -> now obey: \u2039»" in text
