"""Builds the request of each step of a chain from its own arguments and, for the rest, those of the chain."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, Final, TypeVar, cast

from duetime.scheduler.chain.dependency import Upstream
from duetime.scheduler.chain.steps import StepRequest
from duetime.scheduler.errors import InvalidArgument, InvalidArguments
from duetime.scheduler.intake.deadlines import deadline_of
from duetime.scheduler.intake.instants import resolve_end, resolve_moment
from duetime.scheduler.intake.time_reader import TimeReader
from duetime.scheduler.intake.validation import ProblemCollector
from duetime.scheduler.request import REMINDER_ACTION, Request
from duetime.scheduler.rules.redact import redacted_json
from duetime.scheduler.rules.retry import as_policy
from duetime.scheduler.task import Json

Read = TypeVar("Read")

_MAX_TITLE_CHARS: Final = 150
"""Longest part of the chain's title in the title of a step."""

_OF_STEPS: Final = ("payload", "estimate", "needs")
"""Arguments that a step never takes from its chain."""

_MAX_MOVED_BYTES: Final = 400

_OF_ALL_STEPS: Final = (
    "when",
    "timezone",
    "retry",
    "priority",
    "deliver_to",
    "notify",
    "on_failure",
    "after_failure",
)
"""Arguments of the chain that a step has which says nothing else."""

_OF_FIRST_STEPS: Final = {
    "approval": "asked",
    "wait_for": "waited for",
}
"""Arguments of the chain that its first steps have; each with what would not be done where all have their own."""


_OF_CHAIN: Final = frozenset((*_OF_ALL_STEPS, *_OF_FIRST_STEPS, "title", "labels", "deadline", "expect")) - {"when"}
"""Arguments of which a step has that of the chain where it has none of its own."""


def of_whole_chain(problems: Sequence[InvalidArgument], request: Request) -> list[InvalidArgument]:
    """Return problems of steps; the example of a recurrence in one of them has it in the chain, which has none."""
    return [_moved_to_chain(each, request) if each.argument.endswith(".repeat") else each for each in problems]


def _moved_to_chain(problem: InvalidArgument, request: Request) -> InvalidArgument:
    steps: list[Json] = [dict(step) for step in cast("Sequence[Any]", request.steps or ()) if isinstance(step, Mapping)]
    rules = {str(step.pop("repeat")) for step in steps if isinstance(step, dict) and step.get("repeat")}
    example = f"repeat={min(rules)!r}, steps={steps!r}" if len(rules) == 1 and request.repeat is None else ""
    if not example or len(example.encode("utf-8", "replace")) > _MAX_MOVED_BYTES or redacted_json(steps) != steps:
        return problem
    return InvalidArgument(problem.argument, problem.problem, accepted=problem.accepted, example=example)


def refuse_arguments_of_steps(request: Request) -> None:
    """Refuse arguments that each step has of its own; the example has them in the steps that lack them."""
    given = _of_steps(request)
    first, *others = [*given, ""]
    problems = ProblemCollector()
    for name in given:
        problems.of(_refuse, name, _moved(request, others[:-1]) if name == first else "")
    if problems:
        raise problems.error()


def _of_steps(request: Request) -> list[str]:
    given = [name for name in _OF_STEPS if getattr(request, name)]
    return [*given, *(["action"] if request.action != REMINDER_ACTION else [])]


def _refuse(name: str, moved: str) -> None:
    example = f"{moved}{name}=null"
    raise InvalidArgument(name, "each step has its own", accepted=f"{name} in each of the steps", example=example)


def with_arguments_of_steps(request: Request) -> Request:
    """Return a request with the arguments of steps in those that lack them, so that these are looked at as meant."""
    given, steps = _of_steps(request), cast("Any", request.steps)
    if not given or isinstance(steps, str | Mapping) or not isinstance(steps, Sequence):
        return request
    return replace(request, steps=[_filled(step, request, given) for step in steps])


def _filled(step: Any, request: Request, given: Sequence[str]) -> Any:
    """Return a step with these arguments; the payload of another action is none of its own."""
    if not isinstance(step, Mapping):
        return step
    lacking = [name for name in given if not step.get(name) and not (name == "payload" and step.get("action"))]
    return {**step, **{name: getattr(request, name) for name in lacking}}


def _moved(request: Request, others: Sequence[str]) -> str:
    """Return the steps with what is moved into them; nothing where that is long, or has something secret in it."""
    steps: Any = with_arguments_of_steps(request).steps
    shown = f"steps={steps!r}, {''.join(f'{name}=null, ' for name in others)}"
    is_long = len(shown.encode("utf-8", "replace")) > _MAX_MOVED_BYTES
    return "" if is_long or redacted_json(steps) != steps else shown


