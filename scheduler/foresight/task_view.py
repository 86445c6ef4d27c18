"""Views: all displayed data of a task at one moment, from stored values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from duetime.scheduler.chain.chain import MAX_NAMED_STEPS, ChainRecord, has_begun, open_generations
from duetime.scheduler.chain.chain_view import view_of_chain
from duetime.scheduler.chain.dependency import Upstreams
from duetime.scheduler.chain.link_change import NewLinks
from duetime.scheduler.errors import InvalidArgument, Refused
from duetime.scheduler.events import SPAWNED_COUNT_MEMBER, SPAWNED_MEMBER, Event
from duetime.scheduler.foresight.explain import RunFacts, wait_reasons
from duetime.scheduler.foresight.reasons.before_start import approval_reasons, event_of_each_run
from duetime.scheduler.foresight.start_times import extra_run, run_after_pause
from duetime.scheduler.ids import DRY_RUN_ID
from duetime.scheduler.intake.changes.actions import UNDOES_SCHEDULING
from duetime.scheduler.records import Added
from duetime.scheduler.rules.changes import undo_token
from duetime.scheduler.rules.occurrences import recurrence_of, upcoming
from duetime.scheduler.rules.recurrence.recurrence import Recurrence
from duetime.scheduler.rules.series.moved_overlap import waits_for
from duetime.scheduler.rules.series.occurrence_wait import names_awaited
from duetime.scheduler.rules.series.overtake import is_stopping, was_cancelled
from duetime.scheduler.rules.states import TERMINAL
from duetime.scheduler.rules.time import zones
from duetime.scheduler.rules.time.times import describe, describe_apart
from duetime.scheduler.run_records import Failure
from duetime.scheduler.task import Coalesce, Overlap, RepeatPolicy, Run, State, Task
from duetime.scheduler.translatable import ClauseKind, NoteKind, Translatable, of_step
from duetime.scheduler.view_parts import Occurrence, WaitReason
from duetime.scheduler.views import TaskRecord, TaskView, after_pause
from duetime.scheduler.waits.signal import KeptWait

MAX_UPCOMING_TIMES = 5

_MAX_DAMAGE_CHARS = 160


def view_of(
    record: TaskRecord,
    now: datetime,
    *,
    created: bool | None = None,
    warnings: tuple[str, ...] = (),
    facts: RunFacts | None = None,
    other_actions: tuple[str, ...] = (),
) -> TaskView:
    """Return the view of one task for a card, the CLI or a tool: next occurrences, reasons for a wait, how to undo.

    `facts` come from outside the database, and explain why a due run waits. `other_actions` would have done work: a
    model that asked for work may have got a reminder.
    """
    record, rule, damage = _readable(record)
    live = record.run.state not in TERMINAL and not is_stopping(record.run)
    coming = _upcoming(record, now) if live else ()
    return TaskView(
        record=record,
        now=now,
        upcoming=coming,
        repeat_text=rule.text if rule else None,
        repeat_clauses=rule.clauses if rule else (),
        repeat_notes=(*rule.notes(now, coming), *_awaited(record)) if rule and live else (),
        waits=wait_reasons(record, now, facts),
        created=created,
        warnings=(*damage, *warnings, *_also(record, now)),
        undo=undo_token(record.run, now) if created is None else undo_of_new(record.run, created=created),
        other_actions=other_actions,
    )


def undo_of_new(run: Run, *, created: bool) -> str | None:
    """Return the undo of a call that schedules; a repeated one did nothing that can be undone."""
    return UNDOES_SCHEDULING if created and run.state not in TERMINAL else None


def _awaited(record: TaskRecord) -> tuple[str, ...]:
    awaited = event_of_each_run(record.task)
    return (_each_time(f"each run waits for {awaited}", record.task),) if awaited else ()


def _awaited_in_chain(found: ChainRecord) -> tuple[str, ...]:
    """Say which events the steps await in each generation; together where all first steps await the same."""
    awaited = {step.name: event_of_each_run(step.record.task) for step in found.steps}
    first = {awaited[step.name] for step in found.steps if not step.after}
    if len(first) == 1 and (of_all := first.pop()):
        first_task = next(step.record.task for step in found.steps if not step.after)
        return (_each_time(f"each generation waits for {of_all}", first_task), *_of_steps(found, awaited, of_all))
    return tuple(_of_steps(found, awaited))


def _of_steps(found: ChainRecord, awaited: Mapping[str, str], of_all: str = "") -> Iterator[str]:
    for step in found.steps:
        if awaited[step.name] and (step.after or awaited[step.name] != of_all):
            text = f"step {step.name} waits each time for {awaited[step.name]}"
            yield _each_time(text, step.record.task, step=step.name)


def _each_time(text: str, task: Task, *, step: str | None = None) -> str:
    kind = NoteKind.STEP_EVENT_EACH_TIME if step else NoteKind.EVENT_EACH_TIME
    return Translatable.of(kind, text, event=", ".join(names_awaited(task.asks)), step=step)


def _upcoming(record: TaskRecord, now: datetime) -> tuple[Occurrence, ...]:
    """Return the next occurrences of a task: during a pause with an end, those after it.

    Times that pass while its run waits, is open or is late do not come, unless its policy makes up for them.
    """
    task, run = record.task, record.run
    if task.paused and task.paused_until is not None:
        try:
            run = run_after_pause(record, task.paused_until)
        except Refused:  # none is left
            return ()
    left_out = run.state is State.WAITING or not _makes_up(task.repeat_policy or RepeatPolicy())
    return upcoming(task, run, MAX_UPCOMING_TIMES, after=now if left_out else None)


def _makes_up(policy: RepeatPolicy) -> bool:
    """Whether a time that passes while a run is open or late may come afterwards."""
    return policy.overlap is not Overlap.SKIP or policy.coalesce not in (None, Coalesce.EARLIEST)


def chain_view(
    found: ChainRecord, now: datetime, *, created: bool | None = None, warnings: Sequence[str] = ()
) -> TaskView:
    """Return the view of a chain; of one that recurs with its rule in words and its next occurrences."""
    to_come = [(step, run) for step in found.steps for run in step.record.side_runs if not has_begun(run)]
    also = [of_step(step.name, _also_runs(step.record, run, now)) for step, run in to_come]
    view = view_of_chain(found, now, created=created, warnings=[*warnings, *also, *open_generations(found)])
    rule = recurrence_of(view.record.task)
    if rule is None:
        return view
    live = view.record.run.state not in TERMINAL and not is_stopping(view.record.run)
    coming = _upcoming(view.record, now) if live else ()
    notes = _awaited_in_chain(found) if live else ()
    ended = ((step.name, step.record.run) for step in found.steps)
    cancelled = [name for name, run in ended if live and was_cancelled(run)]
    if cancelled:
        names = ", ".join(cancelled[:MAX_NAMED_STEPS])
        coming, notes = coming[:1], (f"this generation is the last one, since {names} was cancelled",)
    return replace(view, upcoming=coming, repeat_text=rule.text, repeat_clauses=rule.clauses, repeat_notes=notes)


def without_ids(view: TaskView) -> TaskView:
    """Return the view of a task or a chain that was only tried, with a placeholder for its ids."""
    task, run = view.record.task, view.record.run
    waits = tuple(replace(each, run=DRY_RUN_ID) if each.run == run.id else each for each in view.waits)
    run = replace(run, id=DRY_RUN_ID, task_id=DRY_RUN_ID)
    record = replace(view.record, task=replace(task, id=DRY_RUN_ID), run=run)
    steps = [replace(step, task_id=DRY_RUN_ID) for step in view.chain.steps] if view.chain else []
    chain = replace(view.chain, id=DRY_RUN_ID, steps=tuple(steps)) if view.chain else None
    return replace(view, record=record, chain=chain, waits=waits)


def row_of(record: TaskRecord, now: datetime) -> TaskView:
    """Return the view of a task in a list: without the next occurrences, which no list shows."""
    record, rule, damage = _readable(record)
    text = rule.text if rule else None
    return TaskView(record, now, repeat_text=text, waits=wait_reasons(record, now), warnings=damage)


def facts_after(facts: RunFacts, links: NewLinks, upstreams: Upstreams) -> RunFacts:
    """Return what a task waits for once it has new links; `facts` are what it waits for now."""
    if links.wait or links.no_wait:
        facts = replace(facts, awaited=KeptWait(links.wait) if links.wait else None)
    if links.approval:
        facts = replace(facts, approval=links.approval)
    return facts if links.after is None else replace(facts, upstreams=tuple(upstreams.values()))


def with_waits(views: Sequence[TaskView], facts: Mapping[str, RunFacts], now: datetime) -> tuple[TaskView, ...]:
    """Return rows that say what their runs wait for, with the facts of some of these runs."""
    known = ((view, facts.get(view.record.run.id)) for view in views)
    return tuple(replace(view, waits=_waits_of_row(view, found, now)) if found else view for view, found in known)


def _waits_of_row(view: TaskView, facts: RunFacts, now: datetime) -> tuple[WaitReason, ...]:
    if facts.approval or facts.awaited or facts.queue or facts.held_by:
        return wait_reasons(view.record, now, facts)
    return (*approval_reasons(view.record, None, facts.side_approvals, now), *view.waits)


def _readable(record: TaskRecord) -> tuple[TaskRecord, Recurrence | None, tuple[str, ...]]:
    """Return a task with its rule; one whose zone or rule cannot be read is shown in UTC without it, and says so."""
    task = record.task
    try:
        zones.load(task.timezone)
        return record, _counted_once(recurrence_of(task), task.max_runs), _damage_notes(record.damage)
    except (InvalidArgument, LookupError, ValueError, OSError) as problem:
        why = f"its time zone or rule cannot be read here ({problem})"
    damage = (*record.damage, why)
    shown = replace(record, task=replace(task, timezone="UTC", repeat=None), damage=damage)
    return shown, None, (*_damage_notes(damage), Translatable.of(NoteKind.SHOWN_IN_UTC, "times are shown in UTC"))


def _counted_once(rule: Recurrence | None, most: int | None) -> Recurrence | None:
    """Return a rule without its count where `max_runs` of the task is not greater and so replaces it."""
    if rule is None or rule.count is None or most is None or most > rule.count:
        return rule
    clauses = tuple(clause for clause in rule.clauses if clause.kind is not ClauseKind.COUNT)
    return replace(rule, text="".join(clauses), clauses=clauses)


def _damage_notes(damage: Sequence[str]) -> tuple[str, ...]:
    return tuple(Translatable.of(NoteKind.DAMAGED, f"damaged: {each}"[:_MAX_DAMAGE_CHARS]) for each in damage)


def _also(record: TaskRecord, now: datetime) -> tuple[str, ...]:
    """Describe when the side runs come: a snoozed run, or one to run now."""
    return tuple(_also_runs(record, run, now) for run in record.side_runs)


def notes_with_its_run(view: TaskView) -> tuple[str, ...]:
    """Return the warnings of a task whose side run is shown in the place of its series, without when that comes."""
    shown = extra_run(view.record, view.now)
    said = _also_runs(view.record, shown, view.now) if shown else None
    return tuple(each for each in view.warnings if each != said)


def _also_runs(record: TaskRecord, run: Run, now: datetime) -> str:
    zone, at = record.task.timezone, after_pause(record.task, run.wake_at or run.scheduled_for)
    if run.state is State.WAITING:
        return _of_run(NoteKind.RUN_WAITS, run, zone, "is waiting")
    if record.task.paused and record.task.paused_until is None and run.started_at is None:
        return _of_run(NoteKind.RUN_HELD, run, zone, "is held by the pause")
    if waits_for(record, run, now):
        return _of_run(NoteKind.RUN_AFTER, run, zone, "starts when another one has ended")
    at = max(at, now) if run.state is State.SCHEDULED else at
    return Translatable.of(NoteKind.ALSO_RUNS, f"it also runs {describe_apart(at, zone)}", at=at.isoformat())


def _of_run(kind: NoteKind, run: Run, zone: str, said: str) -> str:
    due = run.scheduled_for
    return Translatable.of(kind, f"its run of {describe(due, zone)} {said}", at=due.isoformat())


def follow_up_notes(cause: Failure | None, made_by_failures: Sequence[TaskRecord]) -> tuple[str, ...]:
    """Name the task whose failure made this one, and the tasks that failures of this one have made."""
    sentences = []
    if cause is not None:
        text = f"a failure of {cause.task_id} made this task"
        sentences.append(Translatable.of(NoteKind.MADE_BY_FAILURE, text, task=cause.task_id))
    for each in made_by_failures:
        task_id, state = each.task.id, each.run.state.value
        text = f"a failure of it made {task_id} ({state})"
        sentences.append(Translatable.of(NoteKind.FAILURE_MADE, text, task=task_id, state=state))
    return tuple(sentences)


def spawned_note(ended: Event) -> tuple[str, ...]:
    """Name the first tasks that a run has spawned, by the event of its end."""
    found = ended.after or {}
    ids, count = found.get(SPAWNED_MEMBER), found.get(SPAWNED_COUNT_MEMBER)
    if not isinstance(ids, list) or not isinstance(count, int):
        return ()
    more = f" and {count - len(ids)} more" if count > len(ids) else ""
    named = ", ".join(map(str, ids))
    text = f"its last run has spawned {count} task{'s' if count > 1 else ''}: {named}{more}"
    return (Translatable.of(NoteKind.SPAWNED, text, count=count),)


def repeat_note(stored: TaskRecord) -> str:
    """Say that a call repeats an earlier one."""
    made = describe(stored.task.created_at, stored.task.timezone)
    text = f"this repeats an earlier call: it returns the task created on {made}, nothing new was scheduled"
    return Translatable.of(NoteKind.REPEATED_CALL, text)


def all_warnings(warnings: Sequence[str], added: Added) -> tuple[str, ...]:
    """Return the warnings of a call that made a task or repeats an earlier one, or makes another one like it."""
    if not added.created:
        return (repeat_note(added.record),)
    if added.twin is not None:
        text = f"{added.twin} has the same title and time; cancel one of them if this is unintended"
        return (*warnings, Translatable.of(NoteKind.SAME_TITLE_AND_TIME, text))
    return tuple(warnings)
