"""One refusal names the problems of all steps, and of all members of what follows from a failure."""

from __future__ import annotations

from typing import Any

import pytest
from duetime.scheduler.errors import MAX_REFUSAL_BYTES, InvalidArguments, TaskNotFound
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store

HOOK = {"url": "https://example.com/hook", "bad": 1}


def test_an_unknown_id_among_several_names_the_argument_that_has_it(store: Store) -> None:
    scheduler = Scheduler(store, Planner(Handlers.load(), "UTC"))
    with pytest.raises(TaskNotFound, match=r"^task_ids: no task 't_000000000000'"):
        scheduler.bulk.change("cancel", ["t_000000000000"])


@pytest.mark.parametrize(
    ("arguments", "places"),
    [
        (
            {"on_failure": {"notify": "nope", "run": {"action": "nope"}, "tier": "urgent", "else": 1}},
            ["on_failure", "on_failure.notify", "on_failure.run.action", "on_failure.tier"],
        ),
        (
            {"on_failure": {"run": {"action": "webhook", "payload": HOOK, "when": "now"}, "tier": 3}},
            ["on_failure.run", "on_failure.run.payload.bad", "on_failure.tier"],
        ),
        ({"action": "webhook", "payload": {"url": HOOK["url"]}, "expect": {"field": 1, "url": 2, "else": 3}},
         ["expect.field", "expect.url", "expect"]),
        ({"expect": {"field": "id", "schema": {}}}, ["expect.field", "expect.schema"]),
        ({"steps": [{"name": "a b"}, {"when": "soon", "else": 1}, 5]},
         ["steps[1].name", "steps[2].else", "steps[2].name", "steps[3]"]),
        (
            {"steps": [{"name": "a", "on_failure": {"notify": "x", "tier": "y"}}, {"name": "b", "action": "nope"}]},
            ["steps.a.on_failure.notify", "steps.a.on_failure.tier", "steps.b.action"],
        ),
        (
            {"wait_for": {"event": "x y", "match": 7, "timeout": "soon", "on_timeout": "stop", "colour": "red"}},
            [f"wait_for.{name}" for name in ("colour", "event", "match", "timeout", "on_timeout")],
        ),
        (
            {"wait_for": {"any": [{"event": "x y", "lookback": "soon"}, {"event": "a", "if": 1}], "timeout": "soon"}},
            ["wait_for.any[0].event", "wait_for.any[0].lookback", "wait_for.timeout", "wait_for.any[1]"],
        ),
        (
            {"approval": {"question": "x" * 900, "by": "whenever", "default": "maybe", "ask": "Pay?"}},
            ["approval", "approval.question", "approval.default", "approval.by"],
        ),
        (
            {"after": ["t_000000000000"], "after_failure": "stop", "valid_output": {"type": "x"}},
            ["after_failure", "valid_output", "after"],
        ),
        (
            {"steps": [{"name": "a", "after": ["t_000000000000"], "after_failure": "stop", "wait_for": {"event": "x y",
                        "on_timeout": "stop"}, "colour": "red"}]},
            ["steps[1].colour", "steps.a.after_failure", "steps.a.after", "steps.a.wait_for.event",
             "steps.a.wait_for.on_timeout"],
        ),
        (
            {"steps": [{"name": "a", "payload": "x", "action": "webhook", "when": 7, "notify": "x"}]},
            ["steps[1].payload", "steps[1].when", "steps.a.notify"],
        ),
    ],
)  # fmt: skip
def test_all_problems_are_told_at_once(store: Store, arguments: dict[str, Any], places: list[str]) -> None:
    scheduler = Scheduler(store, Planner(Handlers.load(), "UTC", upstreams=store.dependencies.known))
    with pytest.raises(InvalidArguments) as refused:
        scheduler.schedule("Sync", **{"when": "in 1 hour", **arguments})
    assert [problem.argument for problem in refused.value.problems] == places
    said = str(refused.value)
    assert [line.partition(": ")[0] for line in said.splitlines()] == places
    assert len(said.encode()) <= MAX_REFUSAL_BYTES
