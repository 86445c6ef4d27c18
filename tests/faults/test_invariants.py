"""The checker of invariants sees what it shall see: each bug planted in a healthy record is named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from duetime.scheduler.task import State

from tests.faults.invariants import CHECKS, classes, problems, recovered_in
from tests.faults.record import AttemptFact, EventFact, Fault, Line, ProcessorWait, Record, RunFact, Sample

KILLED_PID, LIVING_PID = 7, 8
START_S = 1_000.0


def story(run_id: str, *states: State, attempts: tuple[int | None, ...] = ()) -> tuple[EventFact, ...]:
    """Return the events of the only run of a task."""
    moves = zip((None, *states), states, strict=False)
    numbers = (*attempts, *[None] * len(states))
    return tuple(
        EventFact(f"t{run_id}", run_id, seq, START_S, "moved", "someone", before, after, number)
        for seq, ((before, after), number) in enumerate(zip(moves, numbers, strict=False), 1)
    )


def run(run_id: str, state: State, attempt: int, **values: Any) -> RunFact:
    made = RunFact(f"{run_id}", f"t{run_id}", "effect", state, attempt, 0, 1, 1, START_S, needs={"gpu": 1})
    return replace(made, ended=START_S + 40 if state is not State.READY else None, **values)


S = State
HEALTHY = Record(
    acknowledged=frozenset({"ta", "tb", "tc", "td"}),
    runs=(
        run("a", S.SUCCEEDED, 1),
        run("b", S.SUCCEEDED, 2, crashes=1),
        run("c", S.FAILED, 1, action="broken"),
        run("d", S.EXPIRED, 0, deadline=START_S + 30),
    ),
    attempts=(
        AttemptFact("a", 1, "w", START_S + 1, START_S + 2, "done"),
        AttemptFact("b", 1, "w", START_S + 2, START_S + 33, "crashed"),
        AttemptFact("b", 2, "w", START_S + 35, START_S + 36, "done"),
        AttemptFact("c", 1, "w", START_S + 1, START_S + 2, "failed"),
    ),
    events=(
        *story("a", S.SCHEDULED, S.READY, S.RUNNING, S.SUCCEEDED, attempts=(None, None, 1, 1)),
        *story(
            "b",
            *(S.SCHEDULED, S.READY, S.RUNNING, S.RETRYING, S.READY, S.RUNNING, S.SUCCEEDED),
            attempts=(None, None, 1, 1, 1, 2, 2),
        ),
        *story("c", S.SCHEDULED, S.READY, S.RUNNING, S.FAILED, attempts=(None, None, 1, 1)),
        *story("d", S.SCHEDULED, S.READY, S.EXPIRED),
        EventFact("td", "d", 4, START_S + 30, "deadline_missed", "duetime"),
    ),
    ledger=(
        Line("start", "a", 1, LIVING_PID, START_S + 1),
        Line("effect", "a", 1, LIVING_PID, START_S + 2),
        Line("start", "b", 1, KILLED_PID, START_S + 2.1),
        Line("effect", "b", 1, KILLED_PID, START_S + 2.9),
        Line("start", "b", 2, LIVING_PID, START_S + 35),
        Line("effect", "b", 2, LIVING_PID, START_S + 36),
        Line("start", "c", 1, LIVING_PID, START_S + 3.1),
    ),
    faults=(Fault("a kill", START_S + 3, START_S + 3, "process 7 died in run b", deaths=(KILLED_PID,)),),
    letters=("c",),
    messages=("a", "b", "c"),
    samples=(Sample(START_S + 1, "gpu", 1, 1), Sample(START_S + 9, "gpu", 0, 1)),
    capacities={"gpu": 1},
    leftovers={"leases": 0, "reservations": 0},
)


def test_a_healthy_record_has_no_problem() -> None:
    assert problems(HEALTHY) == []
    assert classes(HEALTHY) == {"ok": 3, "duplicated": 1}
    assert recovered_in(HEALTHY) == pytest.approx(30)


def runs(record: Record, run_id: str, **values: Any) -> Record:
    return replace(record, runs=tuple(replace(r, **values) if r.id == run_id else r for r in record.runs))


def without_run(record: Record, run_id: str) -> Record:
    return replace(
        record,
        runs=tuple(r for r in record.runs if r.id != run_id),
        events=tuple(e for e in record.events if e.run_id != run_id),
        attempts=tuple(a for a in record.attempts if a.run_id != run_id),
        ledger=tuple(line for line in record.ledger if line.run_id != run_id),
        letters=tuple(letter for letter in record.letters if letter != run_id),
    )


def event(record: Record, run_id: str, seq: int, **values: Any) -> Record:
    changed = (replace(e, **values) if (e.run_id, e.seq) == (run_id, seq) else e for e in record.events)
    return replace(record, events=tuple(changed))


def without_event(record: Record, run_id: str, seq: int) -> Record:
    return replace(record, events=tuple(e for e in record.events if (e.run_id, e.seq) != (run_id, seq)))


def attempt(record: Record, run_id: str, number: int, **values: Any) -> Record:
    changed = (replace(a, **values) if (a.run_id, a.number) == (run_id, number) else a for a in record.attempts)
    return replace(record, attempts=tuple(changed))


def more(record: Record, *lines: Line) -> Record:
    return replace(record, ledger=(*record.ledger, *lines))


def settled_twice(record: Record) -> Record:
    again = EventFact("ta", "a", 5, START_S + 3, "succeeded", "w", S.SUCCEEDED, S.SUCCEEDED, 1)
    return replace(record, events=(*record.events, replace(again, before=S.RUNNING)))


def fence_skipped(record: Record) -> Record:
    """Let the attempt that had lost the run settle it all the same."""
    return event(attempt(record, "b", 1, outcome="done"), "b", 7, attempt=1)


def silent_for_a_minute(record: Record) -> Record:
    """Let two runs wait for a minute in which nothing starts; the order of many may make one wait as long."""
    late = attempt(attempt(record, "a", 1, started=START_S + 62), "b", 2, started=START_S + 63)
    return replace(late, backlog=1_000.0, turn=1_000.0)


SECOND_EFFECT = Line("effect", "a", 1, LIVING_PID, START_S + 2.5)

BUGS: dict[str, tuple[str, Callable[[Record], Record]]] = {
    "a task is dropped": ("I1", lambda r: without_run(r, "c")),
    "a task is never run": ("I1", lambda r: runs(r, "a", state=S.READY)),
    "a task nobody scheduled is there": ("I1", lambda r: replace(r, acknowledged=r.acknowledged - {"ta"})),
    "an attempt has its effect twice": ("I2", lambda r: more(r, SECOND_EFFECT)),
    "an effect has no cause": ("I2", lambda r: more(r, Line("effect", "x", 1, LIVING_PID, START_S))),
    "an effect has no attempt": ("I2", lambda r: more(r, Line("effect", "a", 2, LIVING_PID, START_S))),
    "a success has no effect": ("I2", lambda r: replace(r, ledger=tuple(x for x in r.ledger if x.run_id != "a"))),
    "an extra effect has no fault": ("I2", lambda r: replace(r, faults=())),
    "an extra effect is of a process that was not hit": (
        "I2",
        lambda r: replace(r, faults=(replace(r.faults[0], deaths=(99,)),)),
    ),
    "both attempts say they are done": ("I2", lambda r: attempt(r, "b", 1, outcome="done")),
    "a user is told twice": ("I2", lambda r: replace(r, messages=("a", "a"))),
    "a pool is over capacity": ("I3", lambda r: replace(r, samples=(Sample(START_S, "gpu", 2, 1),))),
    "units are released twice": ("I3", lambda r: replace(r, samples=(Sample(START_S, "gpu", -1, 1),))),
    "handlers hold more than there is": (
        "I3",
        lambda r: more(
            runs(r, "c", attempt=2),
            Line("start", "c", 2, LIVING_PID, START_S + 1.5),
            Line("effect", "c", 2, LIVING_PID, START_S + 4),
        ),
    ),
    "a lease leaks": ("I4", lambda r: replace(r, leftovers={"leases": 1})),
    "a reservation leaks": ("I4", lambda r: replace(r, leftovers={"reservations": 2})),
    "a run starts a minute late": ("I5", lambda r: attempt(r, "a", 1, started=START_S + 60)),
    "a run starts late, and nothing was broken": (
        "I5",
        lambda r: attempt(replace(r, faults=()), "a", 1, started=START_S + 9),
    ),
    "nothing starts for a minute": ("I5", silent_for_a_minute),
    "a killed run counts as running for a minute": ("I8", lambda r: attempt(r, "b", 1, ended=START_S + 63)),
    "a killed run waits a minute": (
        "I8",
        lambda r: runs(attempt(r, "b", 2, started=START_S + 63), "b", ended=START_S + 64),
    ),
    "a miss is not said": ("I6", lambda r: without_event(r, "d", 4)),
    "a miss is said twice": (
        "I6",
        lambda r: replace(r, events=(*r.events, EventFact("td", "d", 5, START_S, "deadline_missed", "duetime"))),
    ),
    "a miss is said that was none": ("I6", lambda r: runs(r, "d", state=S.CANCELLED)),
    "a late success is not said": ("I6", lambda r: runs(r, "a", deadline=START_S + 39)),
    "an event is lost": ("I7", lambda r: without_event(r, "a", 2)),
    "an event names nobody": ("I7", lambda r: event(r, "a", 2, actor="")),
    "an event makes an illegal move": (
        "I7",
        lambda r: event(event(r, "a", 2, after=S.RUNNING), "a", 3, before=S.RUNNING, after=S.READY),
    ),
    "a row is not what its events say": ("I7", lambda r: runs(r, "a", state=S.CANCELLED)),
    "a run ends twice": ("I7", settled_twice),
    "a fence is skipped": ("I7", fence_skipped),
    "an attempt is missing": ("I7", lambda r: replace(r, attempts=r.attempts[1:])),
    "an attempt never ends": ("I7", lambda r: attempt(r, "c", 1, outcome=None)),
    "an occurrence is there twice": ("I9", lambda r: replace(r, runs=(*r.runs, replace(r.runs[0], current=False)))),
    "a task has two current runs": ("I9", lambda r: replace(r, runs=(*r.runs, replace(r.runs[0], generation=2)))),
    "recovery does not come to rest": ("I13", lambda r: replace(r, repaired=1)),
    "a fault did not hit": ("I14", lambda r: replace(r, faults=(replace(r.faults[0], evidence=""),))),
    "nobody looked at the pools": ("I14", lambda r: replace(r, samples=())),
    "nothing ran at all": ("I14", lambda r: replace(r, ledger=())),
    "poison goes on": ("poison", lambda r: runs(r, "b", crashes=4)),
    "a crash is not counted": ("poison", lambda r: runs(r, "b", crashes=0)),
    "a failure has no dead letter": ("poison", lambda r: replace(r, letters=())),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_named(bug: str) -> None:
    invariant, plant = BUGS[bug]
    assert invariant in {problem.invariant for problem in problems(plant(HEALTHY))}


@pytest.mark.parametrize(
    "bug",
    [
        "a run starts a minute late",
        "nothing starts for a minute",
        "a killed run waits a minute",
        "a killed run counts as running for a minute",
    ],
)
def test_a_busy_machine_is_to_blame_for_the_time_in_which_processors_were_wanted(bug: str) -> None:
    name, plant = BUGS[bug]

    def found(*waits: tuple[float, float]) -> bool:
        record = plant(replace(HEALTHY, waits=tuple(ProcessorWait(START_S + at, waited) for at, waited in waits)))
        return name in {problem.invariant for problem in problems(record)}

    assert not found((-9, 500), (1, 500), (61, 560), (99, 560))
    assert found((-9, 470), (0, 530), (64, 530), (99, 600)), "it was busy before and after that"


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_no_check_is_superfluous(check: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without this check, some planted bug goes unseen."""
    from tests.faults import invariants

    monkeypatch.setattr(invariants, "CHECKS", tuple(each for each in CHECKS if each is not check))
    unseen = [bug for bug, (name, plant) in BUGS.items() if name not in {p.invariant for p in problems(plant(HEALTHY))}]
    assert unseen


def test_a_task_unconfirmed_to_its_caller_is_recovered_and_no_mistake() -> None:
    told_less = replace(HEALTHY, acknowledged=HEALTHY.acknowledged - {"ta"}, unknown=frozenset({"ta", "tx"}))
    assert problems(told_less) == []
    assert classes(told_less) == {"ok": 2, "duplicated": 1, "recovered": 1}


def test_a_run_left_open_on_purpose_is_not_lost() -> None:
    opened = without_run(HEALTHY, "a")
    waiting = replace(opened, runs=(*opened.runs, run("a", S.SCHEDULED, 0)), pending=frozenset({"ta"}))
    assert problems(replace(waiting, events=(*waiting.events, *story("a", S.SCHEDULED)))) == []
