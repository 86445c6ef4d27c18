"""Costs: what runs cost each day, and by action, tier, label, pool, task or tenant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.foresight.readers.report_reader import USUAL_COST_WINDOW
from duetime.scheduler.history.costs import CostGroup
from duetime.scheduler.intake.bounds import Bounds
from duetime.scheduler.rules.limits.price import amount_of, money
from duetime.scheduler.rules.time import zones
from duetime.server.admin.answers import Answer, Page, get
from duetime.server.admin.export import exported, wanted_format
from duetime.server.admin.failures import unknown
from duetime.server.admin.page_request import Visit

MAX_STACKED_COUNT = 4
"""Groups with a colour of their own in the chart; the others are one."""

MAX_DAYS_SHOWN = 366
MAX_LINES_SHOWN = 100
OTHERS_KEY = "others"
WITHOUT_LABEL_TEXT = "without a label"
_GROUPS = (CostGroup.ACTION, CostGroup.TIER, CostGroup.LABEL, CostGroup.POOL, CostGroup.TASK)
Series = Mapping[tuple[str, str], int]
"""Cost in millionths by day and group."""


@dataclass(frozen=True, slots=True)
class GroupLine:
    """Cost of one group, its part of all, and the address of its runs."""

    key: str
    text: str
    cost: Decimal
    part: float
    url: str


@dataclass(frozen=True, slots=True)
class DayLine:
    """The cost of one day."""

    day: date
    cost: Decimal

    @property
    def next_day(self) -> date:
        return self.day + timedelta(days=1)


class CostPage:
    """Reads what the page shows, of the tenant that is looked at or of all."""

    def __init__(self, visit: Visit) -> None:
        self._visit = visit
        self.groups = (*_GROUPS, CostGroup.TENANT) if visit.tenant is None else _GROUPS
        self.by = _group(visit.query.get("by", ""), self.groups)
        self.since, self.until = _window(visit)
        self.series: Series = {(day, key): cost for (day, key), cost in self._sums(CostGroup.DAY, self.by).items()}
        self.ranked = _summed(self.series, 1).most_common()
        twice = self.by is CostGroup.LABEL  # a run of a task with two labels is in both groups
        self.paid = _summed(self._sums(CostGroup.DAY) if twice else self.series, 0)
        self.total = sum(self.paid.values())

    def _sums(self, *groups: CostGroup) -> Counter[tuple[str, ...]]:
        visit = self._visit
        return visit.store.run_history.costs(visit.tenant, self.since, self.until, groups, visit.zone)

    def values(self) -> dict[str, Any]:
        first = [key for key, _ in self.ranked[:MAX_STACKED_COUNT]]
        titles = self._titles([key for key, _ in self.ranked])
        names = [*(titles.get(key, key) for key in first), *([OTHERS_KEY] if len(self.ranked) > len(first) else [])]
        days = sorted(self.paid.items(), reverse=True)
        return {
            "since": self.since,
            "until": self.until,
            "by": self.by.value,
            "groups": [group.value for group in self.groups],
            "currency": self._visit.scheduler.reports.currency,
            "total": amount_of(self.total),
            "lines": [self._line(key, cost, titles.get(key, key)) for key, cost in self.ranked[:MAX_LINES_SHOWN]],
            "more": max(0, len(self.ranked) - MAX_LINES_SHOWN),
            "days": [DayLine(date.fromisoformat(day), amount_of(cost)) for day, cost in days],
            "names": names,
            "chart": self._chart(first, others=len(names) > len(first)),
            "priced": any(pool.price for pool in self._visit.app.registry.read().values()),
        }

    @property
    def columns(self) -> Sequence[str]:
        """The columns of an export."""
        return ("day", self.by.value, "cost", "currency", "timezone")

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of an export: each day, of a zone, and group."""
        return [
            {
                "day": day,
                self.by.value: key,
                "cost": money(amount_of(cost)),
                "currency": self._visit.scheduler.reports.currency,
                "timezone": self._visit.zone,
            }
            for (day, key), cost in sorted(self.series.items())
        ]

    def _titles(self, keys: Sequence[str]) -> Mapping[str, str]:
        if self.by is CostGroup.LABEL:
            return {"": WITHOUT_LABEL_TEXT}
        if self.by is not CostGroup.TASK:
            return {}
        return self._visit.store.tasks.titles(self._visit.tenant, keys[:MAX_LINES_SHOWN])

    def _line(self, key: str, cost: int, text: str) -> GroupLine:
        visit, since = self._visit, self._visit.query.get("since") or USUAL_COST_WINDOW
        paid: dict[str, object] = {"since": since, "until": visit.query.get("until"), "min_cost": "0.000001"}
        urls = {
            CostGroup.TIER: lambda: visit.url("/runs", priority=key, **paid),
            CostGroup.TASK: lambda: visit.url("/runs", task=key, **paid),
            CostGroup.POOL: lambda: visit.url(f"/pools/{key}") if visit.principal.operator else "",
            CostGroup.LABEL: lambda: visit.url("/runs", label=key, **paid) if key else "",
            CostGroup.TENANT: lambda: visit.here(tenant=key, by=None),
        }
        url = urls.get(self.by, lambda: visit.url("/runs", **{self.by.value: key}, **paid))()
        return GroupLine(key, text, amount_of(cost), cost / self.total if self.total else 0.0, url)

    def _chart(self, first: Sequence[str], *, others: bool) -> Sequence[Sequence[float]]:
        """Return each day, and what the first groups and all others cost on it."""
        home, paid = zones.load(self._visit.zone), _summed(self.series, 0)
        begin, end = (at.astimezone(home).date() for at in (self.since, self.until - timedelta(microseconds=1)))
        days = [begin + timedelta(days=n) for n in range(min((end - begin).days + 1, MAX_DAYS_SHOWN))]
        stacked = [[self.series.get((day.isoformat(), key), 0) / 1e6 for day in days] for key in first]
        if others:
            rest = [paid[day.isoformat()] / 1e6 - sum(each[n] for each in stacked) for n, day in enumerate(days)]
            stacked.append([max(0.0, round(each, 6)) for each in rest])
        return [[_midnight(day, home) for day in days], *stacked]


def _summed(series: Mapping[Any, int], place: int) -> Counter[str]:
    found: Counter[str] = Counter()
    for key, cost in series.items():
        found[key[place]] += cost
    return found


def _midnight(day: date, home: Any) -> int:
    return int(datetime.combine(day, time(), home).timestamp())


def _group(word: str, groups: Sequence[CostGroup]) -> CostGroup:
    if not word or (word == CostGroup.TENANT and word not in groups):  # an address that an operator passed on
        return CostGroup.ACTION
    if word not in groups:
        raise unknown("by", word, groups)
    return CostGroup(word)


def _window(visit: Visit) -> tuple[datetime, datetime]:
    since, until = visit.query.get("since", "").strip(), visit.query.get("until", "").strip()
    bounds = Bounds.of(None, visit.now, visit.zone, since=since or USUAL_COST_WINDOW, until=until or visit.now).instants
    if bounds["since"] >= bounds["until"]:
        raise InvalidArgument("since", "it is not before the end", accepted="a time before it", example="last monday")
    return bounds["since"], bounds["until"]


def cost(visit: Visit) -> Answer:
    """Show what runs cost, or send it as a file."""
    page = CostPage(visit)
    if file_format := wanted_format(visit):
        return exported(file_format, "costs", page.columns, page.rows())
    return Page("pages/cost.html", "Cost", page.values())


COST_ROUTES = (get("/cost", cost, query={"by", "since", "until", "format"}),)
