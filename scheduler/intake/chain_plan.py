"""Plans a request with steps: each step as a task of its own, all of them checked before one of them is stored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial

from duetime.scheduler.chain.chain import Chain, ChainRecord, NewChain, StepRecord
from duetime.scheduler.chain.dependency import Upstream, Upstreams
from duetime.scheduler.chain.steps import SPAWNED_TASKS, StepRequest, is_outside, read_steps, steps_in_order
from duetime.scheduler.chain.upstream_check import dependencies_of
from duetime.scheduler.errors import InvalidArgument, InvalidArguments
from duetime.scheduler.ids import new_chain_id, new_task_id
from duetime.scheduler.intake.deadlines import NO_DEADLINE, deadline_of
from duetime.scheduler.intake.idempotency import check_natural_key, key_of
from duetime.scheduler.intake.instants import Timing
from duetime.scheduler.intake.planner import Plan, Planner
from duetime.scheduler.intake.series_end import without_rule
from duetime.scheduler.intake.terms.approval import check_length
from duetime.scheduler.intake.terms.outcome_contract import origin_of
from duetime.scheduler.intake.terms.step_request import (
    at_instants,
    instant_of,
    named_by,
    of_whole_chain,
    refuse_arguments_of_steps,
    refuse_unheeded,
    request_of,
    with_arguments_of_steps,
)
from duetime.scheduler.intake.validation import ProblemCollector, check_key, check_labels, refuse_ends_without_repeat
from duetime.scheduler.principal import Acting, Principal
from duetime.scheduler.records import IdempotencyKey
from duetime.scheduler.request import REMINDER_ACTION, Request
from duetime.scheduler.rules.occurrences import delay_of
from duetime.scheduler.rules.sanitize import check_title
from duetime.scheduler.rules.series.overtake import with_overtake_time
from duetime.scheduler.task import Json, RepeatPolicy, Run, State, Task
from duetime.scheduler.translatable import NoteKind, Translatable, as_assumed, of_step
from duetime.scheduler.views import TaskRecord


@dataclass(frozen=True, slots=True)
class ChainPlan:
    """A planned chain: its steps with their plans, upstreams first, ready to be stored."""

    chain: Chain
    steps: tuple[tuple[StepRequest, Plan], ...]
    key: IdempotencyKey | None
    warnings: tuple[str, ...] = ()

    @property
    def plans(self) -> list[Plan]:
        """The plans of its steps; the first one has the key of the call."""
        first, *rest = [plan for _, plan in self.steps]
        return [replace(first, key=self.key), *rest]

    def with_plans(self, plans: Sequence[Plan]) -> ChainPlan:
        """Return the chain with these plans of its steps, and with the warnings that these have in addition."""
        steps = tuple((step, plan) for (step, _), plan in zip(self.steps, plans, strict=True))
        known = {text for _, plan in self.steps for text in plan.warnings}
        added = (text for plan in plans for text in plan.warnings if text not in known)
        warnings = dict.fromkeys((*self.warnings, *added))
        return replace(self, steps=steps, warnings=tuple(warnings))

    def stored(self, tasks: Sequence[Task], acting: Acting) -> NewChain:
        """Return what is to be stored; the tasks are those of the plan as they are by now."""
        items = zip(self.steps, self.plans, tasks, strict=True)
        return NewChain(self.chain, {step.name: plan.new_task(task, **acting) for (step, _), plan, task in items})

    def tried(self) -> ChainRecord:
        """Return the chain that the plan would store, for a dry run."""
        names = {step.name for step, _ in self.steps}
        return ChainRecord(
            self.chain,
            tuple(
                StepRecord(step.name, TaskRecord(plan.task, plan.run), tuple(filter(names.__contains__, step.after)))
                for step, plan in self.steps
            ),
        )


_OF_ONE_STEP = {NoteKind.RETRIED, NoteKind.NOT_RETRIED}


def plan_chain(planner: Planner, request: Request, by: Principal, now: datetime) -> ChainPlan:
    """Return the chain that a request describes; or raise InvalidArgument(s) with every problem of every step."""
    problems, planner, request = ProblemCollector(), planner.asked_by(request.raw), without_rule(request)
    problems.of(check_title, request.title)
    for check in (check_key, check_labels, origin_of, refuse_arguments_of_steps):
        problems.of(check, request)
    problems.of(check_natural_key, request, by)
    request = with_arguments_of_steps(request)
    read = problems.of(read_steps, request.steps)
    if read is None:
        raise problems.error(request)
    steps = read.steps
    problems.add(of_whole_chain(read.problems, request))
    if request.repeat is None:
        problems.of(refuse_ends_without_repeat, request)
    if not read.problems:
        problems.of(refuse_unheeded, request, steps)
    if problems.of(_check_upstreams, planner, request, by) is None:
        request = replace(request, after=())
    series = problems.of(_series, planner, request, steps, now) if request.repeat is not None else None
    timed = _with_times(planner, request, series, steps, problems, now=now)
    of_steps = ProblemCollector()
    plans = _plans(planner, timed, steps, of_steps, by=by, now=now)
    problems.add(read.apart_from_wrong(of_steps.problems))
    if problems:
        raise problems.error(request)
    chain = Chain(new_chain_id(), by.tenant, by.user, request.title.strip(), _zone(planner, request, steps, plans), now)
    if series:
        chain = _recurring(chain, series)
        plans = _spread(chain, series.policy, [(each.name, plans[each.name]) for each in steps])
    said = as_assumed(series.assumptions) if series else ()
    warnings = dict.fromkeys((*said, *_at_once(steps, plans), *_of_steps(plans)))
    return ChainPlan(
        chain, tuple((each, plans[each.name]) for each in steps), key_of(request, by, now), tuple(warnings)
    )


def _of_steps(plans: Mapping[str, Plan]) -> Iterator[str]:
    """Yield the notes on the steps; one on the retries of some of them has the name of its step."""
    for name, plan in plans.items():
        for note in plan.warnings:
            is_of_one = getattr(note, "kind", None) in _OF_ONE_STEP and any(
                note not in each.warnings for each in plans.values()
            )
            yield of_step(name, note) if is_of_one else note


def problems_of(planner: Planner, request: Request, by: Principal, now: datetime) -> Sequence[InvalidArgument]:
    """Return all that is wrong with the arguments of a request, for a task or for a chain."""
    try:
        plan = partial(plan_chain, planner) if request.steps else planner.plan
        plan(request, by, now)
    except InvalidArgument as problem:
        return (problem,)
    except InvalidArguments as several:
        return several.problems
    return ()


def _at_once(steps: Sequence[StepRequest], plans: Mapping[str, Plan]) -> tuple[str, ...]:
    """Say that all steps of a chain start at the same time, where no step is said to come after another."""
    ordered = any(not is_outside(each) for step in steps for each in step.after)
    if ordered or len(steps) == 1 or len({plan.run.scheduled_for for plan in plans.values()}) > 1:
        return ()
    text = f"{len(steps)} steps start at once: no step has `after`"
    return (Translatable.of(NoteKind.STEPS_AT_ONCE, text, count=f"{len(steps)}"),)


def _with_times(
    planner: Planner,
    request: Request,
    series: Timing | None,
    steps: Sequence[StepRequest],
    problems: ProblemCollector,
    *,
    now: datetime,
) -> Request:
    """Return the request that steps are planned by; a time that cannot be read is said once, and not of each step."""
    if series is not None:
        if problems.of(_check_deadline_of_each, planner, request, series, now) is None:
            request = replace(request, deadline=None, deadline_type=None)
        request = replace(request, when=series.first, timezone=series.zone)
    elif request.repeat is not None or problems.of(instant_of, planner.times, request, now) is None:
        request = replace(request, when=timedelta(0))
    if any("timezone" in step.arguments for step in steps):
        return problems.of(at_instants, planner.times, request, now) or request
    return request


def _check_upstreams(planner: Planner, request: Request, by: Principal) -> bool:
    """Raise what is wrong with the tasks that the chain comes after: it is said once, and not of each first step."""
    dependencies_of(replace(request, repeat=None, valid_output=None), by.tenant, planner.upstreams)
    return True


def _series(planner: Planner, request: Request, steps: Sequence[StepRequest], now: datetime) -> Timing:
    """Return when a chain recurs. Raises InvalidArgument for a step that could not recur with it."""
    actions = [str(step.arguments.get("action") or REMINDER_ACTION) for step in steps]
    series = planner.times.timing(request, now, actions=actions)
    for step in steps:
        if "when" in step.arguments:
            problem = "a chain that repeats has one time for all of its steps"
            raise InvalidArgument(step.place("when"), problem, accepted="when of the chain", example="when=null")
        named_by(step, partial(check_length, step.arguments.get("approval"), series), request)
    check_length(request.approval, series)
    return series


def _spread(chain: Chain, policy: RepeatPolicy | None, steps: Sequence[tuple[str, Plan]]) -> dict[str, Plan]:
    """Return the plans of a chain that recurs, its first steps later than their time by one part of the jitter."""
    if policy is None:
        return dict(steps)
    planned = [(name, replace(plan, task=replace(plan.task, repeat_policy=policy))) for name, plan in steps]
    delay = delay_of(chain.as_series(planned[0][1].task)[0])
    return {name: replace(plan, run=with_overtake_time(plan.task, _later(plan.run, delay))) for name, plan in planned}


def _later(run: Run, delay: timedelta) -> Run:
    return replace(run, wake_at=run.wake_at + delay) if run.wake_at else run


def _check_deadline_of_each(planner: Planner, request: Request, series: Timing, now: datetime) -> bool:
    """Raise InvalidArgument for a deadline that generations could not have; return whether they have one."""
    given = request.deadline
    if given is None or str(given).strip().lower() in NO_DEADLINE:
        return False
    frame, several = planner.times.frame(request.timezone), series.times_of_day
    times = several if len(several) > 1 else ()  # that of a chain counts from the turn of its last step
    deadline_of(given, due=series.first, now=now, zone=series.zone, recurring=True, frame=frame, times_of_day=times)
    return True


def _recurring(chain: Chain, series: Timing) -> Chain:
    rule = series.recurrence
    assert rule is not None
    more = {"until": series.until, "max_runs": series.max_runs, "due_at": series.first}
    return replace(chain, repeat=rule.rule, anchor=rule.anchor, **more)  # type: ignore[arg-type]  # of the series


def plan_spawned(
    planner: Planner, parent: Task, spawned: Sequence[Mapping[str, Json]], by: Principal, now: datetime
) -> list[tuple[str, Plan]]:
    """Return the tasks that a run of `parent` spawns, by name; or raise InvalidArgument(s) with every problem.

    Fields that they leave out are as their parent has them.
    """
    request = Request(
        parent.title,
        when=timedelta(0),
        timezone=parent.timezone,
        priority=parent.priority,
        labels=parent.labels,
        deliver_to=parent.deliver_to,
        notify=parent.notify,
        origin=parent.origin or None,
    )
    problems = ProblemCollector()
    plans = _plans(planner, request, steps_in_order(spawned, SPAWNED_TASKS), problems, by=by, now=now)
    if problems:
        raise problems.error()
    if parent.repeat is not None:
        return list(plans.items())
    return [(name, replace(each, run=with_overtake_time(parent, each.run))) for name, each in plans.items()]


def _zone(planner: Planner, request: Request, steps: Sequence[StepRequest], plans: Mapping[str, Plan]) -> str:
    """Return the zone of a chain: that of a step that has none of its own."""
    like_it = (plans[step.name].task.timezone for step in steps if "timezone" not in step.arguments)
    return next(like_it, None) or planner.times.zone_of(request) or plans[steps[0].name].task.timezone


def _plans(
    planner: Planner,
    request: Request,
    steps: Sequence[StepRequest],
    problems: ProblemCollector,
    *,
    by: Principal,
    now: datetime,
) -> dict[str, Plan]:
    """Plan each step; one that has a problem stands for itself by an id, so that those behind it are looked at too."""
    plans: dict[str, Plan] = {}
    ids = _ids_in_order(len(steps))
    followed = {name for step in steps for name in step.after}
    known = {each: Upstream(new_task_id(), each, State.SCHEDULED) for each in followed if not is_outside(each)}
    for step, task_id in zip(steps, ids, strict=True):
        step_request = request_of(request, step, known, is_last=step.name not in followed)
        planned = partial(_knowing(planner, list(known.values())).plan, recurs=request.repeat is not None)
        plan = problems.of(named_by, step, partial(planned, step_request, by, now, task_id=task_id), request)
        known[step.name] = Upstream(plan.task.id if plan else new_task_id(), step.name, State.SCHEDULED)
        plans |= {step.name: plan} if plan else {}
    return plans


def _ids_in_order(count: int) -> Sequence[str]:
    """Return ids of steps that sort as these were given: a list has what is due at one time by its ids."""
    sibling_id, found = new_task_id(), set[str]()
    while len(found) < count:
        found.add(new_task_id(sibling_id))
    return sorted(found)


def _knowing(planner: Planner, known: Sequence[Upstream]) -> Planner:
    """Return the planner for a step that may come after those that are known by now."""
    new = {each.task_id: each for each in known}

    def upstreams(tenant: str, task_ids: Sequence[str]) -> Upstreams:
        stored = [task_id for task_id in task_ids if task_id not in new]
        return {**(planner.upstreams(tenant, stored) if stored else {}), **new}

    return replace(planner, upstreams=upstreams)
