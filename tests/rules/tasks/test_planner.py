"""The times of one request are read together: all that is wrong is said at once, in words of the task's zone."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from duetime.scheduler.calls.reschedule import Reschedule
from duetime.scheduler.errors import InvalidArgument, InvalidArguments
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake import instants
from duetime.scheduler.intake.changes.reschedule import decide_reschedule
from duetime.scheduler.intake.instants import Timing
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.principal import LOCAL
from duetime.scheduler.request import Request, ScheduleArguments
from duetime.scheduler.views import TaskRecord

NOW = datetime(2026, 11, 21, 17, 0, 5, tzinfo=UTC)
"""A Saturday, 12:00:05 in New York."""
INTAKE = Planner(Handlers.load(entry_points=False), "America/New_York")
EVERY_DAY = "every day at 9:00"


def timing(given: ScheduleArguments) -> Timing:
    return INTAKE.times.timing(Request.of("Call John", given), NOW)


def problems(given: ScheduleArguments) -> list[InvalidArgument]:
    try:
        timing(given)
    except InvalidArguments as several:
        return list(several.problems)
    except InvalidArgument as problem:
        return [problem]
    return []


def test_all_that_is_wrong_with_the_times_is_said_at_once_and_in_order() -> None:
    found = problems(
        {"when": "in 5", "timezone": "Berlin", "repeat": "every 3rd tuesday", "until": "soon", "max_runs": 0}
    )
    assert [problem.argument for problem in found] == ["when", "timezone", "repeat", "until", "max_runs"]
    assert [problem.example for problem in found] == [
        "in 5 minutes",
        "Europe/Berlin",
        "every 3 weeks on tuesday or on the 3rd tuesday of every month",
        "in 1 hour",
        "max_runs=10",
    ]


@pytest.mark.parametrize(
    ("given", "arguments"),
    [
        ({"until": "friday", "max_runs": 3}, ["when", "until", "max_runs"]),
        ({"when": "soon", "timezone": "Mars"}, ["when", "timezone"]),
        ({"when": "tomorrow", "timezone": "Mars"}, ["timezone"]),
        ({"timezone": "Mars", "repeat": EVERY_DAY}, ["timezone"]),
        ({"when": "soon", "repeat": EVERY_DAY, "until": "friday"}, ["when"]),
        ({"repeat": "sometimes", "until": "friday", "max_runs": 3}, ["repeat"]),
        ({"repeat": EVERY_DAY, "until": "soon"}, ["until"]),
    ],
)
def test_a_right_argument_is_not_blamed_for_a_wrong_one(given: ScheduleArguments, arguments: list[str]) -> None:
    assert [problem.argument for problem in problems(given)] == arguments


def test_the_whole_request_is_judged_in_the_order_of_its_arguments() -> None:
    request = Request("", when="soon", timezone="Mars", action="dance", idempotency_key="", labels=[""])
    with pytest.raises(InvalidArguments) as caught:
        INTAKE.plan(request, by=LOCAL, now=NOW)
    named = [problem.argument for problem in caught.value.problems]
    assert named == ["title", "when", "timezone", "action", "idempotency_key", "labels"]


@pytest.mark.parametrize("repeat", ["every day at 9 until friday", "FREQ=DAILY;BYHOUR=9;UNTIL=20261127"])
def test_a_recurrence_has_one_end(repeat: str) -> None:
    (problem,) = problems({"repeat": repeat, "until": "monday"})
    assert problem.problem == "repeat already ends at 27 November 2026, and a task has only one end"
    assert problem.example == "repeat='every day at 09:00', until='2026-11-23'"
    assert timing({"repeat": "every day at 09:00", "until": "monday"}).until is not None


def test_an_end_before_the_first_occurrence_is_said_in_the_zone_of_the_task() -> None:
    (problem,) = problems({"repeat": EVERY_DAY, "timezone": "Asia/Tokyo", "until": "2026-11-22 08:00"})
    assert problem.problem == ("Sun 22 Nov 2026 08:00 is before the next occurrence, Sun 22 Nov 2026 09:00 Asia/Tokyo")
    corrected = timing({"repeat": EVERY_DAY, "timezone": "Asia/Tokyo", "until": problem.example})
    assert corrected.first == datetime(2026, 11, 22, tzinfo=UTC)


def test_an_end_inside_repeat_before_its_first_occurrence_is_said_in_the_zone_of_the_task() -> None:
    (problem,) = problems({"repeat": "every day at 9 until 2026-11-20"})
    assert "ends on Fri 20 Nov 2026 23:59, before it first fires" in problem.problem


def test_a_past_instant_is_said_in_the_zone_of_the_task() -> None:
    (problem,) = problems({"when": NOW - timedelta(hours=5)})
    assert problem.problem == "Sat 21 Nov 2026 07:00 America/New_York is in the past: it was 5 h ago"
    assert not problem.accepted


@pytest.mark.parametrize(
    "when",
    [
        NOW - timedelta(milliseconds=1),
        NOW - timedelta(seconds=4.9),
        (NOW - timedelta(seconds=1)).astimezone(ZoneInfo("America/New_York")).isoformat(),
        (NOW - timedelta(seconds=1)).astimezone(ZoneInfo("America/New_York")).replace(tzinfo=None),
        f"{(NOW - timedelta(seconds=2)).astimezone(ZoneInfo('America/New_York')):%Y-%m-%d %H:%M:%S}",
    ],
)
def test_an_instant_of_the_last_seconds_means_now(when: str | datetime) -> None:
    assert timing({"when": when}).first == NOW


@pytest.mark.parametrize("when", [NOW - timedelta(seconds=6), "2026-11-21 11:59:59"])
def test_an_instant_of_longer_ago_is_refused_as_past(when: str | datetime) -> None:
    (problem,) = problems({"when": when})
    assert "in the past" in problem.problem


@pytest.mark.parametrize(
    ("until", "end"),
    [
        ("today", "2026-11-21T23:59:59-05:00"),
        ("2026-11-21", "2026-11-21T23:59:59-05:00"),
        ("tomorrow", "2026-11-22T23:59:59-05:00"),
        ("tomorrow 9am", "2026-11-22T09:00:00-05:00"),
        ("in 2 hours", "2026-11-21T14:00:05-05:00"),
    ],
)
def test_a_date_as_an_end_is_the_whole_day_even_today(until: str, end: str) -> None:
    assert timing({"repeat": "every 15 minutes", "until": until}).until == datetime.fromisoformat(end)


def test_yesterday_is_no_end() -> None:
    (problem,) = problems({"repeat": "every 15 minutes", "until": "yesterday"})
    assert "is in the past" in problem.problem


@pytest.mark.parametrize("when", [timedelta(hours=2), NOW + timedelta(hours=2), "in 2 hours"])
def test_a_zone_may_be_written_in_any_case(when: str | datetime | timedelta) -> None:
    found = timing({"when": when, "timezone": "asia/tokyo"})
    assert (found.first, found.zone) == (NOW + timedelta(hours=2), "Asia/Tokyo")


def test_a_reschedule_gives_no_second_end_either() -> None:
    planned = INTAKE.plan(Request("Call John", repeat="every day at 9 until friday"), by=LOCAL, now=NOW)
    record = TaskRecord(planned.task, planned.run)
    with pytest.raises(InvalidArgument, match=r"^until: repeat already ends at 27 November 2026"):
        decide_reschedule(record, Reschedule(until="monday"), INTAKE, NOW)


INDIA = "2027-01-05T10:00:00+05:30"


@pytest.mark.parametrize("argument", ["when", "until", "deadline"])
def test_an_offset_stands_where_nobody_named_a_zone(argument: str) -> None:
    unnamed = replace(INTAKE, zone="UTC", zone_named=False)
    given: dict[str, dict[str, Any]] = {"when": {"when": INDIA}, "until": {"repeat": "daily", "until": INDIA}}
    given["deadline"] = {"when": "now", "deadline": INDIA}
    request = Request("Call John", **given[argument])
    planned = unnamed.plan(request, by=LOCAL, now=NOW)
    found = {"when": planned.run.scheduled_for, "until": planned.task.until, "deadline": planned.run.deadline}
    assert found[argument] == datetime.fromisoformat(INDIA)


def test_a_zone_in_the_text_stands_where_nobody_named_one() -> None:
    unnamed = replace(INTAKE, zone="UTC", zone_named=False)
    found = unnamed.times.timing(Request("Call John", when="2027-01-05 10:00 Asia/Kolkata"), NOW)
    assert (found.first, found.zone) == (datetime.fromisoformat(INDIA), "Asia/Kolkata")


@pytest.mark.parametrize("named", [{"timezone": "UTC"}, {}])
def test_an_offset_against_a_named_zone_is_refused_with_the_wall_time_and_the_instant(named: dict[str, Any]) -> None:
    home = replace(INTAKE, zone="UTC", zone_named=not named)
    with pytest.raises(InvalidArgument) as wrong:
        home.times.timing(Request("Call John", when=INDIA, **named), NOW)
    assert wrong.value.example == "2027-01-05T10:00:00 or 2027-01-05T04:30:00+00:00"


def test_a_moved_task_keeps_to_the_zone_that_its_caller_named() -> None:
    unnamed = replace(INTAKE, zone="UTC", zone_named=False)
    for zone, stands in ((None, True), ("Asia/Tokyo", False)):
        planned = unnamed.plan(Request("Call John", when="tomorrow 9am", timezone=zone), by=LOCAL, now=NOW)
        record, asked = TaskRecord(planned.task, planned.run), Reschedule(when=INDIA)
        if stands:
            change, _ = decide_reschedule(record, asked, unnamed, NOW)
            assert change.run.scheduled_for == datetime.fromisoformat(INDIA)
            continue
        with pytest.raises(InvalidArgument, match="contradicts Asia/Tokyo"):
            decide_reschedule(record, asked, unnamed, NOW)


@pytest.mark.parametrize(("repeat", "said"), [("every year on 29 february", True), ("yearly on 1 march", False)])
def test_a_first_occurrence_years_ahead_is_said(repeat: str, said: bool) -> None:
    far = "it first runs Tue 29 Feb 2028 09:00, more than a year ahead"
    assert (far in timing({"repeat": repeat}).assumptions) is said


def test_the_words_of_many_tasks_for_one_time_are_read_once_in_a_call_and_again_in_the_next() -> None:
    instants._understood.cache_clear()
    first = [timing({"when": "in 2 hours"}).first for _ in range(3)]
    later = INTAKE.times.timing(Request("Call John", when="in 2 hours"), NOW + timedelta(minutes=1))
    assert instants._understood.cache_info().misses == 2
    assert {later.first - it for it in first} == {timedelta(minutes=1)}


@pytest.mark.parametrize(
    ("when", "repeat"),
    [
        ("every monday 9am", "every monday 9am"),
        ("Daily 9am", "Daily 9am"),
        ("each morning", "each morning"),
        ("every second tuesday of the month", "every second tuesday of the month"),
        ("FREQ=DAILY", "FREQ=DAILY"),
    ],
)
def test_a_recurrence_that_is_given_as_a_time_is_shown_where_it_belongs(when: str, repeat: str) -> None:
    with pytest.raises(InvalidArgument, match="is a recurrence") as refused:
        timing({"when": when})
    assert refused.value.example == f"repeat={repeat!r}"


@pytest.mark.parametrize(
    ("when", "repeat", "first"),
    [
        ("tomorrow", "every day at 8:00", "2026-11-22 08:00"),
        ("2026-12-01", "every day at 8:00", "2026-12-01 08:00"),
        ("monday", "every weekday at 7:30", "2026-11-23 07:30"),
        ("next month", "every month on the 1st at 8:00", "2026-12-01 08:00"),
        ("tomorrow", "0 6 * * *", "2026-11-22 06:00"),
        ("today", "every day at 17:00", "2026-11-21 17:00"),
        ("2026-11-21", "every day at 17:00", "2026-11-21 17:00"),
        ("today", "every day at 8:00", "2026-11-22 08:00"),
        ("tomorrow", "every day", "2026-11-22 09:00"),
        ("tomorrow", "every 2 hours", "2026-11-22 09:00"),
        ("tomorrow at 9:00", "every day at 8:00", "2026-11-23 08:00"),
    ],
)
def test_a_day_without_a_time_is_a_whole_day_for_a_rule_that_has_times(when: str, repeat: str, first: str) -> None:
    found = timing({"when": when, "repeat": repeat})
    assert f"{found.first.astimezone(ZoneInfo('America/New_York')):%Y-%m-%d %H:%M}" == first
    assumed_nine = "no time given: 09:00 assumed" in found.assumptions
    assert assumed_nine == (repeat in {"every day", "every 2 hours"})


def test_a_day_that_has_passed_begins_no_recurrence() -> None:
    [problem] = problems({"when": "2026-11-20", "repeat": "every day at 17:00"})
    assert problem.argument == "when"
