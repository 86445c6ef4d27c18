"""Conditions that come before each run of a task: a question to its user, an event, or both. `Task.asks` has them.

| task | a question or a wait opens | a no |
|---|---|---|
| series | when an occurrence is due | skips the occurrence; the series continues |
| step of a chain that recurs | when its turn has come, in each generation | skips it in this generation |
| one-shot, or a step that runs once | when it is scheduled | cancels it |

After a wait without its event, `on_timeout` says whether the run starts, is skipped or expires. The event of a one-shot
is stored with its wait alone, and not in its task.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from duetime.scheduler.task import Run, State, Task

ANSWER_MEMBER: Final = "default"
"""Marks what a task keeps of its question: the answer if nobody gives one."""

EVENT_MEMBER: Final = "event"
"""Marks what a task keeps of an event that each of its runs waits for."""

IN_CHAIN: Final = "in_chain"
"""Marks what a step of a chain that recurs asks, or waits for."""


@dataclass(frozen=True, slots=True)
class BeforeRun:
    """Whether each run `asks` a question and `awaits` an event: of a series, or `in_chain` in each generation."""

    asks: bool = False
    awaits: bool = False
    of_series: bool = False
    asks_in_chain: bool = False
    awaits_in_chain: bool = False

    @property
    def asks_in_series(self) -> bool:
        """Whether each occurrence of a series asks when it is due."""
        return self.of_series and self.asks

    @property
    def awaits_in_series(self) -> bool:
        """Whether each occurrence of a series awaits an event when it is due."""
        return self.awaits and not self.awaits_in_chain

    @property
    def asks_when_due(self) -> bool:
        """Whether a run asks when it is due, and one that is skipped lets its series or chain continue."""
        return self.asks_in_series or self.asks_in_chain

    @property
    def holds_in_series(self) -> bool:
        """Whether each occurrence of a series waits when it is due, for an answer or for an event."""
        return self.asks_in_series or self.awaits_in_series

    @property
    def holds_when_due(self) -> bool:
        """Whether runs of a series, or of a step of a chain that recurs, wait when they are due."""
        return self.holds_in_series or self.asks_in_chain or self.awaits_in_chain

    def holds_alone(self, run: Run) -> bool:
        """Whether nothing else keeps a run from its start: no task that comes before it."""
        return self.asks_in_series or (self.asks_in_chain and _has_turn(run)) or self.awaits_alone(run)

    def awaits_alone(self, run: Run) -> bool:
        """Whether nothing but the event keeps a run from its start."""
        return self.awaits_in_series or (self.awaits_in_chain and _has_turn(run))

    def passes_open_links(self, run: Run) -> bool:
        """Whether no step before it holds the run: its turn has come, or it was run now."""
        return (self.asks_in_chain or self.awaits_in_chain) and _has_turn(run)

    def keeps_time(self, run: Run) -> bool:
        """Whether a run that continues is one that waited from when it was due, and so keeps its time."""
        in_chain = self.asks_in_chain or self.awaits_in_chain
        return self.holds_in_series or (in_chain and run.first_ready_at is not None)


_NOTHING: Final = BeforeRun()


def before_run(task: Task) -> BeforeRun:
    """Return what comes before each run of a task."""
    kept = task.asks
    if kept is None:
        return _NOTHING
    event: Any = kept.get(EVENT_MEMBER)
    return BeforeRun(
        asks=ANSWER_MEMBER in kept,
        awaits=EVENT_MEMBER in kept,
        of_series=task.repeat is not None,
        asks_in_chain=bool(kept.get(IN_CHAIN)),
        awaits_in_chain=isinstance(event, Mapping) and bool(event.get(IN_CHAIN)),
    )


def _has_turn(run: Run) -> bool:
    """Whether a step waits since its turn has come; a ready run has a time of its turn as well."""
    return run.state is State.WAITING and run.first_ready_at is not None
