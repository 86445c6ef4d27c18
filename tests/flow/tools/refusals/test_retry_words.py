"""Retries as models send them: an object, words in it, a sentence, a number; and the answer says how they were read."""

from __future__ import annotations

import re
from typing import Any

import pytest
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.server.rest.conformance import misfit
from duetime.tools.arguments.retry import RetryTerms

from tests.flow.tools.calls import Ask, asked_of


@pytest.fixture
def ask(store: Store) -> Ask:
    planner = Planner(Handlers.load(entry_points=False), "UTC", upstreams=store.dependencies.known)
    return asked_of(Scheduler(store, planner))


@pytest.mark.parametrize(
    ("retry", "said"),
    [
        ({"max_attempts": 3, "backoff": "30 s"}, "up to 2 times, about 30 s to 1 min apart"),
        ({"max_attempts": 3, "backoff": "2 minutes", "max_backoff": "4 minutes"}, "up to 2 times, about 2 min apart"),
        ({"max_attempts": "3", "backoff_seconds": "30"}, "up to 2 times, about 30 s to 1 min apart"),
        ('{"max_attempts": 3, "backoff": "30 s"}', "up to 2 times, about 30 s to 1 min apart"),
        ("5 times, 30 s apart", "up to 5 times, about 30 s apart"),
        ("3 attempts, doubling from 10 s", "up to 2 times, about 10 s to 20 s apart"),
        (3, "up to 2 times, about 1 s to 2 s apart"),
        ("no retries", "it is not tried again after a failure"),
        ({"max_attempts": 0}, "it is not tried again after a failure"),
        ({"max_attempts": 0, "backoff_seconds": 30}, "it is not tried again after a failure"),
        ('{"max_attempts": 0.0}', "it is not tried again after a failure"),
        (0, "it is not tried again after a failure"),
        ("0", "it is not tried again after a failure"),
    ],
)
def test_retries_are_read_and_the_answer_says_how(ask: Ask, retry: Any, said: str) -> None:
    text, made = ask("schedule_task", title="Import", when="tomorrow", retry=retry)
    assert said in text
    text, _ = ask("reschedule_task", task_id=made["id"], retry=retry)
    assert made["id"] in text


def test_a_client_that_fills_in_every_member_of_retry_has_the_usual_retries(ask: Ask) -> None:
    blanks = {"max_attempts": 0, "backoff_seconds": 0, "max_backoff_seconds": 0}
    text, _ = ask("schedule_task", title="Import", when="tomorrow", retry=blanks)
    assert "tried again" not in text


@pytest.mark.parametrize("tool", ["schedule_task", "reschedule_task"])
def test_a_series_of_0_runs_is_refused_with_a_corrected_call(ask: Ask, tool: str) -> None:
    _, task = ask("schedule_task", title="Import", when="tomorrow")
    given = {"title": "Import", "when": "tomorrow", "repeat": "every day"}
    given |= {"task_id": task["id"]} if tool == "reschedule_task" else {}
    said = r"^max_runs: a series of 0 runs never runs\. Accepted: 1 or more, .* Example: max_runs=10$"
    with pytest.raises(AssertionError, match=said):  # of an answer without structured content
        ask(tool, **given, max_runs=0)
    for accepted in ({"max_runs": 10}, {"max_runs": 0, "until": ""}, {"repeat": "never", "max_runs": 0}):
        ask(tool, **{**given, **accepted})


def test_a_step_takes_the_same_words(ask: Ask) -> None:
    first = {"name": "a", "when": "tomorrow", "retry": "5 times, 30 s apart"}
    steps = [first, {"name": "b", "after": ["a"], "retry": 3}]
    text, _ = ask("schedule_task", title="Import", steps=steps)
    assert "up to 5 times, about 30 s apart" in text
    assert "up to 2 times, about 1 s to 2 s apart" in text


@pytest.mark.parametrize(
    ("retry", "attempts"),
    [("3 times, mondays", 4), ("3 retries, mondays", 4), ("3 attempts, mondays", 3), ("99 Times; mondays", 100)],
)
def test_a_step_and_a_task_are_corrected_to_the_same_attempts(ask: Ask, retry: str, attempts: int) -> None:
    said = re.escape(f"{{'max_attempts': {attempts}}}")
    with pytest.raises(AssertionError, match=f"retry={said}"):  # of an answer without structured content
        ask("schedule_task", title="Import", when="tomorrow", retry=retry)
    with pytest.raises(AssertionError, match=f"'retry': {said}"):
        ask("schedule_task", title="Import", steps=[{"name": "a", "when": "tomorrow", "retry": retry}])


@pytest.mark.parametrize(
    ("name", "retry"),
    [
        ("retry", "3 times, 10 minutes apart, mondays"),
        ("retries", "3 times, 10 minutes apart"),
        ("retry", {"tries": 4, "delay": "10 minutes", "max_delay": "20 minutes"}),
        ("retry_policy", {"tries": "4", "delay": "10 minutes", "max_delay": 1200.0}),
    ],
)
def test_the_corrected_retries_of_a_step_keep_their_pause(ask: Ask, name: str, retry: Any) -> None:
    said = re.escape("'retry': {'max_attempts': 4, 'backoff_seconds': 600, 'max_backoff_seconds': 1200}}]")
    with pytest.raises(AssertionError, match=said):  # of an answer without structured content
        ask("schedule_task", title="Import", steps=[{"name": "a", "when": "tomorrow", name: retry}])


@pytest.mark.parametrize(("retry", "most"), [("mondays", 3), ("3 mondays", 3), ("100 times, mondays", 100)])
def test_a_step_whose_retries_are_not_clear_is_shown_with_some(ask: Ask, retry: str, most: int) -> None:
    with pytest.raises(AssertionError, match=re.escape(f"'when': 'tomorrow', 'retry': {{'max_attempts': {most}}}}}]")):
        ask("schedule_task", title="Import", steps=[{"name": "a", "when": "tomorrow", "retry": retry}])


@pytest.mark.parametrize("retry", [{"max_attempts": 3, "backoff": "30 s"}, {"backoff": "30 s", "max_backoff": "1 min"}])
def test_a_program_may_name_pauses_with_their_units(retry: Any) -> None:
    terms = RetryTerms(every_form=True)
    assert misfit(retry, terms.schema()) is None
    assert terms.read(retry)["backoff_seconds"] == 30
    assert misfit({"backoff": 30}, terms.schema()) == "'backoff': a number is not text"
