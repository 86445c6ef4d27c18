"""Decides what a reschedule of a chain does to each of its steps: the same as the call for that step would."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache, partial
from types import MappingProxyType
from typing import Any, Final

from duetime.scheduler import remedies
from duetime.scheduler.calls.bulk_change import BulkDecision, BulkVerb
from duetime.scheduler.calls.reschedule import Reschedule
from duetime.scheduler.chain.chain import ChainRecord, last_steps
from duetime.scheduler.errors import InvalidArgument, InvalidArguments, Refused
from duetime.scheduler.events import EventKind
from duetime.scheduler.intake.changes.bulk import undo_of
from duetime.scheduler.intake.changes.chain_rule import OF_A_NEW_CHAIN, RULE_ARGUMENTS, RUNS_ONCE
from duetime.scheduler.intake.changes.pause import expected_after_pause
from duetime.scheduler.intake.changes.reschedule import decide_reschedule
from duetime.scheduler.intake.deadlines import NO_DEADLINE, deadline_of
from duetime.scheduler.intake.instants import resolve_moment
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.intake.terms.step_request import with_title
from duetime.scheduler.records import Change, LastChange
from duetime.scheduler.request import Moment
from duetime.scheduler.rules import changes
from duetime.scheduler.rules.states import OPEN
from duetime.scheduler.task import Run, State
from duetime.scheduler.translatable import as_assumed
from duetime.scheduler.views import TaskRecord

PAUSE_ARGUMENTS: Final = ("pause", "pause_until")
_OF_ALL: Final = ("priority", "retry", "deliver_to", "notify", "on_failure", "labels", "origin")
_OF_LAST: Final = ("deadline", "deadline_type", "expect")
"""Arguments of a chain that its last steps take, as when it is scheduled."""

_ALONE: Final = (PAUSE_ARGUMENTS, ("skip_next",))
"""Arguments that cannot be combined with others in one call."""

OF_CHAINS: Final = ("title", "when", "timezone", *RULE_ARGUMENTS, *sum(_ALONE, ()), *_OF_ALL, *_OF_LAST, "remove")
"""Arguments of a reschedule that a whole chain has; the others are those of a step, or of its rule."""

_REMOVED: Final = (*_OF_ALL, *_OF_LAST, "max_runs", "repeat_policy")
_OF_SERIES: Final = ("all_following",)


def chain_arguments(found: ChainRecord, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call that are not empty. Raises InvalidArgument for one that only steps have."""
    given = {name: value for name, value in arguments.items() if value is not None and value not in (False, (), [])}
    given |= {"pause": False} if arguments.get("pause") is False else {}
    wrong = next((name for name in (*given, *given.get("remove", ())) if name not in OF_CHAINS), None)
    wrong = wrong or next((name for name in given.get("remove", ()) if name not in _REMOVED), None)
    if wrong:
        raise _of_another(found, wrong)
    _check_rule(found, given)
    if not given:
        accepted, example = ", ".join(OF_CHAINS), f"title={found.chain.title!r}"  # which changes nothing
        raise InvalidArgument("changes", "nothing to change was given", accepted=accepted, example=example)
    if "timezone" in given and given.keys().isdisjoint(("when", "deadline", *PAUSE_ARGUMENTS)):
        raise _zone_alone(found)
    for names in _ALONE:
        if given.keys() & set(names) and given.keys() - set(names):
            problem, accepted = "a chain is paused, skipped or changed", f"`{names[0]}` in a call of its own"
            raise InvalidArgument(names[0], problem, accepted=accepted, example=_alone(given, names))
    return given


def _alone(given: Mapping[str, Any], names: Sequence[str]) -> str:
    """Return the arguments of these names as the call has them."""
    words = {
        name: str(given[name]).lower() if given[name] in (True, False) else repr(str(given[name]))
        for name in names
        if name in given
    }
    return ", ".join(f"{name}={word}" for name, word in words.items())


def _zone_alone(found: ChainRecord) -> InvalidArgument:
    """Return the refusal of a zone without a time to read in it."""
    if found.chain.repeat is None:
        return InvalidArgument("when", "it is missing", accepted="the new time", example="when='tomorrow 9am'")
    problem = "a chain that recurs keeps the zone of its rule"
    return InvalidArgument("timezone", problem, accepted="`when` with it, for the time of one generation")


