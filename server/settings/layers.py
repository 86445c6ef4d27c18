"""The layers of the settings: the file, the environment over it, and what the caller gives over both.

It has the fields of the model by argument, not the model, which reads its own layers when it is made.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_origin

from duetime.scheduler.errors import InvalidSetting
from duetime.scheduler.remedies import nearest_name
from duetime.scheduler.rules.redact import MASK
from duetime.server.settings.channels import ChannelSettings, OriginSettings
from duetime.server.settings.checks import WrongPools
from duetime.server.settings.external_actions import ExternalActionSettings
from duetime.server.settings.masks import brief
from duetime.server.settings.retention import RetentionRuleSettings
from platformdirs import user_config_path
from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

VARIABLE_PREFIX = "DUETIME_"
CONFIG_VARIABLE = "DUETIME_CONFIG"
FILE_ORIGIN = "file "
"""The origin of a setting from a file begins with this; the path follows."""

REMOTE_VARIABLES = ("DUETIME_SERVER", "DUETIME_KEY")
"""The options `--server` and `--key` of the command line; no process of an installation reads them."""

TESTS_PREFIX = "DUETIME_TEST_"
"""Reserved for the test suite: where its own services are. Never settings of Duetime."""

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")

FieldsByName = Mapping[str, FieldInfo]
_PARTS: dict[str, FieldsByName] = {
    "channels": ChannelSettings.model_fields,
    "external_actions": ExternalActionSettings.model_fields,
    "origins": OriginSettings.model_fields,
    "retention": RetentionRuleSettings.model_fields,
}


@dataclass(frozen=True, slots=True)
class Layers:
    """The values of all layers, the highest of each name, and where each is from."""

    fields: FieldsByName
    values: Mapping[str, Any]
    origins: Mapping[str, str]

    @classmethod
    def read(cls, fields: FieldsByName, config: Path | None, origin: str, given: Mapping[str, Any]) -> Layers:
        """Read the environment over the file; `given`, from `origin`, win over both. Raises InvalidSetting."""
        path = config_path(config)
        of_file, of_environment = _from_file(path), _from_environment(fields)
        layers = {f"{FILE_ORIGIN}{path}": of_file, "environment": of_environment, origin: given}
        values: dict[str, Any] = {}
        origins: dict[str, str] = {}
        for source, layer in layers.items():
            values.update(layer)
            origins.update(
                {name: VARIABLE_PREFIX + name.upper() if source == "environment" else source for name in layer}
            )
        return cls(fields, values, origins)

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Translate an error of the model into one that names each setting, its value and where it is from."""
        try:
            yield
        except ValidationError as error:
            raise InvalidSetting("\n".join(_sentence(detail, self) for detail in error.errors())) from None


def default_config_path() -> Path:
    return user_config_path("duetime", appauthor=False) / "duetime.toml"


def config_path(given: Path | None = None) -> Path | None:
    """Return the file to read: the one given, the one `DUETIME_CONFIG` names, or the default one if it exists."""
    named = given or (Path(os.environ[CONFIG_VARIABLE]) if os.environ.get(CONFIG_VARIABLE) else None)
    if named is None:
        return default_config_path() if default_config_path().is_file() else None
    named = named.expanduser()
    if not named.is_file():
        text = "--config" if given else CONFIG_VARIABLE
        raise InvalidSetting(f"{text}: there is no file {named}. Name an existing TOML file, or leave it out.")
    return named


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
    return dict(values)


def _from_environment(fields: FieldsByName) -> dict[str, Any]:
    given = [name for name, value in os.environ.items() if name.upper().startswith(VARIABLE_PREFIX) and value]
    named = {
        name.upper().removeprefix(VARIABLE_PREFIX).lower(): name
        for name in given
        if name.upper() not in (CONFIG_VARIABLE, *REMOTE_VARIABLES) and not name.upper().startswith(TESTS_PREFIX)
    }
    return {name: _decoded(name, fields.get(name), os.environ[variable]) for name, variable in named.items()}


def _decoded(name: str, field: FieldInfo | None, text: str) -> Any:
    """Return the value of a variable: a table is written as JSON, all else as the model reads it, which may refuse."""
    if field is None or get_origin(field.annotation) not in {dict, list}:
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        example, kind = (field.examples or [""])[0], "a list" if get_origin(field.annotation) is list else "an object"
        raise InvalidSetting(
            f"{VARIABLE_PREFIX}{name.upper()}: {MASK} is not JSON. Accepted: {kind} of {name}. Example: {example}"
        ) from None


def _sentence(detail: ErrorDetails, layers: Layers) -> str:
    path = [str(part) for part in detail["loc"] if part != "[key]"]
    problem = detail["msg"].removeprefix("Value error, ").replace("Input should be", "it must be")
    if not path:
        return f"{problem}."
    name, origin = path[0], layers.origins.get(path[0], "default")
    if detail["type"] == "extra_forbidden":
        return _unknown(path, layers.fields, origin)
    wrong = detail.get("ctx", {}).get("error")
    if isinstance(wrong, WrongPools) and origin.startswith(FILE_ORIGIN):
        problem = "\n".join([*wrong.sentences, "Example:", _in_toml(name, wrong.corrected)])
    example = layers.fields[name].examples or [""]
    shown = origin if origin == VARIABLE_PREFIX + path[-1].upper() else f"{'.'.join(path)} ({origin})"
    ending = "" if "Example:" in problem else f". Example: {example[0]}"
    return f"{shown}: {brief('.'.join(path), detail['input'])} is not accepted: {problem}{ending}"


def _in_toml(name: str, tables: Mapping[str, Mapping[str, Any]]) -> str:
    """Write tables as they stand in a file."""
    return "\n".join(
        "\n".join([f"[{name}.{_key(table)}]", *(f"{_key(part)} = {_value(each)}" for part, each in parts.items())])
        for table, parts in tables.items()
    )


def _key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else json.dumps(name)


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{_key(name)} = {_value(each)}' for name, each in value.items())}}}"
    return json.dumps(value)


def _unknown(path: list[str], fields: FieldsByName, origin: str) -> str:
    names = list(fields if len(path) == 1 else _PARTS.get(path[0], {}))
    closest, variable = nearest_name(path[-1], names), VARIABLE_PREFIX + path[0].upper()
    where = f" in {origin.removeprefix(FILE_ORIGIN)}" if origin.startswith(FILE_ORIGIN) else f" ({origin})"
    shown = ".".join(path) + where
    if len(path) == 1 and origin == variable:
        shown, closest = f"{variable} in the environment", closest and VARIABLE_PREFIX + closest.upper()
    every = f"Accepted: {', '.join(names)}." if len(path) > 1 and names else "`duetime config` lists all settings."
    return f"{shown}: there is no such setting. {f'Did you mean {closest}?' if closest else every}"
