"""The first two lines of an answer: sentences that can be read out to a person as they are.

They have no ids, no names of tools and nothing that users wrote, since a quotation cannot be spoken.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from math import floor
from typing import Final

from duetime.scheduler.ids import DRY_RUN_ID
from duetime.scheduler.outbound.target import WATCH
from duetime.scheduler.request import REMINDER_ACTION
from duetime.scheduler.rules.time import times, zones
from duetime.scheduler.task import State
from duetime.scheduler.view_parts import AT_THE_LATEST, WaitKind
from duetime.scheduler.views import CHAIN_ACTION
from duetime.widgets.schema.task import TaskPayload
from duetime.widgets.vocabulary import STATE_LABELS, look_of, word_of

_NOW_BELOW: Final = timedelta(seconds=1)
_DAY: Final = timedelta(days=1)
_DAYS_FROM: Final = timedelta(hours=36)
_STEPS: Final = (
    (timedelta(seconds=59.5), "second", timedelta(seconds=1)),
    (timedelta(minutes=59.5), "minute", timedelta(minutes=1)),
    (timedelta(minutes=60.5), "hour", timedelta(hours=1)),
    (timedelta(minutes=119.5), "minute", timedelta(minutes=1)),
    (_DAYS_FROM, "hour", timedelta(hours=1)),
)
"""Spans of time below each limit are said in its unit, as on a card."""

_COMES: Final = {
    "dry_run": f"{STATE_LABELS['dry_run']}, nothing was stored: {{it}} would come {{due}}.",
    "overdue": "{it} is {word}: it was due {due}.",
    "waiting": "{it} is {word} and starts by itself.{later}",
    "asking": "{it} is {word} for the user's answer.{later}",
    "ready": "{it} is {word} to start. {time}",
    "ready_again": "{it} is {word} to start its next attempt. Its first was due {due}.",
    "stopping": "{it} is {word}: it was asked to stop.",
    "retrying": "{it} is {word} after a failure. {time}",
    "blocked": "{it} is {word} and continues once its requirements are met. {time}",
    "suspended": "{it} is {word} and continues by itself. {time}",
    "suspended_watching": "{it} is {word} until its next look. {time}",
    "suspended_asking": "{it} is {word} and waits for the user's answer. {time}",
    "suspended_awaiting": "{it} is {word} and waits for an event. {time}",
    "running": "{it} is {word}. {time}",
    "paused": "{it} is {word}. {time}",
    "paused_running": "{it} is {word}, and its current run goes on to its end. {time}",
    "paused_until": "{it} is {word} until {until}. {time}",
    "paused_up_to": "{it} is {word} until {until}, which is its time.",
    "damaged": "{it} is {word}. {time}",
    "succeeded": "{it} {word} {ended}.",
    "reminded": "The user was {word} {ended}.",
    "silent": "The reminder came {ended}, and nobody was notified.",
    "failed": "{it} {word} {ended}.",
    "expired": "{it} {word} {ended}: {why}.",
    "cancelled": "{it} is {word}; it was for {due}.",
    "skipped": "{it} was {word}; it was for {due}.",
}
"""The first sentence by look; any other look is one of what has its time to come."""

_APART: Final = {
    "snoozed": "{it} comes again {when}.",
    "scheduled": "An extra run of {it} comes {when}.",
    "ready": "An extra run of {it} is due now.",
    "overdue": "An extra run of {it} is overdue: it was due {when}.",
    "running": "An extra run of {it} is running now.",
}
"""The sentence before it, about a run next to its series; any other look has one word."""

_NOUNS: Final = {REMINDER_ACTION: "the reminder", CHAIN_ACTION: "the chain"}


def look(task: TaskPayload) -> str:
    """Return how a task looks now."""
    if task.id == DRY_RUN_ID:
        return "dry_run"
    return look_of(
        task.state,
        task.action,
        late=datetime.fromisoformat(task.now) - datetime.fromisoformat(task.when.utc),
        paused=bool(task.paused),
        damaged=bool(task.damaged),
        stopping=bool(task.cancel_requested),
        blocked=bool(task.blocked),
        notify=task.notify,
    )


def first_sentence(task: TaskPayload) -> str:
    """Say how a task stands and when: `The task failed Tue 24 Nov 2026 09:00 Denver time, 2 hours ago`.

    A snoozed outcome, or a run that was asked for, is said first where it comes before the next run of its series.
    """
    looks = look(task)
    found = _fuller(looks, task)
    now, due = datetime.fromisoformat(task.now), datetime.fromisoformat(task.when.utc)
    sentence = _COMES.get(found, "{it} is {word} for {due}.")
    it = _NOUNS.get(task.action, "the task")
    time = moment(due, task.when.timezone, now)
    words: Mapping[str, str] = {
        "it": it if found == "dry_run" else it.capitalize(),
        "word": word_of(looks),
        "due": time,
        "time": "None of its times comes after that." if _is_last_passed(task) else _due(due, now, time),
        "later": f" {_bound(task, time)}" if due > now else "",
        "ended": _ended(task, now) or time,
        "why": why_expired(task),
        "until": moment(datetime.fromisoformat(task.paused_until), task.when.timezone, now)
        if task.paused_until
        else "",
    }
    return f"{_apart(task, it, now)}{sentence.format(**words)}"


def look_apart(task: TaskPayload) -> str:
    """Return how the run looks that comes before the next one of its series, or runs now; empty where there is none.

    A run that is due is `ready`, a snoozed outcome that is to come `snoozed`.
    """
    extra = task.extra_run
    if extra is None:
        return ""
    late = datetime.fromisoformat(task.now) - datetime.fromisoformat(extra.when.utc)
    found = look_of(extra.state, task.action, late=late)
    if extra.state is not State.SCHEDULED or found != State.SCHEDULED:
        return found
    if late >= timedelta(0):
        return State.READY.value
    return "snoozed" if task.snoozed_until else found


def _apart(task: TaskPayload, it: str, now: datetime) -> str:
    """Say what comes before the next run of a series, as a sentence to stand before the one about that."""
    found = look_apart(task)
    if task.extra_run is None or not found:
        return ""
    when = moment(datetime.fromisoformat(task.extra_run.when.utc), task.when.timezone, now)
    sentence = _APART.get(found, "An extra run of {it} is {word}.").format(
        it=it, word=STATE_LABELS.get(found, found).lower(), when=when
    )
    return f"{sentence[:1].upper()}{sentence[1:]} "


def _due(due: datetime, now: datetime, time: str) -> str:
    """Say when a task is or was due, without the time where that is now."""
    if abs(due - now) < _NOW_BELOW:
        return "It is due now."
    return f"Its time {'is' if due > now else 'was'} {time}."


def _is_last_passed(task: TaskPayload) -> bool:
    """Whether no occurrence of a series comes after the end of its pause."""
    return bool(task.paused_until and task.repeat and not task.repeat.next)


def _fuller(found: str, task: TaskPayload) -> str:
    """Return the name of the sentence for a look, of which some have more to say."""
    if found == "waiting" and _waits(task, WaitKind.APPROVAL):
        return "asking"
    if found == "suspended":
        kinds = ((WaitKind.APPROVAL, "suspended_asking"), (WaitKind.EVENT, "suspended_awaiting"))
        usual = "suspended_watching" if task.action == WATCH else found
        return next((fuller for kind, fuller in kinds if _waits(task, kind)), usual)
    if found == "ready" and task.attempt:
        return "ready_again"
    if found == "succeeded" and task.action == REMINDER_ACTION:
        return "silent"
    if found == "paused" and task.state is State.RUNNING:
        return "paused_running"
    return _pause(task) if found == "paused" and task.paused_until else found


def _pause(task: TaskPayload) -> str:
    """Return the name of the sentence for a pause with an end: whether the task is due then, or later."""
    return "paused_up_to" if task.paused_until == task.when.utc and not _is_last_passed(task) else "paused_until"


def why_expired(task: TaskPayload) -> str:
    """Say what ran out for an expired task: its hard deadline, the wait for an event, or the time of its own work."""
    if task.deadline is not None and task.deadline.missed and task.deadline.type == "hard":
        return "its deadline could no longer be met"
    waited = task.action != CHAIN_ACTION and task.last_run is not None and task.last_run.attempts is None
    return "no event came in time" if waited else "its time was up"


def _waits(task: TaskPayload, kind: WaitKind) -> bool:
    return any(wait.kind == kind for wait in task.waits or ())


def _bound(task: TaskPayload, time: str) -> str:
    """Say from when a task may start; one that an event starts before its time ends its wait at that time."""
    by_event = any(reason.endswith(AT_THE_LATEST) for reason in task.waiting_for or ())
    return f"An event starts it, or its time {time}." if by_event else f"It starts no earlier than {time}."


def _ended(task: TaskPayload, now: datetime) -> str:
    ended = task.last_run.ended if task.last_run else None
    return moment(datetime.fromisoformat(ended), task.when.timezone, now) if ended else ""


def moment(instant: datetime, zone: str, now: datetime) -> str:
    """Say an instant with its zone and how far it is: `Tue 24 Nov 2026 09:00 Denver time, in 3 days`."""
    return f"{times.describe(instant, zone)} {zone_words(zone)}, {away(instant, now, zone)}"


def zone_words(zone: str) -> str:
    """Name a zone as people do: `America/New_York` is `New York time`."""
    return f"{zone.rpartition('/')[2].replace('_', ' ')} time" if "/" in zone else zone


def away(instant: datetime, now: datetime, zone: str) -> str:
    """Say how far an instant is in one rounded unit, as cards do; days are counted by their midnights: `in 3 days`."""
    span = abs(instant - now)
    if span < _NOW_BELOW:
        return "now"
    if span >= _DAYS_FROM:
        home = zones.load(zone)
        count, unit = abs(instant.astimezone(home).date() - now.astimezone(home).date()) // _DAY, "day"
        if count == 1:
            return "tomorrow" if instant > now else "yesterday"
    else:
        unit, length = next((unit, length) for limit, unit, length in _STEPS if span < limit)
        count = floor(span / length + 0.5)
    words = f"{count} {unit}{'' if count == 1 else 's'}"
    return f"in {words}" if instant > now else f"{words} ago"
