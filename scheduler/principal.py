"""The principal: the caller in whose name a call acts."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from duetime.scheduler.errors import InvalidArgument

MAX_NAME_CHARS = 200


class Scope(StrEnum):
    """A right of a principal inside its tenant; no scope reaches into another tenant."""

    TASKS = "tasks"  # schedule, read and change tasks
    WORKER = "worker"  # claim runs and settle them
    ADMIN_READ = "admin:read"  # read history, pools, workers and statistics
    ADMIN = "admin"  # change these; includes admin:read


EVERY_SCOPE = frozenset(Scope)


@dataclass(frozen=True, slots=True)
class Principal:
    """The caller. `user` is recorded as the actor of every change; `tenant` bounds what can be seen at all.

    Raises InvalidArgument for a name that is no printable text of 1 to 200 characters without blanks around it.
    """

    tenant: str = "local"
    user: str = "local"
    scopes: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        _check_name("tenant", self.tenant, "acme")
        _check_name("user", self.user, "ann")
        for scope in self.scopes:
            _check_name("scopes", scope, "tasks")

    def may(self, scope: Scope) -> bool:
        """Whether the principal has a scope, by itself or by a wider one."""
        return scope in self.scopes or (scope is Scope.ADMIN_READ and Scope.ADMIN in self.scopes)


def _check_name(argument: str, name: object, example: str) -> None:
    problem = _problem(name)
    if problem:
        accepted = f"1 to {MAX_NAME_CHARS} printable characters, no blank first or last"
        raise InvalidArgument(argument, problem, accepted=accepted, example=example)


def _problem(name: object) -> str | None:
    if not isinstance(name, str):
        return f"expected text, got {type(name).__name__}"
    if not name or len(name) > MAX_NAME_CHARS:
        return f"has {len(name):,} characters"
    unprintable = next((char for char in name if not char.isprintable()), None)
    if unprintable is not None:
        return f"contains U+{ord(unprintable):04X}, which is not printable"
    return "has a blank first or last" if name != name.strip() else None


LOCAL = Principal(scopes=EVERY_SCOPE)
"""The one user of an embedded Duetime."""
