"""Recurrences over a change of the clocks, in cases small enough to check by hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from duetime.scheduler.rules.recurrence import recurrence
from duetime.scheduler.rules.recurrence.recurrence import Recurrence

ZONE = "America/New_York"
SPRING = datetime(2027, 3, 13, 5, 0, tzinfo=UTC)  # midnight before the day before clocks go forward
AUTUMN = datetime(2027, 11, 6, 4, 0, tzinfo=UTC)


def parse(text: str, anchor: datetime, zone: str = ZONE) -> Recurrence:
    return recurrence.parse(text, zone=zone, anchor=anchor)


def utc(rule: Recurrence, after: datetime, count: int) -> list[str]:
    return [f"{found.instant:%d %H:%M}" for found in rule.upcoming(after, count)]


def noted(rule: Recurrence, count: int) -> tuple[str, ...]:
    return rule.notes(SPRING, rule.upcoming(SPRING, count))


def test_a_daily_time_in_the_gap_fires_at_the_first_valid_instant_and_says_so() -> None:
    rule = parse("every day at 2:30", SPRING)
    assert utc(rule, SPRING, 3) == ["13 07:30", "14 07:00", "15 06:30"]
    found = rule.upcoming(SPRING, 2)[1]
    assert found.wall == datetime.fromisoformat("2027-03-14T02:30")
    assert found.note is not None
    assert "does not exist" in found.note


def test_times_that_meet_in_one_instant_fire_once() -> None:
    assert utc(parse("0,30 2,3 * * *", SPRING), SPRING + timedelta(days=1), 3) == ["14 07:00", "14 07:30", "15 06:00"]


def test_a_daily_time_that_happens_twice_fires_in_the_first_pass_only() -> None:
    assert utc(parse("every day at 1:30", AUTUMN), AUTUMN, 3) == ["06 05:30", "07 05:30", "08 06:30"]
    second_pass = datetime(2027, 11, 7, 6, 10, tzinfo=UTC)
    assert utc(parse("* 1 * * *", AUTUMN), second_pass, 1) == ["08 06:00"]


def test_sub_daily_rules_fire_in_both_passes() -> None:
    start = datetime(2027, 11, 7, 5, 0, tzinfo=UTC)
    assert utc(parse("30 * * * *", AUTUMN), start, 3) == ["07 05:30", "07 06:30", "07 07:30"]
    assert utc(parse("every 30 minutes", AUTUMN), start, 3) == ["07 05:30", "07 06:00", "07 06:30"]


def test_a_rule_keeps_its_wall_time_when_it_starts_in_the_second_pass() -> None:
    anchor = datetime(2027, 11, 7, 6, 30, tzinfo=UTC)
    assert utc(parse("every day", anchor), anchor - timedelta(seconds=1), 1) == ["08 06:30"]


def test_half_hours_of_lord_howe() -> None:
    start = datetime(2026, 10, 3, 14, 0, tzinfo=UTC)
    rule = parse("every day at 2:15", start, "Australia/Lord_Howe")
    assert [found.instant.astimezone(UTC).strftime("%d %H:%M") for found in rule.upcoming(start, 2)] == [
        "03 15:30",
        "04 15:15",
    ]


def test_changes_among_the_next_occurrences_are_noted() -> None:
    rule = parse("every day at 9:00", SPRING)
    assert rule.notes(SPRING, rule.upcoming(SPRING, 5)) == ("14 Mar: clocks go forward",)
    assert rule.notes(SPRING, rule.upcoming(SPRING, 1)) == ()
    assert rule.notes(AUTUMN, rule.upcoming(AUTUMN, 5)) == ("7 Nov: clocks go back",)
    assert noted(parse("every day at 9:00", SPRING, "UTC"), 400) == ()


def test_a_moved_occurrence_is_noted_too() -> None:
    assert len(noted(parse("every day at 2:30", SPRING), 5)) == 2
