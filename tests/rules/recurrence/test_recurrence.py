"""Cron, an RRULE subset and plain words: what they mean, how they are said back, and what is refused."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta

import pytest
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.rules.recurrence import recurrence
from duetime.scheduler.rules.recurrence.recurrence import Recurrence
from duetime.scheduler.rules.time import times
from hypothesis import given

from tests.rules.definitions import RULES
from tests.rules.oracle import Definition
from tests.search import examples

START = datetime(2026, 11, 21, 15, 0, tzinfo=UTC)
"""A Saturday, 10:00 in New York."""
ZONE = "America/New_York"


def parse(text: str, anchor: datetime = START, zone: str = ZONE) -> Recurrence:
    return recurrence.parse(text, zone=zone, anchor=anchor)


def refusal(text: str, minimum: timedelta = recurrence.MIN_INTERVAL) -> InvalidArgument:
    with pytest.raises(InvalidArgument) as caught:
        recurrence.parse(text, zone=ZONE, anchor=START, minimum=minimum)
    return caught.value


def walls(rule: Recurrence, count: int = 3) -> list[str]:
    return [times.describe(found.instant, rule.zone) for found in rule.upcoming(START - timedelta(seconds=1), count)]


@pytest.mark.parametrize(
    ("text", "rule", "words", "first", "second"),
    [
        ("every 15 minutes", "FREQ=MINUTELY;INTERVAL=15", "every 15 minutes", "21 Nov 10:00", "21 Nov 10:15"),
        ("every 2h", "FREQ=HOURLY;INTERVAL=2", "every 2 hours", "21 Nov 10:00", "21 Nov 12:00"),
        ("every 1h30m", "FREQ=MINUTELY;INTERVAL=90", "every 90 minutes", "21 Nov 10:00", "21 Nov 11:30"),
        ("hourly", "FREQ=HOURLY", "every hour", "21 Nov 10:00", "21 Nov 11:00"),
        ("every hour at :15 and :45", "FREQ=HOURLY;BYMINUTE=15,45", None, "21 Nov 10:15", "21 Nov 10:45"),
        ("every day", "FREQ=DAILY", "every day at 10:00", "21 Nov 10:00", "22 Nov 10:00"),
        ("daily at 9", "FREQ=DAILY;BYHOUR=9;BYMINUTE=0", "every day at 09:00", "22 Nov 09:00", "23 Nov 09:00"),
        ("9am daily", "FREQ=DAILY;BYHOUR=9;BYMINUTE=0", "every day at 09:00", "22 Nov 09:00", "23 Nov 09:00"),
        ("every day at 8am and 6pm", "FREQ=DAILY;BYHOUR=8,18;BYMINUTE=0", None, "21 Nov 18:00", "22 Nov 08:00"),
        (
            "every day at 8:00 and 18:30",
            "every day at 08:00 and 18:30",
            "every day at 08:00 and 18:30",
            "21 Nov 18:30",
            "22 Nov 08:00",
        ),
        (
            "every weekday at 9:00",
            "FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR;BYHOUR=9;BYMINUTE=0",
            "every weekday at 09:00",
            "23 Nov 09:00",
            "24 Nov 09:00",
        ),
        ("every night at 10", "FREQ=DAILY;BYHOUR=22;BYMINUTE=0", "every day at 22:00", "21 Nov 22:00", "22 Nov 22:00"),
        ("every evening", None, "every day at 18:00", "21 Nov 18:00", "22 Nov 18:00"),
        ("every morning at 7am", None, "every day at 07:00", "22 Nov 07:00", "23 Nov 07:00"),
        ("every evening at 7", None, "every day at 19:00", "21 Nov 19:00", "22 Nov 19:00"),
        ("every night at 10pm", None, "every day at 22:00", "21 Nov 22:00", "22 Nov 22:00"),
        ("every afternoon at 3", None, "every day at 15:00", "21 Nov 15:00", "22 Nov 15:00"),
        ("every weekday morning at 8:30", None, "every weekday at 08:30", "23 Nov 08:30", "24 Nov 08:30"),
        ("every day at 8 in the morning", None, "every day at 08:00", "22 Nov 08:00", "23 Nov 08:00"),
        ("every fortnight on monday", None, "every 2 weeks on Monday at 10:00", "30 Nov 10:00", "14 Dec 10:00"),
        ("every monday morning at 8", None, "every Monday at 08:00", "23 Nov 08:00", "30 Nov 08:00"),
        ("0 */2 * * *", None, "every day, every 2 hours from 00:00 to 22:00", "21 Nov 10:00", "21 Nov 12:00"),
        ("weekly", "FREQ=WEEKLY", "every Saturday at 10:00", "21 Nov 10:00", "28 Nov 10:00"),
        ("mondays and thursdays at noon", None, "every Monday and Thursday at 12:00", "23 Nov 12:00", "26 Nov 12:00"),
        ("mon-fri at 8:30", None, "every weekday at 08:30", "23 Nov 08:30", "24 Nov 08:30"),
        ("every weekend", "FREQ=WEEKLY;BYDAY=SA,SU", None, "21 Nov 10:00", "22 Nov 10:00"),
        (
            "every 2 weeks on monday",
            "FREQ=WEEKLY;INTERVAL=2;BYDAY=MO",
            "every 2 weeks on Monday at 10:00",
            "30 Nov 10:00",
            "14 Dec 10:00",
        ),
        ("every other tuesday at noon", None, "every 2 weeks on Tuesday at 12:00", "1 Dec 12:00", "15 Dec 12:00"),
        ("monthly on the 1st", "FREQ=MONTHLY;BYMONTHDAY=1", "every month on the 1st at 10:00", "1 Dec", "1 Jan"),
        ("every month on the last day", "FREQ=MONTHLY;BYMONTHDAY=-1", None, "30 Nov 10:00", "31 Dec 10:00"),
        ("on the first of every month at 8am", None, "every month on the 1st at 08:00", "1 Dec 08:00", "1 Jan 08:00"),
        *(
            (said, None, "every month on the last day at 12:00", "30 Nov 12:00", "31 Dec 12:00")
            for said in (
                "last of the month at noon",
                "end of month at noon",
                "every end of month at noon",
                "monthly at the end of the month at noon",
                "every month end at noon",
            )
        ),
        ("every month on the 1st and 15th at noon", None, None, "1 Dec 12:00", "15 Dec 12:00"),
        (
            "every first monday of the month at 10:00",
            "FREQ=MONTHLY;BYDAY=1MO;BYHOUR=10;BYMINUTE=0",
            "every month on the first Monday at 10:00",
            "7 Dec 10:00",
            "4 Jan 10:00",
        ),
        ("last friday of every month at 17:00", None, None, "27 Nov 17:00", "25 Dec 17:00"),
        ("quarterly on the 1st", "FREQ=MONTHLY;INTERVAL=3;BYMONTHDAY=1", None, "1 Feb 10:00", "1 May 10:00"),
        ("yearly on 3 march", "FREQ=YEARLY;BYMONTH=3;BYMONTHDAY=3", "every year on 3 March at 10:00", "3 Mar", "3 Mar"),
        ("every jan 5 at 9", None, "every year on 5 January at 09:00", "5 Jan 2027 09:00", "5 Jan 2028 09:00"),
        ("0 9 * * 1-5", "0 9 * * 1-5", "every weekday at 09:00", "23 Nov 09:00", "24 Nov 09:00"),
        ("0 9 * jan-mar MON,wed", "0 9 * 1-3 1,3", None, "4 Jan 09:00", "6 Jan 09:00"),
        ("*/20 * * * *", "*/20 * * * *", "every 20 minutes, from :00", "21 Nov 10:00", "21 Nov 10:20"),
        ("0 0 L * *", "0 0 l * *", "every month on the last day at 00:00", "30 Nov 00:00", "31 Dec 00:00"),
        ("0 0 13 * fri", "0 0 13 * 5", "every month on the 13th or on Friday at 00:00", "27 Nov", "4 Dec"),
        ("0 0 */2 * 1", "0 0 */2 * 1", None, "23 Nov 00:00", "7 Dec 00:00"),
        ("0 12 * * 7", "0 12 * * 7", "every Sunday at 12:00", "22 Nov 12:00", "29 Nov 12:00"),
        ("@daily", "0 0 * * *", "every day at 00:00", "22 Nov 00:00", "23 Nov 00:00"),
        ("FREQ=WEEKLY;BYDAY=TU", "FREQ=WEEKLY;BYDAY=TU", "every Tuesday at 10:00", "24 Nov 10:00", "1 Dec 10:00"),
        ("rrule:freq=daily;byhour=9", "FREQ=DAILY;BYHOUR=9", "every day at 09:00", "22 Nov 09:00", "23 Nov 09:00"),
        ("FREQ=MONTHLY;BYDAY=FR;BYMONTHDAY=13", None, None, "13 Aug 2027", "13 Oct 2028"),
        ("FREQ=YEARLY;BYDAY=20MO", None, None, "17 May 2027", "15 May 2028"),
        ("FREQ=HOURLY;INTERVAL=2;BYMINUTE=0,30", None, "every 2 hours at :00 and :30", "21 Nov 10:00", "21 Nov 10:30"),
    ],
)
def test_rules_mean_what_they_say(text: str, rule: str | None, words: str | None, first: str, second: str) -> None:
    found = parse(text)
    shown = walls(found, 2)
    assert all(part in shown[0] for part in first.split())
    assert all(part in shown[1] for part in second.split())
    assert rule in {None, found.rule}
    assert words in {None, found.text}


@pytest.mark.parametrize(
    ("text", "rule", "words"),
    [
        (
            "every 3 hours between 9 and 17",
            "FREQ=DAILY;BYHOUR=9,12,15;BYMINUTE=0",
            "every day at 09:00, 12:00 and 15:00",
        ),
        ("every 3 hours from 9am to 6pm", None, "every day at 09:00, 12:00, 15:00 and 18:00"),
        ("every 2 hours between 9 and 5pm on weekdays", None, "every weekday at 09:00, 11:00, 13:00, 15:00 and 17:00"),
        ("every 15 minutes between 9:00 and 17:00", None, "every day, every 15 minutes from 09:00 to 17:00"),
        ("every 20 minutes from 9 until 17 mon-fri", None, "every weekday, every 20 minutes from 09:00 to 17:00"),
        ("every weekday, every 15 minutes from 09:00 to 17:00", None, None),
        ("every 30 minutes from 22:00 to 6:00", None, "every day, every 30 minutes from 22:00 to 06:00"),
        ("every hour at :15 and :45 between 9 and 17", None, "every day, every 30 minutes from 09:15 to 16:45"),
        ("hourly between 8 and 10 on mondays", None, "every Monday at 08:00, 09:00 and 10:00"),
        ("every day except fridays", "FREQ=DAILY;BYDAY=MO,TU,WE,TH,SA,SU", "every day except Friday at 10:00"),
        ("every weekday except friday at 9:00", None, "every Monday, Tuesday, Wednesday and Thursday at 09:00"),
        ("daily at 9 except at weekends", None, "every weekday at 09:00"),
        ("every 2 hours except on sundays", "FREQ=HOURLY;INTERVAL=2;BYDAY=MO,TU,WE,TH,FR,SA", None),
        ("every weekday except in july and august", None, "every weekday except in July and August at 10:00"),
        ("every month on the 1st except in january", None, "every month on the 1st except in January at 10:00"),
        ("every third day at 9", "FREQ=DAILY;INTERVAL=3;BYHOUR=9;BYMINUTE=0", "every 3 days at 09:00"),
        ("every second and fourth tuesday", "FREQ=MONTHLY;BYDAY=2TU,4TU", None),
        ("twice a day at 9 and 17", "FREQ=DAILY;BYHOUR=9,17;BYMINUTE=0", "every day at 09:00 and 17:00"),
        ("every day until june", "FREQ=DAILY;UNTIL=20270531", "every day at 10:00 until 31 May 2027"),
        ("every day at 9 until may 2028", None, "every day at 09:00 until 30 April 2028"),
        ("every day through june", None, "every day at 10:00 until 30 June 2027"),
        ("every day until the end of june at 9:00", None, "every day at 09:00 until 30 June 2027"),
        ("every day at 9:00 until 2026-12-31 17:00", None, "every day at 09:00 until 31 December 2026 17:00"),
        ("every 2 hours until friday at 17:00", None, "every 2 hours until 27 November 2026 17:00"),
    ],
)
def test_hours_exceptions_and_ends_are_part_of_the_rule(text: str, rule: str | None, words: str | None) -> None:
    found = parse(text)
    assert rule in {None, found.rule}
    assert words in {None, found.text}
    assert parse(found.rule) == found


@pytest.mark.parametrize(
    "text",
    [
        "every day at 8:00, 9:10, 10:21, 11:30, 12:40, 13:50 and 15:00",
        "every weekday at 9:00, 9:15, 9:30, 9:45, 10:00, 10:15 and 10:30",
        "every 7 minutes between 22:00 and 5:59",
        "every 2 weeks on monday at 9:01, 9:11, 9:22, 9:33, 9:44, 9:55 and 10:06",
    ],
)
def test_many_times_of_day_are_stored_so_that_they_read_back(text: str) -> None:
    found = parse(text)
    assert parse(found.rule) == found
    assert parse(found.rule).upcoming(START, 60) == found.upcoming(START, 60)


def test_times_of_day_that_no_stored_rule_has_room_for_are_refused() -> None:
    irregular = ",".join(f"{hour}:{hour + 10}" for hour in range(24))
    assert "too many times of day" in refusal(f"daily at {irregular},0:01,1:01,2:01,3:01,4:01,5:01").problem


def test_hours_between_two_times_begin_with_the_next_of_them() -> None:
    assert walls(parse("every 3 hours between 9 and 17"), 4) == [
        "Sat 21 Nov 2026 12:00",
        "Sat 21 Nov 2026 15:00",
        "Sun 22 Nov 2026 09:00",
        "Sun 22 Nov 2026 12:00",
    ]


@given(rule=RULES)
@examples(200)
def test_the_canonical_rule_parses_back_equal_and_the_words_mean_the_same(rule: Definition) -> None:
    try:
        found = parse(rule.text)
    except InvalidArgument:
        return
    assert parse(found.rule) == found
    try:
        said = parse(found.text)
    except InvalidArgument:
        return
    assert said.upcoming(START, 8) == found.upcoming(START, 8)


@pytest.mark.parametrize("text", ["every day at 10:00, 3 times", "FREQ=DAILY;BYHOUR=10;COUNT=3"])
def test_a_count_counts_from_the_anchor(text: str) -> None:
    rule = parse(text)
    assert rule.count == 3
    assert [found.wall.day for found in rule.upcoming(START - timedelta(days=9), 9)] == [21, 22, 23]
    assert rule.after(START + timedelta(days=2)) is None
    assert "3 times" in rule.text


@pytest.mark.parametrize(
    "text", ["every day until 2026-11-23", "FREQ=DAILY;UNTIL=20261123", "FREQ=DAILY;UNTIL=20261123T150000Z"]
)
def test_until_is_inclusive(text: str) -> None:
    rule = parse(text)
    assert [found.wall.day for found in rule.upcoming(START, 9)] == [22, 23]
    assert rule.until is not None


def test_the_first_occurrence_is_the_first_match_at_or_after_the_anchor() -> None:
    rule = parse("every day at 10:00")
    first = rule.first(START)
    assert first is not None
    assert first.instant == START
    assert rule.first(START - timedelta(days=30)) == first
    assert rule.after(START - timedelta(days=30)) == first


def test_an_anchor_with_seconds_keeps_them_where_the_rule_names_no_time() -> None:
    anchor = START + timedelta(seconds=12, microseconds=345)
    for text in ("every day", "every 15 minutes", "monthly"):
        first = parse(text, anchor).first(anchor)
        assert first is not None
        assert first.instant == anchor
    first = parse("0 * * * *", anchor).first(anchor)
    assert first is not None
    assert first.instant == START + timedelta(hours=1)


@pytest.mark.parametrize(
    ("rule", "skips"),
    [
        ("monthly on the 31st", True),
        ("every month on the 1st and 30th", True),
        ("0 9 29 * *", True),
        ("FREQ=MONTHLY;BYMONTHDAY=-30", True),
        ("every month on the 28th", False),
        ("every month on the last day", False),
        ("0 9 31 1,3 *", False),
        ("0 9 31 * mon", False),
    ],
)
def test_a_rule_whose_day_some_months_lack_says_so(rule: str, skips: bool) -> None:
    assert ("(in months that have it)" in parse(rule).text) == skips


@pytest.mark.parametrize("rule", ["monthly at 9:00 and 10:15", "monthly on the 31st at 9:00 and 10:15"])
def test_a_rule_that_skips_months_reads_back_from_its_stored_form_and_from_its_text(rule: str) -> None:
    anchor = datetime(2026, 12, 31, 15, tzinfo=UTC)
    found = parse(rule, anchor)
    assert "(in months that have it)" in found.text
    assert parse(found.rule, anchor) == parse(found.text, anchor) == found


def test_a_monthly_rule_on_the_31st_says_that_it_skips_months() -> None:
    rule = parse("monthly", datetime(2026, 12, 31, 15, tzinfo=UTC))
    assert rule.text == "every month on the 31st (in months that have it) at 10:00"
    assert [found.wall.date() for found in rule.upcoming(START, 3)] == [
        date(2026, 12, 31),
        date(2027, 1, 31),
        date(2027, 3, 31),
    ]


@pytest.mark.parametrize("text", ["", " ", "once"])
def test_a_text_without_a_rule_is_refused_with_what_is_accepted(text: str) -> None:
    assert "`every weekday at 9:00`" in refusal(text).accepted
    assert not recurrence.names_times(text, now=START)


@pytest.mark.parametrize(
    "text",
    [
        "0 0 31 2 *",
        "0 0 30 2 *",
        "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30",
        "every year on 30 february",
        "0 0 31 4,6,9,11 *",
        "FREQ=MONTHLY;INTERVAL=12;BYMONTHDAY=31;BYMONTH=2",
        "FREQ=MINUTELY;INTERVAL=2;BYMINUTE=1",
        "FREQ=MINUTELY;INTERVAL=1440;BYHOUR=3",
        "FREQ=HOURLY;INTERVAL=24;BYHOUR=3",
    ],
)
def test_a_rule_that_never_fires_is_refused(text: str) -> None:
    assert "never fires" in refusal(text).problem


@pytest.mark.parametrize("text", ["* * * * * *", "every 0.5 seconds", "every 1.5 seconds", "every half second"])
def test_nothing_recurs_more_often_than_a_second(text: str) -> None:
    refusal(text)


@pytest.mark.parametrize(
    ("text", "rule", "words", "second"),
    [
        ("every second", "FREQ=SECONDLY", "every second", 1),
        ("every other second", "FREQ=SECONDLY;INTERVAL=2", "every 2 seconds", 2),
        ("every 10 seconds", "FREQ=SECONDLY;INTERVAL=10", "every 10 seconds", 10),
        ("every 10s", "FREQ=SECONDLY;INTERVAL=10", "every 10 seconds", 10),
        ("every PT10S", "FREQ=SECONDLY;INTERVAL=10", "every 10 seconds", 10),
        ("FREQ=SECONDLY;INTERVAL=10", "FREQ=SECONDLY;INTERVAL=10", "every 10 seconds", 10),
        ("every 90 seconds", "FREQ=SECONDLY;INTERVAL=90", "every 90 seconds", 90),
        ("every 1m30s", "FREQ=SECONDLY;INTERVAL=90", "every 90 seconds", 90),
        ("every 60 seconds", "FREQ=MINUTELY", "every minute", 60),
        ("FREQ=SECONDLY;INTERVAL=7200", "FREQ=HOURLY;INTERVAL=2", "every 2 hours", 7200),
        ("PT1M30S", "FREQ=SECONDLY;INTERVAL=90", "every 90 seconds", 90),
        ("every 10 seconds on saturdays", "FREQ=SECONDLY;INTERVAL=10;BYDAY=SA", "every 10 seconds on Saturday", 10),
        ("every 10 seconds, 3 times", "FREQ=SECONDLY;INTERVAL=10;COUNT=3", "every 10 seconds, 3 times", 10),
    ],
)
def test_an_interval_may_be_of_seconds(text: str, rule: str, words: str, second: int) -> None:
    found = parse(text)
    assert (found.rule, found.text) == (rule, words)
    instants = [each.instant - START for each in found.upcoming(START - timedelta(seconds=1), 2)]
    assert instants == [timedelta(), timedelta(seconds=second)]
    assert parse(found.rule) == parse(found.text) == found


@pytest.mark.parametrize(
    ("text", "said", "example"),
    [
        ("every second", "fires every 1 s, more often than every 1 min", "every minute"),
        ("every 59 seconds", "fires every 59 s, more often than every 1 min", "every minute"),
        ("FREQ=SECONDLY;INTERVAL=10", "fires every 10 s, more often than every 1 min", "every minute"),
    ],
)
def test_seconds_below_the_minimum_are_refused_with_it(text: str, said: str, example: str) -> None:
    error = refusal(text, minimum=timedelta(minutes=1))
    assert error.problem.endswith(said)
    assert error.example == example


@pytest.mark.parametrize(
    ("text", "said", "example"),
    [
        ("every day at 9am Tokyo time", "names a time zone", "repeat='every day at 9am', timezone='Asia/Tokyo'"),
        ("weekly on monday at 9:00 UTC", "names a time zone", "repeat='weekly on monday at 9:00', timezone='UTC'"),
        ("every weekday at 9 PST", "one time zone", "repeat='every weekday at 9', timezone='America/Los_Angeles'"),
        ("every blue moon at 9am Tokyo time", "is not understood", "every weekday at 9:00"),
        ("every day at 9 Mars/Olympus", "is not understood", "every weekday at 9:00"),
    ],
)
def test_a_zone_in_a_rule_is_refused_with_the_call_that_says_it_apart(text: str, said: str, example: str) -> None:
    error = refusal(text)
    assert said in error.problem
    assert error.example == example


@pytest.mark.parametrize(
    ("minimum", "example"),
    [(1, "every second"), (20, "every 20 seconds"), (90, "every 90 seconds"), (300, "every 5 minutes")],
)
def test_the_example_of_a_refusal_is_the_minimum_itself(minimum: int, example: str) -> None:
    least = timedelta(seconds=minimum)
    recurrence.parse(example, zone=ZONE, anchor=START, minimum=least)
    if minimum > 1:
        assert refusal("every second", minimum=least).example == example


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("every 10 seconds at 9:00", "no time of day"),
        ("every 10 seconds between 9 and 17", "whole minutes"),
        ("every day every 10 seconds from 9:00 to 17:00", "step of hours or minutes"),
        ("FREQ=SECONDLY;INTERVAL=10;BYHOUR=9", "BYHOUR does not go with FREQ=SECONDLY"),
        ("FREQ=SECONDLY;BYSECOND=0", "BYSECOND does not go with FREQ=SECONDLY"),
        ("FREQ=SECONDLY;INTERVAL=700000000", "from 1 to 630720000"),
    ],
)
def test_seconds_are_counted_all_day(text: str, said: str) -> None:
    assert said in refusal(text).problem


def test_occurrences_missed_in_an_outage_are_counted_without_a_walk() -> None:
    rule = parse("every 10 seconds")
    assert rule.count_between(START, START + timedelta(days=365)) == 365 * 8640
    assert rule.count_between(START - timedelta(days=9), START) == 1
    assert rule.count_between(START, START + timedelta(seconds=9)) == 0
    assert parse("every 10 seconds, 3 times").count_between(START - timedelta(seconds=1), START + timedelta(1)) == 3
    assert parse("every 10 seconds on mondays").count_between(START, START + timedelta(1)) is None
    assert parse("every day").count_between(START, START + timedelta(1)) is None


@pytest.mark.parametrize("text", ["every 4 minutes", "*/4 * * * *", "0,3 9 * * *", "every day at 23:58 and 0:01"])
def test_nothing_recurs_more_often_than_the_minimum(text: str) -> None:
    parse(text)
    assert "more often than every 5 min" in refusal(text, minimum=timedelta(minutes=5)).problem


def test_times_either_side_of_midnight_count_only_where_the_days_meet() -> None:
    recurrence.parse("0 0,23 * * 1", zone=ZONE, anchor=START, minimum=timedelta(hours=2))
    refusal("0 0,23 * * *", minimum=timedelta(hours=2))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("biweekly", "twice"),
        ("every second monday", "every 2 weeks on monday"),
        ("every month on monday", "every month on the first monday"),
        ("every day on the 1st", "every month on the 1st"),
        ("every month on the 1st and monday", "cannot be mixed"),
        ("yearly on the 3rd", "needs its month"),
        ("every year on 3 march and 5 june", "a task each"),
        ("every 2 hours at 9:00", "no time of day"),
        ("every day at :15", "every hour"),
        ("every 15 minutes between breakfast and lunch", "every 15 minutes between 08:00 and 12:30"),
        ("every weekday after lunch", "every weekday at 13:00"),
        ("every 15 minutes during office hours", "every 15 minutes between 9:00 and 17:00"),
        ("every day between 9 and 17", "every day every hour from 09:00 to 17:00"),
        ("every 10 hours between 9 and 17", "every day at 09:00"),
        ("every 2 hours between 9 and 5", "between 09:00 and 17:00 or every 2 hours between 09:00 and 05:00"),
        ("every 2 hours between 1 and 5pm", "between 13:00 and 17:00 or every 2 hours between 01:00 and 17:00"),
        ("every hour between 22:00 and 6:00 on fridays", "every hour from 22:00 to 23:59 on fridays"),
        ("every second tuesday at 10:00", "every 2 weeks on tuesday at 10:00"),
        ("every second tuesday at 10:00", "on the second tuesday of every month at 10:00"),
        ("every 3rd friday", "every 3 weeks on friday or on the 3rd friday of every month"),
        ("twice a day", "every day at 9:00 and 17:00"),
        ("twice a day at 9", "needs 2 times of day"),
        ("3 times a day on weekdays", "every day at 9:00, 13:00 and 17:00 on weekdays"),
        ("twice a week at 10:00", "every monday and thursday at 10:00"),
        ("three times a week on mon, wed and fri", "every mon, wed and fri"),
        ("twice a month", "every month on day 1 and day 16"),
        ("twice an hour", "every 30 minutes"),
        ("6 times a year", "every 2 months on the 1st"),
        ("except fridays", "every day except fridays"),
        ("every week except fridays", "every day except fridays"),
        ("every monday except fridays", "does not have"),
        ("every weekday except mon-fri", "every day that it has"),
        ("every day except the 1st", "repeat='every day', repeat_policy={'except': ["),
        ("every day starting tomorrow", "`when`"),
        ("every 0 minutes", "interval"),
        ("every day at 9:00 at 10:00", "joined by `and`"),
        ("every evening at 6 and 8", "half of the day"),
        ("every morning at 14:00", "not in the morning"),
        ("*/90 * * * *", "steps of 90"),
        ("every tuesday or thursday", "not understood"),
        ("every friday the 13th", "BYDAY=FR;BYMONTHDAY=13"),
        ("every 90 minutes and 2 days", "either of the calendar"),
        ("every day 5000 times", "1 to 1000"),
        ("every 50 years", "20 years"),
        ("every day at 25:00", "25:00"),
        ("60 * * * *", "minute goes from 0 to 59"),
        ("0 9 * * 8", "day of week goes from 0 to 7"),
        ("0 9 * * fri-mon", "day of week"),
        ("0 9 * * 1#2", "day of week cannot be"),
        ("0 9 * *", "five fields"),
        ("*/0 * * * *", "minute"),
        ("FREQ=FORTNIGHTLY", "FREQ has to be one of"),
        ("FREQ=DAILY;INTERVAL=0", "INTERVAL has to be a number from 1"),
        ("FREQ=DAILY;BYDAYS=MO", "did you mean BYDAY"),
        ("FREQ=DAILY;BYWEEKNO=1", "BYWEEKNO is not among"),
        ("FREQ=DAILY;FREQ=DAILY", "twice"),
        ("FREQ=DAILY;COUNT=3;UNTIL=20270101", "exclude each other"),
        ("FREQ=DAILY;UNTIL=20270230", "UNTIL cannot be"),
        ("FREQ=DAILY;UNTIL=20200101", "ends on Wed 1 Jan 2020 23:59, before it first fires"),
        ("FREQ=WEEKLY;BYDAY=1MO", "no ordinals"),
        ("FREQ=WEEKLY;BYMONTHDAY=1", "does not go with"),
        ("FREQ=MONTHLY;BYDAY=6MO", "ordinals go to 5"),
        ("FREQ=MONTHLY;BYMONTHDAY=0", "no day 0"),
        ("DTSTART=20261121T090000;FREQ=DAILY", "`when`"),
        ("FREQ=WEEKLY;WKST=SU", "only WKST=MO"),
        ("at 9:00", "on which days every day at 9:00"),
        ("whenever", "not understood"),
        ("", "it has 0 characters; 1 to 200 are accepted"),
    ],
)
def test_a_wrong_rule_is_refused_with_an_example_that_works(text: str, said: str) -> None:
    error = refusal(text)
    assert said in f"{error.problem} {error.example}"
    assert "every weekday at 9:00" in error.accepted
    for example in error.example.split(" or "):
        rule = re.match("repeat='([^']*)'", example)
        parse(rule[1] if rule else example)


def test_an_unknown_zone_is_refused_by_name() -> None:
    with pytest.raises(InvalidArgument, match="America/New_York"):
        recurrence.parse("daily", zone="America/New_Yrok", anchor=START)


def test_the_search_ends_at_the_end_of_the_calendar() -> None:
    for text in ("every day at 9:00", "every 15 minutes", "0 0 29 2 *", "*/7 * * * 1"):
        assert parse(text).upcoming(datetime(9999, 12, 31, 23, 50, tzinfo=UTC), 5) == ()


@pytest.mark.parametrize("text", ["every weekday friday at 9:00", "every monday on tuesday", "mondays at noon fridays"])
def test_days_that_are_named_twice_are_refused_since_one_of_them_was_not_meant(text: str) -> None:
    with pytest.raises(InvalidArgument, match="names its days twice"):
        recurrence.parse(text, zone="UTC", anchor=datetime(2026, 11, 21, tzinfo=UTC))


@pytest.mark.parametrize("text", ["", " ", "once"])
def test_a_text_without_a_rule_names_no_times(text: str) -> None:
    assert not recurrence.names_times(text, now=START)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("every quarter at 9:00", "FREQ=MONTHLY;INTERVAL=3;BYHOUR=9;BYMINUTE=0"),
        ("every quarter on the 1st", "FREQ=MONTHLY;INTERVAL=3;BYMONTHDAY=1"),
        ("every day for 5 days", "FREQ=DAILY;COUNT=5"),
        ("every day for a week", "FREQ=DAILY;COUNT=7"),
        ("every day at 8:00 and 18:00 for 5 days", "FREQ=DAILY;BYHOUR=8,18;BYMINUTE=0;COUNT=10"),
        ("every day for 5 days at 8:00 and 18:00", "FREQ=DAILY;BYHOUR=8,18;BYMINUTE=0;COUNT=10"),
        ("every weekday at 9:00 for 2 weeks", "FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR;BYHOUR=9;BYMINUTE=0;COUNT=10"),
        ("every hour for 5 hours", "FREQ=HOURLY;COUNT=5"),
        ("every day at half past nine", "FREQ=DAILY;BYHOUR=9;BYMINUTE=30"),
    ],
)
def test_quarters_and_lengths_of_a_series_are_understood(text: str, rule: str) -> None:
    assert parse(text).rule == rule


@pytest.mark.parametrize("text", ["every 2 days for 5 days", "every month for 10 days", "every day for 2000 days"])
def test_a_length_that_says_no_clear_number_of_times_is_refused_with_one(text: str) -> None:
    assert "times" in refusal(text).example


def test_a_quarter_of_an_hour_is_no_quarter_of_a_year() -> None:
    refusal("every quarter hour")
    assert parse("every quarter of an hour").rule == parse("every 15 minutes").rule
