"""Plans a request: validates all its arguments, and reports every problem at once. Stores nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from duetime.scheduler.chain.after import UpstreamLookup, dependencies_of, nothing_stored
from duetime.scheduler.chain.dependency import Dependency, DependentTask
from duetime.scheduler.delivery import Channels
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.ids import new_id, new_task_id
from duetime.scheduler.intake.demand import Demand, Demands, RunContext
from duetime.scheduler.intake.idempotency import key_of
from duetime.scheduler.intake.instants import Recurring, Timing, resolve_moment
from duetime.scheduler.intake.needs import PoolsByName
from duetime.scheduler.intake.payload import SecretHosts, check_secrets, no_secrets, without_blanks
from duetime.scheduler.intake.series_end import series_end
from duetime.scheduler.intake.validation import (
    ProblemCollector,
    check_key,
    check_labels,
    check_max_runs,
    check_notify,
    check_retry,
    no_zone,
    refuse_ends_without_repeat,
)
from duetime.scheduler.principal import Principal
from duetime.scheduler.records import IdempotencyKey, NewTask
from duetime.scheduler.request import REMINDER_ACTION, Request
from duetime.scheduler.rules.estimates import EstimateLookup, declared_estimate
from duetime.scheduler.rules.occurrences import dated
from duetime.scheduler.rules.recurrence import recurrence
from duetime.scheduler.rules.recurrence.recurrence import Recurrence
from duetime.scheduler.rules.sanitize import check_text
from duetime.scheduler.rules.time import zones
from duetime.scheduler.rules.time.parser import Frame
from duetime.scheduler.rules.time.times import Resolved, describe
from duetime.scheduler.task import Json, Notify, Occurrence, RetryPolicy, Run, State, Task
from duetime.scheduler.translatable import NoteKind, Translatable, as_assumed

_YEAR = timedelta(days=366)


@dataclass(frozen=True, slots=True)
class Plan:
    """A planned request: the task and its first run, ready to be stored."""

    task: Task
    run: Run
    key: IdempotencyKey | None
    recurrence: Recurrence | None = None
    warnings: tuple[str, ...] = field(default=())
    other_actions: tuple[str, ...] = ()
    """Of a reminder: the actions that do more than remind."""
    after: tuple[Dependency, ...] = ()

    def new_task(self, task: Task, actor: str, via: str | None) -> NewTask:
        """Return what is to be stored: `task` is that of the plan, as it is by now."""
        if self.after:
            return DependentTask(task, self.run, actor, self.key, via, self.after)
        return NewTask(task, self.run, actor, self.key, via)


@dataclass(frozen=True, slots=True)
class Planner:
    """Plans requests.

    `zone` is the default time zone; with None a wall time without a zone is an error. `pools` returns the current
    pools, `estimates` the duration of a run. `zone_named` is False for the machine's zone; `holidays` may be empty.
    """

    handlers: Handlers
    zone: str | None
    channels: Channels = field(default_factory=Channels)
    default_channels: Sequence[str] = ()
    minimum_interval: timedelta = timedelta(minutes=1)
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    pools: Callable[[], PoolsByName] = dict
    estimates: EstimateLookup = declared_estimate
    zone_named: bool = True
    holidays: str = ""
    secrets: SecretHosts = no_secrets
    upstreams: UpstreamLookup = nothing_stored

    @property
    def demands(self) -> Demands:
        """The parser of the arguments that order and admit runs."""
        return Demands(self.handlers, self.pools, self.estimates)

    def plan(self, request: Request, by: Principal, now: datetime, *, beside: str | None = None) -> Plan:
        """Return the task of `request`, `beside` an id of its call; or raise InvalidArgument(s) with every problem."""
        problems = ProblemCollector()
        problems.of(check_text, "title", request.title)
        timing = problems.of(self.timing, request, now)
        payload = problems.of(self.payload, request.action, request.payload, by.tenant)
        demand = problems.of(self.demands.read, request, self._situation(request, timing, by, now))
        after = problems.of(dependencies_of, request, by.tenant, self.upstreams)
        for check in (check_key, check_retry, self._check_deliver_to, check_labels, check_notify):
            problems.of(check, request)
        if timing is None or payload is None or demand is None or after is None or problems:
            raise problems.error()
        plan = self._planned(request, payload, timing, demand, by=by, now=now, beside=beside)
        return replace(plan, run=_waiting(plan), after=after) if after else plan

    def payload(self, action: str, payload: Mapping[str, Json], tenant: str) -> Mapping[str, Json]:
        """Check a payload by the bounds, the handler's schema and the tenant's secrets; return it with defaults."""
        handler = self.handlers.get_or_explain(action)
        checked = handler.check(without_blanks(handler, payload))
        check_secrets(handler, checked, tenant, self.secrets)
        return checked

    def changed_payload(self, action: str, payload: Mapping[str, Json] | None) -> Mapping[str, Json] | None:
        """Return the payload of a change, None if it has nothing but blanks; an empty one empties the payload."""
        handler = self.handlers.get(action)
        said = without_blanks(handler, payload) if handler and payload else payload
        return None if payload and not said else payload

    def _other_actions(self, action: str) -> tuple[str, ...]:
        return tuple(name for name in self.handlers if name != REMINDER_ACTION) if action == REMINDER_ACTION else ()

    def timing(self, request: Request, now: datetime) -> Timing:
        """Resolve when, repeat, until and max_runs together, all in the same zone."""
        problems = ProblemCollector()
        zone = self._zone(request)
        start = problems.of(self._start, request, now, zone)
        if request.timezone:
            problems.of(zones.find, request.timezone)
        if request.repeat is not None:
            return self._recurring(request, request.repeat, start, zone=zone, now=now, known=problems)
        problems.of(refuse_ends_without_repeat, request)
        if start is None or problems:
            raise problems.error()
        return Timing(start.instant, start.zone, assumptions=start.assumptions)

    def frame(self, timezone: str | None, *, moved: datetime | None = None, own: str | None = None) -> Frame:
        """Return how times are read: `timezone` is the caller's, `own` the zone of the task that is `moved`."""
        named = self.zone_named or timezone is not None or own not in (None, self.zone)
        return Frame(moved, zone_named=named, holidays=self.holidays)

    def _zone(self, request: Request) -> str | None:
        """Return the zone of a request; for an unknown one keep the problem and use the nearest known one."""
        zone = request.timezone or self.zone
        try:
            return zones.find(zone).key if zone else None
        except InvalidArgument as unknown:
            return unknown.example

    def _start(self, request: Request, now: datetime, zone: str | None) -> Resolved | None:
        if request.when is not None:
            return resolve_moment(request.when, now=now, zone=zone, argument="when", frame=self.frame(request.timezone))
        if request.repeat is not None:
            return None
        if request.action != REMINDER_ACTION or request.after:
            return resolve_moment(timedelta(0), now=now, zone=zone, argument="when")
        raise InvalidArgument(
            "when", "a reminder needs a time", accepted="a time or a duration from now", example="when='in 2 hours'"
        )

    def _recurring(
        self,
        request: Request,
        repeat: str,
        start: Resolved | None,
        *,
        zone: str | None,
        now: datetime,
        known: ProblemCollector,
    ) -> Timing:
        read = known.of(self.recurrence, repeat, zone, start.instant if start else None, now)
        rule = read.rule if read else None
        begins = read.first.instant if read else now
        frame = self.frame(request.timezone)
        until = known.of(series_end, request.until, rule, now=now, zone=zone, first=begins, frame=frame)
        known.of(check_max_runs, request)
        if read is None or known:
            raise known.error()
        assumptions = (*(start.assumptions if start else ()), *read.notes)
        return Timing(begins, read.rule.zone, read.rule, until, request.max_runs, assumptions)

    def recurrence(
        self, repeat: str, zone: str | None, start: datetime | None, now: datetime, *, moved: datetime | None = None
    ) -> Recurring:
        """Parse a recurrence from `start`, or by its own start when None; return its first occurrence and notes.

        A rule without a time of day keeps that of `moved`, the time that the task had.
        """
        if zone is None:
            raise no_zone()
        if start is None:
            rule, assumptions = recurrence.soonest(
                repeat, zone=zone, now=now, minimum=self.minimum_interval, moved=moved, holidays=self.holidays
            )
        else:
            assumptions = ()
            least = self.minimum_interval
            rule = recurrence.parse(repeat, zone=zone, anchor=start, minimum=least, holidays=self.holidays)
        first = rule.first(max(rule.anchor, now))
        if first is None:
            problem = "it has no future occurrence"
            raise InvalidArgument("repeat", problem, example="every weekday at 9:00")
        return Recurring(rule, first, (*assumptions, *((first.note,) if first.note else ()), *_far(first, zone, now)))

    def _check_deliver_to(self, request: Request) -> None:
        self.channels.check(request.deliver_to)

    def _situation(self, request: Request, timing: Timing | None, by: Principal, now: datetime) -> RunContext:
        """Return the context of the demand; for an invalid time, as if the run were due now."""
        return RunContext(
            by.tenant,
            request.action,
            due=timing.first if timing else now,
            now=now,
            zone=timing.zone if timing else self._zone(request),
            recurring=request.repeat is not None,
            frame=self.frame(request.timezone),
        )

    def _planned(
        self,
        request: Request,
        payload: Mapping[str, Json],
        timing: Timing,
        demand: Demand,
        *,
        by: Principal,
        now: datetime,
        beside: str | None,
    ) -> Plan:
        task = Task(
            id=new_task_id(beside),
            tenant=by.tenant,
            owner=by.user,
            title=request.title.strip(),
            action=request.action,
            payload=payload,
            timezone=timing.zone,
            when=str(request.when) if request.when is not None else "now",
            repeat=timing.recurrence.rule if timing.recurrence else None,
            anchor=timing.recurrence.anchor if timing.recurrence else timing.first,
            until=timing.until,
            max_runs=timing.max_runs,
            paused=False,
            retry=request.retry or self.default_retry(request.action),
            deliver_to=self.channels_of(request.deliver_to),
            labels=tuple(dict.fromkeys(request.labels)),
            revision=1,
            created_at=now,
            updated_at=now,
            notify=Notify(request.notify or Notify.ALWAYS),
            **demand.parts(),
        )
        run = dated(task, first_run(task, timing.first), at=demand.instant, p50=demand.p50)
        warnings = (*as_assumed(timing.assumptions), *demand.warnings)
        others = self._other_actions(request.action)
        return Plan(task, run, key_of(request, by, now), timing.recurrence, warnings, others)

    def default_retry(self, action: str) -> RetryPolicy:
        """Return the policy of a task that gives none."""
        handler = self.handlers.get(action)
        return (handler.retry if handler else None) or self.retry

    def channels_of(self, deliver_to: Sequence[str]) -> tuple[str, ...]:
        """Return the channels that are meant: none named are the default ones."""
        return self.channels.check(deliver_to or self.default_channels)


def first_run(task: Task, scheduled_for: datetime) -> Run:
    """Return the first occurrence of a task."""
    return Run(
        id=new_id("r"),
        task_id=task.id,
        tenant=task.tenant,
        scheduled_for=scheduled_for,
        state=State.SCHEDULED,
        wake_at=scheduled_for,
    )


def _waiting(plan: Plan) -> Run:
    """Return the run as it waits for other tasks; a relative deadline counts from when they have ended."""
    drop_at = None if plan.task.deadline_after is not None else plan.run.drop_at
    return replace(plan.run, state=State.WAITING, wake_at=None, drop_at=drop_at)


def _far(first: Occurrence, zone: str, now: datetime) -> tuple[str, ...]:
    """Say that a recurrence begins more than a year ahead: its rule may not be what was meant."""
    if first.instant - now <= _YEAR:
        return ()
    text = f"it first runs {describe(first.instant, zone)}, more than a year ahead"
    return (Translatable.of(NoteKind.FAR_AHEAD, text, at=first.instant.isoformat()),)
