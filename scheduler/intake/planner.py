"""Plans a request: validates all its arguments, and reports every problem at once. Stores nothing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from duetime.scheduler.calls.origin import unread
from duetime.scheduler.chain.dependency import Dependency, DependentTask
from duetime.scheduler.chain.upstream_check import UpstreamLookup, dependencies_of, no_upstreams
from duetime.scheduler.delivery import Channels
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.handlers.payload import as_json
from duetime.scheduler.ids import new_id, new_task_id
from duetime.scheduler.intake.demand import Demands, RunContext
from duetime.scheduler.intake.idempotency import check_natural_key, key_of
from duetime.scheduler.intake.instants import Timing, words_of
from duetime.scheduler.intake.needs import PoolsByName
from duetime.scheduler.intake.repeat_policy import check_one_question
from duetime.scheduler.intake.series_end import without_rule
from duetime.scheduler.intake.terms.approval import approval_of, asked_before_each, read_by_note
from duetime.scheduler.intake.terms.outcome_contract import (
    ContractParts,
    FollowUpReader,
    check_expected,
    origin_of,
)
from duetime.scheduler.intake.terms.payload import (
    SecretHosts,
    check_interval,
    check_secrets,
    no_secrets,
    without_blanks,
)
from duetime.scheduler.intake.terms.wait_length import with_length
from duetime.scheduler.intake.terms.watch_words import with_watch_times
from duetime.scheduler.intake.time_reader import TimeReader
from duetime.scheduler.intake.validation import (
    ProblemCollector,
    check_key,
    check_labels,
    check_notify,
    check_retry,
    silent_note,
)
from duetime.scheduler.principal import Principal
from duetime.scheduler.records import IdempotencyKey, NewTask
from duetime.scheduler.request import REMINDER_ACTION, GivenPayload, Request
from duetime.scheduler.rules.estimates import EstimateLookup, declared_estimate
from duetime.scheduler.rules.failures.follow_up import ON_FAILURE_NOTIFY
from duetime.scheduler.rules.occurrences import delay_of, planned_window, with_deadline
from duetime.scheduler.rules.recurrence.recurrence import Recurrence
from duetime.scheduler.rules.retry import as_policy, retries_in_words
from duetime.scheduler.rules.sanitize import check_title
from duetime.scheduler.rules.series.natural_key import template_text
from duetime.scheduler.rules.series.occurrence_approval import without_early_deadline
from duetime.scheduler.rules.series.occurrence_wait import awaited_by_each
from duetime.scheduler.rules.series.overtake import with_overtake_time
from duetime.scheduler.rules.signals.signal_waits import early_end_note, equality_note, signal_wait_of
from duetime.scheduler.task import Json, Notify, RetryPolicy, Run, State, Task, record
from duetime.scheduler.translatable import NoteKind, Translatable, as_assumed
from duetime.scheduler.waits.approval import Approval
from duetime.scheduler.waits.signal import SignalWait


@record(frozen=True, slots=True)
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
    approval: Approval | None = None
    wait: SignalWait | None = None

    def new_task(self, task: Task, actor: str, via: str | None) -> NewTask:
        """Return what is to be stored: `task` is that of the plan, as it is by now."""
        if self.after or self.approval or self.wait:
            return DependentTask(task, self.run, actor, self.key, via, self.after, self.approval, self.wait)
        return NewTask(task, self.run, actor, self.key, via)


@dataclass(frozen=True, slots=True)
class Planner:
    """Plans requests.

    `zone` is the default time zone; with None a wall time without a zone is an error. `pools` returns the current
    pools, `estimates` the duration of a run. `zone_named` is False for the machine's zone; `holidays` may be empty.
    `of_agent` is set for calls of agents, whose work is attempted once a minute at most.
    """

    handlers: Handlers
    zone: str | None
    channels: Channels = field(default_factory=Channels)
    default_channels: Sequence[str] = ()
    minimum_interval: timedelta = timedelta(minutes=1)
    spread: timedelta = timedelta(0)
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    pools: Callable[[], PoolsByName] = dict
    estimates: EstimateLookup = declared_estimate
    zone_named: bool = True
    holidays: str = ""
    secrets: SecretHosts = no_secrets
    channel_secrets: Callable[[], Collection[str]] = tuple
    upstreams: UpstreamLookup = no_upstreams
    of_agent: bool = False
    times: TimeReader = field(init=False, repr=False, compare=False)
    """The reader of the arguments that say when a task runs."""
    demands: Demands = field(init=False, repr=False, compare=False)
    """The parser of the arguments that order and admit runs."""

    def __post_init__(self) -> None:
        times = TimeReader(self.zone, self.minimum_interval, self.zone_named, self.holidays, self.spread)
        object.__setattr__(self, "times", times)
        object.__setattr__(self, "demands", Demands(self.handlers, self.pools, self.estimates))

    def plan(
        self, request: Request, by: Principal, now: datetime, *, task_id: str | None = None, recurs: bool = False
    ) -> Plan:
        """Return the task of `request`, by a new id or `task_id`; or raise InvalidArgument(s) with every problem.

        It `recurs` as a step with its chain.
        """
        problems, request = ProblemCollector(), with_watch_times(without_rule(request), self.times, now)
        problems.of(check_title, request.title)
        timing = problems.of(self.times.timing, request, now)
        agent = request.raw is not None
        payload = problems.of(self.payload, request.action, request.payload, by.tenant, of_agent=agent)
        demand = problems.of(self.demands.read, request, self._situation(request, timing, by, now, recurs=recurs))
        after = problems.of(dependencies_of, request, by.tenant, self.upstreams)
        approval = problems.of(approval_of, request, self.times, timing, now) if request.approval else None
        problems.of(check_expected, request, self.handlers, request.action)
        on_failure = problems.of(self._following, request, by, now) if request.on_failure else {}
        wait = problems.of(self._wait, request, timing, now, recurs=recurs) if request.wait_for else None
        origin = problems.of(origin_of, request)
        terms = (check_retry, self._check_deliver_to, check_labels, check_notify) if request.has_terms else ()
        for check in (check_key, *terms):
            problems.of(check, request)
        asks = asked_before_each(approval, in_chain=recurs) if approval else None
        if wait and (recurs or request.repeat is not None):
            asks, wait = {**(asks or {}), **awaited_by_each(wait, now, in_chain=recurs)}, None
        if timing and asks:
            problems.of(check_one_question, timing.policy, asks)
        problems.of(check_natural_key, request, by)
        if timing is None or payload is None or demand is None or after is None or problems:
            raise problems.error(request)
        contract = ContractParts(expect=request.expect or {}, on_failure=on_failure or {}, origin=origin or {})
        parts = {**contract, **demand.parts(), "asks": asks}
        task = self._task(request, payload, timing, parts, by=by, now=now, task_id=task_id)
        run = with_deadline(task, first_run(task, timing.first), at=demand.instant, p50=demand.p50)
        warnings = self._warnings(request, task, timing, demand.warnings, wait)
        others = self._other_actions(request.action)
        plan = Plan(task, with_overtake_time(task, run), key_of(request, by, now), timing.recurrence, warnings, others)
        approval = None if timing.recurrence or recurs else approval and replace(approval, run_id=plan.run.id)
        held = after or approval or wait
        return replace(plan, run=_waiting(plan), after=after, approval=approval, wait=wait) if held else plan

    def _warnings(
        self, request: Request, task: Task, timing: Timing, of_demand: tuple[str, ...], wait: SignalWait | None
    ) -> tuple[str, ...]:
        retries = (retries_in_words(task.retry),) if request.retry is not None else ()
        of_approval = read_by_note(request.approval, task.created_at, self.times.zone_of(request))
        of_wait = (*of_approval, *early_end_note(wait, timing.first, timing.zone), *equality_note(request.wait_for))
        of_delivery = (*silent_note(task.action, task.notify), *self.undelivered_notes(task))
        return (*as_assumed(timing.assumptions), *of_demand, *retries, *of_delivery, *of_wait)

    def _wait(self, request: Request, timing: Timing | None, now: datetime, *, recurs: bool) -> SignalWait | None:
        if not recurs and request.repeat is None:
            request = replace(request, wait_for=with_length(request.wait_for, now, self.times.zone_of(request)))
        return signal_wait_of(request, timing.first if timing else now, now, recurs=recurs)

    def asked_by(self, raw: Mapping[str, Json] | None) -> Planner:
        """Return the planner for a caller. A caller that passes the sent arguments (`raw`) is an agent."""
        return self if raw is None or self.of_agent else replace(self, of_agent=True)

    def payload(self, action: str, payload: GivenPayload, tenant: str, *, of_agent: bool = False) -> Mapping[str, Json]:
        """Check a payload by the bounds, the handler's schema and the tenant's secrets; return it with defaults."""
        given: Mapping[str, Json] = payload if isinstance(payload, Mapping) else as_json(payload)
        handler = self.handlers.get_or_explain(action, given)
        checked = handler.check(without_blanks(handler, given))
        check_secrets(handler, checked, tenant, self.secrets)
        if self.of_agent or of_agent:
            check_interval(handler, checked)
        return checked

    def changed_payload(self, action: str, payload: Mapping[str, Json] | None) -> Mapping[str, Json] | None:
        """Return the payload of a change, None if it has nothing but blanks; an empty one empties the payload."""
        handler = self.handlers.get(action)
        cleaned = without_blanks(handler, payload) if handler and payload else payload
        return None if payload and not cleaned else payload

    def follow_ups(self, by: Principal, now: datetime, origin: Mapping[str, str]) -> FollowUpReader:
        """Return the reader of `on_failure`, which plans the task to run as any other task of the caller."""
        return FollowUpReader(
            self.channels, lambda request: self.plan(replace(request, when=timedelta(0)), by, now).task, origin
        )

    def _following(self, request: Request, by: Principal, now: datetime) -> Mapping[str, Json]:
        return self.asked_by(request.raw).follow_ups(by, now, unread(request.origin)).read(request.on_failure)

    def _other_actions(self, action: str) -> tuple[str, ...]:
        return tuple(name for name in self.handlers if name != REMINDER_ACTION) if action == REMINDER_ACTION else ()

    def _check_deliver_to(self, request: Request) -> None:
        self.channels.check(request.deliver_to, unread(request.origin))

    def _situation(
        self, request: Request, timing: Timing | None, by: Principal, now: datetime, *, recurs: bool
    ) -> RunContext:
        """Return the context of the demand; for an invalid time, as if the run were due now."""
        return RunContext(
            by.tenant,
            request.action,
            due=timing.first if timing else now,
            now=now,
            zone=timing.zone if timing else self.times.zone_of(request),
            recurring=recurs or request.repeat is not None,
            frame=self.times.frame(request.timezone),
            times_of_day=timing.times_of_day if request.deadline and timing else (),
        )

    def _task(
        self,
        request: Request,
        payload: Mapping[str, Json],
        timing: Timing,
        parts: Mapping[str, Any],
        *,
        by: Principal,
        now: datetime,
        task_id: str | None,
    ) -> Task:
        return Task(
            id=task_id or new_task_id(),
            tenant=by.tenant,
            owner=by.user,
            title=request.title.strip(),
            action=request.action,
            payload=payload,
            timezone=timing.zone,
            when=words_of(request.when) if request.when is not None else "now",
            repeat=timing.recurrence.rule if timing.recurrence else None,
            anchor=timing.recurrence.anchor if timing.recurrence else timing.first,
            until=timing.until,
            max_runs=timing.max_runs,
            paused=False,
            retry=as_policy(request.retry) or self.default_retry(request.action),
            deliver_to=self.channels_of(request.deliver_to, parts["origin"]),
            labels=tuple(dict.fromkeys(request.labels)),
            revision=1,
            created_at=now,
            updated_at=now,
            notify=Notify(request.notify or Notify.ALWAYS),
            repeat_policy=timing.policy,
            key_template=template_text(request.idempotency_key),
            **parts,
        )

    def undelivered_notes(self, task: Task) -> tuple[str, ...]:
        """Return what is said of the channels of a task that cannot deliver now, as a secret of theirs is gone."""
        if not (task.deliver_to or task.on_failure):
            return ()
        named = [*task.deliver_to, *filter(None, [task.on_failure.get(ON_FAILURE_NOTIFY)])]
        lacking = self.channels.lacking(list(map(str, named)), self.channel_secrets)
        text = "every message to {} fails, as a secret that it needs is not set: `duetime doctor` says which"
        return tuple(Translatable.of(NoteKind.UNDELIVERABLE, text.format(name), channel=name) for name in lacking)

    def default_retry(self, action: str) -> RetryPolicy:
        """Return the policy of a task that gives none."""
        handler = self.handlers.get(action)
        return (handler.retry if handler else None) or self.retry

    def channels_of(self, deliver_to: Sequence[str], origin: Mapping[str, str]) -> tuple[str, ...]:
        """Return the channels that are meant: none named are the default ones."""
        return self.channels.check(deliver_to or self.default_channels, origin)


def first_run(task: Task, scheduled_for: datetime) -> Run:
    """Return the first occurrence of a task."""
    return Run(
        id=new_id("r"),
        task_id=task.id,
        tenant=task.tenant,
        scheduled_for=scheduled_for,
        state=State.SCHEDULED,
        wake_at=scheduled_for + delay_of(task),
        occurrence=planned_window(task, scheduled_for),
    )


def _waiting(plan: Plan) -> Run:
    """Return the first run as waiting, without a timer."""
    return without_early_deadline(plan.task, replace(plan.run, state=State.WAITING, wake_at=None))
