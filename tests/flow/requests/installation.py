"""One user's installation on a clock that is turned by hand; what is due runs by its real handlers, one by one."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from duetime.scheduler.rules.limits.admission import Kind, Limits
from duetime.scheduler.rules.limits.pool import Pool
from duetime.scheduler.store import Store

from tests.builders import Clock
from tests.flow.requests.handlers import handlers
from tests.virtual import VirtualRunner

ZONE: Final = "America/Denver"
POOLS: Final = {
    "gpu": (Pool("gpu", capacity=1), Limits(Kind.SLOTS, 1)),
    "llm": (Pool("llm", capacity=2), Limits(Kind.SLOTS, 2)),
}
ATTEMPT: Final = timedelta(seconds=1)


class Installation(VirtualRunner):
    """A scheduler with a worker of one thread; nothing runs but in `turn` and `run_due`."""

    def __init__(self, store: Store, clock: Clock) -> None:
        super().__init__(store, clock, handlers(), ZONE, POOLS)

    def turn_by(self, span: timedelta) -> None:
        """Turn the clock, and run what falls due on the way at its time."""
        to = self.clock.at + span
        while (wake := self.next_due()) <= to:
            self.clock.at = max(self.clock.at, wake)
            self.run_due()
        self.clock.at = max(self.clock.at, to)
        self.run_due()

    def run_due(self) -> None:
        """Run what is due, and what that lets go; an attempt takes a second."""
        self.dispatch()
        while claims := self.take(1):
            for claim in claims:
                outcome = self.attempt(claim)
                self.clock.at += ATTEMPT
                self.end(claim, outcome)
            self.dispatch()
