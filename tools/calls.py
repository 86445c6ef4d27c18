"""The calls of the tools: read arguments become one call of the scheduler, and its answer is given in both forms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from duetime.scheduler.errors import DuetimeError, InvalidArgument, InvalidArguments
from duetime.scheduler.events import EventFilter
from duetime.scheduler.request import Request
from duetime.scheduler.service import Scheduler
from duetime.scheduler.task import Json, Principal, RetryPolicy, TaskFilter, TaskView
from duetime.tools.filters import resolve_bound, states_of
from duetime.tools.results import answer
from duetime.widgets.history import history_payload
from duetime.widgets.payload import as_dry_run, as_json, list_payload, task_payload
from duetime.widgets.schema import HistoryPart
from duetime.widgets.text import list_text, task_text
from mcp.types import CallToolResult


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a tool: `values` are the arguments that could be read, `raw` all of them as they were sent."""

    scheduler: Scheduler
    by: Principal
    values: Mapping[str, Json]
    raw: Mapping[str, Json]

    def take(self, *names: str) -> dict[str, Json]:
        """Return those of the named arguments that were given."""
        return {name: self.values[name] for name in names if name in self.values}


def schedule_task(call: Call) -> CallToolResult:
    view = call.scheduler.submit(_request(call.values, call.raw), by=call.by)
    return _task(as_dry_run(view) if call.values.get("dry_run") else view)


def list_tasks(call: Call) -> CallToolResult:
    states = states_of(call.values.get("state"))
    where = replace(TaskFilter(states, **call.take("label", "query")), **_bounds(call))
    page = call.scheduler.list(where, **call.take("limit", "cursor"), by=call.by, mention=True)
    return answer(as_json(list_payload(page)), list_text(page, filtered=where != TaskFilter()))


def get_task(call: Call) -> CallToolResult:
    task_id = call.values["task_id"]
    view = call.scheduler.get(task_id, by=call.by)
    zone = view.record.task.timezone
    return _task(view, _history(call, task_id, zone) if call.values.get("history") else None)


def reschedule_task(call: Call) -> CallToolResult:
    changes = {name: value for name, value in call.values.items() if name != "task_id"}
    return _task(call.scheduler.reschedule(call.values["task_id"], **changes, raw=call.raw, by=call.by))


def cancel_task(call: Call) -> CallToolResult:
    details = call.take("reason", "revision", "idempotency_key")
    return _task(call.scheduler.cancel(call.values["task_id"], **details, raw=call.raw, by=call.by))


def act_on_task(call: Call) -> CallToolResult:
    details = call.take("revision", "minutes", "until", "undo", "idempotency_key")
    task_id, action = call.values["task_id"], call.values["action"]
    return _task(call.scheduler.act(task_id, action, **details, raw=call.raw, by=call.by))


def also_wrong(call: Call, known: Sequence[InvalidArgument]) -> list[InvalidArgument]:
    """Ask the scheduler what else is wrong with a new task some of whose arguments could not even be read.

    A caller that corrects everything at once needs one more call, not two. Nothing is stored.
    """
    reported = {problem.argument for problem in known}
    try:
        call.scheduler.submit(_request({"title": "-", **call.values, "dry_run": True}, None), by=call.by)
    except InvalidArgument as problem:
        found: Sequence[InvalidArgument] = [problem]
    except InvalidArguments as several:
        found = several.problems
    except DuetimeError:
        found = []
    else:
        found = []
    return [problem for problem in found if problem.argument.partition(".")[0] not in reported]


def _request(values: Mapping[str, Json], raw: Mapping[str, Json] | None) -> Request:
    given = dict(values)
    if "retry" in given:
        given["retry"] = _retry_policy(given["retry"])
    return Request(**given, raw=raw)


def _retry_policy(given: Mapping[str, int]) -> RetryPolicy:
    seconds = {"backoff": "backoff_seconds", "max_backoff": "max_backoff_seconds"}
    parts: dict[str, Any] = {part: timedelta(seconds=given[name]) for part, name in seconds.items() if name in given}
    if "max_attempts" in given:
        parts["max_attempts"] = given["max_attempts"]
    return RetryPolicy(**parts)


def _bounds(call: Call) -> dict[str, Any]:
    now, zone = call.scheduler.now(), call.scheduler.zone
    return {
        name: resolve_bound(text, now=now, zone=zone, argument=name)
        for name, text in call.take("before", "after").items()
    }


def _history(call: Call, task_id: str, zone: str) -> HistoryPart:
    page = call.scheduler.history(EventFilter(task_id=task_id), by=call.by)
    attempts = call.scheduler.attempts(task_id, by=call.by)
    return history_payload(attempts, page.events, zone, limited=True, older=page.cursor is not None)


def _task(view: TaskView, history: HistoryPart | None = None) -> CallToolResult:
    payload = task_payload(view, history)
    return answer(as_json(payload), task_text(payload))
