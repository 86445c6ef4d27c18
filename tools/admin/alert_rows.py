"""Alerts as JSON: for the command line and REST."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from duetime.scheduler.rules.alerts.alert import Alert, AlertRule, Phase
from duetime.scheduler.rules.alerts.alert_rules import ALERT_RULES
from duetime.scheduler.rules.time import times
from duetime.scheduler.task import Json

_ORDER = (Phase.FIRING, Phase.PENDING, Phase.RESOLVED)


def alerts_json(alerts: Iterable[Alert], *, watched: bool) -> dict[str, Json]:
    """Return alerts, those that fire first; `watched` says whether channels are notified."""
    found = sorted(_known(alerts), key=lambda pair: (_ORDER.index(pair[0].phase), pair[0].rule))
    rows: list[Json] = [_row(alert, rule) for alert, rule in found]
    return {"schema": "duetime.alerts/1", "watched": watched, "alerts": rows}


def _known(alerts: Iterable[Alert]) -> Iterator[tuple[Alert, AlertRule]]:
    """Give alerts with their rules; a newer version may have others."""
    rules = {rule.name: rule for rule in ALERT_RULES}
    for alert in alerts:
        if alert.rule in rules:
            yield alert, rules[alert.rule]


def _row(alert: Alert, rule: AlertRule) -> dict[str, Json]:
    return {
        "alert": alert.rule,
        "about": alert.key,
        "state": alert.phase,
        "severity": "page" if rule.page else "ticket",
        "since": times.utc(alert.since),
        "value": alert.value,
        "text": rule.sentence(alert),
        "runbook": f"docs/runbook.md#{alert.rule.lower()}",
    }
