"""The arguments of the Python API: each value is taken with its obvious meaning, or refused with a call that works."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import fields
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from duetime import Scheduler
from duetime.scheduler.calls.reschedule import Reschedule
from duetime.scheduler.errors import DuetimeError, InvalidArgument, InvalidArguments
from duetime.scheduler.events import EventFilter
from duetime.scheduler.history.runs import RunFilter
from duetime.scheduler.principal import Principal
from duetime.scheduler.request import Request
from duetime.scheduler.task import RetryPolicy, State
from duetime.scheduler.views import TaskFilter
from duetime.server.python.arguments import SPECIAL_ARGUMENTS, USUAL
from duetime.server.python.calls import Signature
from duetime.server.python.words import MethodWords
from duetime.tools.reschedule_task import RESCHEDULE_TASK
from pydantic import BaseModel, Field

METHODS = [
    name
    for name in vars(Scheduler)
    if not name.startswith("_") and name not in {"open", "policies", "pools", "service", "zone"}
]
USED: dict[str, dict[str, Any]] = {
    "set_quiet_hours": {"hours": "22:00-07:00 UTC"},
    "wait": {"task_id": "t_000000000000", "timeout": 0},
    "dead_letter": {"run_id": "r_7k3m9qx2w4hb00000000"},
    "decision": {"decision_id": "d_7k3m9qx2w4hb00000000"},
    "run_log": {"run_id": "r_7k3m9qx2w4hb00000000"},
    "schedule": {"title": "Call John", "when": "in 2 hours"},
    "submit": {"request": Request("Call John", when="in 2 hours")},
    "schedule_many": {"requests": [Request("Call John", when="in 2 hours")]},
    "act": {"action": "snooze"},
    "change_many": {"change": "pause", "dry_run": True},
    "send_event": {"name": "invoice paid"},
    "find": {"text": "Call John"},
    "titles": {"task_ids": ["t_1"]},
}
"""A call of each method that needs more than the id of a task."""

VALUES: list[Any] = [
    None,
    True,
    0,
    -1,
    5,
    10**30,
    0.5,
    float("nan"),
    float("inf"),
    Decimal(2),
    1j,
    "",
    " ",
    "project",
    "5",
    "[",
    '["a"]',
    '{"a": 1}',
    "a, b",
    "x" * 100_000,
    "\x00",
    "\ud800",
    "\u202e",
    b"bytes",
    bytearray(b"bytes"),
    [],
    (),
    set(),
    ["a"],
    ("a", "b"),
    {"a"},
    [None],
    [5],
    [["a"]],
    ["\ud800"],
    ["a"] * 1000,
    range(3),
    iter(["a"]),
    {},
    {"a": 1},
    {"a": float("nan")},
    {"a": object()},
    {"a": {1: 2}},
    {5: 1},
    {None: 1},
    {"max_attempts": 3},
    timedelta(days=3),
    timedelta(0),
    timedelta(days=-3),
    timedelta.max,
    timedelta.min,
    date(2099, 1, 1),
    date.min,
    date.max,
    datetime(2099, 1, 1),  # noqa: DTZ001 - a wall time
    datetime(2099, 1, 1, tzinfo=UTC),
    datetime.min,  # noqa: DTZ901 - likewise
    datetime.max.replace(tzinfo=UTC),
    time(9),
    RetryPolicy(),
    RetryPolicy(max_attempts="3"),  # type: ignore[arg-type]  # wrong on purpose
    RetryPolicy(backoff=5),  # type: ignore[arg-type]  # likewise
    Principal(),
    Request("Call John"),
    TaskFilter(),
    EventFilter(),
    State.FAILED,
    Path("a"),
    object(),
    int,
    len,
    NotImplemented,
]


def arguments() -> Iterator[tuple[str, str]]:
    for name in METHODS:
        for argument in Signature.of(getattr(Scheduler, name)).arguments.table:
            yield name, argument


def usual(method: str, task_id: str) -> dict[str, Any]:
    needed = Signature.of(getattr(Scheduler, method)).first
    return {"task_id": task_id} | USED.get(method, {}) if needed == "task_id" else USED.get(method, {})


def tried(call: Callable[[], object]) -> DuetimeError | None:
    """Return the refusal of a call, None when it was carried out; whatever else is raised fails the test."""
    try:
        call()
    except DuetimeError as refused:
        return refused
    return None


def with_each_value(call: Callable[[Any], object]) -> list[str]:
    """Return what each value was refused with; the error of ours that says nothing is one as well."""
    said = []
    for value in VALUES:
        refused = tried(lambda value=value: call(value))  # type: ignore[misc]  # a default binds the value
        if refused is not None:
            assert re.search(r"\w{2}.*\.", str(refused)), repr(value)
            said.append(str(refused))
    return said


@pytest.fixture(scope="module")
def task_id(scheduler: Scheduler) -> str:
    return scheduler.schedule("Water the plants", repeat="every day at 18:00").record.task.id


@pytest.mark.parametrize(("method", "argument"), list(arguments()))
def test_each_value_of_each_argument_is_taken_or_refused_with_a_sentence(
    scheduler: Scheduler, task_id: str, method: str, argument: str
) -> None:
    call, given = getattr(scheduler, method), usual(method, task_id)

    said = with_each_value(lambda value: call(**(given | {argument: value})))

    assert said, "an argument that takes everything checks nothing"
    assert not re.search(r"_task\b|list_tasks|--\w", "\n".join(said)), "a tool or an option is named"


@pytest.mark.parametrize("kind", [Request, TaskFilter, EventFilter, RunFilter])
def test_each_value_of_each_field_is_taken_or_refused_with_a_sentence(scheduler: Scheduler, kind: type[Any]) -> None:
    calls = {Request: scheduler.submit, TaskFilter: scheduler.list, EventFilter: scheduler.history}
    call: Any = calls.get(kind, scheduler.runs)
    needed = {"title": "Call John", "when": "in 2 hours"} if kind is Request else {}

    for item in fields(kind):
        assert with_each_value(lambda value, name=item.name: call(kind(**(needed | {name: value}))))  # type: ignore[misc]  # a default binds the name


@pytest.mark.parametrize("kind", [Request, Reschedule, TaskFilter, EventFilter, RunFilter])
def test_every_field_has_a_kind(kind: type[Any]) -> None:
    assert [
        item.name
        for item in fields(kind)
        if item.name not in USUAL and f"{kind.__name__}.{item.name}" not in SPECIAL_ARGUMENTS
    ] == []


# --- examples ---


@pytest.mark.parametrize(("method", "argument"), list(arguments()))
def test_the_example_of_a_refusal_is_a_call_of_that_method_with_that_argument(
    scheduler: Scheduler, task_id: str, method: str, argument: str
) -> None:
    refused = tried(lambda: getattr(scheduler, method)(**(usual(method, task_id) | {argument: object()})))

    assert isinstance(refused, InvalidArgument | InvalidArguments)
    assert refused.code == "invalid_argument"
    called = str(refused).partition("Example: ")[2]
    call: Any = ast.parse(called, mode="eval").body
    assert ast.unparse(call.func) == f"Scheduler.{method}"
    assert [each.arg for each in call.keywords] == [argument]


@pytest.mark.parametrize("method", ["schedule", "reschedule"])
def test_python_takes_what_the_tools_show_for_an_argument_of_that_name(method: str) -> None:
    shown = {argument.name: argument.example for argument in RESCHEDULE_TASK.read().table.values()}
    taken = set(Signature.of(getattr(Scheduler, method)).arguments.table) & {
        name for name, example in shown.items() if example
    }
    assert {"expect", "on_failure", "needs", "labels", "estimate", "approval"} <= taken

    for name in taken:
        first, _, _ = shown[name].partition(" or ")  # further ones may be of other arguments
        value = first.partition("=")[2].replace("true", "True")
        argument = SPECIAL_ARGUMENTS.get(f"{method}.{name}") or USUAL[name]
        argument.kind.read(ast.literal_eval(value))


EACH_KIND = """\
needs: text is not an object. Accepted: a mapping of whole units by pool. \
Example: Scheduler.schedule(..., needs={'key:a': 1})
labels: an object is not a list of texts. Accepted: a list of texts. Example: Scheduler.schedule(..., labels=['team=x'])
retry: 'often' is not understood. Accepted: a RetryPolicy, a mapping with max_attempts, or '5 times, 30 s apart'. \
Example: Scheduler.schedule(..., retry=RetryPolicy(max_attempts=3))
repeat: a timedelta is not a recurrence: write it in words. Accepted: a recurrence in words. \
Example: Scheduler.schedule(..., repeat='every 3 days at 18:00')
priority: 'hihg' is not one of them. Accepted: critical, high, normal, low, background. \
Example: Scheduler.schedule(..., priority='high')
""".splitlines()


def test_a_corrected_call_of_each_kind_is_shown(scheduler: Scheduler) -> None:
    wrong: dict[str, Any] = {
        "needs": "key:a",
        "labels": {"team": "x"},
        "retry": "often",
        "repeat": timedelta(days=3),
        "priority": "hihg",
    }

    refused = tried(lambda: scheduler.schedule("Call John", **wrong))

    assert isinstance(refused, InvalidArguments)
    assert str(refused).splitlines() == EACH_KIND


def test_a_payload_that_is_none_is_answered_with_one_of_the_action_of_the_task(scheduler: Scheduler) -> None:
    hook = scheduler.schedule("Ring", when="tomorrow", action="webhook", payload={"url": "https://example.com/hook"})
    wrong: Any = "new"
    for call in (
        lambda: scheduler.reschedule(hook.record.task.id, payload=wrong),
        lambda: scheduler.schedule("Ring", when="tomorrow", action="webhook", payload=wrong),
    ):
        assert "payload={'url': 'https://example.com/hook', 'method': 'POST'}" in str(tried(call))
    assert "payload={'message': 'new'}" in str(tried(lambda: scheduler.schedule("Ring", payload=wrong)))


def test_no_error_offers_the_argument_that_front_ends_pass_an_agents_call_in(scheduler: Scheduler) -> None:
    text = str(tried(lambda: scheduler.schedule("Call John", colour="red")))  # type: ignore[call-arg]  # wrong on purpose
    assert "colour: schedule has no such argument" in text
    assert not re.search(r"\braw\b", text)
    assert scheduler.schedule("Call John", when="in 1 hour", raw={"title": "Call John"}).created


def test_the_wrong_request_of_many_is_named_by_its_place(scheduler: Scheduler) -> None:
    requests: list[Any] = [Request("One", when="in 1 hour"), Request("Two", when="in 2 hours", labels=5)]  # type: ignore[arg-type]  # wrong on purpose

    refused = tried(lambda: scheduler.schedule_many(requests))

    assert str(refused).startswith("requests[1].labels: a number is not a list of texts.")
    assert str(refused).endswith("Example: Request(..., labels=['project'])")


def test_the_example_of_a_wrong_request_of_many_names_the_argument(scheduler: Scheduler) -> None:
    for name, wrong in {"title": Request(""), "when": Request("Two", when="soonish")}.items():
        text = str(tried(partial(scheduler.schedule_many, [Request("One", when="in 1 hour"), wrong])))
        assert text.startswith(f"requests[1].{name}: ")
        assert f"Example: Request(..., {name}=" in text


def test_all_that_is_wrong_with_many_requests_is_named_by_its_place(scheduler: Scheduler) -> None:
    requests = [
        Request("Count stars", when="in 1 hour"),
        Request("Count stars twice", when="in 2 hours", steps=[{"name": "fetch"}]),
        Request("Count stars by day", when="2001-01-01 9:00", timezone="Europe/Berlin"),
        Request("Count stars again", when="in 3 hours", dry_run=True),
    ]

    chain, early, tried_one = str(tried(lambda: scheduler.schedule_many(requests))).splitlines()

    assert chain == (
        "requests[1].steps: a chain cannot be part of a batch. "
        "Accepted: requests without steps, and `submit` for each chain. Example: "
        "scheduler.submit(Request('Report', steps=[{'name': 'fetch'}, {'name': 'send', 'after': ['fetch']}]))"
    )
    assert early.startswith("requests[2].when: ")
    assert tried_one == (
        "requests[3].dry_run: cannot be used with requests that are stored together. "
        "Accepted: requests without dry_run, and `submit` to try one. "
        "Example: scheduler.submit(Request('Call John', when='in 2 hours', dry_run=True))"
    )
    assert scheduler.list(TaskFilter(query="count stars")).views == ()


def test_a_filter_shows_a_filter(scheduler: Scheduler) -> None:
    refused = tried(lambda: scheduler.list(TaskFilter(label=5)))  # type: ignore[arg-type]  # wrong on purpose

    assert str(refused).endswith("Example: TaskFilter(label='project')")


def test_a_name_that_there_is_not_is_answered_with_the_one_that_was_meant(scheduler: Scheduler) -> None:
    slip: Any = {"whem": "in 2 hours"}

    assert "whem: schedule has no such argument; did you mean when" in str(
        tried(lambda: scheduler.schedule("Call John", **slip))
    )


def test_a_call_that_python_refuses_is_refused_by_python_in_the_name_that_was_called(scheduler: Scheduler) -> None:
    program: Any = scheduler
    for call in (program.get, lambda: program.get("t_1", "t_2"), lambda: program.get("t_1", task_id="t_2")):
        with pytest.raises(TypeError, match=r"^Scheduler\.get\(\)"):
            call()
    for name in ("change_many", "send_event", "set_quiet_hours", "dead_letter", "find"):
        with pytest.raises(TypeError, match=rf"^Scheduler\.{name}\(\) missing 1 required positional argument"):
            getattr(program, name)()


# --- what is taken ---


def test_a_part_that_cannot_be_removed_is_refused_with_those_that_can(scheduler: Scheduler) -> None:
    task_id = scheduler.schedule("Call John", when="in 2 hours").record.task.id
    with pytest.raises(InvalidArgument, match="Accepted: a list of payload, needs, labels, "):
        scheduler.reschedule(task_id, remove=["title"])


def test_one_label_is_a_label_and_not_its_letters(scheduler: Scheduler) -> None:
    given: Any = "project"

    assert scheduler.schedule("Call John", when="in 2 hours", labels=given).record.task.labels == ("project",)
    assert scheduler.submit(Request("Call John", when="in 2 hours", labels=given)).record.task.labels == ("project",)


def test_a_retry_policy_may_be_the_mapping_that_tools_take(scheduler: Scheduler) -> None:
    members: Any = {"max_attempts": 3, "backoff_seconds": "5"}

    task = scheduler.schedule("Call John", when="in 2 hours", retry=members).record.task
    assert task.retry == RetryPolicy(3, timedelta(seconds=5))
    refused = str(tried(lambda: scheduler.reschedule(task.id, retry={"attempts": 3})))
    assert "retry: it has no member 'attempts'" in refused
    assert "Example: Scheduler.reschedule(..., retry={'max_attempts': 3})" in refused


@pytest.mark.parametrize(
    ("retry", "policy"),
    [
        ("3 times, 5 minutes apart", RetryPolicy(4, timedelta(minutes=5), timedelta(minutes=10))),
        ({"max_attempts": 4, "backoff": "5 minutes"}, RetryPolicy(4, timedelta(minutes=5), timedelta(hours=1))),
        (4, RetryPolicy(4)),
    ],
)
def test_retries_in_words_are_those_of_the_tools(scheduler: Scheduler, retry: Any, policy: RetryPolicy) -> None:
    task = scheduler.schedule("Call John", when="in 2 hours", retry=retry).record.task
    assert task.retry == policy
    assert scheduler.reschedule(task.id, retry=retry).record.task.retry == policy


@pytest.mark.parametrize(
    ("members", "problem"),
    [
        ({"max_attempts": 0}, "max_attempts: 0 is out of range; a whole number from 1 to 100 is accepted"),
        ({"backoff_seconds": 0}, "backoff_seconds: 0 is out of range; a whole number from 1 to 86400 is accepted"),
        ({"max_attempts": None}, "max_attempts: nothing is not a whole number; "),
        ({"max_attempts": 2, "max_backoff_seconds": ""}, "max_backoff_seconds: '' is not a whole number; "),
        ({}, "it has no member"),
    ],
)
def test_an_empty_member_of_a_retry_policy_is_refused_and_not_replaced(
    scheduler: Scheduler, members: Any, problem: str
) -> None:
    task = scheduler.schedule("Call John", when="in 2 hours", retry={"max_attempts": 2}).record.task
    for call in (
        lambda: scheduler.schedule("Call Jane", when="in 2 hours", retry=members),
        lambda: scheduler.submit(Request("Call Jane", when="in 2 hours", retry=members)),
        lambda: scheduler.reschedule(task.id, retry=members),
    ):
        assert f"retry: {problem}" in str(tried(call))
    assert scheduler.get(task.id).record.task.retry.max_attempts == 2


def test_a_date_means_what_its_text_means(scheduler: Scheduler) -> None:
    said = scheduler.schedule("Call John", when="2028-01-01", until="2028-02-01", repeat="every day at 9:00")
    given = scheduler.schedule("Call Ann", when=date(2028, 1, 1), until=date(2028, 2, 1), repeat="every day at 9:00")

    assert given.record.run.scheduled_for == said.record.run.scheduled_for
    assert given.record.task.until == said.record.task.until
    found, listed = (scheduler.list(after=bound, before="2028-01-09") for bound in (date(2028, 1, 1), "2028-01-01"))
    assert found.where == listed.where


def test_a_snooze_ends_at_a_datetime_too(scheduler: Scheduler) -> None:
    once = scheduler.schedule("Stretch", when="in 2 hours")
    end = datetime(2028, 1, 1, 9, tzinfo=UTC)

    assert scheduler.act(once.record.task.id, "snooze", until=end).record.run.wake_at == end


def test_states_are_members_or_names(scheduler: Scheduler) -> None:
    names: Any = "Failed"

    assert scheduler.list(TaskFilter(states=names)).where.states == (State.FAILED,)
    assert scheduler.list(TaskFilter(states=(State.FAILED, State.EXPIRED))).where.states == (
        State.FAILED,
        State.EXPIRED,
    )
    wrong: Any = "nope"
    with pytest.raises(
        InvalidArgument, match=r"'nope' is not one of them\. Accepted: states of runs: scheduled, .*expired"
    ):
        scheduler.list(TaskFilter(states=wrong))


def test_none_stands_for_what_is_not_given(scheduler: Scheduler) -> None:
    names = ("labels", "payload", "deliver_to", "action", "dry_run")
    nothing: Any = dict.fromkeys(names)

    assert scheduler.schedule("Call John", when="in 2 hours", by=nothing["labels"], **nothing).record.task.labels == ()
    assert scheduler.submit(Request("Call John", when="in 3 hours", **nothing)).record.task.action == "reminder"


# --- remedies ---


def test_a_remedy_is_a_method(scheduler: Scheduler) -> None:
    refused = tried(lambda: scheduler.get("t_nothing"))

    assert refused is not None
    assert str(refused) == "task_id: no task 't_nothing'. Scheduler.list() returns your tasks and their ids."


def test_the_words_of_json_become_those_of_python() -> None:
    words = MethodWords("Scheduler", "reschedule", ("task_id", "when", "all_following"), "task_id")

    assert words.example("when='17:30', all_following=true") == (
        "Scheduler.reschedule(..., when='17:30', all_following=True)"
    )
    assert words.example("repeat='daily' or repeat='weekly'").count("Scheduler.reschedule(...") == 2


FAR = [datetime(9999, 12, 31, tzinfo=UTC), datetime(2054, 1, 1, tzinfo=UTC), timedelta(days=9999)]
TOO_FAR = "is more than 5 years ahead"


@pytest.mark.parametrize("far", FAR)
def test_an_instant_too_far_ahead_is_refused_as_its_words_are(scheduler: Scheduler, far: datetime | timedelta) -> None:
    with pytest.raises(InvalidArgument, match=TOO_FAR):
        scheduler.schedule("Call John", when=far)
    with pytest.raises(InvalidArgument, match=TOO_FAR):
        scheduler.schedule("Call John", repeat="daily", until=far)


@pytest.mark.parametrize("far", FAR)
def test_no_change_moves_a_task_to_an_instant_too_far_ahead(scheduler: Scheduler, far: datetime | timedelta) -> None:
    task_id = scheduler.schedule("Call John", when="in 2 hours").record.task.id
    with pytest.raises(InvalidArgument, match=TOO_FAR):
        scheduler.reschedule(task_id, when=far)
    with pytest.raises(InvalidArgument, match=TOO_FAR):
        scheduler.reschedule(task_id, pause_until=far)
    with pytest.raises(InvalidArgument, match=TOO_FAR):
        scheduler.act(task_id, "snooze", until=far)
    assert scheduler.get(task_id).record.damage == ()


def test_a_payload_that_contains_itself_is_refused_by_name(scheduler: Scheduler) -> None:
    payload: dict[str, Any] = {"message": "Call John"}
    payload["itself"] = payload
    task_id = scheduler.schedule("Call John", when="in 2 hours").record.task.id
    with pytest.raises((InvalidArgument, InvalidArguments), match="payload"):
        scheduler.submit(Request("Call John", when="in 2 hours", payload=payload))
    with pytest.raises((InvalidArgument, InvalidArguments), match="payload"):
        scheduler.schedule("Call John", when="in 2 hours", payload=payload)
    with pytest.raises((InvalidArgument, InvalidArguments), match="payload"):
        scheduler.reschedule(task_id, payload=payload)


class Note(BaseModel):
    message: str


def test_a_model_as_a_payload_is_stored_as_its_json(scheduler: Scheduler) -> None:
    note: Any = Note(message="Stretch")
    view = scheduler.schedule("Stretch", when="in 2 hours", action="reminder", payload=note)
    assert view.record.task.payload["message"] == "Stretch"


def test_a_model_as_the_payload_of_a_step_is_stored_as_its_json(scheduler: Scheduler) -> None:
    steps: Any = [
        {"name": "stretch", "payload": Note(message="Stretch")},
        {"name": "walk", "after": ["stretch"], "payload": {"message": "Walk"}},
    ]
    view = scheduler.schedule("Pause", when="in 2 hours", steps=steps)
    asked = scheduler.submit(Request("Break", when="in 2 hours", steps=steps))
    for chain in (view.chain, asked.chain):
        assert chain
        payloads = [scheduler.get(step.task_id).record.task.payload for step in chain.steps]
        assert [payload["message"] for payload in payloads] == ["Stretch", "Walk"]


def test_a_model_that_loses_something_as_json_is_refused_by_the_name_of_its_step(scheduler: Scheduler) -> None:
    class Lossy(BaseModel):
        message: str
        size: int = Field(3, exclude=True)

    lossy = Lossy(message="Stretch", size=4)
    steps: Any = [{"name": "stretch", "payload": lossy}]
    with pytest.raises((InvalidArgument, InvalidArguments)) as of_step:
        scheduler.schedule("Pause", when="in 2 hours", steps=steps)
    said = "payload: its model is not read from its own dump. Accepted: the JSON object that the model reads. Example: "
    assert str(of_step.value) == f'steps.stretch.{said}{{"message": "Stretch"}}'
    unnamed: Any = [{"name": "walk"}, {"payload": lossy}]
    with pytest.raises((InvalidArgument, InvalidArguments), match=r"^steps\[1\]\.payload: its model is not read"):
        scheduler.schedule("Pause", when="in 2 hours", steps=unnamed)


@pytest.mark.parametrize(("fold", "hour"), [(0, 0), (1, 1)])
def test_of_two_wall_times_fold_chooses(scheduler: Scheduler, fold: int, hour: int) -> None:
    twice = datetime(2027, 10, 31, 2, 30, fold=fold)  # noqa: DTZ001 - a wall time
    view = scheduler.schedule("Clocks go back", when=twice, timezone="Europe/Berlin")
    assert view.record.run.scheduled_for == datetime(2027, 10, 31, hour, 30, tzinfo=UTC)


def test_fold_means_nothing_where_a_wall_time_comes_once(scheduler: Scheduler) -> None:
    once = datetime(2027, 3, 28, 2, 30)  # noqa: DTZ001 - a wall time
    plain, folded = (
        scheduler.schedule("Clocks", when=once.replace(fold=fold), timezone="Europe/Berlin") for fold in (0, 1)
    )
    assert plain.record.run.scheduled_for == folded.record.run.scheduled_for
