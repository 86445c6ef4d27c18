"""The verbs for tasks: schedule, list, show, reschedule, cancel."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any

import typer
from duetime.scheduler.calls.reschedule import REMOVABLE_ARGUMENTS, RescheduleCall
from duetime.scheduler.intake.changes.actions import UNDOES_SCHEDULING
from duetime.scheduler.intake.changes.reschedule import NOTHING_CHANGED
from duetime.scheduler.intake.validation import wait_seconds
from duetime.scheduler.request import Request, ScheduleArguments
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.task import State
from duetime.scheduler.views import TaskView
from duetime.server.cli import completion, output
from duetime.server.cli.completion import Action, Id, Labels, RepeatPolicyOption
from duetime.server.cli.formats import task_facts
from duetime.server.cli.formats.contract import (
    ExpectOption,
    NotifyOption,
    OnFailureOption,
    OriginOption,
    ValidOutputOption,
    changed_terms,
    policy_of,
    terms_of,
)
from duetime.server.cli.formats.links import Key, Revision, with_links
from duetime.server.cli.formats.option_values import (
    ApprovalOption,
    DeliverToOption,
    RetryOption,
    StepsOption,
    more_of,
    read_object,
    read_units,
)
from duetime.server.cli.output import AsJson
from duetime.server.cli.past.history_table import show_history, traceback_of
from duetime.server.rest.rows.tasks import ShownTaskPayload, changed_task, history_of, shown_task
from duetime.server.session import session, someone_runs
from duetime.widgets.history import NO_CHANGES, FieldChanges
from duetime.widgets.payload import as_dry_run, as_json
from duetime.widgets.schema.task import TaskPayload

UNCHANGED_VERB = "Left as it was:"
RESCHEDULE_VERBS = {None: "Changed", True: "Paused", False: "Resumed"}
WhenOption = Annotated[str | None, typer.Option(help="'in 2 hours', 'tomorrow 9am', '2026-11-24T09:00'")]
RepeatOption = Annotated[str | None, typer.Option(help="'every weekday at 9:00', a five-field cron, or an RRULE")]
Timezone = Annotated[str | None, typer.Option(help="IANA time zone for wall times; default: the configured one")]
Until = Annotated[str | None, typer.Option(help="when a recurrence ends")]
Payload = Annotated[str | None, typer.Option(metavar="JSON", help="the action's arguments, a JSON object")]
Priority = Annotated[str | None, typer.Option(help="critical, high, normal, low or background; normal by default")]
DeadlineOption = Annotated[str | None, typer.Option(help="'tomorrow 17:00', or '2 hours' counted from when it is due")]
DeadlineTypeOption = Annotated[str | None, typer.Option(help="hard, soft, soft-linear or soft-step; soft by default")]
EstimateOption = Annotated[
    str | None, typer.Option(help="how long it takes: '90 s', '5 min'; learned from earlier runs by default")
]
NeedsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--need",
        metavar="POOL=UNITS",
        help="pool units it holds while it runs; may be repeated",
        autocompletion=completion.needs,
    ),
]
MaxRuns = Annotated[int | None, typer.Option(help="the maximum number of occurrences")]
Remove = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PART",
        help=f"empty a part, or put it back to its default: {', '.join(REMOVABLE_ARGUMENTS)}; may be repeated",
    ),
]
ReasonOption = Annotated[str | None, typer.Option(help="the reason, for the history")]
NewKey = Annotated[
    str | None,
    typer.Option(help="idempotency key: the same key never creates a second task; or a template of keys"),
]
OnlyTried = Annotated[bool, typer.Option("--dry-run", help="show what would be stored, store nothing")]
Given = ScheduleArguments


def schedule(  # noqa: PLR0917 - Typer gives each by its name
    context: typer.Context,
    title: Annotated[str, typer.Argument(metavar="TITLE", help="what it is; a reminder shows it when it is due")],
    when: WhenOption = None,
    repeat: RepeatOption = None,
    timezone: Timezone = None,
    until: Until = None,
    max_runs: MaxRuns = None,
    repeat_policy: RepeatPolicyOption = None,
    action: Action = "reminder",
    payload: Payload = None,
    priority: Priority = None,
    deadline: DeadlineOption = None,
    deadline_type: DeadlineTypeOption = None,
    estimate: EstimateOption = None,
    needs: NeedsOption = None,
    retry: RetryOption = None,
    label: Labels = None,
    deliver_to: DeliverToOption = None,
    notify: NotifyOption = None,
    expect: ExpectOption = None,
    on_failure: OnFailureOption = None,
    origin: OriginOption = None,
    after: completion.AfterOption = None,
    after_failure: completion.AfterFailureOption = None,
    valid_output: ValidOutputOption = None,
    steps: StepsOption = None,
    approval: ApprovalOption = None,
    wait_for: completion.WaitForOption = None,
    key: NewKey = None,
    dry_run: OnlyTried = False,
    as_json: AsJson = False,
) -> None:
    """Schedule a task: a reminder, a webhook, or one of your handlers."""
    at: Given = {"when": when, "repeat": repeat, "timezone": timezone, "until": until, "max_runs": max_runs}
    due: Given = _urgency(priority, deadline, deadline_type, estimate=estimate, needs=read_units(needs), action=action)
    how: Given = {"labels": label or (), "deliver_to": deliver_to or (), "notify": notify, "retry": policy_of(retry)}
    work: Given = {"payload": read_object(payload) or {}, **more_of(steps, wait_for, approval, repeat_policy)}
    rest: Given = {"after": after or (), "after_failure": after_failure, "dry_run": dry_run, "idempotency_key": key}
    _submit(context, title, at | due | how | work | rest | terms_of(expect, on_failure, valid_output, origin), as_json)


def _submit(context: typer.Context, title: str, arguments: ScheduleArguments, as_json: bool) -> None:
    request = Request.of(title, arguments)
    with session(context).app() as app:
        view, runs = app.scheduler.submit(request), request.dry_run or someone_runs(app)
    verb = "Would schedule" if request.dry_run else "Scheduled" if view.created else "Exists already:"
    show_change(verb, as_dry_run(view) if request.dry_run else view, as_json)
    if not runs:
        output.note_no_process()


def show(
    context: typer.Context,
    *,
    task_id: Id,
    history: Annotated[bool, typer.Option("--history", help="also every attempt, and the newest events")] = False,
    wait: Annotated[
        str | None, typer.Option(help="until its run has ended, at most this long: '30 s', '5 min'")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show everything about one task."""
    with session(context).scheduler() as scheduler:
        task_id = scheduler.tasks.find(task_id)
        longest = None if wait is None else timedelta(seconds=wait_seconds(wait))
        view = scheduler.get(task_id) if longest is None else scheduler.wait(task_id, timeout=longest)
        past = history_of(scheduler, view) if history else None
    show_task(_dump(shown_task(view, past)), as_json=as_json)


