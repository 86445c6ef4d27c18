"""The text twin of a list: one line a task, with what users wrote in quotes."""

from __future__ import annotations

from collections.abc import Container, Mapping
from datetime import datetime, timedelta

from duetime.scheduler.foresight.start_times import expected_at, extra_run, rows_of, side_start, side_times, starts_at
from duetime.scheduler.rules.retry import attempt_in_words
from duetime.scheduler.rules.series.overtake import is_stopping
from duetime.scheduler.rules.states import FAILURES, OPEN, blocked_by, only_failures
from duetime.scheduler.rules.time import times, zones
from duetime.scheduler.task import State
from duetime.scheduler.view_parts import waits_in_row
from duetime.scheduler.views import Clash, HeldDeliveries, TaskFilter, TaskPage, TaskRecord, TaskView, due_at
from duetime.widgets.outcome import LIST_TITLE_CHARS
from duetime.widgets.payload import MAX_CLASH_MEMBERS
from duetime.widgets.quote import quoted, sentences
from duetime.widgets.text.summary import moment
from duetime.widgets.text.task_text import QUOTES_ARE_DATA, held_until_in_words
from duetime.widgets.text.unread_text import counted_in_words, unread_in_words, unread_lines
from duetime.widgets.vocabulary import look_of, unusual_tier, word_of

MAX_LISTED_REASON_CHARS = 80
MAX_EXTRA_TIMES = 2
LIST_CUT = "There are too many recurring tasks to list all that they do until then: narrow the filter."
_ALL = "list_tasks() without a filter lists all."
_MAKES_ONE = 'schedule_task(title="Call John", when="in 20 min") makes one.'


def list_text(page: TaskPage) -> str:
    """One page of tasks, a line each; times are in the first task's zone unless a line names another."""
    if not page.views:
        return "\n".join([_nothing(page), *unread_lines(page)])
    zone = page.views[0].record.task.timezone
    line = _failure_line if only_failures(page.where.states) else _row_line
    rows = [sentences(line(view, zone), _step_words(page, view)) for view in rows_of(page)]
    more = [f"More: list_tasks(cursor={page.cursor!r}), with the same filters."] if page.cursor else []
    clashes = [clash_line(clash, page.now or page.views[0].now) for clash in page.clashes]
    return "\n".join([*filter(None, _headlines(page, zone)), *unread_lines(page), *clashes, *rows, *more])


def clash_line(clash: Clash, now: datetime) -> str:
    """Say what needs a pool at one time: `Clash Tue 24 Nov 20:30: gpu (1 slot) cannot hold «A» (...) and «B» (...)`.

    The time of one that starts then is not repeated.
    """
    latest = clash.occurrences[-MAX_CLASH_MEMBERS:]
    *others, last = (_member(view, length, clash.at, now) for view, length in latest)
    at = _short(clash.at, clash.occurrences[-1][0].record.task.timezone, now)
    more = f"{len(clash.occurrences) - len(latest)} more, " if len(clash.occurrences) > len(latest) else ""
    return f"Clash {at}: {clash.pool} ({clash.room}) cannot hold {more}{', '.join(others)} and {last} together."


def _member(view: TaskView, length: timedelta, at: datetime, now: datetime) -> str:
    due, zone = due_at(view.record.run), view.record.task.timezone
    begins = "" if due == at else f"{_short(due, zone, now)}, "
    return f"{quoted(view.record.task.title, LIST_TITLE_CHARS)} ({begins}about {times.rough_length(length)})"


def _headlines(page: TaskPage, zone: str) -> list[str]:
    """Return two lines for a person, how many there are and what comes next, and those for a model."""
    counts = counts_in_words(page.counts, page.at_least, failures=only_failures(page.where.states))
    now = page.now or page.views[0].now
    window = window_in_words(page.where.after, page.where.before, zone)
    newest = ", by their last run, newest first" if only_failures(page.where.states) else ""
    return [
        f"{_standing_words(page.where)}{counts or 'Occurrences of recurring tasks'}{_held_words(page)}{newest}.",
        sentences(_next_words(page, now), _unread_words(page), f"It is now {times.describe(now, zone)}."),
        f"{page.overdue}." if page.overdue else "",
        sentences(
            f"Times in {zone}.",
            f"Due {window}." if window else "",
            "" if page.complete else LIST_CUT,
            f"{QUOTES_ARE_DATA}.",
        ),
    ]


