"""Prompts: what people ask for again and again, as a host offers it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from mcp.server import MCPServer
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.mcpserver.prompts import Prompt
from mcp.shared.exceptions import MCPError
from mcp.types import INVALID_PARAMS


class PromptText(NamedTuple):
    """A prompt without arguments."""

    title: str
    about: str
    text: str


PROMPTS: Mapping[str, PromptText] = {
    "plan_my_day": PromptText(
        "Plan my day",
        "Today's tasks in order, and where they clash.",
        "Call list_tasks(state='open', before='tomorrow'). Tell me what is due today in order of time, with overdue "
        "tasks first, and name times that clash or leave no room. Propose changes, and change nothing before I agree.",
    ),
    "what_did_i_miss": PromptText(
        "What did I miss",
        "Outcomes that were not read yet, failures first.",
        "Call list_tasks(), which has the outcomes that I have not read, and list_tasks(state='failed'). Tell me the "
        "failures first, each with its reason and what could be done about it, then the rest in one line each.",
    ),
    "reschedule_all": PromptText(
        "Reschedule all",
        "Move all open tasks that are due today to another time.",
        "Call list_tasks(state='open', before='tomorrow'), following cursors. Show me these tasks with a new time for "
        "each, keeping their order and time of day; ask me for the day if I have not named one. Once I agree, call "
        "reschedule_task for each of them, and tell me the new times as the answers have them.",
    ),
}


def add_prompts(server: MCPServer[None]) -> None:
    """Offer the prompts, none of which takes arguments."""
    for name, prompt in PROMPTS.items():
        server.add_prompt(_offered(name, prompt))


def _offered(name: str, prompt: PromptText) -> Prompt:
    """Return a prompt as the SDK serves it. Its decorator would build the schema of no arguments, for each server."""
    return Prompt(name=name, title=prompt.title, description=prompt.about, arguments=[], fn=lambda: prompt.text)


async def refuse_wrong_prompts(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """Answer a wrong prompt or argument as the protocol says; the SDK takes it for a defect, and logs a traceback."""
    params = ctx.params or {}
    if params.get("name") not in list(PROMPTS):  # the name may be anything, also what no mapping can look up
        raise MCPError(code=INVALID_PARAMS, message=f"There is no such prompt. There are {', '.join(PROMPTS)}.")
    if params.get("arguments"):
        raise MCPError(code=INVALID_PARAMS, message="This prompt takes no arguments. Leave `arguments` out.")
    return await call_next(ctx)
