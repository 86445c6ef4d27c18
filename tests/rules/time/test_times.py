"""A time as people write it becomes exactly one instant, and what had to be assumed is said."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.rules.time import durations, parser, times, zones
from duetime.scheduler.rules.time.days.calendar_day import Day
from duetime.scheduler.rules.time.durations import Span
from duetime.scheduler.rules.time.parser import clock_and_day
from duetime.scheduler.rules.time.time_of_day import Clock
from duetime.scheduler.rules.time.tokens import Tokens
from duetime.scheduler.rules.time.viewpoint import Viewpoint

NOW = datetime(2026, 11, 21, 17, 0, 5, tzinfo=UTC)
"""A Saturday, 12:00:05 in New York."""
ZONE = "America/New_York"


def resolve(text: str, now: datetime = NOW, zone: str | None = ZONE) -> times.Resolved:
    return times.resolve(text, now=now, zone=zone)


def refusal(text: str, now: datetime = NOW, zone: str | None = ZONE) -> InvalidArgument:
    with pytest.raises(InvalidArgument) as caught:
        resolve(text, now, zone)
    return caught.value


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("now", timedelta()),
        ("in 20 min", timedelta(minutes=20)),
        ("in 3 seconds", timedelta(seconds=3)),
        ("in 90 seconds", timedelta(seconds=90)),
        ("in 1h30m", timedelta(minutes=90)),
        ("in 2 hours and 30 minutes", timedelta(minutes=150)),
        ("In  2 Hours, 30 minutes", timedelta(minutes=150)),
        ("in half an hour", timedelta(minutes=30)),
        ("in an hour and a half", timedelta(minutes=90)),
        ("in 1.5 hours", timedelta(minutes=90)),
        ("two hours from now", timedelta(hours=2)),
        ("+45m", timedelta(minutes=45)),
        ("PT2H", timedelta(hours=2)),
        ("PT1H30M5S", timedelta(hours=1, minutes=30, seconds=5)),
        ("in 3 days", timedelta(days=3)),
        ("P1W", timedelta(days=7)),
        ("in 0 minutes", timedelta()),
        ("now + 2h", timedelta(hours=2)),
        ("in a couple of hours", timedelta(hours=2)),
        ("in a fortnight", timedelta(days=14)),
    ],
)
def test_durations_count_from_now_and_need_no_zone(text: str, length: timedelta) -> None:
    assert resolve(text).instant == NOW + length
    assert resolve(text, zone=None).instant == NOW + length
    assert resolve(text, zone=None).zone == "UTC"


@pytest.mark.parametrize(
    ("text", "wall"),
    [
        ("tomorrow", "Sun 22 Nov 2026 09:00"),
        ("tomorrow 9am", "Sun 22 Nov 2026 09:00"),
        ("tomorrow at 9:00", "Sun 22 Nov 2026 09:00"),
        ("9am tomorrow", "Sun 22 Nov 2026 09:00"),
        ("tomorrow evening", "Sun 22 Nov 2026 18:00"),
        ("day after tomorrow at noon", "Mon 23 Nov 2026 12:00"),
        ("today 17:30", "Sat 21 Nov 2026 17:30"),
        ("tonight", "Sat 21 Nov 2026 20:00"),
        ("tonight at 9", "Sat 21 Nov 2026 21:00"),
        ("tonight 9:30", "Sat 21 Nov 2026 21:30"),
        ("8 tonight", "Sat 21 Nov 2026 20:00"),
        ("midnight tonight", "Sun 22 Nov 2026 00:00"),
        ("tonight at midnight", "Sun 22 Nov 2026 00:00"),
        ("this evening at 7", "Sat 21 Nov 2026 19:00"),
        ("tomorrow morning at 7", "Sun 22 Nov 2026 07:00"),
        ("7 tomorrow morning", "Sun 22 Nov 2026 07:00"),
        ("7:30 tomorrow evening", "Sun 22 Nov 2026 19:30"),
        ("same time tomorrow", "Sun 22 Nov 2026 12:00"),
        ("tomorrow at the same time", "Sun 22 Nov 2026 12:00"),
        ("remind me tomorrow at 9", "Sun 22 Nov 2026 09:00"),
        ("this weekend", "Sun 22 Nov 2026 09:00"),
        ("the weekend at 18:00", "Sat 21 Nov 2026 18:00"),
        ("2026-11-24T09", "Tue 24 Nov 2026 09:00"),
        ("2026-11-24T14Z", "Tue 24 Nov 2026 09:00"),
        ("tonight 18:45", "Sat 21 Nov 2026 18:45"),
        ("tomorrow evening at 8", "Sun 22 Nov 2026 20:00"),
        ("tomorrow night 10:30pm", "Sun 22 Nov 2026 22:30"),
        ("monday morning at 8:30", "Mon 23 Nov 2026 08:30"),
        ("tomorrow at 5 in the afternoon", "Sun 22 Nov 2026 17:00"),
        ("tuesday next week", "Tue 24 Nov 2026 09:00"),
        ("next week on tuesday at 14:00", "Tue 24 Nov 2026 14:00"),
        ("noon", "Sun 22 Nov 2026 12:00"),
        ("midnight", "Sun 22 Nov 2026 00:00"),
        ("17:30", "Sat 21 Nov 2026 17:30"),
        ("9am", "Sun 22 Nov 2026 09:00"),
        ("12 am", "Sun 22 Nov 2026 00:00"),
        ("monday", "Mon 23 Nov 2026 09:00"),
        ("next tuesday", "Tue 24 Nov 2026 09:00"),
        ("next tuesday 14:00", "Tue 24 Nov 2026 14:00"),
        ("friday at noon", "Fri 27 Nov 2026 12:00"),
        ("nov 24 9:00", "Tue 24 Nov 2026 09:00"),
        ("24 november 2026 9:00", "Tue 24 Nov 2026 09:00"),
        ("november 24th, 2026 at 9 a.m.", "Tue 24 Nov 2026 09:00"),
        ("Tue 24 Nov 2026 09:00", "Tue 24 Nov 2026 09:00"),
        ("the 24th at 9:00", "Tue 24 Nov 2026 09:00"),
        ("20 november", "Sat 20 Nov 2027 09:00"),
        ("29 feb", "Tue 29 Feb 2028 09:00"),
        ("2026-11-24", "Tue 24 Nov 2026 09:00"),
        ("2026-11-24T09:00", "Tue 24 Nov 2026 09:00"),
        ("2026-11-24 09:00:30", "Tue 24 Nov 2026 09:00"),
        ("2026-11-24T09:00:00-05:00", "Tue 24 Nov 2026 09:00"),
        ("2026-11-24T14:00:00Z", "Tue 24 Nov 2026 09:00"),
        ("2026-11-24T09:00[America/New_York]", "Tue 24 Nov 2026 09:00"),
        ("24/11/2026", "Tue 24 Nov 2026 09:00"),
        ("2026/11/24", "Tue 24 Nov 2026 09:00"),
        ("end of month", "Mon 30 Nov 2026 23:59"),
        ("end of next month", "Thu 31 Dec 2026 23:59"),
        ("end of day", "Sat 21 Nov 2026 23:59"),
        ("eod", "Sat 21 Nov 2026 23:59"),
        ("end of week", "Sun 22 Nov 2026 23:59"),
        ("end of month at 17:00", "Mon 30 Nov 2026 17:00"),
        ("in 3 business days", "Wed 25 Nov 2026 09:00"),
        ("in 3 business days at 15:00", "Wed 25 Nov 2026 15:00"),
        ("in 3 days at 9:00", "Tue 24 Nov 2026 09:00"),
        ("next month", "Tue 1 Dec 2026 09:00"),
        ("in 2 months", "Thu 21 Jan 2027 12:00"),
    ],
)
def test_wall_times_are_those_of_the_zone(text: str, wall: str) -> None:
    found = resolve(text)
    assert times.describe(found.instant, ZONE) == wall
    assert found.zone == ZONE
    assert found.wall == found.instant.astimezone(zones.load(ZONE)).replace(tzinfo=None)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tomorrow", "no time given: 09:00 assumed"),
        ("2026-11-24", "no time given: 09:00 assumed"),
        ("17:30", "no date given: the next 17:30 is Sat 21 Nov 2026"),
        ("tomorrow at 9", "9 read as 09:00 on the 24-hour clock"),
        ("next friday", "next friday read as the first Friday after today, Fri 27 Nov 2026"),
        ("saturday 18:00", "today is a Saturday: saturday read as Sat 21 Nov 2026"),
        ("saturday 9:00", "today is a Saturday: saturday read as Sat 28 Nov 2026"),
        ("tonight", "tonight read as 20:00"),
        ("20 november", "no year given: read as Sat 20 Nov 2027"),
        ("the 24th", "no month given: read as Tue 24 Nov 2026"),
        ("end of month", "end of month read as Mon 30 Nov 2026"),
        ("in 3 business days", "business days are Monday to Friday, holidays are not known: Wed 25 Nov 2026"),
        ("2026-11-24T14:00:00Z", "Z read as UTC"),
        ("2 hours", "read as in 2 hours"),
        ("in a couple of hours", "a couple read as 2"),
        ("same time tomorrow", "same time read as 12:00"),
        ("midnight tonight", "midnight tonight begins Sun 22 Nov 2026"),
        ("tomorrow at midnight", "the midnight that begins Sun 22 Nov 2026"),
        ("next tuesday midnight", "the midnight that begins Tue 24 Nov 2026"),
        ("in 3 days at midnight", "the midnight that begins Tue 24 Nov 2026"),
        ("2 hours before midnight on friday", "the midnight that begins Fri 27 Nov 2026"),
        ("this weekend", "the weekend read as Sun 22 Nov 2026"),
        ("today at 9am utc", None),
    ],
)
def test_an_assumption_is_reported(text: str, said: str | None) -> None:
    if said is None:
        assert "in the past" in refusal(text).problem
    else:
        assert said in resolve(text).assumptions


@pytest.mark.parametrize(
    "text", ["tomorrow 9:00", "tomorrow 0:00", "2026-11-24T09:00", "in 2 hours", "Tue 24 Nov 2026 09:00", "now"]
)
def test_nothing_is_said_where_nothing_is_assumed(text: str) -> None:
    assert resolve(text).assumptions == ()


def test_monday_on_a_monday_is_today_while_the_time_is_ahead() -> None:
    monday = datetime(2026, 11, 23, 15, 0, tzinfo=UTC)
    assert times.describe(resolve("monday 18:00", monday).instant, ZONE) == "Mon 23 Nov 2026 18:00"
    assert times.describe(resolve("monday 8:00", monday).instant, ZONE) == "Mon 30 Nov 2026 08:00"
    assert times.describe(resolve("next monday 18:00", monday).instant, ZONE) == "Mon 30 Nov 2026 18:00"


@pytest.mark.parametrize("text", ["5", "-5", "1.5", "soon", "later", "ASAP", "", "   ", "03/04/2026", "03.04.2026"])
def test_a_phrase_that_could_mean_anything_is_refused(text: str) -> None:
    assert type(refusal(text)) is InvalidArgument


@pytest.mark.parametrize(
    "text",
    [
        "blah",
        "tomorrow tomorrow",
        "in",
        "in 5",
        "at",
        "9am 10am",
        "tomorrow 9",
        "next",
        "25",
        "hour",
        "2026-11-24T",
        "☃",
    ],
)
def test_a_refused_phrase_lists_the_accepted_forms(text: str) -> None:
    error = refusal(text)
    assert "tomorrow 9am" in error.accepted
    assert resolve(error.example).instant > NOW


@pytest.mark.parametrize(
    ("text", "problem", "example"),
    [
        ("2026-11-31", "November 2026 has 30 days", "2026-11-30"),
        ("2026-13-01", "there is no month 13", "2026-11-22T09:00"),
        ("tomorrow 25:00", "25:00 is not a time of day (00:00 to 23:59)", "2026-11-22T09:00"),
        ("tomorrow 13pm", "13 pm is not a time of day", "13:00"),
        ("Mon 24 Nov 2026 09:00", "24 Nov 2026 is a Tuesday, not a Monday", "2026-11-24 09:00"),
        ("03/04/2027", "03/04/2027 can be read day first or month first", "2027-04-03 or 2027-03-04"),
        (
            "03/04/2026 9am",
            "03/04/2026 can be read day first or month first",
            "2027-04-03T09:00 or 2027-03-04T09:00",
        ),
        ("12/11/2026 9am", "12/11/2026 can be read day first or month first", "2026-12-11 9am"),
        ("nov 31", "November has no day 31", "2026-11-30"),
        ("31 april 9am", "April has no day 31", "2027-04-30 9 am"),
        ("2026-02-30T09:00", "February 2026 has 28 days", "2027-02-28T09:00"),
        ("next weekend at 10am", "next weekend can mean the one that comes or the one after it", "2026-11-28 at 10 am"),
        ("tonight 1am", "01:00 is not in the evening", "at 01:00"),
        ("tomorrow evening at 2", "02:00 is not in the evening", "2026-11-22T09:00"),
        ("tomorrow morning at 14:00", "14:00 is not in the morning", "2026-11-22T09:00"),
        ("in 1.000 hours", "1.000 can be a fraction or thousands", "in 1.5 hours"),
        ("1732440000", "a bare 1732440000 does not say what it counts", "2026-11-22T09:00"),
        ("this friday", "this friday is in the past: it was Fri 20 Nov 2026", "2026-11-27"),
        ("this friday at 3pm", "this friday is in the past: it was Fri 20 Nov 2026", "2026-11-27 at 3 pm"),
        ("20261124", "a bare 20261124 does not say what it counts", "2026-11-24T09:00"),
        ("20261131", "a bare 20261131 does not say what it counts", "2026-11-30T09:00"),
        ("2027", "a bare 2027 does not say what it counts", "2027-01-01T09:00 or 20:27"),
        ("0900", "a bare 0900 does not say what it counts", "09:00"),
        ("1767225600", "a bare 1767225600 does not say what it counts", "2026-11-22T09:00"),
        ("1798761600", "a bare 1798761600 does not say what it counts", "2027-01-01T00:00:00Z"),
        ("1798761600000", "a bare 1798761600000 does not say what it counts", "2027-01-01T00:00:00Z"),
        ("5", "a bare 5 does not say what it counts", "in 5 minutes"),
        ("in 5", "a bare 5 does not say what it counts", "in 5 minutes"),
        ("2031-11-22", "2031-11-22 is more than 5 years ahead", "2026-11-22T09:00"),
        ("in 6 years", "2032-11-21 is more than 5 years ahead", "2026-11-22T09:00"),
    ],
)
def test_an_impossible_time_is_refused_with_a_corrected_example(text: str, problem: str, example: str) -> None:
    assert (refusal(text).problem, refusal(text).example) == (problem, example)


@pytest.mark.parametrize(
    ("text", "example"),
    [
        ("today 9:00", "2026-11-22T09:00"),
        ("yesterday 18:00", "2026-11-21T18:00"),
        ("2026-11-20T09:00", "2026-11-22T09:00"),
        ("2025-11-24T09:00", "2026-11-24T09:00"),
        ("2025-03-01", "2027-03-01T09:00"),
        ("5 minutes ago", "in 5 minutes"),
    ],
)
def test_a_past_time_is_refused_with_the_nearest_future_reading(text: str, example: str) -> None:
    error = refusal(text)
    assert "is in the past" in error.problem
    assert error.example == example
    assert resolve(error.example).instant > NOW


def test_a_past_time_without_zone_keeps_an_offset_in_its_example() -> None:
    error = refusal("2026-11-20T09:00:00+02:00", zone=None)
    assert resolve(error.example, zone=None).instant > NOW


@pytest.mark.parametrize("text", ["2026-11-24T09:00:00.000", "2026-11-24 09:00:00.123456", "2026-11-24T09:00:00.5"])
def test_a_wall_time_with_a_part_of_a_second_is_that_of_its_whole_second(text: str) -> None:
    assert resolve(text).wall == datetime.fromisoformat("2026-11-24T09:00")


def test_five_years_ahead_is_the_last_that_is_accepted() -> None:
    assert resolve("2031-11-21T12:00").wall == datetime.fromisoformat("2031-11-21T12:00")
    refusal("2031-11-21T12:01")


@pytest.mark.parametrize(
    "text", ["tomorrow", "17:30", "2026-11-24T09:00", "monday", "in 3 business days", "end of month"]
)
def test_a_wall_time_needs_a_zone(text: str) -> None:
    error = refusal(text, zone=None)
    assert "no time zone is known" in error.problem
    assert resolve(error.example, zone=None).instant > NOW


def test_an_offset_needs_no_zone() -> None:
    found = resolve("2026-11-24T09:00:00+05:45", zone=None)
    assert (found.instant, found.zone) == (datetime(2026, 11, 24, 3, 15, tzinfo=UTC), "UTC")


def test_a_zone_in_the_text_stands_in_for_a_missing_one() -> None:
    found = resolve("2026-11-24 09:00 Europe/Paris", zone=None)
    assert (found.instant, found.zone) == (datetime(2026, 11, 24, 8, tzinfo=UTC), "Europe/Paris")


def test_an_offset_that_contradicts_the_zone_is_corrected_to_the_same_instant() -> None:
    error = refusal("2026-11-23T09:00:00-08:00")
    assert "America/New_York, which is at -05:00 on Mon 23 Nov 2026" in error.problem
    wall, _, instant = error.example.partition(" or ")
    assert (wall, instant) == ("2026-11-23T09:00:00", "2026-11-23T12:00:00-05:00")
    assert datetime.fromisoformat(instant) == datetime.fromisoformat("2026-11-23T09:00:00-08:00")
    assert resolve(instant).instant == datetime.fromisoformat(instant)


def test_a_zone_in_the_text_that_contradicts_the_argument_is_refused() -> None:
    error = refusal("tomorrow 9am Europe/Paris")
    assert error.problem == "the text says Europe/Paris, but the time zone is America/New_York"
    assert error.example == "when='tomorrow 9am', timezone='Europe/Paris'"


@pytest.mark.parametrize(
    ("text", "example"),
    [
        ("2026-12-24 09:00 PST", "when='2026-12-24 09:00', timezone='America/Los_Angeles'"),
        ("dec 24 9am EST", "when='dec 24 9am', timezone='America/New_York'"),
        ("dec 24 9am JST", "when='dec 24 9am', timezone='Asia/Tokyo'"),
        ("dec 24 9am eastern standard time", "when='dec 24 9am', timezone='America/New_York'"),
        ("dec 24 9am pacific", "when='dec 24 9am', timezone='America/Los_Angeles'"),
        ("9:00 UTC+2", "when='9:00', timezone='Etc/GMT-2'"),
        ("nov 30 2pm GMT+1", "when='nov 30 2pm', timezone='Etc/GMT-1'"),
        ("nov 30 2pm UTC -03:30", "when='nov 30 2pm', timezone='America/St_Johns'"),
        ("2025-11-24 9am CET", "when='2026-11-24T09:00', timezone='Europe/Paris'"),
        ("in 999999999 hours CET", "when='2026-11-22T09:00', timezone='Europe/Paris'"),
    ],
)
def test_an_ambiguous_zone_name_is_answered_with_the_zone_next_to_the_time(text: str, example: str) -> None:
    assert refusal(text).example == example


@pytest.mark.parametrize(
    ("name", "instead"),
    [("UTC+2", "Etc/GMT-2"), ("gmt-5", "Etc/GMT+5"), ("UTC+05:30", "Asia/Kolkata"), ("PST", "America/Los_Angeles")],
)
def test_a_wrong_zone_name_is_answered_with_the_zone_meant(name: str, instead: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        zones.find(name)
    assert caught.value.example == instead


def test_the_reversed_sign_of_a_fixed_zone_is_explained() -> None:
    with pytest.raises(InvalidArgument, match=r"Etc/GMT-2 \(always UTC\+02:00\)"):
        zones.find("UTC+2")


@pytest.mark.parametrize("text", ["today 9:00", "this friday", "nov 31", "9am PST"])
def test_the_accepted_forms_are_left_out_where_the_example_says_it(text: str) -> None:
    assert not refusal(text).accepted


def test_a_reported_time_can_be_given_again() -> None:
    found = resolve("next tuesday 14:00")
    assert resolve(f"{times.describe(found.instant, found.zone)} {found.zone}").instant == found.instant


def test_the_argument_is_named_as_the_caller_wrote_it() -> None:
    with pytest.raises(InvalidArgument, match=r"^until: "):
        times.resolve("soon", now=NOW, zone=ZONE, argument="until")


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "now"),
        (0.4, "now"),
        (3, "in 3 s"),
        (-200, "3 min ago"),
        (150 * 60, "in 2 h 30 min"),
        (2 * 86400 + 17 * 3600 + 59, "in 2 d 17 h"),
        (-3 * 86400, "3 d ago"),
    ],
)
def test_distances_are_said_in_their_two_largest_units(seconds: float, words: str) -> None:
    assert times.relative(NOW + timedelta(seconds=seconds), NOW) == words


@pytest.mark.parametrize(
    ("text", "length"),
    [
        *(("20 min", 20), ("2 hours and 30 minutes", 150), ("1h30m", 90), ("PT2H", 120), ("1 day", 1440), ("1.5h", 90)),
        *(("500 ms", 1 / 120), ("500ms", 1 / 120), ("1 min 30000 milliseconds", 1.5)),
    ],
)
def test_durations_alone(text: str, length: float) -> None:
    assert times.parse_duration(text) == timedelta(minutes=length)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.0, "0 s"), (0.0004, "1 s"), (0.91, "1 s"), (1.2, "2 s"), (59.5, "1 min"), (5400, "1 h 30 min")],
)
def test_a_guess_is_said_in_whole_seconds_rounded_up(seconds: float, said: str) -> None:
    assert times.rough_length(timedelta(seconds=seconds)) == said


@pytest.mark.parametrize(
    "text", ["", "5", "soon", "1 month", "in 2 hours", "2 hours later", "x" * 300, "9" * 50 + " h"]
)
def test_a_text_that_is_not_a_duration_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument):
        times.parse_duration(text)


def test_a_phrase_that_was_read_before_is_seen_from_now() -> None:
    at_noon, at_four, next_day = NOW, NOW + timedelta(hours=4), NOW + timedelta(days=1)

    def walls(text: str) -> list[str]:
        return [f"{resolve(text, now).wall:%a %H:%M}" for now in (at_noon, at_four, next_day)]

    assert walls("at 15:00") == ["Sat 15:00", "Sun 15:00", "Sun 15:00"]
    assert walls("tomorrow at 9am") == ["Sun 09:00", "Sun 09:00", "Mon 09:00"]
    assert walls("in 2 hours") == ["Sat 14:00", "Sat 18:00", "Sun 14:00"]
    assert walls("same time tomorrow") == ["Sun 12:00", "Sun 16:00", "Mon 12:00"]
    assert f"{resolve('tomorrow at 9am', zone='Asia/Tokyo').wall:%a %H:%M}" == "Mon 09:00"


def test_a_phrase_of_a_day_is_read_once_that_day(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[date] = []

    def noted(row: Tokens, today: date, view: Viewpoint) -> tuple[Clock | None, Day | None]:
        read.append(today)
        return clock_and_day(row, today, view)

    monkeypatch.setattr(parser, "clock_and_day", noted)
    for now in (NOW, NOW + timedelta(hours=4), NOW + timedelta(days=1)):
        resolve("tomorrow at 9:17", now)
    assert read == [date(2026, 11, 21), date(2026, 11, 22)]


def test_whether_a_phrase_is_a_length_of_time_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[bool] = []
    of_the_row = durations.read_span

    def noted(row: Tokens) -> Span | None:
        found = of_the_row(row)
        read.append(found is not None)
        return found

    monkeypatch.setattr(durations, "read_span", noted)
    for kept in (parser._span_named, parser._read_of_day):
        kept.cache_clear()
    for text in ("tomorrow at 9:18", "in 218 minutes"):
        for now in (NOW, NOW + timedelta(days=1)):
            resolve(text, now)
    assert read == [False, True]


def test_this_saturday_that_has_passed_is_shown_as_the_next_saturday() -> None:
    evening = datetime(2026, 11, 28, 18, tzinfo=UTC)
    with pytest.raises(InvalidArgument) as refused:
        times.resolve("this saturday", now=evening, zone="UTC")
    assert refused.value.example == "2026-12-05T09:00"


@pytest.mark.parametrize(
    ("text", "wall"),
    [
        ("end of quarter", datetime(2026, 12, 31, 23, 59, tzinfo=UTC)),
        ("eoq", datetime(2026, 12, 31, 23, 59, tzinfo=UTC)),
        ("end of next quarter", datetime(2027, 3, 31, 23, 59, tzinfo=UTC)),
        ("start of next quarter", datetime(2027, 1, 1, 9, tzinfo=UTC)),
    ],
)
def test_a_quarter_ends_and_begins_as_a_month_does(text: str, wall: datetime) -> None:
    assert times.resolve(text, now=datetime(2026, 11, 28, 18, tzinfo=UTC), zone="UTC").instant == wall
