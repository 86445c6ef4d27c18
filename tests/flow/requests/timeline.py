"""At which instants the clock of the page stands, and what has run by then: written by hand, turned by processes."""

from __future__ import annotations

import os
import signal
from collections import Counter, deque
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

import psutil
from duetime.scheduler.outcomes import Outcome
from duetime.scheduler.run_records import Claim
from duetime.scheduler.store import Store
from sqlalchemy import Engine, create_engine, text

from tests.builders import Clock
from tests.flow.requests.installation import Installation
from tests.flow.requests.turned_clock import ATTEMPTS, FILE, instant
from tests.flow.waiting import eventually

PATIENCE_S = 60.0
States = Counter[str]

_STATES = text("SELECT state, count(*) FROM runs GROUP BY state")
_SOON = "ready"
"""A run becomes ready a second ahead, in one process sooner than in another."""


def states_in(database: Engine) -> States:
    """Return how many runs are in which state."""
    with database.connect() as connection:
        found = Counter({str(state): int(count) for state, count in connection.execute(_STATES)})
    found["scheduled"] += found.pop(_SOON, 0)
    return +found


@dataclass(frozen=True, slots=True)
class Moment:
    """An instant, how many attempts begin by it at least, and the states of all runs where nothing more is due."""

    at: datetime
    begun: int
    states: States | None = None


class RecordingInstallation(Installation):
    """Notes at which instants attempts began, and how far everything was after each step."""

    def __init__(self, store: Store, clock: Clock, url: str) -> None:
        super().__init__(store, clock)
        self.steps: deque[list[Moment]] = deque()
        self._database = create_engine(url)
        self._moments: list[Moment] = []
        self._attempts = 0

    def attempt(self, claim: Claim) -> Outcome:
        self._attempts += 1
        self._moments.append(Moment(self.clock.at, self._attempts))
        return super().attempt(claim)

    def run_due(self) -> None:
        super().run_due()
        now = Moment(self.clock.at, self._attempts, states_in(self._database))
        if not self._moments or self._moments[-1].states != now.states:
            self._moments.append(now)

    def turn_by(self, span: timedelta) -> None:
        super().turn_by(span)
        self.end_step()

    def end_step(self) -> None:
        """Begin the moments of the next step."""
        end = Moment(self.clock.at, self._attempts, states_in(self._database))
        self.steps.append([*self._moments, end])
        self._moments = []

    def close(self) -> None:
        self._database.dispose()


class Recording:
    """The installation as a conversation turns it."""

    def __init__(self, installation: RecordingInstallation) -> None:
        self._installation = installation

    def turn_by(self, span: timedelta) -> None:
        self._installation.turn_by(span)

    def run_due(self) -> None:
        self._installation.run_due()
        self._installation.end_step()


class TurnedProcesses:
    """Processes on one database, whose clocks are turned to the same instants as those of a recording."""

    def __init__(self, folder: Path, url: str, steps: deque[list[Moment]]) -> None:
        self._folder, self._steps = folder, steps
        self._database = create_engine(url)

    def close(self) -> None:
        self._database.dispose()

    def turn_by(self, _span: timedelta) -> None:
        self._step()

    def run_due(self) -> None:
        self._step()

    def _step(self) -> None:
        for moment in self._steps.popleft():
            turn(self._folder, moment.at)
            eventually(partial(self._reached, moment), f"{moment}; it is {states_in(self._database)}", PATIENCE_S)

    def _reached(self, moment: Moment) -> bool:
        if moment.states is None:
            return self._begun() >= moment.begun
        return states_in(self._database) == moment.states

    def _begun(self) -> int:
        file = self._folder / ATTEMPTS
        return file.stat().st_size if file.exists() else 0


def turn(folder: Path, at: datetime) -> None:
    """Turn the clocks of all processes of a folder, in the order of their starts.

    The worker starts before the server: with its clock ahead, the server would take the worker's attempts for dead.
    """
    shown = at.isoformat()
    if instant(folder) == shown:
        return
    (folder / FILE).write_text(shown, "ascii")
    for pid in sorted(_turned(folder), key=lambda pid: psutil.Process(pid).create_time()):
        os.kill(pid, signal.SIGUSR1)
        eventually(partial(_shows, folder / f"{FILE}-{pid}", shown), f"the clock of {pid} shows {shown}")


def _turned(folder: Path) -> list[int]:
    return [int(path.name.removeprefix(f"{FILE}-")) for path in folder.glob(f"{FILE}-*") if path.suffix != ".new"]


def _shows(file: Path, instant_text: str) -> bool:
    return file.read_text("ascii") == instant_text
