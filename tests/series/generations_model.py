"""Generations of a chain as its user may think of them: what becomes of one that falls due while another is open.

The reference that the walk of generations compares the product with: docs/chains.md ("Overlap and catch-up"), written
plainly. Nothing here is from the product.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

HOUR = timedelta(hours=1)
ATTEMPT_COUNT = 3
PAUSE_BETWEEN_ATTEMPTS = timedelta(minutes=5)
PATIENCE = timedelta(hours=2)
"""The longest wait of an attempt for its event; then the attempt continues without it."""

MAX_LEFT_OUT_RUNS = 10
"""Generations that leave a run each when they are left out; the others are counted."""

ENDED = frozenset({"succeeded", "failed", "cancelled", "skipped"})
OVERTAKING = frozenset({"cancel_other", "allow_all"})


@dataclass(frozen=True)
class Plan:
    """A step: which others it comes after, what a bad end of one of them means for it, and whether it asks first."""

    name: str
    after: tuple[str, ...] = ()
    policy: str = "fail"
    asks: bool = False


@dataclass
class StepRun:
    """The run of a step in one generation: `at` is when it may start, `stop` whether it was asked to stop.

    A stop `by_user` ends the series with the run, unless that succeeds nonetheless. It ended `with_another` where it
    has not run because of a step before it. `run_id` is that of its attempt. It is `asked` for until its `yes`. Its
    attempt waits for an event `until` then.
    """

    plan: Plan
    at: datetime
    state: str
    failures: int = 0
    stop: bool = False
    by_user: bool = False
    with_another: bool = False
    asked: bool = False
    yes: bool = False
    run_id: str = ""
    ended_at: datetime | None = None
    until: datetime | None = None

    @property
    def is_open(self) -> bool:
        return self.state not in ENDED

    @property
    def may_start(self) -> bool:
        return self.yes or not self.plan.asks


@dataclass
class Generation:
    """One generation: it is `due` by the rule, and open since its first step might start."""

    number: int
    due: datetime
    runs: dict[str, StepRun]
    opened: datetime | None = None

    @property
    def is_open(self) -> bool:
        return any(run.is_open for run in self.runs.values())

    @property
    def goes_on(self) -> bool:
        return any(run.is_open and not run.stop for run in self.runs.values())

    @property
    def was_cancelled(self) -> bool:
        """Whether a step was asked to stop with the chain: then the next generation waits for the end of this one."""
        return any(run.by_user for run in self.runs.values())

    @property
    def ends_series(self) -> bool:
        return any(run.by_user and run.state != "succeeded" for run in self.runs.values())


@dataclass
class GenerationsModel:
    """A chain that recurs on the hour, its generations, and the hours that were left out."""

    plans: tuple[Plan, ...]
    first: datetime
    overlap: str
    task_ids: dict[str, str] = field(default_factory=dict)
    generations: list[Generation] = field(default_factory=list)
    left_out: list[datetime] = field(default_factory=list)
    letters: dict[str, tuple[str, int]] = field(default_factory=dict)
    is_over: bool = False
    paused: bool = False

    def __post_init__(self) -> None:
        self._begin(self.first)

    @property
    def current(self) -> Generation:
        return self.generations[-1]

    # -- what time and workers bring

    def tick(self, now: datetime) -> None:
        """Open what is due, and let the next generation overtake one that is open; a pause holds both."""
        while not self.paused:
            one = self.current
            waiting = [run for run in one.runs.values() if run.state == "scheduled" and run.at <= now]
            if one.opened is None and waiting:
                one.opened = now
            newest = self._newest(one, now)
            self._ask(now)
            overtakes = one.goes_on and not one.was_cancelled and self.overlap in OVERTAKING
            if self.is_over or not overtakes or newest is None:
                return
            if self.overlap == "allow_all":
                self._begin(newest)
            elif not self._give_way(one, now):
                return

    def startable(self, now: datetime) -> set[tuple[str, int]]:
        return {
            (name, each.number)
            for each in self.generations
            for name, run in each.runs.items()
            if run.state in ("scheduled", "retrying", "suspended")
            and run.at <= now
            and run.may_start
            and not self.paused
        }

    def start(self, name: str, number: int, run_id: str) -> None:
        run = self.of(number).runs[name]
        run.state, run.run_id, run.until = "running", run_id, None

    def finish(self, name: str, number: int, how: str, now: datetime) -> None:
        """End an attempt: done, failed, retry, or wait."""
        run = self.of(number).runs[name]
        if how == "retry" and not run.stop and run.failures + 1 < ATTEMPT_COUNT:
            run.failures += 1
            run.state, run.at = "retrying", now + PAUSE_BETWEEN_ATTEMPTS
            return
        if how == "wait" and not run.stop:
            run.state, run.until = "suspended", now + PATIENCE
            run.at = run.until
            return
        run.state = "succeeded" if how == "done" else "cancelled" if run.stop else "failed"
        run.ended_at = now
        if run.state == "failed":
            self.letters[run.run_id] = (name, number)
        if run.state == "succeeded" and number != self.current.number:
            self._run_again(self.of(number), name, now)
        self._follow(self.of(number), now)

    # -- what a user asks for

    def cancel(self, now: datetime) -> None:
        """End the series, with what is open of all generations."""
        self.is_over = True
        for each in self.generations:
            self._stop(each, now, by_user=True)

    def answer(self, name: str, number: int, *, yes: bool, now: datetime) -> None:
        """Answer for a step in one generation: a no skips it there."""
        run = self.of(number).runs[name]
        run.asked, run.yes, run.state = False, yes, "scheduled"
        if not yes:
            run.state, run.ended_at = "skipped", now
            self._follow(self.of(number), now)

    def send(self, name: str, number: int, now: datetime) -> None:
        """Send the event for which an attempt waits."""
        run = self.of(number).runs[name]
        run.at, run.until = now, None

    def replay(self, run_id: str, now: datetime) -> None:
        """Run a failed step again, in its own generation, which is an earlier one."""
        name, number = self.letters.pop(run_id)
        runs = self.of(number).runs
        runs[name] = StepRun(runs[name].plan, now, "scheduled")

    def of(self, number: int) -> Generation:
        return next(each for each in self.generations if each.number == number)

    # -- parts

    def _ask(self, now: datetime) -> None:
        """Ask for what is due in each generation."""
        for run in [run for each in self.generations for run in each.runs.values()]:
            if run.state == "scheduled" and run.at <= now and not run.may_start:
                run.state, run.asked = "waiting", True

    def _begin(self, due: datetime, *, opened: datetime | None = None) -> None:
        runs = {plan.name: StepRun(plan, due, "waiting" if plan.after else "scheduled") for plan in self.plans}
        self.generations.append(Generation(len(self.generations) + 1, due, runs, opened))

    def _give_way(self, one: Generation, now: datetime) -> bool:
        """Stop what is open; return whether that has ended the generation, so that the next one stands."""
        self._stop(one, now)
        return self._renew(one, now)

    def _stop(self, one: Generation, now: datetime, *, by_user: bool = False) -> None:
        for run in one.runs.values():
            if run.state == "running":
                run.stop, run.by_user = True, by_user
            elif run.is_open:
                run.state, run.ended_at, run.asked = "cancelled", now, False

    def _follow(self, one: Generation, now: datetime) -> None:
        """Let the steps continue, or end, that come after what has ended in their generation."""
        moved = True
        while moved:
            moved = False
            for run in [run for run in one.runs.values() if run.state == "waiting" and not run.asked]:
                before = [one.runs[name] for name in run.plan.after]
                bad = [each for each in before if not each.is_open and self._verdict(run, each)]
                if bad:
                    cause = min(bad, key=lambda each: (each.ended_at or now, self.task_ids[each.plan.name]))
                    run.state, run.ended_at, moved = self._verdict(run, cause), now, True
                    run.with_another = True
                elif not any(each.is_open for each in before):
                    run.state, run.at, moved = "scheduled", now, True
        self._renew(one, now)

    def _run_again(self, one: Generation, name: str, now: datetime) -> None:
        """Let the steps behind one that has succeeded run that had ended with another, once none before holds them."""
        for run in [run for run in one.runs.values() if name in run.plan.after and run.with_another]:
            before = [one.runs[each] for each in run.plan.after]
            if not any(each.is_open or self._verdict(run, each) for each in before):
                one.runs[run.plan.name] = StepRun(run.plan, now, "scheduled")

    def _verdict(self, run: StepRun, before: StepRun) -> str:
        """Give the end of a step that follows from another one's, empty if it may run."""
        if before.state == "succeeded" or run.plan.policy == "run_anyway":
            return ""
        return "skipped" if run.plan.policy == "skip" else before.state

    def _renew(self, one: Generation, now: datetime) -> bool:
        """Begin the next generation when the newest one has ended; return whether it did."""
        if one is not self.current or one.is_open or self.is_over or one.ends_series:
            return False
        since = max(one.due, min(one.opened or now, now))
        missed = list(_hours(since, now))
        if not missed:
            self._begin(next(_hours(max(now, one.due), now + 2 * HOUR + (max(now, one.due) - now))))
        elif self.overlap == "skip":
            self._leave_out(missed)
            self._begin(missed[-1] + HOUR)
        elif self.overlap == "buffer_all":
            self._begin(missed[0], opened=missed[0])
        elif self.overlap == "buffer_one":
            self._leave_out(missed[1:])
            self._begin(missed[0])
        else:
            self._leave_out(missed[:-1])
            self._begin(missed[-1])
        return True

    def _leave_out(self, hours: list[datetime]) -> None:
        self.left_out += hours[:MAX_LEFT_OUT_RUNS]

    def _newest(self, one: Generation, now: datetime) -> datetime | None:
        """Return the newest time of the rule since a generation was opened."""
        return max(_hours(max(one.due, one.opened), now), default=None) if one.opened else None


def _hours(after: datetime, until: datetime) -> Iterator[datetime]:
    """Yield the full hours after a time, up to another one."""
    hour = after.replace(minute=0, second=0, microsecond=0) + HOUR
    while hour <= until:
        yield hour
        hour += HOUR
