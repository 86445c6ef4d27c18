"""Occurrences of a recurring task: the next one, the upcoming ones, and the missed ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from functools import lru_cache
from hashlib import blake2b

from duetime.scheduler.ids import new_id
from duetime.scheduler.rules.estimates import UNKNOWN_ESTIMATE
from duetime.scheduler.rules.order import drop_at
from duetime.scheduler.rules.recurrence import recurrence
from duetime.scheduler.rules.recurrence.recurrence import Recurrence
from duetime.scheduler.rules.time import zones
from duetime.scheduler.rules.time.durations import MICROSECOND
from duetime.scheduler.task import Run, State, Task
from duetime.scheduler.view_parts import Occurrence

MAX_MISSES_COUNTED = 10_000
"""Passed-over occurrences are counted up to this many, so that a long outage cannot hold up a settlement."""


MAX_OCCURRENCES_COUNTED = 1_000
"""Occurrences before a window that are counted, where a series has a number of them."""


def recurrence_of(task: Task) -> Recurrence | None:
    """Return the task's recurrence, None for a one-shot."""
    if not task.repeat:
        return None
    rule, policy = _parsed(task.repeat, task.timezone, task.anchor), task.repeat_policy
    return rule.without(policy.leave_out) if policy and policy.leave_out else rule


@lru_cache(maxsize=4096)
def _parsed(rule: str, zone: str, anchor: datetime) -> Recurrence:
    return recurrence.parse(rule, zone=zone, anchor=anchor)


def next_run(task: Task, run: Run, now: datetime, *, number: int | None = None) -> Run | None:
    """Return the occurrence after `run`: the first one after its slot, its time and `now`; None at the end.

    Occurrences in between were missed; the new run has their number, and they never run one by one. It gets the next
    number, or `number`: a skipped occurrence uses none up.
    """
    rule = recurrence_of(task)
    if rule is None:
        return None
    number = run.number + 1 if number is None else number
    following = rule.after(max(used_up_to(run), now))
    if following is None or _ended(task, following.instant, number):
        return None
    coming = Run(
        id=new_id("r"),
        task_id=task.id,
        tenant=task.tenant,
        scheduled_for=following.instant,
        state=State.SCHEDULED,
        number=number,
        wake_at=following.instant + delay_of(task),
        missed=_missed(rule, used_up_to(run), now),
        failed_before=run.failed_before,
        occurrence=planned_window(task, following.instant),
    )
    return with_deadline_like(task, coming, run)


def newest_due(task: Task, run: Run, opened: datetime, now: datetime) -> Run | None:
    """Return the newest of the occurrences after `run` was opened that are due by `now`; None without one."""
    coming = next_run(task, run, opened)
    if coming is None or coming.scheduled_for + delay_of(task) > now:
        return None
    newest = _newest(task, coming, now - delay_of(task))
    return coming if newest == coming.scheduled_for else next_run(task, run, newest - MICROSECOND)


def _newest(task: Task, first: Run, end: datetime) -> datetime:
    """Return the last occurrence up to `end`, or that of `first`."""
    rule, newest = recurrence_of(task), first.scheduled_for
    for _ in range(MAX_MISSES_COUNTED):
        found = rule.after(newest) if rule else None
        if found is None or found.instant > end or _ended(task, found.instant, first.number):
            break
        newest = found.instant
    return newest


