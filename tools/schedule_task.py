"""The tool `schedule_task`; its typed call is the scheduler's own `Request`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from duetime.scheduler.errors import DuetimeError, InvalidArgument, InvalidArguments
from duetime.scheduler.handlers import Handler
from duetime.scheduler.outbound.target import WATCH, WEBHOOK
from duetime.scheduler.request import POOL_PREFIXES, REMINDER_ACTION, Request
from duetime.scheduler.rules.retry import retry_policy
from duetime.scheduler.task import Json
from duetime.tools.arguments.arguments import Argument, Arguments
from duetime.tools.arguments.recurrence_words import RecurrenceText, refuse_no_runs
from duetime.tools.arguments.steps import STEPS, VALID_OUTPUT
from duetime.tools.arguments.types import Flag, Object, Text
from duetime.tools.arguments.unknown_names import ADDRESSES
from duetime.tools.arguments.waits import AFTER, AFTER_FAILURE, APPROVAL, WAIT_FOR
from duetime.tools.definition import (
    DEADLINE,
    DEADLINE_TYPE,
    DELIVER_TO,
    ESTIMATE,
    EXPECT,
    IDEMPOTENCY_KEY,
    LABELS,
    MAX_RUNS,
    NEEDS,
    NOTIFY,
    ON_FAILURE,
    PAYLOAD,
    PAYLOAD_MEMBERS,
    PRIORITY,
    RECURRENCE_END,
    REPEAT_POLICY,
    RETRY,
    TIME,
    TIMEZONE,
    TITLE,
    Definition,
    Sender,
    hints,
)
from duetime.tools.results import dry_run_answer, task_answer
from mcp.types import CallToolResult

Actions = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""The names of the actions, each with the members of its payload and their JSON Schemas."""

REMINDER: Actions = {"reminder": {"message": {"type": "string"}}}
_BUILT_IN = (REMINDER_ACTION, WEBHOOK, WATCH)
MAX_ACTIONS_NAMED = 12
"""As many actions, and as many members of each, are named to models; an error names all."""


def actions_of(handlers: Mapping[str, Handler]) -> Actions:
    """Return the name of each action with the members of its payload, as a call names them."""
    return {name: _members(handler.schema() or {}) for name, handler in handlers.items()}


