"""A chain as its user may think of it: steps, what each comes after, and what follows when one ends.

The reference that the walk compares the product with: docs/states.md ("Tasks that come after others") and docs/tools.md
("Chains"), written plainly. Nothing here is from the product.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import count

UNDO = timedelta(seconds=35)
ATTEMPTS = 3
PAUSE_BETWEEN_ATTEMPTS = timedelta(minutes=5)
ENDED = frozenset({"succeeded", "failed", "cancelled", "skipped"})
BADLY = {"cancelled": "cancelled", "skipped": "skipped"}
_serial = count()


class Refuses(Exception):
    """The user is told why not."""


@dataclass(eq=False)
class Edge:
    """One step comes after another: `how` that one ended, None as long as it is waited for.

    `at` is when it was followed; `ended` is the run of the later step that this end has ended.
    """

    upstream: Step
    policy: str = "fail"
    schema: bool = False
    how: str | None = None
    at: datetime | None = None
    ended: int | None = None

    @property
    def verdict(self) -> str | None:
        """How the later step ends by this, None if it may run."""
        if self.how in (None, "succeeded") or self.policy == "run_anyway":
            return None
        return "skipped" if self.policy == "skip" else BADLY.get(self.how or "", "failed")


@dataclass(eq=False)
class Step:
    """A step: `at` is when it is due, `wake` when its timer fires, which a retry, a pause or an undo puts off.

    `run` numbers its runs, `valid` is whether its last result meets a schema. `waited`: it did when it was cancelled.
    """

    name: str
    at: datetime
    wake: datetime
    after: list[Edge] = field(default_factory=list)
    task_id: str = ""
    state: str = "scheduled"
    paused: bool = False
    started: bool = False
    stop: bool = False
    waited: bool = False
    failures: int = 0
    valid: bool = True
    ended_at: datetime | None = None
    run: int = field(default_factory=lambda: next(_serial))

    @property
    def waits_for(self) -> list[Edge]:
        return [edge for edge in self.after if edge.how is None]

    @property
    def is_open(self) -> bool:
        return self.state not in ENDED

    @property
    def due(self) -> datetime:
        return self.wake if self.state in ("scheduled", "retrying") else self.at

    def goes_on(self, now: datetime) -> datetime:
        """Return when it begins, or its next attempt does."""
        if not self.started:
            return self.at
        return max(self.wake, now) if self.state in ("scheduled", "retrying") else now

    def again(self, state: str, at: datetime, now: datetime) -> None:
        """Begin another run."""
        self.state, self.at, self.wake, self.run = state, at, max(at, now), next(_serial)
        self.started, self.stop, self.failures, self.ended_at = False, False, 0, None


@dataclass
class ChainModel:
    """A chain of steps; one that recurs has a generation, and forgets what its runs spawned."""

    steps: list[Step]
    recurs: bool = False
    generation: int = 1
    spawned: list[Step] = field(default_factory=list)
    renewed: bool = False

    @property
    def all(self) -> list[Step]:
        return [*self.steps, *self.spawned]

    # -- what a user asks for

    def cancel(self, step: Step, now: datetime) -> None:
        """Cancel one; what is cancelled stays so."""
        if step.state == "cancelled":
            return
        _refuse(not step.is_open)
        if step.state == "running":
            step.stop = True
            return
        step.waited = step.state == "waiting"
        self._end(step, "cancelled", now)

    def undo_cancel(self, step: Step, now: datetime) -> None:
        _refuse(step.state != "cancelled" or step.started or step.ended_at is None or now - step.ended_at > UNDO)
        _refuse(any(edge.ended == step.run for edge in step.after))
        step.again("scheduled", step.at, now)
        self._reopen(step, now)
        if step.waited:
            step.state = "waiting"
            self._judge([step], now)

    def cancel_all(self, now: datetime) -> None:
        """Cancel what is open, the last steps first, so that none ends by another."""
        _refuse(not self._cancels and not any(step.state == "cancelled" for step in self.all))
        for step in self._last_first():
            if step.is_open:
                self.cancel(step, now)

    @property
    def _cancels(self) -> bool:
        return any(step.is_open for step in self.all)

    def undo_cancel_all(self, cancelled: Iterable[Step], now: datetime) -> None:
        chosen = set(cancelled)
        for step in reversed(self._last_first()):
            if step in chosen:
                self.undo_cancel(step, now)

    def move(self, step: Step, to: datetime, now: datetime) -> None:
        """Move it; one that has ended runs again then, and what has begun goes on with its next attempt then."""
        _refuse(step.state in ("running", "cancelled"))
        if not step.is_open:
            step.again("scheduled", to, now)
            self._reopen(step, now)
            return
        step.at = step.at if step.started else to
        step.wake, step.state = max(to, now), "scheduled" if step.state == "ready" else step.state

    def run_now(self, step: Step, now: datetime) -> None:
        """Run it whatever it comes after."""
        self.move(step, now, now)
        step.state = "scheduled" if step.state == "waiting" else step.state
        step.paused = False

    def move_all(self, to: datetime, now: datetime) -> None:
        """Move what is open; each keeps its distance from the first, and what has begun goes on then."""
        waiting = [step for step in self.all if step.is_open]
        _refuse(not waiting or all(step.state == "running" for step in waiting))
        left = [step for step in waiting if step.state != "running"]
        first = min(step.goes_on(now) for step in left)
        for step in left:
            self.move(step, to if step.started else max(step.at + (to - first), to), now)

    def pause(self, step: Step) -> None:
        if not step.paused:
            _refuse(not step.is_open)
            step.paused = True
            if step.state == "ready":
                step.state, step.wake = "scheduled", step.at

    def resume(self, step: Step, now: datetime) -> None:
        if step.paused and step.state in ("scheduled", "retrying"):
            step.wake = max(step.wake, now)
        step.paused = False

    def pause_all(self) -> None:
        waiting = [step for step in self.all if step.is_open]
        _refuse(not waiting)
        for step in waiting:
            self.pause(step)

    def resume_all(self, now: datetime) -> None:
        waiting = [step for step in self.all if step.is_open]
        _refuse(not waiting)
        for step in waiting:
            self.resume(step, now)

    def remember(self) -> Callable[[], None]:
        """Return what makes everything as it is now."""
        kept = [(each, dict(vars(each))) for each in (*self.all, *(edge for step in self.all for edge in step.after))]

        def back() -> None:
            for each, was in kept:
                vars(each).update(was)

        return back

    def remember_run(self, step: Step, now: datetime) -> Callable[[], None]:
        """Return what takes a run of a step back: one that had ended ends what comes after it once more."""
        if step.is_open:
            return self.remember()
        was = dict(vars(step))

        def back() -> None:
            vars(step).update(was)
            self._follow([step], now)

        return back

    # -- what time brings

    def make_ready(self, now: datetime) -> None:
        for step in self.all:
            if step.state in ("scheduled", "retrying") and not step.paused and step.wake <= now:
                step.state = "ready"

    def startable(self) -> list[Step]:
        return [step for step in self.all if step.state == "ready" and not step.paused]

    def start(self, step: Step) -> None:
        step.state, step.started = "running", True

    def finish(self, step: Step, how: str, now: datetime, spawned: Mapping[str, tuple[str, ...]] | None = None) -> None:
        """End an attempt: done, odd (another result than a schema asks for), failed, or retry."""
        if how == "retry" and not step.stop and step.failures + 1 < ATTEMPTS:
            step.failures += 1
            step.state, step.wake = "retrying", now + PAUSE_BETWEEN_ATTEMPTS
            return
        well = how in ("done", "odd")
        step.valid = how == "done"
        self._spawn(step, spawned or {}, now)
        self._end(step, "succeeded" if well else "cancelled" if step.stop else "failed", now)

    # -- what holds

    def waiters(self, step: Step) -> set[tuple[str, str]]:
        """Return what waits for a step, directly or behind others, and is not held itself, each with for what."""
        found: set[tuple[str, str]] = set()
        left, seen = [step], {step.task_id}
        while left:
            upper = left.pop()
            for lower in self.all:
                for edge in lower.waits_for:
                    if edge.upstream is upper:
                        if lower.state == "waiting" and not lower.paused:
                            found.add((upper.task_id, lower.task_id))
                        if lower.task_id not in seen:
                            seen.add(lower.task_id)
                            left.append(lower)
        return found

    # -- parts

    def _spawn(self, step: Step, spawned: Mapping[str, tuple[str, ...]], now: datetime) -> None:
        """Add steps behind the one that spawned them; what waits for it waits for all of them."""
        new: dict[str, Step] = {}
        for name, after in spawned.items():
            edges = [Edge(new[each]) for each in after]
            new[name] = Step(f"{step.name}/{name}", now, now, edges, state="waiting" if edges else "scheduled")
        for lower in self.all:
            policies = [edge.policy for edge in lower.waits_for if edge.upstream is step]
            lower.after += [Edge(each, policy) for policy in policies for each in new.values()]
        self.spawned += new.values()

    def _end(self, step: Step, how: str, now: datetime) -> None:
        step.state, step.ended_at = how, now
        self._follow([step], now)

    def _follow(self, ended: list[Step], now: datetime) -> None:
        touched = []
        for lower in self.all:
            for edge in lower.waits_for:
                if edge.upstream in ended:
                    wrong = edge.schema and edge.upstream.state == "succeeded" and not edge.upstream.valid
                    edge.how, edge.at = ("failed" if wrong else edge.upstream.state), now
                    touched.append(lower)
        self._judge(touched, now)
        self._renew()

    def _judge(self, touched: Iterable[Step], now: datetime) -> None:
        """Let those go that wait for nothing more, or end them with what they came after."""
        ended = []
        for step in dict.fromkeys(each for each in touched if each.state == "waiting"):
            bad = [edge for edge in step.after if edge.verdict]
            if bad:
                cause = min(bad, key=lambda edge: (edge.at or now, edge.upstream.task_id))
                cause.ended = step.run
                step.state, step.ended_at = cause.verdict or "", now
                ended.append(step)
            elif not step.waits_for:
                step.state, step.at = "scheduled", max(step.at, now)
                step.wake = step.at
        if ended:
            self._follow(ended, now)

    def _reopen(self, step: Step, now: datetime) -> None:
        """Wait again for what runs again; what had ended with it waits again, all the way down."""
        for lower in self.all:
            for edge in lower.after:
                if edge.upstream is step:
                    revived = edge.ended == lower.run and not lower.is_open
                    edge.how = edge.at = edge.ended = None
                    if revived:
                        lower.again("waiting", lower.at, now)
                        self._reopen(lower, now)

    def _renew(self) -> None:
        """Begin the next generation when all steps have ended, unless one was cancelled."""
        if not self.recurs or any(step.is_open or step.stop or step.state == "cancelled" for step in self.all):
            return
        inner = set(self.steps)
        for step in self.steps:
            step.after = [edge for edge in step.after if edge.upstream in inner]
            for edge in step.after:
                edge.how = edge.at = edge.ended = None
            step.again("waiting" if step.after else "scheduled", step.at, step.at)
        self.spawned.clear()
        self.generation, self.renewed = self.generation + 1, True

    def _last_first(self) -> list[Step]:
        order: list[Step] = []

        def visit(step: Step) -> None:
            if step not in order:
                for edge in step.after:
                    visit(edge.upstream)
                order.append(step)

        for step in self.all:
            visit(step)
        return order[::-1]


def _refuse(why: bool) -> None:
    if why:
        raise Refuses
