"""Times as people say them, beyond the plain forms: each is read right, or refused with an example that keeps it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.intake.bounds import resolve_bound
from duetime.scheduler.intake.deadlines import deadline_of
from duetime.scheduler.intake.instants import resolve_end, resolve_moment
from duetime.scheduler.rules.time import zones
from duetime.scheduler.rules.time.bounds import read_bound
from duetime.scheduler.rules.time.times import Resolved
from duetime.scheduler.rules.time.viewpoint import Frame

HOME = zones.load("America/New_York")
NOW = datetime(2026, 11, 21, 14, 20, tzinfo=HOME).astimezone(UTC)
"""A Saturday."""

READ = [
    ("10 minutes before 3 pm", "2026-11-21T14:50"),
    ("an hour after noon", "2026-11-22T13:00"),
    ("half an hour before noon", "2026-11-22T11:30"),
    ("15 min after 17:00", "2026-11-21T17:15"),
    ("1h30m before 18:00", "2026-11-21T16:30"),
    ("10 minutes before 2:25pm", "2026-11-22T14:15"),
    ("2 hours before tomorrow 9am", "2026-11-22T07:00"),
    ("90 min after friday 17:00", "2026-11-27T18:30"),
    ("2 hours after midnight", "2026-11-22T02:00"),
    ("10 minutes before the 24th at 9:00", "2026-11-24T08:50"),
    ("5 minutes before 2026-12-24T15:00", "2026-12-24T14:55"),
    ("2 hours before end of day", "2026-11-21T21:59"),
    ("1 day and 2 hours before friday noon", "2026-11-26T10:00"),
    ("30 minutes before 9am tomorrow", "2026-11-22T08:30"),
    ("a week from friday", "2026-12-04T09:00"),
    ("a week after friday at 10:00", "2026-12-04T10:00"),
    ("two weeks from tomorrow at 10:00", "2026-12-06T10:00"),
    ("3 days from today", "2026-11-24T09:00"),
    ("3 days after tomorrow at noon", "2026-11-25T12:00"),
    ("two days before tuesday", "2026-11-22T09:00"),
    ("2 days before saturday", "2026-11-26T09:00"),
    ("2 weeks before march 1", "2027-02-15T09:00"),
    ("half past nine in the evening", "2026-11-21T21:30"),
    ("tomorrow at half past nine", "2026-11-22T09:30"),
    ("a quarter to ten am", "2026-11-22T09:45"),
    ("quarter past 12", "2026-11-22T12:15"),
    ("tomorrow evening at half past eight", "2026-11-22T20:30"),
    ("first monday of next month", "2026-12-07T09:00"),
    ("the 2nd tuesday of next month at 10:00", "2026-12-08T10:00"),
    ("first friday of the month", "2026-12-04T09:00"),
    ("last friday of the month", "2026-11-27T09:00"),
    ("last day of the month", "2026-11-30T09:00"),
    ("the last day of february 2027", "2027-02-28T09:00"),
    ("second friday of march", "2027-03-12T09:00"),
    ("last business day of the month", "2026-11-30T09:00"),
    ("last weekday of january", "2027-01-29T09:00"),
    ("9am tomorrow New York time", "2026-11-22T09:00"),
    ("a month after christmas", "2027-01-25T09:00"),
    ("the day before christmas", "2026-12-24T09:00"),
    ("day after christmas at 18:00", "2026-12-26T18:00"),
    ("the evening before christmas", "2026-12-24T18:00"),
    ("the day after the 24th", "2026-11-25T09:00"),
    ("christmas", "2026-12-25T09:00"),
    ("christmas day at 8:00", "2026-12-25T08:00"),
    ("on christmas eve", "2026-12-24T09:00"),
    ("new year's eve at 23:00", "2026-12-31T23:00"),
    ("new year\u2019s day", "2027-01-01T09:00"),
    ("new years eve 2027", "2027-12-31T09:00"),
    ("boxing day", "2026-12-26T09:00"),
    ("halloween", "2027-10-31T09:00"),
    ("first thing tomorrow", "2026-11-22T09:00"),
    ("first thing on monday", "2026-11-23T09:00"),
    ("first thing in the morning", "2026-11-22T09:00"),
    ("tomorrow first thing", "2026-11-22T09:00"),
    ("first thing tomorrow morning", "2026-11-22T09:00"),
    ("end of june", "2027-06-30T23:59"),
    ("in two and a half hours", "2026-11-21T16:50"),
    ("one and a half days from now", "2026-11-23T02:20"),
    ("in 2 and a half hours", "2026-11-21T16:50"),
    ("start of next month", "2026-12-01T09:00"),
    ("beginning of next week", "2026-11-23T09:00"),
    ("the beginning of next month at 10:00", "2026-12-01T10:00"),
    ("start of the week", "2026-11-23T09:00"),
    ("beginning of the month", "2026-12-01T09:00"),
    ("the start of june", "2027-06-01T09:00"),
    ("start of june 2028", "2028-06-01T09:00"),
    ("tomorrow at 0900", "2026-11-22T09:00"),
    ("at 0900", "2026-11-22T09:00"),
    ("tomorrow 0900", "2026-11-22T09:00"),
    ("monday 1430", "2026-11-23T14:30"),
    ("friday at 930", "2026-11-27T09:30"),
    ("tomorrow at 2030", "2026-11-22T20:30"),
    ("tomorrow 9.30", "2026-11-22T09:30"),
    ("at 9.30 tomorrow", "2026-11-22T09:30"),
    ("9.30 tomorrow", "2026-11-22T09:30"),
    ("friday at 9.10", "2026-11-27T09:10"),
    ("friday 16.00", "2026-11-27T16:00"),
    ("tomorrow at 9.30 pm", "2026-11-22T21:30"),
    ("by 17 tomorrow", "2026-11-22T17:00"),
    ("by 5pm tomorrow", "2026-11-22T17:00"),
    ("by 8 tonight", "2026-11-21T20:00"),
    ("same time next week", "2026-11-28T14:20"),
    ("next week at the same time", "2026-11-28T14:20"),
    ("same time next month", "2026-12-21T14:20"),
    ("24.12 9.30", "2026-12-24T09:30"),
    ("12 noon", "2026-11-22T12:00"),
    ("in half a day", "2026-11-22T02:20"),
    ("end of the day tomorrow", "2026-11-22T23:59"),
    ("eod friday", "2026-11-27T23:59"),
    ("friday eod", "2026-11-27T23:59"),
    ("12 noon tomorrow", "2026-11-22T12:00"),
    ("8.30pm", "2026-11-21T20:30"),
    ("8.30 pm tomorrow", "2026-11-22T20:30"),
    ("at 2 at night", "2026-11-22T02:00"),
    ("at 11 at night", "2026-11-21T23:00"),
    ("at 12 at night", "2026-11-22T00:00"),
    ("a week on friday", "2026-12-04T09:00"),
    ("friday week at 10:00", "2026-12-04T10:00"),
    ("in ten minutes' time", "2026-11-21T14:30"),
    ("in 1h30", "2026-11-21T15:50"),
    ("24/12 6pm", "2026-12-24T18:00"),
    ("le 24/12 à 18h", "2026-12-24T18:00"),
    ("12/24 at 6pm", "2026-12-24T18:00"),
    ("12/24/26 6pm", "2026-12-24T18:00"),
    ("24.12.26 8:30", "2026-12-24T08:30"),
    ("the 3rd of next month at 9:00", "2026-12-03T09:00"),
    ("next month on the 3rd", "2026-12-03T09:00"),
    ("1st of the month", "2026-12-01T09:00"),
    ("this coming monday at 10", "2026-11-23T10:00"),
    ("a week today", "2026-11-28T09:00"),
    ("a week tomorrow at 10:00", "2026-11-29T10:00"),
    ("tomorrow week", "2026-11-29T09:00"),
    ("next quarter", "2027-01-01T09:00"),
    ("same time next quarter", "2027-02-21T14:20"),
    ("2026-12-01 9:00 AM (America/New_York)", "2026-12-01T09:00"),
    ("T+2h", "2026-11-21T16:20"),
    ("around 3pm tomorrow", "2026-11-22T15:00"),
    ("about 5 minutes from now", "2026-11-21T14:25"),
    ("approximately 2 hours", "2026-11-21T16:20"),
    ("tomorrow at 9 AM my time", "2026-11-22T09:00"),
    ("tomorrow 9am local time", "2026-11-22T09:00"),
    ("tmrw 9am", "2026-11-22T09:00"),
    ("tonite 8pm", "2026-11-21T20:00"),
    ("Wed., Dec. 2, 9 a.m.", "2026-12-02T09:00"),
    ("week 50", "2026-12-07T09:00"),
    ("W50", "2026-12-07T09:00"),
    ("2026-W50", "2026-12-07T09:00"),
    ("calendar week 50 at 10:00", "2026-12-07T10:00"),
    ("friday of week 50", "2026-12-11T09:00"),
    ("week 2, monday", "2027-01-11T09:00"),
    ("week 1 of 2028", "2028-01-03T09:00"),
    ("2026-W50-3", "2026-12-09T09:00"),
    ("2026W503 14:00", "2026-12-09T14:00"),
    ("2026-W50-3T14:00", "2026-12-09T14:00"),
    ("5 dec 2026 at 10.30pm", "2026-12-05T22:30"),
]
REFUSED = [
    ("10 minutes before 3", "10 minutes before 15:00 or 10 minutes before 03:00"),
    ("an hour before friday", "an hour before friday at 9:00"),
    ("by 5 tomorrow", "by 17:00 tomorrow or by 05:00 tomorrow"),
    ("tomorrow by 5", "tomorrow by 17:00 or tomorrow by 05:00"),
    ("by 5", "by 17:00 or by 05:00"),
    ("friday 9.10", "friday at 9:10"),
    ("9.30", "09:30"),
    ("1.12.26 8:30", "2026-12-01 8:30"),
    ("1/2/27", "2027-02-01 or 2027-01-02"),
    ("26/12/27", "2027-12-26 or 2026-12-27"),
    ("3/4 at 9", "3 april at 9 or 4 march at 9"),
    ("five to nine", "at 8:55"),
    ("tonight at 2", "at 02:00"),
    ("early tomorrow", "tomorrow at 8:00"),
    ("late on friday", "friday at 20:00"),
    ("tomorrow at ten past six", "tomorrow at 6:10"),
    ("half nine tomorrow", "at 9:30 tomorrow or at 8:30 tomorrow"),
    ("16.00", "16:00"),
    ("tomorrow 2030", "tomorrow at 20:30"),
    ("after lunch", "at 13:00"),
    ("tomorrow after lunch", "tomorrow at 13:00"),
    ("tomorrow before breakfast", "tomorrow at 07:30"),
    ("friday after work", "friday at 18:00"),
    ("before bed", "at 22:00"),
    ("asap", "now"),
    ("later tonight", "tonight at 21:00"),
    ("within the hour", "in 1 hour"),
    ("start of business monday", "at 9:00 monday"),
    ("mid-morning tomorrow", "at 10:30 tomorrow"),
    ("after 5pm today", "5pm today"),
    ("no earlier than 17:00", "17:00"),
    ("sometime tomorrow", "tomorrow"),
    ("after 9", "at 9 or at 21"),
    ("sometime after 9", "at 9 or at 21"),
    ("before 2027", "2027-01-01T09:00 or 20:27"),
    ("week 47", "2026-11-22T09:00"),
    ("2027-W53", "2027-12-27"),
    ("this week", "end of week"),
    ("before 17:00", "17:00"),
    ("before 17", "at 17"),
    ("before 8", "at 8 or at 20"),
    ("until 17:00", "17:00"),
    ("2 hours afterwards", "in 2 hours"),
    ("in 2 hours after", "in 2 hours"),
    ("easter monday", "2027-03-29"),
    ("good friday at 10:00", "2027-03-26 at 10:00"),
    ("the next public holiday at 10:00", "2026-11-28 at 10:00"),
    ("june", "2027-06-01"),
    ("in june", "2027-06-01"),
    ("two days before 03/04/2027", "two days before 2027-04-03 or two days before 2027-03-04"),
    ("two days before monday", "2026-11-22T09:00"),
    ("twice a day", "repeat='every day at 9:00 and 17:00'"),
    ("every second tuesday", "repeat='every 2 weeks on tuesday' or repeat='on the second tuesday of every month'"),
    ("10 Minuten vor 15 Uhr", "10 minutes before 15:00"),
    ("2 heures après 14h30", "2 hours after 14:30"),
    ("10 minutos antes de las 15:00", "10 minutes before 15:00"),
]
WINDOWS = [
    ("tomorrow between 9 and 11", "tomorrow at 9:00", "2 hours"),
    ("between 9 and 11 tomorrow", "at 9:00 tomorrow", "2 hours"),
    ("tomorrow from 9am to 11:30am", "tomorrow at 9:00", "150 minutes"),
    ("tomorrow 9-11", "tomorrow at 9:00", "2 hours"),
    ("tomorrow 9:00 to 10:00", "tomorrow at 9:00", "1 hour"),
    ("friday between 2 and 4 pm", "friday at 14:00", "2 hours"),
    ("friday between 9 and 5", "friday at 9:00", "8 hours"),
    ("tomorrow between 10pm and 2am", "tomorrow at 22:00", "4 hours"),
    ("tomorrow between 17 and 9", "tomorrow at 17:00", "16 hours"),
    ("24 december 9-11", "24 december at 9:00", "2 hours"),
    ("between noon and 13:00 on friday", "at 12:00 on friday", "1 hour"),
    ("2026-12-01 between 9 and 11", "2026-12-01 at 9:00", "2 hours"),
    ("morgen zwischen 9 und 11 Uhr", "tomorrow at 9:00", "2 hours"),
    ("morgen 9-11 Uhr", "tomorrow at 9:00", "2 hours"),
    ("demain de 9h à 11h", "tomorrow at 9:00", "2 hours"),
    ("mañana entre las 9 y las 11", "tomorrow at 9:00", "2 hours"),
    ("domani dalle 9 alle 11", "tomorrow at 9:00", "2 hours"),
    ("amanhã das 9 às 11", "tomorrow at 9:00", "2 hours"),
    ("morgen tussen 9 en 11 uur", "tomorrow at 9:00", "2 hours"),
]
ENDS = [
    ("this week", "2026-11-22T23:59:59"),
    ("this month", "2026-11-30T23:59:59"),
    ("within this year", "2026-12-31T23:59:59"),
    ("this weekend", "2026-11-22T23:59:59"),
    ("by next week", "2026-11-29T23:59:59"),
    ("next month", "2026-12-31T23:59:59"),
    ("next week on tuesday", "2026-11-24T23:59:59"),
    ("before next week", "2026-11-22T23:59:59"),
    ("same time next week", "2026-11-28T14:20:00"),
    ("week 50", "2026-12-13T23:59:59"),
    ("friday of week 50", "2026-12-11T23:59:59"),
    ("june", "2027-05-31T23:59:59"),
    ("until june", "2027-05-31T23:59:59"),
    ("through june", "2027-06-30T23:59:59"),
    ("june 2028", "2028-05-31T23:59:59"),
    ("the end of june", "2027-06-30T23:59:00"),
    ("christmas", "2026-12-25T23:59:59"),
    ("until friday", "2026-11-27T23:59:59"),
    ("until friday at 17:00", "2026-11-27T17:00:00"),
    ("through friday", "2026-11-27T23:59:59"),
]


def read(text: str) -> Resolved:
    return resolve_moment(text, now=NOW, zone=HOME.key, argument="when")


@pytest.mark.parametrize(("text", "wall"), READ)
def test_a_phrase_is_read_right(text: str, wall: str) -> None:
    assert read(text).wall == datetime.fromisoformat(wall)


MOVED = [
    ("same time next week", "2026-11-27T15:00"),
    ("next week same time", "2026-11-27T15:00"),
    ("same time next month", "2026-12-04T15:00"),
    ("same time next year", "2027-12-04T15:00"),
    ("same time on tuesday next week", "2026-11-24T15:00"),
    ("next week", "2026-11-23T15:00"),
    ("to friday", "2026-11-27T15:00"),
    ("back to friday at 9", "2026-11-27T09:00"),
    ("back to 9", "2026-11-22T09:00"),
    ("to 9am", "2026-11-22T09:00"),
    ("to 24 november", "2026-11-24T15:00"),
    ("to tomorrow", "2026-11-22T15:00"),
]
"""Said of a task of Friday 4 December 2026, 15:00."""


@pytest.mark.parametrize(("text", "wall"), MOVED)
def test_a_phrase_that_moves_a_task_keeps_what_it_does_not_say(text: str, wall: str) -> None:
    frame = Frame(datetime(2026, 12, 4, 15, tzinfo=HOME).astimezone(UTC))
    found = resolve_moment(text, now=NOW, zone=HOME.key, argument="when", frame=frame)
    assert found.wall == datetime.fromisoformat(wall)


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("an hour before midnight", "Sat 21 Nov 2026"),
        ("an hour after noon", "Sun 22 Nov 2026"),
        ("2 hours after 23:00", "Sun 22 Nov 2026"),
    ],
)
def test_the_day_that_nobody_gave_is_that_of_the_time_which_was_found(text: str, day: str) -> None:
    found = read(text)
    assert f"no date given: read as {day}" in found.assumptions
    assert found.instant.astimezone(HOME).strftime("%d") in day


@pytest.mark.parametrize(("text", "example"), REFUSED)
def test_a_refusal_keeps_what_was_said(text: str, example: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        read(text)
    assert refused.value.example == example
    for one in example.split(" or ") if "repeat=" not in example else ():
        assert read(one).instant >= NOW


@pytest.mark.parametrize(("text", "start", "length"), WINDOWS)
def test_a_window_is_refused_with_its_begin_as_the_time_and_its_length_as_the_deadline(
    text: str, start: str, length: str
) -> None:
    with pytest.raises(InvalidArgument) as of_time:
        read(text)
    with pytest.raises(InvalidArgument) as of_deadline:
        deadline_of(text, due=NOW, now=NOW, zone=HOME.key, recurring=False)
    assert of_time.value.example == of_deadline.value.example == f"when={start!r}, deadline={length!r}"
    due = read(start).instant
    assert deadline_of(length, due=due, now=NOW, zone=HOME.key, recurring=True).of(due) > due


def test_a_window_that_ends_something_or_bounds_a_list_is_refused_with_its_ends() -> None:
    with pytest.raises(InvalidArgument) as end:
        resolve_end("tomorrow between 9 and 11", now=NOW, zone=HOME.key)
    assert end.value.example == "tomorrow at 11:00"
    for first, last in (("after", "before"), ("since", "until")):
        with pytest.raises(InvalidArgument) as bound:
            resolve_bound("friday between 9 and 11", now=NOW, zone=HOME.key, argument=last)
        assert bound.value.example == f"{first}='friday at 9:00', {last}='friday at 11:00'"
        assert "deadline" not in bound.value.problem


@pytest.mark.parametrize(
    "text", ["9-11", "on 9-11", "from 9 to 11 december", "december 5-6", "between 9 and 11 minutes", "from monday"]
)
def test_numbers_that_may_be_a_date_or_a_length_are_no_window(text: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        read(text)
    assert "deadline" not in refused.value.example
    assert "two times" not in refused.value.problem


@pytest.mark.parametrize(("text", "wall"), ENDS)
def test_an_end_is_read_as_one(text: str, wall: str) -> None:
    assert resolve_end(text, now=NOW, zone=HOME.key).wall == datetime.fromisoformat(wall)


@pytest.mark.parametrize(
    ("text", "ahead", "wall"),
    [
        ("since june", False, "2026-06-01"),
        ("since june 2025", False, "2025-06-01"),
        ("since christmas", False, "2025-12-25"),
        ("until june", True, "2027-06-01"),
        ("since december", False, "2025-12-01"),
    ],
)
def test_a_month_or_a_named_day_bounds_a_filter(text: str, ahead: bool, wall: str) -> None:
    found = read_bound(text, now=NOW, zone=HOME, ahead=ahead)
    assert found.astimezone(HOME).replace(tzinfo=None) == datetime.fromisoformat(wall)


@pytest.mark.parametrize(
    "text",
    [
        "the day before",
        "a week from",
        "before friday",
        "10 minutes before before 3 pm",
        "10 minutes before 3 pm xyzzy",
        "a week from friday christmas",
        "the evening after",
        "christmas christmas",
        "first thing first thing",
        "the friday before christmas",
    ],
)
def test_words_that_are_left_over_are_refused(text: str) -> None:
    with pytest.raises(InvalidArgument):
        read(text)


def test_a_day_that_is_named_says_its_date_and_a_part_of_the_morning_its_time() -> None:
    assert "christmas read as Fri 25 Dec 2026" in read("christmas").assumptions
    assert "read as Fri 4 Dec 2026" in read("a week from friday at 9:00").assumptions
    assert "first thing read as 09:00" in read("first thing tomorrow").assumptions


@pytest.mark.parametrize(
    ("text", "instant", "zone"),
    [
        ("9am Tokyo time", "2026-11-22T00:00", "Asia/Tokyo"),
        ("tomorrow 9am in new york time", "2026-11-22T14:00", "America/New_York"),
        ("noon Istanbul time", "2026-11-22T09:00", "Europe/Istanbul"),
    ],
)
def test_a_city_names_its_zone(text: str, instant: str, zone: str) -> None:
    found = resolve_moment(text, now=NOW, zone=None, argument="when")
    assert (f"{found.instant:%Y-%m-%dT%H:%M}", found.zone) == (instant, zone)


@pytest.mark.parametrize(
    ("text", "example"),
    [
        ("fifth monday of next month", "2026-12-31"),
        ("9am Tokyo time", "9am', timezone='Asia/Tokyo"),
        ("half past 25", "2026-11-22T09:00"),
        ("9am eastern time", "9am"),
    ],
)
def test_an_impossible_day_or_clock_is_refused(text: str, example: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        resolve_moment(text, now=NOW, zone=HOME.key, argument="when")
    assert example in refused.value.example


def test_the_last_business_day_of_a_month_is_no_public_holiday() -> None:
    found = resolve_moment(
        "last business day of december", now=NOW, zone=HOME.key, argument="when", frame=Frame(holidays="GB")
    )
    assert f"{found.wall:%Y-%m-%d}" == "2026-12-31"
    found = resolve_moment(
        "first business day of january", now=NOW, zone=HOME.key, argument="when", frame=Frame(holidays="GB")
    )
    assert f"{found.wall:%Y-%m-%d}" == "2027-01-04"  # the 1st is a holiday, and a Friday


@pytest.mark.parametrize(
    ("text", "example"),
    [
        ("by 5 tomorrow", "by 17:00 tomorrow or by 05:00 tomorrow"),
        ("by 5", "by 17:00 or by 05:00"),
        ("before 03/04/2027", "before 2027-04-03 or before 2027-03-04"),
        ("tomorrow after lunch", "tomorrow at 13:00"),
        ("31 june 2027", "2027-06-30"),
        ("blah", "deadline='2 hours'"),
    ],
)
def test_the_refusal_of_a_deadline_keeps_what_was_said(text: str, example: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        deadline_of(text, due=NOW, now=NOW, zone=HOME.key, recurring=False)
    assert refused.value.example == example


@pytest.mark.parametrize(
    ("text", "wall"),
    [("by 5pm", "2026-11-21T17:00"), ("by 5 pm", "2026-11-21T17:00"), ("by 5 december", "2026-12-05T23:59:59")],
)
def test_a_word_before_a_deadline_is_left_out(text: str, wall: str) -> None:
    found = deadline_of(text, due=NOW, now=NOW, zone=HOME.key, recurring=False)
    assert found.at is not None
    assert found.at.astimezone(HOME).replace(tzinfo=None) == datetime.fromisoformat(wall)
