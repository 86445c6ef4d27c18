"""The tasks that a new one comes after: they exist, and it can still run after them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from duetime.scheduler.chain.dependency import MAX_UPSTREAMS, MAX_UPSTREAMS_FOLLOWED, Dependency, Upstream, Upstreams
from duetime.scheduler.chain.judgement import state_after_upstream
from duetime.scheduler.chain.valid_output import check_schema
from duetime.scheduler.errors import InvalidArgument, InvalidArguments
from duetime.scheduler.request import REMINDER_ACTION, AfterFailure, Request
from duetime.scheduler.task import State

UpstreamLookup = Callable[[str, Sequence[str]], Upstreams]
"""Finds tasks of a tenant by their ids, and the steps of chains by those of these."""

_ACCEPTED = f"a list of at most {MAX_UPSTREAMS} ids of tasks and chains"
_EXAMPLE = "after=['t_7k3m9qx2w4hb']"
_BY_OTHERS: Final = (State.CANCELLED, State.SKIPPED)
"""Ends that somebody else brought about."""

_ONLY_ON_FAILURE: Final = frozenset(
    f"{first}{last}"
    for first in ("on_", "if_", "only_", "only_on_", "only_if_", "when_", "run_on_", "run_if_", "one_", "all_")
    for last in ("failure", "failed", "error", "fails")
)
"""Words of other schedulers for a task that runs only after a failure; here the task that fails makes it."""

AFTER_A_FAILURE: Final = "what runs only after a failure is on_failure={'run': ...} of the task that fails"

_OF_STEPS: Final = ("payload", "needs", "estimate")
"""Arguments of a task that each step of a chain has of its own, as it has its action."""

NOT_AFTER_OTHERS: Final = "a task that repeats cannot come after others"
FOR_A_SERIES: Final = "a chain with repeat: its after holds back its first generation, after of a step each one"
"""Where `after` and `repeat` go together."""


def no_upstreams(_tenant: str, _task_ids: Sequence[str]) -> Upstreams:
    return {}


def dependencies_of(request: Request, tenant: str, upstreams: UpstreamLookup) -> tuple[Dependency, ...]:
    """Return what the task comes after. Raises InvalidArgument(s) for what cannot be waited for."""
    problems = list(_problems_of_terms(request))
    found: tuple[Dependency, ...] = ()
    try:
        found = _links_of(request, tenant, upstreams)
    except InvalidArgument as problem:
        problems.append(problem)
    if problems:
        raise problems[0] if len(problems) == 1 else InvalidArguments(problems)
    return found


def _problems_of_terms(request: Request) -> Iterator[InvalidArgument]:
    """Yield what is wrong with what follows from the end of the other tasks."""
    checks: list[Callable[[], object]] = [lambda: _policy(request.after_failure)] if request.after else []
    if request.valid_output is not None:
        checks.append(lambda: check_schema(request.valid_output))
    for check in checks:
        try:
            check()
        except InvalidArgument as problem:
            yield problem


def _links_of(request: Request, tenant: str, upstreams: UpstreamLookup) -> tuple[Dependency, ...]:
    if not request.after:
        _refuse_alone(request)
        return ()
    wanted = list(dict.fromkeys(request.after))
    if request.repeat is not None:
        raise _as_a_chain(request, wanted)
    if len(wanted) > MAX_UPSTREAMS:
        raise InvalidArgument("after", f"{len(wanted)} tasks are too many", accepted=_ACCEPTED, example=_EXAMPLE)
    found = upstreams(tenant, wanted)
    _refuse_unknown(request, wanted, found)
    try:
        policy = _policy(request.after_failure)
    except InvalidArgument:  # a problem by itself
        policy = AfterFailure.RUN_ANYWAY
    links = [link for name in wanted for link in _links(name, found, policy, request.valid_output)]
    if len(links) > MAX_UPSTREAMS_FOLLOWED:
        problem = f"with the steps of its chains these are {len(links)} tasks, which are too many"
        raise InvalidArgument("after", problem, accepted=f"at most {MAX_UPSTREAMS_FOLLOWED}", example=_EXAMPLE)
    for link in links:
        _check_open(found[link.upstream_id], policy)
    return tuple({link.upstream_id: link for link in reversed(links)}.values())[::-1]


def _policy(given: str | None) -> AfterFailure:
    """Read what a failure of an upstream means; the steps of a chain have it as any text."""
    word = (given or AfterFailure.FAIL).strip().lower().replace("-", "_")
    if word not in tuple(AfterFailure):
        problem, example = f"{word[:40]!r} is not one of them", f"after_failure={AfterFailure.RUN_ANYWAY.value!r}"
        if is_only_on_failure(word):
            problem, example = f"{problem}; {AFTER_A_FAILURE}", "after_failure=null"
        raise InvalidArgument("after_failure", problem, accepted=", ".join(AfterFailure), example=example)
    return AfterFailure(word)


def is_only_on_failure(given: object) -> bool:
    """Whether a word for `after_failure` means a task that runs only after a failure."""
    return isinstance(given, str) and given.strip().lower().replace("-", "_").replace(" ", "_") in _ONLY_ON_FAILURE


def _as_a_chain(request: Request, upstream_ids: Sequence[str]) -> InvalidArgument:
    """Return how a series begins after others: as a chain, of which one step is enough."""
    own = {name: getattr(request, name) for name in _OF_STEPS if getattr(request, name)}
    step = {"name": "run", "action": request.action, **own}
    moved = [*own, *(["action"] if request.action != REMINDER_ACTION else [])]
    given = "".join(f", {name}=null" for name in moved)
    example = f"steps={[step]}, after={list(upstream_ids)}, repeat={request.repeat!r}{given}"
    return InvalidArgument("after", NOT_AFTER_OTHERS, accepted=FOR_A_SERIES, example=example)


def _links(name: str, found: Upstreams, policy: AfterFailure, schema: Mapping[str, Any] | None) -> Sequence[Dependency]:
    """Return the dependency on a task, or those on all steps of a chain; the schema is for results of its last ones."""
    if name in found:
        return [Dependency(name, policy, schema)]
    steps = [each for each in found.values() if each.chain_id == name]
    return [Dependency(each.task_id, policy, schema if each.is_last else None) for each in steps]


def _refuse_unknown(request: Request, wanted: Sequence[str], found: Upstreams) -> None:
    """Refuse the first id that nothing has; the example keeps the others, or is only tried, as it could run now."""
    known = {*found, *(each.chain_id for each in found.values())}
    unknown = next((name for name in wanted if name not in known), None)
    if unknown is not None:
        kept = [name for name in wanted if name in known]
        problem, accepted = f"there is no task {unknown[:40]!r}", "ids of tasks and chains, as answers name them"
        raise InvalidArgument("after", problem, accepted=accepted, example=f"after={kept or _tried(request)}")


def _tried(request: Request) -> str:
    timed = request.when is not None or request.repeat is not None or request.action != REMINDER_ACTION
    return f"null, dry_run=true{'' if timed else ', when=' + repr('in 2 hours')}"


def _refuse_alone(request: Request) -> None:
    if request.after_failure not in (None, AfterFailure.FAIL):  # models that send each argument send the default
        raise InvalidArgument(
            "after_failure", "it is for the tasks in after", accepted="after as well", example="after_failure=null"
        )
    if request.valid_output is not None:
        raise InvalidArgument(
            "valid_output",
            "it is for the results of other tasks",
            accepted="after as well",
            example="valid_output=null",
        )


def _check_open(upstream: Upstream, policy: AfterFailure) -> None:
    ended = None if upstream.is_open else state_after_upstream(upstream.state, policy)
    if ended is not None:
        verb = "was" if upstream.state in _BY_OTHERS else "has"
        raise InvalidArgument(
            "after",
            f"{upstream.task_id} ({upstream.title}) {verb} {upstream.state} already, so this would never run",
            accepted="a task that is open or has succeeded, or after_failure='run_anyway'",
            example="after_failure='run_anyway'",
        )
