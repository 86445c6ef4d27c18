"""The payloads as A2UI messages (a2ui.org, version 0.9), for chats that draw their own components from a description.

Text that users wrote stands in the data model, never among the components. A button sends an event that is a call of a
tool: its name is the tool's, its context the arguments.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from duetime.scheduler.ids import DRY_RUN_ID
from duetime.scheduler.rules.states import BLOCKED_PREFIX, OPEN
from duetime.scheduler.task import State
from duetime.scheduler.view_parts import WaitKind
from duetime.scheduler.views import CHAIN_ACTION
from duetime.scheduler.waits.approval import USUAL_QUESTION
from duetime.widgets.schema.task import TaskPayload
from duetime.widgets.schema.task_list import ListRow, TaskListPayload
from duetime.widgets.text.chain_text import progress_in_words
from duetime.widgets.text.summary import first_sentence, look
from duetime.widgets.vocabulary import STATE_LABELS

A2UI_VERSION: Final = "v0.9"
A2UI_CATALOG: Final = "https://a2ui.org/specification/v0_9/catalogs/basic/catalog.json"
SNOOZE_LENGTH: Final = timedelta(hours=1)
_TO_COME: Final = frozenset({State.SCHEDULED, State.WAITING})

Component = Mapping[str, Any]
Messages = list[dict[str, Any]]

_STEPS: Final[tuple[Component, ...]] = (
    {"id": "steps", "component": "List", "children": {"componentId": "step", "path": "/steps"}},
    {"id": "step", "component": "Column", "children": ["step-name", "step-status"]},
    {"id": "step-name", "component": "Text", "text": {"path": "name"}, "variant": "body"},
    {"id": "step-status", "component": "Text", "text": {"path": "status"}, "variant": "caption"},
)
"""Draws the steps of a chain, one below the other."""


def task_messages(task: TaskPayload) -> Messages:
    """Return the messages that draw one task, on a surface that is named after it."""
    lines = dict(_lines(task))
    buttons, steps = list(_buttons(task)), list(_steps(task))
    ids = ["title", "status", *lines, *(["steps"] if steps else []), *(["buttons"] if buttons else [])]
    components: list[Component] = [
        {"id": "root", "component": "Card", "child": "content"},
        {"id": "content", "component": "Column", "children": ids},
        _text("title", "h3"),
        _text("status", "body"),
        *(_text(name, "caption") for name in lines),
        *(_STEPS if steps else []),
        *([{"id": "buttons", "component": "Row", "children": [name for name, _, _ in buttons]}] if buttons else []),
        *(part for button in buttons for part in _button(*button)),
    ]
    model = {"title": task.title, "status": first_sentence(task), **lines, **({"steps": steps} if steps else {})}
    return _surface(f"duetime-{task.id}", components, model)


def list_messages(page: TaskListPayload) -> Messages:
    """Return the messages that draw a page of tasks, one row each."""
    components: list[Component] = [
        {"id": "root", "component": "Column", "children": ["heading", "rows"]},
        _text("heading", "h3"),
        {"id": "rows", "component": "List", "children": {"componentId": "row", "path": "/rows"}},
        {"id": "row", "component": "Card", "child": "row-content"},
        {"id": "row-content", "component": "Column", "children": ["row-title", "row-status"]},
        {"id": "row-title", "component": "Text", "text": {"path": "title"}, "variant": "body"},
        {"id": "row-status", "component": "Text", "text": {"path": "status"}, "variant": "caption"},
    ]
    count = len(page.tasks)
    heading = f"{count or 'No'} task{'' if count == 1 else 's'}{' and more' if page.cursor else ''}"
    return _surface("duetime-list", components, {"heading": heading, "rows": [_row(row) for row in page.tasks]})


def _surface(surface_id: str, components: Sequence[Component], model: Mapping[str, Any]) -> Messages:
    return [
        {"version": A2UI_VERSION, "createSurface": {"surfaceId": surface_id, "catalogId": A2UI_CATALOG}},
        {"version": A2UI_VERSION, "updateComponents": {"surfaceId": surface_id, "components": list(components)}},
        {"version": A2UI_VERSION, "updateDataModel": {"surfaceId": surface_id, "value": dict(model)}},
    ]


def _text(name: str, variant: str) -> Component:
    return {"id": name, "component": "Text", "text": {"path": f"/{name}"}, "variant": variant}


def _lines(task: TaskPayload) -> Iterator[tuple[str, str]]:
    """Yield what stands below the sentence of a task, each line by its name in the data model."""
    if task.message:
        yield "message", task.message
    if task.repeat:
        yield "repeat", f"Repeats {task.repeat.text}"
    if deadline := task.extra_run.deadline if task.extra_run else task.deadline or task.relative_deadline:
        yield "deadline", f"Deadline {deadline.text}"
    if task.chain:
        yield "progress", progress_in_words(task.chain)
    yield from _waits(task)
    if task.last_run and task.last_run.summary:
        yield "outcome", task.last_run.summary
    if task.warnings:
        yield "warnings", "\n".join(task.warnings)


def _waits(task: TaskPayload) -> Iterator[tuple[str, str]]:
    """Yield the question that is asked, what a blocked task misses, and all else that a task waits for."""
    waits = task.waits or ()
    questions = [wait.title or USUAL_QUESTION for wait in waits if wait.kind == WaitKind.APPROVAL]
    if questions:
        yield "question", "\n".join(dict.fromkeys(questions))
    if task.blocked:
        yield "missing", f"Blocked: {'; '.join(wait.after for wait in waits if wait.after)}"
    rest = [reason for reason in task.waiting_for or () if not reason.startswith(BLOCKED_PREFIX)]
    if rest:
        yield "waiting", f"Waits for {'; '.join(rest)}"


def _steps(task: TaskPayload) -> Iterator[dict[str, str]]:
    """Yield the rows of the steps of a whole chain: the name, the state in words, and why one failed."""
    for step in (task.chain.steps if task.chain else None) or ():
        status = STATE_LABELS[step.state.value]
        yield {"name": step.title or step.name, "status": f"{status}: {step.why}" if step.why else status}


def _buttons(task: TaskPayload) -> Iterator[tuple[str, str, tuple[str, dict[str, Any]]]]:
    """Yield the id, the label and the call of each button that the state of a task allows."""
    if task.id == DRY_RUN_ID or look(task) == "damaged":
        return
    named = {"task_id": task.id, "revision": task.revision}
    approvals = {wait.title for wait in task.waits or () if wait.kind == WaitKind.APPROVAL}
    if len(approvals) == 1:  # steps of a chain that ask different things are answered one by one
        yield "approve", "Approve", ("act_on_task", {**named, "action": "approve"})
        yield "reject", "Reject", ("act_on_task", {**named, "action": "reject"})
    elif (task.extra_run or task).state in _TO_COME and not task.paused and task.action != CHAIN_ACTION:
        snooze = {**named, "action": "snooze", "minutes": SNOOZE_LENGTH // timedelta(minutes=1)}
        yield "snooze", "Snooze for an hour", ("act_on_task", snooze)
        yield "run-now", "Run now", ("act_on_task", {**named, "action": "run_now"})
    if task.state in OPEN and not task.cancel_requested:
        yield "cancel", "Cancel all its runs" if task.extra_run else "Cancel", ("cancel_task", named)
    if task.unread:
        yield "done", "Done", ("act_on_task", {"task_id": task.id, "action": "done"})


def _button(name: str, label: str, call: tuple[str, dict[str, Any]]) -> tuple[Component, Component]:
    tool, arguments = call
    event = {"event": {"name": tool, "context": arguments}}
    text = {"id": f"{name}-label", "component": "Text", "text": label}
    return {"id": name, "component": "Button", "child": f"{name}-label", "action": event}, text


def _row(row: ListRow) -> dict[str, str]:
    word = (
        STATE_LABELS["paused"]
        if row.paused
        else STATE_LABELS["blocked"]
        if row.blocked
        else STATE_LABELS[row.state.value]
    )
    return {"title": row.title, "status": f"{word}, {row.when}{f': {row.why}' if row.why else ''}"}
