"""The limits of changes, which every connection of a database carries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Self

from sqlalchemy import Connection, Engine

CHANGE_LIMITS_OPTION: Final = "duetime_change_limits"


@dataclass(slots=True)
class ChangeLimits:
    """`check` raises Refused where a tenant may not grow by a change, see `tenant_counts.admit_change`.

    None lets every change pass.
    """

    check: Callable[..., None] | None = None

    @classmethod
    def of(cls, database: Connection | Engine) -> Self:
        found = database.get_execution_options()[CHANGE_LIMITS_OPTION]
        assert isinstance(found, cls)
        return found