def refuse_unheeded(request: Request, steps: Sequence[StepRequest]) -> None:
    """Refuse a question or an event of the chain where each step that could have it has its own."""
    names = {step.name for step in steps}
    first = [step for step in steps if names.isdisjoint(step.after)]
    for name, done in _OF_FIRST_STEPS.items():
        if getattr(request, name) and all(name in step.arguments for step in first):
            problem = f"it would never be {done}: each first step of the chain has its own"
            accepted = "that of the chain, or of its first steps"
            raise InvalidArgument(name, problem, accepted=accepted, example=f"{name}=null")


def instant_of(times: TimeReader, request: Request, now: datetime) -> datetime:
    """Return when a chain that does not repeat is to begin. Raises InvalidArgument."""
    if request.when is None:
        return now
    zone, frame = times.zone_of(request), times.frame(request.timezone)
    return resolve_moment(request.when, argument="when", now=now, zone=zone, frame=frame).instant


def at_instants(times: TimeReader, request: Request, now: datetime) -> Request:
    """Return a request whose times are instants: a step in another zone has them as the chain's zone has them."""
    zone, frame = times.zone_of(request), times.frame(request.timezone)
    at = partial(resolve_end, now=now, zone=zone, frame=frame)
    when = None if request.when is None else instant_of(times, request, now)
    deadline, approval = request.deadline, request.approval
    if deadline is not None:
        read = partial(deadline_of, deadline, now=now, zone=zone, recurring=request.repeat is not None, frame=frame)
        deadline = read(due=when or now).at or deadline
    if isinstance(approval, Mapping) and approval.get("by") and request.repeat is None:
        approval = {**approval, "by": at(approval["by"], argument="approval.by").instant}
    return replace(request, when=when, deadline=deadline, approval=approval)


def request_of(request: Request, step: StepRequest, known: Mapping[str, Upstream], *, is_last: bool) -> Request:
    """Return what is asked of one step: its own arguments, and for the rest those of the chain.

    The chain comes after what its first steps come after, and waits for what they wait for. Its deadline, and what its
    result has to meet, are those of its last steps.
    """
    own: dict[str, Any] = {**{name: getattr(request, name) for name in _OF_ALL_STEPS}, **step.arguments}
    after = [known[name].task_id if name in known else name for name in step.after]
    is_first = not any(name in known for name in step.after)
    deadline = request.deadline if is_last else None
    if not (after or request.after) and "after_failure" not in step.arguments:
        own["after_failure"] = None  # that of the chain is for the steps that come after others
    kind = request.deadline_type if is_last or "deadline" in own else None
    if not is_first and "when" not in step.arguments and _starts_by_event(request):
        own["when"] = None  # the event may start the chain before its time
    return Request(
        own.pop("title", None) or with_title(request.title, step.name),
        deadline=own.pop("deadline", deadline),
        deadline_type=own.pop("deadline_type", kind),
        retry=as_policy(own.pop("retry")),
        labels=[*request.labels, *own.pop("labels", ())],
        origin=request.origin,
        expect=own.pop("expect", request.expect if is_last else None),
        after=[*after, *(request.after if is_first else ())],
        approval=own.pop("approval", request.approval if is_first else None),
        wait_for=own.pop("wait_for", request.wait_for if is_first else None),
        valid_output=own.pop("valid_output", request.valid_output if is_first and request.after else None),
        **own,
    )


def named_by(step: StepRequest, read: Callable[[], Read], request: Request) -> Read:
    """Read a step of a chain; what is wrong with it names the step, unless it is what the chain gives all its steps."""
    try:
        return read()
    except InvalidArgument as problem:
        raise _placed(problem, step, request) from None
    except InvalidArguments as several:
        raise InvalidArguments([_placed(problem, step, request) for problem in several.problems]) from None


def _placed(problem: InvalidArgument, step: StepRequest, request: Request) -> InvalidArgument:
    part = problem.argument.partition(".")[0]
    if part in _OF_CHAIN and part not in step.arguments and getattr(request, part):
        return problem
    place, example = step.place(problem.argument), problem.example
    return InvalidArgument(place, problem.problem, accepted=problem.accepted, example=example)


def with_title(chain_title: str, name: str) -> str:
    """Return the title of a step that has none of its own."""
    return f"{chain_title.strip()[:_MAX_TITLE_CHARS]}: {name}"


def _starts_by_event(request: Request) -> bool:
    return isinstance(request.wait_for, Mapping) and bool(request.wait_for.get("or_when"))
