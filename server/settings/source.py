"""Reads the settings of a command, and reports which are in force."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from duetime.server.settings.layers import Layers
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


def effective(settings: Settings) -> list[Effective]:
    """Every setting as it is in force, in the order of the model, secrets masked."""
    return [
        Effective(name, masked(getattr(settings, name)), settings.origin(name)) for name in type(settings).model_fields
    ]
