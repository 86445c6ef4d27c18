"""The invariants that hold whatever breaks: one checker, which every scenario calls when all has come to rest.

Their numbers are those of docs/reliability.md. Each check is a function from a `Record` to the problems it found. So
the checker itself can be tested on records with a bug planted in them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from duetime.scheduler.rules.states import LEGAL_MOVES, TERMINAL
from duetime.scheduler.task import State

from tests.faults.record import AttemptFact, EventFact, Line, Record, RunFact

RECOVERY_S = 35.0
"""Seconds after the end of a fault in which work has to resume: a lease of 30 and one look of 5."""

MAX_CRASHES = 3
MISSED = "deadline_missed"
EFFECTFUL = "effect"
ANSWERED = frozenset({"done"})
SLACK_S = 0.5
"""Seconds by which the clocks of two observers of one moment may differ."""


@dataclass(frozen=True)
class Problem:
    """A broken invariant, and where."""

    invariant: str
    what: str

    def __str__(self) -> str:
        return f"{self.invariant}: {self.what}"


Check = Callable[[Record], Iterator[Problem]]


def problems(record: Record) -> list[Problem]:
    """Return everything that does not hold; empty when all is well."""
    return [problem for check in CHECKS for problem in check(record)]


def classes(record: Record) -> Counter[str]:
    """Sort every task into ok, lost, unexpected, duplicated or recovered: Jepsen's words for a queue."""
    effects = _effects(record)
    return Counter(_class_of(record, effects, task_id, runs) for task_id, runs in _by_task(record).items())


# --- what is promised of tasks and effects --------------------------------------------------------------------------


def no_task_is_lost(record: Record) -> Iterator[Problem]:
    effects = _effects(record)
    for task_id, runs in _by_task(record).items():
        found = _class_of(record, effects, task_id, runs)
        if found in {"lost", "unexpected"}:
            states = ", ".join(run.state for run in runs) or "no row"
            yield Problem("I1", f"task {task_id} is {found} ({states})")


def effects_are_repeated_only_after_a_fault(record: Record) -> Iterator[Problem]:
    attempts = {(attempt.run_id, attempt.number): attempt for attempt in record.attempts}
    runs = {run.id: run for run in record.runs}
    by_run: dict[str, list[Line]] = defaultdict(list)
    for line in record.ledger:
        if (line.run_id, line.attempt) not in attempts:
            yield Problem(
                "I2", f"{line.step} of run {line.run_id}, attempt {line.attempt}, which the store never started"
            )
        if line.step == "effect":
            by_run[line.run_id].append(line)
    for run_id, lines in by_run.items():
        yield from _repeats(record, attempts, run_id, lines)
    for run in runs.values():
        if run.state is State.SUCCEEDED and run.action == EFFECTFUL and not by_run[run.id]:
            yield Problem("I2", f"run {run.id} succeeded without its effect")


def _repeats(
    record: Record, attempts: dict[tuple[str, int], AttemptFact], run_id: str, lines: list[Line]
) -> Iterator[Problem]:
    per_attempt = Counter(line.attempt for line in lines)
    hit = {pid for fault in record.faults for pid in (*fault.deaths, *fault.frozen)}
    anyone = any(fault.anyone for fault in record.faults)
    yield from (
        Problem("I2", f"attempt {number} of run {run_id} had its effect {count} times")
        for number, count in per_attempt.items()
        if count > 1
    )
    unanswered = [number for number in per_attempt if _outcome(attempts, run_id, number) not in ANSWERED]
    answered = [number for number in per_attempt if number not in unanswered]
    if len(answered) > 1:
        yield Problem("I2", f"attempts {answered} of run {run_id} all had an effect and an answer")
    if not anyone and any(line.attempt in unanswered and line.pid not in hit for line in lines):
        yield Problem("I2", f"run {run_id} has an extra effect of a process that no fault had hit")


def _outcome(attempts: dict[tuple[str, int], AttemptFact], run_id: str, number: int) -> str | None:
    found = attempts.get((run_id, number))
    return found.outcome if found else None


