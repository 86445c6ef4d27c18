"""The text twin of a call that changed many tasks: what it did, how it is taken back, and a line for each task."""

from __future__ import annotations

from datetime import datetime

from duetime.scheduler.calls.bulk_change import Became, BulkResult, BulkVerb, TaskOutcome
from duetime.scheduler.foresight.start_times import starts_at
from duetime.scheduler.rules.time import times
from duetime.widgets.bulk.payload import MAX_BULK_ROWS, BulkPart, bulk_part
from duetime.widgets.outcome import LIST_TITLE_CHARS
from duetime.widgets.quote import quoted, sentences
from duetime.widgets.text.list_text import window_in_words
from duetime.widgets.text.task_text import QUOTES_ARE_DATA

_VERBS_DONE = {
    BulkVerb.CANCEL: "Cancelled",
    BulkVerb.PAUSE: "Paused",
    BulkVerb.RESUME: "Resumed",
    BulkVerb.MOVE: "Moved",
    BulkVerb.REPLAY: "Replayed",
    BulkVerb.DISCARD: "Discarded the dead letters of",
    BulkVerb.UNDO: "Took back the change of",
}
_EACH_ALONE = " Each of so many tasks was looked at alone: those that come after others may change in another way."
NONE_MATCHES = "No task matches: nothing was changed."


def bulk_text(result: BulkResult) -> str:
    """Say what a call did to many tasks, with a line for some of them; times are in each task's zone."""
    if not result.outcomes:
        return NONE_MATCHES
    shown = result.outcomes[:MAX_BULK_ROWS]
    lines = [_line(each, result.why_final(each)) for each in shown]
    part = bulk_part(result, len(shown))
    left_out = [f"{part.left_out} more are not shown."] if part.left_out else []
    head = sentences(headline(part, result.zone), _series_that_end(result), _next_step(result))
    return "\n".join([head, sentences(_window(result), f"{QUOTES_ARE_DATA}."), *lines, *left_out])


def _window(result: BulkResult) -> str:
    """Say how the bounds of the filter were read, in the zone of the user."""
    window = window_in_words(result.after, result.before, result.zone)
    return f"It means what is due {window} {result.zone}." if window else ""


def headline(part: BulkPart, zone: str) -> str:
    """Say how many tasks were changed: `Cancelled 12 tasks; 1 refused it.`, or that none was yet."""
    rest = f"; {part.unchanged} had it already" if part.unchanged else ""
    rest += f"; {part.refused} {'would refuse' if part.dry_run else 'refused'} it" if part.refused else ""
    rest += f"; {_final(part)}" if part.final else ""
    rest += f"; {part.left} more {'match' if part.left > 1 else 'matches'}, left to another call" if part.left else ""
    number = f"{part.changed} task{'' if part.changed == 1 else 's'}{_until(part, zone)}"
    if part.dry_run:
        what = "discard the dead letters of" if part.change is BulkVerb.DISCARD else part.change
        return f"Nothing was changed yet. This would {what} {number}{rest}.{_EACH_ALONE if part.alone else ''}"
    already = "The same call did this already. " if part.repeated else ""
    return f"{already}{_VERBS_DONE[part.change]} {number}{rest}."


def _final(part: BulkPart) -> str:
    which = f" of {part.final} of them" if part.changed > 1 else ""
    return f"the cancel{which} {'could not' if part.dry_run else 'cannot'} be undone"


def _until(part: BulkPart, zone: str) -> str:
    until = datetime.fromisoformat(part.paused_until) if part.paused_until else None
    return f" until {times.describe(until, zone)} {zone}" if until else ""


def _series_that_end(result: BulkResult) -> str:
    """Say how many of the cancelled tasks repeat: who means the runs of one day may not mean all that follow."""
    ended = [each for each in result.outcomes if each.became is Became.CHANGED and each.record.task.repeat]
    if result.verb is not BulkVerb.CANCEL or not ended:
        return ""
    which = "1 repeats" if len(ended) == 1 else f"{len(ended)} repeat"
    return f"{which}: this cancels all coming runs, skip_next of reschedule_task only the next."


def _next_step(result: BulkResult) -> str:
    if result.dry_run:
        if not result.counts[Became.CHANGED]:
            return ""
        again = f"the same call with expect={len(result.outcomes)}" if result.by_filter else "the call without dry_run"
        why = " and a reason" if result.verb is BulkVerb.DISCARD else ""
        return f"If the user wants exactly these: {again}{why}."
    if result.undo is None or result.undo_until is None:
        return ""
    minutes = times.length(result.undo_until - result.now)
    taken = "the rest" if any(map(result.why_final, result.outcomes)) else "all of it"
    return f"For {minutes}, change_tasks(change='undo', undo='{result.undo}') takes {taken} back."


def _line(outcome: TaskOutcome, final: str | None) -> str:
    task = outcome.record.task
    next_due = times.describe(starts_at(outcome.record), task.timezone)
    side_run_at = times.describe(outcome.side_run_at, task.timezone) if outcome.side_run_at else ""
    now_due = f"{side_run_at}, and next {next_due}" if side_run_at else next_due
    moved = f"{times.describe(outcome.was, task.timezone)} -> {now_due}" if outcome.was else now_due
    if outcome.became is Became.CHANGED:
        text = outcome.why or final or ""
    else:
        text = f"{outcome.became}: {outcome.why}" if outcome.why else outcome.became.value
    repeats = "(repeats)" if task.repeat else ""
    return sentences(task.id, quoted(task.title, LIST_TITLE_CHARS), moved, repeats, text)
