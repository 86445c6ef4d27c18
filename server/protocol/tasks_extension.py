"""The MCP extension "tasks": `get_task` with `wait` is answered by a handle at once, and asked again by `tasks/get`.

A task of this protocol is one wait here, not what Duetime schedules: to end a wait cancels nothing. See
https://modelcontextprotocol.io/seps/2663-tasks-extension.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from duetime.scheduler.errors import TaskNotFound
from duetime.scheduler.principal import Principal
from duetime.scheduler.views import TaskView
from duetime.server.protocol.wait_handle import WaitHandle
from duetime.tools.definition import SchedulerSource
from duetime.tools.get_task import GET_TASK, WAIT
from duetime.tools.results import task_answer
from duetime.tools.threads import cross
from duetime.widgets.tool_words import TOOL_WORDS
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.extension import Extension, MethodBinding
from mcp.server.mcpserver.server import require_client_extension
from mcp.server.mcpserver.tools import Tool
from mcp.shared.exceptions import MCPError
from mcp.types import INVALID_PARAMS, CallToolRequestParams, RequestParams
from mcp.types.version import MODERN_PROTOCOL_VERSIONS

TASKS_EXTENSION: Final = "io.modelcontextprotocol/tasks"
POLL_MS: Final = 1_000
_MODERN: Final = frozenset(MODERN_PROTOCOL_VERSIONS)


class HandleParams(RequestParams):
    """Parameters of the methods of a handle."""

    task_id: str


class TasksExtension(Extension):
    """Waits of clients that declare the extension. A handle says all by itself: nothing is kept here."""

    identifier = TASKS_EXTENSION

    def __init__(self, scheduler: SchedulerSource, caller: Callable[[], Principal], get_task: Tool) -> None:
        self._scheduler, self._caller, self._get_task = scheduler, caller, get_task

    def methods(self) -> Sequence[MethodBinding]:
        serves = {"tasks/get": self._get, "tasks/update": self._acknowledge, "tasks/cancel": self._acknowledge}
        return [MethodBinding(method, HandleParams, handler, _MODERN) for method, handler in serves.items()]

    async def intercept_tool_call(
        self, params: CallToolRequestParams, ctx: ServerRequestContext[Any, Any], call_next: CallNext
    ) -> HandlerResult:
        given, by = params.arguments or {}, self._caller()
        waits = params.name == GET_TASK.name and given.get(WAIT.name) is not None
        if not waits or not _declared(ctx) or not by.may(GET_TASK.scope):
            return await call_next(ctx)
        begun = await cross(WaitHandle.of_call, given, self._scheduler(), by)
        if begun is None:
            return await call_next(ctx)
        return {"resultType": "task", **_working(*begun)}

    async def _get(self, ctx: ServerRequestContext[Any, Any], params: HandleParams) -> HandlerResult:
        handle, view = await self._read(ctx, params)
        if not handle.is_over(view):
            return _working(handle, view)
        call = handle.call
        arguments = {"task_id": call.task_id, "history": call.history, "keep_unread": call.keep_unread}
        answer = await self._get_task.run(arguments, ctx)  # type: ignore[arg-type]  # read for who the client is, and none is needed
        result = answer.model_dump(mode="json", by_alias=True, exclude_none=True)
        return {**_times(handle, view), "status": "completed", "result": result}

    async def _acknowledge(self, ctx: ServerRequestContext[Any, Any], params: HandleParams) -> HandlerResult:
        """Take note of a wait that no client continues, or of an answer to a question that was never asked."""
        await self._read(ctx, params)
        return {}

    async def _read(self, ctx: ServerRequestContext[Any, Any], params: HandleParams) -> tuple[WaitHandle, TaskView]:
        require_client_extension(ctx, self.identifier)
        handle = WaitHandle.of_text(params.task_id)
        if handle is None:
            text = (
                "taskId: it is not a handle of a wait. Accepted: the taskId that get_task(wait=...) was answered with"
            )
            raise MCPError(code=INVALID_PARAMS, message=text)
        try:
            return handle, await cross(self._scheduler().get, handle.call.task_id, by=self._caller())
        except TaskNotFound as error:
            raise MCPError(code=INVALID_PARAMS, message=error.text_in(TOOL_WORDS)) from error


def _declared(ctx: ServerRequestContext[Any, Any]) -> bool:
    capabilities = ctx.session.client_capabilities
    declared = capabilities.extensions if capabilities else None
    return TASKS_EXTENSION in (declared or ()) and ctx.protocol_version in _MODERN


def _working(handle: WaitHandle, view: TaskView) -> dict[str, Any]:
    content = task_answer(view).content[0]
    return {
        **_times(handle, view),
        "status": "working",
        "statusMessage": getattr(content, "text", "").partition("\n")[0],
    }


def _times(handle: WaitHandle, view: TaskView) -> dict[str, Any]:
    return {
        "taskId": handle.text,
        "createdAt": handle.since.isoformat(timespec="milliseconds"),
        "lastUpdatedAt": view.record.task.updated_at.isoformat(timespec="milliseconds"),
        "ttlMs": None,
        "pollIntervalMs": POLL_MS,
    }
