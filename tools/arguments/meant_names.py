"""The names that models write for an argument, as other schedulers have it, and the value that it takes of each."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from duetime.scheduler.rules.time.durations import Span, read_span
from duetime.scheduler.rules.time.tokens import Misread, Unknown, tokens
from duetime.scheduler.task import Json
from duetime.tools.arguments.recurrence_words import in_words, on_days
from duetime.tools.arguments.time_text import is_time

MAX_SNOOZE_MINUTES: Final = 60 * 24 * 366

_IN_UNITS: Final = re.compile(r"(?:(.*)_)?(second|sec|minute|min|hour|hr|day)s?")
"""A name that says its unit: `delay_seconds`, `in_minutes`, `hours`."""

Call = Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class Meaning:
    """An argument that another name may mean; `value` of what was given and its call is None where it cannot.

    A meaning that `refines` takes the place of what the call gives for that argument.
    """

    argument: str
    value: Callable[[Json, Call], Json] = lambda given, _call: given
    refines: bool = False


def _object(given: Json, _call: Call) -> Json:
    return given if isinstance(given, dict) else None


def _in_time(given: Json, _call: Call) -> Json:
    """Return a length as the time after it: `in 10 minutes`, and `now` for less than a second; the rest as it is."""
    if isinstance(given, int | float) and not isinstance(given, bool):
        given = f"{given} seconds" if not 0 <= given < 1 else "0 seconds"
    span = _span(given)
    return given if span is None else "now" if span.is_instant else f"in {given}"


def _snoozed(given: Json, call: Call) -> Json:
    """Return the end of a snooze, which is later than now; `until` of a call without an action ends a recurrence."""
    end = _in_time(given, call) if call.get("action") else None
    return end if isinstance(end, str) and end != "now" and is_time(end) else None


def minutes_of(given: Json) -> int | None:
    """Return the minutes of a bare number, which counts them where a task is snoozed, or the nearest to a length."""
    text = str(given).strip()
    if type(given) in {int, float} or (isinstance(given, str) and text.isdecimal()):
        found = float(text)
    else:
        span = _span(given)
        if span is None or span.months:
            return None
        found = (span.elapsed + timedelta(days=span.days)) / timedelta(minutes=1)
    return max(1, round(found)) if found < MAX_SNOOZE_MINUTES + 0.5 else None


def _minutes(given: Json, _call: Call) -> Json:
    return minutes_of(given)


def _unless_named(given: Json, call: Call) -> Json:
    """Return what another name of the task holds; None where the call has its id, which no title is then."""
    return None if call.get("task_id") else given


def _outcome(given: Json, _call: Call) -> Json:
    return [given] if _is_outcome(given) else None


def _task(given: Json, _call: Call) -> Json:
    return None if _is_outcome(given) else given


def _is_outcome(given: Json) -> bool:
    return isinstance(given, str) and given.strip().startswith("m_")


def _listed(given: Json, _call: Call) -> Json:
    return [given] if isinstance(given, str) and "," not in given else given


def _text(given: Json, _call: Call) -> Json:
    return given if isinstance(given, str) else None


def _rule(given: Json, _call: Call) -> Json:
    return in_words(given) or given


def _recurrence(given: Json, _call: Call) -> Json:
    return in_words(given)


def _on_days(given: Json, call: Call) -> Json:
    return on_days(given, call.get("repeat"))


def _later(given: Json, _call: Call) -> Json:
    """Return a length as the time that much later than a task is due."""
    return f"{given} later" if _is_length(given) else None


def _unless_later(given: Json, call: Call) -> Json:
    """Return a deadline; None for a length of time by which a task that there is already is to be moved."""
    return None if "task_id" in call and not call.get("when") and _is_length(given) else given


def _is_length(given: Json) -> bool:
    return _span(given) is not None


def _span(given: Json) -> Span | None:
    """Return a length of time in words; None for anything else, and for `PT2H` of ISO 8601, which is a time already."""
    if not isinstance(given, str):
        return None
    with suppress(Misread, Unknown):
        row = tokens(given)
        span = read_span(row)
        return span if row.done else None
    return None


def _once(given: Json, _call: Call) -> Json:
    return None if isinstance(given, str) and in_words(given) else given


def _times(given: Json, _call: Call) -> Json:
    """Return retries as the words that count them: the first attempt is none."""
    is_number = type(given) is int or (isinstance(given, str) and given.strip().isdecimal())
    return f"{str(given).strip()} times" if is_number else given


def _flag(*, turned: bool = False) -> Callable[[Json, Call], Json]:
    return lambda given, _call: (given is not turned) if isinstance(given, bool) else None


def _member(name: str) -> Callable[[Json, Call], Json]:
    return lambda given, _call: {name: given}


def _question(given: Json, call: Call) -> Json:
    title = call.get("title")
    text = given if isinstance(given, str) else f"{title}?" if given is True and isinstance(title, str) else None
    return {"question": text} if text else None


def _target(given: Json, _call: Call) -> Json:
    return {"url": given} if isinstance(given, str) else None


def _one(given: Json, _call: Call) -> Json:
    return given[0] if isinstance(given, list) and len(given) == 1 else given


def _means(names: str, *meanings: Meaning) -> Mapping[str, tuple[Meaning, ...]]:
    return dict.fromkeys(names.split(), meanings)


def _all(*argument: str) -> Iterable[Meaning]:
    return map(Meaning, argument)


_SNOOZE = (Meaning("minutes", _minutes), Meaning("until", _snoozed))
MEANT_ARGUMENTS: Final[Mapping[str, tuple[Meaning, ...]]] = {
    **_means("at time datetime run_at due due_date due_time due_at scheduled_time scheduled_at", *_all("when")),
    **_means("scheduled_for schedule_time trigger_at trigger_time trigger remind_at reminder_time", *_all("when")),
    **_means("execute_at execution_time timestamp eta run_date start_at starts_at date", *_all("when")),
    **_means("new_time new_when when", *_all("when", "to", "until")),
    **_means("start start_time start_date from since", *_all("when", "after")),
    **_means("delay countdown wait", Meaning("when", _in_time), *_SNOOZE),
    **_means("duration takes", Meaning("estimate"), *_SNOOZE),
    **_means("for snooze_for", *_SNOOZE),
    **_means("snooze_until", *_all("until")),
    **_means("postpone snooze defer", Meaning("when", _later), *_SNOOZE, Meaning("to", _later)),
    **_means("to", *_all("before")),
    **_means("end end_date end_time ends_at end_at stop_at until", *_all("until", "to", "before")),
    **_means("resume_at paused_until", *_all("pause_until")),
    **_means("enabled active resume", Meaning("pause", _flag(turned=True))),
    **_means("paused disabled", Meaning("pause", _flag())),
    **_means("skip", Meaning("skip_next", _flag())),
    **_means("tz zone time_zone", *_all("timezone")),
    **_means("cron cron_expression rrule recurrence recurrence_rule", Meaning("repeat", _rule)),
    **_means("interval every frequency repeats", Meaning("repeat", _recurrence)),
    **_means("schedule", Meaning("repeat", _recurrence), Meaning("when", _once)),
    **_means(
        "days days_of_week weekdays byday",
        Meaning("repeat", _on_days, refines=True),
    ),
    **_means("count occurrences times max_occurrences repetitions", *_all("max_runs", "limit")),
    **_means("exclude exceptions", Meaning("repeat_policy", _member("except"))),
    **_means("catchup catch_up catchup_window", Meaning("repeat_policy", _member("catchup_window"))),
    **{name: (Meaning("repeat_policy", _member(name)),) for name in ("overlap", "coalesce", "jitter", "pause_after")},
    **_means("name", *_all("title", "query")),
    **_means("task_name summary subject heading", *_all("title")),
    **_means("task", *_all("task_id", "event_id"), Meaning("title", _unless_named)),
    **_means(
        "id", Meaning("ids", _outcome), Meaning("task_id", _task), *_all("event_id"), Meaning("title", _unless_named)
    ),
    **_means("message_id outcome_id message_ids messages outcomes", Meaning("ids", _listed)),
    **_means("title search", *_all("query")),
    **_means("event event_name", *_all("name"), Meaning("wait_for", _member("event"))),
    **_means("event_type topic signal type", *_all("name", "action")),
    **_means("wait_for_event on_event", Meaning("wait_for", _member("event"))),
    **_means("key idempotency_key request_id", *_all("idempotency_key", "event_id")),
    **_means("data properties payload", *_all("payload", "data")),
    **_means("args params parameters input inputs kwargs", Meaning("payload", _object), Meaning("data", _object)),
    **_means("message description text body note notes", *_all("payload"), Meaning("data", _object)),
    **_means("prompt instructions content details", *_all("payload"), Meaning("data", _object)),
    **_means("webhook_url callback_url endpoint url", Meaning("payload", _target)),
    **_means("action_type handler function task_type job_type", *_all("action")),
    **_means("tags label category", *_all("labels", "label")),
    **_means("labels tag", *_all("labels"), Meaning("label", _one)),
    **_means("status", *_all("state")),
    **_means("filter", *_all("state")),
    **_means("max_results page_size per_page", *_all("limit")),
    **_means("page page_token next_cursor offset", Meaning("cursor", _text)),
    **_means("retries max_retries retry_count", Meaning("retry", _times)),
    **_means("max_attempts attempts", Meaning("retry", _member("max_attempts"))),
    **_means("retry_delay backoff", Meaning("retry", _member("backoff"))),
    **_means("retry_policy", *_all("retry")),
    **_means("ids tasks", *_all("task_ids", "steps")),
    **_means("chain subtasks jobs", *_all("steps")),
    **_means("depends_on dependencies after_task after_tasks", *_all("after")),
    **_means("channel channels", *_all("deliver_to")),
    **_means("requires_approval needs_approval require_approval ask", Meaning("approval", _question)),
    **_means("due_by finish_by complete_by", *_all("deadline")),
    **_means("by", Meaning("deadline", _unless_later), Meaning("when", _later), Meaning("to", _later)),
    **_means("shift shift_by move_by", Meaning("when", _later), Meaning("to", _later)),
    **_means("urgency importance tier prio", *_all("priority")),
    **_means("resources pools requires", *_all("needs")),
    **_means("preview simulate", *_all("dry_run")),
    **_means("operation op verb", *_all("change")),
    **_means("include_history", *_all("history")),
}
"""The arguments that each name may mean, the likeliest first: the first that a tool has is meant."""


def meanings(name: str) -> tuple[Meaning, ...]:
    """Return what a name, in small letters, may mean."""
    known = MEANT_ARGUMENTS.get(name)
    if known is not None:
        return known
    found = _IN_UNITS.fullmatch(name)
    return _of_a_unit(found[1] or "", f"{found[2]}s") if found else ()


def _of_a_unit(stem: str, unit: str) -> tuple[Meaning, ...]:
    def words(before: str) -> Callable[[Json, Call], Json]:
        return lambda given, _call: f"{before}{given} {unit}" if isinstance(given, int | float | str) else None

    if stem in {"interval", "every", "repeat"}:
        return (Meaning("repeat", words("every ")),)
    if stem in {"duration", "estimate", "estimated"}:
        return (Meaning("estimate", words("")),)
    if stem == "retry_delay":
        return (Meaning("retry", lambda given, _call: {"backoff": f"{given} {unit}"}),)
    if stem not in {"", "delay", "in"}:
        return ()
    length = words("")
    snoozed = Meaning("minutes", lambda given, call: minutes_of(length(given, call)))
    return (Meaning("when", words("in ")), snoozed, Meaning("until", words("in ")))
