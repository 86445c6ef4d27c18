"""The verb `alerts`: a table of alerts."""

from __future__ import annotations

from collections.abc import Iterator

import typer
from duetime.scheduler.rules.alerts.alert import Alert, AlertRule, Phase
from duetime.scheduler.rules.alerts.alert_rules import RULES
from duetime.scheduler.rules.time import times
from duetime.scheduler.task import Json
from duetime.server.cli import output
from duetime.server.cli.output import AsJson
from duetime.server.session import session

_ORDER = (Phase.FIRING, Phase.PENDING, Phase.RESOLVED)
UNWATCHED = (
    "No process watches for alerts: name the channels to tell in alert_channels (DUETIME_ALERT_CHANNELS) for "
    "`duetime serve` and `duetime worker`."
)


def alerts(context: typer.Context, *, as_json: AsJson = False) -> None:
    """List the alerts that fire, are pending, or ended in the last seven days."""
    settings = session(context).settings()
    with session(context).store() as store:
        now = store.now()
        found = sorted(_known(store.alerts.all()), key=lambda pair: (_ORDER.index(pair[0].phase), pair[0].rule))
    if as_json:
        watched = bool(settings.alert_channels)
        rows: list[Json] = [_json(alert, rule) for alert, rule in found]
        output.as_json({"schema": "duetime.alerts/1", "watched": watched, "alerts": rows})
        return
    if found:
        output.table(
            ("STATE", "ALERT", "SINCE", "WHAT IT SAYS"),
            (
                (alert.phase, alert.rule, times.relative(alert.since, now), rule.sentence(alert))
                for alert, rule in found
            ),
        )
    elif settings.alert_channels:
        output.say("No alert fires, and none did in the last seven days.")
    if not settings.alert_channels:
        output.say(UNWATCHED)


def _known(alerts: list[Alert]) -> Iterator[tuple[Alert, AlertRule]]:
    """Give alerts with their rules; a newer version may have others."""
    rules = {rule.name: rule for rule in RULES}
    for alert in alerts:
        if alert.rule in rules:
            yield alert, rules[alert.rule]


def _json(alert: Alert, rule: AlertRule) -> dict[str, Json]:
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
