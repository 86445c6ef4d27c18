"""A tool as clients see it, and the arguments that several tools share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.principal import Principal, Scope
from duetime.scheduler.request import DEADLINE_KINDS, REMINDER_ACTION
from duetime.scheduler.task import Json, Notify, Tier
from duetime.tools.arguments.arguments import (
    PAYLOAD_EXAMPLES,
    SAMPLE_TASK_ID,
    ActionOfTask,
    Argument,
    Arguments,
    Elsewhere,
)
from duetime.tools.arguments.choices import Choice
from duetime.tools.arguments.retry import RetryTerms
from duetime.tools.arguments.task_id import TaskId
from duetime.tools.arguments.time_text import Length, TimeText
from duetime.tools.arguments.types import Amounts, LabelTexts, Object, Text, Texts, TokenText, Whole
from duetime.tools.arguments.unknown_names import as_call, is_short
from duetime.tools.arguments.waits import RUN_ON_FAILURE
from duetime.tools.call_origin import UNKNOWN_ORIGIN, CallOrigin
from duetime.tools.output_schema import Output
from duetime.widgets.cards import TASK_CARD
from mcp.types import CallToolResult, ToolAnnotations

if TYPE_CHECKING:
    from duetime.scheduler.service.scheduler import Scheduler

CallT = TypeVar("CallT")

SchedulerSource = Callable[[], "Scheduler"]
"""Returns the scheduler of this process, opened first if need be; raises DuetimeError when it cannot be opened."""

CallObserver = Callable[[str, str, float], None]
"""Called with the name of a tool, the outcome of its call (`ok` or the code of an error) and the seconds it took."""


def unobserved(_tool: str, _outcome: str, _seconds: float) -> None:
    """Observe no call."""


TIME = TimeText(200)

TASK_ID = TaskId(
    "task_id",
    TokenText(40, "the id of a task, as schedule_task and list_tasks return it"),
    "",
    f"task_id={SAMPLE_TASK_ID!r}",
    required=True,
)
REVISION = Argument("revision", Whole(1), "Refuse at another revision", "revision=3")
IDEMPOTENCY_KEY = Argument(
    "idempotency_key", Text(200, "1 to 200 characters"), "As in schedule_task", "idempotency_key='call-john-1'"
)
TITLE = Argument("title", Text(200, "1 to 200 visible characters"), "", "title='Call John'")
TIMEZONE = Argument(
    "timezone",
    Text(60, "an IANA time zone name"),
    "IANA name; default: the user's zone",
    "timezone='America/Edmonton'",
)
RECURRENCE_END = Argument("until", TIME, "When the recurrence ends", "until='2026-12-31'")
PAYLOAD_MEMBERS: Mapping[str, Mapping[str, Any]] = {
    "message": {"type": "string"},
    "url": {"type": "string"},
    "method": {"type": "string", "enum": ["POST", "GET", "PUT"]},
    "body": {"type": "string"},
    "headers": {"type": "object", "additionalProperties": {"type": "string"}},
}
"""The schemas of the members of built-in actions. A `body` is text, of JSON too: adapters refuse one without type."""
PAYLOAD = Argument(
    "payload",
    Object(usual=PAYLOAD_MEMBERS),
    "Replaces the payload",
    "payload={'message': 'Bring the contract'}",
    examples=PAYLOAD_EXAMPLES,
)
"""Its members are those of the built-in actions; each action refuses what it does not know."""
_MEANT_TIERS = {**dict.fromkeys(("medium", "default", "standard"), "normal"), "urgent": "high", "lowest": "background"}
PRIORITY = Argument("priority", Choice(tuple(Tier), _MEANT_TIERS), "Default normal", "priority='high'")
DEADLINE = Argument("deadline", TIME, "As in schedule_task; 'none' removes it", "deadline='2 hours'")
DEADLINE_TYPE = Argument(
    "deadline_type",
    Choice(tuple(DEADLINE_KINDS)),
    "hard: worthless after it, so dropped; soft: done late, at a penalty. Default soft",
    "deadline_type='soft'",
)
ESTIMATE = Argument(
    "estimate", Length(), "How long it takes: '90 s', '5 min'; default: learned from earlier runs", "estimate='5 min'"
)
NEEDS = Argument("needs", Amounts(), "Replaces the needs", "needs={'key:customer-42': 1}")
MAX_RUNS = Argument("max_runs", Whole(1, 1_000_000), "", "max_runs=10")
RETRY = Argument(
    "retry",
    RetryTerms(),
    "How failures are tried again",
    "retry={'max_attempts': 3}",
)
DELIVER_TO = Argument(
    "deliver_to", Texts(20), "Configured channels, besides the inbox; origin: this conversation", "deliver_to=['inbox']"
)
NOTIFY = Argument("notify", Choice(tuple(Notify)), "Which outcomes tell the user. Default always", "notify='failure'")
REPEAT_POLICY = Argument(
    "repeat_policy",
    Object(listed=False),
    "{overlap: skip (default), buffer_one, buffer_all, cancel_other or allow_all, of what falls due while it runs; "
    "catchup_window: '1 hour' and coalesce: latest, earliest or all, of what was missed; jitter: '2 min', or '0 s'; "
    "pause_after: failures in a row; except: ['2026-12-24']}",
    "repeat_policy={'pause_after': 3}",
)


@dataclass(frozen=True, slots=True)
class _Expected(Argument):
    """The contract of a result: a word in its place names a field of that; a reminder has none."""

    def problem_in(self, call: Mapping[str, Json], problem: str, action_of: ActionOfTask) -> InvalidArgument:
        """Return what is wrong with the value of a call, with an example that its action can meet."""
        given, action = call[self.name], call.get("action") or action_of()
        field = given if isinstance(given, str) and given.isidentifier() and is_short(given) else "order_id"
        has_result = isinstance(action, str) and action != REMINDER_ACTION
        meant = {"field": field} if has_result else {"url": "https://example.com/health"}
        return InvalidArgument(self.name, problem, accepted=self.kind.accepted, example=as_call({self.name: meant}))


EXPECT = _Expected(
    "expect",
    Object(listed=False),
    "Result must have: {field: name}, {schema: {...}} or {url} that answers; else it is unverified",
    "expect={'field': 'order_id'}",
)
ON_FAILURE = Argument(
    "on_failure",
    Object(listed=False),
    "{notify: a channel, run: {action, payload}, tier: 'high'}",
    RUN_ON_FAILURE,
)
LABELS = Argument("labels", LabelTexts(100), "Up to 10", "labels=['workflow=onboarding']")


@dataclass(frozen=True, slots=True)
class Sender:
    """The scheduler that a call goes to, who sent the call from where, and its arguments as they were sent."""

    scheduler: Scheduler
    by: Principal
    raw: Mapping[str, Json]
    origin: CallOrigin = UNKNOWN_ORIGIN


def _nothing_else(values: Mapping[str, Json], sender: Sender) -> Sequence[InvalidArgument]:  # noqa: ARG001 - the signature of all
    return ()


@dataclass(frozen=True, slots=True)
class Definition(Generic[CallT]):
    """One tool: `call` makes a typed call of the arguments that were read, `answer` does what it asks.

    `before_answer` is awaited between the two, while no thread is held. `also_wrong` finds further problems of a call
    that is refused anyway: a caller that corrects everything at once needs one more call, not two. `rehearse` raises
    what is wrong with a call that is not made, so that the examples of a refusal are accepted together.
    `describes_output`: the schema of its answers is listed. The answers of the others are as those of `get_task`, and
    five copies of one schema would only cost room. `card` is the address of the card that shows an answer, None where
    nothing does. Callers without `scope` are refused. `elsewhere` is as in `Arguments`.
    """

    name: str
    title: str
    about: str
    arguments: tuple[Argument, ...]
    call: Callable[..., CallT]
    answer: Callable[[CallT, Sender], CallToolResult]
    hints: ToolAnnotations
    card: str | None = TASK_CARD
    output: Output = "task"
    for_models: bool = True
    describes_output: bool = False
    also_wrong: Callable[[Mapping[str, Json], Sender], Sequence[InvalidArgument]] = _nothing_else
    rehearse: Callable[[CallT, Sender], None] | None = None
    before_answer: Callable[[CallT, Sender], Awaitable[None]] | None = None
    scope: Scope = Scope.TASKS
    elsewhere: Mapping[str, Elsewhere] = field(default_factory=dict)

    def read(self) -> Arguments:
        return Arguments(self.name, self.arguments, self.elsewhere)


AnyDefinition = Definition[Any]


def hints(*, read_only: bool = False, destructive: bool = False, idempotent: bool, outside: bool) -> ToolAnnotations:
    """Say what a host may assume of a tool; none is left to the defaults of the protocol."""
    return ToolAnnotations(
        read_only_hint=read_only, destructive_hint=destructive, idempotent_hint=idempotent, open_world_hint=outside
    )
