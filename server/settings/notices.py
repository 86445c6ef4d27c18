"""The settings of notifications to operators: alerts, and the report of the week."""

from __future__ import annotations

from duetime.scheduler.delivery.quiet_hours import QuietHours, QuietPlan
from duetime.server.settings.checks import Names, OwnQuietWords, QuietWords
from pydantic import BaseModel, Field


class NoticeSettings(BaseModel):
    """The part of the settings about notices."""

    alert_channels: Names = Field(
        default=(),
        description="the channels (names of `channels`, or `desktop`) that get [alerts](runbook.md); without "
        "one, no process watches for them",
        examples=["team"],
    )
    report_channels: Names = Field(
        default=(),
        description="the channels that get the report of the week (`duetime report`) each Monday at 9:00 in `timezone`",
        examples=["team"],
    )
    quiet_hours: QuietWords | None = Field(
        default=None,
        description="when users get no notification that can wait: two times of day in `timezone`, or in a zone behind "
        "them. Deliveries of tasks with a tier below high are [held until they end](operations.md#quiet-hours); the "
        "inbox has each outcome at once",
        examples=["22:00-07:00"],
    )
    tenant_quiet_hours: dict[str, OwnQuietWords] = Field(
        default_factory=dict,
        description="the quiet hours of tenants, by name, in place of `quiet_hours`; `none` for no quiet ones",
        examples=['{"acme": "20:00-08:00 Europe/Berlin"}'],
    )
    user_quiet_hours: dict[str, dict[str, OwnQuietWords]] = Field(
        default_factory=dict,
        description="the quiet hours of users, by tenant and name, in place of those of their tenant, `none` for no "
        "quiet ones. Write a TOML table for each tenant: `[user_quiet_hours.acme]`. Hours that a user has set with "
        "[`duetime quiet-hours set`](cli.md#your-quiet-hours) go before them",
        examples=['{"acme": {"ann": "21:00-09:00 Europe/Berlin", "bob": "none"}}'],
    )
    digest: bool = Field(
        default=True,
        description="gather what quiet hours held into one message for each user and channel; a webhook gets each",
        examples=["true"],
    )
    alert_repeat_hours: float = Field(
        default=4,
        ge=0.1,
        le=168,
        description="how long an alert fires until its channels are notified again",
        examples=["4"],
        json_schema_extra={"unit": "hours"},
    )


def quiet_plan(settings: NoticeSettings, zone: str | None) -> QuietPlan:
    """Return when users get no notification that can wait; times without a zone are in `zone`."""
    usual = QuietHours.read(settings.quiet_hours, zone) if settings.quiet_hours else None
    by_tenant = {name: QuietHours.read_own(text, zone) for name, text in settings.tenant_quiet_hours.items()}
    by_user = {
        (tenant, user): QuietHours.read_own(text, zone)
        for tenant, users in settings.user_quiet_hours.items()
        for user, text in users.items()
    }
    return QuietPlan(usual, by_tenant, settings.digest, by_user)
