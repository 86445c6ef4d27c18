"""Resources: what agents read by address, the inbox and single tasks, as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

from duetime.scheduler.errors import TaskNotFound
from duetime.scheduler.outbound.headers import JSON_MEDIA_TYPE
from duetime.scheduler.principal import Principal
from duetime.scheduler.task import Json
from duetime.tools.definition import SchedulerSource
from duetime.tools.threads import cross
from duetime.widgets.tool_words import TOOL_WORDS
from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ResourceNotFoundError

if TYPE_CHECKING:
    from duetime.scheduler.foresight.readers.inbox import InboxReader  # with the store, which loads later

MAX_INBOX_MESSAGES = 50


def add_resources(server: MCPServer, scheduler: SchedulerSource, caller: Callable[[], Principal]) -> None:
    """Serve `duetime://inbox` and `duetime://tasks/{task_id}`. Reading marks nothing as read."""

    @server.resource(
        "duetime://inbox",
        name="inbox",
        title="Inbox",
        description="Outcomes of tasks that the user has not read yet, newest first, and how many nobody was told of.",
        mime_type=JSON_MEDIA_TYPE,
    )
    async def inbox() -> str:
        by = caller()
        return _text(await cross(lambda: _inbox(scheduler().inbox, by)))

    @server.resource(
        "duetime://tasks/{task_id}",
        name="task",
        title="Task",
        description="One task, as get_task gives it, with its whole message, payload and result.",
        mime_type=JSON_MEDIA_TYPE,
    )
    async def task(task_id: str) -> str:
        try:
            by = caller()
            view = await cross(lambda: scheduler().get(task_id, by=by))
        except TaskNotFound as error:
            raise ResourceNotFoundError(error.text_in(TOOL_WORDS)) from error
        from duetime.widgets.formats.speech import with_speech  # noqa: PLC0415 - not before the first call
        from duetime.widgets.outcome import with_details  # noqa: PLC0415 - as above
        from duetime.widgets.payload import as_json, task_payload  # noqa: PLC0415 - as above

        return _text(as_json(with_speech(with_details(task_payload(view), view, whole=True))))


def _inbox(inbox: InboxReader, by: Principal) -> Json:
    from duetime.widgets.formats.inbox import inbox_json  # noqa: PLC0415 - not before the first call

    found, unread = inbox.unread(limit=MAX_INBOX_MESSAGES, by=by), inbox.unread_count(by=by)
    return inbox_json(found, unread, quiet=inbox.quiet_count(by=by), held=inbox.held(by=by))


def _text(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
