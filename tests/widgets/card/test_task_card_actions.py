"""Buttons of a task card: pending, then the new state or the server's sentence, and word to the model."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from duetime.widgets.schema.task import TaskWords
from playwright.sync_api import expect

from tests.widgets.chat import Chat
from tests.widgets.sample import CALL_JOHN, NOW, UNDO, a_task, deadline, held_back, soon, stamp, tuesdays, weekly, when

pytestmark = pytest.mark.browser

TASK = {"task_id": CALL_JOHN, "revision": 3}


def test_an_action_shows_pending_first_and_then_the_new_state(chat: Chat) -> None:
    chat.show_task(soon())
    chat.press("Snooze")
    chat.send("hold")
    chat.choice("10 min").click()

    expect(chat.state()).to_have_text("Snoozing…")
    expect(chat.button("Cancel")).to_have_attribute("aria-disabled", "true")
    chat.button("Cancel").click(force=True)

    chat.send("release")
    expect(chat.state()).to_have_text("Scheduled")
    expect(chat.card.locator(".relative")).to_have_text("in 10 minutes")
    assert chat.calls() == [("act_on_task", {**TASK, "action": "snooze", "minutes": 10})]


@pytest.mark.parametrize(
    ("choice", "time"), [("10 min", {"minutes": 10}), ("1 h", {"minutes": 60}), ("Tomorrow", {"until": "tomorrow"})]
)
def test_a_reminder_that_fired_can_be_snoozed(chat: Chat, choice: str, time: dict[str, Any]) -> None:
    chat.show_task(a_task(due=NOW - timedelta(minutes=1), state="succeeded"))
    chat.press("Snooze")
    chat.choice(choice).click()

    expect(chat.state()).to_have_text("Scheduled")
    assert chat.calls() == [("act_on_task", {**TASK, "action": "snooze", **time})]


def test_the_time_is_changed_in_the_tasks_own_zone_wherever_the_reader_is(chat: Chat) -> None:
    chat.show_task(a_task(), timeZone="Europe/Berlin", locale="en-GB")
    chat.press("Move")
    field = chat.card.get_by_label("New time in Denver")
    expect(field).to_have_value("2026-11-24T09:00")
    expect(field).to_have_attribute("min", "2026-11-21T16:00")

    field.fill("2026-11-25T10:30")
    chat.press("Save")

    expect(chat.card.locator("time").first).to_have_text("18:30 Wednesday 25 November")
    expect(field).to_have_count(0)
    change = {**TASK, "when": "2026-11-25T10:30", "timezone": "America/Denver"}
    assert chat.calls() == [("reschedule_task", change)]


def test_a_time_that_is_past_is_not_even_sent(chat: Chat) -> None:
    chat.show_task(a_task())
    chat.press("Move")
    chat.card.get_by_label("New time").fill("2026-11-20T10:30")
    chat.press("Save")
    assert chat.card.get_by_label("New time").evaluate("field => field.validity.rangeUnderflow")
    assert chat.calls() == []


def test_typed_input_stays_when_the_card_draws_itself_again(chat: Chat) -> None:
    chat.show_task(a_task())
    chat.press("Move")
    chat.card.get_by_label("New time").fill("2026-11-25T10:30")
    chat.button("Save").focus()
    chat.send("context", {"theme": "dark"})
    expect(chat.card.get_by_label("New time")).to_have_value("2026-11-25T10:30")


def test_a_pause_is_shown_and_taken_back(chat: Chat) -> None:
    chat.show_task(a_task(repeat=weekly()))
    chat.press("More")
    chat.press("Pause")
    expect(chat.state()).to_have_text("Paused")

    chat.press("More")
    chat.press("Resume")
    expect(chat.state()).to_have_text("Scheduled")
    assert chat.calls() == [
        ("reschedule_task", {**TASK, "pause": True}),
        ("reschedule_task", {**TASK, "revision": 4, "pause": False}),
    ]


@pytest.mark.parametrize(
    ("button", "action", "state"), [("Skip next", "skip_next", "Scheduled"), ("Run now", "run_now", "Ready")]
)
def test_an_occurrence_can_be_skipped_or_run_at_once(chat: Chat, button: str, action: str, state: str) -> None:
    chat.show_task(a_task(repeat=weekly()))
    chat.press("More")
    chat.press(button)

    expect(chat.button(button)).to_have_count(0)
    expect(chat.state()).to_have_text(state)
    assert chat.calls()[0] == ("act_on_task", {**TASK, "action": action})


@pytest.mark.parametrize(
    ("paused", "offered"), [(None, ["Edit", "Pause", "Run now", "History"]), (True, ["Edit", "Resume", "History"])]
)
def test_a_task_that_runs_once_has_nothing_to_skip_and_while_it_is_paused_nothing_to_run(
    chat: Chat, paused: bool | None, offered: list[str]
) -> None:
    chat.show_task(a_task(paused=paused))
    chat.press("More")
    expect(chat.card.get_by_role("group", name="More actions").get_by_role("button")).to_have_text(offered)


def test_an_outcome_that_was_seen_is_done(chat: Chat) -> None:
    unread = [{"task_id": CALL_JOHN, "text": "Call John", "state": "succeeded", "at": stamp(NOW)}]
    chat.show_task(a_task(due=NOW - timedelta(minutes=1), state="succeeded", unread=unread))
    chat.press("Done")
    expect(chat.button("Done")).to_have_count(0)
    assert chat.calls() == [("act_on_task", {**TASK, "action": "done"})]


def test_a_cancellation_counts_down_and_can_be_undone(chat: Chat) -> None:
    chat.show_task(a_task())
    chat.press("Cancel")
    expect(chat.state()).to_have_text("Cancelled")
    expect(chat.card.locator(".when time")).to_have_css("text-decoration-line", "line-through")
    expect(chat.card.locator(".relative")).to_have_count(0)
    expect(chat.card.locator("[data-undo]")).to_have_text("30")

    chat.pass_time(2)
    expect(chat.card.locator("[data-undo]")).to_have_text("28")

    chat.press("Undo")
    expect(chat.state()).to_have_text("Scheduled")
    expect(chat.button("Undo")).to_have_count(0)
    assert chat.calls() == [
        ("cancel_task", TASK),
        ("act_on_task", {**TASK, "revision": 4, "action": "undo", "undo": UNDO}),
    ]


def test_undo_goes_when_the_server_would_no_longer_take_it(chat: Chat) -> None:
    chat.show_task(a_task())
    chat.press("Cancel")
    expect(chat.button("Undo")).to_be_visible()
    chat.pass_time(29)
    expect(chat.card.locator("[data-undo]")).to_have_text("1")
    chat.pass_time(1)
    expect(chat.button("Undo")).to_have_count(0)


def test_a_stale_card_is_refused_and_shows_what_changed(chat: Chat) -> None:
    chat.show_task(a_task())
    other = a_task(due=datetime(2026, 11, 24, 18, 0, tzinfo=UTC))
    chat.server.change(when=other["when"], title="Call John and Ann")

    chat.press("Cancel")

    changed = chat.card.get_by_role("alert")
    expect(changed).to_contain_text("nothing was done")
    expect(changed.get_by_role("listitem")).to_have_text(
        [
            "Title: Call John about the lease Call John and Ann",
            "Time: Tue, Nov 24, 9:00 AM Tue, Nov 24, 11:00 AM",
        ]
    )
    expect(chat.state()).to_have_text("Scheduled")
    assert [name for name, _ in chat.calls()] == ["cancel_task", "get_task"]
    assert chat.told_model() == []

    chat.press("Cancel")
    expect(chat.state()).to_have_text("Cancelled")
    expect(changed).to_have_count(0)


def test_a_refusal_shows_the_servers_sentence_and_puts_the_old_state_back(chat: Chat) -> None:
    chat.show_task(a_task())
    chat.server.refuse = "The store is not available; nothing was changed. Try again in a moment."
    chat.send("hold")
    chat.press("Cancel")
    expect(chat.state()).to_have_text("Cancelling…")
    chat.send("release")

    expect(chat.card.get_by_role("alert")).to_have_text(
        "The store is not available; nothing was changed. Try again in a moment."
    )
    expect(chat.state()).to_have_text("Scheduled")
    assert chat.told_model() == []

    chat.press("Cancel")
    expect(chat.state()).to_have_text("Cancelled")
    expect(chat.card.get_by_role("alert")).to_have_count(0)


def test_a_host_that_never_answers_does_not_leave_the_card_hanging(chat: Chat) -> None:
    chat.show_task(a_task())
    chat.send("hold")
    chat.press("Cancel")
    expect(chat.state()).to_have_text("Cancelling…")

    chat.pass_time(21)

    expect(chat.card.get_by_role("alert")).to_contain_text("No answer came. The change may still have been made")
    expect(chat.state()).to_have_text("Scheduled")


def test_the_model_is_told_what_the_user_did(chat: Chat) -> None:
    chat.show_task(a_task(title="Call »John« \u202ethen\nobey"))
    chat.press("Cancel")
    expect(chat.state()).to_have_text("Cancelled")

    [context] = chat.seen("contexts")
    assert context["content"][0]["text"] == (
        f"On its card the user did this to task {CALL_JOHN} «Call \u203aJohn\u2039 then obey»: cancelled. "
        "It is now cancelled, Tue 24 Nov 2026 09:00 America/Denver, revision 4."
    )
    assert context["structuredContent"]["action"] == "cancel"
    assert context["structuredContent"]["task"]["revision"] == 4


def test_a_host_that_takes_no_context_is_not_sent_any(chat: Chat) -> None:
    chat.show_task(a_task(), capabilities={"serverTools": {}})
    chat.press("Cancel")
    expect(chat.state()).to_have_text("Cancelled")
    assert chat.seen("contexts") == []


def test_the_history_opens_with_attempts_events_and_what_changed(chat: Chat) -> None:
    started, told = stamp(NOW - timedelta(minutes=5)), stamp(NOW - timedelta(minutes=4))
    chat.server.history = {
        "attempts": [{"run": 2, "number": 1, "started": started, "ended": told, "outcome": "retry", "reason": "no"}],
        "events": [
            {"at": stamp(NOW - timedelta(hours=2)), "kind": "created", "actor": "maria", "to": "scheduled"},
            {"at": stamp(NOW - timedelta(hours=1)), "kind": "rescheduled", "actor": "card",
             "changes": {"time": ["Mon 09:00", "Tue 09:00"], "until": ["", "Fri"]}},
        ],
        "older": True,
    }  # fmt: skip
    chat.show_task(a_task(due=NOW - timedelta(minutes=5), state="failed"))
    chat.press("History")

    entries = chat.card.get_by_role("list", name="History, newest first").get_by_role("listitem")
    expect(entries).to_have_text(
        [
            "Run 2, attempt 1: retrySat, Nov 21, 3:56 PMno",
            "Rescheduled by cardSat, Nov 21, 3:00 PMTime: Mon 09:00 → Tue 09:00Until: \u2013 → Fri",
            "Created by mariaSat, Nov 21, 2:00 PM",
        ]
    )
    expect(chat.card.get_by_text("There is more before this")).to_be_visible()
    assert chat.calls() == [("get_task", {"task_id": CALL_JOHN, "history": True, "keep_unread": True})]


def test_a_recurrence_that_ends_says_when(chat: Chat) -> None:
    until = "2026-12-31T09:00:00-07:00"
    chat.show_task(a_task(repeat={**weekly(), "until": until, "max_runs": 8, "runs_left": 5}))
    expect(chat.card.get_by_text("until Thu, Dec 31, 9:00 AM, 5 of 8 times left")).to_be_visible()


def test_a_task_due_later_than_in_an_hour_is_moved_and_not_snoozed(chat: Chat) -> None:
    chat.show_task(a_task())
    expect(chat.button("Move")).to_be_visible()
    expect(chat.button("Snooze")).to_have_count(0)


@pytest.mark.parametrize(
    ("task", "times"),
    [
        (soon(), ["10 min 4:40 PM", "1 h 5:30 PM"]),
        (a_task(due=NOW - timedelta(minutes=9), state="succeeded"), ["10 min 4:10 PM", "1 h 5:00 PM"]),
        (
            a_task(due=NOW + timedelta(days=7), repeat=weekly(), last_run={"state": "succeeded", "ended": stamp(NOW)}),
            ["10 min 4:10 PM", "1 h 5:00 PM"],
        ),
        (
            a_task(
                due=NOW + timedelta(days=7),
                repeat=weekly(),
                last_run={"state": "succeeded", "ended": stamp(NOW)},
                snoozed_until=stamp(NOW + timedelta(minutes=15)),
            ),
            ["10 min 4:25 PM", "1 h 5:15 PM"],
        ),
        (
            soon(repeat=weekly(), state="suspended", attempt=1, last_run={"state": "succeeded", "ended": stamp(NOW)}),
            ["10 min 4:40 PM", "1 h 5:30 PM"],
        ),
    ],
    ids=["to come", "fired", "fired and to come", "fired and snoozed", "fired and goes on"],
)
def test_a_snooze_says_the_time_that_it_results_in(chat: Chat, task: dict[str, Any], times: list[str]) -> None:
    chat.show_task(task)
    chat.press("Snooze")
    expect(chat.card.get_by_role("group", name="Snooze", exact=True).get_by_role("button")).to_have_text(
        [*times, "Tomorrow"]
    )


def test_a_field_that_is_typed_into_is_never_made_again_while_the_card_reads_its_task(chat: Chat) -> None:
    chat.show_task(held_back())
    chat.press("Move")
    field = chat.card.get_by_label("New time")
    field.fill("2026-11-25T10:30")
    field.evaluate("field => (field.mine = true)")
    chat.server.change(title="Render the trailer again")
    chat.pass_time(20)

    expect(chat.card.get_by_role("heading")).to_have_text("Render the trailer again")
    expect(field).to_have_value("2026-11-25T10:30")
    expect(field).to_be_focused()
    assert field.evaluate("field => field.mine")


def test_a_recurring_task_asks_which_occurrences_move_and_shows_the_result_first(chat: Chat) -> None:
    chat.show_task(a_task(repeat=weekly()))
    chat.press("Move")
    expect(chat.card.get_by_role("radio", name="This one")).to_be_checked()
    chat.card.get_by_label("New time").fill("2026-11-24T10:30")
    chat.click(chat.card.get_by_role("radio", name="All following"))
    expect(chat.card.get_by_role("status").filter(has_text="Then:")).to_contain_text("Tue, Nov 24")

    chat.press("Save")
    expect(chat.card.locator("time").first).to_contain_text("10:30 AM")
    change = {**TASK, "when": "2026-11-24T10:30", "timezone": "America/Denver", "all_following": True}
    assert chat.calls()[-1] == ("reschedule_task", change)
    assert chat.calls()[-2] == ("reschedule_task", {**change, "dry_run": True})


def test_one_occurrence_that_was_moved_is_shown_as_an_exception(chat: Chat) -> None:
    chat.show_task(a_task(repeat={**weekly(), "moved_from": "2026-11-24T09:00:00-07:00"}, due=NOW + timedelta(days=2)))
    expect(chat.card.locator(".facts")).to_contain_text("Only the next one was moved, from Tue, Nov 24, 9:00 AM.")


def test_a_run_that_comes_before_the_next_of_its_series_is_shown_in_its_place(chat: Chat) -> None:
    extra = {"state": "ready", "when": when(NOW + timedelta(minutes=10))}
    chat.show_task(a_task(repeat=weekly(), words=TaskWords.model_validate(tuesdays()), extra_run=extra))
    expect(chat.card.locator(".relative")).to_have_text("in 10 minutes")
    expect(chat.card.locator("time").first).to_have_text("4:10 PM Saturday, November 21")
    expect(chat.state()).to_have_text("Ready")
    expect(chat.card.locator(".facts")).to_contain_text("next Tue, Nov 24, 9:00 AM")
    buttons = chat.card.get_by_role("group", name="Actions").get_by_role("button")
    expect(buttons).to_have_text(["Snooze", "Move: Tue, Nov 24, 9:00 AM", "Cancel: every Tuesday at 9:00 AM", "More"])
    chat.press("Snooze")
    expect(chat.choice("10 min")).to_have_text("10 min 4:20 PM")
    chat.press("Move: Tue, Nov 24, 9:00 AM")
    expect(chat.card.get_by_label("New time")).to_have_value("2026-11-24T09:00")
    chat.press("More")
    expect(chat.button("Skip next: Tue, Nov 24, 9:00 AM")).to_be_visible()


def test_a_series_can_be_moved_while_an_extra_run_of_it_is_under_way(chat: Chat) -> None:
    extra, of_series = {"state": "running", "when": when(NOW)}, deadline(NOW + timedelta(days=3))
    chat.show_task(a_task(repeat=weekly(), extra_run=extra, deadline=of_series))
    expect(chat.state()).to_have_text("Running")
    expect(chat.card.locator("[data-deadline]")).to_have_count(0)
    expect(chat.button("Snooze")).to_have_count(0)
    expect(chat.button("Move: Tue, Nov 24, 9:00 AM")).to_be_visible()


def test_cancelling_what_runs_says_that_it_was_asked_to_stop(chat: Chat) -> None:
    chat.show_task(a_task(due=NOW - timedelta(minutes=1), state="running", attempt=1))
    chat.press("Cancel")

    expect(chat.state()).to_have_text("Stopping")
    expect(chat.said()).to_contain_text("Stop requested.")


def test_a_result_that_belongs_to_an_earlier_choice_is_not_shown(chat: Chat) -> None:
    chat.show_task(a_task(repeat=weekly()))
    chat.press("Move")
    field = chat.card.get_by_label("New time")
    field.fill("2026-11-24T10:30")
    chat.pass_time(1)
    expect(chat.card.get_by_text("Then:")).to_be_visible()

    field.fill("2026-11-24T11:30")
    expect(chat.card.get_by_text("Then:")).to_have_count(0)
    expect(field).to_be_focused()
