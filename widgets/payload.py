"""Builds the structured content that cards, tools, REST and `--json` share from what the service answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from duetime.scheduler.errors import listed
from duetime.scheduler.foresight.start_times import expected_at, extra_run, rows_of, side_start, starts_at
from duetime.scheduler.foresight.task_view import MAX_UPCOMING_TIMES, notes_with_its_run, without_ids
from duetime.scheduler.intake.deadlines import kind_word
from duetime.scheduler.request import REMINDER_ACTION
from duetime.scheduler.rules.occurrences import reserved_duration
from duetime.scheduler.rules.redact import redacted_json
from duetime.scheduler.rules.retry import max_attempts
from duetime.scheduler.rules.series.moved_occurrence import snoozed_until
from duetime.scheduler.rules.series.occurrence_approval import counts_from_its_turn
from duetime.scheduler.rules.series.overtake import is_stopping
from duetime.scheduler.rules.states import FAILURES, OPEN, blocked_by, only_failures, was_dropped
from duetime.scheduler.rules.time import times, zones
from duetime.scheduler.rules.time.times import utc
from duetime.scheduler.task import Notify, Run, State, Task
from duetime.scheduler.translatable import NoteKind, Translatable
from duetime.scheduler.view_parts import WaitReason, waits_in_row
from duetime.scheduler.views import Clash, TaskPage, TaskRecord, TaskView, due_at
from duetime.widgets.chain_payload import chain_part
from duetime.widgets.outcome import (
    LIST_TITLE_CHARS,
    MAX_CARD_MESSAGE_CHARS,
    MAX_SAID_CHARS,
    MAX_SENTENCE_CHARS,
    awaited_event,
    delivery_part,
    last_run_part,
    pause_parts,
    progress_part,
    target_part,
    undo_parts,
    unread_parts,
    wait_reason_part,
)
from duetime.widgets.quote import cut
from duetime.widgets.repeat_policy import approval_part, policy_part, wait_part
from duetime.widgets.schema.history_parts import HistoryPart
from duetime.widgets.schema.part import PayloadPart
from duetime.widgets.schema.run_parts import MORE_WAITS, LastRun, OriginPart, WaitPart
from duetime.widgets.schema.task import TaskPayload, TaskWords
from duetime.widgets.schema.task_list import ClashMember, ClashPart, ListRow, RowWait, TaskListPayload
from duetime.widgets.schema.time_parts import DeadlinePart, ExtraRun, RelativeDeadlinePart, Repeat, When
from duetime.widgets.vocabulary import has_reminded, unusual_tier

MAX_SENTENCES = 4
MAX_ACTIONS_BYTES = 80
ONLY_REMINDS = "This only reminds; nothing does the work."
MAX_CLASH_MEMBERS = 5
DRY_RUN = Translatable.of(NoteKind.DRY_RUN, "dry run: nothing was stored")


def as_json(payload: PayloadPart | TaskListPayload | TaskWords) -> dict[str, Any]:
    """Return the payload as it goes over the wire: plain JSON values, absent parts left out."""
    return payload.model_dump(mode="json", by_alias=True, exclude_none=True)


def as_dry_run(view: TaskView) -> TaskView:
    """Return the view of a task, or of a change, that was only tried: without an id, and saying so."""
    return replace(without_ids(view), warnings=(DRY_RUN, *view.warnings))


def task_payload(view: TaskView, history: HistoryPart | None = None) -> TaskPayload:
    """Everything that a card shows of one task; `history` only when it was asked for."""
    task, run = view.record.task, view.record.run
    return TaskPayload(
        id=task.id,
        revision=task.revision,
        title=task.title,
        state=run.state,
        **pause_parts(task, run),
        cancel_requested=(is_stopping(run) and run.state in OPEN) or None,
        damaged=bool(view.record.damage) or None,
        blocked=bool(blocked_by(run)) or None,
        action=task.action,
        effect=_effect(view),
        message=_message(view.record),
        when=_when(starts_at(view.record) if task.paused else due_at(run), task.timezone, view.now),
        extra_run=_extra_run(view),
        repeat=_repeat(view),
        priority=unusual_tier(task),
        deadline=_deadline(task, run, view.now),
        relative_deadline=_relative_deadline(task, run),
        estimate=times.length(task.estimate) if task.estimate else None,
        needs=dict(task.needs) or None,
        attempt=run.attempt if run.attempt and run.state in OPEN else None,
        max_attempts=_max_attempts(task, run),
        progress=progress_part(run),
        **_waits(view.waits),
        snoozed_until=utc(again) if (again := snoozed_until(view.record.side_runs)) else None,
        last_run=last_run_part(view.record, view.not_run),
        chain=chain_part(view.chain),
        delivery=delivery_part(view.record, view.held_until),
        **_terms(task, run),
        owner=task.owner,
        created=view.created,
        warnings=_sentences(notes_with_its_run(view) if view.record.side_runs else view.warnings),
        **undo_parts(view),
        unread=unread_parts(view.unread, titled=False),
        history=history,
        now=utc(view.now),
    )


def _terms(task: Task, run: Run) -> dict[str, Any]:
    """Return its address, how a caller groups a task, and what was laid down for its outcomes, if not as usual."""
    return {
        "target": target_part(task, run),
        "labels": task.labels or None,
        "notify": task.notify if task.notify is not Notify.ALWAYS else None,
        "expect": dict(task.expect) or None,
        "on_failure": redacted_json(dict(task.on_failure)) or None,
        "origin": OriginPart(**task.origin) if task.origin else None,
    }


def task_words(view: TaskView) -> TaskWords:
    """Return how a card says the recurrence and the sentences of a task in the language of its reader."""
    texts = (*view.warnings, *view.repeat_notes)
    kinds = {cut(text, MAX_SENTENCE_CHARS): _kind_of(text) for text in texts if isinstance(text, Translatable)}
    return TaskWords(repeat=tuple(map(_kind_of, view.repeat_clauses)) or None, sentences=kinds or None)


def _kind_of(text: Translatable) -> dict[str, Any]:
    return {"kind": text.kind.value, **text.values}


def list_payload(page: TaskPage) -> TaskListPayload:
    """Return one compact line a task, in the page's order."""
    now = page.now or next((view.now for view in page.views), None)
    return TaskListPayload(
        tasks=tuple(_row(view, page) for view in rows_of(page)),
        counts={state: count for state, count in page.counts.items() if count},
        at_least=tuple(sorted(page.at_least)) or None,
        clashes=tuple(map(_clash, page.clashes)) or None,
        incomplete=None if page.complete else True,
        overdue=page.overdue or None,
        failures=only_failures(page.where.states) or None,
        cursor=page.cursor,
        unread=unread_parts(page.unread, titled=True),
        unread_count=page.unread_count or None,
        quiet_count=page.quiet_count or None,
        held_count=page.held_count or None,
        held_until=utc(page.held_until) if page.held_until else None,
        after=utc(page.where.after) if page.where.after else None,
        before=utc(page.where.before) if page.where.before else None,
        now=utc(now) if now else None,
    )


