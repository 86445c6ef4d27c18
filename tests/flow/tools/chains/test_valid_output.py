"""Valid output: a result of another form than it has to have counts as its task's failure, for what comes after."""

from __future__ import annotations

import json
from typing import Any

import pytest
from duetime.scheduler.chain.result_schema import mismatch
from duetime.scheduler.chain.valid_output import MAX_OUTPUT_SCHEMA_LEVELS
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.events import EventFilter
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.task import State
from duetime.tools.arguments.steps import VALID_OUTPUT

from tests.builders import restarted, settlement

LISTED = {"type": "array", "minItems": 1}
ROWS: dict[str, Any] = {"type": "object", "properties": {"rows": LISTED}, "required": ["rows"]}


@pytest.fixture
def scheduler(store: Store) -> Scheduler:
    return Scheduler(store, Planner(Handlers.load(), "America/Denver", upstreams=store.dependencies.known))


def deep(levels: int) -> dict[str, Any]:
    return {"not": deep(levels - 1)} if levels > 1 else {"type": "object"}


@pytest.mark.parametrize(
    ("result", "policy", "expected"),
    [
        ({"rows": [1]}, "fail", (State.SCHEDULED, "succeeded")),
        ({"rows": []}, "fail", (State.FAILED, "its result is not valid: $.rows: [] should be non-empty")),
        (None, "skip", (State.SKIPPED, "its result is not valid: $: None is not of type 'object'")),
        ([1], "run_anyway", (State.SCHEDULED, "its result is not valid: $: [1] is not of type 'object'")),
    ],
)
def test_a_result_of_another_form_counts_as_a_failure_for_what_comes_after(
    scheduler: Scheduler, store: Store, result: Any, policy: Any, expected: tuple[State, str]
) -> None:
    first = scheduler.schedule("Fetch", when="now").record
    second = scheduler.schedule("Load", after=[first.task.id], after_failure=policy, valid_output=ROWS).record.task.id
    store.claims.settle([settlement(restarted(store, first), result=result)])
    assert store.tasks.get("local", second).run.state is expected[0]
    assert store.tasks.get("local", first.task.id).run.state is State.SUCCEEDED
    told = store.history.events("local", EventFilter(task_id=second), limit=1, cursor=None).events[0]
    assert expected[1] in (told.reason or "")


def test_a_task_that_has_ended_already_is_checked_when_it_is_named(scheduler: Scheduler, store: Store) -> None:
    first = scheduler.schedule("Fetch", when="now").record
    store.claims.settle([settlement(restarted(store, first), result={"rows": []})])
    view = scheduler.schedule("Load", after=[first.task.id], valid_output=ROWS)
    assert view.record.run.state is State.FAILED


def test_a_failed_check_is_made_again_when_the_upstream_runs_again(scheduler: Scheduler, store: Store) -> None:
    first = scheduler.schedule("Fetch", when="now").record
    second = scheduler.schedule("Load", after=[first.task.id], valid_output=ROWS).record.task.id
    store.claims.settle([settlement(restarted(store, first), result={"rows": []})])
    scheduler.act(first.task.id, "run_now")
    assert store.tasks.get("local", second).run.state is State.WAITING
    store.claims.settle([settlement(restarted(store, first), result={"rows": [1]})])
    assert store.tasks.get("local", second).run.state is State.SCHEDULED


def test_each_step_checks_what_it_comes_after(scheduler: Scheduler, store: Store) -> None:
    view = scheduler.schedule(
        "Report",
        steps=[{"name": "fetch", "when": "now"}, {"name": "load", "after": ["fetch"], "valid_output": ROWS}],
    )
    assert view.chain
    first = store.tasks.get("local", view.chain.steps[0].task_id)
    store.claims.settle([settlement(restarted(store, first), result={"rows": []})])
    assert store.tasks.get("local", view.chain.steps[1].task_id).run.state is State.FAILED


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": "string", "pattern": "(a+)+$"}, "'pattern' is not a supported keyword"),
        ({"properties": {"rows": {"$ref": "https://example.com/rows"}}}, r"'\$ref' is not a supported keyword"),
        ({"items": {"uniqueItems": True}}, "'uniqueItems' is not a supported keyword"),
        ({"const": float("inf")}, "it is not JSON"),
        ({"type": "rows"}, "'rows' is not valid"),
        ({"enum": ["x" * 5_000]}, "it has 5,0"),
        (deep(MAX_OUTPUT_SCHEMA_LEVELS + 1), "it has more than 16 levels"),
        ({"properties": ["rows"]}, "is not of type 'object'"),
    ],
)
def test_a_schema_whose_check_could_take_long_is_refused(
    scheduler: Scheduler, schema: dict[str, Any], said: str
) -> None:
    first = scheduler.schedule("Fetch", when="in 1 hour").record.task.id
    with pytest.raises(InvalidArgument, match=said):
        scheduler.schedule("Load", after=[first], valid_output=schema)


def test_a_schema_alone_checks_nothing_and_is_refused(scheduler: Scheduler) -> None:
    with pytest.raises(InvalidArgument, match="it is for the results of other tasks"):
        scheduler.schedule("Load", when="in 1 hour", valid_output=ROWS)


def test_the_differences_are_named_in_few_words() -> None:
    assert mismatch({"const": 1}, "x" * 1_000) is not None
    assert len(mismatch({"const": 1}, "x" * 1_000) or "") <= 160
    assert mismatch(ROWS, {"rows": [1]}) is None


def test_the_definition_costs_a_model_at_most_200_characters() -> None:
    assert len(json.dumps({VALID_OUTPUT.name: VALID_OUTPUT.schema()}, separators=(",", ":"))) <= 200
