"""The inbox: outcomes that the caller has not read yet, and marking them as read."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Final, Literal

from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.task import State
from duetime.server.rest.operation import Operation, RestAnswer, RestCall
from duetime.server.rest.resources.history import CURSOR
from duetime.server.rest.resources.payloads import RestPayload
from duetime.tools.arguments.arguments import Argument
from duetime.tools.arguments.types import Flag, Text, Texts, Whole
from duetime.widgets.formats.inbox import done_json, inbox_json
from pydantic import Field

MAX_MESSAGES: Final = 100


class InboxMessagePayload(RestPayload):
    """An outcome, whole."""

    id: str
    task_id: str
    title: str
    text: str
    state: State
    at: str
    held_until: str | None = None


class InboxPayload(RestPayload):
    """Unread outcomes, newest first, and how many: of `quiet_count` in the last 24 hours nobody was notified.

    Quiet hours hold `held_count` deliveries, the first of them until `held_until`.
    """

    schema_: Annotated[Literal["duetime.inbox/1"], Field(alias="schema")] = "duetime.inbox/1"
    messages: tuple[InboxMessagePayload, ...] | None = None
    done: int | None = None
    unread_count: int
    quiet_count: int | None = None
    held_count: int | None = None
    held_until: str | None = None


def list_(call: RestCall) -> RestAnswer:
    """Return unread outcomes; this marks none of them."""
    limit, of, cursor = call.values.get("limit", 20), call.values.get("task_id"), call.values.get("cursor")
    found, following = call.scheduler.inbox.page(limit=limit, of=of, cursor=cursor, by=call.by)
    quiet, held = call.scheduler.inbox.quiet_count(by=call.by), call.scheduler.inbox.held(by=call.by)
    shown = InboxPayload.model_validate(inbox_json(found, _unread(call), quiet=quiet, held=held))
    return RestAnswer(shown, cursor=following)


def mark_read(call: RestCall) -> RestAnswer:
    """Mark outcomes as read: those that are named, those of a task, or all."""
    ids, task_id, every = (call.values.get(name) for name in ("ids", "task_id", "all"))
    if sum((ids is not None, task_id is not None, bool(every))) != 1:
        raise InvalidArgument("ids", "name outcomes, or a task, or all", example="ids=['m_7k3m9qx2w4hb']")
    done = call.scheduler.inbox_changes.mark_read(ids, task_id=task_id, by=call.by)
    return RestAnswer(InboxPayload.model_validate(done_json(done, _unread(call))))


def _unread(call: RestCall) -> int:
    return call.scheduler.inbox.unread_count(by=call.by)


_OF_TASK = Argument("task_id", Text(40), "Only those of this task")
OF_INBOX = (
    Operation(
        "list_inbox",
        "GET",
        "/inbox",
        "List the outcomes that the caller has not read yet, newest first",
        list_,
        InboxPayload,
        in_query=(Argument("limit", Whole(1, MAX_MESSAGES), "Default 20", "limit=20"), _OF_TASK, CURSOR),
        paged=True,
        statuses=(HTTPStatus.NOT_FOUND,),
    ),
    Operation(
        "mark_inbox_read",
        "POST",
        "/inbox/read",
        "Mark outcomes as read: some, those of a task, or all",
        mark_read,
        InboxPayload,
        body=(
            Argument("ids", Texts(MAX_MESSAGES), "Of outcomes", "ids=['m_7k3m9qx2w4hb']"),
            _OF_TASK,
            Argument("all", Flag(), "All that are unread", "all=true"),
        ),
    ),
)
