"""The outcome contract of a task: what its result has to meet, and what follows where a run fails or does not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypedDict

from duetime.scheduler.calls.origin import NO_ORIGIN, read_origin
from duetime.scheduler.calls.reschedule import Reschedule
from duetime.scheduler.delivery import Channels
from duetime.scheduler.errors import InvalidArgument, InvalidArguments, listed
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.handlers.contract.expectation import (
    EXPECT_EXAMPLE,
    EXPECT_MEMBERS,
    EXPECTED_URL_EXAMPLE,
    URL,
    check_expect,
)
from duetime.scheduler.intake.corrected_example import MAX_WHOLE_BYTES
from duetime.scheduler.intake.deadlines import tier_of
from duetime.scheduler.intake.validation import ProblemCollector
from duetime.scheduler.remedies import MIN_MEMBER_SIMILARITY_RATIO, nearest_name
from duetime.scheduler.request import REMINDER_ACTION, Request
from duetime.scheduler.rules.failures.follow_up import (
    ON_FAILURE_MEMBERS,
    ON_FAILURE_NOTIFY,
    ON_FAILURE_RUN,
    ON_FAILURE_TIER,
)
from duetime.scheduler.rules.redact import redacted_json
from duetime.scheduler.rules.sanitize import check_json, kind_of
from duetime.scheduler.task import Json, RetryPolicy, Task


class ContractParts(TypedDict):
    """The fields of a task that its contract makes."""

    expect: Mapping[str, Json]
    on_failure: Mapping[str, Json]
    origin: Mapping[str, str]


MAX_CONTRACT_BYTES: Final = 16 * 1024
_RUN_EXAMPLE: Final = "on_failure={'run': {'action': 'reminder', 'payload': {'message': 'The import failed'}}}"
_RUN_PARTS: Final = ("action", "payload", "title", "needs")
_MAX_NAMES_BYTES: Final = 200
_USUAL: Final = RetryPolicy()

TaskOf = Callable[[Request], Task]
"""Plans a request of the caller's, and returns its task; raises InvalidArgument(s)."""


def check_expected(request: Request | Reschedule, handlers: Handlers, action: str) -> None:
    """Refuse an expectation that cannot be checked of the results of an action."""
    if not request.expect:
        return
    _check_object("expect", request.expect, EXPECT_EXAMPLE)
    problems, of_result = ProblemCollector(), action != REMINDER_ACTION
    for name, value in request.expect.items():
        if name in EXPECT_MEMBERS:
            problems.of(check_expect, name, value, handlers.webhooks, of_result=of_result)
    accepted, example = (EXPECT_MEMBERS, EXPECT_EXAMPLE) if of_result else ((URL,), EXPECTED_URL_EXAMPLE)
    others = {name: value for name, value in request.expect.items() if name in accepted or name not in EXPECT_MEMBERS}
    problems.of(_check_members, "expect", others, accepted, f"expect={example}")
    if problems:
        raise problems.error()


@dataclass(frozen=True, slots=True)
class FollowUpReader:
    """Reads what is to follow from a failure: `channels` can be notified, `task_of` plans what is to run."""

    channels: Channels
    task_of: TaskOf
    origin: Mapping[str, str]

    def read(self, terms: Mapping[str, Json] | None) -> Mapping[str, Json]:
        """Return `on_failure` as a task has it; raises InvalidArgument(s) for what cannot follow."""
        terms = terms or {}
        _check_object("on_failure", terms, self._example)
        problems = ProblemCollector()
        problems.of(_check_members, "on_failure", terms, ON_FAILURE_MEMBERS, self._example)
        readers: Mapping[str, Callable[[Any], Json]] = {
            ON_FAILURE_NOTIFY: self._channel,
            ON_FAILURE_RUN: self._run,
            ON_FAILURE_TIER: _tier,
        }
        known = {name: value for name, value in terms.items() if name in readers}
        read = {name: problems.of(readers[name], value) for name, value in known.items()}
        if problems:
            raise problems.error()
        return read

    def _channel(self, name: Json) -> str:
        if not isinstance(name, str):
            raise InvalidArgument("on_failure.notify", "it is not text", accepted="a channel", example=self._example)
        try:
            found = self.channels.check((name,), self.origin)
        except InvalidArgument as error:
            raise self._no_channel(error.problem) from None
        if not found:
            raise self._no_channel("the inbox has every outcome")
        return found[0]

    def _no_channel(self, problem: str) -> InvalidArgument:
        others = ", ".join(self.channels.besides_inbox(self.origin))
        accepted = others or "no channel, since only the inbox is configured, which has every outcome"
        return InvalidArgument("on_failure.notify", problem, accepted=accepted, example=self._example)

    @property
    def _example(self) -> str:
        others = self.channels.besides_inbox(self.origin)
        return f"on_failure={{'notify': {others[0]!r}}}" if others else _RUN_EXAMPLE

    def _run(self, follow_up: Json) -> Mapping[str, Json]:
        """Return the action that is to run, with the payload, the needs and the retry policy of its task."""
        _check_object("on_failure.run", follow_up, _RUN_EXAMPLE)
        assert isinstance(follow_up, Mapping)
        problems = ProblemCollector()
        problems.of(_check_members, "on_failure.run", follow_up, _RUN_PARTS, _RUN_EXAMPLE)
        task = problems.of(
            _made, self.task_of, {name: value for name, value in follow_up.items() if name in _RUN_PARTS}
        )
        if task is None or problems:
            raise problems.error()
        title = {"title": task.title} if "title" in follow_up else {}
        payload = {name: value for name, value in task.payload.items() if value is not None}
        return {"action": task.action, "payload": payload, **title, **_terms(task)}


