"""Alerts of an installation, for operators: those that fire, are pending, or ended lately."""

from __future__ import annotations

from typing import Annotated, Literal

from duetime.scheduler.principal import Scope
from duetime.server.rest.operation import Operation, RestAnswer, RestCall
from duetime.server.rest.resources.payloads import RestPayload
from duetime.tools.admin.alert_rows import alerts_json
from pydantic import Field


class AlertPayload(RestPayload):
    """An alert: what it is `about`, its state since when, and a sentence."""

    alert: str
    about: str
    state: Literal["firing", "pending", "resolved"]
    severity: Literal["page", "ticket"]
    since: str
    value: float
    text: str
    runbook: str


class AlertsPayload(RestPayload):
    """Alerts, those that fire first; unless they are `watched`, no process looks for any and no channel is notified."""

    schema_: Annotated[Literal["duetime.alerts/1"], Field(alias="schema")] = "duetime.alerts/1"
    watched: bool
    alerts: tuple[AlertPayload, ...]


def alerts(call: RestCall) -> RestAnswer:
    """Return the alerts of the installation."""
    watched = bool(call.parts.settings.alert_channels)
    return RestAnswer(AlertsPayload.model_validate(alerts_json(call.parts.store.alerts.all(), watched=watched)))


OF_ALERTS = (
    Operation(
        "list_alerts",
        "GET",
        "/alerts",
        "List the alerts that fire, are pending, or ended in the last seven days",
        alerts,
        AlertsPayload,
        Scope.ADMIN_READ,
        for_operators=True,
    ),
)
