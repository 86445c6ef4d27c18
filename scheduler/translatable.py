"""English texts that also carry their kind and its values, so that a card can say the same in another language.

Kinds are closed sets: `docs/cards.md` lists them, and a card has words for each of them in every language. The values
are plain JSON: weekdays as in an RRULE (`MO`, `-1FR`), times of day as `09:00`, dates and instants as ISO 8601.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, Self


class ClauseKind(StrEnum):
    """Clauses of a recurrence in words, as `every 2 weeks` + ` on Monday` + ` at 09:00` are; the first is a whole."""

    EVERY = "every"
    WEEKDAYS = "weekdays"
    WORKDAYS = "workdays"
    ALL_BUT = "all_but"
    ON = "on"
    ON_WORKDAY = "on_workday"
    NO_HOLIDAY = "no_holiday"
    DATE = "date"
    RARE = "rare"
    IN = "in"
    NOT_IN = "not_in"
    OF_YEAR = "of_year"
    OF_EVERY_MONTH = "of_every_month"
    AT = "at"
    STEPS = "steps"
    TIMES_OF_DAY = "times_of_day"
    PAST_THE_HOUR = "past_the_hour"
    FROM_THE_HOUR = "from_the_hour"
    HOURS = "hours"
    HOURS_LISTED = "hours_listed"
    HOLIDAYS = "holidays"
    UNTIL = "until"
    COUNT = "count"


class NoteKind(StrEnum):
    """Notes and warnings of an answer: what was assumed, what cannot be, what a change does and does not do."""

    TIME_ASSUMED = "time_assumed"
    DEADLINE_ASSUMED = "deadline_assumed"
    CLOCKS_BACK = "clocks_back"
    CLOCKS_FORWARD = "clocks_forward"
    TIME_TWICE = "time_twice"
    TIME_MISSING = "time_missing"
    JITTER = "jitter"
    FAR_AHEAD = "far_ahead"
    DEADLINE_TOO_EARLY = "deadline_too_early"
    ESTIMATE_TOO_LONG = "estimate_too_long"
    AFTER_THE_ATTEMPT = "after_the_attempt"
    FROM_THE_NEXT_RUN = "from_the_next_run"
    UNCHANGED = "unchanged"
    ONCE_MORE = "once_more"
    ONE_OCCURRENCE = "one_occurrence"
    ONE_SKIPPED = "one_skipped"
    WALL_TIME_KEPT = "wall_time_kept"
    SERIES_GOES_ON = "series_goes_on"
    REPEATED_CALL = "repeated_call"
    ALREADY_CANCELLED = "already_cancelled"
    SAME_TITLE_AND_TIME = "same_title_and_time"
    ALSO_RUNS = "also_runs"
    STEPS_STOP = "steps_stop"
    STEPS_AT_ONCE = "steps_at_once"
    NOT_TAKEN_BACK = "not_taken_back"
    MOVE_UNDONE = "move_undone"
    NOT_CHANGED = "not_changed"
    BLOCKED_NOW = "blocked_now"
    CHECKED_LATER = "checked_later"
    UNDELIVERABLE = "undeliverable"
    EARLY_END = "early_end"
    RETRIED = "retried"
    NOT_RETRIED = "not_retried"
    DEADLINE_IN_PAUSE = "deadline_in_pause"
    EVENT_EACH_TIME = "event_each_time"
    STEP_EVENT_EACH_TIME = "step_event_each_time"
    MADE_BY_FAILURE = "made_by_failure"
    FAILURE_MADE = "failure_made"
    DRY_RUN = "dry_run"
    DAMAGED = "damaged"
    SHOWN_IN_UTC = "shown_in_utc"
    HAS_ENDED = "has_ended"
    SILENT = "silent"
    PAUSED_ELSEWHERE = "paused_elsewhere"
    RUN_WAITS = "run_waits"
    RUN_HELD = "run_held"
    RUN_AFTER = "run_after"
    IN_THE_PAUSE = "in_the_pause"
    AS_ONE = "as_one"
    QUESTION_WITHDRAWN = "question_withdrawn"
    STEP_SKIPPED = "step_skipped"
    MOVES_AS_WELL = "moves_as_well"
    FINAL_CANCEL = "final_cancel"
    NEW_PAYLOAD = "new_payload"
    OTHERS_ENDED = "others_ended"
    OTHERS_BEGAN = "others_began"
    LEFT_OUT = "left_out"
    SPAWNED = "spawned"


class Translatable(str):
    """An English text with its kind and values; everywhere else it is just that text."""

    __slots__ = ("kind", "values")

    kind: StrEnum
    values: Mapping[str, Any]

    @classmethod
    def of(cls, kind: StrEnum, text: str, /, **values: Any) -> Self:
        """Return the text as one of a kind; values that are None are left out."""
        made = cls(text)
        made.kind = kind
        made.values = {name: value for name, value in values.items() if value is not None}
        return made


def of_step(name: str, text: str) -> str:
    """Return a note on a step with the name of the step before it, as one of the same kind."""
    named = f"{name}: {text}"
    if not isinstance(text, Translatable):
        return named
    return Translatable.of(text.kind, named, **{**text.values, "of": name})


def is_of_clocks(text: str) -> bool:
    """Whether a note is on a time that clocks skip, or show twice."""
    return isinstance(text, Translatable) and text.kind in {NoteKind.TIME_MISSING, NoteKind.TIME_TWICE}


def as_assumed(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the texts, with those of no other kind as assumptions about a time: cards show what it was read as."""
    return tuple(
        text if isinstance(text, Translatable) else Translatable.of(NoteKind.TIME_ASSUMED, text) for text in texts
    )
