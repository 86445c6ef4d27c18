"""Metrics of the runs of this process: a subscriber of their events.

A batch of events has at most some hundred of them, and each costs a few microseconds. The counters of a tier and an
action are looked up together, once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import cached_property
from typing import Final

from duetime.scheduler.events import EventKind
from duetime.scheduler.rules.limits.price import MICROS_PER_UNIT
from duetime.scheduler.rules.states import TERMINAL
from duetime.scheduler.run_records import Claim, EndedRun, Settlement
from duetime.scheduler.runtime.notifier import RunEvent
from duetime.scheduler.task import State, Tier
from duetime.scheduler.worker.threads.preemption import GAVE_WAY
from prometheus_client import CollectorRegistry, Counter, Histogram

LabelOf = Callable[[str], str]
"""Makes the value of a label of a name."""

OF_RUN: Final = ("tier", "action")
LATENCY_BUCKETS_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 14_400)
LONG_BUCKETS_S: Final = (0.1, 1, 5, 15, 60, 300, 900, 3600, 21_600, 86_400)
_MISSES: Final = frozenset({State.FAILED, State.EXPIRED})
_JUDGED: Final = frozenset({State.SUCCEEDED}) | _MISSES
"""Ends that say whether a deadline was met; nobody waits for what was cancelled or skipped."""


class _Instruments:
    """The counters and histograms of all runs."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"duetime_{name}", text, labels, registry=registry)

        def histogram(name: str, text: str, buckets: Sequence[float], *labels: str) -> Histogram:
            return Histogram(f"duetime_{name}_seconds", text, labels, registry=registry, buckets=buckets)

        self.started = counter("attempts_started", "Attempts that started.", *OF_RUN)
        self.attempts = counter("attempts", "Attempts that ended, by their outcome.", *OF_RUN, "outcome")
        self.runs = counter("runs", "Runs that ended, by their state.", *OF_RUN, "state")
        self.retries = counter("retries", "Attempts that failed and are tried again.", *OF_RUN)
        self.dead_letters = counter("dead_letters", "Runs that became dead letters.", *OF_RUN)
        self.preemptions = counter("preemptions", "Attempts that gave way to a more urgent run.", *OF_RUN)
        self.crashes = counter("crashes", "Attempts whose worker was lost, noticed by this process.")
        self.deadlines = counter("deadlines", "Runs with a deadline that succeeded, failed or expired.", *OF_RUN)
        self.missed = counter("deadlines_missed", "Runs with a deadline that did not succeed in time.", *OF_RUN)
        lateness = "How long after its deadline a run ended that missed it."
        self.lateness = histogram("deadline_lateness", lateness, LONG_BUCKETS_S, *OF_RUN)
        self.duration = histogram("run_duration", "From the first start of a run to its end.", LONG_BUCKETS_S, *OF_RUN)
        dispatch = "From when a run was due to its first start."
        self.dispatch = histogram("dispatch_latency", dispatch, LATENCY_BUCKETS_S, "tier")
        wait = "From when a run was ready to its first start."
        self.wait = histogram("run_wait", wait, LATENCY_BUCKETS_S, "tier")
        self.cost = counter("cost", "Cost of ended attempts, in the currency of the installation.", *OF_RUN)
        self.reserved = counter("pool_reserved_units", "Units that ended attempts had reserved.", "pool")
        self.used = counter("pool_used_units", "Units that they used.", "pool")
        self.wasted = counter("pool_wasted_units", "Units that they had reserved and did not use.", "pool")


class _OfRuns:
    """The series of one tier and one action.

    Counters that alerts compare begin at 0: Prometheus takes no increase from a series that was not there before.
    """

    def __init__(self, of: _Instruments, tier: Tier, action: str) -> None:
        self.tier, self.action = tier, action
        self._of = of
        labels = tier, action
        self.started = of.started.labels(*labels)
        self.retries = of.retries.labels(*labels)
        self.dead_letters = of.dead_letters.labels(*labels)
        self.preemptions = of.preemptions.labels(*labels)
        self.deadlines = of.deadlines.labels(*labels)
        self.missed = of.missed.labels(*labels)
        self.dispatch = of.dispatch.labels(tier)
        self.wait = of.wait.labels(tier)
        self._ends: dict[tuple[str, State], tuple[Counter, ...]] = {}

    @cached_property
    def duration(self) -> Histogram:
        return self._of.duration.labels(self.tier, self.action)

    @cached_property
    def cost(self) -> Counter:
        return self._of.cost.labels(self.tier, self.action)

    @cached_property
    def lateness(self) -> Histogram:
        return self._of.lateness.labels(self.tier, self.action)

    def ended(self, state: State) -> Counter:
        """Return the counter of the runs that ended in a state."""
        return self._of.runs.labels(self.tier, self.action, state)

    def end(self, outcome: str, to: State) -> tuple[Counter, ...]:
        """Return the counters that the end of an attempt raises."""
        found = self._ends.get((outcome, to))
        if found is None:
            attempts = self._of.attempts.labels(self.tier, self.action, outcome)
            runs = [self.ended(to)] if to in TERMINAL else []
            retries = [self.retries] if to is State.RETRYING else []
            found = self._ends[outcome, to] = (attempts, *runs, *retries)
        return found


