"""The keys that encrypt secrets and seal audit chains, and the secrets that settings name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypedDict

from duetime.scheduler.access.secret import SecretUnavailable, read_key, resolved
from duetime.scheduler.errors import InvalidSetting
from duetime.scheduler.runtime.secret_mask import learn_secret
from duetime.server.settings.model import Settings
from pydantic import SecretStr


class StoreKeys(TypedDict):
    """The keys of a store, those that encrypt and seal first."""

    secret_keys: tuple[str, ...]
    audit_keys: tuple[str, ...]


def store_keys(settings: Settings) -> StoreKeys:
    """Return the keys of a store: those of each setting, then those of its file.

    Raises InvalidSetting for a file that cannot be read, and for a line of it that is no key.
    """
    return {
        "secret_keys": _keys(settings.secret_keys, "secret_keys_file", settings.secret_keys_file),
        "audit_keys": _keys(settings.audit_keys, "audit_keys_file", settings.audit_keys_file),
    }


def _keys(given: SecretStr | None, setting: str, path: str) -> tuple[str, ...]:
    named = [read_key(key) for key in (given.get_secret_value() if given else "").replace(",", " ").split()]
    return (*named, *(_of_file(setting, Path(path)) if path else ()))


def _of_file(setting: str, path: Path) -> list[str]:
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, ValueError) as error:
        problem = getattr(error, "strerror", None) or "it is not text"
        raise InvalidSetting(f"{setting}: {path} cannot be read: {problem}. Accepted: one key a line.") from None
    found = list[str]()
    for number, line in enumerate(lines, 1):
        try:
            found += [read_key(line)] if line.strip() and not line.startswith("#") else []
        except ValueError as wrong:
            raise InvalidSetting(f"{setting}: line {number} of {path} is not a key: {wrong}.") from None
    return found


class SettingSecrets:
    """Puts the secrets that a setting names in their places, at the time of use; they are those of one tenant."""

    def __init__(self, tenant: str) -> None:
        self._tenant = tenant
        self._value: Callable[[str, str], str] | None = None

    def read_by(self, value: Callable[[str, str], str]) -> None:
        """Read secrets by `value`, a function of tenant and name; before this there are none."""
        self._value = value

    def __call__(self, text: str) -> str:
        """Return the text with values in place of references. Raises SecretUnavailable."""
        return resolved(text, self._read)

    def _read(self, name: str) -> str:
        if self._value is None:
            raise SecretUnavailable(name, "the database of secrets is not open yet")
        return learn_secret(self._value(self._tenant, name))
