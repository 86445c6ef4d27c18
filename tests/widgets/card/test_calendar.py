"""A task as a calendar file, read by somebody else's parser; and the whole screen, where a host offers it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from icalendar import Calendar
from playwright.sync_api import expect

from tests.builders import some
from tests.widgets.agenda import a_page
from tests.widgets.chat import CAN_CALL_TOOLS, Chat
from tests.widgets.sample import CALL_JOHN, DENVER, NOW, a_task, weekly

pytestmark = pytest.mark.browser

NINE = datetime(2026, 11, 24, 9, 0, tzinfo=ZoneInfo(DENVER))


def file_of(chat: Chat, task: dict[str, Any]) -> str:
    """Offer the task to a calendar, and give the file as the host gets it."""
    chat.show_task(task, capabilities={**CAN_CALL_TOOLS, "downloadFile": {}})
    chat.press("More")
    chat.choice("Add to calendar").click()
    expect(chat.said()).to_have_text("Calendar file offered.")
    resource = chat.seen("files")[-1]
    assert (resource["uri"], resource["mimeType"]) == (f"file:///{task['id']}.ics", "text/calendar")
    return str(resource["text"])


def events_of(text: str) -> list[Any]:
    """Give the events of a file that the parser finds nothing wrong with."""
    calendar = Calendar.from_ical(text)
    assert calendar.errors == []
    found = calendar.walk("VEVENT")
    assert all(event.errors == [] for event in found)
    return list(found)


def zones_of(text: str) -> list[Any]:
    return list(Calendar.from_ical(text).walk("VTIMEZONE"))


def test_one_event_at_its_instant(chat: Chat) -> None:
    text = file_of(chat, a_task())
    [event] = events_of(text)

    assert event["DTSTART"].dt == datetime(2026, 11, 24, 16, 0, tzinfo=UTC)
    assert (event["SUMMARY"], event["UID"], event["SEQUENCE"]) == (
        "Call John about the lease",
        f"{CALL_JOHN}@duetime",
        3,
    )
    assert event["DTSTAMP"].dt == NOW
    assert "RRULE" not in event
    assert all(line.endswith("\r") for line in some(text.split("\n")[:-1]))


def test_user_text_comes_back_as_it_was_written(chat: Chat) -> None:
    title = "Call; John, about \\n the «lease» Ⅷ 👩\u200d🌾 " + "家" * 60
    message = "He has\nthe keys: a;b,c\r\nBEGIN:VEVENT"
    text = file_of(chat, a_task(title=title, message=message))
    [event] = events_of(text)

    assert event["SUMMARY"] == title
    assert event["DESCRIPTION"] == message.replace("\r\n", "\n")
    assert max(len(line.encode()) for line in text.split("\r\n")) <= 75


def test_a_series_keeps_its_wall_time_when_clocks_change(chat: Chat) -> None:
    text = file_of(chat, a_task(repeat={**weekly(), "runs_left": 30, "max_runs": 40}))
    [event] = events_of(text)

    assert event["DTSTART"].params["TZID"] == DENVER
    assert event["DTSTART"].dt.isoformat().startswith("2026-11-24T09:00:00")
    assert event["RRULE"] == {"FREQ": ["WEEKLY"], "BYDAY": ["TU"], "COUNT": [30]}
    [zone] = zones_of(text)
    assert zone["TZID"] == DENVER
    theirs = zone.to_tz(lookup_tzid=False)
    for days in range(0, 3_000, 9):
        local = NINE.replace(tzinfo=None) + timedelta(days=days)
        assert theirs.utcoffset(local) == ZoneInfo(DENVER).utcoffset(local), local


def test_a_zone_without_changes_has_one_offset(chat: Chat) -> None:
    text = file_of(chat, a_task(zone="Asia/Kathmandu", repeat=weekly()))
    [zone] = zones_of(text)
    assert [part.name for part in zone.subcomponents] == ["STANDARD"]
    assert zone.subcomponents[0]["TZOFFSETTO"].td == timedelta(hours=5, minutes=45)


@pytest.mark.parametrize(("rule", "until", "end"), [
    ("FREQ=DAILY;BYHOUR=9;BYMINUTE=0;UNTIL=20261231", None, datetime(2027, 1, 1, 6, 59, 59, tzinfo=UTC)),
    ("FREQ=DAILY;UNTIL=20261231T170000", None, datetime(2027, 1, 1, 0, 0, tzinfo=UTC)),
    ("FREQ=WEEKLY;BYDAY=TU", "2026-12-31T17:00:00-07:00", datetime(2027, 1, 1, 0, 0, tzinfo=UTC)),
])  # fmt: skip
def test_the_end_of_a_series_is_an_instant(chat: Chat, rule: str, until: str | None, end: datetime) -> None:
    repeat = {**weekly(), "rule": rule, **({"until": until} if until else {})}
    [event] = events_of(file_of(chat, a_task(repeat=repeat)))
    assert event["RRULE"]["UNTIL"] == [end]


@pytest.mark.parametrize("rule", ["0 9 * * 1-5", "FREQ=DAILY;COUNT=3", "FREQ=DAILY;X-EXCEPT-HOLIDAYS=CA"])
def test_a_rule_that_no_calendar_knows_becomes_its_next_dates(chat: Chat, rule: str) -> None:
    [event] = events_of(file_of(chat, a_task(repeat={**weekly(), "rule": rule})))
    assert "RRULE" not in event
    following = [found.dt for found in event["RDATE"].dts]
    assert [event["DTSTART"].dt, *following] == [
        datetime(2026, 11, 24, 16, 0, tzinfo=UTC) + timedelta(weeks=week) for week in range(5)
    ]


def test_elapsed_time_is_counted_from_an_instant(chat: Chat) -> None:
    [event] = events_of(file_of(chat, a_task(repeat={**weekly(), "rule": "FREQ=HOURLY;INTERVAL=5"})))
    assert event["DTSTART"].dt == NINE
    assert event["DTSTART"].dt.tzinfo is not None
    assert "TZID" not in event["DTSTART"].params


def test_an_occurrence_that_was_moved_is_an_exception_of_its_series(chat: Chat) -> None:
    moved = a_task(due=datetime(2026, 11, 25, 17, 30, tzinfo=UTC), repeat={**weekly(), "moved_from": NINE.isoformat()})
    series, exception = events_of(file_of(chat, moved))

    assert series["UID"] == exception["UID"]
    assert (series["DTSTART"].dt, exception["RECURRENCE-ID"].dt) == (NINE, NINE)
    assert exception["DTSTART"].dt.isoformat().startswith("2026-11-25T10:30:00")
    assert "RRULE" not in exception


def test_a_host_that_takes_no_files_is_offered_none(chat: Chat) -> None:
    chat.show_task(a_task())
    chat.press("More")
    expect(chat.choice("Run now")).to_be_visible()
    expect(chat.button("Add to calendar")).to_have_count(0)


def test_a_host_that_refuses_the_file_is_said_to(chat: Chat) -> None:
    chat.show_task(a_task(), capabilities={**CAN_CALL_TOOLS, "downloadFile": {}})
    chat.send("deny")
    chat.press("More")
    chat.choice("Add to calendar").click()
    expect(chat.card.get_by_role("alert")).to_have_text("The chat app did not take the file.")


@pytest.mark.parametrize("name", ["task-card", "task-list"])
def test_a_card_takes_the_whole_screen_where_a_host_offers_it_and_gives_it_back(chat: Chat, name: str) -> None:
    chat.load(name, availableDisplayModes=["inline", "fullscreen"])
    chat.show(a_task() if name == "task-card" else a_page())
    chat.button("Full screen").focus()
    chat.page.keyboard.press("Enter")
    expect(chat.button("Leave full screen")).to_be_focused()
    expect(chat.card.locator("html")).to_have_attribute("data-mode", "fullscreen")
    chat.page.keyboard.press("Enter")
    expect(chat.button("Full screen")).to_be_focused()
    assert chat.seen("modes") == ["fullscreen", "inline"]


def test_a_host_without_a_whole_screen_is_not_asked_for_it(chat: Chat) -> None:
    chat.show_task(a_task(), availableDisplayModes=["inline"])
    expect(chat.button("Move")).to_be_visible()
    expect(chat.button("Full screen")).to_have_count(0)
