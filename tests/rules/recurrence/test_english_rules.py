"""Rules as people say them, beyond the plain forms: each is read right, or refused with an example that keeps it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.rules.recurrence import recurrence
from duetime.scheduler.rules.recurrence.recurrence import Recurrence
from duetime.scheduler.rules.time import zones

HOME = zones.load("America/New_York")
NOW = datetime(2026, 11, 21, 9, 20, tzinfo=HOME).astimezone(UTC)
"""A Saturday."""

READ = [
    ("every 15 minutes for 2 hours", 8, "2026-11-21T09:35", "2026-11-21T11:20"),
    ("every minute for 10 minutes", 10, "2026-11-21T09:21", "2026-11-21T09:30"),
    ("every 90 minutes for 3 hours", 2, "2026-11-21T10:50", "2026-11-21T12:20"),
    ("every 30 minutes for a day", 48, "2026-11-21T09:50", "2026-11-22T09:20"),
    ("every hour at :15 and :45 for 2 hours", 4, "2026-11-21T09:45", "2026-11-21T11:15"),
    ("every 2 days at 9:00 for 10 days", 5, "2026-11-23T09:00", "2026-12-01T09:00"),
    ("every 2 weeks on monday at 9:00 for 8 weeks", 4, "2026-11-23T09:00", "2027-01-04T09:00"),
    ("every month on the 1st and 15th at 9:00 for 2 months", 4, "2026-12-01T09:00", "2027-01-15T09:00"),
    ("every 2 months on the 1st at 9:00 for a year", 6, "2026-12-01T09:00", "2027-10-01T09:00"),
    ("every 15 minutes until 12:00", None, "2026-11-21T09:35", "2026-11-21T11:50"),
    ("every 15 minutes until noon", None, "2026-11-21T09:35", "2026-11-21T11:50"),
    ("hourly until 9:00", None, "2026-11-21T10:20", "2026-11-22T08:20"),
]
WITHOUT_END = [
    ("M/W/F 9:30", "2026-11-23T09:30", "2026-11-25T09:30"),
    ("every Tu/Th at 14:00", "2026-11-24T14:00", "2026-11-26T14:00"),
    ("MWF at 9:00", "2026-11-23T09:00", "2026-11-25T09:00"),
    ("every night at midnight", "2026-11-22T00:00", "2026-11-23T00:00"),
    ("the day before the 1st of each month at 9:00", "2026-11-30T09:00", "2026-12-31T09:00"),
    ("every month on the day before the 15th at noon", "2026-12-14T12:00", "2027-01-14T12:00"),
    ("two days before the 1st of every month at noon", "2026-11-29T12:00", "2026-12-30T12:00"),
    ("3 days before the 2nd of each month at noon", "2026-11-29T12:00", "2026-12-30T12:00"),
    ("every hour at quarter past", "2026-11-21T10:15", "2026-11-21T11:15"),
    ("every hour at a quarter past", "2026-11-21T10:15", "2026-11-21T11:15"),
    ("every hour at half past", "2026-11-21T09:30", "2026-11-21T10:30"),
    ("hourly at quarter to", "2026-11-21T09:45", "2026-11-21T10:45"),
    ("every hour on the hour", "2026-11-21T10:00", "2026-11-21T11:00"),
    ("every weekday at 0930", "2026-11-23T09:30", "2026-11-24T09:30"),
    ("every weekday at 9.30 and 17.30", "2026-11-23T09:30", "2026-11-23T17:30"),
    ("every day at quarter past nine", "2026-11-22T09:15", "2026-11-23T09:15"),
    ("last business day of every month at 9:00", "2026-11-30T09:00", "2026-12-31T09:00"),
    ("every month on the last weekday at noon", "2026-11-30T12:00", "2026-12-31T12:00"),
    ("every first working day of the month at 8:00", "2026-12-01T08:00", "2027-01-01T08:00"),
    ("on the 3rd business day of every month at 9 and 17", "2026-12-03T09:00", "2026-12-03T17:00"),
    ("every year on the last business day of march at 9", "2027-03-31T09:00", "2028-03-31T09:00"),
    ("every 3 months on the last business day at 9", "2026-11-30T09:00", "2027-02-26T09:00"),
    ("last business day of every quarter at 17:00", "2026-12-31T17:00", "2027-03-31T17:00"),
    ("first monday of each quarter at 9", "2027-01-04T09:00", "2027-04-05T09:00"),
    ("end of quarter at noon", "2026-12-31T12:00", "2027-03-31T12:00"),
    ("every quarter end at noon", "2026-12-31T12:00", "2027-03-31T12:00"),
    ("quarterly on the last day at noon", "2026-12-31T12:00", "2027-03-31T12:00"),
    ("every quarter on the last friday at noon", "2026-12-25T12:00", "2027-03-26T12:00"),
    ("every quarter on the last day of the month at noon", "2026-11-30T12:00", "2027-02-28T12:00"),
    ("at the start of every quarter at noon", "2027-01-01T12:00", "2027-04-01T12:00"),
    ("beginning of the month at noon", "2026-12-01T12:00", "2027-01-01T12:00"),
    ("end of year at noon", "2026-12-31T12:00", "2027-12-31T12:00"),
    ("last friday of the year at noon", "2026-12-25T12:00", "2027-12-31T12:00"),
    ("monthly at month end at noon", "2026-11-30T12:00", "2026-12-31T12:00"),
    ("every second business day of the month at 9:00", "2026-12-02T09:00", "2027-01-04T09:00"),
    ("FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1,1;BYHOUR=9", "2026-11-30T09:00", "2026-12-01T09:00"),
]
LAST_WORKDAY = "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1;BYHOUR=9"
REFUSED = [
    ("mondays 9-11", "mondays every hour from 9 to 11"),
    ("every weekday 9:00-17:00", "every weekday every hour from 9:00 to 17:00"),
    ("every 15 min 9-17", "every 15 min from 9 to 17"),
    ("every 45 minutes for 2 hours", "every 45 minutes, 2 times or every 45 minutes, 3 times"),
    ("every 15 minutes until 5", "every 15 minutes until 17:00 or every 15 minutes until 05:00"),
    ("every day at quarter past", "every hour at :15"),
    ("every second business day at 8:00", "on the second business day of every month at 8:00"),
    ("every other weekday at 8:00", "every 2 days at 8:00 or every 2 weeks on weekdays at 8:00"),
    ("the 15th of every quarter", "every 3 months on the 15th"),
    ("the last business day and friday of every month", "every month on the last business day"),
    ("every week on the last business day", "every month on the last business day"),
    ("the 24th business day of every month", "every month on the last business day"),
    ("last weekday of every month except fridays", "every day except fridays"),
    ("FREQ=MONTHLY;BYDAY=SA,SU;BYSETPOS=1", LAST_WORKDAY),
    ("FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=1", LAST_WORKDAY),
    ("FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=0", LAST_WORKDAY),
    ("FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1;BYHOUR=9,17", LAST_WORKDAY),
]


def soonest(text: str, now: datetime = NOW) -> Recurrence:
    return recurrence.soonest(text, zone=HOME.key, now=now)[0]


def walls(found: Recurrence, count: int) -> list[str]:
    return [f"{each.wall:%Y-%m-%dT%H:%M}" for each in found.upcoming(NOW, count)]


@pytest.mark.parametrize(("text", "count", "first", "last"), READ)
def test_a_rule_for_a_length_of_time_or_until_a_time_of_day_ends_then(
    text: str, count: int | None, first: str, last: str
) -> None:
    found = soonest(text)
    shown = walls(found, 100)
    assert (found.count, shown[0], shown[-1]) == (count, first, last)
    assert recurrence.parse(found.rule, zone=found.zone, anchor=found.anchor) == found


@pytest.mark.parametrize(("text", "first", "second"), WITHOUT_END)
def test_a_rule_is_read_as_it_is_meant(text: str, first: str, second: str) -> None:
    found = soonest(text)
    assert walls(found, 2) == [first, second]
    assert recurrence.parse(found.rule, zone=found.zone, anchor=found.anchor) == found


@pytest.mark.parametrize(("text", "example"), REFUSED)
def test_a_refusal_keeps_what_was_said(text: str, example: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        soonest(text)
    assert refused.value.example == example


def test_a_time_of_day_that_ends_a_rule_is_the_first_after_its_start() -> None:
    tomorrow = datetime(2026, 11, 22, 9, 0, tzinfo=HOME)
    found = recurrence.parse("every hour until noon", zone=HOME.key, anchor=tomorrow)
    assert [f"{each.wall:%d %H:%M}" for each in found.upcoming(NOW, 9)] == [f"22 {hour:02}:00" for hour in range(9, 13)]


@pytest.mark.parametrize("minute", [50, 59])
def test_a_rule_that_ends_before_it_first_fires_is_refused(minute: int) -> None:
    now = datetime(2026, 11, 21, 11, minute, tzinfo=HOME).astimezone(UTC)
    with pytest.raises(InvalidArgument, match=r"ends on Sat 21 Nov 2026 12:00, before it first fires"):
        soonest("every 15 minutes until 12:00", now)


@pytest.mark.parametrize(
    "text",
    [
        "every 15 minutes until 12:00 on weekdays",
        "every 15 minutes on weekdays until 12:00",
        "every 15 minutes in july until 12:00",
        "every 15 minutes until 12:00 except public holidays in US",
    ],
)
def test_a_time_of_day_does_not_end_a_rule_with_days_which_may_begin_again_on_each(text: str) -> None:
    with pytest.raises(InvalidArgument):
        soonest(text)


@pytest.mark.parametrize(
    "text",
    [
        "every day for 1430 times",
        "the day before the 31st of each month",
        "every hour on mondays for 2 days",
    ],
)
def test_a_rule_with_two_meanings_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument):
        soonest(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [("P1D", "every day"), ("P2W", "every 2 weeks"), ("p3m", "every 3 months"), ("P1Y", "every year")],
)
def test_a_length_of_the_calendar_in_iso_8601_is_an_interval(text: str, words: str) -> None:
    found, said = (recurrence.parse(each, zone=HOME.key, anchor=NOW) for each in (text, words))
    assert found == said
