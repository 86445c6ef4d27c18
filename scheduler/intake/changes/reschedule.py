"""Decides one reschedule: a single call may change several parts, all of them or none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from duetime.scheduler import remedies
from duetime.scheduler.calls.reschedule import Reschedule, with_removed
from duetime.scheduler.errors import InvalidArgument, Refused
from duetime.scheduler.events import EventKind
from duetime.scheduler.intake.changes.links import links_step
from duetime.scheduler.intake.changes.origin import with_origin
from duetime.scheduler.intake.changes.pause import Pause, pause_asked, pause_step, still_over
from duetime.scheduler.intake.changes.skipped import keeps_its_run, taken_back, without_skipped
from duetime.scheduler.intake.changes.terms import late_for_the_attempt, promised, unblocked
from duetime.scheduler.intake.changes.urgency import demand_step
from duetime.scheduler.intake.changes.whole_series import begin_of_moved, moves_no_series, series_notes
from duetime.scheduler.intake.examples.corrected import corrects_examples
from duetime.scheduler.intake.instants import names_no_day, resolve_begin, resolve_moment, words_of
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.intake.repeat_policy import changed_policy, dates_of
from duetime.scheduler.intake.series_end import (
    check_end,
    check_runs_left,
    end_in_zone,
    end_step,
    never_recurs,
    refuse_cancelled,
    refuse_second_count,
    with_max_runs,
)
from duetime.scheduler.intake.validation import (
    ProblemCollector,
    check_labels,
    check_max_runs,
    check_notify,
    check_retry,
    silent_note,
)
from duetime.scheduler.records import Change
from duetime.scheduler.request import Moment
from duetime.scheduler.rules import changes
from duetime.scheduler.rules.occurrences import occurrence_at, recurrence_of
from duetime.scheduler.rules.recurrence import recurrence
from duetime.scheduler.rules.redact import unmasked
from duetime.scheduler.rules.retry import as_policy
from duetime.scheduler.rules.sanitize import check_title
from duetime.scheduler.rules.series.natural_key import check_kept
from duetime.scheduler.rules.time import zones
from duetime.scheduler.rules.time.parser import NO_DATE
from duetime.scheduler.rules.time.times import Resolved, describe
from duetime.scheduler.task import Json, Notify, State, Task
from duetime.scheduler.translatable import NoteKind, Translatable, as_assumed
from duetime.scheduler.views import TaskRecord

NOTHING_CHANGED = Translatable.of(NoteKind.UNCHANGED, "it already has these values; nothing was changed")


@corrects_examples
def decide_reschedule(
    record: TaskRecord, request: Reschedule, planner: Planner, now: datetime, *, recurs: bool = False
) -> tuple[Change, tuple[str, ...]]:
    """Return the change that `request` makes to this task, with its assumptions and warnings.

    The last part with an event of its own gives the change its kind. It `recurs` as a step with its chain.
    """
    request = with_removed(request)
    if request == Reschedule():
        raise InvalidArgument(
            "changes",
            "nothing to change was given",
            accepted="a new title, time, recurrence, payload, urgency, delivery, label or wait, a pause or a skip",
            example=f"title={record.task.title!r}",  # an example harms nothing: this changes nothing
        )
    task = promised(_described(record.task, request, planner), request, planner, now)
    run = unblocked(record.run) if task.payload != record.task.payload else record.run
    change, timed = _timing_step(record, Change(task, run, kind=EventKind.RESCHEDULED), request, planner, now)
    change, demanded = demand_step(record, change, request, planner, now)
    pause = pause_asked(request, change.task, planner, now)
    warnings = (*as_assumed((*timed, *pause.warnings)), *demanded, *late_for_the_attempt(record, task, request))
    warnings += silent_note(task.action, request.notify)
    check_kept(record.task, change.task)
    change = _pause_step(record, change, request, pause, now)
    warnings += still_over(record, change)
    change = _skip_step(record, change, request, now)
    change = links_step(record, change, request, planner, now, recurs=recurs)
    if change == Change(record.task, record.run, kind=EventKind.RESCHEDULED):
        return change, (*warnings, NOTHING_CHANGED)
    return change, warnings


def with_stored_secrets(payload: Mapping[str, Json] | None, task: Task) -> Mapping[str, Json] | None:
    """Return another payload for a task: what it has as `***`, as the task is shown, stays what it was."""
    found = None if payload is None else unmasked(dict(payload), dict(task.payload))
    return found if isinstance(found, dict) else payload


def _described(task: Task, request: Reschedule, planner: Planner) -> Task:
    problems = ProblemCollector()
    title = None if request.title is None else problems.of(check_title, request.title)
    given = planner.changed_payload(task.action, with_stored_secrets(request.payload, task))
    payload = None if given is None else problems.of(planner.payload, task.action, given, task.tenant)
    task = problems.of(with_origin, task, request) or task
    channels = None if request.deliver_to is None else problems.of(planner.channels_of, request.deliver_to, task.origin)
    for check in (check_retry, check_labels, check_max_runs, check_notify):
        problems.of(check, request)
    if problems:
        raise problems.error()
    return replace(
        task,
        title=title or task.title,
        payload=task.payload if payload is None else payload,
        retry=planner.default_retry(task.action)
        if "retry" in request.remove
        else as_policy(request.retry) or task.retry,
        deliver_to=task.deliver_to if channels is None else channels,
        labels=task.labels if request.labels is None else tuple(dict.fromkeys(request.labels)),
        notify=Notify(request.notify or task.notify),
    )


def _timing_step(
    record: TaskRecord, change: Change, request: Reschedule, planner: Planner, now: datetime
) -> tuple[Change, tuple[str, ...]]:
    warnings: tuple[str, ...] = ()
    if request.repeat is not None and never_recurs(request.repeat):
        change = replace(change, task=replace(change.task, repeat=None, until=None, max_runs=None))
        request = replace(request, repeat=None)
    change = replace(change, task=with_max_runs(change.task, request))
    recurs = change.task.repeat or record.task.repeat or request.repeat_policy  # that of a step is its chain's
    if recurs and (change.task.repeat or request.repeat is None):
        change = replace(change, task=replace(change.task, repeat_policy=changed_policy(change.task, request)))
    if request.all_following:
        change, warnings = _all_following(record, change, request, planner, now)
    elif request.repeat is not None or (change.task.repeat is not None and _new_days(record, change, request)):
        change, warnings = _new_recurrence(record, change, request, planner, now)
    elif request.when is not None or _new_zone(change.task, request):
        change, warnings = _new_time(record, change, request, planner, now)
    frame = planner.times.frame(request.timezone, own=change.task.timezone)
    change, ended = end_step(record, change, request, frame, now)
    return change, (*warnings, *ended)


def _all_following(
    record: TaskRecord, change: Change, request: Reschedule, planner: Planner, now: datetime
) -> tuple[Change, tuple[str, ...]]:
    """Move the whole series: its days stay, and its time of day becomes that of `when`."""
    rule, task = recurrence_of(change.task), change.task
    if request.when is None or request.repeat is not None or rule is None:
        raise moves_no_series(request, recurs=rule is not None)
    had, zone = record.run.slot or record.run.scheduled_for, request.timezone or task.timezone
    frame = planner.times.frame(request.timezone, moved_from=record.run.scheduled_for, own=task.timezone)
    to = resolve_moment(request.when, now=now, zone=zone, argument="when", frame=frame)
    clock = to.skipped if to.zone == task.timezone else None
    at = clock or _wall_time(to.instant, task.timezone).time()
    moved = recurrence.at_time(rule, occurrence_at(rule, had).wall.time(), at, named=clock is not None)
    if moved is None:
        raise InvalidArgument("all_following", f"{rule.text!r} cannot be moved as a whole", example="repeat='daily'")
    begin = begin_of_moved(rule, request.when, to.instant, had, zone=zone, frame=frame)
    whole = replace(request, when=begin, repeat=moved, timezone=None, all_following=False)
    change, notes = _new_recurrence(record, change, whole, planner, now, words=request.when)
    first = (change.next_run or change.run).scheduled_for
    on_its_day = first in {begin, to.instant} or names_no_day(request.when, first, zone=zone, frame=frame)
    if not (on_its_day or changes.has_started(record.run)):
        raise InvalidArgument(
            "when",
            f"{describe(to.instant, task.timezone)} is not one of its days ({rule.text})",
            accepted="a time on one of them, or `repeat` with other days",
            example=f"when={describe(first, task.timezone)!r}",
        )
    assumed = (each for each in to.assumptions if first == to.instant or not each.startswith(NO_DATE))
    return change, (*assumed, *notes)


def _new_days(record: TaskRecord, change: Change, request: Reschedule) -> bool:
    """Whether the occurrences of a series change without a new rule: by a zone, or by dates that it leaves out."""
    return _new_zone(change.task, request) or dates_of(change.task) != dates_of(record.task)


def _new_zone(task: Task, request: Reschedule) -> bool:
    """Whether `request` has another zone than the task; its own one only says how to read what else is given."""
    return request.timezone is not None and zones.find(request.timezone).key != task.timezone


def _new_recurrence(
    record: TaskRecord,
    change: Change,
    request: Reschedule,
    planner: Planner,
    now: datetime,
    *,
    words: Moment | None = None,
) -> tuple[Change, tuple[str, ...]]:
    refuse_cancelled(record, "repeat" if request.repeat is not None else "timezone")
    zone = request.timezone or change.task.timezone
    had = record.run.scheduled_for
    frame = planner.times.frame(request.timezone, moved_from=had, own=change.task.timezone)
    repeat = request.repeat or change.task.repeat or ""
    given = None
    if request.when is not None:
        given = resolve_begin(request.when, repeat, now=now, zone=zone, frame=frame)
    start = given.instant if given else None
    if start is None and request.repeat is None:
        start = _in_zone(change.task.anchor, record.task.timezone, zone)
    policy = changed_policy(replace(change.task, repeat=repeat), request)
    reader = planner.times if request.repeat else replace(planner.times, minimum_interval=recurrence.MIN_INTERVAL)
    skipped = given.skipped if given else None
    rule, first, notes = reader.recurrence(repeat, zone, start, now, skipped=skipped, moved_from=had, policy=policy)
    refuse_second_count(rule, request.max_runs)
    if request.when is None and keeps_its_run(record, rule, now):
        return replace(change, task=replace(change.task, repeat_policy=policy)), ()
    task = replace(change.task, repeat=rule.rule, timezone=rule.zone, anchor=rule.anchor, repeat_policy=policy)
    task = replace(task, until=end_in_zone(change.task, rule.zone))
    if not changes.has_started(record.run):
        first, again = without_skipped(record, rule, first, now, when=words or request.when, frame=frame)
        notes = (*notes, *again, *taken_back(record, first))
    check_runs_left(task, record.run, "repeat")
    if request.until is None:
        check_end(task, first)
    assumptions = (*(given.assumptions if given else ()), *notes)
    if changes.has_started(record.run):  # a started run stays as it is; the next occurrence follows the new rule
        return replace(change, task=task), assumptions
    return replace(changes.move(replace(record, task=task), first.instant, now, by_rule=True), task=task), assumptions


def _new_time(
    record: TaskRecord, change: Change, request: Reschedule, planner: Planner, now: datetime
) -> tuple[Change, tuple[str, ...]]:
    zone = request.timezone or change.task.timezone
    if request.when is None and (record.run.scheduled_for <= now or changes.has_started(record.run)):
        return replace(
            change, task=replace(change.task, timezone=zones.find(zone).key)
        ), ()  # only what is said changes
    given = request.when if request.when is not None else _wall_time(record.run.scheduled_for, record.task.timezone)
    frame = planner.times.frame(request.timezone, moved_from=record.run.scheduled_for, own=change.task.timezone)
    argument = "when" if request.when is not None else "timezone"
    resolved = resolve_moment(given, now=now, zone=zone, argument=argument, frame=frame)
    stays = resolved.instant == record.run.scheduled_for and zone == change.task.timezone
    if stays and record.run.state in {State.SCHEDULED, State.WAITING}:
        return change, resolved.assumptions
    when = words_of(request.when) if request.when is not None else change.task.when
    task = replace(change.task, timezone=resolved.zone if request.timezone else zone, when=when)
    moved = changes.move(replace(record, task=task), resolved.instant, now)
    alone = series_notes(moved) if task.repeat else ()
    kept = () if request.when is not None else _kept_wall_time(record, resolved)
    return moved, (*resolved.assumptions, *kept, *alone)


def _kept_wall_time(record: TaskRecord, resolved: Resolved) -> tuple[str, ...]:
    """Say that a new zone moves a task, since its wall time stays: `in 2 hours` is another instant then."""
    if resolved.instant == record.run.scheduled_for:
        return ()
    was = describe(record.run.scheduled_for, resolved.zone)
    text = f"its wall time is kept: it was due {was} in the new zone; to keep that instant, give when as well"
    return (Translatable.of(NoteKind.WALL_TIME_KEPT, text, at=record.run.scheduled_for.isoformat()),)


def _in_zone(instant: datetime, old: str, new: str) -> datetime:
    """Return the instant at which the wall time of `instant` in the old zone comes in the new one."""
    return zones.place(_wall_time(instant, old), zones.find(new)).instant


def _wall_time(instant: datetime, zone: str) -> datetime:
    return instant.astimezone(zones.load(zone)).replace(tzinfo=None)


def _pause_step(record: TaskRecord, change: Change, request: Reschedule, pause: Pause, now: datetime) -> Change:
    if pause.is_of(change.task) and replace(request, pause=None, pause_until=None) != Reschedule():
        return change  # clients fill in what is usual
    step = pause_step(replace(record, task=change.task, run=change.next_run or change.run), pause, now)
    return _joined(change, step) if step else change


def _skip_step(record: TaskRecord, change: Change, request: Reschedule, now: datetime) -> Change:
    if not request.skip_next:
        return change
    return _joined(change, changes.skip_next(replace(record, task=change.task, run=change.next_run or change.run), now))


def _joined(change: Change, step: Change) -> Change:
    """Apply `step` on top of `change`; two parts that each make a new run exclude each other."""
    if change.next_run is None:
        return replace(step, extra_run=change.extra_run)
    if step.next_run is None:
        return replace(change, task=step.task, next_run=step.run, kind=step.kind)
    raise Refused(
        "The new time and the skip or pause would each make another run, and a call makes one.",
        remedy=remedies.SplitCall(step.task.id),
    )
