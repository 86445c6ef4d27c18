"""The settings of what operators are told: alerts, and the report of the week."""

from __future__ import annotations

from duetime.server.settings.access import AccessSettings
from duetime.server.settings.checks import Names
from pydantic import Field


class NoticeSettings(AccessSettings):
    """The third part of the settings."""

    alert_channels: Names = Field(
        default=(),
        description="the channels (names of `channels`, or `desktop`) that are told of [alerts](runbook.md); without "
        "one, no process watches for them",
        examples=["team"],
    )
    report_channels: Names = Field(
        default=(),
        description="the channels that get the report of the week (`duetime report`) each Monday at 9:00 in `timezone`",
        examples=["team"],
    )
    alert_repeat_hours: float = Field(
        default=4,
        ge=0.1,
        le=168,
        description="how long an alert fires until its channels are told again",
        examples=["4"],
        json_schema_extra={"unit": "hours"},
    )
