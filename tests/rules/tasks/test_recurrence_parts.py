"""A recurrence in parts becomes a sentence that uses each part, or no sentence at all."""

from __future__ import annotations

from typing import Any, Final

import pytest
from duetime.tools.arguments.recurrence_words import is_recurrence, recurrence_of
from hypothesis import given
from hypothesis import strategies as st

from tests.search import examples

UNITS: Final = {"minutely": "minute", "hourly": "hour", "daily": "day", "weekly": "week", "monthly": "month"}
parts = st.fixed_dictionaries(
    {},
    optional={
        "frequency": st.sampled_from(sorted(UNITS)),
        "interval": st.sampled_from([1, 2, "3"]),
        "days": st.sampled_from([["mon"], "tue,fri", []]),
        "day_of_month": st.sampled_from([5, "17", "last"]),
        "time": st.sampled_from(["9:41", ["9:41", "17:41"], ""]),
        "hour": st.sampled_from([6, "7", [6, 7], None]),
        "minute": st.sampled_from([0, 43, "53", [1]]),
        "count": st.just(4),
        "timezone": st.just("Asia/Tokyo"),
    },
)


@pytest.mark.parametrize(
    "given_",
    [
        {"frequency": "monthly", "days": ["mon"], "time": "9:00"},
        {"frequency": "daily", "hour": [9, 17]},
        {"frequency": "hourly", "minute": 15},
        {"type": "weekly", "days": ["mon"], "day_of_month": 5},
        {"frequency": "weekly", "day_of_month": 5},
        {"frequency": "daily", "time": "9:00", "hour": 17},
        {"cron": "0 9 * * *", "time": "10:00"},
        {"frequency": "monthly", "interval": "weekly"},
        {"every": "15 minutes", "unit": "day"},
        {"hour": 9, "byhour": 17},
        {"minutes": 15, "hours": 1},
    ],
)
def test_parts_that_no_sentence_has_together_have_no_example(given_: dict[str, Any]) -> None:
    assert recurrence_of(given_) is None


@examples(200)
@given(parts)
def test_a_sentence_uses_every_part(given_: dict[str, Any]) -> None:
    found = recurrence_of(given_)
    if found is None:
        return
    sentence = str(found["repeat"])
    assert is_recurrence(sentence)
    assert (found.get("max_runs"), found.get("timezone")) == (given_.get("count"), given_.get("timezone"))
    words = sentence.replace(":", " ").split()
    unit, days = UNITS.get(given_.get("frequency", "")), given_.get("days")
    assert unit is None or {unit, f"{unit}s"} & set(words) or (days and unit in {"day", "week"})
    expected = [*(days.split(",") if isinstance(days, str) else days or ())]
    expected += [f"{given_['day_of_month']}th"] if "day_of_month" in given_ else []
    expected += [str(given_["interval"])] if given_.get("interval", 1) != 1 else []
    expected += [f"{int(given_[name]):02}" for name in ("hour", "minute") if name in given_]
    for time in given_["time"] if isinstance(given_.get("time"), list) else [given_.get("time", "")]:
        expected += time.split(":") if time else []
    assert not set(expected) - set(words)
