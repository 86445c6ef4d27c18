"""A house of 50 tenants on one clock: runs take time, providers fail, and whatever is due starts when it may."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import count
from typing import Any, Final

from duetime.scheduler.handlers import Context, Handlers, handler, watch_check
from duetime.scheduler.outcomes import Done, Failed, Outcome, Retry
from duetime.scheduler.principal import LOCAL, Principal
from duetime.scheduler.rules.limits.admission import Kind, Limits
from duetime.scheduler.rules.limits.breaker import Report
from duetime.scheduler.rules.limits.pool import Pool
from duetime.scheduler.run_records import Claim
from duetime.scheduler.store import Store
from duetime.scheduler.task import Tier
from pydantic import BaseModel

from tests.builders import Clock
from tests.virtual import VirtualRunner

MAX_THREADS: Final = 64
MODEL_CALLS_PER_S: Final = 2.0
MODEL: Final = {
    "model": (
        Pool("model", capacity=4),
        Limits(Kind.RATE, 4, refill=MODEL_CALLS_PER_S / 1000, failures=3, cooldown=30_000.0),
    )
}
MIN_PAUSE_S: Final = 0.001
REPORT_LENGTH: Final = timedelta(seconds=5)
USUAL_LENGTH: Final = timedelta(seconds=2)


@dataclass(frozen=True, slots=True)
class Begun:
    """A run that began, and how its attempt ends."""

    at: datetime
    claim: Claim
    outcome: Outcome

    @property
    def tier(self) -> Tier:
        return self.claim.task.priority


class Step(BaseModel):
    """A step of the chain; a broken one fails."""

    name: str


class World:
    """The places outside: a provider of models that may be away, a file that may be broken, a parcel."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.away: tuple[datetime, datetime] | None = None
        self.broken: set[str] = set()
        self.shipped_at: datetime | None = None
        self.inputs: dict[str, Mapping[str, Any]] = {}

    def handlers(self) -> Handlers:
        """Return the actions of the house."""

        @handler("report")
        def report(_ctx: Context) -> Outcome:
            """Ask the model for a report."""
            at = self._clock()
            away = self.away is not None and self.away[0] <= at < self.away[1]
            return Retry("the provider answered 503") if away else Done("reported")

        @handler("step", payload=Step)
        def step(ctx: Context, payload: Step) -> Outcome:
            """Do one step of the chain."""
            self.inputs[payload.name] = dict(ctx.inputs)
            return Failed(f"{payload.name} is broken") if payload.name in self.broken else Done(result=payload.name)

        @handler("sync")
        def sync(_ctx: Context) -> Outcome:
            """Do some work."""
            return Done("synced")

        @watch_check("parcel")
        def parcel(_ctx: Context, _arguments: Mapping[str, Any]) -> str:
            """Say where the parcel is."""
            return "shipped" if self.shipped_at is not None and self._clock() >= self.shipped_at else "packed"

        return Handlers.load(entry_points=False, added=[report, step, sync, parcel])


class Week(VirtualRunner):
    """The house; `turn` lets time pass, and everything happens at its time."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self.world = World(clock)
        super().__init__(store, clock, self.world.handlers(), "UTC", MODEL)
        self.begun: list[Begun] = []
        self._running: list[tuple[datetime, int, Begun]] = []
        self._numbers = count()
        self._look_at: datetime | None = None

    def turn(self, to: datetime) -> None:
        """Let time pass until `to`."""
        while True:
            self._start()
            moments = [self._running[0][0] if self._running else None, self.next_due(), self._look_at]
            self.clock.at = min([to, *(max(at, self.clock.at) for at in moments if at is not None)])
            self._finish()
            if self.clock.at == to and not self._waits_now(to):
                return

    def _waits_now(self, to: datetime) -> bool:
        return self.next_due() <= to

    def _start(self) -> None:
        self.dispatch()
        for claim in self.take(MAX_THREADS - len(self._running)):
            begun = Begun(self.clock(), claim, self.attempt(claim))
            self.begun.append(begun)
            length = REPORT_LENGTH if claim.task.action == "report" else USUAL_LENGTH
            heapq.heappush(self._running, (self.clock() + length, next(self._numbers), begun))
        self._look_at = None if self.hint is None else self.clock() + timedelta(seconds=max(self.hint, MIN_PAUSE_S))

    def _finish(self) -> None:
        while self._running and self._running[0][0] <= self.clock():
            begun = heapq.heappop(self._running)[2]
            ok = not isinstance(begun.outcome, Retry)
            self.end(begun.claim, begun.outcome, [Report(pool, ok=ok) for pool in begun.claim.reserved])


def tenant(number: int) -> Principal:
    """Return the caller of one tenant."""
    return replace(LOCAL, tenant=f"tenant-{number:02}", user="agent")