def _when(instant: datetime, zone: str, now: datetime) -> When:
    text, relative = times.describe(instant, zone), times.relative(instant, now)
    return When(utc=utc(instant), local=_local(instant, zone), timezone=zone, text=text, relative=relative)


def _local(instant: datetime, zone: str) -> str:
    return instant.astimezone(zones.load(zone)).isoformat(timespec="seconds")


def _extra_run(view: TaskView) -> ExtraRun | None:
    record, task, now = view.record, view.record.task, view.now
    run = extra_run(record, now) if record.side_runs else None
    if run is None:
        return None
    when = _when(side_start(record, run), task.timezone, now)
    return ExtraRun(state=run.state, when=when, deadline=_deadline(task, run, now))


def _repeat(view: TaskView) -> Repeat | None:
    task, run = view.record.task, view.record.run
    if task.repeat is None:
        return None
    moved_from = run.slot if run.slot != due_at(run) and run.state in OPEN else None
    return Repeat(
        rule=task.repeat,
        text=view.repeat_text or task.repeat,
        until=_local(task.until, task.timezone) if task.until else None,
        max_runs=task.max_runs,
        runs_left=max(task.max_runs - run.number + 1, 0) if task.max_runs and run.state in OPEN else None,
        moved_from=_local(moved_from, task.timezone) if moved_from else None,
        next=tuple(_local(each.instant, task.timezone) for each in view.coming[:MAX_UPCOMING_TIMES]),
        notes=_sentences(view.repeat_notes),
        policy=policy_part(task.repeat_policy),
        approval=approval_part(task.asks),
        wait_for=wait_part(task.asks),
    )


def _max_attempts(task: Task, run: Run) -> int | None:
    """Return how many attempts an open run may have that has failed before, or is to be tried again after a crash."""
    again = run.failures or run.state is State.RETRYING
    return max_attempts(run, task.retry) if again and run.state in OPEN else None


def _deadline(task: Task, run: Run, now: datetime) -> DeadlinePart | None:
    if run.deadline is None or counts_from_its_turn(task, run):
        return None
    spare = run.deadline - (run.ended_at or now)
    return DeadlinePart(
        utc=utc(run.deadline),
        local=_local(run.deadline, task.timezone),
        text=times.describe_deadline(run.deadline, run.scheduled_for, task.timezone),
        type=kind_word(task.deadline_type, task.penalty),
        after=times.length(task.deadline_after) if task.deadline_after else None,
        laxity_seconds=int((spare - reserved_duration(task, run)).total_seconds()) if run.state in OPEN else None,
        missed=(spare < timedelta(0) or was_dropped(run)) or None,
    )


