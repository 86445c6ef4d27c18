"""The published schemas of the payloads: they are what the models say, and nothing of an earlier version is lost."""

from __future__ import annotations

import copy
import runpy
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.request import StepArguments
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import open_store
from duetime.widgets.formats.speech import with_speech
from duetime.widgets.payload import as_json, task_payload
from jsonschema import Draft202012Validator

from tests.builders import NOON, Clock
from tests.widgets.published import NAMES, PUBLISHED, Schema, read

ROOT = Path(__file__).resolve().parents[3]
BEFORE = Path(__file__).parents[1] / "payloads_0_1"
"""The schemas as version 0.1 published them; a release adds a folder, and none is changed."""


def losses(before: Schema, after: Schema) -> Iterator[str]:
    """Yield what a reader of the earlier schema could miss: a part, its type, its presence, a value."""
    for name, part in {"": before, **before.get("$defs", {})}.items():
        now = after if not name else after.get("$defs", {}).get(name)
        yield from [f"{name} is gone"] if now is None else _of_part(name, part, now)


def _of_part(place: str, before: Schema, now: Schema) -> Iterator[str]:
    yield from (f"{place}.{name} may be absent" for name in before.get("required", []) if name not in now["required"])
    yield from (f"{place} is never {value!r} now" for value in before.get("enum", []) if value not in now["enum"])
    for name, part in before.get("properties", {}).items():
        if name not in now.get("properties", {}):
            yield f"{place}.{name} is gone"
        elif _kind(part) != _kind(now["properties"][name]):
            yield f"{place}.{name} has another type"


def _kind(part: Schema) -> Schema:
    return {key: value for key, value in part.items() if key != "description"}


@pytest.mark.parametrize("name", NAMES)
def test_a_published_schema_is_what_the_model_says(name: str) -> None:
    script = ROOT / ".ci" / "payload_schemas.py"
    made = runpy.run_path(str(script))["content"](name)
    assert (PUBLISHED / f"{name}.json").read_text("utf-8") == made, f"python {script} docs/payloads"


@pytest.mark.parametrize("name", NAMES)
def test_the_examples_are_valid_with_parts_that_come_later_too(name: str) -> None:
    schema = read(PUBLISHED, name)
    Draft202012Validator.check_schema(schema)
    assert schema["examples"]
    for example in schema["examples"]:
        Draft202012Validator(schema).validate(example)
        Draft202012Validator(schema).validate({**example, "a_part_to_come": 1})
        assert not Draft202012Validator(schema).is_valid({**example, "schema": "duetime.other/1"})


@pytest.mark.parametrize("name", NAMES)
def test_nothing_of_an_earlier_version_is_removed_or_changed(name: str) -> None:
    assert list(losses(read(BEFORE, name), read(PUBLISHED, name))) == []


def test_the_schema_of_chains_takes_the_answer_about_a_chain_and_no_other_task() -> None:
    store = open_store("sqlite://", clock=Clock(NOON))
    scheduler = Scheduler(store, Planner(Handlers.load(entry_points=False), "UTC"))
    steps: list[StepArguments] = [{"name": "fetch"}, {"name": "send", "after": ["fetch"]}]
    chain = scheduler.schedule("Report", when="tomorrow 9am", steps=steps, approval=True)
    views = [chain, *(scheduler.get(step.task_id) for step in chain.chain.steps)] if chain.chain else []
    answers = [as_json(with_speech(task_payload(view))) for view in views]
    store.close()
    of_tasks, of_chains = (Draft202012Validator(read(PUBLISHED, name)) for name in ("task", "chain"))
    assert [of_chains.is_valid(answer) for answer in answers] == [True, False, False]
    assert all(of_tasks.is_valid(answer) for answer in answers)


def without_a_part(schema: Schema) -> None:
    del schema["properties"]["title"]


def without_a_value(schema: Schema) -> None:
    schema["$defs"]["State"]["enum"].remove("expired")


def without_a_definition(schema: Schema) -> None:
    del schema["$defs"]["LastRun"]


def with_another_type(schema: Schema) -> None:
    schema["properties"]["revision"] = {"type": "string"}


def with_an_optional_part(schema: Schema) -> None:
    schema["required"].remove("when")


@pytest.mark.parametrize(
    "change", [without_a_part, without_a_value, without_a_definition, with_another_type, with_an_optional_part]
)
def test_a_change_that_readers_would_notice_is_noticed(change: Callable[[Schema], None]) -> None:
    changed = copy.deepcopy(read(BEFORE, "task"))
    change(changed)
    assert len(list(losses(read(BEFORE, "task"), changed))) == 1


def test_an_addition_is_no_loss() -> None:
    more = copy.deepcopy(read(BEFORE, "task"))
    more["properties"]["colour"] = {"type": "string"}
    more["$defs"]["State"]["enum"].append("dreaming")
    assert list(losses(read(BEFORE, "task"), more)) == []