def show_task(found: dict[str, Any], *, as_json: bool) -> None:
    """Write everything about one task."""
    if as_json:
        output.as_json(found)
        return
    task = ShownTaskPayload.model_validate(found)
    task_facts.task_facts(task)
    zone, past = task.when.timezone, task.history
    if past is not None:
        output.say("")
        events = [{"task_id": task.id, **_dump(event)} for event in past.events]
        show_history(past.attempts, events, zone)
    elif task.failed_attempt is not None:
        output.say("")
        traceback_of(task.failed_attempt, zone)
    if past is not None and past.older:
        output.say(f"Older events: duetime history {task.id}")


@with_links
def reschedule(  # noqa: PLR0917 - Typer gives each by its name
    context: typer.Context,
    task_id: Id,
    links: dict[str, Any],
    title: Annotated[str | None, typer.Option(help="a new title")] = None,
    when: WhenOption = None,
    repeat: RepeatOption = None,
    timezone: Timezone = None,
    until: Until = None,
    max_runs: MaxRuns = None,
    repeat_policy: RepeatPolicyOption = None,
    payload: Payload = None,
    priority: Priority = None,
    deadline: DeadlineOption = None,
    deadline_type: DeadlineTypeOption = None,
    estimate: EstimateOption = None,
    needs: NeedsOption = None,
    retry: RetryOption = None,
    label: Labels = None,
    deliver_to: DeliverToOption = None,
    notify: NotifyOption = None,
    expect: ExpectOption = None,
    on_failure: OnFailureOption = None,
    origin: OriginOption = None,
    remove: Remove = None,
    pause: Annotated[bool | None, typer.Option("--pause/--resume", help="pause or resume it")] = None,
    pause_until: Annotated[str | None, typer.Option(help="pause it until this time, then resume it")] = None,
    skip_next: Annotated[bool, typer.Option("--skip-next", help="skip the next occurrence")] = False,
    all_following: Annotated[bool, typer.Option("--all-following", help="with --when: move the whole series")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="show what would change, change nothing")] = False,
    as_json: AsJson = False,
) -> None:
    """Change a task; what you leave out stays as it is."""
    at = _given(when=when, repeat=repeat, timezone=timezone, until=until, pause_until=pause_until, max_runs=max_runs)
    by = _given(skip_next=skip_next, all_following=all_following, estimate=estimate, dry_run=dry_run)
    new = changed_terms(repeat_policy, retry, notify, expect, on_failure, origin=origin, remove=remove, payload=payload)
    new |= _urgency(priority, deadline, deadline_type, title=title, pause=pause, labels=label, deliver_to=deliver_to)
    _reschedule(context, task_id, _given(**at, **by, **new, **links, needs=read_units(needs)), as_json)


