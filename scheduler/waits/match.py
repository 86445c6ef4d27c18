"""Compares the data of a signal with the `match` of a wait."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from duetime.scheduler.task import Json

_ABSENT: Final = object()


def matches(members: Mapping[str, Json], data: Mapping[str, Any]) -> bool:
    """Whether the data have each member that is wanted, with an equal value.

    A name with dots means a member of a member, where no member has that very name: `customer.id`.
    """
    return all(_equal(_at(path, data), value) for path, value in members.items())


def _at(path: str, data: Any) -> Any:
    if path in data:
        return data[path]
    found = data
    for part in path.split("."):
        if not isinstance(found, Mapping) or part not in found:
            return _ABSENT
        found = found[part]
    return found


def _equal(found: Any, value: Any) -> bool:
    """Compare as JSON does: true is not 1, but 1 is 1.0."""
    if isinstance(found, bool) or isinstance(value, bool):
        return found is value
    if isinstance(found, Mapping) and isinstance(value, Mapping):
        return found.keys() == value.keys() and all(_equal(found[name], value[name]) for name in value)
    if isinstance(found, list | tuple) and isinstance(value, list | tuple):
        return len(found) == len(value) and all(map(_equal, found, value))
    return bool(found == value)