def poison_is_stopped(record: Record) -> Iterator[Problem]:
    crashed = Counter(attempt.run_id for attempt in record.attempts if attempt.outcome == "crashed")
    letters = set(record.letters)
    for run in record.runs:
        if run.crashes > MAX_CRASHES or run.crashes != crashed[run.id]:
            yield Problem(
                "poison", f"run {run.id} counts {run.crashes} crashes, and {crashed[run.id]} attempts crashed"
            )
        if run.crashes >= MAX_CRASHES and run.state is State.SUCCEEDED:
            yield Problem("poison", f"run {run.id} was started again after {run.crashes} crashes")
        if (run.state is State.FAILED) != (run.id in letters):
            yield Problem(
                "poison", f"run {run.id} is {run.state}, and has {'a' if run.id in letters else 'no'} dead letter"
            )
    if crashed and not record.faults:
        yield Problem("I2", f"{crashed.total()} attempts crashed, and nothing was broken")
    told = Counter(record.messages)
    yield from (Problem("I2", f"run {run_id} was told {count} times") for run_id, count in told.items() if count > 1)


# --- what is promised of pools --------------------------------------------------------------------------------------


def pools_are_never_over_reserved(record: Record) -> Iterator[Problem]:
    for sample in record.samples:
        if not 0 <= sample.used <= sample.capacity:
            yield Problem(
                "I3", f"pool {sample.pool} had {sample.used:g} of {sample.capacity:g} in use at {sample.at:.3f}"
            )
    for pool, capacity in record.capacities.items():
        yield from _gauge(record, pool, capacity)


def _gauge(record: Record, pool: str, capacity: float) -> Iterator[Problem]:
    used, at = most_held(record, pool)
    if used > capacity:
        yield Problem("I3", f"handlers held {used:g} of the {capacity:g} units of pool {pool} at {at:.3f}")


def most_held(record: Record, pool: str) -> tuple[float, float]:
    """Return the most units that handlers really held at one time, and when, added up from the ledger.

    A frozen process is left out: nobody counts any more what it goes on holding.
    """
    frozen = {pid for fault in record.faults for pid in fault.frozen}
    held = (span for *span, pid in _held(record, pool) if pid not in frozen)
    used, most = 0.0, (0.0, 0.0)
    for at, change in sorted(edge for began, ended, units in held for edge in _edges(began, ended, units)):
        used += change
        most = max(most, (used, at), key=lambda each: each[0])
    return most


def _edges(began: float, ended: float, units: float) -> tuple[tuple[float, float], tuple[float, float]]:
    return (began, units), (ended, -units)


def _held(record: Record, pool: str) -> Iterator[tuple[float, float, float, int]]:
    """Return from when to when which process had how much of a pool; a process that was killed had it until then."""
    needs = {run.id: run.needs.get(pool, 0) for run in record.runs}
    ends = {(line.run_id, line.attempt, line.pid): line.at for line in record.ledger if line.step == "effect"}
    deaths = {pid: fault.began for fault in record.faults for pid in fault.deaths}
    for line in record.ledger:
        if line.step == "start" and needs.get(line.run_id):
            end = ends.get((line.run_id, line.attempt, line.pid), deaths.get(line.pid, line.at))
            yield line.at, end, needs[line.run_id], line.pid


def nothing_is_left_over(record: Record) -> Iterator[Problem]:
    for name, count in record.leftovers.items():
        if count:
            yield Problem("I4", f"{count} {name} left after everything had come to rest")


# --- what is promised of time ---------------------------------------------------------------------------------------


def runs_start_in_time(record: Record) -> Iterator[Problem]:
    first = {attempt.run_id: attempt.started for attempt in record.attempts if attempt.number == 1}
    for run in record.runs:
        started = first.get(run.id)
        if started is None:
            continue
        allowed = run.due + record.backlog + _excused(record, run.due, started) + (RECOVERY_S if record.faults else 2.0)
        if started > allowed + SLACK_S:
            yield Problem("I5", f"run {run.id} was due at {run.due:.1f} and started {started - run.due:.1f} s later")


def something_starts_while_anything_waits(record: Record) -> Iterator[Problem]:
    """Report a long time in which something was due and nothing started; who goes first, the order decides."""
    if not record.runs:
        return
    first = {attempt.run_id: attempt.started for attempt in record.attempts if attempt.number == 1}
    starts = sorted([min(run.due for run in record.runs), *(attempt.started for attempt in record.attempts)])
    for since, until in pairwise(starts):
        silent = until - since - _excused(record, since, until)
        if silent <= RECOVERY_S + SLACK_S:
            continue
        if waiting := [run.id for run in record.runs if run.due <= since and first.get(run.id, 0.0) >= until]:
            yield Problem(
                "I5", f"nothing started for {silent:.1f} s, though {len(waiting)} runs were due: {waiting[0]}"
            )


