"""The record of a scenario, as plain data: promises made, rows in the database, effects of the handlers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from duetime.scheduler.task import State


@dataclass(frozen=True)
class RunFact:
    """A row of `runs` with what its task says. Times are seconds since 1970."""

    id: str
    task_id: str
    action: str
    state: State
    attempt: int
    crashes: int
    number: int
    generation: int
    due: float
    current: bool = True
    ended: float | None = None
    deadline: float | None = None
    needs: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class AttemptFact:
    """A row of `attempts`."""

    run_id: str
    number: int
    worker: str
    started: float
    ended: float | None
    outcome: str | None


@dataclass(frozen=True)
class EventFact:
    """A row of `events`."""

    task_id: str
    run_id: str | None
    seq: int
    at: float
    kind: str
    actor: str
    before: State | None = None
    after: State | None = None
    attempt: int | None = None


@dataclass(frozen=True)
class Line:
    """A line of the handlers' ledger: a step of one attempt, when by the wall clock of this machine."""

    step: str
    run_id: str
    attempt: int
    pid: int
    at: float


@dataclass(frozen=True)
class Sample:
    """The units of a pool in use at one moment, by the word of the queue."""

    at: float
    pool: str
    used: float
    capacity: float


@dataclass(frozen=True)
class ProcessorWait:
    """The seconds that something of this machine has waited for a processor, from its start until one moment."""

    at: float
    waited: float


@dataclass(frozen=True)
class Fault:
    """A fault: its kind, from when to when, and what shows that it hit; no `evidence`: it did not.

    `deaths` are the processes that it ended, `frozen` those that it stopped for a while. All other processes go on
    unless it may hit `anyone`, as the loss of a database does.
    """

    name: str
    began: float
    ended: float
    evidence: str = ""
    deaths: tuple[int, ...] = ()
    frozen: tuple[int, ...] = ()
    anyone: bool = False


@dataclass(frozen=True)
class Record:
    """All of it. `unknown` are tasks whose schedule call may or may not have been stored, as far as the caller knows.

    `pending` are tasks that the scenario leaves open on purpose. `leftovers` are what was found after everything had
    come to rest (name: how many). `repaired` is how many rows a second pass of recovery changed. `capacities` are the
    pools as they were declared. `backlog` is how late (seconds) a run may first start because others had to go first.
    `turn` is how late it may start again for that reason. `waits` are what the machine was busy with otherwise.
    """

    acknowledged: frozenset[str]
    runs: tuple[RunFact, ...]
    attempts: tuple[AttemptFact, ...]
    events: tuple[EventFact, ...]
    ledger: tuple[Line, ...]
    faults: tuple[Fault, ...] = ()
    unknown: frozenset[str] = frozenset()
    pending: frozenset[str] = frozenset()
    letters: tuple[str, ...] = ()
    messages: tuple[str, ...] = ()
    samples: tuple[Sample, ...] = ()
    waits: tuple[ProcessorWait, ...] = ()
    capacities: Mapping[str, float] = field(default_factory=dict)
    leftovers: Mapping[str, int] = field(default_factory=dict)
    repaired: int = 0
    backlog: float = 0.0
    turn: float = 0.0
