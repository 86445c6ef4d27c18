"""The history of runs: pages and counts, of one tenant or of all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from duetime.scheduler.history.costs import CostGroup
from duetime.scheduler.history.run_detail import RunDetail
from duetime.scheduler.history.runs import BucketWidth, RunCounts, RunFilter, RunGroup, RunPage, TimeBuckets
from duetime.scheduler.history.tier_trends import TierTrends
from duetime.scheduler.history.work_report import WorkReport
from duetime.scheduler.store.database.database import Database
from duetime.scheduler.store.lists.tenants import tenants
from duetime.scheduler.store.run_history import run_counts, run_detail, run_list
from duetime.scheduler.store.run_history.cost_sums import CostKey, cost_sums
from duetime.scheduler.store.run_history.run_counts import RunCounter
from duetime.scheduler.store.run_history.run_walk import RunKey
from duetime.scheduler.store.run_history.trends import TrendSpan, TrendSums
from duetime.scheduler.store.run_history.work_done import work_done
from duetime.scheduler.store.schema.values import from_microseconds, to_microseconds
from duetime.scheduler.store.sql.cursors import Cursors
from sqlalchemy import Connection

MAX_GROUPS = 1_000


class RunHistory:
    """Every run that there is. A `tenant` of None stands for all tenants: only an operator may ask for that."""

    def __init__(self, database: Database, cursors: Cursors) -> None:
        self._database = database
        self._cursors = cursors

    def page(self, tenant: str | None, where: RunFilter, *, limit: int, cursor: str | None = None) -> RunPage:
        """Return a page of runs in the order of the filter. Raises `InvalidArgument` for a cursor of another list."""
        of = ("runs", tenant, where)
        position = self._cursors.read(cursor, of=of)
        behind = RunKey(from_microseconds(int(position[0])), str(position[1])) if position else None
        found, following, searched_to = self._database.read(
            lambda connection: run_list.page(connection, tenant, where, limit, behind)
        )
        after = self._cursors.write([to_microseconds(following.at), following.id], of=of) if following else None
        return RunPage(tuple(found), after, searched_to=searched_to.at if searched_to else None)

    def detail(self, tenant: str | None, run_id: str) -> RunDetail:
        """Return one run with all that is kept of it. Raises RunNotFound."""
        return self._database.read(lambda connection: run_detail.detail(connection, tenant, run_id))

    def report(self, tenant: str | None, since: datetime, until: datetime) -> WorkReport:
        """Return the work of some time, and of the same time before it."""

        def work(connection: Connection) -> WorkReport:
            before = work_done(connection, tenant, since - (until - since), since)
            return WorkReport(work_done(connection, tenant, since, until), before)

        return self._database.read(work)

    def trends(self, tenant: str | None, since: datetime, until: datetime, width: timedelta) -> TierTrends:
        """Return how long runs waited and which deadlines they missed, by tier and part of some time."""

        def work(connection: Connection) -> TierTrends:
            sums = TrendSums(connection, TrendSpan(since, until, width))
            for each in _tenants(connection, tenant):
                sums.add(each)
            return sums.trends()

        return self._database.read(work)

    def costs(
        self, tenant: str | None, since: datetime, until: datetime, groups: Sequence[CostGroup], zone: str = "UTC"
    ) -> Counter[CostKey]:
        """Return what attempts cost that ended in a time, in millionths by groups; days are those of the zone."""

        def work(connection: Connection) -> Counter[CostKey]:
            return cost_sums(connection, _tenants(connection, tenant), since, until, groups=groups, zone=zone)

        return self._database.read(work)

    def counts(self, tenant: str | None, where: RunFilter, by: RunGroup) -> RunCounts:
        """Return the number of runs by group, the largest first: of the newest runs where there are too many."""

        def work(connection: Connection) -> tuple[Counter[str], datetime | None]:
            found = [RunCounter(connection, each, where).groups(by) for each in _tenants(connection, tenant)]
            return sum((Counter(counts) for counts, _ in found), Counter()), _latest(reached for _, reached in found)

        counted, reached = self._database.read(work)
        ranked = sorted(counted.items(), key=lambda group: (-group[1], group[0]))
        return RunCounts(by, dict(ranked[:MAX_GROUPS]), reached)

    def buckets(self, tenant: str | None, where: RunFilter, width: BucketWidth, zone: str = "UTC") -> TimeBuckets:
        """Return the number of runs by time and state, oldest first; days are those of the zone."""

        def work(connection: Connection) -> tuple[Counter[tuple[Any, ...]], datetime | None]:
            found = [RunCounter(connection, each, where).minutes(width) for each in _tenants(connection, tenant)]
            return sum((counts for counts, _ in found), Counter()), _latest(reached for _, reached in found)

        counted, reached = self._database.read(work)
        return TimeBuckets(width, zone, tuple(run_counts.buckets(counted, width, zone)), reached)


def _tenants(connection: Connection, tenant: str | None) -> list[str]:
    return tenants(connection) if tenant is None else [tenant]


def _latest(times: Any) -> datetime | None:
    return max((each for each in times if each is not None), default=None)