def _excused(record: Record, since: float, until: float) -> float:
    """Return the seconds in which something was broken, or processors were wanted by more than there are."""
    broken = sum(max(0.0, min(until, fault.ended) - max(since, fault.began)) for fault in record.faults)
    return broken + _waited_between(record, since, until)


def _waited_between(record: Record, since: float, until: float) -> float:
    if until <= since or not record.waits:
        return 0.0
    first = max(bisect_right(record.waits, since, key=lambda each: each.at) - 1, 0)
    last = min(bisect_left(record.waits, until, key=lambda each: each.at), len(record.waits) - 1)
    return min(max(0.0, record.waits[last].waited - record.waits[first].waited), until - since)


def the_killed_start_again_in_time(record: Record) -> Iterator[Problem]:
    """From the death of a process to the end of the attempt that died with it, and to the next start of that run."""
    for name, died, line in _cut_short(record):
        ends, again = _end_of(record, line), _next_sign(record, line)
        if ends is not None and ends > died + _allowed(record, died, ends):
            yield Problem(
                "I8", f"run {line.run_id}, cut short by {name}, still counted as running {ends - died:.1f} s later"
            )
        if again is None or again > died + _allowed(record, died, again) + record.turn:
            late = "never" if again is None else f"{again - died:.1f} s later"
            yield Problem("I8", f"run {line.run_id}, cut short by {name}, went on {late}")


def _allowed(record: Record, since: float, until: float) -> float:
    """Return the seconds that recovery may take, where more was broken in that time or the machine was busy."""
    return _excused(record, since, until) + RECOVERY_S + SLACK_S


def recovered_in(record: Record) -> float | None:
    """Return the longest time (seconds) from the death of a process until what it ran was free to start again."""
    ends = ((died, _end_of(record, line)) for _, died, line in _cut_short(record))
    return max((max(0.0, at - died) for died, at in ends if at is not None), default=None)


def _end_of(record: Record, line: Line) -> float | None:
    ends = (a.ended for a in record.attempts if (a.run_id, a.number) == (line.run_id, line.attempt))
    return next(ends, None)


def _cut_short(record: Record) -> Iterator[tuple[str, float, Line]]:
    answered = {(attempt.run_id, attempt.number) for attempt in record.attempts if attempt.outcome != "crashed"}
    deaths = {pid: fault for fault in record.faults for pid in fault.deaths}
    for line in record.ledger:
        if line.step == "start" and line.pid in deaths and (line.run_id, line.attempt) not in answered:
            yield deaths[line.pid].name, deaths[line.pid].ended, line


def _next_sign(record: Record, line: Line) -> float | None:
    starts = (
        attempt.started
        for attempt in record.attempts
        if attempt.run_id == line.run_id and attempt.number > line.attempt
    )
    ends = (run.ended for run in record.runs if run.id == line.run_id and run.ended is not None)
    return min([*starts, *ends], default=None)


def each_missed_deadline_is_said_once(record: Record) -> Iterator[Problem]:
    said = Counter(event.run_id for event in record.events if event.kind == MISSED)
    for run in record.runs:
        missed = run.deadline is not None and run.ended is not None and _missed(run)
        if said[run.id] != missed:
            verb = "missed" if missed else "did not miss"
            yield Problem("I6", f"run {run.id} {verb} its deadline, and {said[run.id]} events say so")


def _missed(run: RunFact) -> bool:
    late = run.deadline is not None and run.ended is not None and run.ended > run.deadline
    return run.state is State.EXPIRED or (late and run.state in {State.SUCCEEDED, State.FAILED})


# --- what is promised of the history --------------------------------------------------------------------------------


def the_history_has_no_gap(record: Record) -> Iterator[Problem]:
    by_task: dict[str, list[EventFact]] = defaultdict(list)
    for event in record.events:
        by_task[event.task_id].append(event)
        if not event.actor:
            yield Problem("I7", f"event {event.seq} of task {event.task_id} names nobody")
    for task_id, events in by_task.items():
        numbers = sorted(event.seq for event in events)
        if numbers != list(range(1, len(numbers) + 1)):
            yield Problem("I7", f"the events of task {task_id} are numbered {numbers}")
    for run in record.runs:
        yield from _story(run, sorted((e for e in by_task[run.task_id] if e.run_id == run.id), key=lambda e: e.seq))


