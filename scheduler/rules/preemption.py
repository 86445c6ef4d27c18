"""Preemption: less urgent runs yield when urgent ones have waited too long for a thread, or for units of pools.

It is cooperative: a handler that never calls `ctx.should_yield()` is never preempted. A run that yielded once is
requested again only after it made progress, so that two runs cannot preempt each other for ever.

Twin of `holders_to_ask`: lua/threads/runs_to_preempt.lua.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from duetime.scheduler.rules.headroom import Headroom

YIELD_NOTICE_MS: Final = 1500.0
"""Milliseconds before a waiting run is late at which others are requested to yield, so that handlers can save state.

It equals the longest wait of a critical run without a deadline, so for such a run the request comes at once.
"""

YIELD_PATIENCE_S: Final = 5.0
"""Seconds for which a request counts as being followed; a run that has not yielded by then may never do it."""

MIN_TURN_S: Final = 10.0
"""Seconds after which a restarted run may be requested again even without a checkpoint or progress."""


@dataclass(frozen=True, slots=True)
class RunningTurn:
    """A run on a thread of this worker, in its current turn, which began with its last start.

    `seconds` is the duration of the turn. `again`: an earlier attempt was interrupted, yielded or failed. `progressed`:
    this one saved a checkpoint or reported progress. `polls`: its handler ever called `should_yield`. `since_request_s`
    is how many seconds ago it was requested to yield, or None.
    """

    run_id: str
    tier: int
    seconds: float
    again: bool = False
    progressed: bool = False
    polls: bool = False
    since_request_s: float | None = None

    @property
    def is_willing(self) -> bool:
        """Whether a request would be followed: its handler polls. Units of pools are requested of such runs only."""
        return self.polls and self.may_be_asked

    @property
    def may_be_asked(self) -> bool:
        """Whether it has no request yet, and made progress since a restart."""
        return self.since_request_s is None and (not self.again or self.progressed or self.seconds >= MIN_TURN_S)


def runs_to_ask(preemptors: Sequence[int], turns: Sequence[RunningTurn], *, idle: int, headroom: Headroom) -> list[str]:
    """Return the runs to request now, so that `preemptors`, the tiers of runs without a thread, can start.

    One run yields per missing thread, pending requests included. Each is less urgent than the run it makes room for.
    Handlers that poll go first, then the least urgent tiers, then the shortest turns.
    """
    giving = sum(turn.since_request_s is not None and turn.since_request_s < YIELD_PATIENCE_S for turn in turns)
    order = sorted(turns, key=lambda turn: (not turn.polls, -turn.tier, turn.seconds, turn.run_id))
    run_ids: list[str] = []
    for number, tier in enumerate(sorted(preemptors), 1):
        missing = headroom[tier - 1] + number - idle - giving - len(run_ids)
        able = [turn.run_id for turn in order if turn.tier > tier and turn.may_be_asked and turn.run_id not in run_ids]
        run_ids += able[: max(0, missing)]
    return run_ids


@dataclass(frozen=True, slots=True)
class Holder:
    """A run that would yield: `units` are those that it holds, by pool, since it was `granted`."""

    run_id: str
    tier: int
    units: Mapping[str, int]
    granted: float = 0.0


def holders_to_ask(missing: Mapping[str, float], tier: int, holders: Iterable[Holder]) -> list[str]:
    """Return the runs to request, so that a run of `tier` gets all the units that are `missing`, by pool.

    None when the less urgent `holders` have too few. Else the fewest, of several pools nearly so: at most 1 + ln of the
    most missing units that one run holds, times the fewest. None that the others make unnecessary is among them. Of
    equals the least urgent goes first, then the one that holds least, then the one that started last.
    Twin: lua/threads/runs_to_preempt.lua.
    """
    names, left = sorted(missing), dict(missing)
    able = sorted((each for each in holders if each.tier > tier), key=lambda each: _loss(names, each))
    chosen: list[Holder] = []
    while any(units > 0 for units in left.values()):
        best = max(able, key=lambda each: _gain(left, names, each), default=None)
        if best is None or _gain(left, names, best) <= 0:
            return []
        able.remove(best)
        chosen.append(best)
        left = {name: units - best.units.get(name, 0) for name, units in left.items()}
    for each in list(chosen):
        others = [other for other in chosen if other is not each]
        if all(missing[name] <= sum(other.units.get(name, 0) for other in others) for name in names):
            chosen = others
    return [each.run_id for each in chosen]


def _loss(names: Sequence[str], holder: Holder) -> tuple[int, int, float, str]:
    """Return by what equals compare: smaller goes first."""
    units = sum(holder.units.get(name, 0) for name in names)
    return (-holder.tier, units, -holder.granted, holder.run_id)


def _gain(left: Mapping[str, float], names: Sequence[str], holder: Holder) -> float:
    """Return how many of the units `left` to find a run holds."""
    return sum(min(max(left[name], 0.0), holder.units.get(name, 0)) for name in names)
