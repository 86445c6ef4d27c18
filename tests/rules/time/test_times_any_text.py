"""Whatever is typed, the answer is a time or an error that teaches, and it comes at once."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.rules.recurrence import recurrence
from duetime.scheduler.rules.time import times
from duetime.scheduler.rules.time.days import public_holidays
from duetime.scheduler.rules.time.viewpoint import Frame
from hypothesis import example, given
from hypothesis import strategies as st

from tests.search import examples

NOW = datetime(2026, 11, 21, 17, 0, tzinfo=UTC)
WORDS = [
    "in", "on", "at", "the", "next", "this", "last", "first", "second", "of", "end", "a", "an", "and", "every",
    "other", "each", "once", "daily", "weekly", "monthly", "hourly", "until", "for", "times", "week", "month",
    "year", "day", "days", "weekday", "weekend", "business", "hour", "minutes", "min", "h", "m", "s", "monday",
    "tue", "fri", "nov", "november", "24", "24th", "5", "9am", "9", "17:30", ":15", "noon", "midnight", "morning",
    "tonight", "today", "tomorrow", "2026-11-24", "2027-02-30", "now", "from", "ago", "half", "pm", "utc", "-",
    ",", "/", "+", "PT2H", "P1M", "0", "99999999999999999999", "1.5", "31st", "*", "1-5", "*/15", "L",
    "FREQ=DAILY", ";BYDAY=MO", "COUNT=3", "z", "-07:00", "America/New_York", "EST", "UTC+2", "weekend", "03/04/2027",
    "same", "couple", "fortnights", "feb", "before", "after", "christmas", "new year's", "eve", "first thing", "except",
    "fridays", "in july", "between", "to", "twice", "through", "june", "2028", "public holidays", "in CA-AB", "the day",
    "easter", "third", "lunch", "thing", "mon-fri", "0900", "1430", "9.30", "by", "start of", "beginning of", "time",
    "same time", "hours", "quarter past", "half past", "on the hour", "the day before the 1st", "night", "back to",
]  # fmt: skip
PHRASES = st.lists(st.sampled_from(WORDS), max_size=9).map(" ".join)
FRAME = Frame(holidays=public_holidays.find("CA-AB"))
ZONES = st.sampled_from([None, "America/New_York", "Pacific/Apia", "UTC"])


@given(text=st.text(max_size=210) | PHRASES, zone=ZONES)
@example(text="0001-01-01", zone="Pacific/Apia")
@example(text="9999-12-31T23:59", zone="Pacific/Apia")
@example(text="٣ days", zone="UTC")
@examples(300)
def test_every_text_is_a_future_time_or_an_invalid_argument(text: str, zone: str | None) -> None:
    with suppress(InvalidArgument):
        found = times.resolve(text, now=NOW, zone=zone, frame=FRAME)
        assert NOW <= found.instant <= NOW + timedelta(days=5 * 366)
        assert found.instant.tzinfo is UTC
        assert found.wall.tzinfo is None


@given(text=st.text(max_size=210) | PHRASES | PHRASES.map(lambda text: f"every {text}"))
@examples(300)
def test_every_text_is_a_recurrence_that_fires_or_an_invalid_argument(text: str) -> None:
    with suppress(InvalidArgument):
        found = recurrence.parse(text, zone="America/New_York", anchor=NOW, holidays="CA-AB")
        assert found.first(NOW) is not None
        assert recurrence.parse(found.rule, zone=found.zone, anchor=NOW) == found


@pytest.mark.parametrize(
    "text",
    [
        "1" * 200,
        "1 " * 100,
        "p" + "1" * 199,
        "P" + "1Y1M" * 49,
        "and " * 50,
        "1h" * 100,
        "9:" * 100,
        "2026-11-24T09:00:00." + "9" * 180,
        "monday and " * 18,
        "every " + "1st and " * 24,
        "*/" * 100,
        ",".join(["*"] * 100),
        "0-" * 90 + " * * * *",
        "FREQ=DAILY;" * 18,
        "FREQ=DAILY;BYHOUR=" + "1," * 80,
        "[" * 200,
        "/" * 200,
        "in " * 66,
        "a/" * 100,
    ],
)
def test_long_hostile_texts_are_refused(text: str) -> None:
    with pytest.raises(InvalidArgument):
        times.resolve(text[:200], now=NOW, zone="UTC")
    with pytest.raises(InvalidArgument):
        recurrence.parse(text[:200], zone="UTC", anchor=NOW)


@pytest.mark.parametrize("size", [201, 100_000])
def test_longer_texts_are_refused_unread(size: int) -> None:
    with pytest.raises(InvalidArgument, match="200 characters"):
        times.resolve("1" * size, now=NOW, zone="UTC")
    with pytest.raises(InvalidArgument, match=f"it has {size} characters; 1 to 200 are accepted"):
        recurrence.parse("1" * size, zone="UTC", anchor=NOW)