def _members(schema: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    """Return the members of a schema; one that takes any value may stand as `true`."""
    found = schema.get("properties", {})
    return {name: part if isinstance(part, Mapping) else {} for name, part in found.items()}


def schedule_task(actions: Actions, pools: Sequence[str]) -> Definition[Request]:
    """Define the tool; `actions` and `pools` are named to models."""
    return Definition(
        "schedule_task",
        "Schedule a task",
        "Schedule a reminder or an action, once or repeatedly. Give times in the user's own words; tell the user the "
        "time in the answer. Repeating a call within a minute creates nothing twice.",
        (*_TIMES, *_work(actions), *_urgency(pools), *_HANDLING),
        _request,
        _answer,
        hints(idempotent=True, outside=True),
        also_wrong=_also_wrong,
        rehearse=_rehearse,
    )


_TIMES = (
    replace(TITLE, about="Shown to the user", required=True),
    Argument(
        "when",
        TIME,
        "'in 2 hours', 'tomorrow 9am', 'next tuesday 14:00', '2026-11-24T09:00'. A reminder needs it unless it "
        "repeats; else the default is now",
        "when='in 2 hours'",
    ),
    TIMEZONE,
    Argument(
        "repeat",
        RecurrenceText(),
        "'every weekday at 9:00', 'every 15 minutes', five-field cron or RRULE; starts at or after when",
        "repeat='every weekday at 9:00'",
    ),
    RECURRENCE_END,
    replace(MAX_RUNS, about="Maximum number of runs. To nag: repeat='every 10 minutes', max_runs=6"),
    REPEAT_POLICY,
)
_HANDLING = (
    replace(
        IDEMPOTENCY_KEY, about="Same value on every retry; for recurring work a template: '{label.account}:{window}'"
    ),
    RETRY,
    DELIVER_TO,
    NOTIFY,
    EXPECT,
    ON_FAILURE,
    LABELS,
    AFTER,
    replace(AFTER_FAILURE, goes_with="after"),
    VALID_OUTPUT,
    STEPS,
    APPROVAL,
    WAIT_FOR,
    Argument("dry_run", Flag(), "Only show what would be scheduled", "dry_run=true"),
)


@dataclass(frozen=True, slots=True)
class ActionName(Text):
    """The name of an action; other schedulers have its input with it."""

    def as_arguments(self, name: str, given: Json) -> Mapping[str, Json] | None:
        """Return the name and the payload that an object has."""
        members = dict(given) if isinstance(given, dict) else {}
        action = next((members.pop(each) for each in ("type", "name", "action") if each in members), None)
        return {name: action, "payload": members} if isinstance(action, str) else None


_SAYS_WHEN = frozenset({"when", "repeat", "after", "approval", "wait_for", "steps", "action"})
"""Arguments with one of which a task needs no other time."""


def _work(actions: Actions) -> tuple[Argument, ...]:
    named = dict(list(actions.items())[:MAX_ACTIONS_NAMED])
    more = len(actions) - len(named)
    known = ", ".join(named) + (f" and {more} more" if more else "")
    inputs = "; ".join(
        f"{name}: {{{', '.join(list(members)[:MAX_ACTIONS_NAMED])}}}" for name, members in named.items() if members
    )
    return (
        Argument(
            "action",
            ActionName(100, known),
            f"Action to run: {known}. Default reminder: only notifies the user, does no work",
            "action='reminder'",
        ),
        replace(PAYLOAD, about=f"Input of the action. {inputs}", kind=_payload(actions)),
    )


def _payload(actions: Actions) -> Object:
    """Return the kind of payloads: a member of built-in actions that is of another kind elsewhere is not described."""
    others = [members for name, members in actions.items() if name not in _BUILT_IN]
    usual = {
        name: schema
        for name, schema in PAYLOAD_MEMBERS.items()
        if all(_kind_of(members.get(name, schema)) == _kind_of(schema) for members in others)
    }
    return Object(usual=usual)


def _kind_of(schema: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what a client checks of a member."""
    return tuple(schema.get(word) for word in ("type", "enum", "$ref", "anyOf"))


_NAMES = Arguments("schedule_task", (*_TIMES, *_work(REMINDER), *_HANDLING))


def _urgency(pools: Sequence[str]) -> tuple[Argument, ...]:
    usual = [name for name in pools if not name.startswith(POOL_PREFIXES)]
    named = ", ".join((*usual[:MAX_ACTIONS_NAMED], "key:<anything> (one at a time)"))
    due_by = (
        "When it must be finished: 'tomorrow 17:00'; or '2 hours', from when it is due, the only form for a "
        "recurring task"
    )
    return (
        PRIORITY,
        replace(DEADLINE, about=due_by),
        DEADLINE_TYPE,
        ESTIMATE,
        replace(NEEDS, about=f"Units held while it runs, of: {named}", example=_units_of(usual)),
    )


def _units_of(pools: Sequence[str]) -> str:
    return f"needs={ ({pools[0]: 1})!r}" if pools else NEEDS.example


def _request(*, retry: Mapping[str, int] | None = None, **given: Any) -> Request:
    return Request(**given, retry=None if retry is None else retry_policy(retry))


def _answer(call: Request, sender: Sender) -> CallToolResult:
    view = sender.scheduler.submit(_request_of(call, sender), by=sender.by)
    return dry_run_answer(view) if call.dry_run else task_answer(view)


def _rehearse(call: Request, sender: Sender) -> None:
    """Raise what is wrong with a call; no handler checks what only an example says."""
    if found := sender.scheduler.problems(_request_of(call, sender), by=sender.by):
        raise InvalidArguments(found)


def _request_of(call: Request, sender: Sender) -> Request:
    refuse_no_runs(call.repeat, sender.raw)
    return replace(call, raw=sender.raw, origin=sender.origin.of_task(call))


def _also_wrong(values: Mapping[str, Any], sender: Sender) -> Sequence[InvalidArgument]:
    """Return what else is wrong with a task some of whose arguments could not be read."""
    request = _request(**{"title": "-", **values})
    try:
        origin = request.origin or sender.origin.of_task(request)
        found = sender.scheduler.problems(replace(request, origin=origin), by=sender.by)
    except InvalidArgument as problem:  # of the origin
        found = (problem,)
    except DuetimeError:  # the call is refused anyway
        return ()
    wrong = {_NAMES.nearest(name) or name for name in sender.raw if name not in values}
    wrong |= {"action"} if sender.raw.keys() & ADDRESSES else set()
    unknown = {"when"} if "when" not in values and not wrong.isdisjoint(_SAYS_WHEN) else set()
    unknown |= {"payload"} if "action" in wrong else set()
    return [problem for problem in found if problem.argument.partition(".")[0] not in unknown]
