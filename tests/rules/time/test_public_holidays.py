"""Public holidays of a configured country: as a time, among business days, and left out of a recurrence."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.rules.recurrence import recurrence
from duetime.scheduler.rules.recurrence.calendar_days import MAX_HOLIDAY_YEARS_SEARCHED
from duetime.scheduler.rules.recurrence.recurrence import Recurrence
from duetime.scheduler.rules.time import times
from duetime.scheduler.rules.time.days import public_holidays
from duetime.scheduler.rules.time.viewpoint import Frame

ZONE = "America/Edmonton"
NOW = datetime(2026, 12, 18, 14, 0, tzinfo=UTC)
"""A Friday, 08:00 in Edmonton."""


def wall(text: str, calendar: str = "CA-AB") -> str:
    found = times.resolve(text, now=NOW, zone=ZONE, frame=Frame(holidays=calendar))
    return found.wall.isoformat(timespec="minutes")


def parse(text: str, calendar: str = "CA-AB") -> Recurrence:
    return recurrence.parse(text, zone=ZONE, anchor=NOW, holidays=calendar)


def days(rule: Recurrence, count: int = 7) -> list[str]:
    return [f"{found.wall:%d %b}" for found in rule.upcoming(NOW, count)]


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("next public holiday", "2026-12-25T09:00"),
        ("on the next public holiday at 10:00", "2026-12-25T10:00"),
        ("the day after the next bank holiday", "2026-12-26T09:00"),
        ("christmas day", "2026-12-25T09:00"),
        ("family day at 8:00", "2027-02-15T08:00"),
        ("good friday", "2027-03-26T09:00"),
        ("thanksgiving", "2027-10-11T09:00"),
        ("labour day", "2027-09-06T09:00"),
        ("labor day 2028", "2028-09-04T09:00"),
        ("in 5 business days", "2026-12-28T09:00"),
    ],
)
def test_a_holiday_of_the_configured_country_is_a_day(text: str, meant: str) -> None:
    assert wall(text) == meant


def test_a_holiday_is_that_of_the_country() -> None:
    assert wall("easter monday", "DE-BY") == "2027-03-29T09:00"
    assert wall("easter monday", "GR") == "2027-05-03T09:00"
    with pytest.raises(InvalidArgument, match="depends on the country"):
        wall("easter monday")


def test_the_answer_says_which_holiday_it_is() -> None:
    said = times.resolve("next public holiday", now=NOW, zone=ZONE, frame=Frame(holidays="CA-AB")).assumptions
    assert "the next public holiday in CA-AB is Christmas Day, Fri 25 Dec 2026" in said


def test_business_days_say_whether_holidays_are_known() -> None:
    known = times.resolve("in 5 business days", now=NOW, zone=ZONE, frame=Frame(holidays="CA-AB"))
    unknown = times.resolve("in 5 business days", now=NOW, zone=ZONE)
    assert any("without the public holidays of CA-AB" in said for said in known.assumptions)
    assert any("holidays are not known" in said for said in unknown.assumptions)


@pytest.mark.parametrize(
    ("text", "rule", "words"),
    [
        (
            "every weekday at 9:00 except public holidays",
            "FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR;BYHOUR=9;BYMINUTE=0;X-EXCEPT-HOLIDAYS=CA-AB",
            "every weekday at 09:00 except public holidays in CA-AB",
        ),
        (
            "every weekday except on bank holidays in DE-BY",
            "FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR;X-EXCEPT-HOLIDAYS=DE-BY",
            "every weekday at 08:00 except public holidays in DE-BY",
        ),
        (
            "every day except fridays and public holidays until june",
            "FREQ=DAILY;BYDAY=MO,TU,WE,TH,SA,SU;X-EXCEPT-HOLIDAYS=CA-AB;UNTIL=20270531",
            "every day except Friday at 08:00 except public holidays in CA-AB until 31 May 2027",
        ),
        (
            "every 15 minutes between 9:00 and 17:00 except public holidays",
            "every day, every 15 minutes from 09:00 to 17:00 except public holidays in CA-AB",
            None,
        ),
        ("every 2 hours except public holidays", "FREQ=HOURLY;INTERVAL=2;X-EXCEPT-HOLIDAYS=CA-AB", None),
    ],
)
def test_the_stored_rule_names_the_calendar_that_it_leaves_out(text: str, rule: str, words: str | None) -> None:
    found = parse(text)
    assert found.rule == rule
    assert words in {None, found.text}
    assert parse(found.rule, "") == found
    assert parse(found.text, "").upcoming(NOW, 60) == found.upcoming(NOW, 60)


@pytest.mark.parametrize(
    ("country", "code"), [("Germany", "DE"), ("the United States", "US"), ("united kingdom until friday", "GB")]
)
@pytest.mark.parametrize("calendar", ["", "CA-AB"])
def test_a_country_may_be_named(country: str, code: str, calendar: str) -> None:
    found = parse(f"every weekday at 9:00 except public holidays in {country}", calendar)
    assert found.text.startswith(f"every weekday at 09:00 except public holidays in {code}")


def test_a_rule_does_not_fall_on_a_holiday_that_it_leaves_out() -> None:
    assert days(parse("every weekday at 9:00 except public holidays")) == [
        "18 Dec", "21 Dec", "22 Dec", "23 Dec", "24 Dec", "28 Dec", "29 Dec",
    ]  # fmt: skip
    assert "26 Mar" not in days(parse("every friday at 9:00 except public holidays"), 40)


def test_hours_that_are_counted_leave_out_the_whole_day() -> None:
    found = parse("every 2 hours except public holidays").upcoming(datetime(2026, 12, 25, tzinfo=UTC), 20)
    assert not [one for one in found if one.wall.date().isoformat() == "2026-12-25"]
    assert {(later.instant - earlier.instant) % timedelta(hours=2) for earlier, later in pairwise(found)} == {
        timedelta()
    }


def test_without_a_country_an_exception_of_holidays_is_refused_with_one() -> None:
    with pytest.raises(InvalidArgument, match="names no country") as refused:
        parse("every weekday except public holidays", "")
    assert parse(refused.value.example, "").rule.endswith("X-EXCEPT-HOLIDAYS=CA-AB")


@pytest.mark.parametrize(
    "text",
    [
        "FREQ=DAILY;X-EXCEPT-HOLIDAYS=XX",
        "FREQ=DAILY;X-EXCEPT-HOLIDAYS=CA-ZZ",
        "FREQ=DAILY;X-EXCEPT-HOLIDAYS=CANADA",
        "every weekday except public holidays in zz",
        "every public holiday",
        "every year on 25 december except public holidays",
        "FREQ=YEARLY;BYMONTH=12;BYMONTHDAY=26;COUNT=1000;X-EXCEPT-HOLIDAYS=CN",
    ],
)
def test_an_unknown_calendar_or_a_rule_that_never_fires_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        parse(text)
    parse(refused.value.example)


def test_no_more_than_twenty_years_of_a_calendar_are_worked_out_for_one_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: set[int] = set()
    real = public_holidays.days

    def days_of(calendar: str, year: int) -> object:
        asked.add(year)
        return real(calendar, year)

    monkeypatch.setattr(public_holidays, "days", days_of)
    public_holidays.year_bits.cache_clear()
    recurrence._parse.cache_clear()
    for text in (
        "every year on 1 january at 0:00 and 23:59 except public holidays in IS",
        "FREQ=YEARLY;BYMONTH=12;BYMONTHDAY=28;COUNT=1000;X-EXCEPT-HOLIDAYS=IS",
    ):
        with pytest.raises(InvalidArgument):
            parse(text)
    assert len(asked) <= MAX_HOLIDAY_YEARS_SEARCHED + 2


def test_a_calendar_is_named_by_its_nearest_neighbours_when_there_is_none() -> None:
    assert public_holidays.find("ca-ab") == "CA-AB"
    with pytest.raises(InvalidArgument) as refused:
        public_holidays.find("CA-AX")
    assert public_holidays.find(refused.value.example)


def test_the_package_is_loaded_by_the_first_question_only() -> None:
    script = (
        "import sys, duetime.scheduler.intake.planner, duetime.server.settings.model\n"
        "from datetime import datetime, UTC\n"
        "from duetime.scheduler.rules.time import times\n"
        "times.resolve('tomorrow 9:00', now=datetime(2026, 11, 21, tzinfo=UTC), zone='UTC')\n"
        "sys.exit('holidays' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False, timeout=60).returncode == 0


def test_business_days_of_a_month_are_counted_without_its_holidays() -> None:
    first = parse("first business day of every month at 9:00")
    assert days(first, 3) == ["04 Jan", "01 Feb", "01 Mar"]
    assert first.text == "every month on the first weekday that is no public holiday in CA-AB at 09:00"
    assert days(parse(first.text, ""), 3) == days(parse(first.rule, ""), 3) == days(first, 3)
    assert days(parse("first weekday of every month at 9:00"), 1) == ["01 Jan"]
    both = parse("every month on the first and last business day at 9:00")
    assert both.text == "every month on the first and last weekday that is no public holiday in CA-AB at 09:00"
    assert days(parse(both.text, ""), 4) == days(both, 4) == ["31 Dec", "04 Jan", "29 Jan", "01 Feb"]


def test_every_business_day_leaves_out_the_holidays_that_are_known() -> None:
    assert days(parse("every business day at 9:00"), 4) == ["18 Dec", "21 Dec", "22 Dec", "23 Dec"]
    assert "25 Dec" not in days(parse("every business day at 9:00"), 10)
    assert "25 Dec" in days(parse("every business day at 9:00", ""), 10)
    assert "25 Dec" in days(parse("every weekday at 9:00"), 10)