def _of_another(found: ChainRecord, name: str) -> InvalidArgument:
    """Return the refusal of an argument that only steps have; it shows how to change the steps."""
    if name in _OF_SERIES and found.chain.repeat is None:
        accepted = "`when`, which moves it"
        return InvalidArgument(name, "this chain runs once", accepted=accepted, example="when='tomorrow 9am'")
    if name in _OF_SERIES:
        problem = "a chain that recurs runs all generations of its rule"
        accepted = "repeat, until or max_runs of the chain; or `when`, the time of its next generation"
        return InvalidArgument(name, problem, accepted=accepted)  # an example would replace the rule
    step = next((each for each in found.steps if each.record.run.state in OPEN), found.steps[0])
    accepted = f"{name} with the id of a step; of the whole chain {', '.join(OF_CHAINS)}"
    return InvalidArgument(name, "each step has its own", accepted=accepted, example=f"task_id='{step.record.task.id}'")


def _check_rule(found: ChainRecord, given: Mapping[str, Any]) -> None:
    """Refuse a rule for a chain that runs once: its steps may have waits and times that no generation could repeat."""
    if "skip_next" in given and found.chain.repeat is None:
        accepted = "`when`, which moves it; or a cancel"
        raise InvalidArgument("skip_next", "this chain runs once", accepted=accepted, example="when='tomorrow 9am'")
    asked = [name for name in RULE_ARGUMENTS if name in given or name in given.get("remove", ())]
    if asked and found.chain.repeat is None:
        raise InvalidArgument(asked[0], RUNS_ONCE, accepted=OF_A_NEW_CHAIN)
    if "repeat" in given and "when" in given:
        accepted = "the new rule, and the time of one generation in a call of its own"
        raise InvalidArgument("when", "a new rule has its times", accepted=accepted, example="repeat='daily at 9:00'")


@dataclass(frozen=True, slots=True)
class ChainMove:
    """The move of a chain that is `due` then to `start`: each step keeps its distance from the first one.

    A step that has begun continues with its next attempt at the new time. Where an event may start the chain `early`,
    steps that have no time of their own get none.
    """

    start: datetime
    due: datetime
    early: bool = False
    read_as: tuple[str, ...] = ()

    @classmethod
    def to(
        cls, given: Moment, due: datetime, zone: str, planner: Planner, now: datetime, *, seen: datetime | None = None
    ) -> ChainMove:
        """Read the new time of the first step, which counts from when that is `seen`. Raises InvalidArgument."""
        frame = planner.times.frame(zone, moved_from=seen or due)
        start = resolve_moment(given, now=now, zone=zone, argument="when", frame=frame)
        return cls(start.instant, due, read_as=as_assumed(start.assumptions))

    def of(self, run: Run) -> datetime | None:
        """Return the new time of a step, None where it stays as it is."""
        if changes.has_started(run):
            return self.start
        if self.early and run.scheduled_for < self.due:
            return None
        return max(run.scheduled_for + (self.start - self.due), self.start)


def next_due(
    runs: Collection[Run],
    now: datetime,
    ends: Mapping[str, datetime] = MappingProxyType({}),
    *,
    behind: Collection[Run] = (),
    as_seen: bool = False,
) -> datetime | None:
    """Return when the first of the runs of a chain continues, or begins; of those in progress only without others.

    `ends` are those of the waits of runs that have begun. Before that no change moves such a run, so it does not count.
    Then it is due, while its own time lies behind it, for who ends the wait late. `as_seen` a late attempt keeps its
    time. Runs `behind` these count where none of these does: what waits for a run keeps its own time when that run
    alone is moved.
    """
    held = {run.id for run in runs if changes.has_started(run) and ends.get(run.id, now) > now}
    waiting = [run for run in runs if run.state in OPEN and run.state is not State.RUNNING and run.id not in held]
    times = [
        max(ends.get(run.id) or run.wake_at or now, run.scheduled_for if as_seen else now)
        if changes.has_started(run)
        else run.scheduled_for
        for run in waiting
    ]
    if not times and behind:
        return next_due([*runs, *behind], now, ends, as_seen=as_seen)
    return min(times or [run.scheduled_for for run in runs if run.state in OPEN], default=None)


def chain_decision(
    found: ChainRecord,
    given: Mapping[str, Any],
    move: ChainMove | None,
    planner: Planner,
    now: datetime,
    *,
    due: datetime | None = None,
) -> BulkDecision:
    """Return how the steps of a chain, `due` then, are changed: each by what the chain is to have and its new time."""
    last = {step.record.task.id for step in last_steps(found)}
    shared = {name: given[name] for name in (*_OF_ALL, *_OF_LAST) if name in given}
    if "deadline" in shared:
        shared["deadline"] = _deadline(found, given, move.start if move else due or now, planner, now)
    titles = _titles(found, given["title"]) if "title" in given else {}
    decided = partial(_decided, planner=planner, now=now, recurs=found.chain.repeat is not None)

    def decide(record: TaskRecord, _last: LastChange | None) -> Change:
        left_out = () if record.task.id in last else _OF_LAST
        own = {name: value for name, value in shared.items() if name not in left_out}
        request = Reschedule(
            **own,
            title=titles.get(record.task.id),
            when=move.of(record.run) if move else None,
            remove=tuple(name for name in given.get("remove", ()) if name not in (*left_out, "repeat_policy")),
        )
        return decided(record, request)

    return BulkDecision(
        BulkVerb.MOVE, EventKind.RESCHEDULED, decide, lambda changed: undo_of(BulkVerb.MOVE, changed, now)
    )


