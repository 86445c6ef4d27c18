"""Decides the part of a reschedule that gives a series other times: a new rule, other days, or a move as a whole."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import datetime, time, timedelta
from typing import Final

from duetime.scheduler.calls.reschedule import Reschedule
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.intake.changes.draft import ChangeDraft
from duetime.scheduler.intake.changes.end import check_end, check_runs_left, end_in_zone, refuse_cancelled
from duetime.scheduler.intake.changes.pause import past_pause
from duetime.scheduler.intake.instants import names_no_day, resolve_begin, resolve_moment
from duetime.scheduler.intake.repeat_policy import changed_policy, dates_of, respread, spread_note
from duetime.scheduler.intake.series_end import refuse_second_count
from duetime.scheduler.records import Change
from duetime.scheduler.request import Moment
from duetime.scheduler.rules import changes
from duetime.scheduler.rules.occurrences import occurrence_at, recurrence_of
from duetime.scheduler.rules.recurrence import recurrence
from duetime.scheduler.rules.recurrence.recurrence import Recurrence
from duetime.scheduler.rules.series.moved_occurrence import same_time_note
from duetime.scheduler.rules.series.skipped_days import skipped_days
from duetime.scheduler.rules.states import TERMINAL
from duetime.scheduler.rules.time import zones
from duetime.scheduler.rules.time.durations import MICROSECOND
from duetime.scheduler.rules.time.parser import NO_DATE
from duetime.scheduler.rules.time.times import Resolved, describe
from duetime.scheduler.rules.time.viewpoint import Frame
from duetime.scheduler.translatable import NoteKind, Translatable
from duetime.scheduler.view_parts import Occurrence
from duetime.scheduler.views import TaskRecord, after_pause

ONCE_MORE = Translatable.of(
    NoteKind.ONCE_MORE, "its recurrence was cancelled: it runs once at that time and does not recur"
)
ONE_OCCURRENCE = Translatable.of(
    NoteKind.ONE_OCCURRENCE, "only the next occurrence was moved; to move them all, give all_following=true as well"
)

PAST_OTHERS = Translatable.of(
    NoteKind.ONE_OCCURRENCE, "only the next occurrence was moved; those before its new time stay"
)
MOVES_AS_WELL: Final = Translatable.of(NoteKind.MOVES_AS_WELL, "its next run, moved by itself, moves just as far")

MAX_TIMES_NAMED: Final = 3
"""Occurrences of a series, or generations of a chain, that a note names."""


def has_new_days(draft: ChangeDraft) -> bool:
    """Whether the occurrences of a series change without a new rule: by a zone, or by dates that it leaves out."""
    return has_new_zone(draft) or dates_of(draft.task) != dates_of(draft.record.task)


def has_new_zone(draft: ChangeDraft) -> bool:
    """Whether the call names another zone than that of the task, which only says how to read its other arguments."""
    named = draft.request.timezone
    return named is not None and zones.find(named).key != draft.task.timezone


def wall_time(instant: datetime, zone: str) -> datetime:
    """Return what the clocks of a zone show at an instant."""
    return instant.astimezone(zones.load(zone)).replace(tzinfo=None)


def move_series_step(draft: ChangeDraft) -> ChangeDraft:
    """Move the whole series: its days stay, and its time of day becomes that of `when`."""
    rule, task, request, run = recurrence_of(draft.task), draft.task, draft.request, draft.record.run
    if request.when is None or request.repeat is not None or rule is None:
        raise _moves_no_series(request, recurs=rule is not None)
    had, zone, frame = run.slot or run.scheduled_for, draft.zone, draft.frame(moved_from=run.scheduled_for)
    to = resolve_moment(request.when, now=draft.now, zone=zone, argument="when", frame=frame)
    if run.state not in TERMINAL and not changes.has_started(run) and (span := draft.length_on_the_clock(to)):
        return _moved_by(draft, to, span)
    clock = to.skipped if to.zone == task.timezone else None
    at = clock or wall_time(to.instant, task.timezone).time()
    repeat = recurrence.at_time(rule, occurrence_at(rule, had).wall.time(), at, named=clock is not None)
    if repeat is None:
        raise InvalidArgument("all_following", f"{rule.text!r} cannot be moved as a whole", example="repeat='daily'")
    begin = _begin_of_moved(rule, request.when, to.instant, had, zone=zone, frame=frame)
    whole = draft.with_request(when=begin, repeat=repeat, timezone=None, all_following=False)
    moved = new_rule_step(whole, words=request.when)
    first = moved.change.coming.scheduled_for
    on_its_day = first in {begin, to.instant} or names_no_day(request.when, first, zone=zone, frame=frame)
    if not (on_its_day or changes.has_started(run)):
        raise InvalidArgument(
            "when",
            f"{describe(to.instant, task.timezone)} is not one of its days ({rule.text})",
            accepted="a time on one of them, or `repeat` with other days",
            example=f"when={describe(first, task.timezone)!r}",
        )
    assumed = [each for each in to.assumptions if first == to.instant or not each.startswith(NO_DATE)]
    return replace(moved, request=request, assumptions=(*assumed, *moved.assumptions))


def _moved_by(draft: ChangeDraft, to: Resolved, span: timedelta) -> ChangeDraft:
    """Move a series by a length of time, on the clock: at a change of clocks as on any other day.

    A next occurrence that was moved by itself moves by the same length, from the time at which the user saw it.
    """
    record, run, zone = draft.record, draft.record.run, draft.task.timezone
    wall = wall_time(run.slot or run.scheduled_for, zone) + span
    slot = zones.place(wall, zones.load(zone)).instant
    begin = wall if slot > draft.now else f"{wall:%H:%M:%S}"
    unmoved = replace(record, run=replace(run, scheduled_for=run.slot or run.scheduled_for, slot=None))
    whole = move_series_step(replace(draft, record=unmoved).with_request(when=begin, timezone=None))
    if run.slot in {None, run.scheduled_for}:
        return replace(whole, record=record, request=draft.request).assuming(*to.assumptions)
    placed = replace(record, task=whole.task, run=replace(run, slot=slot))
    moved = replace(draft, change=changes.move(placed, to.instant, draft.now))
    return moved.assuming(*to.assumptions).warning(MOVES_AS_WELL)


def _moves_no_series(request: Reschedule, *, recurs: bool) -> InvalidArgument:
    """Return what is wrong with `all_following` of a task that does not recur, without `when`, or with a new rule."""
    example = "when='17:30', all_following=true"
    if not recurs or request.repeat is not None:
        when = "" if request.when is None and request.repeat is not None else f"when={str(request.when or '17:30')!r}, "
        example = f"{when}all_following=false"
    return InvalidArgument(
        "all_following",
        "it moves the series of a recurring task to the time of `when`",
        accepted="`when`, without `repeat`, of a task that recurs",
        example=example,
    )


def _begin_of_moved(
    rule: Recurrence, given: Moment, to: datetime, had: datetime, *, zone: str, frame: Frame
) -> datetime:
    """Return when a series begins that moves to the time `to`: on the day of that, if the rule has one then.

    Else a time of day alone means the day of the next occurrence, `had`. So a series does not begin before its day,
    and a rule of each second week keeps its weeks.
    """
    home = zones.load(rule.zone)
    wall = to.astimezone(home)
    of_day = rule.first(zones.place(datetime.combine(wall.date(), time()), home).instant)
    if of_day is not None and of_day.wall.date() == wall.date():
        return to
    same_day = datetime.combine(had.astimezone(home).date(), wall.time())
    begin = zones.place(same_day, home).instant
    return begin if begin >= to and names_no_day(given, begin, zone=zone, frame=frame) else to


def series_notes(change: Change) -> tuple[str, ...]:
    """Say what the move of one occurrence does to its series."""
    if change.task.repeat is None:
        return (ONCE_MORE,)
    if onto := same_time_note(change):
        return (onto,)
    return (PAST_OTHERS if change.extra_run else ONE_OCCURRENCE,)


def new_rule_step(draft: ChangeDraft, *, words: Moment | None = None) -> ChangeDraft:
    """Give the series a rule, a zone, or dates that it leaves out; `words` are what `when` was before it was read."""
    request, task, run, now = draft.request, draft.task, draft.record.run, draft.now
    refuse_cancelled(draft.record, "repeat" if request.repeat is not None else "timezone")
    zone, had, frame = draft.zone, run.scheduled_for, draft.frame(moved_from=run.scheduled_for)
    repeat = request.repeat or task.repeat or ""
    given = resolve_begin(request.when, repeat, now=now, zone=zone, frame=frame) if request.when is not None else None
    start, after = given.instant if given else None, now
    if start is None and request.repeat is None:
        start = _in_zone(task.anchor, draft.record.task.timezone, zone)
    elif start is None:
        start, after = _begin_of_new(draft, repeat)
    policy = changed_policy(replace(task, repeat=repeat), request, draft.today)
    times = draft.planner.times.for_work(task.action, of_agent=draft.planner.of_agent)
    reader = times if request.repeat else replace(times, minimum_interval=recurrence.MIN_INTERVAL)
    skipped = given.skipped if given else None
    rule, first, notes = reader.recurrence(repeat, zone, start, after, skipped=skipped, moved_from=had, policy=policy)
    refuse_second_count(rule, request.max_runs)
    policy = respread(rule, policy, times.spread, request.repeat_policy)
    if request.when is None and _keeps_its_run(draft.record, rule, now):
        return draft.with_task(repeat_policy=policy)
    until = end_in_zone(task, rule.zone)
    ruled = draft.with_task(repeat=rule.rule, timezone=rule.zone, anchor=rule.anchor, repeat_policy=policy, until=until)
    ruled = ruled.assuming(*(given.assumptions if given else ()), *notes, *spread_note(policy, first, rule.zone))
    has_started = changes.has_started(run)
    if not has_started:
        first, again = _without_skipped(draft, rule, first, words or request.when)
        ruled = ruled.assuming(*again, *_taken_back(draft.record, first))
    check_runs_left(ruled.task, run, "repeat")
    if request.until is None:
        check_end(ruled.task, first)
    if has_started:  # its run stays as it is; the next occurrence follows the new rule
        return ruled
    moved = changes.move(replace(draft.record, task=ruled.task), first.instant, now, by_rule=True)
    ruled = ruled.with_change(replace(moved, task=ruled.task))
    return ruled.assuming(*_comes_earlier(draft, ruled.change.applied_to(draft.record)))


def _begin_of_new(draft: ChangeDraft, repeat: str) -> tuple[datetime | None, datetime]:
    """Return the start of a new rule without `when`, if it has one, and from when on its days count.

    A task that has not begun begins at the time that its user saw, if the rule fires then. Else the rule counts from
    that day on. A series that has run or skipped before continues by the new rule at once.
    """
    stored, run, now, seen = draft.record.task, draft.record.run, draft.now, draft.record.run.scheduled_for
    has_run = stored.repeat is not None and (run.number > 1 or draft.record.last_run is not None)
    if has_run or run.state in TERMINAL or changes.has_started(run) or seen <= now:
        return None, now
    if skipped_days(stored, run, now).days:
        return None, now
    holidays = draft.frame().holidays
    with suppress(InvalidArgument):
        rule = recurrence.parse(repeat, zone=draft.zone, anchor=seen, holidays=holidays)
        if (first := rule.first(seen)) and first.instant == seen:
            return seen, now
        day = zones.place(datetime.combine(wall_time(seen, rule.zone).date(), time()), zones.load(rule.zone)).instant
        from_day = recurrence.names_times(repeat, now=now, holidays=holidays)
        return None, max(now, (day if from_day else seen) - MICROSECOND)
    return None, now


def _comes_earlier(draft: ChangeDraft, ruled: TaskRecord) -> tuple[str, ...]:
    """Say that a new rule without `when` runs before the time for which the task was due, after its pause too."""
    run, zone, is_new = draft.record.run, draft.task.timezone, draft.request.repeat is not None
    if draft.request.when is not None or not is_new or run.state in TERMINAL or run.slot is not None:
        return ()
    was, comes = (after_pause(each.task, past_pause(each).run.scheduled_for) for each in (draft.record, ruled))
    return (
        (f"it now runs {describe(comes, zone)}, before {describe(was, zone)} when it was due",) if comes < was else ()
    )


def _without_skipped(
    draft: ChangeDraft, rule: Recurrence, first: Occurrence, when: Moment | None
) -> tuple[Occurrence, tuple[str, ...]]:
    """Return where a new rule begins that would begin at `first`, and a note if days come again that were skipped.

    They stay left out unless the rule has another day before, tomorrow or later, or `when` names a day.
    """
    record, frame = draft.record, draft.frame(moved_from=draft.record.run.scheduled_for)
    if record.run.state in TERMINAL:
        return first, ()
    skipped = skipped_days(record.task, record.run, draft.now)
    before = list(skipped.within(rule, first))
    again = [each for each in before if each.wall.date() in skipped.days]
    is_same = bool(again) and all(each.wall.date() in skipped.passed for each in before)
    later = rule.after(before[-1].instant) if is_same else None
    if later and (when is None or names_no_day(when, later.instant, zone=rule.zone, frame=frame)):
        return later, ()
    return first, (_comes_again(again, rule.zone),) if again else ()


def _in_zone(instant: datetime, old: str, new: str) -> datetime:
    """Return the instant at which the wall time of `instant` in the old zone comes in the new one."""
    return zones.place(wall_time(instant, old), zones.find(new)).instant


def _comes_again(again: list[Occurrence], zone: str) -> str:
    shown = ", ".join(describe(each.instant, zone) for each in again[:MAX_TIMES_NAMED])
    more = f" and {len(again) - MAX_TIMES_NAMED} more" if len(again) > MAX_TIMES_NAMED else ""
    text = f"it runs again on days that were skipped: {shown}{more}; skip_next leaves out the next one"
    return Translatable.of(NoteKind.ALSO_RUNS, text, at=again[0].instant.isoformat())


def _keeps_its_run(record: TaskRecord, rule: Recurrence, now: datetime) -> bool:
    """Whether `rule` is the one that a series has, so that its open run stays as it is, moved or not.

    Other dates that it leaves out may take the day of that run away, or give it one before.
    """
    had, run = recurrence_of(record.task), record.run
    if had is None or run.state in TERMINAL or (rule.rule, rule.zone) != (had.rule, had.zone):
        return False
    slot, home = run.slot or run.scheduled_for, zones.load(rule.zone)
    days = {at.astimezone(home).date() for at in (slot, run.scheduled_for)}
    if days & (rule.left_out - had.left_out):
        return False
    stays = had.without(rule.left_out)
    begins = [zones.place(datetime.combine(day, time()), home).instant for day in had.left_out - rule.left_out]
    back = [stays.after(max(begin - MICROSECOND, now)) for begin in begins]
    return not any(each and each.instant < slot and each.wall.date() in had.left_out for each in back)


def _taken_back(record: TaskRecord, first: Occurrence) -> tuple[str, ...]:
    """Say that a series whose next run moves to `first` loses the move of its next occurrence."""
    run, zone = record.run, record.task.timezone
    if run.state in TERMINAL or run.slot is None or run.scheduled_for in (run.slot, first.instant):
        return ()
    was, to = describe(run.slot, zone), describe(run.scheduled_for, zone)
    day, _, clock = to.rpartition(" ")
    text = f"the move of {was} to {clock if was.startswith(day) else to} is taken back"
    return (Translatable.of(NoteKind.MOVE_UNDONE, text, at=run.slot.isoformat()),)
