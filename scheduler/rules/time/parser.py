"""The meaning of a time phrase: an instant, or a wall time with what had to be assumed."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache, partial
from zoneinfo import ZoneInfo

from duetime.scheduler.rules.time import durations, offsets, zones
from duetime.scheduler.rules.time.ambiguity import refuse_vague
from duetime.scheduler.rules.time.days import dates
from duetime.scheduler.rules.time.days.calendar_day import Day, add_months, day_text, make_date
from duetime.scheduler.rules.time.days.numeric_dates import iso_date
from duetime.scheduler.rules.time.days.periods import refuse_period_alone, same_day
from duetime.scheduler.rules.time.durations import Span
from duetime.scheduler.rules.time.time_of_day import DAY_PARTS, Clock, OutOfPart, exact_time, read_clock, within
from duetime.scheduler.rules.time.tokens import Misread, Tokens, Unknown, normal, tokens, without_spare_words
from duetime.scheduler.rules.time.viewpoint import Frame, Reading, Viewpoint
from duetime.scheduler.rules.time.windows import refuse_window
from duetime.scheduler.translatable import NoteKind, Translatable

_RFC3339 = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[t ]([0-9]{2}:[0-9]{2}(?::[0-9]{2})?)(\.[0-9]{1,9})? ?(z|[+-][0-9]{2}:?[0-9]{2})"
)

_SPARE_TIME = re.compile(r"\b((?:second|minute|hour|day|week|month|year)s?)['\u2019]?s? time$")
_SPARE_MINUTES = re.compile(r"^((?:in|after|within|\+) ?[0-9]{1,3} ?h ?[0-5][0-9])$")
_HOUR_ALONE = re.compile(r"^([0-9]{4}-[0-9]{2}-[0-9]{2}t[0-9]{2})(?=$|[ z+-])")
_BASIC = re.compile(r"^([0-9]{4})([0-9]{2})([0-9]{2})t([0-9]{2})([0-9]{2})([0-9]{2})(?=$|[ z+-])(.*)$")
"""The basic form of ISO 8601, as calendars write it: `20261201T090000Z`."""

_LATER_TODAY = re.compile(r"^later (?=(?:today|this (?:morning|afternoon|evening)),? (?:at )?[0-9])")
_FRACTION = re.compile(r"^([0-9]{4}-[0-9]{2}-[0-9]{2}[t ][0-9]{2}:[0-9]{2}:[0-9]{2})\.[0-9]{1,9}$")
NO_DATE = "no date given: "
_TO = re.compile(r"^(?:back )?to (?=[^ ])")
_SAME_TIME = "same time"
_OFFSET = re.compile(r"[+-](?:0[0-9]|1[0-5]):?[0-5][0-9]")


def read(text: str, view: Viewpoint) -> Reading:
    """Read a phrase; raise `Misread`, `Unknown` or `NoZone`."""
    clean = _plain(normal(text))
    clean = _target(clean) if view.frame.moved_from else clean
    exact = read_exact(clean, view)
    if exact is not None:
        return exact
    refuse_vague(clean, view.now)
    refuse_window(clean, view.today, view.frame.holidays)
    if clean in {"now", "right now", "immediately"}:
        return Reading(((view.now, ()),))
    as_date = iso_date(clean)
    return _relative(as_date, view) or _of_day(as_date, view)


def read_exact(clean: str, view: Viewpoint) -> Reading | None:
    """Read a date and time with an offset, as RFC 3339 writes it."""
    found = _RFC3339.fullmatch(clean)
    return None if found is None else _rfc3339(found, view)


def _plain(clean: str) -> str:
    """Leave out what adds nothing, as a part of a second, and write out `2026-11-24T09` and `in 1h30`."""
    clean = _SPARE_MINUTES.sub(r"\1m", _SPARE_TIME.sub(r"\1", clean))
    clean = _LATER_TODAY.sub("", _BASIC.sub(r"\1-\2-\3t\4:\5:\6\7", clean))
    clean = without_spare_words(clean.removeprefix("remind me ").removeprefix("t" if clean.startswith("t+") else ""))
    return _FRACTION.sub(r"\1", _HOUR_ALONE.sub(r"\1:00", clean))


def _target(clean: str) -> str:
    """Leave out the `to` of where a task is moved: `back to 9`, `to friday`."""
    to = _TO.sub("", clean)
    return f"at {to}" if to != clean and to.isdigit() else to


def place_on_timeline(wall: datetime, zone: ZoneInfo, notes: tuple[str, ...]) -> tuple[datetime, tuple[str, ...]]:
    """Put a wall time on the time line and say where the clocks jump."""
    found = zones.place(wall, zone)
    if found.shift is None:
        return found.instant, notes
    return found.instant, (*notes, shift_note(wall, found, zone))


def shift_note(wall: datetime, found: zones.Placed, zone: ZoneInfo) -> str:
    """Say what became of a wall time that does not exist or happens twice."""
    where = f"{wall:%H:%M} {{}} on {day_text(wall.date())} in {zone.key}"
    parts = {"time": f"{wall:%H:%M}", "day": wall.date().isoformat()}
    if found.shift == zones.FOLD:
        text = where.format("happens twice") + " (clocks go back): the first is used"
        return Translatable.of(NoteKind.TIME_TWICE, text, **parts)
    moved = found.instant.astimezone(zone)
    shown = f"{moved:%H:%M}" if moved.date() == wall.date() else f"{day_text(moved.date())} {moved:%H:%M}"
    text = where.format("does not exist") + f" (clocks go forward): {shown}, the first valid time, is used"
    return Translatable.of(NoteKind.TIME_MISSING, text, **parts, instead=f"{moved:%H:%M}")


def _rfc3339(found: re.Match[str], view: Viewpoint) -> Reading:
    year, month, day = (int(found[index]) for index in (1, 2, 3))
    wall = datetime.combine(make_date(year, month, day), exact_time(found[4]))
    wall += timedelta(microseconds=int(float(found[5] or 0) * 1_000_000))
    if found[6] in {"z", "-00:00", "-0000"}:
        read_as_utc = view.zone is not None and view.zone.key != "UTC"
        return Reading(((wall.replace(tzinfo=UTC), ("Z read as UTC",) if read_as_utc else ()),))
    if not _OFFSET.fullmatch(found[6]):
        raise Misread(f"{found[6]} is not an offset of any time zone")
    offset = timedelta(hours=int(found[6][1:3]), minutes=int(found[6][-2:])) * (-1 if found[6][0] == "-" else 1)
    return Reading((((wall - offset).replace(tzinfo=UTC), ()),), offset)


def _relative(clean: str, view: Viewpoint) -> Reading | None:
    """Read `in 2 hours`, `2 hours from now`, `+2h`, `PT2H`, `2 hours ago`, `in 3 days at 9:00`."""
    if clean.startswith("p"):
        try:
            return _after(durations.parse_span(clean), view, None, ())
        except Unknown:
            return None
    placed = _span_named(clean, view.frame.moved_from is not None)
    return placed and placed(view)


@lru_cache(maxsize=256)
def _span_named(clean: str, moves: bool) -> Callable[[Viewpoint], Reading] | None:
    """Return what places the length of time that a phrase names; None for one that names a time."""
    row = tokens(clean)
    _ = row.peek(1) == "+" and row.accept("now")
    led = row.accept("in", "+", "after", "within")
    span = durations.read_span(row)
    if span is None:
        return None
    if row.accept("ago"):
        meant = "now" if span.is_instant else f"in {clean[:40].removesuffix(' ago')}"
        raise Misread(f"{clean[:40]!r} is in the past", meant)
    offsets.refuse_afterwards(row, clean)
    led = row.phrase("from now") or led
    sign = 0 if led else 1 if row.accept("later") else -1 if moves and row.accept("earlier") else 0
    if sign:
        return partial(_later, span if sign > 0 else -span) if row.done else None
    clock = read_clock(row) if not span.elapsed else None
    if not row.done:
        return None
    notes = ("a couple read as 2",) if "couple" in clean else ()
    return partial(_after, span, clock=clock, notes=notes if led else (*notes, f"read as in {clean}"))


def _later(span: Span, view: Viewpoint) -> Reading:
    """Read `1 day later`: than the task that is moved, else than now. `1 day earlier` is a negative span."""
    start = view.frame.seen or view.frame.moved_from or view.now
    note = "counted from its present time" if view.frame.moved_from else "counted from now"
    return _after(span, replace(view, now=start), None, (note,))


def _after(span: Span, view: Viewpoint, clock: Clock | None, notes: tuple[str, ...]) -> Reading:
    if clock is None and not span.months and not span.days:
        return Reading(((view.now + span.elapsed, notes),))
    zone = view.known() if clock else view.zone or zones.load("UTC")
    start = view.now.astimezone(zone).replace(tzinfo=None)
    wall = datetime.combine(add_months(start.date(), span.months) + timedelta(days=span.days), start.time())
    if add_months(start.date(), span.months).day != start.day:
        notes = (*notes, f"that month is shorter: read as {day_text(wall.date())}")
    if clock:
        wall = datetime.combine(wall.date(), clock.time)
        notes = (*notes, *_assumptions(clock, wall.date()))
    instant, notes = place_on_timeline(wall, zone, notes)
    return Reading(((instant + span.elapsed, notes),))


def _of_day(clean: str, view: Viewpoint) -> Reading:
    """Read a phrase that means the same throughout a day, unless it names the time that it is now."""
    if _SAME_TIME in clean:
        return _offset(clean, view) or _wall(clean, view)
    return _read_of_day(clean, view.today, view.zone, view.frame)


@lru_cache(maxsize=256)
def _read_of_day(clean: str, today: date, zone: ZoneInfo | None, frame: Frame) -> Reading:
    """Read a phrase once a day: agents say `tomorrow 9am` again and again."""
    view = Viewpoint(datetime.combine(today, time(12), zone or UTC), zone, frame)
    return _offset(clean, view) or _wall(clean, view)


def _wall(clean: str, view: Viewpoint) -> Reading:
    """Read a date, a time of day, or both in either order."""
    row = tokens(clean)
    today = view.today
    clock, day = clock_and_day(row, today, view)
    if not row.done or (clock is None and day is None):
        offsets.refuse_limit(clean, view.frame)
        refuse_period_alone(tokens(clean), today)
        raise Unknown("is not understood")
    return _choices(clock, day or _next_such(clock, today), view)


def clock_and_day(row: Tokens, today: date, view: Viewpoint) -> tuple[Clock | None, Day | None]:
    """Read a date and a time of day, in either order; each is None where it is not given."""
    day = _day(row, today, view.frame)
    row.accept(",")
    same = row.attempt(_same_time, view)
    clock = same or _clock(row)
    row.accept(",")
    day = day or _day(row, today, view.frame)
    if same and day and day.period:
        day = same_day(day, view.usual_day)
    part = row.peek()
    return (within(part, clock) if clock and row.accept(*DAY_PARTS) else clock), day


def _clock(row: Tokens) -> Clock | None:
    """Read a time of day; an hour alone is clear where its half of the day is, or after noon."""
    ends = row.accept("by") or row.peek(-1) in offsets.END_WORDS
    late = ends and row.peek() in offsets.LATE_HOURS
    clock = read_clock(row, bare_hour=late or row.peek(1) == "tonight" or row.last in DAY_PARTS)
    if ends and clock is None:
        offsets.refuse_bare_hour(row)
    return clock


def _day(row: Tokens, today: date, frame: Frame) -> Day | None:
    if not frame.end:
        return dates.read_day(row, today, frame.holidays)
    if row.accept("before"):
        return dates.read_day_before(row, today, frame.holidays)
    whole = row.accept("through", "thru")
    _ = row.accept("until", "till", "til")
    return dates.read_last_day(row, today, frame.holidays, whole=whole)


def _same_time(row: Tokens, view: Viewpoint) -> Clock | None:
    """Read `same time tomorrow`."""
    _ = row.accept("at")
    _ = row.accept("the")
    if not row.phrase(_SAME_TIME):
        return None
    _ = row.accept("on")
    same = view.usual.time if view.frame.moved_from else view.wall.time().replace(second=0, microsecond=0)
    return Clock(same, f"same time read as {same:%H:%M}")


def _offset(clean: str, view: Viewpoint) -> Reading | None:
    """Read `10 minutes before 3 pm`, `a week from friday`, `the day before christmas`, `the evening before friday`."""
    row = tokens(clean)
    moved = row.attempt(offsets.read_offset)
    if moved is None:
        return None
    clock, day = clock_and_day(row, view.today, view)
    offsets.refuse_bare_hour(row)
    if not row.done or (clock is None and day is None):
        return None
    if not moved.span.elapsed:
        return _choices(moved.clock or clock, moved.from_day(day), view) if day else None
    if clock is None and (day is None or day.clock is None):
        raise Misread("it does not say from which time of day", f"{clean} at 9:00")
    start = day or _next_such(clock, view.today, f"{NO_DATE}read as {{day}}")
    return _choices(clock, moved.from_day(start), view, moved.sign * moved.span.elapsed)


def _next_such(clock: Clock | None, today: date, note: str | None = None) -> Day:
    at = f"{clock.time:%H:%M}" if clock else ""
    return Day((today, today + timedelta(days=1)), note or f"{NO_DATE}the next {at} is {{day}}")


def _choices(clock: Clock | None, day: Day, view: Viewpoint, ahead: timedelta = timedelta()) -> Reading:
    """Return the times that a day with a time of day can mean, each so far `ahead` of it."""
    zone = view.known()
    if clock and day.tonight and clock.time == time():
        day = Day((day.candidates[0] + timedelta(days=1),), "midnight tonight begins {day}")
    elif clock and day.tonight:
        clock = _in_the_evening(clock)
    chosen = clock or day.clock or view.usual
    return Reading(tuple(_choice(found, chosen, day, zone, ahead) for found in day.candidates))


def _in_the_evening(clock: Clock) -> Clock:
    """Return the time of day of `tonight at 8`; of `tonight at 2` the example is the 2 that comes."""
    try:
        return within("evening", clock)
    except OutOfPart as late:
        raise Misread(late.problem, *filter(None, (late.after_midnight,))) from None


def _choice(found: date, clock: Clock, day: Day, zone: ZoneInfo, ahead: timedelta) -> tuple[datetime, tuple[str, ...]]:
    which_is_said = day.tonight or (day.note or "").startswith(NO_DATE)
    said = _assumptions(clock, None if which_is_said else found)
    instant, notes = place_on_timeline(datetime.combine(found, clock.time), zone, said)
    instant += ahead
    rolled = found != day.candidates[0]
    template = day.note or ("the nearest one has passed: read as {day}" if rolled else "")
    if template.startswith(NO_DATE):  # the day of the time itself, where it is counted from another
        found = instant.astimezone(zone).date()
    return instant, (*((template.format(day=day_text(found)),) if template else ()), *notes)


def _assumptions(clock: Clock, day: date | None) -> tuple[str, ...]:
    """Return what a time of day assumes; of a midnight the day that it begins, unless that is said already."""
    begins = f"the midnight that begins {day_text(day)}" if clock.midnight and day else None
    note = clock.note or begins
    return (note,) if note else ()