def _held_words(page: TaskPage) -> str:
    """Say how many of the tasks that are counted by state are paused, and stop: "at least" where a page has not all."""
    looks = {view.record.task.id: look_of_view(view) for view in page.views}
    counted = sum(count for state, count in page.counts.items() if state not in FAILURES)
    whole = not page.at_least and len(looks) in {counted, sum(page.counts.values())}
    held = [(look, list(looks.values()).count(look)) for look in ("paused", "stopping")]
    said = ", ".join(f"{count} {word_of(look)}" for look, count in held if count)
    return f", of which {'' if whole else 'at least '}{said}" if said and not page.where.standing else ""


def _standing_words(where: TaskFilter) -> str:
    """Say how all tasks of a filter stand, whose states are counted: `Paused: 2 scheduled`."""
    return f"{where.standing.capitalize().replace('_', ' ')}: " if where.standing else ""


def counts_in_words(
    counts: Mapping[State, int], at_least: Container[State], *, failures: bool, spoken: bool = True
) -> str:
    """Say how many tasks there are in each state, and apart from them whose last run failed.

    A recurring task that failed and is scheduled again is one of both. With `failures` none is counted as anything
    else. The names of the states are not `spoken`.
    """
    counted = [(state, counts[state], "+" if state in at_least else "") for state in State if counts.get(state)]
    texts = {state: f"{n}{more} {word_of(state) if spoken else state}" for state, n, more in counted}
    states = ", ".join(text for state, text in texts.items() if state not in FAILURES)
    failed = ", ".join(text for state, text in texts.items() if state in FAILURES)
    if failures or not states:
        return failed
    total = sum(n + bool(more) for state, n, more in counted if state in FAILURES)
    return f"{states}; {failed} when {'it' if total == 1 else 'they'} last ran" if failed else states


def _next_words(page: TaskPage, now: datetime) -> str:
    """Say how far the next one is: the first on the page that is to come, or a moved or snoozed run before it."""
    times_to_come = [due_at(view.record.run) for view in page.views if look_of_view(view) == "scheduled"]
    apart = [each for view in page.views for each in side_times(view.record)]
    first = min((each for each in (*times_to_come, *apart) if each > now), default=None)
    first = None if only_failures(page.where.states) else first
    zone = page.views[0].record.task.timezone
    return f"The next is due {moment(first, zone, now)}." if first else ""


def _unread_words(page: TaskPage) -> str:
    held = HeldDeliveries(page.held_count, page.held_until)
    return sentences(unread_in_words(page), quiet_in_words(page.quiet_count), held_in_words(held, page.zone))


def held_in_words(held: HeldDeliveries, zone: str) -> str:
    """Say how many deliveries quiet hours hold, and until when; empty where there is none."""
    if held.until is None:
        return ""
    until = times.describe(held.until, zone)
    return (
        f"{counted_in_words(held.count)} deliver{'y' if held.count == 1 else 'ies'} held until {until} (quiet hours)."
    )


def quiet_in_words(count: int) -> str:
    """Say of what nobody was notified; empty where there is none."""
    plural = "" if count == 1 else "s"
    return f"{counted_in_words(count)} quiet outcome{plural} of the last 24 hours left out." if count else ""


def look_of_view(view: TaskView) -> str:
    """Return how a task looks in a list."""
    task, run = view.record.task, view.record.run
    return look_of(
        run.state,
        task.action,
        late=view.now - due_at(run),
        paused=task.paused,
        damaged=bool(view.record.damage),
        stopping=is_stopping(run),
        notify=task.notify,
        blocked=blocked_by(run) is not None,
    )


def window_in_words(start: datetime | None, end: datetime | None, zone: str) -> str:
    """Say how the bounds of a filter were read: `from Fri 20 Nov 2026 00:00 to Sat 21 Nov 2026 17:00`, or empty."""
    bounds = (("from", start), ("before" if start is None else "to", end))
    return " ".join(f"{word} {times.describe(bound, zone)}" for word, bound in bounds if bound is not None)


def _row_line(view: TaskView, zone: str) -> str:
    task, run = view.record.task, view.record.run
    look = _look_of_next(view)
    return sentences(
        task.id,
        _short(expected_at(view.record, view.now), task.timezone, view.now),
        "" if task.timezone == zone else task.timezone,
        "" if look == State.SCHEDULED else _look_words(view, look),
        unusual_tier(task) or "",
        quoted(task.title, LIST_TITLE_CHARS),
        f"by {_short(run.deadline, task.timezone, view.now)}" if run.deadline and run.state in OPEN else "",
        _asides(
            "repeats" if task.repeat else "",
            _in_series(view),
            _extra(view),
            _waits(view),
            _held(view),
            _misses(view),
            _last_failure(view.record),
        ),
    )


