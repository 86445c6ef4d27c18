"""Reads the parts of a reschedule that change the chain itself: its title, and the rule of a recurring chain."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

from duetime.scheduler import remedies
from duetime.scheduler.calls.reschedule import Reschedule
from duetime.scheduler.chain.chain import Chain, ChainRecord, is_spawned
from duetime.scheduler.chain.change import ChainChange
from duetime.scheduler.chain.dependency import Upstream
from duetime.scheduler.chain.upstream_check import FOR_A_SERIES, NOT_AFTER_OTHERS
from duetime.scheduler.errors import InvalidArgument, Refused
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.intake.repeat_policy import changed_policy, dates_of, left_out, respread
from duetime.scheduler.intake.series_end import ENDLESS_WORDS, never_recurs, refuse_second_count, series_end
from duetime.scheduler.intake.time_reader import TimeReader
from duetime.scheduler.intake.validation import check_max_runs
from duetime.scheduler.records import Change, LastChange
from duetime.scheduler.rules import changes
from duetime.scheduler.rules.occurrences import delay_of, next_run, occurrence_at, recurrence_of
from duetime.scheduler.rules.recurrence import recurrence
from duetime.scheduler.rules.sanitize import check_title
from duetime.scheduler.rules.time.times import describe
from duetime.scheduler.task import RepeatPolicy, Run, State
from duetime.scheduler.views import TaskRecord

RULE_ARGUMENTS: Final = ("repeat", "until", "max_runs", "repeat_policy")
"""Arguments that change the rule of a chain that recurs, or how its generations follow it."""

RUNS_ONCE: Final = "this chain runs once, and stays so"
OF_A_NEW_CHAIN: Final = "repeat of a new chain that is scheduled with its steps"

StepDecision = Callable[[TaskRecord, LastChange | None], Change]

_WAITS: Final = (State.SCHEDULED, State.WAITING, State.READY)


def own_change(found: ChainRecord, given: Mapping[str, Any], planner: Planner, now: datetime) -> ChainChange | None:
    """Return the change of the chain itself, None where only its steps change. Raises InvalidArgument."""
    fields: dict[str, Any] = {}
    if "title" in given:
        check_title(given["title"])
        fields["title"] = given["title"].strip()
    return ChainChange.of(found.chain, fields | _rule(found, given, planner, now))


def _rule(found: ChainRecord, given: Mapping[str, Any], planner: Planner, now: datetime) -> dict[str, Any]:
    """Return the new rule and its end; a generation of which no step has begun moves to its first time."""
    chain, repeat = found.chain, given.get("repeat")
    if given.get("skip_next"):
        return {"due_at": _skipping(found, now), "generation": chain.generation + 1}
    policy = _policy(found, given, planner, now)
    if repeat is not None and never_recurs(repeat):
        return {"repeat": None, "until": None, "max_runs": None}
    fields: dict[str, Any] = {}
    if repeat is None and changes_policy(given):
        fields = _without_left_out(found, policy, now)
    elif repeat is not None:
        times = _times_of(found, planner)
        rule, first, _ = times.recurrence(repeat, chain.timezone, None, now, moved_from=chain.due_at, policy=policy)
        refuse_second_count(rule, given.get("max_runs"))
        fields = {"repeat": rule.rule, "anchor": rule.anchor}
        fields |= {} if has_begun(found) else {"due_at": first.instant}
    if "max_runs" in given.get("remove", ()):
        fields["max_runs"] = None
    elif given.get("max_runs") is not None:
        fields["max_runs"] = _runs_left(chain, given["max_runs"])
    if given.get("until") is not None:
        fields["until"] = _end(chain, given["until"], fields, planner, now)
    return fields


def _times_of(found: ChainRecord, planner: Planner) -> TimeReader:
    actions = [step.record.task.action for step in found.steps]
    return planner.times.for_work(*actions, of_agent=planner.of_agent)


def changes_policy(given: Mapping[str, Any]) -> bool:
    """Whether a reschedule gives a chain another policy, or the usual one."""
    return given.get("repeat_policy") is not None or "repeat_policy" in given.get("remove", ())


def _policy(found: ChainRecord, given: Mapping[str, Any], planner: Planner, now: datetime) -> RepeatPolicy | None:
    """Return the policy of a changed chain, as it is before its rule spreads it. Raises InvalidArgument."""
    if not changes_policy(given):
        return found.steps[0].record.task.repeat_policy
    ends = given.get("repeat") is not None and never_recurs(given["repeat"])
    series, _ = found.chain.as_series(found.steps[0].record.task)
    remove = tuple(name for name in given.get("remove", ()) if name == "repeat_policy")
    request = Reschedule(repeat_policy=given.get("repeat_policy"), remove=remove)
    today = planner.times.today(request, now, found.chain.timezone)
    return changed_policy(replace(series, repeat=None) if ends else series, request, today, of_chain=True)


def _without_left_out(found: ChainRecord, policy: RepeatPolicy | None, now: datetime) -> dict[str, Any]:
    """Return the time of the generation to come if the dates that the chain leaves out move it; else nothing."""
    chain, task = found.chain, found.steps[0].record.task
    series, run = replace(chain.as_series(task)[0], repeat_policy=policy), chain.due_at
    rule, before = recurrence_of(replace(series, repeat_policy=None)), dates_of(task)
    if rule is None or run is None or has_begun(found) or dates_of(series) == before:
        return {}
    first = left_out(rule, policy).after(now)
    excluded = occurrence_at(rule, run).wall.date() in dates_of(series)
    is_back = first is not None and first.instant < run and first.wall.date() in before
    return {"due_at": first.instant} if first is not None and (excluded or is_back) else {}


def with_rule(
    found: ChainRecord,
    own: ChainChange | None,
    given: Mapping[str, Any],
    planner: Planner,
    *,
    now: datetime,
    decide: StepDecision,
) -> StepDecision:
    """Return the decision about each step of a chain with a new rule or policy, spread as those of a new chain.

    First steps that move to the first time of the rule are as late as in the next generations.
    """
    changed = own.applied(found.chain) if own else found.chain
    series, _ = changed.as_series(found.steps[0].record.task)
    policy, usual = _policy(found, given, planner, now), _times_of(found, planner).spread
    rule = recurrence_of(replace(series, repeat_policy=policy))
    policy = respread(rule, policy, usual, given.get("repeat_policy")) if rule else None
    own_ids = {step.record.task.id for step in found.steps if not is_spawned(step.name)}
    delay, moves = delay_of(replace(series, repeat_policy=policy)), own is not None and "due_at" in own.after

    def spread(record: TaskRecord, last: LastChange | None) -> Change:
        change = decide(record, last)
        if record.task.id not in own_ids:
            return change
        task, run = replace(change.task, repeat_policy=policy), change.run
        return replace(change, task=task, run=_as_late(run, delay) if moves else run)

    return spread


def as_late_as_others(found: ChainRecord, decide: StepDecision) -> StepDecision:
    """Return the decision about each step of a chain, whose first steps are as late as in its other generations."""
    delay = delay_of(found.chain.as_series(found.steps[0].record.task)[0])

    def late(record: TaskRecord, last: LastChange | None) -> Change:
        change = decide(record, last)
        return replace(change, run=_as_late(change.run, delay))

    return late


def _as_late(run: Run, delay: timedelta) -> Run:
    """Return the run of a first step, at its time, with the delay of its chain."""
    if run.state is not State.SCHEDULED or run.wake_at != run.scheduled_for:
        return run
    return replace(run, wake_at=run.scheduled_for + delay)


def changes_rule(request: Reschedule) -> bool:
    """Whether a reschedule changes when its task repeats."""
    return any(getattr(request, name) is not None for name in RULE_ARGUMENTS)


def refuse_rule_of_step(found: ChainRecord, request: Reschedule) -> None:
    """Raise InvalidArgument where a step of a chain would get a rule of its own."""
    if found.chain.repeat is None:
        _refuse_series_in_chain(request)
        return
    if request.skip_next:
        raise no_skip_of_step(found)
    if changes_rule(request):
        name = next(name for name in RULE_ARGUMENTS if getattr(request, name) is not None)
        problem = "a step repeats with its chain, which has the rule"
        raise InvalidArgument(
            name, problem, accepted=f"{name} with the id of the chain", example=f"task_id='{found.chain.id}'"
        )


def _refuse_series_in_chain(request: Reschedule) -> None:
    if request.repeat is None or never_recurs(request.repeat):
        return
    raise InvalidArgument("repeat", RUNS_ONCE, accepted=f"'never'; or {OF_A_NEW_CHAIN}", example="repeat='never'")


def recurs_after_others(request: Reschedule) -> bool:
    """Whether a reschedule makes a task recur and keeps its upstreams."""
    is_rule = request.repeat is not None and not never_recurs(request.repeat)
    return is_rule and request.after is None and "after" not in request.remove


def refuse_series_after(upstreams: Sequence[Upstream], record: TaskRecord, request: Reschedule) -> None:
    """Raise InvalidArgument where a task would recur that waits for some of the tasks that it comes after."""
    if record.run.state is not State.WAITING or not any(each.is_open for each in upstreams):
        return
    example = f"repeat={request.repeat!r}, remove={[*request.remove, 'after']!r}"
    accepted = f"{FOR_A_SERIES}; or no `after` from now on"
    raise InvalidArgument("repeat", NOT_AFTER_OTHERS, accepted=accepted, example=example)


def no_skip_of_step(found: ChainRecord) -> InvalidArgument:
    """Return the refusal to skip one step: a generation of its chain has them all."""
    problem = "a step runs in each generation of its chain"
    accepted, example = "the id of the chain: its next generation is left out whole", f"task_id='{found.chain.id}'"
    return InvalidArgument("task_id", problem, accepted=accepted, example=example)


def _skipping(found: ChainRecord, now: datetime) -> datetime:
    """Return when the generation comes that follows the next one. Raises Refused where that has begun, or is the last.

    As any skipped occurrence, the next one uses up no number of `max_runs`.
    """
    chain = found.chain
    moved_to = min(step.record.run.scheduled_for for step in found.steps)
    due = max(chain.due_at or moved_to, moved_to)
    if has_begun(found):
        text = f"the generation of {chain.id} of {describe(due, chain.timezone)} {chain.timezone} has begun."
        raise Refused(text, argument="skip_next", remedy=remedies.Inspect(chain.id))
    coming = next_run(*replace(chain, due_at=due).as_series(found.steps[0].record.task, counts=False), now)
    if coming is None:
        text = f"this is the last generation of {chain.id}."
        raise Refused(text, argument="skip_next", remedy=remedies.Cancel(chain.id))
    return coming.scheduled_for


def has_begun(found: ChainRecord) -> bool:
    """Whether a step of the current generation has started or ended."""
    runs = [step.record.run for step in found.steps]
    return any(changes.has_started(run) or run.state not in _WAITS for run in runs)


def _runs_left(chain: Chain, most: int) -> int:
    check_max_runs(Reschedule(max_runs=most))
    if most < chain.number:
        problem = f"generation {chain.number} is there already"
        raise InvalidArgument(
            "max_runs", problem, accepted=f"{chain.number} or more", example=f"max_runs={chain.number}"
        )
    return most


def _end(chain: Chain, end: Any, fields: Mapping[str, Any], planner: Planner, now: datetime) -> datetime | None:
    if str(end).strip().lower() in ENDLESS_WORDS:
        return None
    anchor, frame = fields.get("anchor", chain.anchor), planner.times.frame(chain.timezone)
    rule = recurrence.parse(fields.get("repeat", chain.repeat), zone=chain.timezone, anchor=anchor)
    due = fields.get("due_at") or chain.due_at or now
    return series_end(end, rule, now=now, zone=chain.timezone, first=due, frame=frame)
