"""Resources: what agents read by address, the inbox and single tasks, as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable

from duetime.scheduler.errors import TaskNotFound
from duetime.scheduler.service import Scheduler
from duetime.scheduler.task import InboxMessage, Json, Principal
from duetime.tools.threads import cross
from duetime.widgets.payload import as_json, task_payload, utc
from duetime.widgets.tool_words import TOOL_WORDS
from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ResourceNotFoundError

TASK = "duetime://tasks/"
JSON_TYPE = "application/json"
MAX_INBOX_MESSAGES = 50


def add_resources(server: MCPServer, scheduler: Scheduler, caller: Callable[[], Principal]) -> None:
    """Serve `duetime://inbox` and `duetime://tasks/{task_id}`. Reading marks nothing as read."""

    @server.resource(
        "duetime://inbox",
        name="inbox",
        title="Inbox",
        description="Outcomes of tasks that the user has not read yet, newest first.",
        mime_type=JSON_TYPE,
    )
    async def inbox() -> str:
        messages = await cross(scheduler.inbox, limit=MAX_INBOX_MESSAGES, by=caller())
        return _text({"schema": "duetime.inbox/1", "messages": [_message(message) for message in messages]})

    @server.resource(
        "duetime://tasks/{task_id}",
        name="task",
        title="Task",
        description="One task, as get_task gives it.",
        mime_type=JSON_TYPE,
    )
    async def task(task_id: str) -> str:
        try:
            view = await cross(scheduler.get, task_id, by=caller())
        except TaskNotFound as error:
            raise ResourceNotFoundError(error.said(TOOL_WORDS)) from error
        return _text(as_json(task_payload(view)))


def _text(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _message(message: InboxMessage) -> dict[str, Json]:
    return {
        "id": message.id,
        "task_id": message.task_id,
        "title": message.title,
        "text": message.text,
        "state": message.state,
        "at": utc(message.created_at),
    }
