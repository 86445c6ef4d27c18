"""The long tail: a library reads what the rules do not, and is believed only when all of the text took part."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.intake.translated_phrases import translate
from duetime.scheduler.rules.time import times
from hypothesis import given
from hypothesis import strategies as st

from tests.search import examples

NOW = datetime(2026, 11, 21, 15, 0, tzinfo=UTC)
ZONE = "America/New_York"


def test_a_phrase_that_the_rules_know_is_theirs() -> None:
    assert translate("next tuesday", now=NOW, zone=ZONE) == times.resolve("next tuesday", now=NOW, zone=ZONE)


@pytest.mark.parametrize(
    ("text", "wall", "language"),
    [
        ("zítra v 9:00", "Sun 22 Nov 2026 09:00", "Czech"),
        ("jutro o 9:00", "Sun 22 Nov 2026 09:00", "Polish"),
        ("demain à 9h", "Sun 22 Nov 2026 09:00", "French"),
        ("mañana a las 9:00", "Sun 22 Nov 2026 09:00", "Spanish"),
        ("le 3 décembre à 14h30", "Thu 3 Dec 2026 14:30", "French"),
        ("übermorgen 14:30", "Mon 23 Nov 2026 14:30", "German"),
        ("morgen um 9 Uhr", "Sun 22 Nov 2026 09:00", "German"),
        ("morgen um 9 Uhr 30", "Sun 22 Nov 2026 09:30", "German"),
        ("übermorgen 14:30 Uhr", "Mon 23 Nov 2026 14:30", "German"),
        ("amanhã às 9:00", "Sun 22 Nov 2026 09:00", "Portuguese"),
        ("domani alle 9:00", "Sun 22 Nov 2026 09:00", "Italian"),
        ("le 24 novembre", "Tue 24 Nov 2026 09:00", "French"),
        ("24.12 9.30", "Thu 24 Dec 2026 09:30", "English"),
    ],
)
def test_other_ways_of_saying_are_read_and_said_back(text: str, wall: str, language: str) -> None:
    found = translate(text, now=NOW, zone=ZONE)
    assert times.describe(found.instant, ZONE) == wall
    assert f"read as {language}: {wall}" in found.assumptions


@pytest.mark.parametrize(("text", "hours"), [("in 2 Stunden", 2), ("em 2 horas", 2), ("dans 3 heures", 3)])
def test_durations_are_elapsed_time_even_where_clocks_change(text: str, hours: int) -> None:
    before_the_gap = datetime(2027, 3, 14, 6, 30, tzinfo=UTC)
    found = translate(text, now=before_the_gap, zone=ZONE)
    assert found.instant == before_the_gap + timedelta(hours=hours)


def test_a_date_without_a_time_says_what_it_assumes() -> None:
    assert "no time given: 09:00 assumed" in translate("le 24 novembre", now=NOW, zone=ZONE).assumptions


def test_a_time_in_the_gap_is_moved_and_said() -> None:
    before = datetime(2027, 3, 13, 15, 0, tzinfo=UTC)
    found = translate("demain à 2h30", now=before, zone=ZONE)
    assert found.wall == datetime.fromisoformat("2027-03-14T03:00")
    assert any("does not exist" in said for said in found.assumptions)


@pytest.mark.parametrize(
    "text",
    [
        "morgen von 9 bis 11 Uhr",
        "morgen 9 Uhr 75",
        "vendredi 15",  # ... reads the 15th
        "the day before tomorrow",  # ... reads tomorrow
        "tomorrow 9am PST",  # ... drops the zone
        "dec 24 9am JST",  # ... moves the time to UTC
        "5 dec 10.30pm SAMT",
        "le 24 novembre à 9h AMST",
        "le 24 novembre à 9h +0200",
        "24 dezember 9:00 (-0800)",
        "9:00 +2",
        "5 5",  # ... reads 5 May
        "10 10",
        "v 22 hodin",  # ... reads a length of time
        "3 pm 12 12",
        "in 1,000 hours",  # ... reads one hour
        "in 1.000 Stunden",
        "9h30",  # ... reads 01:00 in other languages
        "03-04-2027",  # day or month first
        "november 2026",  # the day is made up
        "il y a 2 heures",  # past
        "two days ago tomorrow",
        "not tomorrow",
        "5",
        "soon",
        "blah",
        "x" * 61,
    ],
)
def test_a_guess_of_the_library_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument):
        translate(text, now=NOW, zone=ZONE)


def test_no_zone_means_no_long_tail() -> None:
    with pytest.raises(times.NotUnderstood):
        translate("jutro o 9:00", now=NOW, zone=None)
    with pytest.raises(InvalidArgument, match="no time zone is known"):
        translate("demain à 9h", now=NOW, zone=None)


FOREIGN = [
    "demain", "à", "9h", "le", "24", "novembre", "morgen", "um", "uhr", "in", "2", "stunden", "mañana", "las",
    "9:00", "dans", "vendredi", "heures", "nicht", "3.", ":30",
]  # fmt: skip


@given(text=st.lists(st.sampled_from(FOREIGN), max_size=5).map(" ".join) | st.text(max_size=30))
@examples(60)
def test_every_text_is_a_future_time_or_an_invalid_argument(text: str) -> None:
    try:
        found = translate(text, now=NOW, zone=ZONE)
    except InvalidArgument:
        return
    assert found.instant >= NOW
    assert found.instant.tzinfo is UTC


def test_the_library_is_loaded_only_when_it_is_needed() -> None:
    code = "import sys, duetime.scheduler.intake.translated_phrases; sys.exit('dateparser' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
