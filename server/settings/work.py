"""The settings of the work: where tasks are kept, how they run, and whom outcomes reach."""

from __future__ import annotations

from typing import Annotated, Literal

from duetime.server.settings.channels import ALL_OUTCOMES, ChannelSettings, OriginClient, OriginSettings, Outcomes
from duetime.server.settings.checks import (
    ChannelName,
    Currency,
    DatabaseUrl,
    HolidayCalendar,
    Names,
    Namespace,
    PoolSettings,
    RedisUrl,
    SigningSecret,
    ZoneName,
    lower_case,
    system_zone,
    upper_case,
)
from duetime.server.settings.external_actions import ExternalActionName, ExternalActionSettings
from platformdirs import user_data_path
from pydantic import BaseModel, BeforeValidator, Field

Part = Annotated[float, Field(ge=0, le=1)]


def default_database_url() -> str:
    return f"sqlite:///{user_data_path('duetime', appauthor=False) / 'duetime.db'}"


class WorkSettings(BaseModel):
    """The part of the settings about the work."""

    database_url: DatabaseUrl = Field(
        default_factory=default_database_url,
        description="where tasks are kept: an SQLite file, or a PostgreSQL database (needs the extra `postgres`)",
        examples=["sqlite:////home/me/duetime.db", "postgresql+psycopg://duetime@localhost/duetime"],
    )
    redis_url: RedisUrl | None = Field(
        default=None,
        description="the Redis that many processes share to distribute runs (needs the extra `redis` and a PostgreSQL "
        "`database_url`); without it, one process runs everything",
        examples=["redis://localhost:6379/0", "rediss://duetime:password@redis.example.com:6380/0"],
    )
    redis_namespace: Namespace = Field(
        default="duetime",
        description="the prefix of every key in Redis; each installation that shares a Redis needs its own",
        examples=["duetime"],
    )
    sqlite_synchronous: Annotated[Literal["FULL", "NORMAL", "OFF"], BeforeValidator(upper_case)] = Field(
        default="FULL",
        description="how durably SQLite writes: `FULL` survives a power cut; `NORMAL` and `OFF` do not, but are faster",
        examples=["FULL"],
    )
    timezone: ZoneName | None = Field(
        default_factory=system_zone,
        description="the time zone for wall times such as `tomorrow 9am` if a call names none (default: the system's)",
        examples=["America/Edmonton"],
    )
    holidays: HolidayCalendar = Field(
        default="",
        description="the calendar of public holidays: a country, or one with its subdivision (default: none is known)",
        examples=["CA-AB"],
    )
    minimum_interval_seconds: int = Field(
        default=60,
        ge=1,
        le=86_400,
        description="the shortest interval between two occurrences that a recurrence may have",
        examples=["60"],
        json_schema_extra={"unit": "seconds"},
    )
    spread_seconds: int | None = Field(
        default=None,
        ge=0,
        le=3600,
        description="the window within which work that recurs on the hour starts, each task at a second of its own. "
        "A task's `jitter` takes precedence, and reminders come at their time",
        examples=["120"],
        json_schema_extra={"unit": "seconds"},
    )
    handlers: Names = Field(
        default=(),
        description="modules with your own handlers, separated by commas",
        examples=["my_handlers,shop.jobs"],
    )
    isolated_actions: Names = Field(
        default=(),
        description="actions that run in a process of their own, which is killed when it does not stop",
        examples=["resize,import-orders"],
    )
    external_actions: dict[ExternalActionName, ExternalActionSettings] = Field(
        default_factory=dict,
        description="actions that [agents elsewhere execute](external-workers.md), one TOML table each: "
        "`[external_actions.transcribe]` with a `description`",
        examples=['{"transcribe": {"description": "Transcribes an audio file", "lease": "60 s"}}'],
    )
    threads: int = Field(
        default=16, ge=1, le=256, description="how many runs may execute at the same time", examples=["16"]
    )
    critical_headroom: Part = Field(
        default=0.0625,
        description="the fraction of threads reserved for `critical` runs, in whole threads",
        examples=["0.25"],
    )
    high_headroom: Part = Field(
        default=0.125, description="the fraction of threads reserved for `critical` and `high` runs", examples=["0.25"]
    )
    decisions_per_minute: int = Field(
        default=10,
        ge=0,
        le=6_000,
        description="how many takes of each worker process are recorded a minute, so that `duetime decisions` can "
        "show why a run went first; 0 records none",
        examples=["60"],
    )
    processes: int = Field(
        default=1,
        ge=1,
        le=64,
        description="how many processes `duetime worker` starts, each with its own `threads`",
        examples=["4"],
    )
    yield_to_load: bool = Field(
        default=True,
        description="start fewer runs in parallel while this machine is short of memory or CPU",
        examples=["true"],
    )
    lease_seconds: float = Field(
        default=30,
        ge=2,
        le=3600,
        description="how long a worker that stops renewing its lease keeps its run before the run is retried",
        examples=["30"],
        json_schema_extra={"unit": "seconds"},
    )
    grace_seconds: float = Field(
        default=5,
        ge=0,
        le=600,
        description="how long a stopping process waits for its active runs before it hands them back",
        examples=["5"],
        json_schema_extra={"unit": "seconds"},
    )
    pools: PoolSettings = Field(
        default_factory=dict,
        description="limits on concurrency and rate, one TOML table each: see [Pools](pools.md)",
        examples=['{"gpu": {"kind": "slots", "capacity": 2}}'],
    )
    currency: Currency = Field(
        default="USD",
        description="the currency of the [prices of pools](pools.md#what-it-costs); amounts are never converted",
        examples=["EUR"],
    )
    deliver_to: Names = Field(
        default=(),
        description="the channels (names of `channels`) that receive outcomes, besides the inbox, if a task names none",
        examples=["team"],
    )
    desktop_notifications: Annotated[Literal["auto", "on", "off"], BeforeValidator(lower_case)] = Field(
        default="auto",
        description="show outcomes as desktop notifications; `auto` does so where there is a desktop",
        examples=["auto"],
    )
    desktop_outcomes: Outcomes = Field(
        default=ALL_OUTCOMES,
        description="the outcomes that desktop notifications show; the inbox has all of them",
        examples=["failed,expired"],
    )
    channels: dict[ChannelName, ChannelSettings] = Field(
        default_factory=dict,
        description="named channels, one TOML table each: `[channels.team]` with `apprise`, or `webhook` and `secret`",
        examples=[
            '{"team": {"webhook": "https://example.com/hook", "secret": "whsec_<32 bytes in base64>"}}',
            '{"team": {"apprise": "tgram://bot-token/chat-id"}}',
        ],
    )
    origins: dict[OriginClient, OriginSettings] = Field(
        default_factory=dict,
        description='where `deliver_to = ["origin"]` leads for each client, by the name that it gives itself, one TOML '
        "table each: `[origins.claude-code]` with `webhook` and `secret`, or `command`",
        examples=['{"claude-code": {"command": ["/usr/local/bin/back-to-chat"]}}'],
    )
    webhook_secret: SigningSecret | None = Field(
        default=None,
        description="signs the calls of the `webhook` action (Standard Webhooks). To rotate it, put the new one and a "
        "blank before the old one. Without it, the calls are unsigned",
        examples=["whsec_<32 bytes in base64>"],
    )
    webhook_timeout_seconds: float = Field(
        default=10,
        gt=0,
        le=300,
        description="how long one webhook call may take",
        examples=["10"],
        json_schema_extra={"unit": "seconds"},
    )
    webhook_allow_hosts: Names = Field(
        default=(),
        description="hosts that webhooks may call even if they resolve to private addresses",
        examples=["hooks.internal.example.com"],
    )
    webhook_allow_private: bool = Field(
        default=False, description="let webhooks call private and loopback addresses of any host", examples=["false"]
    )
    webhook_allow_http: bool = Field(
        default=False,
        description="let webhooks use plain `http://`, which anyone on the network path can read",
        examples=["false"],
    )
