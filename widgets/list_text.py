"""The text twin of a list: one line a task, with what users wrote in quotes."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from duetime.scheduler.rules.states import FAILURES, OPEN, only_failures
from duetime.scheduler.rules.time import times, zones
from duetime.scheduler.task import Clash, InboxMessage, State, TaskFilter, TaskPage, TaskRecord, TaskView, Tier
from duetime.widgets.payload import LIST_TITLE_CHARS, MAX_CLASH_MEMBERS, MAX_UNREAD_MESSAGES, due
from duetime.widgets.quote import quoted
from duetime.widgets.text import THEIRS, sentences, state_word

MAX_SNIPPET_CHARS = 100
MAX_REASON_CHARS = 80
CUT = "There are too many recurring tasks to list all that they do until then: narrow the filter."
_ALL = "list_tasks() without one lists all."


def list_text(page: TaskPage) -> str:
    """One page of tasks, a line each; times are in the first task's zone unless a line names another."""
    if not page.views:
        return "\n".join([_nothing(page), *_unread_lines(page)])
    zone = page.views[0].record.task.timezone
    line = _failure_line if only_failures(page.where.states) else _row_line
    rows = [line(view, zone) for view in page.views]
    more = [f"More: list_tasks(cursor={page.cursor!r}), with the same filters."] if page.cursor else []
    clashes = [clash_line(clash, page.now or page.views[0].now) for clash in page.clashes]
    return "\n".join([_list_headline(page, zone), *_unread_lines(page), *clashes, *rows, *more])


def clash_line(clash: Clash, now: datetime) -> str:
    """Say what needs a pool at one time: `Clash Tue 24 Nov 20:30: gpu (1 slot) cannot hold «A» (...) and «B» (...)`."""
    latest = clash.occurrences[-MAX_CLASH_MEMBERS:]
    *others, last = (
        f"{quoted(view.record.task.title, LIST_TITLE_CHARS)} "
        f"({_short(due(view.record.run), view.record.task.timezone, now)}, about {times.about(length)})"
        for view, length in latest
    )
    at = _short(clash.at, clash.occurrences[-1][0].record.task.timezone, now)
    more = f"{len(clash.occurrences) - len(latest)} more, " if len(clash.occurrences) > len(latest) else ""
    return f"Clash {at}: {clash.pool} ({clash.room}) cannot hold {more}{', '.join(others)} and {last} together."


def _list_headline(page: TaskPage, zone: str) -> str:
    more = page.at_least
    counts = ", ".join(f"{n}{'+' if state in more else ''} {state.value}" for state, n in page.counts.items() if n)
    now = page.now or page.views[0].now
    window = window_in_words(page.where.after, page.where.before, zone)
    due_in = f"Due {window}." if window else ""
    cut = "" if page.complete else CUT
    newest = ", by their last run, newest first" if only_failures(page.where.states) else ""
    found = counts or "Occurrences of recurring tasks"
    return sentences(f"{found}{newest}. Times in {zone}, now {times.describe(now, zone)}.", due_in, cut, f"{THEIRS}.")


def window_in_words(start: datetime | None, end: datetime | None, zone: str) -> str:
    """Say how the bounds of a filter were read: `from Fri 20 Nov 2026 00:00 to Sat 21 Nov 2026 17:00`, or empty."""
    said = (("from", start), ("before" if start is None else "to", end))
    return " ".join(f"{word} {times.describe(bound, zone)}" for word, bound in said if bound is not None)


def _row_line(view: TaskView, zone: str) -> str:
    task, run = view.record.task, view.record.run
    state = state_word(run.state, paused=task.paused, damaged=bool(view.record.damage))
    return sentences(
        task.id,
        _short(due(run), task.timezone, view.now),
        "" if task.timezone == zone else task.timezone,
        "" if state == State.SCHEDULED else state,
        "" if task.priority is Tier.NORMAL else task.priority.value,
        quoted(task.title, LIST_TITLE_CHARS),
        f"by {_short(run.deadline, task.timezone, view.now)}" if run.deadline and run.state in OPEN else "",
        _asides("repeats" if task.repeat else "", _last_failure(view.record)),
    )


def _failure_line(view: TaskView, zone: str) -> str:
    """Say when a task failed, after how many attempts and why, and when it runs again."""
    task, run, last = view.record.task, view.record.run, view.record.last_run or view.record.run
    attempts = f"after {last.attempt} attempt{'' if last.attempt == 1 else 's'}" if last.attempt else ""
    ended = _short(last.ended_at, task.timezone, view.now) if last.ended_at else ""
    why = f": {quoted(last.error, MAX_REASON_CHARS)}" if last.error else ""
    again = f"{_again(view)} {_short(due(run), task.timezone, view.now)}" if run.state in OPEN else ""
    return sentences(
        task.id,
        quoted(task.title, LIST_TITLE_CHARS),
        last.state.value,
        ended,
        "" if task.timezone == zone else task.timezone,
        f"{attempts}{why}",
        _asides("repeats" if task.repeat else "", again),
    )


def _again(view: TaskView) -> str:
    state = state_word(view.record.run.state, paused=view.record.task.paused, damaged=bool(view.record.damage))
    return "next" if state == State.SCHEDULED else f"{state}, next"


def _asides(*asides: str) -> str:
    said = "; ".join(aside for aside in asides if aside)
    return f"({said})" if said else ""


def _last_failure(record: TaskRecord) -> str:
    last = record.last_run
    failed = last is not None and last.state in FAILURES and record.run.state in OPEN
    return f"last run {last.state.value}" if last and failed else ""


def _short(instant: datetime, zone: str, now: datetime) -> str:
    year = now.astimezone(zones.load(zone)).year
    return times.describe(instant, zone).replace(f" {year} ", " ")


def _unread_lines(page: TaskPage) -> Iterable[str]:
    shown = page.unread[:MAX_UNREAD_MESSAGES]
    lines = [_unread_line(message, page.now or message.created_at) for message in shown]
    more = f" {page.unread_count - len(shown)} more are unread." if page.unread_count > len(shown) else ""
    return [*lines, f"Unread until get_task(task_id, history=true) has shown them.{more}"] if lines else []


def _unread_line(message: InboxMessage, now: datetime) -> str:
    ended = "" if message.state is State.SUCCEEDED else f" {message.state.value}"
    said = "" if message.text == message.title else f": {quoted(message.text, MAX_SNIPPET_CHARS)}"
    when = times.relative(message.created_at, now)
    return f"Unread ({when}): {quoted(message.title, LIST_TITLE_CHARS)}{ended}{said} {message.task_id}"


def _nothing(page: TaskPage) -> str:
    if any(page.counts.values()):
        return "No more tasks: this was the last page."
    if page.where != TaskFilter():
        window = window_in_words(page.where.after, page.where.before, page.zone)
        return sentences("No task matches this filter.", f"It lists what is due {window}." if window else "", _ALL)
    return 'No tasks. schedule_task(title="Call John", when="in 20 min") makes one.'