def _relative_deadline(task: Task, run: Run) -> RelativeDeadlinePart | None:
    if task.deadline_after is None or not counts_from_its_turn(task, run):
        return None
    after, kind = times.length(task.deadline_after), kind_word(task.deadline_type, task.penalty)
    return RelativeDeadlinePart.of(after, kind, task.action)


def _effect(view: TaskView) -> str | None:
    """Say that a reminder does no work, and which actions do: its title may read as if it would."""
    task, run = view.record.task, view.record.run
    if task.action != REMINDER_ACTION or run.state not in OPEN:
        return None
    named = listed(view.other_actions, ", ", MAX_ACTIONS_BYTES)
    return f"{ONLY_REMINDS} Actions that do work here: {named}." if named else ONLY_REMINDS


def _message(record: TaskRecord) -> str | None:
    message = record.task.payload.get("message")
    return cut(message, MAX_SAID_CHARS) if isinstance(message, str) and message != record.task.title else None


def _sentences(texts: Sequence[str]) -> tuple[str, ...] | None:
    return tuple(cut(text, MAX_SENTENCE_CHARS) for text in texts[:MAX_SENTENCES]) or None


def _waits(waits: Sequence[WaitReason]) -> dict[str, Any]:
    """Return the first reasons of a wait, in words and as data, and how many more there are."""
    first, more = waits[:MAX_SENTENCES], sum(each.count for each in waits[MAX_SENTENCES:])
    words, parts = [cut(each.sentence, MAX_SENTENCE_CHARS) for each in first], [*map(wait_reason_part, first)]
    if more:
        words.append(f"{more} more thing{'' if more == 1 else 's'}")
        parts.append(WaitPart(kind=MORE_WAITS, count=more))
    return {"waiting_for": tuple(words) or None, "waits": tuple(parts) or None}


def _last_failure(record: TaskRecord, page: TaskPage) -> LastRun | None:
    """Return why a task is in a list of failures; in any other, that an open one failed, or any is unverified."""
    if (last := last_run_part(record)) is not None and last.unverified:
        return LastRun(state=last.state, ended=last.ended, unverified=cut(last.unverified, MAX_CARD_MESSAGE_CHARS))
    if last is None or last.state not in FAILURES:
        return None
    if only_failures(page.where.states):
        return last.model_copy(update={"summary": cut(last.summary, MAX_CARD_MESSAGE_CHARS)}) if last.summary else last
    return LastRun(state=last.state, ended=last.ended) if record.run.state in OPEN else None


def _clash(clash: Clash) -> ClashPart:
    members = tuple(
        ClashMember(id=view.record.task.id, when=utc(due_at(view.record.run)), takes=times.rough_length(length))
        for view, length in clash.occurrences[-MAX_CLASH_MEMBERS:]
    )
    return ClashPart(pool=clash.pool, room=clash.room, at=utc(clash.at), occurrences=members)


def _row(view: TaskView, page: TaskPage) -> ListRow:
    record, task, chain = view.record, view.record.task, page.chains.get(view.record.task.id)
    extra = extra_run(record, view.now)
    shown, tries, misses = extra or record.run, _max_attempts(task, record.run), blocked_by(extra or record.run)
    return ListRow(
        id=task.id,
        title=cut(task.title, LIST_TITLE_CHARS),
        state=shown.state,
        when=utc(expected_at(record, view.now)),
        priority=unusual_tier(task),
        deadline=utc(shown.deadline) if shown.deadline and shown.state in OPEN else None,
        **pause_parts(task, record.run),
        damaged=bool(record.damage) or None,
        blocked=bool(misses) or None,
        cancel_requested=(shown.state in OPEN and is_stopping(shown)) or None,
        why=cut(misses, MAX_CARD_MESSAGE_CHARS) if misses else None,
        repeat=True if task.repeat or (chain and chain.repeats) else None,
        reminder=True if has_reminded(record.run.state, task.action, task.notify) else None,
        expected=view.expected or None,
        event=cut(event, LIST_TITLE_CHARS) if (event := awaited_event(view)) else None,
        waits=tuple(RowWait.of(wait_reason_part(each)) for each in waits_in_row(view.waits)) or None,
        held_until=utc(view.held_until) if view.held_until else None,
        attempt=record.run.attempt if tries else None,
        max_attempts=tries,
        last_run=_last_failure(record, page),
        chain=cut(chain.title, LIST_TITLE_CHARS) if chain else None,
        step=chain.step if chain else None,
    )
