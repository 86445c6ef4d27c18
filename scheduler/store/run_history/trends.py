"""Adds up waits and missed deadlines by tier and part of time: over the newest runs of a tenant up to a number.

The mean number of waiting runs is exact: each wait is spread over the parts that it reaches into. The database adds up
a group of waits that begin in one part and end in another. It answers few rows for many runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from duetime.scheduler.history.runs import RunFilter
from duetime.scheduler.history.tier_trends import ActionMisses, TierPart, TierTrends
from duetime.scheduler.rules.time.durations import MICROSECOND
from duetime.scheduler.store.database.dialects import dialect_of
from duetime.scheduler.store.run_history.run_walk import RunWalk, together
from duetime.scheduler.store.schema.tables.tasks import attempts, runs, tasks
from duetime.scheduler.store.schema.values import to_microseconds
from duetime.scheduler.store.text_index.text_search import Condition
from duetime.scheduler.task import State, Tier
from sqlalchemy import BigInteger, Connection, Select, and_, case, false, func, literal, or_, select, type_coerce
from sqlalchemy.types import NullType

MAX_TREND_RUNS: Final = 20_000
"""Ended runs of a tenant, the newest first, and as many open ones."""

_ENDS: Final = (State.SUCCEEDED, State.FAILED, State.EXPIRED)
_OPEN: Final = (State.READY, State.RUNNING, State.RETRYING, State.SUSPENDED)


@dataclass(frozen=True, slots=True)
class TrendSpan:
    """Some time in parts of one width, of which the last one may be shorter."""

    since: datetime
    until: datetime
    width: timedelta

    @property
    def width_us(self) -> int:
        return self.width // MICROSECOND

    @property
    def length_us(self) -> int:
        return (self.until - self.since) // MICROSECOND

    @property
    def parts(self) -> int:
        """The number of parts."""
        return -(-self.length_us // self.width_us)


@dataclass(slots=True)
class _TierSums:
    """The sums of one tier, part by part."""

    count: int
    waited_us: list[int] = field(init=False)
    longest_us: list[int | None] = field(init=False)
    due: list[int] = field(init=False)
    missed: list[int] = field(init=False)
    latest_us: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.waited_us, self.due, self.missed, self.latest_us = ([0] * self.count for _ in range(4))
        self.longest_us = [None] * self.count

    def add_waits(self, span: TrendSpan, begins: int, ends: int, row: Sequence[int]) -> None:
        """Spread waits that begin in one part and end in another: their number, both sums of times, the longest."""
        count, begun_us, ended_us, longest_us = row
        for part in range(begins, ends + 1):
            start = part * span.width_us
            end = min(start + span.width_us, span.length_us)
            until = ended_us if part == ends else count * end
            self.waited_us[part] += until - (begun_us if part == begins else count * start)
        self.longest_us[ends] = max(self.longest_us[ends] or 0, longest_us)

    def parts(self, span: TrendSpan) -> Iterator[TierPart]:
        for part in range(self.count):
            length = min(span.width_us, span.length_us - part * span.width_us)
            longest = self.longest_us[part]
            yield TierPart(
                self.waited_us[part] / length,
                timedelta(microseconds=longest) if longest is not None else None,
                self.due[part],
                self.missed[part],
                timedelta(microseconds=self.latest_us[part]),
            )


class TrendSums:
    """The trends of some tenants, tenant by tenant."""

    def __init__(self, connection: Connection, span: TrendSpan) -> None:
        self._connection = connection
        self._dialect = dialect_of(connection)
        self._span = span
        self._tiers = {tier: _TierSums(span.parts) for tier in Tier}
        self._actions: dict[str, list[int]] = {}
        self._reached: list[datetime] = []

    def add(self, tenant: str) -> None:
        """Add up the runs of a tenant."""
        ended = RunWalk(self._connection, tenant, self._filter((*_ENDS, State.CANCELLED)))
        opened = RunWalk(self._connection, tenant, RunFilter(states=_OPEN))
        overdue = RunWalk(self._connection, tenant, RunFilter(states=(State.SCHEDULED,), until=self._span.until))
        self._add_waits([part for walk in (ended, opened, overdue) for part in self._waits(walk)])
        self._add_misses(RunWalk(self._connection, tenant, self._filter(_ENDS)))

    def trends(self) -> TierTrends:
        span = self._span
        starts = [span.since + span.width * part for part in range(span.parts)]
        ranked = sorted(self._actions.items(), key=lambda each: (-each[1][1], -each[1][0], each[0]))
        actions = [ActionMisses(name, due, missed, timedelta(microseconds=us)) for name, (due, missed, us) in ranked]
        tiers = {tier: tuple(sums.parts(span)) for tier, sums in self._tiers.items()}
        return TierTrends(starts, tiers, actions, max(self._reached, default=None))

    def _filter(self, states: tuple[State, ...]) -> RunFilter:
        return RunFilter(states=states, since=self._span.since, until=self._span.until)

    def _read(self, walk: RunWalk, columns: Sequence[Any], conditions: Sequence[Condition] = ()) -> list[Select[Any]]:
        reached = walk.boundary(MAX_TREND_RUNS)
        if reached is not None:
            self._reached.append(reached.at)
        return walk.parts(columns, conditions, reached)

    # --- waits

    def _waits(self, walk: RunWalk) -> list[Select[Any]]:
        """Return statements for when runs were due and when they began, in microseconds of the span, by tier.

        A run that never began waited to its end, one that waits still until now.
        """
        number, since = self._dialect.since_1970, to_microseconds(self._span.since)
        due = runs.c.scheduled_for
        first = select(attempts.c.started_at).where(attempts.c.run_id == runs.c.id, attempts.c.number == 1)
        earlier = case((runs.c.attempt > 1, first.correlate(runs).scalar_subquery()))
        now = literal(self._span.until, due.type)
        began = func.coalesce(earlier, runs.c.started_at, runs.c.ended_at, now, type_=due.type)
        columns = [_of_task("priority"), number(due) - since, number(began) - since]
        names = ("tier", "due", "began")
        named = [column.label(name) for column, name in zip(columns, names, strict=True)]
        return self._read(walk, named, [or_(runs.c.paused == false(), runs.c.ended_at.is_not(None))])

    def _add_waits(self, found: Iterable[Select[Any]]) -> None:
        every = together(list(found)).subquery()
        due = case((every.c.due < 0, 0), else_=every.c.due)
        began = case((every.c.began < due, due), else_=every.c.began)
        waits = select(every.c.tier, due.label("due"), began.label("began"), (began - every.c.due).label("wait"))
        each = waits.where(every.c.began >= 0).subquery()
        width = literal(self._span.width_us, BigInteger())
        keys = [each.c.tier, each.c.due // width, each.c.began // width]
        sums = [func.count(), func.sum(each.c.due), func.sum(each.c.began), func.max(each.c.wait)]
        last = self._span.parts - 1
        for tier, begins, ends, *row in self._connection.execute(select(*keys, *sums).group_by(*keys)):
            numbers = [int(number) for number in row]
            self._tiers[Tier(tier)].add_waits(self._span, min(int(begins), last), min(int(ends), last), numbers)

    # --- deadlines

    def _add_misses(self, walk: RunWalk) -> None:
        number, since = self._dialect.since_1970, to_microseconds(self._span.since)
        late = runs.c.ended_at > runs.c.deadline
        missed = case((or_(runs.c.state != State.SUCCEEDED, late), 1), else_=0)
        late_us = case((late, number(runs.c.ended_at) - number(runs.c.deadline)), else_=0)
        part = (number(runs.c.ended_at) - since) // literal(self._span.width_us, BigInteger())
        columns = (_of_task("priority"), _of_task("action"), part, missed, late_us)
        names = ("tier", "action", "part", "missed", "late")
        named = [column.label(name) for column, name in zip(columns, names, strict=True)]
        conditions = [and_(runs.c.deadline.is_not(None), runs.c.ended_at.is_not(None))]
        every = together(self._read(walk, named, conditions)).subquery()
        keys = (every.c.tier, every.c.action, every.c.part)
        sums = (func.count(), func.sum(every.c.missed), func.max(every.c.late))
        for tier, action, part, due, missed_count, latest in self._connection.execute(
            select(*keys, *sums).group_by(*keys)
        ):
            self._add_misses_of(Tier(tier), str(action), int(part), (due, int(missed_count), int(latest)))

    def _add_misses_of(self, tier: Tier, action: str, part: int, row: tuple[int, int, int]) -> None:
        due, missed, latest_us = row
        sums, place = self._tiers[tier], min(part, self._span.parts - 1)
        sums.due[place] += due
        sums.missed[place] += missed
        sums.latest_us[place] = max(sums.latest_us[place], latest_us)
        known = self._actions.setdefault(action, [0, 0, 0])
        known[:] = [known[0] + due, known[1] + missed, max(known[2], latest_us)]


def _of_task(name: str) -> Any:
    found = select(type_coerce(tasks.c[name], NullType())).where(tasks.c.id == runs.c.task_id)
    return found.correlate(runs).scalar_subquery()
