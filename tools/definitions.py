"""The tools as clients see them: names, titles, descriptions and arguments, in the order in which they are listed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from duetime.scheduler.handlers import Handler
from duetime.scheduler.intake.deadlines import KINDS
from duetime.scheduler.rules.limits.pool import PREFIXES
from duetime.scheduler.task import Tier
from duetime.tools import calls
from duetime.tools.argument_types import Amounts, Choice, Flag, Length, Object, Text, Texts, Whole
from duetime.tools.arguments import Argument, Arguments
from duetime.tools.filters import MEANT_STATES, STATES
from duetime.widgets.cards import TASK_CARD, TASK_LIST
from duetime.widgets.schema import TaskListPayload, TaskPayload
from mcp.types import CallToolResult, ToolAnnotations
from pydantic import BaseModel

Actions = Mapping[str, Sequence[str]]
"""The names of the actions, each with the members of its payload."""

REMINDER: Actions = {"reminder": ("message",)}
SHOWN = 12
"""As many actions, and as many members of each, are named to models; an error names all."""

ID = Text(40, "the id of a task, as schedule_task and list_tasks give it")
TIME = Text(200, "a time")
TITLE = Text(200, "1 to 200 visible characters")
REVISION = Whole(1)

_TASK_ID = Argument("task_id", ID, "", "task_id='t_7k3m9qx2w4hb'", required=True)
_REVISION = Argument("revision", REVISION, "Refuse if the task is no longer at this revision", "revision=3")
_KEY = Argument(
    "idempotency_key", Text(200, "1 to 200 characters"), "As in schedule_task", "idempotency_key='call-john-1'"
)
_TIMEZONE = Argument(
    "timezone",
    Text(60, "an IANA time zone name"),
    "IANA name for wall times; default: the user's zone",
    "timezone='America/Edmonton'",
)
_RETRY = Object(
    {"max_attempts": Whole(1, 100), "backoff_seconds": Whole(1, 86_400), "max_backoff_seconds": Whole(1, 604_800)}
)


_PRIORITY = Argument("priority", Choice(tuple(Tier)), "Default normal", "priority='high'")
_DEADLINE_TYPE = Argument(
    "deadline_type",
    Choice(tuple(KINDS)),
    "hard: worthless after it, so dropped; soft: done late, at a penalty. Default soft",
    "deadline_type='soft'",
)
_ESTIMATE = Argument(
    "estimate", Length(), "How long it takes: '90 s', '5 min'; default: learned from earlier runs", "estimate='5 min'"
)
_NEEDS = Argument("needs", Amounts(), "Replaces the needs", "needs={'gpu': 1}")


def _deadline(about: str) -> Argument:
    return Argument("deadline", TIME, about, "deadline='2 hours'")


@dataclass(frozen=True, slots=True)
class Definition:
    """One tool. `also_wrong` finds further problems of a call that is refused anyway."""

    name: str
    title: str
    about: str
    arguments: tuple[Argument, ...]
    call: Callable[[calls.Call], CallToolResult]
    hints: ToolAnnotations
    card: str = TASK_CARD
    output: type[BaseModel] = TaskPayload
    for_models: bool = True
    complete: bool = False

    def read(self) -> Arguments:
        return Arguments(self.name, self.arguments)


def _hints(*, read_only: bool = False, destructive: bool = False, idempotent: bool, outside: bool) -> ToolAnnotations:
    return ToolAnnotations(
        read_only_hint=read_only, destructive_hint=destructive, idempotent_hint=idempotent, open_world_hint=outside
    )


def actions_of(handlers: Mapping[str, Handler]) -> dict[str, tuple[str, ...]]:
    """Return the name of each action with the members of its payload."""
    return {
        name: tuple(handler.payload_model.model_fields if handler.payload_model else ())
        for name, handler in handlers.items()
    }


def _needs(pools: Sequence[str]) -> Argument:
    usual = [name for name in pools if not name.startswith(PREFIXES)]
    named = ", ".join((*usual[:SHOWN], "key:<anything> (one at a time)"))
    about = f"Units that it holds while it runs, of: {named}"
    return Argument("needs", _NEEDS.kind, about, _NEEDS.example)


def _schedule(actions: Actions, pools: Sequence[str]) -> Definition:
    named = dict(list(actions.items())[:SHOWN])
    known = ", ".join(named)
    inputs = "; ".join(f"{name}: {{{', '.join(members[:SHOWN])}}}" for name, members in named.items() if members)
    return Definition(
        "schedule_task",
        "Schedule a task",
        "Schedule a reminder or an action, once or repeatedly. Give times in the user's own words; tell the user the "
        "time that the answer says back. The same call within a minute makes nothing twice.",
        (
            Argument("title", TITLE, "What the user will see", "title='Call John'", required=True),
            Argument(
                "when",
                TIME,
                "'in 2 hours', 'tomorrow 9am', 'next tuesday 14:00', '2026-11-24T09:00'. A reminder needs it unless it "
                "repeats; else the default is now",
                "when='in 2 hours'",
            ),
            _TIMEZONE,
            Argument(
                "repeat",
                Text(400, "a recurrence"),
                "'every weekday at 9:00', 'every 15 minutes', five-field cron or RRULE; starts at or after when",
                "repeat='every weekday at 9:00'",
            ),
            Argument("until", TIME, "When the recurrence ends", "until='2026-12-31'"),
            Argument("max_runs", Whole(1, 1_000_000), "How often it runs at most", "max_runs=10"),
            Argument(
                "action",
                Text(100, known),
                f"What to run: {known}. Default reminder",
                "action='reminder'",
            ),
            Argument(
                "payload",
                Object(),
                f"Input of the action. {inputs}",
                "payload={'message': 'Bring the contract'}",
            ),
            _PRIORITY,
            _deadline(
                "When it must be finished: 'tomorrow 17:00'; or '2 hours', counted from when it is due, the only form "
                "for a recurring task"
            ),
            _DEADLINE_TYPE,
            _ESTIMATE,
            _needs(pools),
            Argument(
                _KEY.name,
                _KEY.kind,
                "The same value on every retry: it holds longer than the minute that equal calls do",
                _KEY.example,
            ),
            Argument("retry", _RETRY, "How failures are tried again", "retry={'max_attempts': 3}"),
            Argument("deliver_to", Texts(20), "Configured channels, beside the inbox", "deliver_to=['inbox']"),
            Argument("labels", Texts(100), "Up to 10", "labels=['workflow=onboarding']"),
            Argument("dry_run", Flag(), "Only say what would be scheduled", "dry_run=true"),
        ),
        calls.schedule_task,
        _hints(idempotent=True, outside=True),
        complete=True,
    )


_LIST = Definition(
    "list_tasks",
    "List tasks",
    "Find tasks: a line each, counts by state, and outcomes not mentioned before.",
    (
        Argument(
            "state",
            Choice(tuple(STATES), MEANT_STATES),
            "open: all still to come; ended: all over; ready: due, also while a pool holds it",
            "state='open'",
        ),
        Argument("label", Text(60), "A whole label", "label='workflow=onboarding'"),
        Argument("query", Text(200), "Part of the title", "query='john'"),
        Argument("before", TIME, "Due before this time", "before='friday'"),
        Argument("after", TIME, "Due at or after this time", "after='yesterday'"),
        Argument("limit", Whole(1, 100), "Default 20", "limit=20"),
        Argument("cursor", Text(400), "From the answer before, for the next page"),
    ),
    calls.list_tasks,
    _hints(read_only=True, idempotent=True, outside=False),
    card=TASK_LIST,
    output=TaskListPayload,
)

_GET = Definition(
    "get_task",
    "Show a task",
    "Everything about one task: state, times, last outcome, delivery; with history also what happened and why.",
    (_TASK_ID, Argument("history", Flag(), "With attempts and events", "history=true")),
    calls.get_task,
    _hints(read_only=True, idempotent=True, outside=False),
)

_RESCHEDULE = Definition(
    "reschedule_task",
    "Change a task",
    "Change a task's time, recurrence, text, payload or urgency; pause it, resume it, or skip its next run. "
    "What is given changes, the rest stays.",
    (
        _TASK_ID,
        _REVISION,
        Argument("title", TITLE, "", "title='Call John'"),
        Argument("when", TIME, "As in schedule_task", "when='tomorrow 9am'"),
        _TIMEZONE,
        Argument(
            "repeat", Text(400, "a recurrence"), "As in schedule_task; 'never' makes it run once", "repeat='daily'"
        ),
        Argument("until", TIME, "When the recurrence ends", "until='2026-12-31'"),
        Argument("payload", Object(), "Replaces the payload", "payload={'message': 'Bring the contract'}"),
        Argument("priority", _PRIORITY.kind, "Until the run has started, as the next four", _PRIORITY.example),
        _deadline("As in schedule_task; 'none' removes it"),
        Argument("deadline_type", _DEADLINE_TYPE.kind, "", _DEADLINE_TYPE.example),
        Argument("estimate", _ESTIMATE.kind, "'none': learned again", _ESTIMATE.example),
        _NEEDS,
        Argument("pause", Flag(), "true holds it, false resumes it", "pause=true"),
        Argument("skip_next", Flag(), "Leave out the next occurrence", "skip_next=true"),
        _KEY,
    ),
    calls.reschedule_task,
    _hints(idempotent=True, outside=True),
)

_CANCEL = Definition(
    "cancel_task",
    "Cancel a task",
    "Cancel a task with all its coming runs. It can be undone for 30 s, on its card.",
    (_TASK_ID, Argument("reason", Text(200), "Kept in the history", "reason='not needed'"), _REVISION, _KEY),
    calls.cancel_task,
    _hints(destructive=True, idempotent=True, outside=False),
)

_ACT = Definition(
    "act_on_task",
    "Press a button of a task card",
    "What the buttons of a task's card do: snooze it, run it now, skip its next run, undo its cancel, or mark its "
    "outcome as read (done).",
    (
        _TASK_ID,
        Argument("action", Choice(("snooze", "run_now", "skip_next", "undo", "done")), "", "run_now", required=True),
        _REVISION,
        Argument("minutes", Whole(1, 527_040), "Snooze for", "minutes=10"),
        Argument("until", TIME, "Snooze until", "until='tomorrow 9am'"),
        Argument("undo", Text(60), "The token that undoes a cancel"),
        _KEY,
    ),
    calls.act_on_task,
    _hints(idempotent=True, outside=True),
    for_models=False,
)


def definitions(actions: Actions, pools: Sequence[str] = ()) -> tuple[Definition, ...]:
    """Return the tools in their fixed order; `actions` are the names that `action` may take, with their payloads.

    `pools` are named to models, where `needs` may be given.
    """
    return (_schedule(actions, pools), _LIST, _GET, _RESCHEDULE, _CANCEL, _ACT)
