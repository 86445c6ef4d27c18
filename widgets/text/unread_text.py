"""The inbox in the text of a list: which outcomes nobody has read, and which questions nobody has answered."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from duetime.scheduler.intake.validation import MAX_TASKS_COUNTED
from duetime.scheduler.rules.settlement import words_and_note
from duetime.scheduler.rules.time import times
from duetime.scheduler.task import InboxMessage, State
from duetime.scheduler.views import TaskPage
from duetime.widgets.outcome import LIST_TITLE_CHARS, MAX_UNREAD_MESSAGES
from duetime.widgets.quote import quoted, sentences
from duetime.widgets.vocabulary import word_of

MAX_SNIPPET_CHARS = 100


def counted_in_words(count: int, of: int | None = None) -> str:
    """Write a count, or what is left of the count `of`; behind one that ended at its bound there may be more."""
    return f"{count}{'+' if (count if of is None else of) >= MAX_TASKS_COUNTED else ''}"


def unread_in_words(page: TaskPage) -> str:
    """Count the outcomes that are unread; a question is one for its answer, not for its reader."""
    asked = sum(map(_is_question, page.unread))
    number = max(page.unread_count, len(page.unread)) - asked
    return sentences(
        f"{asked} question{' waits' if asked == 1 else 's wait'} for the user's answer." if asked else "",
        f"{counted_in_words(number, page.unread_count)} outcome{' is' if number == 1 else 's are'} unread."
        if number
        else "",
    )


def unread_lines(page: TaskPage) -> Sequence[str]:
    """Write the first messages, and how the outcomes among them are read."""
    shown = page.unread[:MAX_UNREAD_MESSAGES]
    lines = [_line(message, page.now or message.created_at) for message in shown]
    left = page.unread_count - len(shown)
    more = (
        f" {counted_in_words(left, page.unread_count)} more {'is' if left == 1 else 'are'} unread." if left > 0 else ""
    )
    outcomes = left > 0 or not all(map(_is_question, shown))
    return [*lines, f"Unread until get_task(task_id, history=true) has shown them.{more}"] if outcomes else lines


def _is_question(message: InboxMessage) -> bool:
    return message.state is State.WAITING


def _line(message: InboxMessage, now: datetime) -> str:
    words, note = words_and_note(message.text)
    asked = _is_question(message)
    ended = "" if asked or message.state is State.SUCCEEDED else f" {word_of(message.state)}"
    text = "" if words == message.title else f": {quoted(words, MAX_SNIPPET_CHARS)}"
    when = times.relative(message.created_at, now)
    title = quoted(message.title, LIST_TITLE_CHARS)
    return sentences(f"{'Asked' if asked else 'Unread'} ({when}): {title}{ended}{text}", note, message.task_id)
