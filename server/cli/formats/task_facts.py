"""One task on the command line: a line after a change, or all that is known of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime

from duetime.scheduler.events import EventFilter
from duetime.scheduler.ids import DRY_RUN_ID
from duetime.scheduler.intake.changes.reschedule import NOTHING_CHANGED
from duetime.scheduler.remedies import reason_in
from duetime.scheduler.rules.changes import is_bulk_token
from duetime.scheduler.rules.limits.pool import needs_in_words
from duetime.scheduler.rules.time import times
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.task import Json, State
from duetime.scheduler.view_parts import WaitKind
from duetime.scheduler.views import TaskView
from duetime.scheduler.waits.approval import is_of_answer
from duetime.server.cli import output
from duetime.server.words.command_words import COMMAND_WORDS, in_options
from duetime.widgets.history import NO_CHANGES, FieldChanges, changes_of
from duetime.widgets.outcome import TOLD_STATES
from duetime.widgets.payload import DRY_RUN
from duetime.widgets.quote import as_text, cut
from duetime.widgets.repeat_policy import approval_in_words, policy_in_words
from duetime.widgets.schema.task import TaskPayload
from duetime.widgets.schema.time_parts import When
from duetime.widgets.text.chain_text import progress_in_words
from duetime.widgets.text.history_text import changes_in_words, clock_time
from duetime.widgets.text.task_text import (
    DELIVERY_WORDS,
    attempt_in_words,
    held_channels,
    held_in_words,
    origin_in_words,
)
from duetime.widgets.text.time_text import deadline_in_words, ends_in_words, times_to_come, wall
from rich.text import Text

IN_THE_LINE = frozenset({"when", "repeat", "until", "max_runs", "paused", "paused_until", "deadline"})
"""Changes that the line after a change shows anyway, or those below it."""

MAX_TERMINAL_LOG_LINES = 5
MAX_TERMINAL_TITLE_CHARS = 60
MAX_TERMINAL_VALUE_CHARS = 400
"""Characters of one part of a payload or a result."""


def task_line(verb: str, task: TaskPayload, changes: FieldChanges = NO_CHANGES) -> None:
    """Say in one line what was done to which task; below it the `changes` that the line does not show, and warnings."""
    tried = task.id == DRY_RUN_ID
    repeats = f", {ends_in_words(task.repeat)}" if task.repeat else ""
    extra = f"{_instant(task.extra_run.when)}; its series " if task.extra_run else ""
    when = f"{extra}{_instant(task.when)}{repeats}"
    which = f"{task.title!r} (not stored)" if tried else f"{task.id} {task.title!r}"
    output.say(f"{verb} {which}: {when}")
    for name, values in changes.items():
        if name not in IN_THE_LINE:
            output.say(f"  {changes_in_words({name: values}, fence=False)}")
    if tried and task.repeat:
        output.say(f"  next: {', '.join(map(wall, task.repeat.next))}")
    if task.repeat and task.repeat.approval and (tried or task.created):
        output.say(f"  asks before each run: {approval_in_words(task.repeat.approval)}")
    for line in _following(task):
        output.say(f"  {line}")
    warnings = [warning for warning in task.warnings or () if warning != DRY_RUN]
    for warning in (*warnings, *((task.repeat and task.repeat.notes) or ())):
        output.say(f"  note: {in_options(warning)}")


def _following(task: TaskPayload) -> Iterator[str]:
    """Yield by when the task must be finished, what keeps it from starting, and how its change is undone."""
    if deadline := deadline_in_words(task):
        yield deadline
    if task.paused:
        yield _held(task)
    elif task.state is State.WAITING or any(wait.kind == WaitKind.STOP and wait.until for wait in task.waits or ()):
        yield f"it waits for {waiting_in_words(task)}"
    if task.delivery and task.delivery.held_until:
        yield f"delivery to {held_channels(task.delivery)}{held_in_words(task.delivery, task.when.timezone)}"
    if task.undo:
        token = "" if task.state is State.CANCELLED and not task.chain else f" {task.undo}"
        until = (
            "within 10 min"
            if is_bulk_token(task.undo)
            else "until it starts"
            if is_of_answer(task.undo)
            else "within 30 s"
        )
        yield f"undo {until}: duetime undo {task.id}{token}"


def _held(task: TaskPayload) -> str:
    if task.id == DRY_RUN_ID:
        return f"it would be held until {_moment(task.paused_until, task) if task.paused_until else 'it is resumed'}"
    resume = f"`duetime reschedule {task.id} --resume`"
    if task.paused_until is None:
        return f"it is held until {resume}"
    return f"it is held until {_moment(task.paused_until, task)}, or until {resume}"


def _times(task: TaskPayload) -> Iterator[tuple[str, str]]:
    """Yield when the task runs next, and its series where that is another run."""
    yield "when", _instant(task.extra_run.when if task.extra_run else task.when)
    if task.extra_run:
        yield "its series", f"{task.state}, {_instant(task.when)}"


def _instant(when: When) -> str:
    return f"{when.text} {when.timezone} ({when.relative})"


def _moment(instant: str, task: TaskPayload) -> str:
    return f"{times.describe(datetime.fromisoformat(instant), task.when.timezone)} {task.when.timezone}"


def changes_made(scheduler: Scheduler, view: TaskView) -> FieldChanges:
    """Return what the change that `view` answers has changed, as the newest event of its task says."""
    task = view.record.task
    page = scheduler.past.events(EventFilter(task_id=task.id), limit=1)
    if NOTHING_CHANGED in view.warnings or not page.events:
        return NO_CHANGES
    return changes_of(page.events[0], task.timezone)


def waiting_in_words(task: TaskPayload) -> str:
    return "; ".join(reason_in(COMMAND_WORDS, reason, task.id) for reason in task.waiting_for or ())


def task_facts(task: TaskPayload) -> None:
    """Show everything about one task."""
    output.facts(
        [
            ("id", f"{task.id} (revision {task.revision})"),
            ("title", task.title),
            ("state", _state(task)),
            *_times(task),
            ("repeats", ends_in_words(task.repeat) if task.repeat else None),
            ("policy", policy_in_words(task.repeat.policy) if task.repeat else None),
            ("asks first", approval_in_words(task.repeat.approval) if task.repeat and task.repeat.approval else None),
            ("next", ", ".join(map(wall, times_to_come(task)))),
            ("priority", task.priority),
            ("deadline", deadline_in_words(task)),
            ("takes", f"about {task.estimate}" if task.estimate else None),
            ("needs", needs_in_words(task.needs or {})),
            ("action", task.action),
            ("message", task.message),
            *_parts("payload", task.payload),
            *_chain(task),
            ("waits for", waiting_in_words(task)),
            ("progress", _progress(task)),
            ("last run", _last_run(task)),
            ("unverified", task.last_run.unverified if task.last_run else None),
            *_parts("result", task.result),
            *_log(task),
            ("cost", task.cost),
            ("delivery", _delivery(task)),
            ("error", task.delivery.error if task.delivery else None),
            ("notify", task.notify),
            *_parts("expects", task.expect),
            *_parts("on failure", task.on_failure),
            ("key", task.idempotency_key.template if task.idempotency_key else None),
            ("key of run", task.idempotency_key.run if task.idempotency_key else None),
            *_world(task),
            ("labels", ", ".join(task.labels or ())),
            ("owner", task.owner),
            ("notes", "; ".join((*(task.warnings or ()), *((task.repeat and task.repeat.notes) or ())))),
        ]
    )


def _world(task: TaskPayload) -> Iterator[tuple[str, str]]:
    """Yield where the task came from, and that the world may start it."""
    if task.origin:
        yield "origin", origin_in_words(task.origin)
    if task.fire_address:
        yield "address", "a call of its fire address starts it"


def _last_run(task: TaskPayload) -> str:
    if task.last_run is None:
        return ""
    words = ": ".join(part for part in (task.last_run.state.value, task.last_run.summary) if part)
    of_it = task.delivery if task.last_run.state in TOLD_STATES else None
    if of_it is None:
        return words
    return f"{words}, {DELIVERY_WORDS[of_it.state]} {of_it.channel}{held_in_words(of_it, task.when.timezone)}"


def _progress(task: TaskPayload) -> str:
    if task.progress is None:
        return ""
    part = "" if task.progress.unknown else f"{task.progress.part:.0%}"
    return ": ".join(filter(None, (part, task.progress.text)))


def _chain(task: TaskPayload) -> Iterator[tuple[str, str]]:
    """Yield how far the chain is, and each of its steps."""
    chain = task.chain
    if chain is None:
        return
    which = f"step {chain.step} of {chain.id} {cut(chain.title, MAX_TERMINAL_TITLE_CHARS)}: " if chain.step else ""
    yield "chain", f"{which}{progress_in_words(chain)}"
    for step in chain.steps or ():
        after = f", after {', '.join(step.after)}" if step.after else ""
        why = f": {step.why}" if step.why else f", unverified: {step.unverified}" if step.unverified else ""
        until = f" until {step.paused_until}" if step.paused_until else ""
        paused = f", paused{until}" if step.paused else ""
        yield "", f"{step.name}: {step.state.value}{paused}{why} ({step.id}, {step.action}{after})"


def _log(task: TaskPayload) -> Iterator[tuple[str, str]]:
    """Yield the last lines of the log, the first one under its name."""
    for number, line in enumerate(task.log.lines[-MAX_TERMINAL_LOG_LINES:] if task.log else ()):
        level = f"{line.level} " if line.level else ""
        yield "" if number else "log", f"{clock_time(line.at, task.when.timezone)} {level}{_start(line.text)}"


def _delivery(task: TaskPayload) -> str:
    of_last = task.last_run is not None and task.last_run.state in TOLD_STATES
    if task.delivery is None or of_last:
        return ""
    held = held_in_words(task.delivery, task.when.timezone)
    return f"{held_channels(task.delivery)}{held or f': {task.delivery.state.value}'}"


def _state(task: TaskPayload) -> Text:
    word = output.state_word(
        task.extra_run.state if task.extra_run else task.state,
        paused=bool(task.paused),
        damaged=bool(task.damaged),
        stopping=bool(task.cancel_requested),
        blocked=bool(task.blocked),
    )
    attempt = "" if task.extra_run else attempt_in_words(task)
    until = f" until {_moment(task.paused_until, task)}" if task.paused_until else ""
    return word.append(f"{until}{f', {attempt}' if attempt else ''}", style="")


def _parts(name: str, value: Json) -> Iterator[tuple[str, str]]:
    """Yield a line for each part of a value, the first under its name: `url: https://example.com/hook`."""
    if value is None:
        return
    parts = [f"{key}: {_start(part)}" for key, part in value.items()] if isinstance(value, Mapping) else [_start(value)]
    for number, part in enumerate(parts):
        yield "" if number else name, part


def _start(value: Json) -> str:
    return cut(as_text(value), MAX_TERMINAL_VALUE_CHARS)
