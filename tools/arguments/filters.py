"""Filters: states by name or in groups."""

from __future__ import annotations

from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.rules.states import OPEN, TERMINAL
from duetime.scheduler.task import State

STATES: dict[str, tuple[State, ...]] = {
    "open": tuple(state for state in State if state in OPEN),
    "ended": tuple(state for state in State if state in TERMINAL),
    **{state.value: (state,) for state in State},
}
"""Values of the filter `state`: all that is still to come, all that is over, or one state.

`waiting` is a state of its own: before the first start, for other tasks. What a pool or its turn holds is ready.
"""

MEANT_STATES = {
    **dict.fromkeys(("held", "parked", "queued", "delayed", "due"), "ready"),
    "blocked": "waiting",
    **dict.fromkeys(("pending", "upcoming", "active"), "open"),
    **dict.fromkeys(("done", "completed", "finished", "success"), "succeeded"),
    **dict.fromkeys(("error", "dead"), "failed"),
    **dict.fromkeys(("missed", "late"), "expired"),
    "over": "ended",
}
"""The words that people write for a state with another name."""


def states_of(text: str | None, *, argument: str = "state") -> tuple[State, ...]:
    """Return the states that `text` names, one word or several with commas between; None names all of them as ().

    Raises InvalidArgument naming `argument`.
    """
    if text is None:
        return ()
    words = [word.strip().lower() for word in text.split(",")]
    unknown = next((word for word in words if word not in STATES), None)
    if unknown is not None:
        meant = MEANT_STATES.get(unknown, "open")
        raise InvalidArgument(
            argument, "there is no such state", accepted=", ".join(STATES), example=f"{argument}={meant!r}"
        )
    return tuple(dict.fromkeys(state for word in words for state in STATES[word]))
