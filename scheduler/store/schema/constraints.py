"""The table of legal moves (`rules.states.LEGAL`) as CHECK constraints, so that an illegal move cannot be stored."""

from __future__ import annotations

from duetime.scheduler.rules.states import LEGAL, TERMINAL
from duetime.scheduler.task import State

WAKES = (State.SCHEDULED, State.SUSPENDED, State.RETRYING)
"""The states that wait for a time: `wake_at` is only set in these."""


def _listed(states: frozenset[State] | tuple[State, ...]) -> str:
    return ", ".join(f"'{state}'" for state in sorted(states))


def _moves_check() -> str:
    cases = "".join(
        f" WHEN '{before}' THEN to_state IN ({_listed(LEGAL[before])})" for before in State if before not in TERMINAL
    )
    return (
        f"CASE WHEN from_state IS NULL THEN to_state IS NULL OR to_state IN ({_listed(LEGAL[None])})"
        f" WHEN to_state IS NULL THEN false ELSE CASE from_state{cases} ELSE false END END"
    )


MOVES_CHECK = _moves_check()
STATES_CHECK = (
    f"CASE WHEN ended_at IS NULL THEN state IN ({_listed(frozenset(State) - TERMINAL)})"
    f" ELSE state IN ({_listed(TERMINAL)}) END"
)
WAKES_CHECK = f"wake_at IS NULL OR state IN ({_listed(WAKES)})"