def _story(run: RunFact, events: list[EventFact]) -> Iterator[Problem]:
    moves = [event for event in events if event.after is not None and event.after != event.before]
    state: State | None = None
    for event in moves:
        if event.before != state:
            yield Problem("I7", f"run {run.id} was {state}, and event {event.seq} moves it from {event.before}")
        if event.after not in LEGAL_MOVES[event.before]:
            yield Problem(
                "I7", f"event {event.seq} of run {run.id} makes {event.before} {event.after}, which is illegal"
            )
        state = event.after
    if state != run.state:
        yield Problem("I7", f"run {run.id} is {run.state}, and its last event says {state}")
    ends = [event for event in moves if event.after in TERMINAL]
    if len(ends) != (run.state in TERMINAL):
        yield Problem("I7", f"run {run.id} is {run.state}, and has {len(ends)} events that end it")
    if ends and run.attempt and ends[-1].attempt is not None and ends[-1].attempt != run.attempt:
        yield Problem("I7", f"attempt {ends[-1].attempt} ended run {run.id}, whose attempt is {run.attempt}")


def attempts_are_numbered_and_end(record: Record) -> Iterator[Problem]:
    by_run: dict[str, list[AttemptFact]] = defaultdict(list)
    for attempt in record.attempts:
        by_run[attempt.run_id].append(attempt)
    for run in record.runs:
        tries = sorted(by_run[run.id], key=lambda attempt: attempt.number)
        if [attempt.number for attempt in tries] != list(range(1, run.attempt + 1)):
            yield Problem("I7", f"run {run.id} is at attempt {run.attempt}, and has {[a.number for a in tries]}")
        if any(attempt.outcome is None for attempt in tries) and run.state in TERMINAL:
            yield Problem("I7", f"run {run.id} is {run.state}, and one of its attempts has no end")
        done = [attempt.number for attempt in tries if attempt.outcome in ANSWERED]
        if done not in ([], [run.attempt]):
            yield Problem("I7", f"run {run.id} was settled by attempts {done} of {run.attempt}")


def each_occurrence_is_there_once(record: Record) -> Iterator[Problem]:
    times = Counter((run.task_id, run.due, run.generation) for run in record.runs)
    yield from (Problem("I9", f"{count} runs are the occurrence {key}") for key, count in times.items() if count > 1)
    current = Counter(run.task_id for run in record.runs if run.current)
    yield from (Problem("I9", f"task {task} has {count} current runs") for task, count in current.items() if count > 1)


# --- what is promised of recovery and of the tests themselves -------------------------------------------------------


def recovery_can_be_repeated(record: Record) -> Iterator[Problem]:
    if record.repaired:
        yield Problem("I13", f"a second pass of recovery changed {record.repaired} rows")


def every_fault_was_real(record: Record) -> Iterator[Problem]:
    for fault in record.faults:
        if not fault.evidence:
            yield Problem("I14", f"nothing shows that the fault {fault.name!r} hit, so the scenario proves nothing")
    if record.capacities and not record.samples:
        yield Problem("I14", "the queue was never asked for its pools, so nothing shows that they were kept")
    if not record.acknowledged or not record.ledger:
        yield Problem("I14", "nothing was scheduled, or nothing ran, so the scenario proves nothing")


CHECKS: tuple[Check, ...] = (
    no_task_is_lost,
    effects_are_repeated_only_after_a_fault,
    poison_is_stopped,
    pools_are_never_over_reserved,
    nothing_is_left_over,
    runs_start_in_time,
    something_starts_while_anything_waits,
    the_killed_start_again_in_time,
    each_missed_deadline_is_said_once,
    the_history_has_no_gap,
    attempts_are_numbered_and_end,
    each_occurrence_is_there_once,
    recovery_can_be_repeated,
    every_fault_was_real,
)


# --- by task ----------------------------------------------------------------------------------------------------------


def _by_task(record: Record) -> dict[str, list[RunFact]]:
    found: dict[str, list[RunFact]] = {task_id: [] for task_id in sorted(record.acknowledged | record.unknown)}
    for run in record.runs:
        found.setdefault(run.task_id, []).append(run)
    return {task_id: runs for task_id, runs in found.items() if runs or task_id in record.acknowledged}


def _effects(record: Record) -> Counter[str]:
    return Counter(line.run_id for line in record.ledger if line.step == "effect")


def _class_of(record: Record, effects: Counter[str], task_id: str, runs: list[RunFact]) -> str:
    if task_id not in record.acknowledged:
        return "recovered" if task_id in record.unknown else "unexpected"
    if not runs or (task_id not in record.pending and any(run.state not in TERMINAL for run in runs)):
        return "lost"
    return "duplicated" if any(effects[run.id] > 1 for run in runs) else "ok"
