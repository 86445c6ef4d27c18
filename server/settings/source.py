"""Reads the settings of a command, and reports which are in force."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from duetime.server.settings.layers import FILE_ORIGIN, Layers
from duetime.server.settings.masks import masked
from duetime.server.settings.model import Settings


@dataclass(frozen=True, slots=True)
class Effective:
    """One setting as it is in force: its value with secrets masked, and where it is from."""

    name: str
    value: str
    origin: str


def load_settings(config: Path | None = None, **overrides: Any) -> Settings:
    """Read the environment over the TOML file; `overrides` (of a command line) win, those that are None are absent.

    `config` is the file to read, else the one `DUETIME_CONFIG` names, else `duetime.toml` in the user's configuration
    directory if it exists. Raises InvalidSetting, which names each unknown or wrong setting, its value, where it is
    from and what is accepted.
    """
    given = {name: value for name, value in overrides.items() if value is not None}
    layers = Layers.read(Settings.model_fields, config, "command line", given)
    with layers.explained():
        return Settings.model_validate(layers.values).remember_origins(layers.origins)


def config_json(settings: Settings, file: Path | None) -> dict[str, Any]:
    """Return every setting in force as JSON, secrets masked; `file` is the one that was read."""
    rows = [{"name": each.name, "value": each.value, "from": each.origin} for each in effective(settings)]
    return {"schema": "duetime.config/1", "file": str(file) if file else None, "settings": rows}


def file_read(settings: Settings) -> Path | None:
    """Return the file that a running process has settings from, None where no setting is from a file."""
    names = (settings.origin(name) for name in type(settings).model_fields)
    return next((Path(each.removeprefix(FILE_ORIGIN)) for each in names if each.startswith(FILE_ORIGIN)), None)


def effective(settings: Settings) -> list[Effective]:
    """Every setting as it is in force, in the order of the model, secrets masked."""
    return [
        Effective(name, masked(getattr(settings, name)), settings.origin(name)) for name in type(settings).model_fields
    ]
