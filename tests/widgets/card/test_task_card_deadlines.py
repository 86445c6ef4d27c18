"""Demands of a task on its card: by when, how urgently, how long it takes, what it holds, and what it waits for."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from playwright.sync_api import Locator, expect

from tests.widgets.agenda import a_page, a_row
from tests.widgets.chat import Chat
from tests.widgets.sample import NOW, a_task, deadline, held_back, stamp

pytestmark = pytest.mark.browser


def urgent(minutes: float, spare: float, kind: str = "hard", **parts: Any) -> dict[str, Any]:
    """Give a task that is due now and must be finished in so many minutes, of which so many are to spare."""
    finish = deadline(NOW + timedelta(minutes=minutes), kind, spare=spare * 60)
    return a_task(due=NOW, state="ready", deadline=finish, **parts)


def line(chat: Chat) -> Locator:
    return chat.card.locator("[data-deadline]")


def filled(chat: Chat) -> float:
    return float(chat.card.locator(".laxity .part").get_attribute("width") or 0)


def test_a_deadline_is_said_with_what_happens_past_it_and_a_bar_of_what_the_work_takes(chat: Chat) -> None:
    chat.show_task(urgent(60, 45))

    expect(line(chat)).to_have_text("Finish by Sat, Nov 21, 5:00 PM")
    expect(chat.card.get_by_text("in 1 hour")).to_be_visible()
    expect(chat.card.get_by_text("Hard: dropped if that cannot be met")).to_be_visible()
    assert filled(chat) == pytest.approx(25)  # 15 of 60 minutes


def test_the_bar_of_a_task_that_is_not_due_yet_begins_when_it_is(chat: Chat) -> None:
    finish = deadline(NOW + timedelta(hours=3), spare=2.5 * 3600)
    chat.show_task(a_task(due=NOW + timedelta(hours=2), deadline=finish))

    expect(line(chat)).to_be_visible()
    assert filled(chat) == pytest.approx(50)  # half an hour of work in the hour after it is due


def test_a_deadline_becomes_tight_and_is_missed_while_it_is_looked_at(chat: Chat) -> None:
    chat.show_task({**urgent(2, 1, "soft"), "state": "scheduled", "paused": True})
    expect(line(chat)).to_have_attribute("data-deadline", "ok")

    chat.pass_time(70)
    expect(line(chat)).to_have_attribute("data-deadline", "tight")
    assert filled(chat) == pytest.approx(100)

    chat.pass_time(60)
    expect(line(chat)).to_have_text("Deadline Sat, Nov 21, 4:02 PM missed")
    expect(chat.card.locator(".laxity")).to_have_count(0)


@pytest.mark.parametrize(("state", "missed", "shown"), [
    ("succeeded", True, 1), ("expired", True, 1), ("succeeded", None, 0), ("cancelled", None, 0),
])  # fmt: skip
def test_a_task_that_ended_shows_its_deadline_only_if_it_was_missed(
    chat: Chat, state: str, missed: bool | None, shown: int
) -> None:
    parts: dict[str, Any] = {} if missed is None else {"missed": missed}
    finish = deadline(NOW - timedelta(minutes=5), "hard", **parts)
    chat.show_task(a_task(due=NOW - timedelta(hours=1), state=state, deadline=finish))

    expect(chat.state()).to_be_visible()
    expect(line(chat)).to_have_count(shown)


def test_a_deadline_that_counts_from_the_start_has_no_time_and_is_not_missed(chat: Chat) -> None:
    later = {"text": "2 s after it can start", "type": "hard", "after": "2 s"}
    chat.show_task(a_task(due=NOW - timedelta(hours=1), state="waiting", relative_deadline=later))

    expect(line(chat)).to_have_text("Finish within 2 s after it can start")
    expect(line(chat)).to_have_attribute("data-deadline", "later")
    expect(chat.card.get_by_text("Hard: dropped if that cannot be met")).to_be_visible()
    expect(chat.card.locator(".laxity")).to_have_count(0)


def test_a_deadline_that_begins_to_count_is_told(chat: Chat) -> None:
    chat.show_task(a_task(relative_deadline={"text": "1 h after it can start", "type": "soft", "after": "1 h"}))
    chat.server.change(relative_deadline=None, deadline=deadline(NOW + timedelta(hours=2), "soft", spare=3600))
    chat.press("Cancel")

    changed = chat.card.locator("[data-changes] li")
    expect(changed).to_have_text(["Deadline: 1 h, soft Sat, Nov 21, 6:00 PM, soft"])


def test_an_expired_task_says_why(chat: Chat) -> None:
    why = "could not finish by Sat 21 Nov 2026 16:00: it takes about 5 min"
    last = {"state": "expired", "ended": stamp(NOW), "summary": why}
    chat.show_task(a_task(due=NOW, state="expired", last_run=last, deadline=deadline(NOW, "hard", missed=True)))

    expect(chat.state()).to_have_text("Expired")
    expect(chat.card.get_by_text(why)).to_be_visible()


def test_a_deadline_is_shown_in_the_zone_of_the_reader(chat: Chat) -> None:
    chat.show_task(urgent(60, 45), timeZone="Europe/Berlin", locale="en-GB")
    expect(line(chat)).to_have_text("Finish by Sun 22 Nov, 01:00")


@pytest.mark.parametrize("tier", ["critical", "high", "low", "background"])
def test_a_tier_other_than_normal_stands_next_to_the_state(chat: Chat, tier: str) -> None:
    chat.show_task(a_task(priority=tier))
    expect(chat.card.locator("[data-tier]")).to_have_text(f"{tier.capitalize()} priority")


def test_a_task_that_asks_for_nothing_shows_nothing_of_it(chat: Chat) -> None:
    chat.show_task(a_task())

    expect(chat.state()).to_be_visible()
    expect(chat.card.locator("[data-tier], [data-deadline], .icon-stack, .icon-hourglass")).to_have_count(0)


def test_a_task_that_is_held_back_says_what_it_waits_for_and_what_it_takes(chat: Chat) -> None:
    task = held_back()
    chat.show_task(task)

    expect(chat.state()).to_have_text("Ready")
    expect(chat.card.locator(".reasons li")).to_have_text(["Waits for gpu to be free", "Waits for its turn"])
    expect(chat.card.get_by_text("Takes about 30 min")).to_be_visible()
    expect(chat.card.locator(".fact .label")).to_have_text(["gpu 2", "key:studio-7 1"])


def test_a_deadline_that_somebody_else_moved_is_told(chat: Chat) -> None:
    chat.show_task(urgent(60, 45))
    chat.server.change(priority="critical", deadline=deadline(NOW + timedelta(hours=2), "soft", spare=3600))
    chat.press("Cancel")

    changed = chat.card.locator("[data-changes] li")
    expect(changed).to_have_text([
        "Priority: normal critical",
        "Deadline: Sat, Nov 21, 5:00 PM, hard Sat, Nov 21, 6:00 PM, soft",
    ])  # fmt: skip


def test_a_row_of_a_list_shows_tier_and_deadline(chat: Chat) -> None:
    urgent_row = a_row("t_00000000000a", "Render", 20, priority="high", deadline="2026-11-22T00:00:00Z")
    late_row = a_row("t_00000000000b", "Report", -20, state="ready", deadline="2026-11-21T22:00:00Z")
    chat.load("task-list")
    chat.show(a_page([urgent_row, late_row]))

    expect(chat.card.locator(".urgency")).to_have_text(
        ["High priorityby Sat, Nov 21, 5:00 PM", "was due by Sat, Nov 21, 3:00 PM"]
    )


def test_a_row_keeps_its_urgency_when_its_task_is_opened(chat: Chat) -> None:
    task = held_back()
    chat.server.tasks[task["id"]] = task
    chat.load("task-list")
    chat.show(a_page([a_row(task["id"], task["title"], -4, state="ready")]))
    chat.click(chat.card.locator(".row"))

    expect(chat.card.get_by_role("article")).to_be_visible()
    expect(chat.card.locator(".urgency")).to_have_text("High priorityby Sat, Nov 21, 4:56 PM")
