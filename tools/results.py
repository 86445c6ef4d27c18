"""Answers: what a call returns, in the two forms that hosts show a model, each complete by itself.

The code that puts them into words is loaded at the first call: a host that starts a server only lists its tools.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from secrets import token_hex
from typing import TYPE_CHECKING

from duetime.scheduler.calls.bulk_change import BulkResult
from duetime.scheduler.errors import DuetimeError
from duetime.scheduler.events import EventPage
from duetime.scheduler.remedies import Inspect, PlainWords, Remedy
from duetime.scheduler.task import Attempt, Json
from duetime.scheduler.views import TaskPage, TaskView
from duetime.scheduler.waits.signal import SentSignal
from duetime.widgets.tool_words import TOOL_WORDS
from mcp.types import CallToolResult, TextContent

if TYPE_CHECKING:
    from duetime.scheduler.history.dead_letters import DeadLetter
    from duetime.widgets.schema.history_parts import HistoryPart

log = logging.getLogger(__name__)
WORDS_META_KEY = "duetime/words"
CODE_META_KEY = "duetime/code"
_EXAMPLE = re.compile(r" Example: .*")
_ID = re.compile(r"\bt_[0-9a-z]{12}\b")
_NO_TASK = re.compile(r"\bno task '[^']*'")


class _CardWords(PlainWords):
    """A refusal for who looks at a card: it has read the task again by then."""

    def remedy(self, remedy: Remedy) -> str:
        return "The card shows it as it is now." if isinstance(remedy, Inspect) else super().remedy(remedy)


_CARD_WORDS = _CardWords()


def answer(structured: dict[str, Json], text: str, words: dict[str, Json] | None = None) -> CallToolResult:
    """Say the same twice: as structured content and as text; `words` are for a card that speaks another language."""
    meta = {"_meta": {WORDS_META_KEY: words}} if words else {}
    return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=structured, **meta)


def task_answer(
    view: TaskView,
    history: HistoryPart | None = None,
    *,
    details: bool = False,
    letter: DeadLetter | None = None,
    whole: bool = False,
) -> CallToolResult:
    """Answer with one task; the caller of a change knows its `details`. Its dead `letter` is `whole` for a card."""
    from duetime.widgets.outcome import letter_part, with_details  # noqa: PLC0415 - not before the first call
    from duetime.widgets.payload import as_json, task_payload, task_words  # noqa: PLC0415 - not before the first call
    from duetime.widgets.text.task_text import task_text  # noqa: PLC0415 - not before the first call

    payload = task_payload(view, history)
    if details:
        payload = with_details(payload, view)
    if letter:
        payload = payload.model_copy(update={"letter": letter_part(letter, whole=whole)})
    words = as_json(task_words(view)) if view.warnings or view.repeat_text else None
    return answer(as_json(payload), task_text(payload), words)


def dry_run_answer(view: TaskView) -> CallToolResult:
    """Answer with a task that was not stored."""
    from duetime.widgets.payload import as_dry_run  # noqa: PLC0415 - not before the first call

    return task_answer(as_dry_run(view))


def page_answer(page: TaskPage) -> CallToolResult:
    """Answer with a page of tasks."""
    from duetime.widgets.payload import as_json, list_payload  # noqa: PLC0415 - not before the first call
    from duetime.widgets.text.list_text import list_text  # noqa: PLC0415 - not before the first call

    return answer(as_json(list_payload(page)), list_text(page))


def bulk_answer(result: BulkResult) -> CallToolResult:
    """Answer with what one call did to many tasks."""
    from duetime.widgets.bulk.payload import bulk_payload  # noqa: PLC0415 - not before the first call
    from duetime.widgets.bulk.text import bulk_text  # noqa: PLC0415 - not before the first call
    from duetime.widgets.payload import as_json  # noqa: PLC0415 - not before the first call

    return answer(as_json(bulk_payload(result)), bulk_text(result))


def sent_answer(sent: SentSignal) -> CallToolResult:
    """Answer with what an event did."""
    from duetime.widgets.payload import as_json  # noqa: PLC0415 - not before the first call
    from duetime.widgets.sent_event import sent_event_payload, sent_event_text  # noqa: PLC0415 - likewise

    payload = sent_event_payload(sent)
    return answer(as_json(payload), sent_event_text(payload))


def history_part(attempts: Sequence[Attempt], page: EventPage, view: TaskView) -> HistoryPart:
    """Return the part of an answer that says what happened to a task, in its zone."""
    from duetime.widgets.history import history_payload, steps_of  # noqa: PLC0415 - not before the first call

    zone, older = view.record.task.timezone, page.cursor is not None
    return history_payload(attempts, page.events, zone, limited=True, older=older, steps=steps_of(view))


def refusal(error: DuetimeError) -> CallToolResult:
    """Give the sentence of an error as it is; structured content would have to match the schema of a success."""
    from duetime.widgets.text.history_text import retold  # noqa: PLC0415 - not before the first call

    reworded = retold(error)
    return _failed(reworded.text_in(TOOL_WORDS), error.code, plain=plain_sentence(reworded))


def plain_sentence(error: DuetimeError) -> str:
    """Say an error to a person who looks at a card: without the name of an argument, of a tool, or an id."""
    place = f"{error.argument}: " if error.argument else ""
    said = _NO_TASK.sub("there is no such task", error.text_in(_CARD_WORDS).removeprefix(place))
    message = _EXAMPLE.sub("", _ID.sub("this task", said))
    return f"{message[:1].upper()}{message[1:]}"


def apology(tool: str, defect: BaseException) -> CallToolResult:
    """Admit a defect of ours, with an id under which the log has the exception."""
    number = f"e_{token_hex(4)}"
    log.error("defect %s in %s", number, tool, exc_info=defect)
    return _failed(
        f"Duetime could not do this because of a defect of its own (error id {number}, its log has the details). "
        "Nothing is wrong with the arguments; list_tasks shows whether the call had an effect.",
        "defect",
        plain=f"Duetime could not do this because of a defect of its own. Its log has the details under {number}.",
    )


def _failed(sentence: str, code: str, *, plain: str) -> CallToolResult:
    """Fail a call with a sentence for the model, and a `plain` one for the user of a card."""
    return CallToolResult(
        content=[TextContent(type="text", text=_sendable(sentence))],
        is_error=True,
        _meta={CODE_META_KEY: code, "duetime/plain": _sendable(plain)},
    )


def _sendable(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")