def _made(task_of: TaskOf, given: Mapping[str, Any]) -> Task:
    if not isinstance(given.get("action"), str):
        raise InvalidArgument("on_failure.run.action", "it is missing", accepted="an action", example=_RUN_EXAMPLE)
    try:
        return task_of(Request(**{"title": "On failure", **given}))
    except InvalidArgument as problem:
        raise _placed(problem) from None
    except InvalidArguments as several:
        raise InvalidArguments([_placed(problem) for problem in several.problems]) from None


def _terms(task: Task) -> dict[str, Json]:
    """Return what the task needs and how it is retried, where its action says so."""
    needs: dict[str, Json] = {"needs": dict(task.needs)} if task.needs else {}
    policy = task.retry
    if policy == _USUAL:
        return needs
    return needs | {
        "retry": {
            "max_attempts": policy.max_attempts,
            "backoff_seconds": policy.backoff.total_seconds(),
            "max_backoff_seconds": policy.max_backoff.total_seconds(),
        }
    }


def _placed(problem: InvalidArgument) -> InvalidArgument:
    place = f"on_failure.run.{problem.argument}"
    return InvalidArgument(place, problem.problem, accepted=problem.accepted, example=problem.example)


def _tier(word: Json) -> str:
    try:
        return tier_of(word if isinstance(word, str) else kind_of(word)).value
    except InvalidArgument as error:
        example = "tier='high'"
        raise InvalidArgument("on_failure.tier", error.problem, accepted=error.accepted, example=example) from None


def _check_members(argument: str, given: Mapping[str, Json], accepted: tuple[str, ...], example: str) -> None:
    """Refuse members that there are not; the example has those that were meant, as they were sent."""
    unknown = {name: _meant_member(name, accepted) for name in given if name not in accepted}
    if unknown:
        names = listed([repr(str(name)[:40]) for name in unknown], " and ", _MAX_NAMES_BYTES)
        guesses = [meant for meant in unknown.values() if meant]
        problem = f"it has no member {names}" + (
            f"; did you mean {listed(guesses, ' and ', _MAX_NAMES_BYTES)}" if guesses else ""
        )
        renamed = {unknown.get(name) or name: value for name, value in given.items() if unknown.get(name) not in given}
        meant = {name: value for name, value in renamed.items() if name in accepted}
        shown = f"{argument.rpartition('.')[2]}={meant!r}" if meant else ""
        fits = shown and len(shown.encode()) <= MAX_WHOLE_BYTES and redacted_json(meant) == meant
        raise InvalidArgument(
            argument, problem, accepted=f"an object of {', '.join(accepted)}", example=shown if fits else example
        )


def _meant_member(name: str, accepted: tuple[str, ...]) -> str | None:
    return nearest_name(str(name).lower(), accepted, min_ratio=MIN_MEMBER_SIMILARITY_RATIO)


def origin_of(request: Request) -> Mapping[str, str]:
    """Return the origin of a task; raises InvalidArgument for one that is none."""
    return read_origin(request.origin) if request.origin is not None else NO_ORIGIN


def _check_object(argument: str, given: object, example: str) -> None:
    if not isinstance(given, Mapping):
        raise InvalidArgument(argument, f"expected an object, got {kind_of(given)}", example=example)
    check_json(argument, given, max_bytes=MAX_CONTRACT_BYTES)