def _titles(found: ChainRecord, title: str) -> dict[str, str]:
    """Return the new titles of the steps whose titles were made from that of the chain."""
    return {
        step.record.task.id: with_title(title, step.name)
        for step in found.steps
        if step.record.task.title == with_title(found.chain.title, step.name)
    }


def move_chains(
    moves: Mapping[str, Callable[[], ChainMove]], decision: BulkDecision, planner: Planner, now: datetime
) -> BulkDecision:
    """Return the decision with the steps of chains moved as `moves` says, by task id; other tasks move as before."""

    def decide(record: TaskRecord, last: LastChange | None) -> Change:
        read = moves.get(record.task.id)
        if read is None:
            return decision.decide(record, last)
        change = _decided(record, Reschedule(when=read().of(record.run)), planner=planner, now=now)
        return replace(change, was=expected_after_pause(record))

    return replace(decision, decide=decide)


def whole_chains(decision: BulkDecision, chains: Sequence[Sequence[TaskRecord]]) -> BulkDecision:
    """Return a move by which the steps of each of these chains move together or not at all."""
    of_step = {step.task.id: place for place, steps in enumerate(chains) for step in steps}

    @cache
    def refusals(place: int) -> list[tuple[str, str]]:
        found = ((step.task.title, _refusal(decision, step)) for step in chains[place])
        return [(title, why) for title, why in found if why]

    def decide(record: TaskRecord, last: LastChange | None) -> Change:
        change = _moved_alone(decision, record, last)
        for title, why in refusals(of_step[record.task.id]) if record.task.id in of_step else ():
            raise Refused(f"its chain moves as a whole, and «{title}» refuses: {why}")
        return change

    return replace(decision, decide=decide)


def _refusal(decision: BulkDecision, step: TaskRecord) -> str:
    """Return why a step cannot have the new time. The others leave a step that has ended, or runs."""
    try:
        _moved_alone(decision, step, None)
    except (_DeadlineRefused, InvalidArgument, InvalidArguments) as wrong:
        return str(wrong)
    except Refused:
        pass
    return ""


def _moved_alone(decision: BulkDecision, record: TaskRecord, last: LastChange | None) -> Change:
    """Decide about one task. Its deadline may refuse the move, which the call that moves many cannot change."""
    try:
        return decision.decide(record, last)
    except InvalidArgument as wrong:
        if wrong.argument != "deadline":
            raise
        raise _DeadlineRefused(record, wrong) from wrong


class _DeadlineRefused(Refused):
    """The deadline of a task does not allow its new time."""

    def __init__(self, record: TaskRecord, wrong: InvalidArgument) -> None:
        super().__init__(f"{wrong.problem}.", argument="deadline", remedy=remedies.MoveDeadline(record.task.id))


def _decided(
    record: TaskRecord, request: Reschedule, *, planner: Planner, now: datetime, recurs: bool = False
) -> Change:
    """Decide about one step; one that has ended stays as it is, but for what later generations of it are to have."""
    if request == Reschedule():
        return Change(record.task, record.run)
    if recurs and request.when is None and (record.run.state not in OPEN or changes.has_started(record.run)):
        to_come = replace(record, run=replace(record.run, state=State.SCHEDULED, started_at=None, ended_at=None))
        later = decide_reschedule(to_come, request, planner, now, recurs=True)[0].task
        return Change(later, record.run, kind=EventKind.RESCHEDULED)
    if record.run.state not in OPEN:
        raise Refused(f"{record.task.id} has ended.")
    return decide_reschedule(record, request, planner, now, recurs=recurs)[0]


def _deadline(found: ChainRecord, given: Mapping[str, Any], due: datetime, planner: Planner, now: datetime) -> Moment:
    """Return a deadline as it is in the zone of the call, or the words for each step to read in its own."""
    deadline: Moment = given["deadline"]
    zone = given.get("timezone")
    if zone is None or str(deadline).strip().lower() in NO_DEADLINE:
        return deadline
    frame, recurring = planner.times.frame(zone), found.chain.repeat is not None
    return deadline_of(deadline, due=due, now=now, zone=zone, recurring=recurring, frame=frame).at or deadline
