"""The states of a run and the legal moves between them: the one table.

The diagram in docs/states.md and the condition by which `duetime doctor --deep` examines events mirror it; a test
compares the three.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Final

from duetime.scheduler.errors import IllegalMove
from duetime.scheduler.task import Run, State

LEGAL_MOVES: Mapping[State | None, frozenset[State]] = {
    None: frozenset({State.SCHEDULED, State.WAITING, State.SKIPPED}),
    State.SCHEDULED: frozenset(
        {State.WAITING, State.READY, State.FAILED, State.CANCELLED, State.EXPIRED, State.SKIPPED}
    ),
    State.WAITING: frozenset(
        {State.SCHEDULED, State.READY, State.FAILED, State.CANCELLED, State.EXPIRED, State.SKIPPED}
    ),
    State.READY: frozenset(
        {State.SCHEDULED, State.WAITING, State.RUNNING, State.FAILED, State.CANCELLED, State.EXPIRED, State.SKIPPED}
    ),
    State.RUNNING: frozenset(
        {State.SUCCEEDED, State.FAILED, State.CANCELLED, State.EXPIRED, State.SUSPENDED, State.RETRYING}
    ),
    State.SUSPENDED: frozenset({State.READY, State.FAILED, State.CANCELLED, State.EXPIRED}),
    State.RETRYING: frozenset({State.READY, State.CANCELLED, State.EXPIRED, State.FAILED}),
    State.SUCCEEDED: frozenset(),
    State.FAILED: frozenset(),
    State.CANCELLED: frozenset(),
    State.EXPIRED: frozenset(),
    State.SKIPPED: frozenset(),
}
"""From each state (None: not yet stored) to the states a run may move to."""

TERMINAL = frozenset(state for state in State if not LEGAL_MOVES[state])
"""States that a run never leaves; a later generation replaces it."""

OPEN = frozenset(State) - TERMINAL

FAILURES = frozenset({State.FAILED, State.EXPIRED})
"""States of a run that ended without success and was not cancelled or skipped."""


BLOCKED_PREFIX: Final = "blocked: "
"""The first words in the summary of a blocked run: it needs something that does not come back by itself."""

BLOCKED_ALERT_KEY: Final = "blocked:{}"
"""The idempotency key of the reminder that reports a blocked run, from the id of the run."""

NOT_RUN_PREFIX: Final = "it did not run: "
"""The first words in the summary of a run that ended before its start by what it waited for, and by no call."""

BLOCKABLE_STATES: Final = (State.SCHEDULED, State.WAITING, State.SUSPENDED)
"""States of runs that may be blocked: those that are open, and neither in line nor running."""


def was_dropped(run: Run) -> bool:
    """Whether a run expired because of its deadline, and not because no event came in time."""
    early = run.drop_at is not None and run.ended_at is not None and run.ended_at < run.drop_at
    return run.state is State.EXPIRED and not early


def was_left_out(run: Run) -> bool:
    """Whether a run ended before its start because of what it waited for: no call can take that back."""
    return run.started_at is None and (run.summary or "").startswith(NOT_RUN_PREFIX)


def blocked_by(run: Run) -> str | None:
    """Return what blocks an open run, such as a missing handler; None for a run that is not blocked."""
    text = run.summary or ""
    return (
        text.removeprefix(BLOCKED_PREFIX) if run.state in BLOCKABLE_STATES and text.startswith(BLOCKED_PREFIX) else None
    )


def cancelled(run: Run, now: datetime) -> Run:
    """Return an open run that nothing executes as cancelled; what it missed is no concern of it any more."""
    summary = None if blocked_by(run) else run.summary
    return replace(run, state=State.CANCELLED, wake_at=None, ended_at=now, summary=summary)


def is_held_by_pause(state: State, *, paused: bool) -> bool:
    """Whether the pause of its task holds an open run; a running attempt continues."""
    return paused and state in OPEN and state is not State.RUNNING


def only_failures(states: Collection[State]) -> bool:
    """Whether a filter names only failures, and so is about the latest ended run instead of the current one."""
    return bool(states) and FAILURES.issuperset(states)


def check_move(before: State | None, after: State) -> None:
    """Raise `IllegalMove` unless a run may go from `before` to `after`."""
    if after not in LEGAL_MOVES[before]:
        allowed = ", ".join(sorted(LEGAL_MOVES[before])) or "nothing: it is terminal"
        raise IllegalMove(f"a run cannot move from {before} to {after}; from there it may go to {allowed}")


def attempt_outcome(outcome: str, to: State) -> str:
    """Return the outcome to store for an attempt: a retry for which no attempt is left counts as `failed`."""
    return "failed" if to is State.FAILED and outcome == "retry" else outcome