def _given(**arguments: Any) -> Any:
    return arguments


def _reschedule(context: typer.Context, task_id: str, call: RescheduleCall, as_json: bool) -> None:
    with session(context).app() as app:
        view = app.scheduler.reschedule(app.scheduler.tasks.find(task_id), **call)
        _show_rescheduled(app.scheduler, view, call, as_json)
        starts = call["when"] or call["repeat"] or call["pause"] is False
        if starts and not call["dry_run"] and not someone_runs(app):
            output.note_no_process()


def _show_rescheduled(scheduler: Scheduler, view: TaskView, call: RescheduleCall, as_json: bool) -> None:
    if call["dry_run"]:
        show_change("Would change", as_dry_run(view), as_json)
    else:
        verb = UNCHANGED_VERB if NOTHING_CHANGED in view.warnings else verb_of(call)
        show_change(verb, view, as_json, task_facts.changes_made(scheduler, view))


def verb_of(call: Any) -> str:
    """Return the word for what a command has done to a task."""
    return RESCHEDULE_VERBS[True if call["pause_until"] else call["pause"]]


def cancel(
    context: typer.Context,
    *,
    task_id: Id,
    reason: ReasonOption = None,
    revision: Revision = None,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Cancel a task; a running attempt is asked to stop."""
    with session(context).scheduler() as scheduler:
        view = scheduler.cancel(scheduler.tasks.find(task_id), reason=reason, revision=revision, idempotency_key=key)
    show_change("Cancelled" if view.record.run.state is State.CANCELLED else "Stop requested:", view, as_json)


def undo(
    context: typer.Context,
    *,
    task_id: Id,
    token: Annotated[str | None, typer.Argument(help="the change, as its answer names it; default: a cancel")] = None,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Undo a cancel or another change: of a task within 30 seconds, of a chain within 10 minutes."""
    with session(context).scheduler() as scheduler:
        view = scheduler.act(scheduler.tasks.find(task_id), "undo", undo=token, idempotency_key=key)
    show_change(undo_verb(token, view.record.run.state), view, as_json)


def undo_verb(token: str | None, state: str) -> str:
    """Return the word for what an undo has done, by which a new task is cancelled, and a cancelled one not any more."""
    if token is None:
        return "Scheduled again"
    return "Undone" if state != State.CANCELLED else "Cancelled" if token == UNDOES_SCHEDULING else "Not undone:"


def show_change(verb: str, view: TaskView, as_json: bool, changes: FieldChanges = NO_CHANGES) -> None:
    show_changed(verb, _dump(changed_task(view)), changes, as_json=as_json)


def show_changed(verb: str, found: dict[str, Any], changes: FieldChanges = NO_CHANGES, *, as_json: bool) -> None:
    """Write what was done to a task, and the `changes` that its line does not show."""
    if as_json:
        output.as_json(found)
    else:
        task_facts.task_line(verb, TaskPayload.model_validate(found), changes)


_dump = as_json
"""The payload as plain JSON; the verbs have an option of the same name."""


def _urgency(priority: str | None, deadline: str | None, deadline_type: str | None, **more: Any) -> Any:
    """Return the arguments as they were typed: the service decides which words there are."""
    return {"priority": priority, "deadline": deadline, "deadline_type": deadline_type, **more}