def delay_of(task: Task) -> timedelta:
    """Return how much later than its time each run of a task starts: a part of its jitter that is the task's own."""
    window = task.repeat_policy.jitter if task.repeat and task.repeat_policy else None
    if not window:
        return timedelta(0)
    part = int.from_bytes(blake2b(task.id.encode(), digest_size=4).digest())
    return timedelta(milliseconds=window // timedelta(milliseconds=1) * part // 2**32)


def latest_delay(task: Task) -> timedelta:
    """Return how much later than its time a run may start: a step has the delay of its chain, within the jitter."""
    policy = task.repeat_policy
    return delay_of(task) if task.repeat or policy is None else policy.jitter or timedelta(0)


class TooManyOccurrences(Exception):
    """A series with a number of runs has too many before a time to count them."""


def following(task: Task, run: Run, now: datetime, *, start: datetime, end: datetime) -> Iterator[Occurrence]:
    """Yield the occurrences after `run` from `start` to before `end`, as they come if nothing changes and all run.

    Occurrences that have passed by `now` will not run. Raises TooManyOccurrences.
    """
    rule = recurrence_of(task)
    at, number = max(used_up_to(run), now), run.number
    if rule is None:
        return
    if task.max_runs is None:
        at = max(at, start - MICROSECOND)
    while (coming := rule.after(at)) and coming.instant < end:
        at, number = coming.instant, number + 1
        if _ended(task, at, number):
            return
        if at >= start:
            yield coming
        elif number - run.number > MAX_OCCURRENCES_COUNTED:
            raise TooManyOccurrences(task.id)


def upcoming(task: Task, run: Run, n: int, *, after: datetime | None = None) -> tuple[Occurrence, ...]:
    """Return up to `n` occurrences of a recurring task: `run` itself, at its current time, and its successors.

    Successors come `after` that instant, where one is given.
    """
    rule = recurrence_of(task)
    if rule is None:
        return ()
    begin = used_up_to(run) if after is None else max(used_up_to(run), after)
    shown = (occurrence_at(rule, run.scheduled_for), *rule.upcoming(begin, n - 1))
    return tuple(o for i, o in enumerate(shown) if i == 0 or not _ended(task, o.instant, run.number + i))


def used_up_to(run: Run) -> datetime:
    """Return the time up to which the rule is used up: a run that was moved earlier still fills its slot."""
    return max(run.scheduled_for, run.slot or run.scheduled_for)


def skip_run(run: Run, now: datetime) -> Run:
    return replace(run, state=State.SKIPPED, wake_at=None, ended_at=now)


def window_of(run: Run) -> datetime:
    """Return the instant of the occurrence that a run belongs to: of its rule, or the first one of a one-shot."""
    return run.occurrence or run.slot or run.scheduled_for


def kept_window(task: Task, at: datetime) -> datetime | None:
    """Return the occurrence of a run as it is stored: only for the keys of a template."""
    return at if task.key_template else None


def planned_window(task: Task, at: datetime) -> datetime | None:
    """Return the occurrence of a run at its planned time, to the second: rules have no finer steps."""
    return kept_window(task, at.replace(microsecond=0))


def occurrence_at(rule: Recurrence, instant: datetime) -> Occurrence:
    """Return the occurrence at an instant; its wall time is that of the rule, also where the clocks skip it."""
    by_rule = rule.first(instant)
    if by_rule is not None and by_rule.instant == instant:
        return by_rule
    return Occurrence(instant, instant.astimezone(zones.load(rule.zone)).replace(tzinfo=None))


def _ended(task: Task, instant: datetime, number: int) -> bool:
    past_until = task.until is not None and instant > task.until
    return past_until or (task.max_runs is not None and number > task.max_runs)


def _missed(rule: Recurrence, after: datetime, now: datetime) -> int:
    known = rule.count_between(after, now)
    if known is not None:
        return min(known, MAX_MISSES_COUNTED)
    passed = 0
    while passed < MAX_MISSES_COUNTED:
        following = rule.after(after)
        if following is None or following.instant > now:
            break
        after, passed = following.instant, passed + 1
    return passed


def with_deadline(task: Task, run: Run, *, at: datetime | None, p50: timedelta) -> Run:
    """Return `run` with its deadline: relative to its due time where the task says so, else the instant `at`.

    `p50` is the median duration of the run.
    """
    deadline = run.scheduled_for + task.deadline_after if task.deadline_after is not None else at
    if deadline is None and run.deadline is None and run.drop_at is None:
        return run
    return replace(run, deadline=deadline, drop_at=None if deadline is None else drop_at(deadline, p50))


def with_deadline_like(task: Task, run: Run, earlier: Run) -> Run:
    """Return `run`, the successor or another time of `earlier`, with the deadline of the task.

    A deadline that was an instant stays only while it can still be met.
    """
    p50 = reserved_duration(task, earlier)
    found = with_deadline(task, run, at=earlier.deadline, p50=p50)
    follows = run.id != earlier.id and found.drop_at is not None and found.drop_at < run.scheduled_for
    return replace(run, deadline=None, drop_at=None) if follows and task.deadline_after is None else found


def reserved_duration(task: Task, run: Run) -> timedelta:
    """Return the estimated duration that `run` subtracts from its deadline."""
    if run.deadline is not None and run.drop_at is not None:
        return run.deadline - run.drop_at
    return task.estimate or UNKNOWN_ESTIMATE
