"""The example of a refusal keeps all values of the caller that are right, and is accepted when it is sent back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from duetime.scheduler.errors import InvalidArguments
from duetime.scheduler.handlers import Context, Handlers, handler
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.outcomes import Done
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import open_store
from pydantic import BaseModel, Field

from tests import blank
from tests.builders import Clock
from tests.flow.tools.calls import Answer, answers_of
from tests.flow.tools.sent_back import corrections

S, R = "schedule_task", "reschedule_task"
TIMED = {"title": "A", "when": "tomorrow 9am"}
WATCH = {"url": "https://example.com/order"}
POSTED = "payload={'url': 'https://example.com', 'method': 'POST'}"
WATCHED = "payload={'changed': true, 'url': 'https://example.com/order/7'}"
OFTEN = {"title": "A", "repeat": "every 15 minutes"}
OTHER_NAMES: list[tuple[str, Any, dict[str, Any]]] = [
    ("delay", "1 hour", {"when": "in 1 hour"}),
    ("delay", 90, {"when": "in 90 seconds"}),
    ("delay_minutes", 5, {"when": "in 5 minutes"}),
    ("start_at", "tomorrow 10am", {"when": "tomorrow 10am"}),
    ("run_at", 1_795_600_000, {}),
    ("tz", "Europe/Paris", {"timezone": "Europe/Paris"}),
    ("max_retries", 3, {"retry": {"max_attempts": 4}}),
    ("max_attempts", 3, {"retry": {"max_attempts": 3}}),
    ("duration", "5 minutes", {"estimate": "5 minutes"}),
    ("tags", "home", {"labels": ["home"]}),
    ("timeout", "5 minutes", {}),
]
"""Names of other schedulers in a step: what they say is kept under the name that a step has for it."""
RETRIES: list[tuple[dict[str, Any], dict[str, int]]] = [
    ({"retyr": 3}, {"max_attempts": 4}),
    ({"max_atempts": 3, "backof": "5 minutes"}, {"max_attempts": 3, "backoff_seconds": 300}),
    ({"max_attempts": 200, "backoff": "30 s"}, {"backoff_seconds": 30}),
]
"""Retries with a wrong member, of a task and of a step: the others are kept, and what a misspelt one means."""


def _watch(condition: str, meant: str) -> tuple[dict[str, Any], str]:
    given = {"title": "A", "action": "watch", "payload": {**WATCH, "condition": condition}}
    return given, f"payload={ ({**WATCH, 'condition': meant})!r}"


KEPT: list[tuple[dict[str, Any], str]] = [
    ({**TIMED, "payload": {"message": "x", "url": "https://example.com"}}, "payload={'message': 'x'}"),
    ({**TIMED, "payload": {"message": "Ring", "every": "5 min"}}, "payload={'message': 'Ring'}"),
    ({**TIMED, "payload": {"message": "x", "method": "GET"}}, "payload={'message': 'x'}"),
    ({**TIMED, "payload": {"text": "hello"}}, "payload={'message': 'hello'}"),
    (
        {**TIMED, "steps": [{"name": "a", "depends_on": ["b"]}, {"name": "b"}]},
        "steps=[{'name': 'a', 'after': ['b']}, {'name': 'b'}]",
    ),
    (
        {**TIMED, "steps": [{"name": "a", "depends_on": "b", "after": ["c"]}, {"name": "b"}, {"name": "c"}]},
        "steps=[{'name': 'a', 'after': ['c', 'b']}, {'name': 'b'}, {'name': 'c'}]",
    ),
    ({**TIMED, "steps": [{"name": "a", "prioritty": "high"}]}, "steps=[{'name': 'a', 'priority': 'high'}]"),
    *(({**TIMED, "retry": wrong}, f"retry={meant!r}") for wrong, meant in RETRIES),
    *(
        ({**TIMED, "steps": [{"name": "a", "retry": wrong}]}, f"steps=[{ ({'name': 'a', 'retry': meant})!r}]")
        for wrong, meant in RETRIES
    ),
    *(
        ({**TIMED, "steps": [{"name": "a", name: value}]}, f"steps=[{ ({'name': 'a'} | meant)!r}]")
        for name, value, meant in OTHER_NAMES
    ),
    (
        {**TIMED, "approval": {"question": "Pay?", "by": "2 hours", "default": "yes"}},
        "approval={'question': 'Pay?', 'by': '2 hours', 'default': 'approve'}",
    ),
    ({**TIMED, "approval": {"question": "Pay?", "surplus": 3}}, "approval={'question': 'Pay?'}"),
    ({**TIMED, "wait_for": "order.paid"}, "wait_for={'event': 'order.paid'}"),
    ({**TIMED, "wait_for": "order paid"}, "wait_for={'event': 'order.paid'}"),
    ({**TIMED, "wait_for": ["paid", "waived"]}, "wait_for={'any': [{'event': 'paid'}, {'event': 'waived'}]}"),
    _watch('status == "delivered"', "status == 'delivered'"),
    _watch("price < 90", "price < `90`"),
    _watch("count > 5", "count > `5`"),
    _watch("price != -1.5", "price && price != `-1.5`"),
    _watch("open == true", "open == `true`"),
    _watch("state = 'it\\'s' or price <= 90", "state == 'it\\'s' || price <= `90`"),
    ({"title": "A", "when": "9am EST tomorrow"}, "when='9am tomorrow', timezone='America/New_York'"),
    ({"title": "A", "when": "3pm ET on friday"}, "when='3pm on friday', timezone='America/New_York'"),
    ({"title": "A", "when": "noon pacific time tomorrow"}, "when='noon tomorrow', timezone='America/Los_Angeles'"),
    ({"title": "A", "when": "15:00 UTC+2 tomorrow"}, "when='15:00 tomorrow', timezone='Etc/GMT-2'"),
    ({"title": "A", "when": "3pm Tokyo time tomorrow"}, "when='3pm tomorrow', timezone='Asia/Tokyo'"),
    (
        {**OFTEN, "repeat_policy": {"overlap": "skip", "jitter": "10 min", "pause_after": 3}},
        "repeat_policy={'overlap': 'skip', 'jitter': '7 min 30 s', 'pause_after': 3}",
    ),
    (
        {**OFTEN, "repeat_policy": {"overlap": "queue", "pause_after": 3}},
        "repeat_policy={'overlap': 'buffer_all', 'pause_after': 3}",
    ),
    (
        {**OFTEN, "repeat_policy": {"except": ["2026-12-24", "some day"], "pause_after": 3}},
        "repeat_policy={'except': ['2026-12-24', '2026-11-25'], 'pause_after': 3}",
    ),
    ({**OFTEN, "repeat_policy": {"overlap": "skip", "surplus": 1}}, "repeat_policy={'overlap': 'skip'}"),
    (
        {**OFTEN, "repeat_policy": {"overlap": "skip", "jiter": "1 min"}},
        "repeat_policy={'overlap': 'skip', 'jitter': '1 min'}",
    ),
]


@pytest.fixture
def scheduler(tmp_path: Path) -> Iterator[Scheduler]:
    blank.make(tmp_path / "duetime.db")
    store = open_store(f"sqlite:///{tmp_path / 'duetime.db'}", clock=Clock())
    yield Scheduler(store, Planner(Handlers.load(), "Europe/Berlin", upstreams=store.dependencies.known))
    store.close()


@pytest.fixture
def answer(scheduler: Scheduler) -> Answer:
    return answers_of(scheduler)


@pytest.mark.parametrize(("wrong", "example"), KEPT, ids=lambda value: str(value)[:80])
def test_an_example_keeps_the_values_that_are_right(answer: Answer, wrong: dict[str, Any], example: str) -> None:
    accepted, said = answer(S, wrong)
    assert not accepted
    assert said.splitlines()[0].endswith(f" Example: {example}"), said
    [(tool, again)] = corrections(S, wrong, said)
    accepted, then = answer(tool, {**again, "dry_run": True})
    assert accepted, then


@pytest.mark.parametrize(
    ("wrong", "example"),
    [({"labels": "home, work"}, "steps[2].labels=['home', 'work']"), ({"name": "load it"}, "steps[2].name='load-it'")],
)
def test_the_part_of_a_step_is_named_by_its_number_where_the_steps_are_long(
    answer: Answer, wrong: dict[str, Any], example: str
) -> None:
    long = {"name": "load", "payload": {"message": "Load it. " * 60}, "labels": ["home"], "after": ["fetch"]}
    call = {**TIMED, "steps": [{"name": "fetch"}, {**long, **wrong}]}
    _, said = answer(S, call)
    assert said.splitlines()[0].endswith(f" Example: {example}"), said
    [(tool, again)] = corrections(S, call, said)
    assert again["steps"][1] == {**long, **again["steps"][1], "payload": long["payload"]}
    accepted, then = answer(tool, {**again, "dry_run": True})
    assert accepted, then


def test_two_unknown_texts_do_not_become_the_same_field(answer: Answer) -> None:
    _, said = answer(S, {**TIMED, "payload": {"to": "a@b", "subject": "Hi"}})
    assert [line.partition("Example: ")[2] for line in said.splitlines()] == [
        "payload={'message': 'Hi'}",
        "payload={'message': 'Hi'}",
    ]


@pytest.mark.parametrize(
    ("empty", "example"),
    [
        ({"labels": []}, "remove=['labels']"),
        ({"max_runs": 0}, "remove=['max_runs']"),
        ({"payload": {}, "retry": {}}, "remove=['payload', 'retry']"),
        ({"title": ""}, "title='A'"),
        ({}, "title='A'"),
        ({"repeat_policy": {"overlap": "skip"}}, "title='A', repeat_policy=null"),
    ],
)
def test_a_change_that_would_empty_something_names_its_removal_and_moves_no_task(
    scheduler: Scheduler, answer: Answer, empty: dict[str, Any], example: str
) -> None:
    before = scheduler.schedule("A", when="tomorrow 9am", labels=["x"]).record
    accepted, said = answer(R, {"task_id": before.task.id, **empty})
    assert not accepted
    assert said.endswith(f" Example: {example}")
    [(tool, again)] = corrections(R, {"task_id": before.task.id, **empty}, said)
    accepted, then = answer(tool, again)
    assert accepted, then
    assert scheduler.get(before.task.id).record.run.scheduled_for == before.run.scheduled_for


def test_a_client_that_fills_in_every_argument_removes_nothing(scheduler: Scheduler, answer: Answer) -> None:
    task = scheduler.schedule("A", when="tomorrow 9am", labels=["x"]).record.task
    blanks = {"labels": [], "payload": {}, "retry": {}, "needs": {}, "max_runs": 0, "title": "", "deliver_to": []}
    _, said = answer(R, {"task_id": task.id, **blanks})
    assert said.endswith(" Example: title='A'")
    accepted, _ = answer(R, {"task_id": task.id, **blanks, "priority": "high"})
    assert accepted
    assert scheduler.get(task.id).record.task.labels == ("x",)


@pytest.mark.parametrize(
    ("wrong", "example"),
    [
        ({**TIMED, "message": "hi"}, "payload={'message': 'hi'}"),
        ({**TIMED, "description": "Bring it", "payload": {"message": ""}}, "payload={'message': 'Bring it'}"),
        ({**TIMED, "tags": ["home", "tax"]}, "labels=['home', 'tax']"),
        ({"title": "A", "delay": "5 min"}, "when='in 5 min'"),
        ({"title": "A", "delay": 300}, "when='in 300 seconds'"),
        (
            {**TIMED, "action": "webhook", "payload": {"url": "https://example.com", "method": "PATCH"}},
            "payload={'url': 'https://example.com', 'method': 'POST'}",
        ),
        (
            {"title": "A", "action": "watch", "payload": {"check": "nope", "changed": True}},
            "payload={'changed': true, 'url': 'https://example.com/order/7'}",
        ),
        ({**TIMED, "after": ["t_7k3m9qx2w4ha"]}, "after=null, dry_run=true"),
        (
            {**TIMED, "steps": [{"name": "a", "approval": True, "colour": "red"}]},
            "steps=[{'name': 'a', 'approval': true}]",
        ),
    ],
    ids=lambda value: str(value)[:80],
)
def test_a_refusal_shows_a_correction_that_is_accepted(answer: Answer, wrong: dict[str, Any], example: str) -> None:
    accepted, said = answer(S, wrong)
    assert not accepted
    assert f" Example: {example}" in said, said
    assert len(said.splitlines()) == 1 or "when" not in wrong, said
    lone = said.splitlines()[0]
    for tool, again in corrections(S, wrong, lone):
        accepted, then = answer(tool, {**again, "dry_run": True})
        assert accepted, then


def test_no_message_is_made_of_a_text_for_an_action_that_shows_none(answer: Answer) -> None:
    hook = {"action": "webhook", "payload": {"url": "https://example.com"}}
    _, said = answer(S, {**TIMED, **hook, "message": "hi"})
    assert "'message': 'hi'" not in said


def test_a_number_out_of_range_is_corrected_to_its_bound() -> None:
    class Size(BaseModel):
        width: int = Field(ge=1, le=100)
        unit: Literal["px", "em"] = "px"

    @handler("resize_for_test", payload=Size)
    def resize(ctx: Context, payload: Size) -> Done:
        return Done(str(payload.width))

    wrong: list[tuple[dict[str, Any], str]] = [
        ({"width": 0}, "1"),
        ({"width": 101}, "100"),
        ({"width": 5, "unit": "pt"}, "'px'"),
        ({"width": 5, "unit": 7}, "'px'"),
    ]
    for given, example in wrong:
        with pytest.raises(InvalidArguments) as refused:
            resize.check(given)
        assert refused.value.problems[0].example == example


def test_a_cancel_of_several_tasks_is_a_call_of_another_tool(scheduler: Scheduler, answer: Answer) -> None:
    one, other = (scheduler.schedule(title, when="tomorrow 9am").record.task.id for title in ("One", "Other"))
    _, said = answer("cancel_task", {"task_ids": [one]})
    assert said.endswith(f" Example: task_id={one!r}")
    accepted, said = answer("cancel_task", {"task_ids": [one, other]})
    assert (accepted, said.count("\n")) == (False, 0)
    assert said.endswith(f" Example: change_tasks(change='cancel', task_ids=[{one!r}, {other!r}])")


def test_the_upstreams_of_a_task_keep_the_known_ids(scheduler: Scheduler, answer: Answer) -> None:
    first, task = (scheduler.schedule(title, when="tomorrow 9am").record.task.id for title in ("First", "Task"))
    _, said = answer(S, {**TIMED, "after": ["zz", first]})
    assert said.endswith(f" Example: after=[{first!r}]")
    given = {"task_id": task, "after": ["zz"]}
    _, said = answer(R, given)
    [(tool, again)] = corrections(R, given, said)
    accepted, then = answer(tool, again)
    assert accepted, then


def test_an_unknown_text_takes_the_place_of_no_message(answer: Answer) -> None:
    _, said = answer(S, {**TIMED, "payload": {"message": "Ring", "text": "Call"}})
    assert said.endswith(" Example: payload={'message': 'Ring'}")
