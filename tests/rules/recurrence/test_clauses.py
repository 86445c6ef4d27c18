"""A recurrence in clauses: each has a kind and values, and the sentence is nothing but their English texts."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.rules.recurrence import recurrence
from duetime.scheduler.translatable import ClauseKind
from hypothesis import given

from tests.rules.definitions import RULES
from tests.rules.oracle import Definition
from tests.search import examples

START = datetime(2026, 11, 21, 15, 0, tzinfo=UTC)
EVERY_KIND: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "every tuesday at 9:00": [("weekdays", {"weekdays": ["TU"]}), ("at", {"times": ["09:00"]})],
    "every 2 weeks on monday and friday at 9": [
        ("every", {"unit": "week", "count": 2}), ("on", {"weekdays": ["MO", "FR"]}), ("at", {"times": ["09:00"]}),
    ],
    "last friday of every month at 17:00": [
        ("every", {"unit": "month", "count": 1}), ("on", {"weekdays": ["-1FR"]}), ("at", {"times": ["17:00"]}),
    ],
    "every day at 9 except fridays until june": [
        ("all_but", {"weekdays": ["FR"]}), ("at", {"times": ["09:00"]}), ("until", {"until": "2027-05-31"}),
    ],
    "every weekday at 9 except public holidays in CA-AB": [
        ("workdays", {}), ("at", {"times": ["09:00"]}), ("holidays", {"calendar": "CA-AB"}),
    ],
    "first and last business day of every month at 9 except public holidays in CA-AB": [
        ("every", {"unit": "month", "count": 1}), ("on_workday", {"positions": [-1, 1]}),
        ("no_holiday", {"calendar": "CA-AB"}), ("at", {"times": ["09:00"]}),
    ],
    "every 15 minutes between 9:00 and 17:00": [
        ("every", {"unit": "day", "count": 1}),
        ("steps", {"unit": "minute", "count": 15, "first": "09:00", "last": "17:00"}),
    ],
    "every day at 1:00, 2:30, 5:00, 7:00, 8:00, 9:00 and 12:00": [
        ("every", {"unit": "day", "count": 1}),
        ("times_of_day", {"count": 7, "first": "01:00", "last": "12:00"}),
    ],
    "monthly on the 31st, 3 times": [
        ("every", {"unit": "month", "count": 1}), ("on", {"monthdays": [31]}), ("rare", {}),
        ("at", {"times": ["10:00"]}), ("count", {"count": 3}),
    ],
    "FREQ=MONTHLY": [
        ("every", {"unit": "month", "count": 1}), ("on", {"monthdays": [21]}), ("at", {"times": ["10:00"]}),
    ],
    "yearly on 3 march": [
        ("every", {"unit": "year", "count": 1}), ("date", {"day": 3, "month": 3}), ("at", {"times": ["10:00"]}),
    ],
    "FREQ=YEARLY;BYDAY=20MO": [
        ("every", {"unit": "year", "count": 1}), ("on", {"weekdays": ["20MO"]}), ("of_year", {}),
        ("at", {"times": ["10:00"]}),
    ],
    "FREQ=YEARLY;BYMONTHDAY=5": [
        ("every", {"unit": "year", "count": 1}), ("on", {"monthdays": [5]}), ("of_every_month", {}),
        ("at", {"times": ["10:00"]}),
    ],
    "0 0 13 * fri": [
        ("every", {"unit": "month", "count": 1}), ("on", {"monthdays": [13], "weekdays": ["FR"], "either": True}),
        ("at", {"times": ["00:00"]}),
    ],
    "every weekday except in july and august": [
        ("workdays", {}), ("not_in", {"months": [7, 8]}), ("at", {"times": ["10:00"]}),
    ],
    "*/20 * * * *": [("every", {"unit": "minute", "count": 20}), ("from_the_hour", {})],
    "FREQ=HOURLY;INTERVAL=2;BYMINUTE=0,30": [
        ("every", {"unit": "hour", "count": 2}), ("past_the_hour", {"minutes": [0, 30]}),
    ],
    "FREQ=HOURLY;INTERVAL=2;BYHOUR=9,10,11;BYMONTH=5": [
        ("every", {"unit": "hour", "count": 2}), ("in", {"months": [5]}),
        ("hours", {"first": "09:00", "last": "11:59"}),
    ],
    "FREQ=HOURLY;INTERVAL=2;BYHOUR=9,12": [
        ("every", {"unit": "hour", "count": 2}), ("hours_listed", {"hours": [9, 12]}),
    ],
}  # fmt: skip


def said(text: str, anchor: datetime = START) -> list[tuple[str, dict[str, Any]]]:
    found = recurrence.parse(text, zone="America/New_York", anchor=anchor)
    return [(clause.kind.value, dict(clause.values)) for clause in found.clauses]


@pytest.mark.parametrize(("text", "clauses"), EVERY_KIND.items())
def test_a_rule_is_said_in_clauses_with_kinds_and_values(text: str, clauses: list[tuple[str, dict[str, Any]]]) -> None:
    assert said(text) == clauses


def test_a_day_that_some_months_lack_is_said_to_be_rare() -> None:
    assert ("rare", {}) in said("FREQ=MONTHLY", datetime(2026, 10, 31, 15, 0, tzinfo=UTC))


def test_the_rules_above_have_every_kind_of_clause() -> None:
    kinds = {kind for clauses in EVERY_KIND.values() for kind, _ in clauses} | {"rare"}
    assert kinds == {kind.value for kind in ClauseKind}


@given(rule=RULES)
@examples(100)
def test_the_sentence_of_any_rule_is_its_clauses_in_english(rule: Definition) -> None:
    try:
        found = recurrence.parse(rule.text, zone="America/New_York", anchor=START)
    except InvalidArgument:
        return
    assert found.text == "".join(found.clauses)
    assert found.clauses[0].kind in {ClauseKind.EVERY, ClauseKind.WEEKDAYS, ClauseKind.WORKDAYS, ClauseKind.ALL_BUT}
