"""Dates that a series leaves out: a refusal names every wrong entry, and its example drops none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import open_store

from tests import blank
from tests.builders import Clock
from tests.flow.tools.calls import Answer, answers_of
from tests.flow.tools.sent_back import corrections

S, R = "schedule_task", "reschedule_task"
DAILY = "repeat='daily at 9 except friday', repeat_policy="


@pytest.fixture
def scheduler(tmp_path: Path) -> Iterator[Scheduler]:
    blank.make(tmp_path / "duetime.db")
    store = open_store(f"sqlite:///{tmp_path / 'duetime.db'}", clock=Clock())
    yield Scheduler(store, Planner(Handlers.load(), "Europe/Berlin", holidays="DE", upstreams=store.dependencies.known))
    store.close()


@pytest.fixture
def answer(scheduler: Scheduler) -> Answer:
    return answers_of(scheduler)


@pytest.mark.parametrize(
    ("repeat", "policy", "example"),
    [
        ("daily at 9", {"except": ["friday"]}, f"{DAILY}null"),
        ("daily at 9", {"except": "every friday"}, f"{DAILY}null"),
        ("daily at 9", {"except": ["Fridays", "2026-12-24"]}, f"{DAILY}{{'except': ['2026-12-24']}}"),
        ("daily at 9", {"except": ["freitags"], "overlap": "skip"}, f"{DAILY}{{'overlap': 'skip'}}"),
        (
            "daily at 9",
            {"except": ["friday", "public holidays"]},
            "repeat='daily at 9 except friday except public holidays', repeat_policy=null",
        ),
        ("0 9 * * *", {"except": ["friday"]}, "repeat='every day at 09:00 except friday', repeat_policy=null"),
        ("monthly on the 1st", {"except": ["friday"]}, "repeat_policy={'except': ['2026-11-27']}"),
        ("daily at 9", {"exclude": ["2026-12-24"]}, "repeat_policy={'except': ['2026-12-24']}"),
        (
            "daily at 9",
            {"skip_dates": ["2026-12-24"], "max_rows": 3, "overlap_policy": "skip"},
            "repeat_policy={'except': ['2026-12-24'], 'overlap': 'skip'}",
        ),
    ],
    ids=str,
)
def test_exceptions_of_a_series_are_corrected_where_they_are_said(
    answer: Answer, repeat: str, policy: dict[str, Any], example: str
) -> None:
    wrong = {"title": "A", "repeat": repeat, "repeat_policy": policy, "dry_run": True}
    accepted, said = answer(S, wrong)
    assert not accepted
    assert said.endswith(f" Example: {example}"), said
    [(tool, again)] = corrections(S, wrong, said)
    accepted, then = answer(tool, again)
    assert accepted, then


def test_every_wrong_entry_is_named_and_has_its_place_in_the_example(answer: Answer) -> None:
    given = ["Heilig", "25 d\u00e9cembre", "my birthday"]
    policy = {"except": given, "pause_after": 3}
    _, said = answer(S, {"title": "A", "repeat": "daily", "repeat_policy": policy})
    assert said.startswith("repeat_policy.except: 'Heilig', 'my birthday' are not dates.")
    kept = ["2026-12-25", "2026-11-25", "2026-11-26"]
    assert said.endswith(f" Example: repeat_policy={ ({'except': kept, 'pause_after': 3})!r}"), said


def test_every_unknown_member_is_named(answer: Answer) -> None:
    _, said = answer(S, {"title": "A", "repeat": "daily", "repeat_policy": {"skip_dates": [], "max_rows": 3}})
    assert said.startswith("repeat_policy.skip_dates: there is no 'skip_dates', 'max_rows'.")


def test_a_weekday_is_left_out_of_the_rule_that_a_series_has(scheduler: Scheduler, answer: Answer) -> None:
    task = scheduler.schedule("A", repeat="daily at 9").record.task
    wrong = {"task_id": task.id, "repeat_policy": {"except": ["fridays"]}}
    _, said = answer(R, wrong)
    [(tool, again)] = corrections(R, wrong, said)
    accepted, then = answer(tool, again)
    assert accepted, then
    changed = scheduler.get(task.id).record.task
    assert changed.repeat == "FREQ=DAILY;BYDAY=MO,TU,WE,TH,SA,SU;BYHOUR=9;BYMINUTE=0"
