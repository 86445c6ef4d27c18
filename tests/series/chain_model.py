"""A chain as its user may think of it: steps, what each comes after, and what follows when one ends.

The reference that the walk compares the product with: docs/states.md ("Tasks that come after others") and
docs/chains.md, written plainly. Nothing here is from the product.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import count

UNDO = timedelta(seconds=35)
SAME_CLICK = timedelta(seconds=30)
ATTEMPT_COUNT, SPAWNED_ATTEMPT_COUNT = 3, 5
PATIENCE = timedelta(hours=2)
"""For how long an attempt waits for its event."""

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
        """Give the end of the later step that follows from this, None if it may run."""
        if self.how in (None, "succeeded") or self.policy == "run_anyway":
            return None
        return "skipped" if self.policy == "skip" else BADLY.get(self.how or "", "failed")


@dataclass(frozen=True)
class Question:
    """The question whether a step may run: for how long it is asked, and the answer then; None: without an end."""

    text: str
    default: str = "reject"
    span: timedelta | None = None


@dataclass(frozen=True)
class Asked:
    """A question of one run: until when, and its `answer`; closed without one it was withdrawn, which a move says."""

    at: datetime
    ends: datetime | None
    open: bool = True
    answer: str = ""
    moved: bool = False

    def for_longer(self, now: datetime, *, again: bool = False) -> Asked:
        """Return it with a time that is to come, if its own is over or what has run asks again."""
        if not again and (self.ends is None or self.ends > now):
            return self
        return replace(self, at=now, ends=now + (self.ends - self.at) if self.ends else None)


@dataclass(eq=False)
class Step:
    """A step: `at` is when it is due, `wake` when its timer fires, which a retry, a pause or an undo puts off.

    `run` numbers its runs, `valid` is whether its last result meets a schema. `waited`: it did when it was cancelled.
    `asked` is the question of its run, `opened` since when that is due of which each generation is asked. Its attempt
    waits for an event `until` then. `wanted` is when somebody ran it again after its end. `failed` is the run that
    failed, by its id, `letters` those whose dead letters are open. It is `renewed` while its last run is that of an
    earlier generation, in which it `fell`, with the dead letter of the run `fallen`. `freed` is when it was let go.
    """

    name: str
    at: datetime
    wake: datetime
    question: Question | None = None
    place: int = 0
    asked: Asked | None = None
    opened: datetime | None = None
    answered: tuple[tuple[str, datetime], ...] = ()
    until: datetime | None = None
    wanted: datetime | None = None
    run_id: str = ""
    failed: str = ""
    letters: tuple[str, ...] = ()
    payload: str | None = None
    renewed: bool = False
    fell: bool = False
    fallen: str = ""
    after: list[Edge] = field(default_factory=list)
    task_id: str = ""
    state: str = "scheduled"
    paused: bool = False
    started: bool = False
    stop: datetime | None = None
    cancels: frozenset[datetime] = frozenset()
    undone: bool = False
    freed: datetime | None = None
    waited: bool = False
    failures: int = 0
    attempts: int = ATTEMPT_COUNT
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
    def asks(self) -> bool:
        return self.asked is not None and self.asked.open

    @property
    def due(self) -> datetime:
        return self.wake if self.state in ("scheduled", "retrying") else self.at

    def is_wanted_after(self, edge: Edge) -> bool:
        """Whether somebody ran it again in spite of that end."""
        return self.wanted is not None and edge.at is not None and edge.at <= self.wanted

    def is_held(self, now: datetime) -> bool:
        """Whether it waits for an event, before which it cannot run."""
        return self.until is not None and self.until > now

    def goes_on(self, now: datetime) -> datetime:
        """Return when it begins, or its next attempt does."""
        if not self.started:
            return self.at
        return max(self.wake, now) if self.state in ("scheduled", "retrying", "suspended") else now

    def begin(self, now: datetime, *, later: bool) -> None:
        """Wait for other steps, and for an answer, unless that is asked for `later`, when it is due."""
        if self.question and not later:
            self.asked = Asked(now, now + self.question.span if self.question.span else None)
        self.state = "waiting" if self.after or self.asks else "scheduled"

    def again(self, state: str, at: datetime, now: datetime) -> None:
        """Begin another run, of a new generation, which was not asked for yet."""
        self.state, self.at, self.wake, self.run = state, at, max(at, now), next(_serial)
        self.started, self.stop, self.failures, self.ended_at = False, None, 0, None
        self.undone, self.freed = False, None
        self.asked, self.opened, self.wanted, self.failed = None, None, None, ""

    def once_more(self, state: str, at: datetime, now: datetime) -> None:
        """Begin another run in place of one that ended: its yes stands if it never started, else it asks again."""
        asked, started, failed = self.asked, self.started, self.failed
        self.letters = tuple(each for each in self.letters if each != failed)
        self.again(state, at, now)
        if asked is None or asked.moved:
            return
        if asked.answer == "approve" and not started:
            self.asked = asked
            return
        longer = asked.for_longer(now, again=started or asked.ends is None)
        self.asked = Asked(longer.at, longer.ends)
        self.state = "waiting"

    def withdraw(self) -> None:
        if self.asked and self.asked.open:
            self.asked = replace(self.asked, open=False)


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
            step.stop = step.stop or now
            return
        step.waited = step.state == "waiting"
        self._end(step, "cancelled", now)

    def undo_cancel(self, step: Step, now: datetime) -> None:
        _refuse(step.state != "cancelled" or step.started or step.ended_at is None or now - step.ended_at > UNDO)
        _refuse(any(edge.ended == step.run for edge in step.after))
        wanted, opened, since = step.wanted, step.opened, step.ended_at
        step.once_more("scheduled", step.at, now)
        step.wanted, step.opened, step.undone = wanted, opened, True
        self._reopen(step, now, since)
        step.state = "waiting" if step.waited else step.state
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

    def move(self, step: Step, to: datetime, now: datetime, *, around: bool = False) -> None:
        """Move it; one that has ended runs again then, and what has begun goes on with its next attempt then.

        A step that is asked for when it is due is asked for again then; at the time that it has nothing changes.

        It waits for the steps that it comes after and that are still to come, unless it goes `around` them.
        """
        keeps_its_time = step.until is not None and to == step.until  # the end of its wait: nothing moves
        _refuse(step.state in ("running", "cancelled") or (step.is_held(now) and not keeps_its_time))
        if not step.is_open:
            step.once_more("waiting" if step.waits_for and not around else "scheduled", to, now)
            step.opened = now if step.asks and self._asks_later(step) else None
            self._reopen(step, now)
            step.wanted = now
            return
        if step.asked and step.asks and step.opened and self._asks_later(step):
            if to == step.at:
                return
            step.state, step.asked = "scheduled", replace(step.asked, open=False, moved=True)
        step.opened = step.opened if step.started else None
        step.at = step.at if step.started else to
        step.wake, step.state = max(to, now), "scheduled" if step.state == "ready" else step.state

    def run_now(self, step: Step, now: datetime) -> None:
        """Run it whatever it comes after, but not without a yes, and not while it is paused."""
        if self.replays(step) and step.fell:
            self._run_next_to(step, step.fallen)
            return
        _refuse(step.asks or step.paused)
        ended = not step.is_open
        self.move(step, now, now, around=True)
        step.freed = None
        step.state = "scheduled" if step.state == "waiting" and not ended else step.state

    def replay(self, step: Step, run_id: str, payload: str | None, now: datetime) -> None:
        """Run a failed step again, by its dead letter."""
        _refuse(run_id not in step.letters)
        if self.is_earlier(step, run_id):
            _refuse(payload is not None)
            self._run_next_to(step, run_id)
            return
        _refuse(step.is_open)
        self.run_now(step, now)
        step.letters = tuple(each for each in step.letters if each != run_id)
        step.payload = step.payload if payload is None else payload

    def replays(self, step: Step) -> bool:
        """Whether what failed runs again next to the generation to come."""
        return self.recurs and step.is_open and step.renewed

    def is_earlier(self, step: Step, run_id: str) -> bool:
        """Whether a run that failed is of an earlier generation, next to which it runs again."""
        return self.recurs and step.state != "cancelled" and run_id in step.letters and run_id != step.failed

    def _run_next_to(self, step: Step, run_id: str) -> None:
        """Run a step of an earlier generation again; the walk takes that back at once."""
        _refuse(step.state == "running" or step.paused)
        step.letters = tuple(each for each in step.letters if each != run_id)

    def discard(self, step: Step, run_id: str) -> None:
        _refuse(run_id not in step.letters)
        step.letters = tuple(each for each in step.letters if each != run_id)

    def send(self, step: Step, now: datetime) -> None:
        """Send the event for which an attempt of a step waits."""
        step.until, step.wake = None, now

    def answer(self, step: Step, how: str, now: datetime) -> None:
        """Answer what a step asks; the same answer once more changes nothing."""
        if not self._is_repeat(step, how, now):
            self._give(step, how, now)

    def answer_all(self, how: str, now: datetime) -> None:
        """Answer what the steps of the chain ask, which has to be one question."""
        asking = [step for step in self.in_place if step.asks]
        _refuse(len({step.question for step in asking}) > 1)
        for step in [each for each in asking or self.in_place[:1] if not self._is_repeat(each, how, now)]:
            if step.asks:
                self._give(step, how, now)

    def ask_again(self, back: Callable[[], None], now: datetime) -> None:
        """Ask again what was just withdrawn or approved; a question whose time is over for as long as before."""
        closed = [step for step in self.all if not step.asks]
        back()
        for step in [each for each in closed if each.asks]:
            step.asked = step.asked and step.asked.for_longer(now)

    def undo_answers(self, now: datetime) -> None:
        """Ask again what a no to the chain has just answered."""
        for step in [each for each in self.in_place if each.state == "cancelled" and each.ended_at == now]:
            if step.asked and step.asked.answer == "reject":
                self.undo_cancel(step, now)

    @property
    def in_place(self) -> list[Step]:
        return sorted(self.all, key=lambda step: step.place)

    def _is_repeat(self, step: Step, how: str, now: datetime) -> bool:
        if step.asked is None:
            recent = any(what == how and now - at <= SAME_CLICK for what, at in step.answered)
            _refuse(not (recent and self._asks_later(step)))
            return True
        if step.asked.open:
            return False
        _refuse(step.asked.answer != how)
        return True

    def _asks_later(self, step: Step) -> bool:
        return self.recurs and step.question is not None

    def _give(self, step: Step, how: str, now: datetime) -> None:
        assert step.asked
        step.asked = replace(step.asked, open=False, answer=how)
        step.answered = (*step.answered, (how, now))
        if how == "approve":
            self._judge([step], now)
        elif self._asks_later(step):
            self._end(step, "skipped", now)
        else:
            step.waited = True
            self._end(step, "cancelled", now)

    def move_all(self, to: datetime, now: datetime) -> None:
        """Move what is open; each keeps its distance from the next step, and what has begun goes on then."""
        waiting = [step for step in self.all if step.is_open]
        _refuse(not waiting or all(step.state == "running" for step in waiting))
        left = [step for step in waiting if step.state != "running" and not step.is_held(now)]
        if not left:
            _refuse(all(step.until != to for step in waiting))
            return
        next_ones = [step for step in left if not any(edge.upstream in waiting for edge in step.after)]
        first = min(step.goes_on(now) for step in next_ones or left)
        for step in left:
            self.move(step, to if step.started else max(step.at + (to - first), to), now)

    def pause(self, step: Step) -> None:
        if not step.paused:
            _refuse(not step.is_open)
            step.paused = True
            if step.state == "ready":
                step.state, step.wake = "scheduled", step.at

    def resume(self, step: Step, now: datetime) -> None:
        _refuse(step.state == "cancelled")
        if step.paused and step.state in ("scheduled", "retrying", "suspended"):
            step.wake = max(step.wake, now)
        step.paused = False

    def pause_all(self) -> None:
        """Pause what is open; of a chain that goes on, what has ended is held from the next generation on."""
        waiting = [step for step in self.all if step.is_open]
        _refuse(not waiting)
        for step in waiting:
            self.pause(step)
        if self.recurs and not any(step.state == "cancelled" for step in self.all):
            for step in self.steps:
                step.paused = True

    def resume_all(self, now: datetime) -> None:
        waiting = [step for step in self.all if step.is_open or (step.paused and step.state != "cancelled")]
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
        """Return what takes a run of a step back: one that had ended ends what comes after it once more.

        A step that waited, and did not any more, is judged again by all that has ended.
        """
        if step.is_open:
            as_it_was = self.remember()

            def waits_again() -> None:
                waited = step.state == "waiting"
                as_it_was()
                if not waited:
                    self._judge([step], now)

            return waits_again
        was = dict(vars(step))

        def back() -> None:
            vars(step).update(was)
            self._follow([step], now, of=step.ended_at)

        return back

    # -- what time brings

    def make_ready(self, now: datetime) -> None:
        """Let what is due be ready, or be asked for; and what nobody answered have its default."""
        while True:
            for step in [] if self.renewed else self.all:
                if step.state in ("scheduled", "retrying", "suspended") and not step.paused and step.wake <= now:
                    self._begin(step, now)
            late = [step for step in self.all if step.asks and not step.paused and _is_over(step.asked, now)]
            if not late:
                return
            for step in sorted(late, key=_end_of):
                if step.asks and step.question:
                    self._give(step, step.question.default, now)

    def _begin(self, step: Step, now: datetime) -> None:
        approved = step.asked is not None and step.asked.answer == "approve"
        if not self._asks_later(step) or step.started or approved or step.question is None:
            step.state, step.until = "ready", None
            return
        step.opened = step.opened or now
        step.state = "waiting"
        step.asked = Asked(step.opened, step.opened + step.question.span if step.question.span else None)

    def startable(self) -> list[Step]:
        return [step for step in self.all if step.state == "ready" and not step.paused]

    def start(self, step: Step, run_id: str) -> None:
        step.state, step.started, step.run_id = "running", True, run_id

    def finish(self, step: Step, how: str, now: datetime, spawned: Mapping[str, tuple[str, ...]] | None = None) -> None:
        """End an attempt: done, odd (another result than a schema asks for), failed, or retry."""
        if how == "retry" and not step.stop and step.failures + 1 < step.attempts:
            step.failures += 1
            step.state, step.wake = "retrying", now + PAUSE_BETWEEN_ATTEMPTS
            return
        if how == "wait" and not step.stop:
            step.state, step.wake, step.until = "suspended", now + PATIENCE, now + PATIENCE
            return
        well = how in ("done", "odd")
        step.valid = how == "done"
        self._spawn(step, spawned or {}, now)
        if not well and not step.stop:
            step.failed, step.letters = step.run_id, (*step.letters, step.run_id)
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
            new[name] = Step(f"{step.name}/{name}", now, now, after=edges, attempts=SPAWNED_ATTEMPT_COUNT)
            new[name].begin(now, later=False)
        for lower in self.all:
            policies = [edge.policy for edge in lower.waits_for if edge.upstream is step]
            lower.after += [Edge(each, policy) for policy in policies for each in new.values()]
        self.spawned += new.values()

    def _end(self, step: Step, how: str, now: datetime) -> None:
        step.renewed = step.renewed and (how == "skipped" or (how == "cancelled" and not step.started))
        step.state, step.ended_at, step.until = how, now, None
        step.cancels |= {now} if how == "cancelled" else set()
        step.withdraw()
        self._follow([step], now)

    def _follow(self, ended: list[Step], now: datetime, *, of: datetime | None = None) -> None:
        """Go on behind these, and behind what ends with them; all count as ends `of` that time, or of now."""
        touched = []
        for lower in self.all:
            for edge in lower.waits_for:
                if edge.upstream in ended:
                    wrong = edge.schema and edge.upstream.state == "succeeded" and not edge.upstream.valid
                    edge.how, edge.at = ("failed" if wrong else edge.upstream.state), of or now
                    touched.append(lower)
        self._judge(touched, now, of=of)
        self._renew()

    def _judge(self, touched: Iterable[Step], now: datetime, *, of: datetime | None = None) -> None:
        """Let those go that wait for nothing more, or end them with what they came after."""
        ended = []
        for step in dict.fromkeys(each for each in touched if each.state == "waiting"):
            bad = [edge for edge in step.after if edge.verdict and not step.is_wanted_after(edge)]
            if bad:
                cause = min(bad, key=lambda edge: (edge.at or now, edge.upstream.task_id))
                cause.ended = step.run
                step.state, step.ended_at = cause.verdict or "", now
                step.renewed = step.renewed and step.state != "failed"
                step.withdraw()
                ended.append(step)
            elif (step.opened or not step.waits_for) and not step.asks:
                step.state, step.at = "scheduled", step.at if step.opened else max(step.at, now)
                step.wake, step.freed = max(step.at, now), now
        if ended:
            self._follow(ended, now, of=of)

    def _reopen(self, step: Step, now: datetime, since: datetime | None = None) -> None:
        """Wait again for what runs again; what had ended with it waits again, all the way down.

        So does what a cancel let go that is taken back, `since` then.
        """
        for lower in self.all:
            for edge in lower.after:
                if edge.upstream is step:
                    self._lose_turn(lower, edge)
                    self._hold_again(lower, edge, since)
                    revived = edge.ended == lower.run and not lower.is_open
                    edge.how = edge.at = edge.ended = None
                    if revived:
                        lower.once_more("waiting", lower.at, now)
                        if lower.asks and self._asks_later(lower):
                            lower.asked = None  # it is asked for when its turn comes
                        self._reopen(lower, now, since)

    def _hold_again(self, step: Step, edge: Edge, since: datetime | None) -> None:
        """Let a step that has not begun wait again, if a cancel `since` then had let it go."""
        times = (step.freed, edge.at)
        was_let_go = since is not None and all(at is not None and at >= since for at in times)
        if was_let_go and step.state in ("scheduled", "ready") and not step.started:
            step.state, step.opened = "waiting", None

    def _lose_turn(self, step: Step, edge: Edge) -> None:
        """Let a step that was not approved wait for its turn again, and be asked again then."""
        approved = step.asked is not None and step.asked.answer == "approve"
        waits = step.state in ("scheduled", "waiting") and not step.started
        if waits and edge.how is not None and self._asks_later(step) and not approved:
            step.withdraw()
            step.state, step.opened = "waiting", None

    def _renew(self) -> None:
        """Begin the next generation when all steps have ended, unless one was cancelled, or asked to stop for good."""
        if not self.recurs or any(step.is_open or step.state == "cancelled" for step in self.all):
            return
        if any(step.stop and not self._was_taken_back(step.stop) for step in self.all):
            return
        ran = any(step.state != "skipped" for step in self.steps)
        inner = set(self.steps)
        for step in self.steps:
            step.after = [edge for edge in step.after if edge.upstream in inner]
            for edge in step.after:
                edge.how = edge.at = edge.ended = None
            if step.state in ("succeeded", "failed"):
                step.renewed, step.fell, step.fallen = True, step.state == "failed", step.failed
            step.again("waiting" if step.after else "scheduled", step.at, step.at)
        self.spawned.clear()
        self.generation, self.renewed = self.generation + ran, True

    def _was_taken_back(self, cancel: datetime) -> bool:
        return any(step.undone and cancel in step.cancels for step in self.all)

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


def _is_over(asked: Asked | None, now: datetime) -> bool:
    return asked is not None and asked.ends is not None and asked.ends <= now


def _end_of(step: Step) -> datetime:
    assert step.asked
    assert step.asked.ends
    return step.asked.ends


def _refuse(why: bool) -> None:
    if why:
        raise Refuses
