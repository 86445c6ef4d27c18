"""A task in one or two sentences that a voice can read out: no ids, no symbols, times as people say them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from duetime.scheduler.request import never_reminds
from duetime.scheduler.rules.states import FAILURES, OPEN
from duetime.scheduler.task import State
from duetime.scheduler.view_parts import AT_THE_LATEST, WaitKind
from duetime.widgets.formats.spoken_words import number, spoken_text, spoken_time, spoken_title
from duetime.widgets.schema.chain_parts import ChainPart
from duetime.widgets.schema.run_parts import WaitPart
from duetime.widgets.schema.task import TaskPayload
from duetime.widgets.text.summary import look, look_apart, why_expired

FIRST_SENTENCES: Final = {
    "dry_run": "{title} would come {due}",
    "scheduled": "{title} is scheduled for {by}",
    "waiting": "{title} is waiting{for_what}",
    "overdue": "{title} is overdue. It was due {due}",
    "ready": "{title} is ready to start",
    "running": "{title} is running now",
    "stopping": "{title} is being stopped",
    "retrying": "{title} failed and will be tried again{again}",
    "suspended": "{title} is waiting{for_what}",
    "blocked": "{title} is blocked, and continues once its requirements are met",
    "paused": "{title} is paused{until}",
    "damaged": "{title} is damaged and cannot run",
    "succeeded": "{title} was done {ended}",
    "reminded": "You were reminded of {title} {ended}",
    "failed": "{title} failed {ended}",
    "expired": "{title} expired {ended}, because {why}",
    "cancelled": "{title} is cancelled",
    "skipped": "{title} was skipped",
}
_SILENT: Final = "{title} came {ended}, and nobody was notified"
"""The same of a reminder that succeeded and notified nobody."""

_APART: Final = {
    "snoozed": "It comes again {when}",
    "scheduled": "An extra run of it comes {when}",
    "ready": "An extra run of it is due now",
    "overdue": "An extra run of it is overdue. It was due {when}",
    "running": "An extra run of it is running now",
}
"""The second sentence, about a run next to its series; any other look has one word."""

_TO_COME: Final = frozenset({"dry_run", "scheduled", "waiting", "ready", "running", "retrying", "suspended"})
"""Looks of what has one sentence so far, and is still to be done."""

_WAIT_KINDS: Final = (WaitKind.APPROVAL, WaitKind.EVENT, WaitKind.TASK, WaitKind.STEP)
_POOLS: Final = frozenset({WaitKind.POOL, WaitKind.POOL_TOO_SMALL, WaitKind.POOL_STOPPED, WaitKind.POOL_BREAKER})


def with_speech(task: TaskPayload) -> TaskPayload:
    """Return the payload with its sentences for a voice."""
    return task.model_copy(update={"speech": speech(task)})


def speech(task: TaskPayload) -> str:
    """Say how a task stands: `Call John is scheduled for tomorrow at nine in the morning`."""
    found, times = look(task), _Times(task.when.timezone, datetime.fromisoformat(task.now))
    ended = task.last_run.ended if task.last_run and task.last_run.ended else task.when.utc
    wakes = next((wait.until for wait in task.waits or () if wait.kind == WaitKind.ATTEMPT and wait.until), None)
    silent = found == "succeeded" and never_reminds(task.action, task.notify)
    first = (_SILENT if silent else FIRST_SENTENCES[found]).format(
        title=spoken_title(task.title),
        due=times.at(task.when.utc),
        by=times.by(task.when.utc),
        ended=times.at(ended),
        why=why_expired(task),
        until=f" until {times.by(task.paused_until)}" if task.paused_until else "",
        again=f" {times.at(wakes)}" if wakes else "",
        for_what=_for_what(task, times),
    )
    second = next(_more(task, found, times), "")
    return f"{first}. {second}." if second and found != "overdue" else f"{first}."


@dataclass(frozen=True, slots=True)
class _Times:
    """Says instants of a payload in the zone of its task."""

    zone: str
    now: datetime

    def at(self, utc: str) -> str:
        return spoken_time(datetime.fromisoformat(utc), self.zone, self.now)

    def by(self, utc: str) -> str:
        return self.at(utc).removeprefix("on ")

    def is_to_come(self, utc: str | None) -> bool:
        return utc is not None and datetime.fromisoformat(utc) > self.now


def _waits(task: TaskPayload, kind: WaitKind) -> list[WaitPart]:
    return [wait for wait in task.waits or () if wait.kind == kind]


def _for_what(task: TaskPayload, times: _Times) -> str:
    """Say what keeps a task that waits: an answer, an event, other tasks; or that it continues by itself, and when."""
    kind = next((kind for kind in _WAIT_KINDS if _waits(task, kind)), None)
    if kind is WaitKind.EVENT:
        return f" for {_event_of(_waits(task, kind)[0])}"
    if kind is WaitKind.APPROVAL:
        return " for approval" + "".join(f" and for {_event_of(each)}" for each in _waits(task, WaitKind.EVENT))
    if kind is WaitKind.TASK:
        return f" for {_upstreams(_waits(task, kind))}"
    goes_on = next((wait.until for wait in task.waits or () if wait.until), None)
    return f", and continues by itself{f' {times.at(goes_on)}' if times.is_to_come(goes_on) and goes_on else ''}"


def _event_of(wait: WaitPart) -> str:
    return f"the event {spoken_title((wait.event or '').replace(', ', ' or '))}"


def _upstreams(waits: list[WaitPart]) -> str:
    titles = [spoken_title(wait.title) for wait in waits if wait.title]
    if len(waits) == 1 and titles:
        return f"{titles[0]}, which has to end first"
    return f"{number(len(waits))} other tasks" if len(titles) == len(waits) else "other tasks"


def _more(task: TaskPayload, found: str, times: _Times) -> Iterator[str]:
    """Yield what is worth a second sentence, what matters most first."""
    yield from _apart(task, times)
    if found in _TO_COME:
        yield from _of_waits(task, times)
    if found == "blocked":
        yield from (f"It says, {spoken_text(each.after)}" for each in _waits(task, WaitKind.BLOCKED) if each.after)
    if task.chain is not None and task.chain.step is None:
        yield from _progress_of(task.chain, task.state)
    if found in {"succeeded", "reminded"} and task.last_run and task.last_run.unverified:
        yield "Its result is not what was expected"
    if found == "paused" and task.paused_until and times.is_to_come(task.when.utc):
        yield f"It is due {times.at(task.when.utc)}"
    if found in _TO_COME:
        yield from _of_the_last_run(task, times)
        yield from _terms(task, times)


def _apart(task: TaskPayload, times: _Times) -> Iterator[str]:
    """Say when a run comes that is next to those of its series."""
    if task.extra_run is not None:
        found, when = look_apart(task), times.at(task.extra_run.when.utc)
        yield _APART.get(found, f"An extra run of it is {found}").format(when=when)


def _of_waits(task: TaskPayload, times: _Times) -> Iterator[str]:
    for asked in _waits(task, WaitKind.APPROVAL):
        question = spoken_text(asked.title or "")
        parts = (f"the question is, {question}" if question else "", _answered_by(asked, times))
        yield from _sentence(*parts)
    for event in _waits(task, WaitKind.EVENT):
        at_once = any(reason.endswith(AT_THE_LATEST) for reason in task.waiting_for or ())
        if event.until:
            yield f"It {'starts at the latest' if at_once else 'waits until'} {times.by(event.until)}"
    if any(wait.kind in _POOLS for wait in task.waits or ()):
        yield "It waits for capacity that others use"


def _answered_by(wait: WaitPart, times: _Times) -> str:
    return f"it has to be answered by {times.by(wait.until)}" if wait.until else ""


def _sentence(*parts: str) -> Iterator[str]:
    text = ", and ".join(part for part in parts if part)
    if text:
        yield f"{text[0].upper()}{text[1:]}"


def _progress_of(chain: ChainPart, state: State) -> Iterator[str]:
    """Say how far a chain is: `Three of its five steps are done, and the step mail failed`."""
    steps, failed = f"{number(chain.of)} step{'' if chain.of == 1 else 's'}", chain.failed or ()
    if not chain.done and not failed and state in OPEN:
        yield f"It has {steps}"
    elif chain.done < chain.of:
        done = f"{number(chain.done) if chain.done else 'none'} of its {steps} {_is(chain.done, state)} done"
        yield from _sentence(done, _lost(failed))


def _is(count: int, state: State) -> str:
    if state in OPEN:
        return "is" if count == 1 else "are"
    return "was" if count == 1 else "were"


def _lost(failed: Sequence[str]) -> str:
    if len(failed) == 1:
        return f"the step {spoken_title(failed[0])} failed"
    return f"{number(len(failed))} failed" if failed else ""


_BEFORE_EACH_RUN: Final = {
    (False, False): "",
    (True, False): ", and asks for approval before each run",
    (False, True): ", and waits for an event before each run",
    (True, True): ", and before each run asks for approval and waits for an event",
}


def _of_the_last_run(task: TaskPayload, times: _Times) -> Iterator[str]:
    if task.progress and task.progress.part and not task.progress.unknown and task.state is State.RUNNING:
        yield f"It is {number(round(task.progress.part * 100))} percent done"
    if task.last_run and task.last_run.state in FAILURES and task.last_run.ended and task.repeat:
        yield f"Its last run failed {times.at(task.last_run.ended)}"
    if task.last_run and task.last_run.unverified:
        yield "The result of its last run is not what was expected"


def _terms(task: TaskPayload, times: _Times) -> Iterator[str]:
    if task.deadline is not None:
        yield f"It has to be finished by {times.by(task.deadline.utc)}"
    if task.relative_deadline is not None:
        yield f"It has to be finished within {spoken_text(task.relative_deadline.text)}"
    if task.repeat is not None:
        asks, waits = task.repeat.approval is not None, bool(task.repeat.wait_for)
        yield f"It repeats{_BEFORE_EACH_RUN[asks, waits]}"
