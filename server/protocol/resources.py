"""Resources: what agents read by address, the inbox and single tasks, as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable

from duetime.scheduler.errors import TaskNotFound
from duetime.scheduler.outbound.headers import JSON_MEDIA_TYPE
from duetime.scheduler.principal import Principal
from duetime.scheduler.task import InboxMessage, Json
from duetime.tools.definition import SchedulerSource
from duetime.tools.threads import cross
from duetime.widgets.tool_words import TOOL_WORDS
from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ResourceNotFoundError

MAX_INBOX_MESSAGES = 50


def add_resources(server: MCPServer, scheduler: SchedulerSource, caller: Callable[[], Principal]) -> None:
    """Serve `duetime://inbox` and `duetime://tasks/{task_id}`. Reading marks nothing as read."""

    @server.resource(
        "duetime://inbox",
        name="inbox",
        title="Inbox",
        description="Outcomes of tasks that the user has not read yet, newest first.",
        mime_type=JSON_MEDIA_TYPE,
    )
    async def inbox() -> str:
        by = caller()
        messages = await cross(lambda: scheduler().inbox.unread(limit=MAX_INBOX_MESSAGES, by=by))
        return _text({"schema": "duetime.inbox/1", "messages": [_message(message) for message in messages]})

    @server.resource(
        "duetime://tasks/{task_id}",
        name="task",
        title="Task",
        description="One task, as get_task gives it.",
        mime_type=JSON_MEDIA_TYPE,
    )
    async def task(task_id: str) -> str:
        try:
            by = caller()
            view = await cross(lambda: scheduler().get(task_id, by=by))
        except TaskNotFound as error:
            raise ResourceNotFoundError(error.text_in(TOOL_WORDS)) from error
        from duetime.widgets.formats.speech import with_speech  # noqa: PLC0415 - not before the first call
        from duetime.widgets.payload import as_json, task_payload  # noqa: PLC0415 - as above

        return _text(as_json(with_speech(task_payload(view))))


def _text(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _message(message: InboxMessage) -> dict[str, Json]:
    from duetime.scheduler.rules.time.times import utc  # noqa: PLC0415 - not before the first call

    return {
        "id": message.id,
        "task_id": message.task_id,
        "title": message.title,
        "text": message.text,
        "state": message.state,
        "at": utc(message.created_at),
        **({"held_until": utc(message.held_until)} if message.held_until else {}),
    }
