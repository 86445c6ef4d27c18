"""Reads what runs cost, and reports of their work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.history.costs import CostGroup, CostLine, Costs
from duetime.scheduler.history.work_report import WorkReport
from duetime.scheduler.intake.bounds import Bound, Bounds
from duetime.scheduler.intake.validation import tenant_read
from duetime.scheduler.principal import LOCAL, Principal
from duetime.scheduler.rules.limits.price import amount_of
from duetime.scheduler.store import Store

MAX_COST_LINES: Final = 1_000
USUAL_COST_WINDOW: Final = "30 days ago"
USUAL_REPORT_WINDOW: Final = "7 days ago"


class ReportReader:
    """Adds up what runs cost and what they did, for one tenant or, for an operator, for others."""

    def __init__(self, store: Store, zone: str | None) -> None:
        self._store = store
        self._zone = zone

    @property
    def currency(self) -> str:
        """The currency of all costs, as the settings name it."""
        return self._store.usage.currency

    def costs(
        self,
        group: CostGroup = CostGroup.DAY,
        *,
        since: Bound | None = None,
        until: Bound | None = None,
        tenant: str | None = None,
        by: Principal = LOCAL,
    ) -> Costs:
        """Return what the attempts cost that ended in a time, by default the last 30 days, added up by group.

        Amounts are in the `currency` of the answer, days are those of its `zone`. `since`, `until` and `tenant` are
        read as in `runs`.
        """
        wanted = tenant_read(by, tenant)
        start, end = self._past_window(since or USUAL_COST_WINDOW, until)
        zone = self._zone or "UTC"
        sums = self._store.run_history.costs(wanted, start, end, (group,), zone)
        ranked = sorted(sums.items(), key=lambda each: each[0] if group is CostGroup.DAY else (-each[1], each[0]))
        found = {key: cost for (key,), cost in ranked[:MAX_COST_LINES]}
        titles = self._store.tasks.titles(wanted, list(found)) if group is CostGroup.TASK else {}
        if group is CostGroup.LABEL:  # there a run may count twice
            sums = self._store.run_history.costs(wanted, start, end, (CostGroup.TENANT,), zone)
        total = amount_of(sum(sums.values()))
        return Costs(group, start, end, self.currency, zone, total, tuple(_lines(found, titles)))

    def work(self, *, since: Bound | None = None, tenant: str | None = None, by: Principal = LOCAL) -> WorkReport:
        """Return the work from a time on, by default of the last 7 days, and that of the same time before it.

        `since` and `tenant` are read as in `runs`. The use of pools is in the report of all tenants (`*`) alone.
        """
        wanted = tenant_read(by, tenant)
        return self._store.run_history.report(wanted, *self._past_window(since or USUAL_REPORT_WINDOW, None))

    def _past_window(self, since: Bound, until: Bound | None) -> tuple[datetime, datetime]:
        now = self._store.now()
        bounds = Bounds.of(None, now, self._zone, since=since, until=until or now).instants
        start, end = bounds["since"], bounds["until"]
        if start >= end:
            latest = "`until`" if until else "now"
            text, accepted = f"it is not before {latest}", f"a time before {latest}"
            raise InvalidArgument("since", text, accepted=accepted, example="30d")
        return start, end


def _lines(found: Mapping[str, int], titles: Mapping[str, str]) -> Sequence[CostLine]:
    return [CostLine(key, amount_of(cost), titles.get(key)) for key, cost in found.items()]
