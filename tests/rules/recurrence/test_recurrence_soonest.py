"""A recurrence that nobody gave a start begins where people expect it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from duetime.scheduler.rules.recurrence.recurrence import soonest

NOW = datetime(2026, 11, 25, 17, 0, 30, tzinfo=UTC)  # a Wednesday, 10:00:30 in Denver


@pytest.mark.parametrize(
    ("text", "first", "second"),
    [
        ("every 2 weeks on monday", "2026-11-30T09:00:00", "2026-12-14T09:00:00"),
        ("every 2 weeks", "2026-12-09T09:00:00", "2026-12-23T09:00:00"),
        ("every weekday at 9:00", "2026-11-26T09:00:00", "2026-11-27T09:00:00"),
        ("every day at 11:00", "2026-11-25T11:00:00", "2026-11-26T11:00:00"),
        ("weekly", "2026-12-02T09:00:00", "2026-12-09T09:00:00"),
        ("every 3 months on the 1st", "2026-12-01T09:00:00", "2027-03-01T09:00:00"),
        ("every 15 minutes", "2026-11-25T10:15:30", "2026-11-25T10:30:30"),
        ("*/15 * * * *", "2026-11-25T10:15:00", "2026-11-25T10:30:00"),
    ],
)
def test_it_begins_with_the_first_match_after_now(text: str, first: str, second: str) -> None:
    rule, _ = soonest(text, zone="America/Denver", now=NOW)
    assert [found.wall.isoformat() for found in rule.upcoming(NOW, 2)] == [first, second]


def test_a_count_counts_from_the_first_occurrence() -> None:
    rule, _ = soonest("every 15 minutes, 3 times", zone="UTC", now=NOW)
    assert len(rule.upcoming(NOW, 9)) == 3


def test_an_assumed_time_of_day_is_said_and_no_other_is() -> None:
    assert soonest("every monday", zone="UTC", now=NOW)[1] == ("no time given: 09:00 assumed",)
    assert soonest("every monday at 8:00", zone="UTC", now=NOW)[1] == ()
    assert soonest("every 2 hours", zone="UTC", now=NOW)[1] == ()
