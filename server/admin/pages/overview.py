"""The overview: what waits, runs and failed, and what needs somebody."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal

from duetime.scheduler.history.dead_letters import MAX_LETTERS_COUNTED, DeadLetterFilter
from duetime.scheduler.history.runs import BucketWidth, RunCounts, RunFilter, RunGroup, RunPage, RunSummary, TimeBuckets
from duetime.scheduler.history.tier_trends import ActionMisses, TierPart, TierTrends
from duetime.scheduler.task import State, Tier
from duetime.server.admin.answers import Page, get
from duetime.server.admin.page_request import Visit

DAY = timedelta(days=1)
HOUR_S = 3600
MIN_WAITING_COUNT = 0.05
"""The least mean number of waiting runs that is not written as 0.0."""

TIER_COLOURS: Final[Mapping[Tier, str]] = {
    Tier.CRITICAL: "series-3",
    Tier.HIGH: "series-4",
    Tier.NORMAL: "series-1",
    Tier.LOW: "series-2",
    Tier.BACKGROUND: "series-5",
}

OVERDUE_GRACE = timedelta(minutes=1)
MAX_OVERVIEW_ROWS = 8
MAX_OVERVIEW_ROWS_READ = 100

DUE_STATES = (State.SCHEDULED, State.READY, State.RETRYING, State.SUSPENDED)
OPEN_STATES = (*DUE_STATES, State.RUNNING, State.WAITING)
FAILED_STATES = (State.FAILED, State.EXPIRED)
ENDED_STATES = (State.SUCCEEDED, *FAILED_STATES, State.CANCELLED)


@dataclass(frozen=True, slots=True)
class TierLine:
    """A tier as it is now, and in each hour of a day."""

    tier: Tier
    ready: int
    running: int
    lateness: Any
    hours: Sequence[TierPart]

    @property
    def longest_wait(self) -> timedelta:
        return max((hour.longest_wait or timedelta(0) for hour in self.hours), default=timedelta(0))

    @property
    def latest(self) -> timedelta:
        return max((hour.latest for hour in self.hours), default=timedelta(0))

    @property
    def missed(self) -> int:
        return sum(hour.missed for hour in self.hours)

    @property
    def due(self) -> int:
        return sum(hour.due for hour in self.hours)


@dataclass(frozen=True, slots=True)
class TrendChart:
    """The hours of a day for each tier in which there is something to draw; `points` begin with the hours.

    `kind` is lines, or bars that stand on each other; values are numbers, or seconds.
    """

    title: str
    kind: Literal["lines", "bars"]
    unit: Literal["", "s"]
    tiers: Sequence[Tier]
    points: Sequence[Sequence[float]]

    @property
    def colours(self) -> Sequence[str]:
        return [TIER_COLOURS[tier] for tier in self.tiers]


def charts_of(found: TierTrends) -> Iterator[TrendChart]:
    """Yield how many runs waited, how long, how many missed their deadline and by how much; none of nothing at all."""
    starts = [start.timestamp() for start in found.starts]
    for title, kind, unit, value in TRENDS:
        drawn = {tier: [value(part) for part in parts] for tier, parts in found.tiers.items()}
        shown = [tier for tier, numbers in drawn.items() if any(numbers)]
        if shown:
            yield TrendChart(title, kind, unit, shown, [starts, *(drawn[tier] for tier in shown)])


def _waited_s(part: TierPart) -> float:
    return part.longest_wait.total_seconds() if part.longest_wait else 0.0


TRENDS: Final[Sequence[tuple[str, Literal["lines", "bars"], Literal["", "s"], Callable[[TierPart], float]]]] = (
    ("Runs that wait", "lines", "", lambda part: part.waiting),
    ("Longest wait", "lines", "s", _waited_s),
    ("Missed deadlines", "bars", "", lambda part: part.missed),
    ("Late by at most", "lines", "s", lambda part: part.latest.total_seconds()),
)


def trends_of(visit: Visit) -> TierTrends:
    """Return the trends of the last day by hour: the last part is the hour that has begun."""
    hour = timedelta(hours=1)
    since = datetime.fromtimestamp(int(visit.now.timestamp()) // HOUR_S * HOUR_S, UTC) - DAY + hour
    until = visit.now + timedelta(microseconds=1)
    return visit.kept.get(
        ("trends", visit.tenant), lambda: visit.store.run_history.trends(visit.tenant, since, until, hour)
    )


def hours_of(found: TierTrends) -> Iterator[tuple[datetime, Tier, TierPart]]:
    """Yield each hour and tier in which anything waited or had a deadline, newest first."""
    for place, start in reversed(list(enumerate(found.starts))):
        for tier in Tier:
            part = found.tiers[tier][place]
            if part.due or part.waiting >= MIN_WAITING_COUNT or part.longest_wait:
                yield start, tier, part


def misses_of(found: TierTrends) -> Sequence[ActionMisses]:
    """Return the actions that missed deadlines, the worst ones."""
    return [each for each in found.actions if each.missed][:MAX_OVERVIEW_ROWS]


class Overview:
    """Reads what the overview shows, of the tenant that is looked at or of all."""

    def __init__(self, visit: Visit) -> None:
        self._visit = visit
        self._now = visit.now

    def values(self) -> dict[str, Any]:
        by_state = self._counts(RunGroup.STATE, OPEN_STATES)
        ended = self._counts(RunGroup.STATE, ENDED_STATES, since=self._now - DAY)
        ends = self._visit.kept.get(("ends", self._visit.tenant), self._buckets)
        overdue = self._page(DUE_STATES, until=self._now - OVERDUE_GRACE, unpaused=True)
        return {
            "live": True,
            "any": bool(by_state.counts or ended.counts) or self._has_history(),
            "states": by_state,
            "asked": self._visit.store.approvals.open_counts(self._visit.tenant),
            "ended": ended,
            "failed": sum(ended.counts.get(state, 0) for state in FAILED_STATES),
            "overdue": overdue,
            "dead": self._visit.store.dead_letters.count(self._visit.tenant, DeadLetterFilter()),
            "max_dead": MAX_LETTERS_COUNTED,
            "overdue_more": overdue.cursor is not None,
            "soon": self._soon(),
            "reasons": self._counts(RunGroup.ERROR, FAILED_STATES, since=self._now - DAY),
            **self._tiers(),
            "ends": ends,
            "chart": chart(ends, self._now),
        }

    def _has_history(self) -> bool:
        return bool(self._page(tuple(State)).runs)

    def _counts(
        self, by: RunGroup, states: tuple[State, ...], *, since: datetime | None = None, until: datetime | None = None
    ) -> RunCounts:
        visit = self._visit
        where = RunFilter(states=states)
        return visit.scheduler.past.run_counts(
            by, where, since=since, until=until, tenant=visit.reach, by=visit.principal
        )

    def _page(self, states: tuple[State, ...], *, until: datetime | None = None, unpaused: bool = False) -> RunPage:
        visit = self._visit
        return visit.scheduler.past.runs(
            RunFilter(states=states, unpaused=unpaused),
            until=until,
            limit=MAX_OVERVIEW_ROWS_READ,
            tenant=visit.reach,
            by=visit.principal,
        )

    def _soon(self) -> Sequence[RunSummary]:
        """Return what is due next, the first one first."""
        visit = self._visit
        where = RunFilter(states=(State.SCHEDULED, State.RETRYING, State.SUSPENDED), oldest_first=True)
        found = visit.scheduler.past.runs(
            where, since=self._now, limit=MAX_OVERVIEW_ROWS, tenant=visit.reach, by=visit.principal
        )
        return found.runs

    def _tiers(self) -> dict[str, Any]:
        """Return a line for each tier; how long the oldest waits is known of all tenants together alone."""
        ready, running = (self._counts(RunGroup.TIER, (state,)) for state in (State.READY, State.RUNNING))
        visit = self._visit
        shared = {each.tier: each for each in visit.app.backlog.report().tiers} if visit.tenant is None else {}
        found = trends_of(visit)
        lines = [
            TierLine(tier, ready.counts.get(tier, 0), running.counts.get(tier, 0), shared.get(tier), found.tiers[tier])
            for tier in Tier
        ]
        return {
            "tiers": lines,
            "ready_more": "+" if ready.counted_to else "",
            "running_more": "+" if running.counted_to else "",
            "trends": found,
            "trend_charts": list(charts_of(found)),
            "hours": list(hours_of(found)),
            "missed": misses_of(found),
        }

    def _buckets(self) -> TimeBuckets:
        visit = self._visit
        where = RunFilter(states=ENDED_STATES)
        return visit.scheduler.past.run_buckets(
            BucketWidth.HOUR, where, since=self._now - DAY, tenant=visit.reach, by=visit.principal
        )


def chart(found: TimeBuckets, now: datetime) -> Sequence[Sequence[int | None]]:
    """Return the ends of each hour of a day: the hours, and how many succeeded and failed in each.

    None stands for an hour of which nothing was counted, as there are too many newer runs.
    """
    last = int(now.timestamp()) // HOUR_S * HOUR_S
    hours = [last - HOUR_S * back for back in range(DAY // timedelta(hours=1), -1, -1)]
    counts = {int(each.start.timestamp()): each.counts for each in found.buckets}
    counted_to = found.counted_to.timestamp() if found.counted_to else 0

    def ended(hour: int, states: tuple[State, ...]) -> int | None:
        unknown = hour + HOUR_S <= counted_to
        return None if unknown else sum(counts.get(hour, {}).get(state, 0) for state in states)

    return [hours, *([ended(hour, states) for hour in hours] for states in ((State.SUCCEEDED,), FAILED_STATES))]


def overview(visit: Visit) -> Page:
    """Show the counts of runs, and what needs attention."""
    return Page("pages/overview.html", "Overview", Overview(visit).values())


OVERVIEW_ROUTES = (get("/", overview),)
