"""The tool `change_tasks`: one change of many tasks, by ids or by the words of a list, and its undo."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from duetime.scheduler.calls.bulk_change import MAX_TASKS_CHANGED, BulkVerb
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.service.bulk.bulk_call import BulkArguments
from duetime.scheduler.service.letters.letter_call import MAX_LETTERS_CLOSED
from duetime.scheduler.task import Json, Tier
from duetime.scheduler.views import TaskFilter
from duetime.tools.arguments.arguments import Argument
from duetime.tools.arguments.choices import Choice
from duetime.tools.arguments.filters import MEANT_STATES, STATE_WORDS, parts_of
from duetime.tools.arguments.types import Flag, Text, Texts, TokenText, Whole
from duetime.tools.definition import IDEMPOTENCY_KEY, TIME, Definition, Sender, hints
from duetime.tools.results import bulk_answer
from duetime.widgets.cards import TASK_LIST
from mcp.types import CallToolResult


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeTasks:
    """A change of the tasks that are named, or of those that all filters match."""

    change: BulkVerb
    task_ids: Sequence[str] = ()
    query: str | None = None
    label: str | None = None
    action: str | None = None
    state: str | None = None
    priority: str | None = None
    after: str | None = None
    before: str | None = None
    to: str | None = None
    expect: int | None = None
    max_letters: int | None = None
    dry_run: bool = False
    undo: str | None = None
    reason: str | None = None
    idempotency_key: str | None = None

    @property
    def where(self) -> TaskFilter:
        """The filter, less its times."""
        tier = Tier(self.priority) if self.priority else None
        return TaskFilter(**parts_of(self.state), action=self.action, label=self.label, query=self.query, tier=tier)


def _arguments(call: ChangeTasks, sender: Sender) -> BulkArguments:
    return {
        "after": call.after,
        "before": call.before,
        "to": call.to,
        "undo": call.undo,
        "reason": call.reason,
        "expect": call.expect,
        "max_letters": call.max_letters,
        "dry_run": call.dry_run,
        "idempotency_key": call.idempotency_key,
        "raw": sender.raw,
        "by": sender.by,
    }


def _answer(call: ChangeTasks, sender: Sender) -> CallToolResult:
    arguments = _arguments(call, sender)
    return bulk_answer(sender.scheduler.bulk.change(call.change, call.task_ids, where=call.where, **arguments))


def _rehearse(call: ChangeTasks, sender: Sender) -> None:
    """Raise what is wrong with the arguments of a call; no task is looked at."""
    sender.scheduler.bulk.check(call.change, call.task_ids, where=call.where, **_arguments(call, sender))


_VERB = Choice(
    tuple(BulkVerb),
    {
        **dict.fromkeys(("reschedule", "postpone", "update"), "move"),
        **dict.fromkeys(("delete", "remove", "stop"), "cancel"),
        **dict.fromkeys(("hold", "disable"), "pause"),
        **dict.fromkeys(("enable", "unpause"), "resume"),
        **dict.fromkeys(("retry", "rerun"), "replay"),
    },
)
"""The changes, with other words for them."""


@dataclass(frozen=True, slots=True)
class _Change(Argument):
    """The change of the tasks; models name it `action`, by which tasks are filtered here."""

    def missing_in(self, call: Mapping[str, Json]) -> InvalidArgument:
        """Return the problem of a call that lacks it, with the verb that it has as a filter."""
        verb = _VERB.nearest(call.get("action"))
        if verb is None:
            return Argument.missing_in(self, call)
        problem = f"it filters by the action of the tasks; {verb} is a change"
        return InvalidArgument("action", problem, accepted=self.kind.accepted, example=f"change={verb!r}, action=null")


CHANGE_TASKS = Definition(
    "change_tasks",
    "Change many tasks",
    "Change many tasks at once, or undo it. Filters, as in list_tasks, only preview until expect says how many.",
    (
        _Change("change", _VERB, "", "change='cancel'", required=True),
        Argument(
            "task_ids", Texts(MAX_TASKS_CHANGED, listed=True), "These; else the filters", "task_ids=['t_7k3m9qx2w4hb']"
        ),
        Argument("query", Text(200), "", "query='john'"),
        Argument("label", Text(60), "", "label='workflow=onboarding'"),
        Argument("action", Text(60), "", "action='webhook'"),
        Argument(
            "state",
            Choice(STATE_WORDS, MEANT_STATES, listed=False),
            "Default open; to replay or discard: dead_letter",
            "state='open'",
        ),
        Argument("priority", Choice(tuple(Tier), listed=False), "", "priority='low'"),
        Argument("after", TIME, "", "after='today 12:00'"),
        Argument("before", TIME, "", "before='tomorrow'"),
        Argument(
            "to",
            TIME,
            "For move: a day (keeps times of day), a time, '1 day later'; for pause: until then",
            "to='tomorrow'",
        ),
        Argument("expect", Whole(1, MAX_TASKS_CHANGED), "The preview's count", "expect=12"),
        Argument("max_letters", Whole(1, MAX_LETTERS_CLOSED), "", "max_letters=100"),
        Argument("dry_run", Flag(), "", "dry_run=true"),
        Argument("undo", TokenText(60), "Token of an answer"),
        Argument("reason", Text(200), "", "reason='the fair is off'"),
        replace(IDEMPOTENCY_KEY, about=""),
    ),
    ChangeTasks,
    _answer,
    hints(destructive=True, idempotent=True, outside=False),
    rehearse=_rehearse,
    card=TASK_LIST,
    output="list",
)
