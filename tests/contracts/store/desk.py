"""An hourly task on a real store, and a hand that runs it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

from duetime.scheduler.outcomes import Done, Outcome
from duetime.scheduler.rules.settlement import AttemptResult, settle, with_consequences
from duetime.scheduler.run_records import Claim, Start, Verdict
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.task import Run, State
from duetime.scheduler.worker.active_runs import ActiveRun
from duetime.scheduler.worker.completer import BatchCompleter, CompletedRun

from tests.builders import LEASE, Clock, runs_of

MORNING = datetime(2026, 11, 23, 8, tzinfo=UTC)
MAX_SETTLE_S = 60.0


@dataclass(frozen=True)
class Desk:
    """A scheduler in UTC over a real store, an hourly task, and a hand that runs it."""

    scheduler: Scheduler
    store: Store
    clock: Clock

    def hourly(self, *, max_runs: int | None = None, **policy: Any) -> str:
        rule: dict[str, Any] = {"repeat": "every hour at :00", "repeat_policy": policy or None, "max_runs": max_runs}
        view = self.scheduler.schedule("Import", **rule)
        return view.record.task.id

    def start(self, hour: int, minute: int = 0, epoch: int | None = None) -> list[Claim]:
        self.clock.at = at(hour, minute)
        ready = [Start(run.run_id) for run in self.store.claims.make_ready(limit=9)]
        return self.store.claims.start(ready, worker="w", epoch=epoch, lease=LEASE)

    def nothing_due(self, hour: int, minute: int = 0) -> None:
        """Look for due runs, and see that there are none; waits whose time has come begin."""
        claims = self.start(hour, minute)
        assert not claims, [claim.task.title for claim in claims]

    def end(self, claims: list[Claim], outcome: Outcome = Done("imported")) -> None:  # noqa: B008 - a frozen value
        assert claims, "no run to end"
        settled = [settle(claim, outcome, now=self.clock(), jitter=0.0) for claim in claims]
        assert set(self.store.claims.settle(settled)) == {Verdict.SETTLED}

    def end_anew(self, claims: list[Claim], ending: AttemptResult) -> None:
        """End claims one after the other, as a worker does; a change since the claim counts."""
        assert claims, "no run to end"
        for claim in claims:
            ended: list[CompletedRun] = []
            completer = BatchCompleter(self.store, on_settled=ended.extend, jitter=lambda: 0.0)
            completer.start()
            completer.hand_in(ActiveRun(claim), ending)
            assert completer.close(MAX_SETTLE_S)
            [end] = ended
            assert (end.held.run_id, end.stored) == (claim.run.id, True)
            assert not (end.settlement.error or "").startswith("could not s"), end.settlement.error

    def recover(self, epoch: int) -> None:
        """Recover what an older runner left running."""
        self.store.claims.recover(epoch=epoch, conclude=partial(with_consequences, now=self.clock()))

    def expire(self) -> None:
        """Expire what can no longer meet its hard deadline."""
        self.store.claims.expire(limit=9, conclude=partial(with_consequences, now=self.clock()))

    def run(self, start: int, end: tuple[int, int], outcome: Outcome = Done("imported")) -> None:  # noqa: B008 - as above
        """Start what is due at an hour, and end it at a later time."""
        claims = self.start(start)
        assert claims
        self.clock.at = at(*end)
        self.end(claims, outcome)

    def runs(self, task_id: str) -> dict[int, State]:
        """Return the states of the runs by the hour that each is of."""
        found: list[Run] = sorted(runs_of(self.store, task_id), key=lambda run: (run.scheduled_for, run.generation))
        return {run.scheduled_for.hour: run.state for run in found}


def at(hour: int, minute: int = 0) -> datetime:
    return MORNING.replace(hour=hour, minute=minute)
