"""The words of `until` and `repeat` are read in the payload of a watch too, and a rule keeps its holidays."""

from __future__ import annotations

import re
from typing import Any

import pytest
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store

from tests.flow.tools.calls import Ask, asked_of

WATCH = {"url": "https://example.com/order", "condition": "status == 'shipped'"}


def scheduler_of(store: Store, *, zone: str = "UTC", holidays: str = "DE") -> Scheduler:
    return Scheduler(store, Planner(Handlers.load(entry_points=False), zone, holidays=holidays))


@pytest.fixture
def ask(store: Store) -> Ask:
    return asked_of(scheduler_of(store, zone="Europe/Berlin"))


@pytest.mark.parametrize(
    ("times", "said"),
    [
        ({"until": "christmas"}, "every 5 min until .* holds, and ends Fri 25 Dec 2026 23:59"),
        ({"until": "friday 18:00"}, "ends Fri 27 Nov 2026 18:00"),
        ({"until": "end of month"}, "ends Mon 30 Nov 2026 23:59"),
        ({"until": "2026-12-24T10:00"}, "ends Thu 24 Dec 2026 10:00"),
        ({"every": "daily"}, "every 1 d until .* holds, and ends after 7 d"),
        ({"every": "every 10 minutes"}, "every 10 min until"),
        ({"every": "once an hour", "until": "2 days"}, "every 1 h until .* holds, and ends after 2 d"),
    ],
)
def test_a_watch_reads_words_for_its_pace_and_its_end(ask: Ask, times: dict[str, str], said: str) -> None:
    given: dict[str, Any] = {"title": "Order", "action": "watch", "payload": {**WATCH, **times}}
    assert re.search(said, ask("schedule_task", **given, when="in 1 hour")[0])
    made = ask("schedule_task", title="Other", action="watch", payload=WATCH, when="in 1 hour")[1]
    assert re.search(said, ask("reschedule_task", task_id=made["id"], payload={**WATCH, **times})[0])


@pytest.mark.parametrize(
    ("repeat", "example"),
    [
        (
            "every other friday at 17:00 starting friday except public holidays",
            "repeat='every other friday at 17:00 except public holidays', when='friday'",
        ),
        ("biweekly on friday except public holidays", "every 2 weeks on friday except public holidays"),
    ],
)
def test_the_example_of_a_rule_keeps_the_days_that_it_leaves_out(store: Store, repeat: str, example: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        scheduler_of(store).schedule("Report", repeat=repeat)
    assert refused.value.example == example


@pytest.mark.parametrize("country", ["", " in Atlantis"])
def test_a_rule_with_holidays_of_no_known_country_is_shown_with_a_code_in_it(store: Store, country: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        scheduler_of(store, holidays="").schedule(
            "Report", repeat=f"every other friday except public holidays{country} at 17:00"
        )
    assert refused.value.example == "every other friday except public holidays in CA-AB at 17:00"


def test_holidays_among_the_dates_of_a_policy_move_to_the_rule(store: Store) -> None:
    with pytest.raises(InvalidArgument) as refused:
        scheduler_of(store).schedule(
            "Report", repeat="every friday at 17:00", repeat_policy={"except": ["public holidays"], "jitter": "1 min"}
        )
    kept = "repeat='every friday at 17:00 except public holidays', repeat_policy={'jitter': '1 min'}"
    assert refused.value.example == kept
