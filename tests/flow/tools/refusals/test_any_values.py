"""A call with any JSON values, under names of arguments and of other schedulers, is accepted or refused."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import open_store
from duetime.tools.arguments.meant_names import MEANT_ARGUMENTS
from duetime.tools.registration import definitions, make_tools
from duetime.tools.schedule_task import REMINDER
from hypothesis import example, given
from hypothesis import strategies as st
from mcp.server.mcpserver.tools import Tool
from mcp.types import CallToolResult, TextContent

from tests.builders import Clock
from tests.flow.tools.calls import CONTEXT
from tests.search import examples

Tools = Mapping[str, Tool]
DEFECT: Final = "because of a defect of its own"
FOREIGN: Final = sorted({*MEANT_ARGUMENTS, "type", "delay_seconds", "interval_minutes", "retry_delay_seconds", "hours"})
HOOK: Final[dict[str, Any]] = {"type": "webhook", "url": "https://example.com/hook"}
USUAL: Final[dict[str, Any]] = {
    "schedule_task": {"title": "A", "dry_run": True},
    "reschedule_task": {"task_id": "t_1", "dry_run": True},
    "change_tasks": {"dry_run": True},
}
WORDS: Final = ("", "0", "9:00", "in 1 hour", "tomorrow", "daily", "weekly", "mon", "webhook", "{}", "[1]", "3 times")
TABLES: Final = {each.name: each.read() for each in definitions(REMINDER)}
NAMES: Final = sorted({name for each in TABLES.values() for name in each.table} | set(FOREIGN))
names = st.sampled_from(NAMES)
scalars = (
    st.none() | st.booleans() | st.integers(-2, 10**20) | st.floats() | st.sampled_from(WORDS) | st.text(max_size=4)
)
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3))
calls = st.dictionaries(names, values, min_size=1, max_size=4)


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tools]:
    store = open_store(f"sqlite:///{tmp_path_factory.mktemp('values') / 'duetime.db'}", clock=Clock())
    planner = Planner(Handlers.load(entry_points=False), "UTC", upstreams=store.dependencies.known)
    scheduler = Scheduler(store, planner)
    yield {tool.name: tool for tool in make_tools(lambda: scheduler)}
    store.close()


def said(tools: Tools, name: str, call: Mapping[str, Any]) -> str:
    answer = asyncio.run(tools[name].run({**USUAL.get(name, {}), **call}, CONTEXT))
    assert isinstance(answer, CallToolResult)
    assert isinstance(answer.content[0], TextContent)
    return answer.content[0].text


@pytest.mark.parametrize("action", [HOOK, [HOOK], ["webhook"], {}, 7, True])
@pytest.mark.parametrize("rest", [{"run_at": "in 1 hour"}, {"when": "in 1 hour", "payload": 7}, HOOK])
def test_an_action_of_another_kind_is_refused_with_the_others_of_its_call(
    tools: Tools, action: Any, rest: dict[str, Any]
) -> None:
    assert said(tools, "schedule_task", {**rest, "action": action}).startswith("action: ") or action == {}


@examples(300)
@given(name=st.sampled_from(sorted(TABLES)), call=calls)
@example(name="reschedule_task", call={"url": HOOK["url"]})
@example(name="schedule_task", call={"action": HOOK, "expect": 7})
@example(name="schedule_task", call={"when": "in 1 hour", "steps": [{"name": "a", "approval": {"by": 7}}]})
@example(name="cancel_task", call={"changes": {"task_id": 7}, "filter": {"task_id": {}}})
def test_no_value_under_any_name_is_a_defect(tools: Tools, name: str, call: dict[str, Any]) -> None:
    assert DEFECT not in said(tools, name, call)


@examples(40)
@given(name=st.sampled_from(sorted(TABLES)), value=values, others=calls)
def test_every_name_is_read_with_any_value(name: str, value: Any, others: dict[str, Any]) -> None:
    for each in NAMES:
        TABLES[name].read({**others, each: value})
