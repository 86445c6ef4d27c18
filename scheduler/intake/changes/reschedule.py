"""Decides one reschedule: a single call may change several parts, all of them or none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from duetime.scheduler import remedies
from duetime.scheduler.calls.reschedule import Reschedule, with_removed
from duetime.scheduler.errors import InvalidArgument, Refused
from duetime.scheduler.events import EventKind
from duetime.scheduler.handlers.payload import as_json
from duetime.scheduler.intake.changes.draft import ChangeDraft
from duetime.scheduler.intake.changes.end import end_step, lost_run_note, max_runs_step
from duetime.scheduler.intake.changes.links import links_step
from duetime.scheduler.intake.changes.pause import (
    Pause,
    deadline_warning,
    ended_warning,
    left_out_note,
    moved_from,
    past_pause,
    pause_step,
    read_pause,
    seen_at,
    skip_next,
)
from duetime.scheduler.intake.changes.series import (
    has_new_days,
    has_new_zone,
    move_series_step,
    new_rule_step,
    series_notes,
    wall_time,
)
from duetime.scheduler.intake.changes.terms import (
    new_value_notes,
    running_attempt_note,
    terms_step,
    unblock,
    with_origin,
)
from duetime.scheduler.intake.changes.urgency import demand_step
from duetime.scheduler.intake.corrected_example import corrects_examples
from duetime.scheduler.intake.instants import resolve_moment, words_of
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.intake.repeat_policy import changed_policy, respread, spread_note
from duetime.scheduler.intake.series_end import never_recurs
from duetime.scheduler.intake.terms.watch_words import watch_times
from duetime.scheduler.intake.validation import (
    ProblemCollector,
    check_labels,
    check_max_runs,
    check_notify,
    check_retry,
    silent_note,
)
from duetime.scheduler.outbound.target import WATCH
from duetime.scheduler.records import Change
from duetime.scheduler.request import GivenPayload
from duetime.scheduler.rules import changes
from duetime.scheduler.rules.occurrences import recurrence_of
from duetime.scheduler.rules.redact import restore_masked
from duetime.scheduler.rules.retry import as_policy
from duetime.scheduler.rules.sanitize import check_title
from duetime.scheduler.rules.series.natural_key import check_kept
from duetime.scheduler.rules.time import zones
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

    The last part with an event of its own gives the change its kind. `recurs` is set for a step of a chain that recurs.
    """
    request = with_removed(request)
    if request == Reschedule():
        raise InvalidArgument(
            "changes",
            "nothing to change was given",
            accepted="a new title, time, recurrence, payload, urgency, delivery, label or wait, a pause or a skip",
            example=f"title={record.task.title!r}",  # an example harms nothing: this changes nothing
        )
    unchanged = Change(record.task, record.run, kind=EventKind.RESCHEDULED)
    record = past_pause(record) if _moves_next(request) else record
    began = ChangeDraft(record, request, planner, now, replace(unchanged, run=record.run), recurs)
    described = terms_step(_describe_step(began))
    draft = demand_step(_timing_step(described))
    pause = read_pause(draft)
    draft = draft.assuming(*pause.warnings)
    draft = draft.warning(*running_attempt_note(described), *silent_note(draft.task.action, request.notify))
    draft = draft.warning(*new_value_notes(record.task, draft.task))
    draft = draft.warning(*planner.undelivered_notes(draft.task)) if request.deliver_to else draft
    check_kept(record.task, draft.task)
    draft = links_step(_skip_step(_pause_step(draft, pause)))
    notes = (*as_assumed(draft.assumptions), *draft.warnings)
    if draft.change == began.change:
        return unchanged, (*notes, NOTHING_CHANGED)
    return draft.change, notes


def _moves_next(request: Reschedule) -> bool:
    """Whether a call moves the next occurrence of a series alone, and leaves a pause as it is."""
    moves = request.when is not None and request.repeat is None and not request.all_following
    return moves and request.pause is None and request.pause_until is None


def with_stored_secrets(payload: GivenPayload | None, task: Task) -> Mapping[str, Json] | None:
    """Return another payload for a task: what it has as `***`, as the task is shown, stays what it was."""
    given: Mapping[str, Json] | None = as_json(payload)
    found = None if given is None else restore_masked(dict(given), dict(task.payload))
    return found if isinstance(found, dict) else given


