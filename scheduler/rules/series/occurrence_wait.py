"""Occurrences that wait for an event before they run: what their task keeps of the wait, and the wait of each one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from duetime.scheduler.rules.series.before_run import EVENT_MEMBER, IN_CHAIN, before_run
from duetime.scheduler.rules.series.overlap import continuation_after
from duetime.scheduler.rules.series.overtake import with_overtake_time
from duetime.scheduler.run_records import Settlement
from duetime.scheduler.task import Json, Run, State, Task
from duetime.scheduler.waits.signal import OnTimeout, SignalWait

_EPOCH: Final = datetime(2000, 1, 1, tzinfo=UTC)


def waiter_of(task: Task, run: Run) -> str:
    """Return the id under which the wait for a run's event is stored."""
    return run.id if before_run(task).awaits else task.id


def awaited_by_each(wait: SignalWait, now: datetime, *, in_chain: bool = False) -> dict[str, Json]:
    """Return the form in which a task keeps a wait that was read `now`: with spans of time instead of instants.

    It is a task of its own, or a step `in_chain` that recurs.
    """
    events: list[Json] = [
        {"name": each.name, "match": dict(each.match), "lookback": (now - each.since).total_seconds()}
        for each in wait.all
    ]
    kept: dict[str, Json] = {"any": events, "timeout": (wait.until - now).total_seconds()}
    kept["on_timeout"] = wait.on_timeout.value
    kept |= {IN_CHAIN: True} if in_chain else {}
    return {EVENT_MEMBER: kept}


def names_awaited(each_run: object) -> tuple[str, ...]:
    """Return the names of the events any of which each run waits for; none where the stored wait cannot be read."""
    wait: Any = each_run.get(EVENT_MEMBER) if isinstance(each_run, Mapping) else None
    try:
        _read(wait, _EPOCH, _EPOCH)
        return tuple(dict.fromkeys(each["name"] for each in wait["any"]))
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError):
        return ()


def wait_of_each(task: Task, time: datetime, opened: datetime) -> SignalWait:
    """Return the wait of the occurrence that is due at `time` and has been open since `opened`."""
    return _read((task.asks or {})[EVENT_MEMBER], time, opened)


def _read(wait: Mapping[str, Any], time: datetime, opened: datetime) -> SignalWait:
    until, then = opened + timedelta(seconds=wait["timeout"]), OnTimeout(wait["on_timeout"])
    first, *others = (
        SignalWait(each["name"], each["match"], time - timedelta(seconds=each["lookback"]), until, then)
        for each in wait["any"]
    )
    return replace(first, others=tuple(others))


def opened_at(run: Run, now: datetime) -> datetime:
    """Return since when a due run waits. It counts as open from then on, for the overlap policy."""
    return run.first_ready_at or max(now, run.wake_at or now)


def due_again(had: Task, task: Task, old: Run, run: Run, now: datetime) -> Run:
    """Return the run of a changed task as due, so that its wait begins again; a wait that did not change continues.

    It waits again at once, behind the lock of the name of its event, which no change of a task takes. Where it asks as
    well, it asks again then. As the same occurrence it has waited since the same moment. A run that is to wait no more
    is due as well.
    """
    if before_run(task).awaits and is_same_occurrence(old, run):
        run = replace(run, first_ready_at=old.first_ready_at)
    same = run.id == old.id and run.scheduled_for == old.scheduled_for and task.asks == had.asks
    if run.state is not State.WAITING or (same and old.state is State.WAITING):
        return run
    changed = task.asks != had.asks and old.state is State.WAITING and old.first_ready_at is not None
    had_turn = run.id == old.id and (changed or before_run(task).awaits_alone(run) or before_run(had).awaits_alone(old))
    if not (had_turn or before_run(task).awaits_in_series):
        return run
    opened = run.first_ready_at if before_run(task).awaits else None
    due = max(run.wake_at or run.scheduled_for, now)
    return replace(run, state=State.SCHEDULED, wake_at=due, first_ready_at=opened)


def is_same_occurrence(old: Run, run: Run) -> bool:
    """Whether a run is the next generation of another one, in its place: that was cancelled, and is not any more."""
    is_again = run.number == old.number and run.generation == old.generation + 1
    return run.id != old.id and old.state is State.CANCELLED and is_again


def skip_unmet(task: Task, run: Run, end: Settlement, now: datetime) -> Settlement:
    """Return the change that skips an occurrence whose event did not come in time; its series continues.

    As any skipped occurrence it uses up no number.
    """
    coming = continuation_after(task, replace(run, number=run.number - 1), now)
    following = with_overtake_time(task, coming.next_run) if coming.next_run else None
    return replace(end, next_run=following, skipped=coming.skipped)