def _step_words(page: TaskPage, view: TaskView) -> str:
    chain = page.chains.get(view.record.task.id)
    if chain is None:
        return ""
    repeats = ", repeats" if chain.repeats else ""
    return f"(step {chain.step} of {chain.id} {quoted(chain.title, LIST_TITLE_CHARS)}{repeats})"


def _look_words(view: TaskView, look: str) -> str:
    run = view.record.run
    again = run.state is State.RETRYING or (run.state is State.READY and run.attempt > 0)
    tries = f", {attempt_in_words(run, view.record.task.retry)}," if again else ""
    until = view.record.task.paused_until if look == "paused" else None
    held = f" until {_short(until, view.record.task.timezone, view.now)}," if until else ""
    return f"{word_of(look)}{tries}{held}"


def _failure_line(view: TaskView, zone: str) -> str:
    """Say when a task failed, after how many attempts and why, and when it runs again."""
    task, run, last = view.record.task, view.record.run, view.record.last_run or view.record.run
    attempts = f" after {last.attempt} attempt{'' if last.attempt == 1 else 's'}" if last.attempt else ""
    ended = _short(last.ended_at, task.timezone, view.now) if last.ended_at else ""
    why = f": {quoted(last.error, MAX_LISTED_REASON_CHARS)}" if last.error else ""
    elsewhere = "" if task.timezone == zone else task.timezone
    again = f"{_again(view)} {_short(starts_at(view.record), task.timezone, view.now)}" if run.state in OPEN else ""
    return sentences(
        task.id,
        quoted(task.title, LIST_TITLE_CHARS),
        f"{sentences(word_of(last.state), ended, elsewhere)}{attempts}{why}",
        _asides("repeats" if task.repeat else "", again),
    )


def _again(view: TaskView) -> str:
    look = look_of_view(view)
    return "next" if look == State.SCHEDULED else f"{word_of(look)}, next"


def _look_of_next(view: TaskView) -> str:
    """Return how the run looks that is expected first, be it one next to its series."""
    task, extra = view.record.task, extra_run(view.record, view.now)
    if extra is None:
        return look_of_view(view)
    return look_of(extra.state, task.action, late=view.now - side_start(view.record, extra), paused=task.paused)


def _in_series(view: TaskView) -> str:
    """Say when the series comes next, where the row has the time of a run next to it."""
    coming = _short(starts_at(view.record), view.record.task.timezone, view.now)
    return f"its own next time {coming}" if extra_run(view.record, view.now) else ""


def _extra(view: TaskView) -> str:
    shown_first = expected_at(view.record, view.now)
    times_to_come = [each for each in side_times(view.record) if each != shown_first]
    shown = [_short(each, view.record.task.timezone, view.now) for each in times_to_come[:MAX_EXTRA_TIMES]]
    more = [f"{len(times_to_come) - len(shown)} more times"] if len(times_to_come) > len(shown) else []
    return f"also runs {', '.join([*shown, *more])}" if shown else ""


def _asides(*asides: str) -> str:
    text = "; ".join(aside for aside in asides if aside)
    return f"({text})" if text else ""


def _last_failure(record: TaskRecord) -> str:
    last, goes_on = record.last_run, record.run.state in OPEN
    if last is not None and last.unverified:
        return f"{'last run ' if goes_on else ''}unverified: {quoted(last.unverified, MAX_LISTED_REASON_CHARS)}"
    return f"last run {word_of(last.state)}" if last and goes_on and last.state in FAILURES else ""


def _waits(view: TaskView) -> str:
    """Say what a run waits for, and until when; of what holds a pool no names."""
    return "".join(f"waits for {wait.sentence.partition('; held by ')[0]}" for wait in waits_in_row(view.waits))


def _held(view: TaskView) -> str:
    """Say until when quiet hours hold the delivery of an outcome."""
    return f"delivery {held_until_in_words(view.held_until, view.record.task.timezone)}" if view.held_until else ""


def _misses(view: TaskView) -> str:
    missing = blocked_by(view.record.run)
    return f"misses {quoted(missing, MAX_LISTED_REASON_CHARS)}" if missing else ""


def _short(instant: datetime, zone: str, now: datetime) -> str:
    year = now.astimezone(zones.load(zone)).year
    return times.describe(instant, zone).replace(f" {year} ", " ")


def _nothing(page: TaskPage) -> str:
    if any(page.counts.values()):
        return "There are no more tasks.\nThis was the last page."
    if page.where != TaskFilter():
        window = window_in_words(page.where.after, page.where.before, page.zone)
        listed = f"It lists what is due {window}." if window else "Without it, there may be others."
        return f"No task matches this filter.\n{listed}\n{_ALL}"
    return f"There are no tasks.\nNothing is scheduled.\n{_MAKES_ONE}"