class RunMetrics:
    """Counts events of runs; `action` and `pool` make labels of their names, `now` is the deciding clock."""

    def __init__(
        self, registry: CollectorRegistry, *, action: LabelOf, pool: LabelOf, now: Callable[[], datetime]
    ) -> None:
        self._of = _Instruments(registry)
        self._action = action
        self._pool = pool
        self._now = now
        self._series: dict[tuple[Tier, str], _OfRuns] = {}

    def expect(self, actions: Iterable[str]) -> None:
        """Begin the series of runs of these actions."""
        for action in actions:
            for tier in Tier:
                self._of_runs(tier, action)

    def __call__(self, events: Sequence[RunEvent]) -> None:
        """Count events; called after their commit, on the thread that stored them."""
        now = self._now()
        for event in events:
            if event.kind is EventKind.STARTED and event.claim is not None:
                self._start(event.claim, now)
            elif event.settlement is not None and event.claim is not None:
                self._end(event.claim, event.settlement, now)
            elif event.end is not None:
                self._end_without_attempt(event.end, now)
            if event.kind is EventKind.CRASHED:
                self._of.crashes.inc()

    def _of_runs(self, tier: Tier, action: str) -> _OfRuns:
        found = self._series.get((tier, action))
        if found is None:
            label = self._action(action)
            found = self._series.setdefault((tier, label), _OfRuns(self._of, tier, label))
            if label == action:
                self._series[tier, action] = found
        return found

    def _start(self, claim: Claim, now: datetime) -> None:
        series, run = self._of_runs(claim.task.priority, claim.task.action), claim.run
        series.started.inc()
        if run.attempt == 1:
            started = run.started_at or now
            series.dispatch.observe(max(0.0, (started - run.scheduled_for).total_seconds()))
            series.wait.observe(max(0.0, (started - (run.first_ready_at or started)).total_seconds()))

    def _end(self, claim: Claim, end: Settlement, now: datetime) -> None:
        series, run = self._of_runs(claim.task.priority, claim.task.action), claim.run
        for counter in series.end(end.outcome, end.to):
            counter.inc()
        if end.to in TERMINAL and run.started_at is not None:
            series.duration.observe(max(0.0, (now - run.started_at).total_seconds()))
        if run.deadline is not None and end.to in _JUDGED:
            _judge(series, run.deadline, end.to, now)
        if end.dead_letter:
            series.dead_letters.inc()
        if end.reason is not None and end.outcome == "yielded" and end.reason.startswith(GAVE_WAY):
            series.preemptions.inc()
        if end.used:
            self._charge(claim, end)
        if end.costs:
            series.cost.inc(sum(end.costs.values()) / MICROS_PER_UNIT)

    def _end_without_attempt(self, end: EndedRun, now: datetime) -> None:
        series = self._of_runs(end.tier, end.action)
        series.ended(end.state).inc()
        if end.started_at is not None:
            series.duration.observe(max(0.0, (now - end.started_at).total_seconds()))
        if end.deadline is not None and end.state in _JUDGED:
            _judge(series, end.deadline, end.state, now)

    def _charge(self, claim: Claim, end: Settlement) -> None:
        for name, used in end.used.items():
            pool, reserved = self._pool(name), claim.reserved.get(name, 0)
            self._of.used.labels(pool).inc(max(0.0, used))
            self._of.reserved.labels(pool).inc(reserved)
            self._of.wasted.labels(pool).inc(max(0.0, reserved - used))


def _judge(series: _OfRuns, deadline: datetime, to: State, now: datetime) -> None:
    """Count a deadline, and how much it was missed by."""
    series.deadlines.inc()
    late = (now - deadline).total_seconds()
    if late > 0 or to in _MISSES:
        series.missed.inc()
        series.lateness.observe(max(0.0, late))
