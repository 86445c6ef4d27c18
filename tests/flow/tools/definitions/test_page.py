"""The pages for callers: their calls are made with the real tools, and the fields are those of the real answers."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from duetime.scheduler.calls.reschedule import REMOVABLE_ARGUMENTS, REMOVED_BY_VALUE
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import open_store
from duetime.tools.output_schema import derived_schema
from duetime.tools.registration import make_tools
from duetime.widgets.schema.task import TaskPayload
from duetime.widgets.schema.task_list import TaskListPayload
from mcp.types import CallToolResult, TextContent

DOCS = Path(__file__).parents[4] / "docs"
PAGE = (DOCS / "answers.md").read_text("utf-8")
PAGES_OF_CALLS = [
    f"{name}.md"
    for name in (
        "tools",
        "chains",
        "recurring-tasks",
        "events",
        "approvals",
        "outcomes",
        "bulk-changes",
        "idempotency",
        "webhooks",
    )
]
NOW = datetime(2026, 11, 21, 23, 0, tzinfo=UTC)
BLOCK = re.compile(r"^```(\w+)\n(.*?)\n```$", re.MULTILINE | re.DOTALL)
ID = re.compile(r"\b([tc])_[0-9a-z]{12}\b")
CONTEXT: Any = None


def section(heading: str) -> str:
    start = PAGE.index(f"## {heading}\n")
    end = PAGE.find("\n## ", start)
    return PAGE[start : end if end > 0 else None]


class Conversation:
    """Holds the conversation of the page with real tools. Ids differ from call to call, so they are translated."""

    def __init__(self, database: Path) -> None:
        self.store = open_store(f"sqlite:///{database}", clock=lambda: NOW, synchronous="OFF")
        self.scheduler = Scheduler(self.store, Planner(Handlers.load(entry_points=False), "America/Edmonton"))
        self.tools = {tool.name: tool for tool in make_tools(lambda: self.scheduler)}
        self.real: dict[str, str] = {}

    def call(self, tool: str, arguments: dict[str, Any]) -> CallToolResult:
        ours = {name: self.real.get(str(value), value) for name, value in arguments.items()}
        answer = asyncio.run(self.tools[tool].run(ours, CONTEXT))
        assert isinstance(answer, CallToolResult)
        return answer

    def learn(self, shown: dict[str, Any], answer: CallToolResult) -> None:
        for name in ("id", "undo"):
            if name in shown and answer.structured_content is not None:
                self.real[shown[name]] = answer.structured_content[name]

    def as_shown(self, text: str) -> str:
        for shown, real in self.real.items():
            text = text.replace(real, shown)
        return text


def calls_of(page: str) -> list[dict[str, Any]]:
    blocks = BLOCK.findall((DOCS / page).read_text("utf-8"))
    found = [json.loads(content) for language, content in blocks if language == "json"]
    return [each for each in found if "tool" in each]


def exchanges() -> Iterator[tuple[dict[str, Any], str | None, dict[str, Any] | None]]:
    """Read (call, text, structure) from the page."""
    call: dict[str, Any] | None = None
    text, structure = None, None
    for language, content in BLOCK.findall(section("A conversation")):
        found = json.loads(content) if language == "json" else None
        if found is not None and "tool" in found:
            if call is not None:
                yield call, text, structure
            call, text, structure = found, None, None
        elif found is not None:
            structure = found
        else:
            text = content
    assert call is not None
    yield call, text, structure


def test_the_conversation_of_the_page_can_be_held(tmp_path: Path) -> None:
    conversation = Conversation(tmp_path / "duetime.db")
    held = 0
    for call, text, structure in exchanges():
        answer = conversation.call(call["tool"], call["arguments"])
        part = answer.content[0]
        assert isinstance(part, TextContent)
        conversation.learn(structure or {}, answer)
        assert answer.is_error is (structure is None), part.text
        if structure is not None:
            assert json.loads(conversation.as_shown(json.dumps(answer.structured_content))) == structure
        if text is not None:
            assert conversation.as_shown(part.text) == text
        held += 1
    conversation.store.close()

    assert held >= 8


@pytest.mark.parametrize("page", PAGES_OF_CALLS)
def test_the_calls_on_a_page_have_the_arguments_that_the_tools_accept(page: str, tmp_path: Path) -> None:
    conversation = Conversation(tmp_path / "duetime.db")
    answers = [conversation.call(each["tool"], each["arguments"]) for each in calls_of(page)]
    conversation.store.close()
    codes = [(answer.meta or {}).get("duetime/code") for answer in answers]

    assert answers
    assert {code for code in codes if code} <= {"not_found"}, [answer.content for answer in answers]


@pytest.mark.parametrize("page", ["chains.md", "tools.md"])
def test_the_first_call_of_a_page_is_answered_as_it_shows(page: str, tmp_path: Path) -> None:
    call, *_ = calls_of(page)
    [shown] = [text for language, text in BLOCK.findall((DOCS / page).read_text("utf-8")) if language == "text"]
    conversation = Conversation(tmp_path / "duetime.db")
    part = conversation.call(call["tool"], call["arguments"]).content[0]
    conversation.store.close()

    assert isinstance(part, TextContent)
    assert ID.sub(r"\1_", part.text) == ID.sub(r"\1_", shown)


def clearing() -> dict[str, str]:
    """Return what the page says to write for each value that is to be cleared."""
    section = (DOCS / "tools.md").read_text("utf-8").partition("\n## Clear a value\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.+?`) \| `(.+?)` \|", section, re.MULTILINE)
    return {name: code for names, code in rows for name in re.findall(r"`(\w+)`", names)}


def test_every_value_that_can_be_cleared_has_its_row() -> None:
    by_value = {name: code.replace('"', "'") for name, code in clearing().items() if not code.startswith("remove=")}
    assert by_value == REMOVED_BY_VALUE
    assert set(clearing()) - set(by_value) == set(REMOVABLE_ARGUMENTS)


FULL_TASK = {
    "title": "Stretch",
    "repeat": "daily at 9:00",
    "until": "2027-03-01",
    "deadline": "2 hours",
    "estimate": "5 min",
    "priority": "high",
    "notify": "failure",
    "needs": {"key:mat": 1},
    "labels": ["home"],
}


@pytest.mark.parametrize("code", sorted(set(clearing().values())))
def test_a_value_is_cleared_by_what_the_page_says(code: str, tmp_path: Path) -> None:
    conversation = Conversation(tmp_path / "duetime.db")
    task_id = (conversation.call("schedule_task", FULL_TASK).structured_content or {})["id"]
    before = conversation.scheduler.get(task_id).record.task
    name, _, value = code.partition("=")
    answer = conversation.call("reschedule_task", {"task_id": task_id, name: json.loads(value)})
    after = conversation.scheduler.get(task_id).record.task
    conversation.store.close()

    assert not answer.is_error, answer.content
    assert replace(after, revision=before.revision) != before


def fields(schema: dict[str, Any], definitions: dict[str, Any], path: str = "") -> Iterator[str]:
    for name, part in schema.get("properties", {}).items():
        inner = part.get("items", part)
        place = f"{path}{name}" + ("[]" if part.get("type") == "array" and "$ref" in inner else "")
        if "$ref" in inner and "properties" in (found := definitions[inner["$ref"].rpartition("/")[2]]):
            yield from fields(found, definitions, f"{place}.")
        else:
            yield place


@pytest.mark.parametrize(("heading", "model"), [("A task", TaskPayload), ("A list", TaskListPayload)])
def test_every_field_of_an_answer_has_its_row(heading: str, model: type[TaskPayload | TaskListPayload]) -> None:
    schema = derived_schema(model)
    start = PAGE.index(f"## {heading}\n")
    end = PAGE.find("\n##", start + 4)
    documented = re.findall(r"^\| `([^`]+)` \|", PAGE[start:end], re.MULTILINE)

    assert documented == list(fields(schema, schema["$defs"]))
