"""The arguments that order and admit runs: a task's tier, deadline, estimate and needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, time, timedelta
from functools import partial
from operator import attrgetter
from typing import Any, Protocol

from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.deadlines import (
    NO_DEADLINE,
    Deadline,
    deadline_of,
    estimate_of,
    instant_of_many,
    kind_of,
    tier_of,
)
from duetime.scheduler.intake.needs import PoolsByName, check, check_declared, merge_needs
from duetime.scheduler.intake.validation import ProblemCollector
from duetime.scheduler.request import Moment
from duetime.scheduler.rules.estimates import UNKNOWN_ESTIMATE, EstimateLookup, declared_estimate
from duetime.scheduler.rules.time import zones
from duetime.scheduler.rules.time.times import describe, describe_apart, length, rough_length
from duetime.scheduler.rules.time.viewpoint import NEW_TASK, Frame
from duetime.scheduler.task import DeadlineType, Json, Penalty, Run, Task, Tier
from duetime.scheduler.translatable import NoteKind, Translatable

MINUTE = timedelta(minutes=1)
_URGENCY = attrgetter("priority", "deadline", "deadline_type", "estimate")
_NOTHING_ASKED = (None,) * 4


class UrgencyArguments(Protocol):
    """Arguments common to the requests schedule and reschedule; None means absent."""

    @property
    def priority(self) -> str | None: ...
    @property
    def deadline(self) -> Moment | None: ...
    @property
    def deadline_type(self) -> str | None: ...
    @property
    def estimate(self) -> str | float | timedelta | None: ...
    @property
    def needs(self) -> Mapping[str, Json] | None: ...


@dataclass(frozen=True, slots=True)
class RunContext:
    """The task of the arguments, and the time when its run is due."""

    tenant: str
    action: str
    due: datetime
    now: datetime
    zone: str | None
    recurring: bool
    frame: Frame = NEW_TASK
    times_of_day: Sequence[time] = ()
    """The wall times at which the task recurs; from one alone, another one is the same length each day."""


@dataclass(frozen=True, slots=True)
class Demand:
    """Tier, deadline, estimate and needs of a task; `p50` is the median duration of a run."""

    priority: Tier = Tier.NORMAL
    deadline: Deadline | None = None
    kind: DeadlineType = DeadlineType.SOFT
    penalty: Penalty = Penalty.NONE
    estimate: timedelta | None = None
    needs: Mapping[str, int] = field(default_factory=dict)
    p50: timedelta = UNKNOWN_ESTIMATE
    warnings: tuple[str, ...] = ()

    @classmethod
    def of(cls, task: Task, run: Run) -> Demand:
        """Return the current demand of a task; `run` has the deadline if that is an instant."""
        deadline = Deadline(task.deadline or "", at=run.deadline, after=task.deadline_after)
        known = deadline if deadline.at or deadline.after else None
        return cls(task.priority, known, task.deadline_type, task.penalty, task.estimate, task.needs)

    @property
    def instant(self) -> datetime | None:
        """The deadline of one run if it is an instant, else None."""
        return self.deadline.at if self.deadline and self.deadline.after is None else None

    def parts(self) -> dict[str, Any]:
        """Return the task fields that store the demand."""
        return {
            "priority": self.priority,
            "deadline": self.deadline.given if self.deadline else None,
            "deadline_after": self.deadline.after if self.deadline else None,
            "deadline_type": self.kind,
            "penalty": self.penalty,
            "estimate": self.estimate,
            "needs": self.needs,
        }


@dataclass(frozen=True, slots=True)
class Demands:
    """Parses the demand of a request, and refuses an impossible one: an unknown pool, an amount, a hard deadline."""

    handlers: Handlers
    pools: Callable[[], PoolsByName] = dict
    estimates: EstimateLookup = declared_estimate

    def read(self, arguments: UrgencyArguments, at: RunContext, was: Demand | None = None) -> Demand:
        """Return the requested demand on top of `was`. Raises InvalidArgument(s) with every problem found."""
        problems, found = ProblemCollector(), was or Demand()
        needs = self._with_needs_of_new if was is None else self._with_needs
        usual = was is None and _URGENCY(arguments) == _NOTHING_ASKED  # nearly every new task
        for step in (needs,) if usual else (_with_priority, _with_deadline, _with_kind, _with_estimate, needs):
            found = problems.of(step, found, arguments, at) or found
        if problems:
            raise problems.error()
        return self._judged(found, at)

    def _with_needs_of_new(self, found: Demand, arguments: UrgencyArguments, at: RunContext) -> Demand:
        needs = self._merged(arguments, at)
        if needs:
            self._check(needs, found.priority, at)
        return replace(found, needs=needs) if needs else found

    def _with_needs(self, found: Demand, arguments: UrgencyArguments, at: RunContext) -> Demand:
        """Merge needs and check them against the current pools; unchanged needs of an existing task are not checked."""
        needs = self._merged(arguments, at) if arguments.needs is not None else found.needs
        if needs and (arguments.needs is not None or arguments.priority is not None):
            self._check(needs, found.priority, at)
        return replace(found, needs=needs)

    def _merged(self, arguments: UrgencyArguments, at: RunContext) -> Mapping[str, int]:
        return merge_needs(self._declared(at.action), arguments.needs, tenant=at.tenant)

    def _declared(self, action: str) -> Mapping[str, int]:
        handler = self.handlers.get(action)
        return handler.needs if handler else {}

    def _check(self, needs: Mapping[str, int], tier: Tier, at: RunContext) -> None:
        pools, declared = self.pools(), self._declared(at.action)
        check_declared(declared, needs, pools, at.action)
        check(needs, tier, pools)

    def _judged(self, found: Demand, at: RunContext) -> Demand:
        """Check whether a run that starts when it is due can meet the deadline."""
        handler = self.handlers.get(at.action)
        declared = handler.estimate if handler else None
        # nothing is learned of an action that does not exist
        learned = self.estimates if handler else declared_estimate
        p50 = found.estimate or learned(at.tenant, at.action, declared).p50
        warnings = _against_deadline(replace(found, p50=p50), at) if found.deadline else ()
        if handler and found.estimate and found.estimate > handler.time_limit:
            limit = length(handler.time_limit)
            text = f"estimate: {at.action} is stopped after {limit}, before it can take so long"
            warnings = (*warnings, Translatable.of(NoteKind.ESTIMATE_TOO_LONG, text, limit=limit))
        warnings = (*(read_deadline_note(found.deadline) if found.deadline else ()), *warnings)
        return replace(found, p50=p50, warnings=warnings) if warnings or p50 != found.p50 else found


def read_deadline_note(deadline: Deadline) -> tuple[str, ...]:
    """Say how the words of a deadline were read."""
    return tuple(Translatable.of(NoteKind.DEADLINE_ASSUMED, f"deadline: {each}") for each in deadline.assumptions)


def _with_priority(found: Demand, arguments: UrgencyArguments, _at: RunContext) -> Demand:
    return found if arguments.priority is None else replace(found, priority=tier_of(arguments.priority))


def _with_deadline(found: Demand, arguments: UrgencyArguments, at: RunContext) -> Demand:
    given = arguments.deadline
    if given is None:
        if found.instant is not None and at.recurring:
            raise instant_of_many(found.instant, at.due, at.zone, at.times_of_day)
        return found
    if isinstance(given, str) and given.strip().lower() in NO_DEADLINE:
        return replace(found, deadline=None)
    read = partial(deadline_of, due=at.due, now=at.now, zone=at.zone, recurring=at.recurring, frame=at.frame)
    deadline = read(given, times_of_day=at.times_of_day)
    return replace(found, deadline=deadline)


def _with_kind(found: Demand, arguments: UrgencyArguments, _at: RunContext) -> Demand:
    if arguments.deadline_type is None:
        usual = found.kind is DeadlineType.SOFT and found.penalty is Penalty.NONE
        return found if found.deadline or usual else replace(found, kind=DeadlineType.SOFT, penalty=Penalty.NONE)
    kind, penalty = kind_of(arguments.deadline_type)
    if found.deadline is None and (kind, penalty) == (DeadlineType.SOFT, Penalty.NONE):
        return found  # the default, said aloud
    if found.deadline is None and arguments.deadline is None:
        raise InvalidArgument(
            "deadline_type",
            "it needs a deadline to apply to",
            accepted="give deadline in the same call",
            example=f"deadline='2 hours', deadline_type={arguments.deadline_type!r}",
        )
    return replace(found, kind=kind, penalty=penalty)


def _with_estimate(found: Demand, arguments: UrgencyArguments, _at: RunContext) -> Demand:
    if arguments.estimate is None:
        return found
    if isinstance(arguments.estimate, str) and arguments.estimate.strip().lower() in NO_DEADLINE:
        return replace(found, estimate=None)
    return replace(found, estimate=estimate_of(arguments.estimate))


def _against_deadline(found: Demand, at: RunContext) -> tuple[str, ...]:
    """Refuse a deadline before the due time, and a hard one that cannot be met; warn about such a soft one."""
    assert found.deadline is not None
    deadline, zone = found.deadline.of(at.due), zones.find(at.zone or "UTC").key
    if deadline < at.due:
        problem = f"{describe_apart(deadline, zone)} is before the run is due, {describe_apart(at.due, zone)} {zone}"
        raise _too_early(problem, found, at, zone)
    if deadline - found.p50 > at.due:
        return ()
    if found.kind is DeadlineType.HARD:
        left = f"it leaves {rough_length(deadline - at.due)} after the run is due ({describe(at.due, zone)} {zone})"
        raise _too_early(f"{left}, and the run takes about {rough_length(found.p50)}", found, at, zone)
    takes = f"it is due {describe(at.due, zone)} and takes about {rough_length(found.p50)}"
    text = f"the deadline {describe(deadline, zone)} cannot be met: {takes}"
    parts = {"deadline": deadline.isoformat(), "takes": rough_length(found.p50)}
    return (Translatable.of(NoteKind.DEADLINE_TOO_EARLY, text, **parts),)


def _too_early(problem: str, found: Demand, at: RunContext, zone: str) -> InvalidArgument:
    needed = MINUTE * (found.p50 // MINUTE + 1)
    instant = at.due.astimezone(UTC) + needed
    whole = instant if not instant.second and not instant.microsecond else instant + MINUTE
    wall = whole.astimezone(zones.load(zone))
    instant_text = wall.isoformat(timespec="minutes") if wall.fold else f"{wall:%Y-%m-%dT%H:%M}"
    given = instant_text if found.instant else length(needed)
    return InvalidArgument(
        "deadline",
        problem,
        accepted=f"a time that leaves more than {rough_length(found.p50)} from when the run is due",
        example=f"deadline={given!r}",
    )