def _describe_step(draft: ChangeDraft) -> ChangeDraft:
    """Change what a task is and does: its title, payload, retries, channels, labels and notifications."""
    task, request, planner, problems = draft.task, draft.request, draft.planner, ProblemCollector()
    title = None if request.title is None else problems.of(check_title, request.title)
    given = planner.changed_payload(task.action, with_stored_secrets(request.payload, task))
    if given is not None and task.action == WATCH:
        given = watch_times(given, planner.times, draft.now, zone=task.timezone)
    payload = None if given is None else problems.of(planner.payload, task.action, given, task.tenant)
    task = problems.of(with_origin, task, request) or task
    channels = None if request.deliver_to is None else problems.of(planner.channels_of, request.deliver_to, task.origin)
    for check in (check_retry, check_labels, check_max_runs, check_notify):
        problems.of(check, request)
    if problems:
        raise problems.error()
    task = replace(
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
    run = draft.record.run
    run = unblock(run) if task.payload != draft.record.task.payload else run
    return draft.with_change(replace(draft.change, task=task, run=run))


def _timing_step(draft: ChangeDraft) -> ChangeDraft:
    """Change when the task runs: its time, zone, rule, policy and end."""
    timed = draft
    if draft.request.repeat is not None and never_recurs(draft.request.repeat):
        timed = timed.with_task(repeat=None, until=None, max_runs=None).with_request(repeat=None)
    timed = max_runs_step(timed)
    request = timed.request
    recurs = timed.task.repeat or draft.record.task.repeat or request.repeat_policy  # that of a step is its chain's
    if recurs and (timed.task.repeat or request.repeat is None):
        timed = _policy_step(timed)
    if request.all_following:
        timed = move_series_step(timed)
    elif request.repeat is not None or (timed.task.repeat is not None and has_new_days(timed)):
        timed = new_rule_step(timed)
    elif request.when is not None or has_new_zone(timed):
        timed = _new_time_step(timed)
    ended = end_step(timed)
    if request.repeat is None and request.until is None:
        ended = ended.warning(*lost_run_note(draft.record.task, ended.task))
    return replace(ended, request=draft.request)


def _policy_step(draft: ChangeDraft) -> ChangeDraft:
    """Change the policy of a series; a new rule is spread with its times."""
    task, request, times = draft.task, draft.request, draft.planner.times
    policy, rule = changed_policy(task, request, draft.today), recurrence_of(task)
    is_new = request.repeat_policy is not None or "repeat_policy" in request.remove
    if rule is None or request.repeat is not None or not is_new:
        return draft.with_task(repeat_policy=policy)
    usual = times.for_work(task.action, of_agent=draft.planner.of_agent).spread
    policy, coming = respread(rule, policy, usual, request.repeat_policy), rule.after(draft.now)
    note = spread_note(policy, coming, rule.zone) if coming else ()
    return draft.with_task(repeat_policy=policy).assuming(*note)


def _new_time_step(draft: ChangeDraft) -> ChangeDraft:
    """Move the current run to `when`, or to its wall time in the zone of the call."""
    record, task, request, run, zone = draft.record, draft.task, draft.request, draft.record.run, draft.zone
    if request.when is None and (run.scheduled_for <= draft.now or changes.has_started(run)):
        return draft.with_task(timezone=zones.find(zone).key)  # only what is said changes
    given = request.when if request.when is not None else wall_time(run.scheduled_for, record.task.timezone)
    frame = draft.frame(moved_from=moved_from(record), seen=seen_at(record))
    argument = "when" if request.when is not None else "timezone"
    resolved = resolve_moment(given, now=draft.now, zone=zone, argument=argument, frame=frame)
    stays = resolved.instant == run.scheduled_for and zone == task.timezone
    if stays and run.state in {State.SCHEDULED, State.WAITING}:
        return draft.assuming(*resolved.assumptions)
    when = words_of(request.when) if request.when is not None else task.when
    task = replace(task, timezone=resolved.zone if request.timezone else zone, when=when)
    moved = changes.move(replace(record, task=task), resolved.instant, draft.now)
    alone = (*series_notes(moved), *left_out_note(replace(record, task=task), moved)) if task.repeat else ()
    kept = () if request.when is not None else _kept_wall_time(record, resolved)
    return draft.with_change(moved).assuming(*resolved.assumptions, *kept, *alone)


def _kept_wall_time(record: TaskRecord, resolved: Resolved) -> tuple[str, ...]:
    """Say that a new zone moves a task, since its wall time stays: `in 2 hours` is another instant then."""
    if resolved.instant == record.run.scheduled_for:
        return ()
    was = describe(record.run.scheduled_for, resolved.zone)
    text = f"its wall time is kept: it was due {was} in the new zone; to keep that instant, give when as well"
    return (Translatable.of(NoteKind.WALL_TIME_KEPT, text, at=record.run.scheduled_for.isoformat()),)


def _pause_step(draft: ChangeDraft, pause: Pause) -> ChangeDraft:
    """Pause or resume the task, if the call requests it."""
    if pause.is_of(draft.task) and replace(draft.request, pause=None, pause_until=None) != Reschedule():
        return draft.warning(*ended_warning(draft))  # clients fill in what is usual
    step = pause_step(draft.change.applied_to(draft.record), pause, draft.now)
    draft = draft.with_change(_joined(draft.change, step)) if step else draft
    return draft.warning(*ended_warning(draft), *deadline_warning(draft))


def _skip_step(draft: ChangeDraft) -> ChangeDraft:
    if not draft.request.skip_next:
        return draft
    step = skip_next(draft.change.applied_to(draft.record), draft.now)
    return draft.with_change(_joined(draft.change, step))


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
