"""Filters: states by name or in groups."""

from __future__ import annotations

from typing import Final, TypedDict

from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.rules.states import OPEN, TERMINAL
from duetime.scheduler.task import State
from duetime.scheduler.views import Standing

STATES: dict[str, tuple[State, ...]] = {
    "open": tuple(state for state in State if state in OPEN),
    "ended": tuple(state for state in State if state in TERMINAL),
    **{state.value: (state,) for state in State},
}
"""Values of the filter `state`: all that is still to come, all that is over, or one state.

`waiting` is a state of its own: before the first start, for other tasks. A run that a pool or its turn holds is ready.
"""

MEANT_STATES = {
    **dict.fromkeys(("on-hold", "on hold", "halted"), "paused"),
    **dict.fromkeys(("held", "parked", "queued", "delayed", "due"), "ready"),
    **dict.fromkeys(("pending", "upcoming", "active"), "open"),
    **dict.fromkeys(("done", "completed", "finished", "success"), "succeeded"),
    "error": "failed",
    **dict.fromkeys(("dead", "dead-letter", "dead letter"), "dead_letter"),
    **dict.fromkeys(("missed", "late"), "expired"),
    "over": "ended",
    **dict.fromkeys(("unmet", "unchecked"), "unverified"),
}
"""The words that people write for a state with another name."""


class StateParts(TypedDict):
    """The parts of a filter that its words for states make."""

    states: tuple[State, ...]
    standing: Standing | None


STATE_WORDS: Final = (*STATES, *Standing)
"""Words of the filter `state`: states, groups of them, and how a run stands apart from its state."""

STATES_ACCEPTED: Final = f"{', '.join(STATE_WORDS)}; several of these with commas between, but for the last four"


def parts_of(text: str | None) -> StateParts:
    """Return what `text` asks for: states like `states_of`, or one standing alone. Raises InvalidArgument."""
    word = (text or "").strip().lower()
    if word in set(Standing):
        return {"states": (), "standing": Standing(word)}
    return {"states": states_of(text), "standing": None}


def states_of(text: str | None) -> tuple[State, ...]:
    """Return the states that `text` names, one word or several with commas between; None names all of them as ().

    Raises InvalidArgument.
    """
    if text is None:
        return ()
    words = [word.strip().lower() for word in text.split(",")]
    unknown = next((word for word in words if word not in STATES), None)
    if unknown is not None:
        meant = MEANT_STATES.get(unknown, "open")
        raise InvalidArgument(
            "state",
            _unknown(unknown),
            accepted=STATES_ACCEPTED,
            example=f"state={meant!r}",
        )
    return tuple(dict.fromkeys(state for word in words for state in STATES[word]))


def _unknown(word: str) -> str:
    return f"{word} stands alone" if word in set(Standing) else f"there is no state {word[:40]!r}"
