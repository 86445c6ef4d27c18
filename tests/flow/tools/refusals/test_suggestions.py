"""A refusal shows what was meant, and nothing else that would be something else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store, open_store
from duetime.tools.arguments.choices import Choice
from duetime.tools.registration import ADMIN_TOOLS, definitions, make_tools
from duetime.tools.schedule_task import REMINDER
from mcp.types import CallToolResult, TextContent

from tests import blank
from tests.builders import Clock
from tests.flow.tools.calls import CONTEXT, Ask, asked_of

Say = Callable[..., str]
CHOICES = [
    (each, argument)
    for each in (*definitions(REMINDER), *ADMIN_TOOLS)
    for argument in each.arguments
    if isinstance(argument.kind, Choice)
]


@pytest.fixture
def scheduler(tmp_path: Path) -> Iterator[Scheduler]:
    blank.make(tmp_path / "duetime.db")
    store: Store = open_store(f"sqlite:///{tmp_path / 'duetime.db'}", clock=Clock())
    yield Scheduler(store, Planner(Handlers.load(), "UTC", upstreams=store.dependencies.known))
    store.close()


@pytest.fixture
def ask(scheduler: Scheduler) -> Ask:
    return asked_of(scheduler)


@pytest.fixture
def say(scheduler: Scheduler) -> Say:
    """Call a tool, and return what a model reads."""
    tools = {tool.name: tool for tool in make_tools(lambda: scheduler)}

    def call(tool: str, /, **arguments: Any) -> str:
        answer = asyncio.run(tools[tool].run(arguments, CONTEXT))
        assert isinstance(answer, CallToolResult)
        assert isinstance(answer.content[0], TextContent)
        return answer.content[0].text

    return call


@pytest.mark.parametrize(("tool", "argument"), CHOICES, ids=lambda each: each.name)
def test_the_example_of_a_choice_is_a_word_and_one_of_those_that_are_accepted(tool: Any, argument: Any) -> None:
    hidden = argument.kind.hidden
    for word in (word for word in argument.kind.words if word not in hidden):
        problem = argument.problem("it is none", f"{word}x")
        assert "<" not in problem.example, tool.name
        assert problem.example == f"{argument.name}={str(word)!r}"
        assert str(word) in problem.accepted.split(", ")


@pytest.mark.parametrize("word", ["on_failure", "failed", "fail"])
def test_a_word_near_a_way_to_notify_shows_it(say: Say, word: str) -> None:
    assert "Example: notify='failure'" in say("schedule_task", title="A", when="in 1 hour", notify=word)


@pytest.mark.parametrize(
    ("word", "example"),
    [
        ("complete", "action='done'"),
        ("mark as read", "action='done'"),
        ("retry", "action='run_now'"),
        ("postpone", "action='snooze', minutes=10"),
        ("snooze 15 minutes", "action='snooze', minutes=15"),
        ("remind me in 2 hours", "action='snooze', minutes=120"),
        ("snooze until friday", "action='snooze', until='friday'"),
        ("snooze for 500 ms", "action='snooze', minutes=1"),
        ("undo u_3", "action='undo', undo='u_3'"),
        ("done with it", "action='done'"),
        ("skip", "action='skip_next'"),
        ("cancel", "cancel_task(task_id='TASK')"),
        ("pause", "reschedule_task(task_id='TASK', pause=true)"),
    ],
)
def test_another_word_for_an_action_shows_the_action_or_the_tool(say: Say, ask: Ask, word: str, example: str) -> None:
    task = ask("schedule_task", title="A", when="in 1 hour")[1]["id"]
    said = say("act_on_task", task_id=task, action=word)
    assert f"Example: {example.replace('TASK', task)}" in said
    assert "approve" not in said
    assert "reject" not in said


@pytest.mark.parametrize(
    ("tool", "given", "example"),
    [
        ("act_on_task", {"action": "snooze", "duration": 5}, "minutes=5"),
        ("act_on_task", {"action": "snooze", "snooze_for": "2 hours"}, "minutes=120"),
        ("act_on_task", {"action": "snooze", "for": "500 ms"}, "minutes=1"),
        ("act_on_task", {"action": "snooze", "for": "2 years"}, "until='in 2 years'"),
        ("act_on_task", {"action": "snooze", "for": "a while"}, "minutes=10"),
        ("act_on_task", {"action": "snooze", "hours": 2}, "minutes=120"),
        ("act_on_task", {"action": "snooze", "minutes": "90 s"}, "minutes=2"),
        ("act_on_task", {"action": "snooze", "minutes": 10**7}, "minutes=527040"),
        ("reschedule_task", {"id": "t_45bv3w5gwwe0"}, "id=null"),
        ("reschedule_task", {"task": "x"}, "task=null"),
        ("reschedule_task", {"steps": []}, "steps=null"),
        ("reschedule_task", {"when": "tomorrow", "run_at": "friday"}, "run_at=null"),
    ],
    ids=str,
)
def test_a_name_that_is_no_argument_shows_what_it_means_or_is_left_out(
    say: Say, ask: Ask, tool: str, given: Any, example: str
) -> None:
    task = ask("schedule_task", title="A", when="in 1 hour")[1]["id"]
    assert say(tool, task_id=task, **given).splitlines()[0].endswith(f" Example: {example}")


def test_the_minutes_of_a_snooze_are_read_as_a_length(ask: Ask) -> None:
    task = ask("schedule_task", title="A", when="tomorrow 9am")[1]["id"]
    assert "09:15" in ask("act_on_task", task_id=task, action="snooze", minutes="15 min")[0]


def test_an_argument_that_is_left_out_by_null_is_none(ask: Ask) -> None:
    assert ask("schedule_task", title="A", when="in 1 hour", run_at=None)[1]["title"] == "A"


@pytest.mark.parametrize(
    ("given", "example"),
    [
        ({"status": "paused"}, "pause=true"),
        ({"state": "Active"}, "pause=false"),
        ({"status": "cancelled"}, "cancel_task(task_id='TASK')"),
        ({"delete": True}, "cancel_task(task_id='TASK')"),
    ],
    ids=str,
)
def test_a_state_to_set_shows_how_that_task_gets_it(say: Say, ask: Ask, given: Any, example: str) -> None:
    task = ask("schedule_task", title="A", when="in 1 hour")[1]["id"]
    said = say("reschedule_task", task_id=task, **given)
    assert said.endswith(f" Example: {example.replace('TASK', task)}")


@pytest.mark.parametrize(
    ("action", "payload", "example"),
    [
        ("http", {"url": "https://example.com"}, "webhook"),
        ("HTTP GET", {}, "webhook"),
        ("ping", {"url": "https://example.com"}, "webhook"),
        ("remind", {}, "reminder"),
        ("target", {}, "reminder"),
    ],
)
def test_an_action_that_sends_a_request_is_a_webhook(say: Say, action: str, payload: Any, example: str) -> None:
    said = say("schedule_task", title="A", when="in 1 hour", action=action, payload=payload)
    assert f"Example: action={example!r}" in said


@pytest.mark.parametrize("word", ["never", "none", "Once"])
def test_a_task_that_repeats_never_runs_once(ask: Ask, word: str) -> None:
    found = ask("schedule_task", title="A", when="in 1 hour", repeat=word)[1]
    assert (found["state"], found.get("repeat")) == ("scheduled", None)


def test_a_chain_that_repeats_never_runs_once(ask: Ask) -> None:
    steps = [{"name": "a"}, {"name": "b", "after": ["a"]}]
    found = ask("schedule_task", title="A", when="in 1 hour", repeat="never", steps=steps)[1]
    assert found.get("repeat") is None


def test_a_recurrence_that_stops_is_asked_whether_it_runs_once_more(say: Say, ask: Ask) -> None:
    task = ask("schedule_task", title="A", repeat="daily at 9:00")[1]["id"]
    said = say("reschedule_task", task_id=task, repeat="stop")
    assert "Example: repeat='never'" in said
    assert "A cancel ends it" in said


def test_a_state_is_not_set_but_reached_by_a_cancel_or_a_pause(say: Say, ask: Ask) -> None:
    task = ask("schedule_task", title="A", when="in 1 hour")[1]["id"]
    for name in ("state", "status"):
        said = say("reschedule_task", task_id=task, **{name: "cancelled"})
        assert "cancel_task(task_id=" in said
        assert "estimate" not in said


@pytest.mark.parametrize("after", ["a", '["a"]', ["a"]])
def test_a_step_comes_after_one_name_or_a_list_of_them(ask: Ask, after: Any) -> None:
    found = ask("schedule_task", title="A", when="in 1 hour", steps=[{"name": "a"}, {"name": "b", "after": after}])[1]
    assert found["chain"]["steps"][1]["after"] == ["a"]


def test_several_names_in_one_text_are_refused_with_a_list(say: Say) -> None:
    steps = [{"name": "a"}, {"name": "b"}, {"name": "c", "after": "a, b"}]
    assert "{'name': 'c', 'after': ['a', 'b']}" in say("schedule_task", title="A", when="in 1 hour", steps=steps)


@pytest.mark.parametrize(
    "wrong",
    [
        {"wait_for": "customer.replied"},
        {"steps": {"name": "a"}},
        {"time": "tomorrow"},
        {"due": "tomorrow"},
        {"recurrence": "daily"},
        {"whem": "tomorrow"},
        {"repeat": 5},
        {"after": 7},
    ],
)
def test_a_time_that_was_given_in_a_wrong_way_is_not_asked_for_once_more(say: Say, wrong: dict[str, Any]) -> None:
    said = say("schedule_task", title="A", **wrong)
    assert "a reminder needs a time" not in said
    assert "in 2 hours" not in said


def test_a_missing_time_is_asked_for_along_with_another_problem(say: Say) -> None:
    said = say("schedule_task", title="A", notify="on_failure", colour="red")
    assert "when: a reminder needs a time" in said


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("act_on_task", {"action": "done"}),
        ("act_on_task", {"action": "undo", "undo": "u_done"}),
        ("act_on_task", {"action": "undo", "undo": "u_1"}),
        ("act_on_task", {"action": "undo"}),
        ("act_on_task", {"action": "snooze", "minutes": 5}),
        ("act_on_task", {"action": "run_now"}),
        ("act_on_task", {"action": "skip_next"}),
        ("act_on_task", {"action": "approve"}),
        ("act_on_task", {"action": "reject"}),
        ("cancel_task", {}),
        ("reschedule_task", {"title": "B"}),
        ("reschedule_task", {"title": "B", "dry_run": True}),
        ("reschedule_task", {"wait_for": {"event": "paid"}}),
    ],
)
def test_a_change_of_another_revision_than_was_seen_is_refused(
    say: Say, ask: Ask, tool: str, arguments: dict[str, Any]
) -> None:
    task = ask("schedule_task", title="A", when="in 1 hour", approval={"question": "Go?"})[1]["id"]
    assert f"{task} is at revision 1, not 99" in say(tool, task_id=task, revision=99, **arguments)


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("act_on_task", {"action": "run_now"}),
        ("act_on_task", {"action": "undo", "undo": "u_b1"}),
        ("act_on_task", {"action": "undo", "undo": "u_1"}),
        ("act_on_task", {"action": "approve"}),
        ("cancel_task", {}),
        ("reschedule_task", {"title": "B"}),
    ],
)
def test_a_chain_has_no_revision_to_change_it_at(say: Say, ask: Ask, tool: str, arguments: dict[str, Any]) -> None:
    chain = ask("schedule_task", title="A", when="in 1 hour", steps=[{"name": "a"}])[1]["id"]
    assert "a chain has none" in say(tool, task_id=chain, revision=99, **arguments)


@pytest.mark.parametrize(
    "asked",
    [
        {"wait_for": {"event": "zz"}},
        {"wait_for": {"any": [{"event": "a"}, {"event": "b"}]}},
        {"wait_for": {"event": "zz", "or_when": True}},
        {"approval": {"question": "Pay?"}},
        {"approval": {"question": "Pay?"}, "wait_for": {"event": "zz"}},
        {"after": True},
        {"after": True, "wait_for": {"event": "zz"}},
        {"remove": ["wait_for"]},
    ],
)
@pytest.mark.parametrize("waits", [{}, {"wait_for": {"event": "old"}}])
def test_a_trial_says_what_the_task_would_wait_for(ask: Ask, asked: dict[str, Any], waits: dict[str, Any]) -> None:
    first = ask("schedule_task", title="First", when="in 1 hour")[1]["id"]
    task = ask("schedule_task", title="A", when="in 1 hour", **waits)[1]["id"]
    asked = {**asked, **({"after": [first]} if "after" in asked else {})}
    tried = ask("reschedule_task", task_id=task, dry_run=True, **asked)[1]
    done = ask("reschedule_task", task_id=task, **asked)[1]
    assert (tried["state"], tried.get("waits")) == (done["state"], done.get("waits"))


@pytest.mark.parametrize("word", ["only_on_failure", "if failed", "One-Failed"])
def test_a_task_for_a_failure_alone_is_refused_with_the_call_that_makes_it(say: Say, ask: Ask, word: str) -> None:
    backup = ask("schedule_task", title="Backup", when="tomorrow")[1]["id"]
    refused = say("schedule_task", title="Alarm", after=[backup], after_failure=word)
    run = "on_failure={'run': {'action': 'reminder', 'payload': {'message': 'It failed'}}}"
    hint = "what runs only after a failure is on_failure={'run': ...} of the task that fails"
    assert hint in refused
    assert refused.endswith(f"Example: reschedule_task(task_id={backup!r}, {run})")
    message = {"action": "reminder", "payload": {"message": "It failed"}}
    assert ask("reschedule_task", task_id=backup, on_failure={"run": message})[1]["on_failure"] == {"run": message}
    steps: list[dict[str, Any]] = [{"name": "fetch", "when": "tomorrow"}, {"name": "warn", "after": ["fetch"]}]
    refused = say("schedule_task", title="Books", steps=[steps[0], {**steps[1], "after_failure": word}])
    assert hint in refused
    assert refused.endswith(f"Example: steps={steps}")
    other = say("schedule_task", title="Alarm", after=[backup], after_failure="whatever")
    assert other.endswith("Example: after_failure='run_anyway'")
