"""Lists and methods that depend on who asks: by scopes, by the cards of a host, and the open tasks as resources."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from duetime.scheduler.errors import Refused
from duetime.scheduler.outbound.headers import JSON_MEDIA_TYPE
from duetime.scheduler.principal import Principal, Scope
from duetime.scheduler.request import ACTIONS_OF_AGENTS
from duetime.scheduler.task import ApprovalAnswer
from duetime.scheduler.views import TaskFilter
from duetime.server.protocol.subscription_limits import TASK_ADDRESS
from duetime.tools.act_on_task import ACT_ON_TASK
from duetime.tools.arguments.filters import states_of
from duetime.tools.definition import SchedulerSource
from duetime.tools.registration import ADMIN_TOOLS, WORKER_TOOLS
from duetime.tools.results import refusal
from duetime.tools.threads import cross
from mcp.server.apps import client_supports_apps
from mcp.server.context import CallNext, HandlerResult, ServerMiddleware, ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.types import INVALID_REQUEST, Completion, ResourceTemplateReference
from pydantic import BaseModel

_ONLY_THE_USER = (
    "Only the user approves or rejects a task. This host shows no cards (it does not declare "
    "io.modelcontextprotocol/ui), so ask the user to run `duetime approve {0}` or `duetime reject {0}`."
)
_ID = re.compile("[a-z]_[0-9a-z]{1,20}")
"""An id that may stand in a command which a user copies."""

MAX_TASKS_LISTED = 50
MAX_ARGUMENT_COMPLETIONS = 20
_OPEN = "open"
_SCOPES = {tool.name: tool.scope for tool in (*ADMIN_TOOLS, *WORKER_TOOLS)}
"""The scopes of tools that need another one than `tasks`."""

_WELCOMES = frozenset({"initialize", "server/discover"})
_METHODS_OF_EVERYONE = _WELCOMES | {"ping", "logging/setLevel", "tools/list", "tools/call"}
_OFFERS_OF_TASKS = frozenset({"resources", "prompts", "completions", "extensions"})
"""Capabilities that are all about tasks."""


async def offer_buttons(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """Show the tool of the buttons to models whose host draws no cards: undo, done and run again are nowhere else."""
    result = await call_next(ctx)
    if client_supports_apps(ctx):
        return result
    found = _as_dict(result)
    for tool in found.get("tools", ()):
        if tool["name"] == ACT_ON_TASK.name:
            tool["_meta"]["ui"] = {**tool["_meta"]["ui"], "visibility": ["model", "app"]}
            tool["inputSchema"] = _without_answers(tool["inputSchema"])
    return found


def _without_answers(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of the buttons without those that answer for the user whether a task may run."""
    members = {name: part for name, part in schema["properties"].items() if name != "reason"}
    return {**schema, "properties": {**members, "action": {**members["action"], "enum": list(ACTIONS_OF_AGENTS)}}}


async def keep_answers_from_models(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """Refuse an approval where no card can have asked for it: an agent does not approve its own work."""
    params = ctx.params or {}
    if params.get("name") == ACT_ON_TASK.name and not client_supports_apps(ctx):
        given = params.get("arguments")
        action = given.get("action") if isinstance(given, Mapping) else None
        if isinstance(action, str) and action.strip().lower() in set(ApprovalAnswer):
            task_id = given.get("task_id") if isinstance(given, Mapping) else None
            named = task_id if isinstance(task_id, str) and _ID.fullmatch(task_id) else "ID"
            return refusal(Refused(_ONLY_THE_USER.format(named)))
    return await call_next(ctx)


def showing_scoped_tools(caller: Callable[[], Principal]) -> ServerMiddleware[Any]:
    """Return the middleware that leaves out the tools of whose scope the caller has none."""

    async def leave_out(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        by, found = caller(), _as_dict(await call_next(ctx))
        shown = [tool for tool in found.get("tools", ()) if by.may(_SCOPES.get(tool["name"], Scope.TASKS))]
        return {**found, "tools": shown}

    return leave_out


def refusing_methods_of_tasks(caller: Callable[[], Principal], instructions: str) -> ServerMiddleware[Any]:
    """Return the middleware that leaves callers without the scope `tasks` the tools of their other scopes alone.

    These callers get `instructions` of their own. Methods that are not known here are refused too.
    """

    async def refuse(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        if caller().may(Scope.TASKS):
            return await call_next(ctx)
        if ctx.method not in _METHODS_OF_EVERYONE and not ctx.method.startswith("notifications/"):
            raise MCPError(code=INVALID_REQUEST, message=f"{ctx.method} needs a token with the scope {Scope.TASKS}.")
        result = await call_next(ctx)
        if ctx.method not in _WELCOMES:
            return result
        found = _as_dict(result)
        offered = {name: each for name, each in found["capabilities"].items() if name not in _OFFERS_OF_TASKS}
        return {**found, "capabilities": offered, "instructions": instructions}

    return refuse


def listing_open_tasks(scheduler: SchedulerSource, caller: Callable[[], Principal]) -> ServerMiddleware[Any]:
    """Return the middleware that adds the open tasks of the caller, next due first, to the list of resources."""

    async def list_open_tasks(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        found, by = _as_dict(await call_next(ctx)), caller()
        page = await cross(lambda: scheduler().tasks.list(TaskFilter(states_of(_OPEN)), limit=MAX_TASKS_LISTED, by=by))
        tasks = [view.record.task for view in page.views]
        rows = [{"uri": f"{TASK_ADDRESS}{task.id}", "name": task.id, "title": task.title} for task in tasks]
        found["resources"] = [*found.get("resources", ()), *({**row, "mimeType": JSON_MEDIA_TYPE} for row in rows)]
        return found

    return list_open_tasks


def completing_task_ids(
    scheduler: SchedulerSource, caller: Callable[[], Principal]
) -> Callable[[Any, Any, Any], Awaitable[Completion | None]]:
    """Return what completes the id of a task: of the open ones, by the start of the id or by a part of the title."""

    async def complete(ref: Any, argument: Any, _context: Any) -> Completion | None:
        if not isinstance(ref, ResourceTemplateReference) or argument.name != "task_id":
            return None
        by = caller()
        page = await cross(lambda: scheduler().tasks.list(TaskFilter(states_of(_OPEN)), limit=100, by=by))
        typed = argument.value.casefold()
        tasks = [view.record.task for view in page.views]
        ids = [task.id for task in tasks if task.id.startswith(typed) or typed in task.title.casefold()]
        return Completion(
            values=ids[:MAX_ARGUMENT_COMPLETIONS],
            has_more=len(ids) > MAX_ARGUMENT_COMPLETIONS or page.cursor is not None,
        )

    return complete


def _as_dict(result: HandlerResult) -> dict[str, Any]:
    if isinstance(result, BaseModel):
        return result.model_dump(mode="json", by_alias=True, exclude_none=True)
    return result or {}
