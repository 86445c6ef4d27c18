"""Reading the settings: which file, which variables, what is unknown in them, and where each value came from."""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import singledispatch
from pathlib import Path
from typing import Any, get_origin

from duetime.scheduler.errors import InvalidSetting
from duetime.server.settings.channels import ChannelSettings
from duetime.server.settings.model import Settings
from platformdirs import user_config_path
from pydantic import BaseModel, SecretStr, ValidationError
from pydantic_core import ErrorDetails

PREFIX = "DUETIME_"
CONFIG_VARIABLE = "DUETIME_CONFIG"
TESTS_PREFIX = "DUETIME_TEST_"
"""Reserved for the test suite: where its own services are. Never settings of Duetime."""
MASK = "***"
MAX_VALUE_CHARS = 60


@dataclass(frozen=True, slots=True)
class Effective:
    """One setting as it is in force: its value with secrets masked, and where it is from."""

    name: str
    value: str
    origin: str


def default_config_path() -> Path:
    return user_config_path("duetime", appauthor=False) / "duetime.toml"


def config_path(given: Path | None = None) -> Path | None:
    """Return the file to read: the one given, the one `DUETIME_CONFIG` names, or the default one if it exists."""
    named = given or (Path(os.environ[CONFIG_VARIABLE]) if os.environ.get(CONFIG_VARIABLE) else None)
    if named is None:
        return default_config_path() if default_config_path().is_file() else None
    named = named.expanduser()
    if not named.is_file():
        said = "--config" if given else CONFIG_VARIABLE
        raise InvalidSetting(f"{said}: there is no file {named}. Name an existing TOML file, or leave it out.")
    return named


def load_settings(config: Path | None = None, **overrides: Any) -> Settings:
    """Read the environment over the TOML file; `overrides` (of a command line) win, those that are None are absent.

    `config` is the file to read, else the one `DUETIME_CONFIG` names, else `duetime.toml` in the user's configuration
    directory if it exists. Raises InvalidSetting, which names each unknown or wrong setting, its value, where it is
    from and what is accepted.
    """
    path = config_path(config)
    layers = {
        f"file {path}": _from_file(path),
        "environment": _from_environment(),
        "command line": {name: value for name, value in overrides.items() if value is not None},
    }
    values, origins = {}, {}
    for origin, layer in layers.items():
        values.update(layer)
        origins.update({name: PREFIX + name.upper() if origin == "environment" else origin for name in layer})
    try:
        return Settings(**values).remember_origins(origins)
    except ValidationError as error:
        raise InvalidSetting("\n".join(_sentence(detail, origins) for detail in error.errors())) from None


def effective(settings: Settings) -> list[Effective]:
    """Every setting as it is in force, in the order of the model, secrets masked."""
    return [
        Effective(name, masked(getattr(settings, name)), settings.origin(name)) for name in type(settings).model_fields
    ]


@singledispatch
def masked(value: Any) -> str:
    """Return the value as one would write it, without what must stay secret (SecretStr, and passwords in URLs)."""
    shown = re.sub(r"(://[^:/@]*):.*@", rf"\1:{MASK}@", "" if value is None else str(value))
    return re.sub(r"([?&]\w*(?:password|secret|token)=)[^&]*", rf"\1{MASK}", shown, flags=re.IGNORECASE)


@masked.register
def _(value: SecretStr) -> str:
    return MASK if value else ""


@masked.register
def _(value: bool) -> str:
    return str(value).lower()


@masked.register(Mapping)
def _(value: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} ({masked(part)})" for name, part in value.items())


@masked.register
def _(value: BaseModel) -> str:
    given = (name for name in type(value).model_fields if name in value.model_fields_set)
    return ", ".join(name for name in given if getattr(value, name) is not None)


@masked.register(tuple)
@masked.register(list)
def _(value: Sequence[Any]) -> str:
    return ",".join(map(masked, value))


def _from_file(path: Path | None) -> dict[str, Any]:
    if path is None:
        return {}
    import tomllib  # noqa: PLC0415 - a first answer does not wait for it where there is no file

    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidSetting(f"{path} is not TOML: {error}. Example of a line: threads = 16") from None
    except OSError as error:
        raise InvalidSetting(f"{path} cannot be read: {error.strerror}.") from None
    _refuse_unknown({name: name for name in values}, Settings.model_fields, f" in {path}")
    return dict(values)


def _from_environment() -> dict[str, Any]:
    given = [name for name, value in os.environ.items() if name.upper().startswith(PREFIX) and value]
    named = {
        name.upper().removeprefix(PREFIX).lower(): name
        for name in given
        if name.upper() != CONFIG_VARIABLE and not name.upper().startswith(TESTS_PREFIX)
    }
    _refuse_unknown(named, Settings.model_fields, " in the environment", shown=lambda name: PREFIX + name.upper())
    return {name: _decoded(name, os.environ[variable]) for name, variable in named.items()}


def _decoded(name: str, text: str) -> Any:
    """Return the value of a variable: a table is written as JSON, all else as the model reads it."""
    field = Settings.model_fields[name]
    if get_origin(field.annotation) is not dict:
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        example = (field.examples or [""])[0]
        raise InvalidSetting(
            f"{PREFIX}{name.upper()}: {MASK} is not JSON. Accepted: an object of {name}. Example: {example}"
        ) from None


def _refuse_unknown(given: Mapping[str, str], known: Iterable[str], where: str, shown: Any = lambda name: name) -> None:
    names = list(known)
    unknown = [name for name in given if name not in names]
    if unknown:
        raise InvalidSetting("\n".join(_unknown(given[name], nearest(name, names), where, shown) for name in unknown))


def _unknown(name: str, closest: str | None, where: str, shown: Any) -> str:
    hint = f"Did you mean {shown(closest)}?" if closest else "`duetime config` lists all settings."
    return f"{name}{where}: there is no such setting. {hint}"


def nearest(name: str, names: Iterable[str]) -> str | None:
    """Return the name that is most like the one given, or None when none is alike."""
    return next(iter(difflib.get_close_matches(name, list(names), n=1, cutoff=0.6)), None)


def is_secret(name: str) -> bool:
    """Whether the name of a setting says that its value must not be shown."""
    return any(word in name.lower() for word in ("secret", "token", "password", "channel", "key"))


def _brief(name: str, value: Any) -> str:
    return MASK if is_secret(name) or isinstance(value, Mapping) else repr(masked(value))[:MAX_VALUE_CHARS]


def _sentence(detail: ErrorDetails, origins: Mapping[str, str]) -> str:
    path = [str(part) for part in detail["loc"] if part != "[key]"]
    problem = detail["msg"].removeprefix("Value error, ").replace("Input should be", "it must be")
    if not path:
        return f"{problem}."
    name, origin = path[0], origins.get(path[0], "default")
    if detail["type"] == "extra_forbidden":
        return _unknown(".".join(path), _nearest_inside(path), f" ({origin})", lambda name: name)
    example = Settings.model_fields[name].examples or [""]
    shown = origin if origin == PREFIX + path[-1].upper() else f"{'.'.join(path)} ({origin})"
    return f"{shown}: {_brief('.'.join(path), detail['input'])} is not accepted: {problem}. Example: {example[0]}"


def _nearest_inside(path: list[str]) -> str | None:
    fields = Settings.model_fields if len(path) == 1 else ChannelSettings.model_fields
    return nearest(path[-1], fields)
