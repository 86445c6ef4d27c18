"""The settings: one model, read from the environment and a TOML file, checked before anything starts."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from duetime.scheduler.errors import InvalidSetting
from duetime.server.settings.access import AccessSettings
from duetime.server.settings.checks import lower_case
from duetime.server.settings.layers import Layers
from duetime.server.settings.notices import NoticeSettings
from duetime.server.settings.retention import RetentionSettings
from duetime.server.settings.work import WorkSettings, default_database_url
from pydantic import BeforeValidator, ConfigDict, Field, PrivateAttr, model_validator


class Settings(NoticeSettings, AccessSettings, RetentionSettings, WorkSettings):
    """All settings, immutable.

    `Settings(threads=4)` reads what is not given from the environment (`DUETIME_THREADS`), then from the TOML file
    (`threads`). Raises InvalidSetting, which names each unknown or wrong setting. `Settings.model_validate({...})`
    reads nothing but its argument.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)

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
        description="make log lines of what handlers print; `false` prints it as it is, which a debugger needs. A "
        "program of your own does so only where it is set",
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
        _check_channels("deliver_to", self.deliver_to, known)
        for_operators = [name for name in known if name != "inbox"]
        _check_channels("alert_channels", self.alert_channels, for_operators)
        _check_channels("report_channels", self.report_channels, for_operators)
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


def _check_channels(setting: str, names: Iterable[str], known: Collection[str]) -> None:
    unknown = next((name for name in names if name not in known), None)
    if unknown is not None:
        raise ValueError(
            f"{setting} names {unknown!r}, which is not a channel; known channels: {', '.join(sorted(known))}"
        )
