"""The settings: one model, read from the environment and a TOML file, checked before anything starts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from duetime.scheduler.errors import InvalidSetting
from duetime.server.settings.channels import ALL_OUTCOMES, ChannelSettings, Outcomes
from duetime.server.settings.checks import (
    ChannelName,
    DatabaseUrl,
    HolidayCalendar,
    LoopbackHost,
    Namespace,
    Origin,
    PoolSettings,
    RedisUrl,
    Secret,
    ZoneName,
    comma_separated,
    lower_case,
    system_zone,
    upper_case,
)
from duetime.server.settings.layers import Layers
from platformdirs import user_data_path
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PrivateAttr, model_validator

Names = Annotated[tuple[str, ...], BeforeValidator(comma_separated)]
Part = Annotated[float, Field(ge=0, le=1)]


def default_database_url() -> str:
    return f"sqlite:///{user_data_path('duetime', appauthor=False) / 'duetime.db'}"


class Settings(BaseModel):
    """All settings, immutable.

    `Settings(threads=4)` reads what is not given from the environment (`DUETIME_THREADS`), then from the TOML file
    (`threads`). Raises InvalidSetting, which names each unknown or wrong setting. `Settings.model_validate({...})`
    reads nothing but its argument.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)

    database_url: DatabaseUrl = Field(
        default_factory=default_database_url,
        description="where tasks are kept: an SQLite file, or a PostgreSQL database (needs `duetime[postgres]`)",
        examples=["sqlite:////home/me/duetime.db", "postgresql+psycopg://duetime@localhost/duetime"],
    )
    redis_url: RedisUrl | None = Field(
        default=None,
        description="the Redis that many processes share to distribute runs (needs `duetime[redis]` and a PostgreSQL "
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
        examples=['{"team": {"apprise": "tgram://bot-token/chat-id"}}'],
    )
    webhook_secret: Secret | None = Field(
        default=None,
        description="signs the calls of the `webhook` action (Standard Webhooks); to rotate it, put the new one and a "
        "blank before the old one; without it, they are unsigned",
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
    host: LoopbackHost = Field(
        default="127.0.0.1",
        description="the address `duetime serve` listens on; loopback only, because it does not authenticate callers",
        examples=["127.0.0.1"],
    )
    port: int = Field(
        default=8787, ge=0, le=65_535, description="the port of `duetime serve`; 0 picks a free one", examples=["8787"]
    )
    allowed_origins: Annotated[tuple[Origin, ...], BeforeValidator(comma_separated)] = Field(
        default=(),
        description="origins of web pages that may call `duetime serve` from a browser (CORS), separated by commas; "
        "`loopback` stands for the pages of this machine, on any port",
        examples=["https://chat.example.com,loopback"],
    )
    log_level: Annotated[Literal["debug", "info", "warning", "error"], BeforeValidator(lower_case)] = Field(
        default="info", description="the lowest level that is logged, on stderr", examples=["info"]
    )
    log_format: Annotated[Literal["auto", "json", "text"], BeforeValidator(lower_case)] = Field(
        default="auto",
        description="`json` writes one object a line; `auto` writes text on a terminal and JSON elsewhere",
        examples=["auto"],
    )
    capture_prints: bool = Field(
        default=True,
        description="make log lines of what handlers print; `false` prints it as it is, which a debugger needs",
        examples=["true"],
    )

    _origins: dict[str, str] = PrivateAttr(default_factory=dict)

    if not TYPE_CHECKING:  # type checkers know the fields as the arguments

        def __init__(self, **given: Any) -> None:
            layers = Layers.read(type(self).model_fields, None, "argument", given)
            with layers.explained():
                super().__init__(**layers.values)
            self.remember_origins(layers.origins)

        __init__.__pydantic_base_init__ = True  # so that `model_validate` makes a model without it

    @model_validator(mode="after")
    def _known_channels(self) -> Settings:
        webhooks = [f"webhook:{name}" for name, channel in self.channels.items() if channel.webhook]
        known = [*self.channels, *webhooks, "inbox", "desktop"]
        unknown = next((name for name in self.deliver_to if name not in known), None)
        if unknown is not None:
            raise ValueError(
                f"deliver_to names {unknown!r}, which is not a channel; known channels: {', '.join(sorted(known))}"
            )
        return self

    @model_validator(mode="after")
    def _shared_database(self) -> Settings:
        if self.distributed and not self.database_url.startswith("postgresql"):
            raise ValueError(
                "redis_url needs a PostgreSQL database that all processes share: set database_url "
                "(DUETIME_DATABASE_URL) to postgresql+psycopg://user@host/name as well, or leave redis_url out"
            )
        return self

    @property
    def distributed(self) -> bool:
        """Whether many processes share the work, on a PostgreSQL database and over Redis."""
        return self.redis_url is not None

    def origin(self, name: str) -> str:
        """Where the setting's value is from: `default`, `DUETIME_...`, a file, or `command line`."""
        return self._origins.get(name, "default")

    def remember_origins(self, origins: Mapping[str, str]) -> Settings:
        """Note where the values are from; returns itself."""
        self._origins.update(origins)
        return self

    @property
    def sqlite_path(self) -> Path | None:
        """The SQLite file, or None for another database and for one in memory."""
        _, separator, path = self.database_url.partition(":///")
        path = path.partition("?")[0]
        if not self.database_url.startswith("sqlite") or not separator or path in {"", ":memory:"}:
            return None
        return Path(path)

    def create_data_directory(self) -> None:
        """Create the default database's directory, for its user alone; any other directory has to exist.

        Raises InvalidSetting when it does not or cannot be made.
        """
        path = self.sqlite_path
        if path is None or path.parent.is_dir():
            return
        if self.database_url != default_database_url():
            raise InvalidSetting(
                f"database_url: the directory {path.parent} does not exist. Create it, or correct the path "
                f"(the value comes from {self.origin('database_url')})."
            )
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidSetting(
                f"database_url: cannot create {path.parent} ({error.strerror}). "
                "Set DUETIME_DATABASE_URL to a place you can write, for example sqlite:////home/me/duetime.db."
            ) from error
