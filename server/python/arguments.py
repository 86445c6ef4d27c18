"""The arguments of the Python API by name, each with the kind of its values and an example that a refusal shows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from datetime import date, datetime, timedelta
from typing import Any

from duetime.scheduler.audit.entry import AuditFilter, AuditKind
from duetime.scheduler.calls.bulk_change import MAX_TASKS_CHANGED, BulkVerb
from duetime.scheduler.calls.reschedule import REMOVABLE_ARGUMENTS
from duetime.scheduler.chain.dependency import MAX_UPSTREAMS
from duetime.scheduler.events import EventFilter, EventKind
from duetime.scheduler.foresight.readers.past_reader import MAX_LOG_LINES_READ
from duetime.scheduler.history.costs import CostGroup
from duetime.scheduler.history.dead_letters import DeadLetterFilter, LetterState
from duetime.scheduler.history.events import EventGroup
from duetime.scheduler.history.runs import BucketWidth, RunFilter, RunGroup
from duetime.scheduler.principal import Principal
from duetime.scheduler.request import ACTIONS_OF_AGENTS, DEADLINE_KINDS, AfterFailure, Request
from duetime.scheduler.service.letters.letter_call import MAX_LETTERS_CLOSED
from duetime.scheduler.task import ApprovalAnswer, Notify, State, Tier
from duetime.scheduler.views import Standing, TaskFilter
from duetime.server.python.kinds import (
    Amount,
    AwareInstant,
    ChainSteps,
    HandlerList,
    Items,
    LengthOfTime,
    Members,
    Money,
    Native,
    OneOf,
    PayloadFields,
    PlainTexts,
    Policy,
    Raw,
    RecurrenceWords,
    States,
)
from duetime.server.python.values import ValueKind
from duetime.server.settings.model import Settings
from duetime.tools.arguments.approval import ApprovalTerms
from duetime.tools.arguments.arguments import PAYLOAD_EXAMPLES, Argument
from duetime.tools.arguments.choices import Choice, Choices
from duetime.tools.arguments.retry import RetryTerms
from duetime.tools.arguments.steps import STEPS, VALID_OUTPUT
from duetime.tools.arguments.time_text import Length
from duetime.tools.arguments.types import Amounts, Flag, LabelTexts, Text, Texts, Whole, named

MAX_IDS = 1_000_000
MAX_CALL_THREADS = 256

_TIME = Native("words, a date, a datetime or a timedelta", (date, timedelta), Text(200))
_BOUND = Native("words, a date or a datetime", (date,), Text(200))
_LENGTH = Native("words, seconds or a timedelta", (timedelta,), Length())
_ACTIONS = Choice((*ACTIONS_OF_AGENTS, *ApprovalAnswer))
_FLAG = Flag("True or False")
_RETRY = RetryTerms(fillable=False)
_POLICY = Policy(
    "a RetryPolicy, a mapping with max_attempts, or '5 times, 30 s apart'", Members(_RETRY.accepted, _RETRY)
)

_OF_TASKS = (
    Argument("title", Text(), example="title='Call John'"),
    Argument("when", _TIME, example="when='in 2 hours'"),
    Argument("timezone", Text(accepted="an IANA time zone name"), example="timezone='America/Edmonton'"),
    Argument("repeat", RecurrenceWords("a recurrence in words", Text()), example="repeat='every 3 days at 18:00'"),
    Argument("until", _TIME, example="until='2026-12-31'"),
    Argument("max_runs", Whole(1, 1_000_000), example="max_runs=10"),
    Argument("repeat_policy", Members("a mapping of parts by name"), example="repeat_policy={'pause_after': 3}"),
    Argument("action", Text(), example="action='reminder'"),
    Argument(
        "payload",
        PayloadFields("a mapping of JSON values by text, or a model"),
        example="payload={'message': 'Stretch'}",
        examples=PAYLOAD_EXAMPLES,
    ),
    Argument("priority", Choice(tuple(tier.value for tier in Tier)), example="priority='high'"),
    Argument("deadline", _TIME, example="deadline='2 hours'"),
    Argument("deadline_type", Choice(tuple(DEADLINE_KINDS)), example="deadline_type='soft'"),
    Argument("estimate", _LENGTH, example="estimate='5 min'"),
    Argument("needs", Members("a mapping of whole units by pool", Amounts()), example="needs={'key:customer-42': 1}"),
    Argument(
        "retry",
        _POLICY,
        example="retry=RetryPolicy(max_attempts=3)",
    ),
    Argument("notify", Choice(tuple(Notify)), example="notify='failure'"),
    Argument("expect", Members("a mapping of JSON values by text"), example="expect={'field': 'order_id'}"),
    Argument(
        "on_failure", Members("a mapping of JSON values by text"), example="on_failure={'run': {'action': 'reminder'}}"
    ),
    Argument("origin", Members("a mapping of client, session, thread"), example="origin={'client': 'my-app'}"),
    Argument("deliver_to", PlainTexts("a list of texts", Texts(20)), example="deliver_to=['inbox']"),
    Argument("labels", PlainTexts("a list of texts", LabelTexts()), example="labels=['project']"),
    Argument("after_failure", Choice(tuple(AfterFailure)), example="after_failure='run_anyway'"),
    Argument("steps", ChainSteps(STEPS.kind.accepted), example=STEPS.example),
    Argument("approval", ApprovalTerms(_TIME), example="approval={'question': 'Pay 90 EUR?', 'by': '2 hours'}"),
    VALID_OUTPUT,
    Argument("wait_for", Members("a mapping with event, match, timeout"), example="wait_for={'event': 'order.paid'}"),
    Argument(
        "remove",
        Items(f"a list of {', '.join(REMOVABLE_ARGUMENTS)}", Choices(REMOVABLE_ARGUMENTS)),
        example="remove=['needs']",
    ),
    Argument("pause", _FLAG, example="pause=True"),
    Argument("pause_until", _TIME, example="pause_until='monday 9am'"),
    Argument("skip_next", _FLAG, example="skip_next=True"),
    Argument("all_following", _FLAG, example="all_following=True"),
    Argument("dry_run", _FLAG, example="dry_run=True"),
)
_OF_CALLS = (
    Argument("task_id", Text(accepted="the id of a task"), example="task_id='t_7k3m9qx2w4hb'"),
    Argument("revision", Whole(1), example="revision=3"),
    Argument("idempotency_key", Text(), example="idempotency_key='call-john-1'"),
    Argument("raw", Raw("the arguments as an agent sent them"), example="raw={'title': 'Call John'}"),
    Argument("by", Native("a Principal", (Principal,)), example="by=Principal(user='ann')"),
    Argument("reason", Text(), example="reason='it rains'"),
    Argument("hours", Text(), example="hours='22:00-07:00 America/Denver'"),
    Argument("user", Text(accepted="a user"), example="user='ann'"),
    Argument("minutes", Whole(1, 527_040), example="minutes=10"),
    Argument("undo", Text(), example="undo=view.undo"),
    Argument("text", Text(), example="text='Call John'"),
    Argument("task_ids", Items("a list of ids", Texts(MAX_IDS)), example="task_ids=['t_7k3m9qx2w4hb']"),
    Argument("ids", Items("a list of ids", Texts(MAX_IDS)), example="ids=[message.id]"),
    Argument("of", Text(accepted="the id of a task, or how the id of an outcome begins"), example="of=task_id"),
    Argument("after", _BOUND, example="after='yesterday'"),
    Argument("before", _BOUND, example="before='tomorrow'"),
    Argument("since", _BOUND, example="since='yesterday'"),
    Argument("limit", Whole(1, 100), example="limit=20"),
    Argument("to", _TIME, example="to='tomorrow'"),
    Argument("run_id", Text(accepted="the id of a run"), example="run_id='r_7k3m9qx2w4hb00000000'"),
    Argument("decision_id", Text(accepted="the id of a decision"), example="decision_id=page.decisions[0].id"),
    Argument("run_ids", Items("a list of ids", Texts(MAX_IDS)), example="run_ids=[letter.run_id]"),
    Argument("max_letters", Whole(1, MAX_LETTERS_CLOSED), example="max_letters=100"),
    Argument("cursor", Text(), example="cursor=page.cursor"),
    Argument("mention", _FLAG, example="mention=True"),
)
_OF_FILTERS = (
    Argument(
        "states", States(f"states of runs: {', '.join(State)}", Choices(tuple(State))), example="states=(State.FAILED,)"
    ),
    Argument("state", OneOf("a state of a run", State), example="state=State.FAILED"),
    Argument("standing", OneOf("how a run stands", Standing), example="standing=Standing.BLOCKED"),
    Argument("label", Text(), example="label='project'"),
    Argument("query", Text(), example="query='invoice'"),
)
_OF_RUNS = (
    Argument("tier", OneOf(f"one of {', '.join(Tier)}", Tier), example="tier=Tier.HIGH"),
    Argument("worker", Text(accepted="the id of a worker"), example="worker='w_1'"),
    Argument("error", Text(200), example="error='HTTP 503'"),
    Argument("actor", Text(accepted="a user"), example="actor='ann'"),
    *(
        Argument(name, LengthOfTime("a timedelta, seconds or words"), example=f"{name}=timedelta(minutes=5)")
        for name in ("min_duration", "max_duration", "min_lateness", "min_delay")
    ),
    Argument("min_attempts", Whole(1), example="min_attempts=2"),
    Argument("or_begun", _FLAG, example="or_begun=True"),
    Argument("unpaused", _FLAG, example="unpaused=True"),
    Argument("oldest_first", _FLAG, example="oldest_first=True"),
    Argument("pool", Text(accepted="the name of a pool"), example="pool='tokens'"),
    Argument("min_units", Amount("a number"), example="min_units=1000"),
    Argument("min_cost", Money("a Decimal, a number or text"), example="min_cost=Decimal('0.50')"),
    Argument("kind", OneOf("a kind of an event", EventKind), example="kind=EventKind.PAUSED"),
    Argument("via", Text(accepted="a way of calls: `cli`, `mcp`, `rest`"), example="via='mcp'"),
    Argument("surface", Text(accepted="a way of calls: `cli`, `mcp`, `rest`"), example="surface='rest'"),
    Argument("subject", Text(accepted="the name of a key, a pool, a secret"), example="subject='gpu'"),
    Argument("tenant", Text(accepted="a tenant, or `*` for all"), example="tenant='*'"),
    Argument("group", OneOf(f"one of {', '.join(RunGroup)}", RunGroup), example="group=RunGroup.ACTION"),
    Argument("width", OneOf(f"one of {', '.join(BucketWidth)}", BucketWidth), example="width=BucketWidth.DAY"),
)
_EVERYWHERE = (*_OF_TASKS, *_OF_CALLS, *_OF_FILTERS, *_OF_RUNS)
USUAL = {argument.name: argument for argument in _EVERYWHERE}
"""The argument of each name, wherever a method has no other meaning for it."""

_TEXT, _MOMENT = frozenset({str}), frozenset({str, datetime, timedelta})
AS_IS: Mapping[str, frozenset[type]] = {
    **dict.fromkeys(
        ("title", "timezone", "repeat", "action", "priority", "deadline_type", "notify", "idempotency_key"), _TEXT
    ),
    **dict.fromkeys(("when", "until", "deadline"), _MOMENT),
    "max_runs": frozenset({int}),
    "estimate": frozenset({str, int, float, timedelta}),
    **dict.fromkeys(("payload", "needs", "expect", "on_failure", "origin"), frozenset({dict})),
    "labels": frozenset({list, tuple}),
    "dry_run": frozenset({bool}),
}
"""Types of the fields of a request that the service reads itself, within the same bounds as the tools."""


class Requests:
    """The kind of several requests; a problem names the place of the request that has it."""

    accepted = "a list of Request values"

    def schema(self) -> dict[str, Any]:
        """Return nothing: no model sees these arguments."""
        return {}

    def read(self, given: Any) -> Any:
        """Read each request. Raises ValueError for what is no series of them, InvalidArguments for their fields."""
        if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
            raise ValueError(f"{named(given)} is not {self.accepted}")  # noqa: TRY004 - one family for all kinds
        return [REQUEST.read(request, place) for place, request in enumerate(given)]


_AFTER = Argument("after", PlainTexts("a list of ids of tasks", Texts(MAX_UPSTREAMS)), example="after=[fetch.id]")
_INSTANT = AwareInstant("an aware datetime")
OF_EVENTS = ("history", "event_counts", "event_buckets")
_RUN_CALLS = ("runs", "run_counts", "run_buckets")
OF_LETTERS = ("dead_letters", "replay", "discard")
SPECIAL_ARGUMENTS: dict[str, Argument] = {
    **{
        f"{name}.until": Argument("until", _BOUND, example="until='yesterday'")
        for name in (*OF_EVENTS, "audit", "costs", *_RUN_CALLS, *OF_LETTERS)
    },
    "change_many.change": Argument(
        "change", OneOf(f"one of {', '.join(BulkVerb)}", BulkVerb), example="change='cancel'"
    ),
    "change_many.expect": Argument("expect", Whole(0, MAX_TASKS_CHANGED), example="expect=12"),
    "send_event.name": Argument("name", Text(accepted="the name of an event"), example="name='order.paid'"),
    "send_event.data": Argument("data", Members("a mapping of JSON values by text"), example="data={'id': 7}"),
    "send_event.event_id": Argument("event_id", Text(), example="event_id='pay-7'"),
    "make_fire_address.renew": Argument("renew", _FLAG, example="renew=True"),
    "wait.timeout": Argument("timeout", LengthOfTime("a timedelta, seconds or words"), example="timeout=30"),
    "costs.group": Argument(
        "group", OneOf(f"one of {', '.join(CostGroup)}", CostGroup), example="group=CostGroup.ACTION"
    ),
    "run_log.after": Argument("after", Text(accepted="the `place` of a line"), example="after=line.place"),
    "run_log.newest": Argument("newest", Whole(1, MAX_LOG_LINES_READ), example="newest=20"),
    "run_log.limit": Argument("limit", Whole(1, MAX_LOG_LINES_READ), example="limit=200"),
    **{f"{place}.after": _AFTER for place in ("Request", "schedule", "reschedule", "Reschedule")},
    "act.action": Argument("action", _ACTIONS, example="action='run_now'"),
    "act.until": Argument("until", _TIME, example="until='tomorrow 9am'"),
    **{f"TaskFilter.{name}": Argument(name, _INSTANT) for name in ("after", "before")},
    "RunFilter.started_before": Argument("started_before", _INSTANT),
    **{
        f"{kind}.{name}": Argument(name, _INSTANT)
        for kind in ("EventFilter", "RunFilter", "DeadLetterFilter", "AuditFilter")
        for name in ("since", "until")
    },
}
"""The arguments that mean something else in one place than in the others, by that and their name."""


def _fields_of(kind: type[Any], as_is: Mapping[str, frozenset[type]] | None = None) -> ValueKind:
    names = [item.name for item in fields(kind)]
    return ValueKind(
        kind, {name: SPECIAL_ARGUMENTS.get(f"{kind.__name__}.{name}") or USUAL[name] for name in names}, as_is
    )


REQUEST = _fields_of(Request, AS_IS)
_REQUEST_EXAMPLE = "Request('Call John', when='in 2 hours')"
SPECIAL_ARGUMENTS |= {
    "submit.request": Argument("request", REQUEST, example=f"request={_REQUEST_EXAMPLE}"),
    "schedule_many.requests": Argument("requests", Requests(), example=f"requests=[{_REQUEST_EXAMPLE}]"),
    **{
        f"{name}.where": Argument("where", _fields_of(TaskFilter), example="where=TaskFilter(label='project')")
        for name in ("list", "change_many")
    },
    "event_counts.group": Argument(
        "group", OneOf(f"one of {', '.join(EventGroup)}", EventGroup), example="group=EventGroup.ACTOR"
    ),
}
_OF_EVENT_FILTER = Argument("where", _fields_of(EventFilter), example="where=EventFilter(label='project')")
SPECIAL_ARGUMENTS |= {f"{name}.where": _OF_EVENT_FILTER for name in OF_EVENTS}
_OF_RUN_FILTER = Argument("where", _fields_of(RunFilter), example="where=RunFilter(min_attempts=2)")
SPECIAL_ARGUMENTS |= {f"{name}.where": _OF_RUN_FILTER for name in _RUN_CALLS}
SPECIAL_ARGUMENTS["AuditFilter.kind"] = Argument(
    "kind", OneOf("a kind of an audit entry", AuditKind), example="kind=AuditKind.POOL_SET"
)
SPECIAL_ARGUMENTS["audit.where"] = Argument(
    "where", _fields_of(AuditFilter), example="where=AuditFilter(surface='rest')"
)
SPECIAL_ARGUMENTS["DeadLetterFilter.state"] = Argument(
    "state", OneOf(f"one of {', '.join(LetterState)}, or None", LetterState), example="state=LetterState.REPLAYED"
)
_OF_LETTER_FILTER = Argument("where", _fields_of(DeadLetterFilter), example="where=DeadLetterFilter(action='webhook')")
SPECIAL_ARGUMENTS |= {f"{name}.where": _OF_LETTER_FILTER for name in OF_LETTERS}

OPENING = (
    Argument("settings", Native("Settings", (Settings,)), example="settings=Settings(threads=4)"),
    Argument("handlers", HandlerList("functions with @handler"), example="handlers=[resize]", required=True),
    Argument("run", _FLAG, example="run=False"),
    Argument("entry_points", _FLAG, example="entry_points=False"),
    Argument("threads", Whole(1, MAX_CALL_THREADS), example="threads=4", required=True),
)
"""The arguments with which a scheduler is opened."""
