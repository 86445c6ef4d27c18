"""A task as its user may think of it: what is to come, what was cancelled, and what follows when a run ends.

The reference that the walk compares the product with. Each operation does what docs/tools.md and docs/states.md
promise, or raises `Refuses`. Times come from `calendar`, nothing from the product.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import date, datetime, time, timedelta
from itertools import count
from typing import Any
from zoneinfo import ZoneInfo

from tests.series.calendar import Rule, Words, begun, instant_of

UNDO = timedelta(seconds=35)
MAX_ATTEMPTS = 3
MAX_RUNS_AT_ONCE = 20
MAX_SNOOZE = timedelta(days=366)
OVERTAKING = ("cancel_other", "allow_all")
PAUSE_BETWEEN_ATTEMPTS = timedelta(minutes=50)
"""Long enough that the next occurrence of a short rule often falls due before the next attempt."""

TICK = timedelta(microseconds=1)
_serial = count()


class Refuses(Exception):
    """The user is told why not."""


@dataclass(frozen=True)
class Terms:
    """The terms of a task, which hold for attempts that begin from now on: what counts as done, what follows if not."""

    title: str = "Take the pill"
    labels: tuple[str, ...] = ()
    deliver_to: tuple[str, ...] = ()
    attempts: int = MAX_ATTEMPTS
    expects: bool = False
    follows: bool = False
    raises: bool = False
    payload: float = 0.05
    priority: str = "normal"


@dataclass(eq=False)
class Run:
    """A run that is to come, is under way, or was the last. `counts`: it is one of the series', not asked for apart.

    `id` is what the product calls it; `wake` when it is due, or was; `opened` since when it may start. A run that is to
    stop for the next one `gives_way`: that is no end of the series. Where too many are open, it is `put_off` until when
    the next one overtakes it. A run is `held` that waits for another one of its series, until that ends or the task
    changes. `first` is the run that this one does again.
    """

    at: datetime
    number: int
    wake: datetime
    counts: bool = True
    slot: datetime | None = None
    state: str = "scheduled"
    id: str = ""
    started: bool = False
    failures: int = 0
    stop: bool = False
    gives_way: bool = False
    opened: datetime | None = None
    ended: datetime | None = None
    put_off: datetime | None = None
    held: bool = False
    first: str = ""
    terms: Terms = Terms()
    serial: int = field(default_factory=lambda: next(_serial))

    @property
    def under_way(self) -> bool:
        return self.started and self.ended is None

    @property
    def passed(self) -> datetime:
        return max(self.at, self.slot or self.at)

    @property
    def ends_series(self) -> bool:
        return (self.stop or self.state == "cancelled") and not self.gives_way

    @property
    def left_undone(self) -> str:
        """The run that one after this one completes, where this one did not."""
        return (self.first or self.id) if self.state in ("failed", "cancelled") else ""

    def finish(self, state: str, now: datetime) -> None:
        self.state, self.ended = state, now

    @property
    def waits(self) -> bool:
        return self.state in ("scheduled", "retrying")


@dataclass
class Model:
    """One task: its rule and ends, its current run, and its side runs."""

    rule: Rule | None
    zone: str
    run: Run
    until: datetime | None = None
    max_runs: int | None = None
    overlap: str = "skip"
    paused: bool = False
    paused_until: datetime | None = None
    beside: list[Run] = field(default_factory=list)
    fired: Run | None = None
    taken: list[Run] = field(default_factory=list)
    counted: int = 0
    terms: Terms = Terms()
    letters: tuple[Run, ...] = ()
    unread: int = 0
    follow_ups: int = 0

    # -- what a user asks for

    def new_rule(self, words: Words, now: datetime, until: datetime | str | None = None) -> None:
        if self.rule and self.rule.words == words and not self.run.ended:  # the rule that it has: only the end is new
            self._refuse_cancelled()
            if until is not None:
                self.new_until(until if isinstance(until, datetime) else None, now)
            return
        self._go_on_with(self._begun(words, now), now, until)

    def _begun(self, words: Words, now: datetime) -> Rule:
        """Return a new rule: what has not begun keeps the time at which it was due, or at least the day."""
        seen, has_run = self.run.at, self.rule is not None and (self.run.number > 1 or self.fired is not None)
        has_skipped = self.rule is not None and self.rule.after(now) < (self.run.slot or seen)
        if has_run or has_skipped or self.run.ended or self.run.under_way or seen <= now:
            return begun(words, self.zone, now)
        fires = Rule(words, self.zone, seen)
        if fires.after(seen - TICK) == seen:
            return fires
        midnight = instant_of(datetime.combine(self._wall(seen).date(), time()), self.zone)
        return begun(words, self.zone, max(now, midnight - TICK))

    def new_zone(self, zone: str, now: datetime) -> None:
        if zone == self.zone:
            return
        if self.rule:
            self._go_on_with(self.rule.moved(zone), now, None)
        elif self.run.at > now and not self.run.under_way:
            to = instant_of(self._wall(self.run.at), zone)
            _refuse(to < now)
            self.move(to, now)
        self.zone = zone

    def _go_on_with(self, rule: Rule, now: datetime, until: datetime | str | None) -> None:
        self._refuse_cancelled()
        first = rule.after(max(now, rule.anchor) - timedelta(microseconds=1))
        self._refuse_used_up()
        if self.rule and not (self.run.ended or self.run.under_way):
            first = self._without_skipped(self.rule, rule, first, now)
        run, old, self.rule = self.run, self.rule, rule
        try:
            _refuse(until is None and self.until is not None and first > self.until)
            coming = run.at if run.under_way else first
            _refuse(isinstance(until, datetime) and until < coming)
        except Refuses:
            self.rule = old
            raise
        if isinstance(until, datetime) or until == "never":
            self.until = until if isinstance(until, datetime) else None
        if run.ended:
            self._close(run)
            self.run = Run(first, run.number + 1, wake=first, first=run.left_undone)
        elif not run.under_way:
            run.at, run.wake, run.slot, run.state, run.opened = first, first, None, "scheduled", None

    def _without_skipped(self, old: Rule, new: Rule, first: datetime, now: datetime) -> datetime:
        """Return where a new rule begins: behind the days that were skipped, if it has no other day before."""
        slot, skipped = self.run.slot or self.run.at, list[datetime]()
        at = old.after(now)
        while at < slot:
            skipped.append(self._wall(at))
            at = old.after(at)
        if not skipped:
            return first
        days, last = {wall.date() for wall in skipped}, skipped[-1]
        midnight = datetime.combine(last.date() + timedelta(days=1), time())
        end = midnight if self._wall(slot).date() > last.date() else last + TICK
        before, at = list[date](), first
        while (wall := at.astimezone(ZoneInfo(new.zone)).replace(tzinfo=None)) < end:
            before.append(wall.date())
            at = new.after(at)
        passed = days | {self._wall(now).date()}
        return at if days & set(before) and passed >= set(before) else first

    def new_until(self, until: datetime | None, now: datetime) -> None:
        if self.rule is None:
            _refuse(until is not None)
            return
        self._refuse_cancelled()
        coming = self.run.at
        if self.run.ended:
            self._refuse_used_up()
            coming = self.rule.after(max(self.run.passed, now))
        _refuse(until is not None and until < coming)
        self.until = until
        if self.run.ended:
            self._close(self.run)
            self.run = Run(coming, self.run.number + 1, wake=coming, first=self.run.left_undone)

    def new_overlap(self, overlap: str) -> None:
        _refuse(self.rule is None)
        self.overlap = overlap

    def new_terms(self, **terms: Any) -> None:
        """Change the terms; the tier is that of a run which is to come, and reorders it."""
        run = self.run
        if "priority" in terms:
            _refuse(run.ended is not None or (self.rule is None and run.state in ("running", "retrying")))
            run.wake = run.at if run.state == "ready" else run.wake
            run.state = "scheduled" if run.state == "ready" else run.state
        self.terms = replace(self.terms, **terms)

    def never(self) -> None:
        self.rule = self.until = self.max_runs = None
        self.overlap = "skip"

    def move(self, to: datetime, now: datetime, *, around_pause: bool = False) -> None:
        run = self.run
        _refuse(run.state == "running" or (run.state == "cancelled" and run.ends_series))
        slot = (run.slot or run.at) if self.rule else None
        number = run.number + 1 if self.rule else run.number
        if around_pause and not (run.ended or run.under_way):
            run = self._past_pause()
            slot = (run.slot or run.at) if self.rule else None
        if not (run.ended or run.under_way) and self._move_past(to, now):
            return
        if run.ended:
            if run.ends_series:
                self.never()
            self._close(run)
            self.run = Run(to, number, counts=False, slot=slot, wake=max(to, now), first=run.left_undone)
        elif run.under_way:
            run.wake, run.state = max(to, now), "scheduled" if run.state == "ready" else run.state
        else:
            run.at, run.wake, run.slot, run.state, run.opened = to, max(to, now), slot, "scheduled", None

    def _past_pause(self) -> Run:
        """Put a series that is paused until a time at the occurrence after that; return its run."""
        run = self.run
        held = self.rule and self.paused_until and run.state == "scheduled" and not run.under_way
        if held and self.paused_until and run.wake < self.paused_until - TICK:
            coming = self._following(self.paused_until - TICK, run.number)
            self.run = run if coming is None else Run(coming, run.number, wake=coming)
        return self.run

    def _move_past(self, to: datetime, now: datetime) -> bool:
        """Move the next occurrence to or past the one after it, if it is: no other is lost by that."""
        run = self.run
        coming = self._following(now, run.number + 1)
        if coming is None or to < coming:
            return False
        if self._comes_at(to, coming) or any(each.slot and each.at == to for each in self.beside):
            self._replace_by_next(now)
            return True
        moved = Run(to, run.number, max(to, now), run.counts, slot=run.slot or run.at, first=run.first)
        self.beside.append(moved)
        self.run = Run(coming, run.number + 1, wake=coming)
        return True

    def _comes_at(self, to: datetime, coming: datetime) -> bool:
        at, number = coming, self.run.number + 1
        while self.rule and at < to and not self._is_over(at, number):
            at, number = self.rule.after(at), number + 1
        return at == to and not self._is_over(at, number)

    def snooze(self, length: timedelta, now: datetime) -> None:
        _refuse(length > MAX_SNOOZE)
        fired, held = self.fired, self.run
        coming = self._past_pause()
        alone = self.rule is None or coming.ended or coming.under_way
        apart = self._first_apart(now)
        if alone or fired is None or now - _ended(fired) > (self._shown(apart) if apart else coming.at) - now:
            to = max(now, now if coming.ended else self._shown(apart or coming)) + length
            if apart is None:
                self.move(to, now)
                return
            self.run = held
            self.beside.append(replace(apart, at=to, wake=to, state="scheduled", opened=None, held=False, id=""))
            self._drop(apart, now)
            return
        self.run, to = held, now
        for earlier in [run for run in self.beside if run.state == "scheduled" and not run.slot]:
            to = max(to, self._shown(earlier))
            self._drop(earlier, now)
        to += length
        self._beside(fired, to)

    def _first_apart(self, now: datetime) -> Run | None:
        """Return the run next to the series that starts before its next one, and has not begun."""
        held = self.paused and not self.paused_until
        if self.run.ended or self.run.state == "running" or (self.run.stop and not self.run.gives_way) or held:
            return None
        begins = [
            each for each in self.beside if each.state in ("scheduled", "ready") and not (each.stop or each.started)
        ]
        first = min(begins, key=lambda each: each.wake, default=None)
        return first if first and max(now, self._shown(first)) < self._shown(self.run) else None

    def _shown(self, run: Run) -> datetime:
        """Return when its user expects a run: what a pause holds until a time starts then, or is left out."""
        left_out = self.rule is not None and run is self.run and not run.under_way
        return run.wake if left_out else max(run.wake, self.paused_until or run.wake)

    def run_now(self, now: datetime) -> None:
        _refuse(self.run.state == "running" or self.paused)
        if self.rule and not self.run.ended:
            failed = self.fired if self.fired and self.fired.state == "failed" else None
            self._beside(failed, now)
            return
        self.move(now, now)

    def replay(self, failed: Run, payload: float | None, now: datetime) -> None:
        """Run a failed run again, by its dead letter; a series keeps its payload."""
        _refuse(failed not in self.letters)
        _refuse(self.rule is None and not self.run.ended)
        _refuse(payload is not None and self.rule is not None)
        beside = [*self.beside]
        letters = self.letters
        self.run_now(now)
        new = next((run for run in self.beside if run not in beside), self.run)
        new.first = failed.first or failed.id
        if new is not self.run and self.fired and self.fired.left_undone != new.first:
            self.letters = letters
        self._close(failed)
        self.terms = replace(self.terms, payload=self.terms.payload if payload is None else payload)

    def replay_last(self, now: datetime) -> None:
        """Run again what failed, as one call does to several tasks: of a series that goes on the newest open letter."""
        goes_on = self.rule is not None and self.run.ended is None
        letter = max(self.letters, key=lambda run: (_ended(run), run.id), default=None)
        failed = (letter or self.fired) if goes_on else self.run
        if failed is None or failed.state != "failed":
            raise Refuses
        if any(run.first == failed.left_undone for run in self.beside):
            return
        if goes_on:
            _refuse(self.run.state == "running" or self.paused)
            self._beside(failed, now)
        else:
            self.run_now(now)

    def discard(self, failed: Run) -> None:
        _refuse(failed not in self.letters)
        self._close(failed)

    def done(self) -> bool:
        """Read what there is to read; returns whether there was anything."""
        _refuse(self.fired is None)
        read, self.unread = self.unread, 0
        return bool(read)

    def skip(self, now: datetime) -> None:
        _refuse(self.rule is None or self.run.ended is not None or self.run.under_way)
        self._past_pause()
        self._replace_by_next(now)

    def pause(self, now: datetime, until: datetime | None = None) -> None:
        _refuse(self.run.ended is not None and (self.run.ends_series or not self.beside))
        if self.paused and self.paused_until == until:
            return
        self.paused, self.paused_until = True, until
        for run in (self.run, *self.beside):
            if run.state == "ready":
                run.state, run.wake = "scheduled", run.at if run is self.run else now

    def resume(self, now: datetime) -> None:
        run = self.run
        cancelled = run.state == "cancelled" and run.ends_series and not self.beside
        _refuse(cancelled or (run.ended is not None and not self.paused))
        if self.paused and run.waits:
            if self.rule and run.wake < now and not run.under_way:
                self._replace_by_next(now)
            else:
                run.wake = max(run.wake, now)
        self.paused, self.paused_until = False, None

    def cancel(self, now: datetime) -> None:
        run = self.run
        if run.state == "cancelled" or (run.ends_series and not run.ended):
            return
        _refuse(run.ended is not None)
        self.taken = [each for each in self.beside if not each.started]
        for each in [run, *self.beside]:
            if each.state == "running":
                each.stop, each.gives_way = True, False
            elif each is not run:
                self._drop(each, now)
            else:
                run.finish("cancelled", now)
                self.fired = self._later(run) if run.started else self.fired

    def undo(self, now: datetime) -> None:
        run = self.run
        _refuse(run.state != "cancelled" or run.started or now - _ended(run) > UNDO)
        self.run = _again(run, now)
        self.beside += [_again(each, now) for each in self.taken]
        self.taken = []

    def remember(self) -> Callable[[], None]:
        """Return the undo of whatever is done next: all that there is now is as it was before."""
        runs = [(run, dict(vars(run))) for run in (self.run, *self.beside, *self.taken)]
        whole = {**vars(self), "beside": [*self.beside], "taken": [*self.taken]}

        def undo() -> None:
            vars(self).update(whole)
            for run, was in runs:
                vars(run).update(was)

        return undo

    # -- what time brings

    def end_pause(self, now: datetime) -> None:
        """Resume at the end of a pause; of a series of which nothing is left, the last occurrence is left out.

        It runs late where other runs of the task are to come.
        """
        if self.paused_until is None or self.paused_until > now:
            return
        try:
            self.resume(self.paused_until - TICK)
        except Refuses:
            if self.beside:
                self.run.wake = now
            elif not self.run.ended:
                self.run.finish("skipped", now)
            self.paused, self.paused_until = False, None

    def overtake(self, now: datetime) -> None:
        """Let the newest occurrence take its turn that fell due while the current run was open."""
        run = self.run
        if self.overlap not in OVERTAKING or self.paused or run.opened is None or run.ended or run.stop or run.held:
            return
        coming = self._newest_due(run.opened, now)
        if coming is None or (run.put_off and now < run.put_off):
            return
        if self.overlap == "allow_all" and len(self.open()) >= MAX_RUNS_AT_ONCE:
            run.put_off = self._following(now, run.number + 1)
            return
        if self.overlap == "cancel_other" and run.state == "running":
            run.stop = run.gives_way = True
            return
        if self.overlap == "allow_all":
            self.beside.append(run)
        else:
            run.finish("cancelled", now)
            self.fired = self._later(run) if run.started else self.fired
            for each in self.beside:  # what waited for its end is looked at with the one that comes
                each.held = False
        self.run = Run(coming, run.number + 1, wake=coming)

    def make_ready(self, now: datetime) -> None:
        for run in sorted(self.open(), key=lambda each: (each.wake, each.id)):
            is_due = not self.paused and run.waits and run.wake <= now and not run.held
            if is_due and self._goes(run, now):
                run.state, run.opened = "ready", run.opened or now

    def look_again(self) -> None:
        """Let the dispatcher look again at what waits: the task was changed."""
        self.run.put_off = None
        for run in self.open():
            run.held = False

    def _goes(self, run: Run, now: datetime) -> bool:
        """Whether no other run of the series holds a due one up, where one of the two was moved past the other."""
        others = [each for each in (self.run, *self.beside) if each is not run and (each is self.run or each.slot)]
        others = [each for each in others if each.under_way or each.state == "ready"]
        apart = self.rule is None or self.overlap == "allow_all" or not (run is self.run or run.slot)
        if run.ended or run.started or apart or not others:
            return run.ended is None
        other = min(others, key=lambda each: (each.at, each.id))
        was_open = other.opened is not None and other.opened < run.wake
        if was_open and self.overlap == "skip" and self._left_out(run, now):
            return False
        if was_open and self.overlap == "cancel_other" and self._gives_way(other, now):
            return self._goes(run, now)
        run.held = True
        if self.overlap == "buffer_all" and run is self.run:
            run.opened = run.opened or run.at
        return False

    def _left_out(self, run: Run, now: datetime) -> bool:
        """Leave a run out, if it is not the last of its series; returns whether it is."""
        if run is not self.run:
            self.beside.remove(run)
        elif self._following(now, run.number):
            self._replace_by_next(now)
        else:
            return False
        run.finish("skipped", now)
        return True

    def _gives_way(self, other: Run, now: datetime) -> bool:
        """Let an open run give way to another; returns whether it has ended by that."""
        coming = self._following(now, other.number + 1) if other is self.run else None
        if other.state == "running":
            other.gives_way = other.gives_way or not other.stop
            other.stop = True
            return False
        if other is not self.run:
            self._drop(other, now)
        elif coming is None:
            return False
        else:
            other.finish("cancelled", now)
            self.fired = self._later(other) if other.started else self.fired
            self.run = Run(coming, other.number + 1, wake=coming)
        return True

    def startable(self) -> list[Run]:
        return [] if self.paused else [run for run in (self.run, *self.beside) if run.state == "ready"]

    def start(self, run: Run) -> None:
        self.counted += run.counts and not run.started
        run.state, run.started, run.terms = "running", True, self.terms

    def end(self, run: Run, how: str, now: datetime) -> None:
        """End an attempt on the terms on which it began: done, odd (without what is expected), failed, or retry."""
        well = how in ("done", "odd")
        if run.stop and not well:
            run.finish("cancelled", now)
        elif how == "retry" and run.failures + 1 < run.terms.attempts:
            run.failures += 1
            run.state, run.wake = "retrying", now + PAUSE_BETWEEN_ATTEMPTS
            self._raise(run)
            return
        else:
            run.finish("succeeded" if well else "failed", now)
            self._tell(run, failed=not well or (how == "odd" and run.terms.expects))
        self.fired = self._later(run)
        for each in self.open():
            each.held = False
        if run is not self.run:
            self.beside.remove(run)
        elif following := None if run.ends_series else self._next(now):
            late = self.overlap == "buffer_all" and following <= now
            self.run = Run(following, run.number + 1, wake=following, opened=following if late else None)
        elif self.beside:
            self._promote(min(self.beside, key=lambda each: (each.at, each.id)))

    def _tell(self, run: Run, *, failed: bool) -> None:
        """Report an end, and let follow what follows from a failure."""
        self.unread += 1
        self.letters = (*self.letters, run) if run.state == "failed" else self.letters
        if failed and not run.stop:
            self.follow_ups += run.terms.follows
            self._raise(run)

    def _raise(self, run: Run) -> None:
        if run.terms.raises and not run.stop and self.terms.priority in ("normal", "low"):
            self.terms = replace(self.terms, priority="high")

    # -- what holds

    def upcoming(self, most: int, now: datetime) -> list[datetime]:
        """Return the times at which it comes again, the current run's first, as far as its ends allow.

        A time that passes while the run is late or open comes only where an overlap makes up for it.
        """
        if self.rule is None or self.run.ended or self.run.ends_series:
            return []
        times, here = [self.run.at], max(self.run.passed, now) if self.overlap == "skip" else self.run.passed
        if self.paused_until and self.run.waits and not self.run.under_way and self.run.wake < self.paused_until - TICK:
            times = [at for at in [self._following(self.paused_until - TICK, self.run.number)] if at]
            here = max(times, default=here)
        while times and len(times) < most:
            here = self.rule.after(here)
            if self._is_over(here, self.run.number + len(times)):
                break
            times.append(here)
        return times

    def open(self) -> list[Run]:
        return [run for run in (self.run, *self.beside) if run.ended is None]

    # -- parts

    def _next(self, now: datetime) -> datetime | None:
        """Return the occurrence that follows the end of the current run: which, is a matter of the overlap."""
        opened = min(self.run.opened or now, now)
        if self.overlap in OVERTAKING and (newest := self._newest_due(opened, now)):
            return newest
        since = opened if self.overlap in ("buffer_one", "buffer_all") else now
        return self._following(since, self.run.number + 1)

    def _newest_due(self, opened: datetime, now: datetime) -> datetime | None:
        newest, at = None, self.rule and self.rule.after(max(self.run.passed, opened))
        while self.rule and at and at <= now and not self._is_over(at, self.run.number + 1):
            newest, at = at, self.rule.after(at)
        return newest

    def _following(self, now: datetime, number: int) -> datetime | None:
        if self.rule is None:
            return None
        at = self.rule.after(max(self.run.passed, now))
        return None if self._is_over(at, number) else at

    def _is_over(self, at: datetime, number: int) -> bool:
        return (self.until is not None and at > self.until) or (self.max_runs is not None and number > self.max_runs)

    def _replace_by_next(self, now: datetime) -> None:
        following = self._following(now, self.run.number)
        if following is None:
            raise Refuses
        self.run = Run(following, self.run.number, wake=following)

    def _beside(self, done_again: Run | None, to: datetime) -> None:
        """Begin a side run, which may do again what one has not completed."""
        first = done_again.left_undone if done_again else ""
        number = done_again.number if done_again else self.run.number
        self.beside.append(Run(to, number, counts=False, wake=to, first=first))
        if done_again:
            self._close(done_again)

    def _close(self, run: Run) -> None:
        """Close the dead letter of a run that runs again."""
        self.letters = tuple(each for each in self.letters if each is not run)

    def _promote(self, heir: Run) -> None:
        self.beside.remove(heir)
        heir.number, heir.slot, self.run = self.run.number + 1, self.run.passed, heir

    def _drop(self, run: Run, now: datetime) -> None:
        self.beside.remove(run)
        run.finish("cancelled", now)
        self.fired = self._later(run) if run.started else self.fired

    def _later(self, run: Run) -> Run:
        fired = self.fired
        return run if fired is None or (run.at, run.serial) > (fired.at, fired.serial) else fired

    def _refuse_cancelled(self) -> None:
        _refuse(self.run.ends_series)

    def _refuse_used_up(self) -> None:
        used = self.run.number - (self.run.ended is None and not self.run.under_way)
        _refuse(self.max_runs is not None and used >= self.max_runs)

    def _wall(self, instant: datetime) -> datetime:
        return instant.astimezone(ZoneInfo(self.zone)).replace(tzinfo=None)


def _refuse(why: bool) -> None:
    if why:
        raise Refuses


def _again(run: Run, now: datetime) -> Run:
    """Return a cancelled run as it comes back: at its own time, or at once; it keeps its age."""
    wake = max(run.at, now)
    return Run(run.at, run.number, wake, run.counts, run.slot, opened=run.opened, first=run.left_undone)


def _ended(run: Run) -> datetime:
    assert run.ended is not None
    return run.ended
