"""Recurrences: cron, RRULE and plain words to the instants at which a task fires.

The first occurrence is the first match at or after the anchor, and intervals count from the anchor's date. A rule that
names no time of day takes the anchor's. How clock changes are met is said in `plans`.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from itertools import islice
from zoneinfo import ZoneInfo

from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.rules.recurrence import cron, rrule
from duetime.scheduler.rules.recurrence.clock_notes import clock_notes
from duetime.scheduler.rules.recurrence.describe import clauses, full_sentence, shortest_sentence
from duetime.scheduler.rules.recurrence.expansion import MAX_CANDIDATES_SEARCHED, ElapsedPlan, Expansion, expand
from duetime.scheduler.rules.recurrence.rule import MAX_COUNT, Rule, rule_text
from duetime.scheduler.rules.recurrence.words import intervals, plain_words
from duetime.scheduler.rules.time import zones
from duetime.scheduler.rules.time.days.calendar_day import day_text
from duetime.scheduler.rules.time.durations import MICROSECOND
from duetime.scheduler.rules.time.languages import translation
from duetime.scheduler.rules.time.times import length
from duetime.scheduler.rules.time.tokens import MAX_PHRASE_CHARS, Misread, Unknown
from duetime.scheduler.rules.time.viewpoint import Frame, Viewpoint
from duetime.scheduler.translatable import Translatable
from duetime.scheduler.view_parts import Occurrence

_ACCEPTED = (
    "`every weekday at 9:00`, `every 15 minutes`, `every 2 weeks on monday`, `monthly on the 1st`, "
    "five-field cron `0 9 * * 1-5`, an RRULE such as `FREQ=WEEKLY;BYDAY=MO;BYHOUR=9;BYMINUTE=0`"
)
MIN_INTERVAL = timedelta(seconds=1)
"""The shortest that any rule has; what a user may ask for is a setting."""

_EXAMPLE = "every weekday at 9:00"
_HOLIDAY_REACH = timedelta(days=7305)
"""Runs are counted 20 years ahead at most where public holidays are left out."""

_MAX_STEPS_COUNTED = 2 * MAX_COUNT


@dataclass(frozen=True, slots=True)
class Recurrence:
    """When a task recurs. `rule` is canonical: parsing it with the same zone and anchor gives an equal recurrence.

    `until` is the last instant (UTC) at which it may fire, `count` how often it fires in all; None where the rule does
    not say. All instants are aware; those before the anchor count as the anchor. `text` is the `clauses` in English.
    Days that are `left_out`, in the zone, have no occurrence.
    """

    rule: str
    text: str
    zone: str
    anchor: datetime
    until: datetime | None = None
    count: int | None = None
    clauses: tuple[Translatable, ...] = field(default=(), repr=False, compare=False, kw_only=True)
    left_out: frozenset[date] = field(default=frozenset(), kw_only=True)
    _plan: Expansion = field(repr=False, compare=False, kw_only=True)
    _last: datetime | None = field(default=None, repr=False, compare=False, kw_only=True)

    def first(self, at_or_after: datetime) -> Occurrence | None:
        """Return the first occurrence at or after an instant, None when there is none left."""
        return self.after(at_or_after - MICROSECOND)

    def after(self, instant: datetime) -> Occurrence | None:
        """Return the first occurrence after an instant, None when there is none left."""
        try:
            found = self._plan.after(max(instant, self.anchor - MICROSECOND))
            while found and found.wall.date() in self.left_out:
                found = self._plan.after(self._end_of_day(found))
        except (OverflowError, ValueError):  # the end of the calendar
            return None
        return found if found and (self._last is None or found.instant <= self._last) else None

    def without(self, days: Iterable[date]) -> Recurrence:
        """Return the recurrence without the occurrences of these days."""
        return replace(self, left_out=frozenset(days))

    def _end_of_day(self, found: Occurrence) -> datetime:
        midnight = datetime.combine(found.wall.date() + timedelta(days=1), time())
        return max(found.instant, zones.place(midnight, zones.load(self.zone)).instant - MICROSECOND)

    def count_between(self, after: datetime, until: datetime) -> int | None:
        """Return the number of occurrences after one instant and up to another; None where only a walk finds it."""
        until = until if self._last is None else min(until, self._last)
        plan = self._plan
        if self.left_out or not isinstance(plan, ElapsedPlan):
            return None
        return plan.count(max(after, self.anchor - MICROSECOND), until)

    def upcoming(self, after: datetime, n: int) -> tuple[Occurrence, ...]:
        """Return the next `n` occurrences after an instant, fewer when it ends before."""
        if self.left_out:
            return self._one_by_one(after, n)
        candidates = islice(self._plan.walk(max(after, self.anchor - MICROSECOND)), n + MAX_CANDIDATES_SEARCHED)
        found: list[Occurrence] = []
        with suppress(OverflowError, ValueError):  # the end of the calendar
            for coming in candidates:
                if len(found) == n or (coming and self._last is not None and coming.instant > self._last):
                    break
                found += [coming] if coming else []
        return tuple(found)

    def _one_by_one(self, after: datetime, n: int) -> tuple[Occurrence, ...]:
        found: list[Occurrence] = []
        while len(found) < n and (coming := self.after(found[-1].instant if found else after)):
            found.append(coming)
        return tuple(found)

    def notes(self, after: datetime, coming: Iterable[Occurrence]) -> tuple[str, ...]:
        """Say where the clocks change after an instant, up to and between occurrences: `1 Nov: clocks go back`."""
        zone = zones.load(self.zone)
        notes: list[str] = []
        here = max(after, self.anchor)
        for each in coming:
            if each.instant >= here:
                notes += clock_notes(zone, here, each, after.astimezone(zone).year)
                here = each.instant
        return tuple(dict.fromkeys(notes))


def parse(
    text: str,
    *,
    zone: str,
    anchor: datetime,
    minimum: timedelta = MIN_INTERVAL,
    argument: str = "repeat",
    holidays: str = "",
    counted: bool = True,
) -> Recurrence:
    """Read a recurrence that starts at `anchor` (aware) and keeps the wall time of the IANA `zone`.

    `holidays` is the calendar of public holidays that words mean where they name none; the stored rule names it. When
    runs are not `counted`, a number of runs is no end yet: to count them is most of the work.
    Raises `InvalidArgument` for what is not understood, ambiguous, more often than `minimum`, or never fires.
    """
    zones.find(zone)
    if not text.strip() or len(text) > MAX_PHRASE_CHARS:
        problem = f"it has {len(text)} characters; 1 to {MAX_PHRASE_CHARS} are accepted"
        raise InvalidArgument(argument, problem, accepted=_ACCEPTED, example=_EXAMPLE)
    words, key = " ".join(text.split()), zones.find(zone).key
    try:
        return _parse(words, key, anchor.astimezone(UTC), minimum, holidays, counted=counted)
    except OverflowError:
        raise InvalidArgument(argument, "it is beyond the calendar", accepted=_ACCEPTED, example=_EXAMPLE) from None
    except Misread as error:
        shown = repr(text if len(text) <= 60 else f"{text[:60]}...")  # noqa: PLR2004 - enough to recognise it
        problem = f"{shown} is not understood" if isinstance(error, Unknown) else f"{shown}: {error.problem}"
        raise InvalidArgument(argument, problem, accepted=_ACCEPTED, example=_examples(error, argument)) from None


def names_times(text: str, *, now: datetime, holidays: str = "") -> bool:
    """Whether the text is a rule that fires at times of day of its own; False for one that is not understood."""
    with suppress(Misread, OverflowError):
        rule = _read(" ".join(text.split()), now, holidays)
        return not rule.elapsed and bool(rule.times or rule.hours)
    return False


def at_time(found: Recurrence, was: time, to: time, *, named: bool = False) -> str | None:
    """Return the rule, in canonical form, that fires at `to` where `found` fires at `was`; None for cron's either-or.

    A rule that names no time of day stays as it is, as its anchor says the time, unless it is to be `named`.
    """
    local = found.anchor.astimezone(zones.load(found.zone))
    rule = _read(found.rule, local, "")
    if rule.elapsed or not (named or rule.times or rule.hours or rule.minutes):
        return found.rule
    moved = rule.at_time(was, to)
    return None if moved is None else rule_text(moved) or full_sentence(moved, local)


def soonest(
    text: str,
    *,
    zone: str,
    now: datetime,
    minimum: timedelta = MIN_INTERVAL,
    moved_from: datetime | None = None,
    holidays: str = "",
) -> tuple[Recurrence, tuple[str, ...]]:
    """Read a recurrence that nobody gave a start, and return it with what had to be assumed.

    It starts with the first of its days that comes, and intervals count from there: `every 2 weeks on monday` fires
    next Monday. Elapsed time counts from now. Without a time of day it fires at 09:00, or at the time that the task
    which gets the rule had (`moved_from`). Raises `InvalidArgument` as `parse` does.
    """
    found = parse(text, zone=zone, anchor=now, minimum=minimum, holidays=holidays, counted=False)
    home = zones.load(found.zone)
    local = now.astimezone(home)
    rule = _read(" ".join(text.split()), local, holidays)
    usual = Viewpoint(now, home, Frame(moved_from)).usual
    timed = rule.elapsed or rule.times or rule.hours or rule.minutes
    if not timed:
        local = datetime.combine(local.date(), usual.time, home)
    once = replace(rule, interval=1 if _names_a_day(rule) else rule.interval, count=None)
    first = expand(once, local.astimezone(UTC), home).after(now)
    start = first.instant if first else now
    if found.until is not None and start > found.until:
        raise InvalidArgument("repeat", _early_end(found.until, home), accepted=_ACCEPTED, example=_EXAMPLE)
    started = parse(text, zone=zone, anchor=start, minimum=minimum, holidays=holidays)
    return started, () if first is None or timed or usual.note is None else (usual.note,)


def _names_a_day(rule: Rule) -> bool:
    return not rule.elapsed and bool(rule.weekdays or rule.monthdays or rule.months)


@lru_cache(maxsize=4096)
def _parse(text: str, key: str, anchor: datetime, minimum: timedelta, holidays: str, *, counted: bool) -> Recurrence:
    zone = zones.load(key)
    local = anchor.astimezone(zone)
    rule = _read(text, local, holidays)
    planned = expand(rule, anchor, zone)
    shortest = planned.shortest()
    if shortest < minimum:
        raise Misread(
            f"fires every {length(shortest)}, more often than every {length(minimum)}", shortest_sentence(minimum)
        )
    stored = rule_text(rule) or full_sentence(rule, local)
    if len(stored) > MAX_PHRASE_CHARS:
        raise Misread("names too many times of day", "every 15 minutes between 9:00 and 17:00")
    until = _until(rule, zone)
    reach = anchor + _HOLIDAY_REACH if rule.holidays else None
    last = until if rule.count is None or not counted else _nth(planned, anchor, rule.count, reach)
    parts = clauses(rule, local)
    found = Recurrence(stored, "".join(parts), key, anchor, until, rule.count, clauses=parts, _plan=planned, _last=last)
    _check_fires(found)
    return found


def _read(text: str, local: datetime, holidays: str) -> Rule:
    text = intervals.iso_as_words(text)
    if rrule.looks_like(text):
        return rrule.parse(text)
    if cron.looks_like(text):
        return cron.parse(text)
    start = local.replace(tzinfo=None)
    try:
        return plain_words.parse(text, start, holidays)
    except Unknown as error:
        with suppress(Unknown, InvalidArgument):
            phrase, zone, _ = zones.split_zone(text, None)
            plain_words.parse(phrase, start, holidays)
            assert zone is not None  # else the phrase is the text, which is unknown
            raise Misread("names a time zone, which is said apart", phrase, zone=zone.key) from None
        with suppress(Unknown):
            return plain_words.parse(translation.twin(text) or "", start, holidays)
        raise error from None


def _until(rule: Rule, zone: ZoneInfo) -> datetime | None:
    """Return the last instant of a rule; a date means the whole day."""
    until = rule.until
    if until is None:
        return None
    if not isinstance(until, datetime):
        until = datetime.combine(until, time(23, 59, 59))
    return until.astimezone(UTC) if until.tzinfo else zones.place(until, zone).instant


def _nth(planned: Expansion, anchor: datetime, count: int, reach: datetime | None) -> datetime:
    """Return the instant of the last of `count` occurrences, which must not lie after `reach`."""
    seen = 0
    for found in islice(planned.walk(anchor - MICROSECOND), _MAX_STEPS_COUNTED):
        seen += found is not None
        if found and reach and found.instant > reach:
            break
        if found and seen == count:
            return found.instant
    raise Misread(f"does not fire {count} times within the supported range", "every day at 9:00, 10 times")


def _check_fires(found: Recurrence) -> None:
    if found.first(found.anchor) is not None:
        return
    if found.until is not None:
        raise Misread(_early_end(found.until, zones.load(found.zone)))
    raise Misread("never fires: no such day or time exists within the supported range")


def _early_end(until: datetime, zone: ZoneInfo) -> str:
    end = until.astimezone(zone)
    return f"ends on {day_text(end.date())} {end:%H:%M}, before it first fires"


def _examples(error: Misread, argument: str) -> str:
    if error.zone:
        return f"{argument}={error.example!r}, timezone={error.zone!r}"
    return " or ".join(error.examples) or _EXAMPLE
