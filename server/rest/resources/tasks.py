"""Tasks: schedule, list, show, change, and act on one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from duetime.scheduler.calls.origin import MAX_ORIGIN_ID_CHARS, ORIGIN_MEMBERS
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.intake.validation import wait_seconds
from duetime.scheduler.request import Request
from duetime.scheduler.rules.retry import retry_policy
from duetime.scheduler.views import TaskFilter
from duetime.server.rest.operation import Operation, RestAnswer, RestCall
from duetime.server.rest.query_words import STATES_ABOUT, StateList
from duetime.server.rest.resources.payloads import ExplanationPayload, RestPayload
from duetime.server.rest.rows.tasks import ShownTaskPayload, changed_task, history_of, shown_task
from duetime.tools.act_on_task import ACT_ON_TASK
from duetime.tools.arguments.approval import ApprovalTerms
from duetime.tools.arguments.arguments import Argument
from duetime.tools.arguments.filters import parts_of
from duetime.tools.arguments.retry import RetryTerms
from duetime.tools.arguments.time_text import Length
from duetime.tools.arguments.types import ArgumentType, Flag, Object, Text
from duetime.tools.cancel_task import CANCEL_TASK
from duetime.tools.definition import TASK_ID, Sender
from duetime.tools.get_task import WAIT
from duetime.tools.list_tasks import LIST_TASKS
from duetime.tools.reschedule_task import RESCHEDULE_TASK
from duetime.tools.schedule_task import REMINDER, schedule_task
from duetime.tools.threads import wait_for_end
from duetime.widgets.formats.whole_list import whole_list_payload
from duetime.widgets.payload import as_dry_run, task_payload
from duetime.widgets.schema.task import TaskPayload
from duetime.widgets.schema.task_list import WholeListPayload
from duetime.widgets.vocabulary import stands
from pydantic import Field

if TYPE_CHECKING:
    from duetime.scheduler.views import TaskView

SCHEDULE_TASK = schedule_task(REMINDER, ())
"""The tool whose arguments a request has; which actions there are, the scheduler decides."""

_ELSEWHERE = ("task_id", "revision", "idempotency_key")
"""Arguments of the tools that a request gives in its path or in a header."""

ORIGIN_ARGUMENT: Final = Argument(
    "origin",
    Object({name: Text(MAX_ORIGIN_ID_CHARS) for name in ORIGIN_MEMBERS}),
    "The conversation that asks: its client, session and thread",
    "origin={'client': 'my-app', 'thread': '7'}",
)
"""A client of MCP gives it in the `_meta` of its call."""

_KINDS: Mapping[str, ArgumentType] = {
    "payload": Object(),
    "approval": ApprovalTerms(every_form=True),
    "estimate": Length(every_form=True),
    "retry": RetryTerms(every_form=True),
}
"""Arguments that take more here than a tool does."""

_ABOUT: Mapping[str, str] = {
    "action": "Default reminder; GET /actions lists all",
    "payload": "The input of the action",
    "needs": "Units held while it runs, by pool",
}
"""Arguments of a new task whose words in a tool name what there is at a server."""


def arguments_of(arguments: Sequence[Argument], *left_out: str) -> tuple[Argument, ...]:
    """Return the arguments of a tool as the body of a request has them."""
    return tuple(_here(each) for each in arguments if each.name not in (*_ELSEWHERE, *left_out))


def _here(argument: Argument) -> Argument:
    name, about = argument.name, argument.about
    about = _ABOUT.get(name, about) if argument in SCHEDULE_TASK.arguments else about
    about = f"{about}; a number is seconds" if isinstance(argument.kind, Length) else about
    return replace(argument, kind=_KINDS.get(name, argument.kind), about=about)


def schedule(call: RestCall) -> RestAnswer:
    """Store a task; 201 for a new one, 200 for a repeat of the request and for a dry run."""
    request = replace(request_of(call.values), idempotency_key=call.idempotency_key)
    view = call.scheduler.submit(request, by=call.by)
    if request.dry_run:
        return RestAnswer(task_payload(as_dry_run(view)))
    return _created(view) if view.created else answer(view)


def request_of(values: Mapping[str, Any]) -> Request:
    """Return what the arguments of the tool mean to the scheduler."""
    request: Request = SCHEDULE_TASK.call(**values)
    return request


def _created(view: TaskView) -> RestAnswer:
    return replace(answer(view), status=HTTPStatus.CREATED, location=f"/tasks/{view.record.task.id}")


def answer(view: TaskView) -> RestAnswer:
    """Answer with one task, whole."""
    return RestAnswer(changed_task(view), revision=view.record.task.revision)


def also_wrong(call: RestCall, given: Mapping[str, Any]) -> Sequence[InvalidArgument]:
    """Find what the scheduler would refuse too, so that a program corrects everything at once."""
    return SCHEDULE_TASK.also_wrong(call.values, Sender(call.scheduler, call.by, given))


def list_(call: RestCall) -> RestAnswer:
    """Return a page of tasks."""
    given = call.without("state", "label", "query")
    label, query = call.values.get("label"), call.values.get("query")
    where = TaskFilter(**parts_of(call.values.get("state")), label=label, query=query)
    page = call.scheduler.tasks.list(where, **given, by=call.by)
    return RestAnswer(whole_list_payload(page), cursor=page.cursor)


async def _until_it_ended(call: RestCall) -> None:
    if "wait" in call.values:
        await wait_for_end(call.scheduler.ends, call.task_id, wait_seconds(call.values["wait"]), call.by)


def show(call: RestCall) -> RestAnswer:
    """Return one task; reading marks nothing as read."""
    view = call.scheduler.get(call.task_id, by=call.by)
    history = history_of(call.scheduler, view, by=call.by) if call.values.get("history") else None
    return RestAnswer(shown_task(view, history), revision=view.record.task.revision)


def change(call: RestCall, **fixed: Any) -> RestAnswer:
    """Change what is given; everything else stays."""
    given = {**call.without("task_id", "retry", "dry_run"), **fixed}
    if "retry" in call.values:
        given["retry"] = retry_policy(call.values["retry"])
    tried = bool(call.values.get("dry_run"))
    given |= {"revision": call.revision, "idempotency_key": call.idempotency_key, "by": call.by}
    view = call.scheduler.reschedule(call.task_id, **given, dry_run=tried)
    if tried:
        return RestAnswer(task_payload(as_dry_run(view)), revision=view.record.task.revision)
    return answer(view)


def cancel(call: RestCall) -> RestAnswer:
    """Cancel a task."""
    view = call.scheduler.cancel(
        call.task_id,
        reason=call.values.get("reason"),
        revision=call.revision,
        idempotency_key=call.idempotency_key,
        by=call.by,
    )
    return answer(view)


def act(call: RestCall, action: Any) -> RestAnswer:
    """Do what a button of a card does."""
    view = call.scheduler.act(
        call.task_id,
        action,
        **call.without("task_id"),
        revision=call.revision,
        idempotency_key=call.idempotency_key,
        by=call.by,
    )
    return answer(view)


class FoundTaskPayload(RestPayload):
    """The id of the task or the chain that a text stands for."""

    schema_: Annotated[Literal["duetime.found_task/1"], Field(alias="schema")] = "duetime.found_task/1"
    id: str


def find(call: RestCall) -> RestAnswer:
    """Find the task or the chain that a text stands for; that of none is refused, with the closest."""
    found = call.scheduler.tasks.find(call.task_id, by=call.by)
    call.scheduler.get(found, by=call.by)
    return RestAnswer(FoundTaskPayload(id=found))


def explain(call: RestCall) -> RestAnswer:
    """Say why a task is not running."""
    view, reasons = call.scheduler.explain(call.task_id, by=call.by)
    task, run = view.record.task, view.record.run
    return RestAnswer(
        ExplanationPayload(
            task=task.id, title=task.title, state=run.state, stands=stands(task, run), waiting_for=tuple(reasons)
        )
    )


_LISTED_BY = {"state": Argument("state", StateList(), STATES_ABOUT, "state='open'")}
_REFUSED = (HTTPStatus.CONFLICT,)
_TASK = partial(Operation, model=TaskPayload, in_path=(TASK_ID,))
_CHANGE = partial(_TASK, conditional=True, repeatable=True)
_UNTIL = next(argument for argument in RESCHEDULE_TASK.arguments if argument.name == "pause_until")
_TRIED = next(argument for argument in RESCHEDULE_TASK.arguments if argument.name == "dry_run")
_BUTTONS = {argument.name: argument for argument in ACT_ON_TASK.arguments}


def _button(name: str, summary: str, *arguments: str) -> Operation:
    body = tuple(replace(_BUTTONS[each], required=False) for each in arguments)
    path = f"/tasks/{{task_id}}/{name}"
    return _CHANGE(f"{name}_task", "POST", path, summary, partial(act, action=name), body=body)


def _switch(name: str, summary: str, *more: Argument, pause: bool) -> Operation:
    path = f"/tasks/{{task_id}}/{name}"
    return _CHANGE(f"{name}_task", "POST", path, summary, partial(change, pause=pause), body=(*more, _TRIED))


OF_TASKS = (
    Operation(
        "schedule_task",
        "POST",
        "/tasks",
        "Schedule a task; with dry_run only show what would be scheduled",
        schedule,
        TaskPayload,
        body=(*arguments_of(SCHEDULE_TASK.arguments), ORIGIN_ARGUMENT),
        repeatable=True,
        tagged=True,
        created=True,
        statuses=_REFUSED,
        also_wrong=also_wrong,
    ),
    Operation(
        "list_tasks",
        "GET",
        "/tasks",
        "List tasks: open ones by time, then those that ended",
        list_,
        WholeListPayload,
        in_query=tuple(_LISTED_BY.get(each.name, each) for each in LIST_TASKS.arguments),
        paged=True,
    ),
    Operation(
        "find_task",
        "GET",
        "/find",
        "Find the id that a text stands for: the beginning of one, or a title that one task alone has",
        find,
        FoundTaskPayload,
        in_query=(Argument("task_id", Text(300), "The text", "task_id='Call John'", required=True),),
        statuses=(HTTPStatus.NOT_FOUND,),
    ),
    _TASK(
        "get_task",
        "GET",
        "/tasks/{task_id}",
        "Show everything about one task",
        show,
        model=ShownTaskPayload,
        tagged=True,
        in_query=(Argument("history", Flag(), "With attempts and the newest events", "history=true"), WAIT),
        before_answer=_until_it_ended,
    ),
    _CHANGE(
        "change_task",
        "PATCH",
        "/tasks/{task_id}",
        "Change a task; what you leave out stays as it is",
        change,
        body=(*arguments_of(RESCHEDULE_TASK.arguments), ORIGIN_ARGUMENT),
    ),
    _CHANGE(
        "cancel_task",
        "POST",
        "/tasks/{task_id}/cancel",
        "Cancel a task; it can be undone for 30 s",
        cancel,
        body=arguments_of(CANCEL_TASK.arguments),
    ),
    _button("snooze", "Snooze a task, by minutes or until a time", "minutes", "until"),
    _button("run_now", "Run a task now, or again"),
    _button("skip_next", "Skip the next run"),
    _button("undo", "Undo a change, by the token in its answer; without one, a cancel", "undo"),
    _button("done", "Mark the outcome of a task as read"),
    _button("approve", "Approve a task that waits for approval", "reason"),
    _button("reject", "Cancel a task that waits for approval, or skip that run of a recurring one", "reason"),
    _switch("pause", "Pause a task until it is resumed, or until a time", _UNTIL, pause=True),
    _switch("resume", "Let a paused task go on", pause=False),
    _TASK(
        "explain_task",
        "GET",
        "/tasks/{task_id}/explain",
        "Explain why a task is not running",
        explain,
        model=ExplanationPayload,
    ),
)
