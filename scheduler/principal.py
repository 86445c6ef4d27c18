"""The principal: the caller in whose name a call acts."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Self, TypedDict

from duetime.scheduler.errors import InvalidArgument

MAX_PRINCIPAL_CHARS = 200

ALL_TENANTS = "*"
"""Stands for all tenants where one is named, so no tenant has this name."""


class Scope(StrEnum):
    """A right of a principal inside its tenant; only an operator's reach into other tenants."""

    TASKS = "tasks"  # schedule, read and change tasks
    WORKER = "worker"  # claim and finish runs of external actions, of every user of the tenant
    ADMIN_READ = "admin:read"  # read history, pools, workers and statistics
    ADMIN = "admin"  # change these; includes admin:read


EVERY_SCOPE = frozenset(Scope)

_WIDER = {Scope.ADMIN_READ: (Scope.ADMIN,)}


def sufficient_scopes(scope: Scope) -> tuple[Scope, ...]:
    """Return the scopes of which one is enough where this one is required, the narrowest first."""
    return (scope, *_WIDER.get(scope, ()))


class Acting(TypedDict):
    """The actor of a change, and by which way he made it."""

    actor: str
    via: str | None


@dataclass(frozen=True, slots=True)
class Principal:
    """The caller. `user` is recorded as the actor of every change; `tenant` bounds what can be seen at all.

    An `operator` administers the installation: with an admin scope he sees every tenant and what all share. `via` is
    the surface and the address of the call, such as `rest 10.0.0.7`; it decides nothing.

    Raises InvalidArgument for a name that is no printable text of 1 to 200 characters without blanks around it.
    ALL_TENANTS is no name of a tenant.
    """

    tenant: str = "local"
    user: str = "local"
    scopes: frozenset[str] = frozenset()
    operator: bool = False
    via: str | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        _check_name("tenant", self.tenant, "acme")
        if self.tenant == ALL_TENANTS:
            raise InvalidArgument(
                "tenant", f"{ALL_TENANTS!r} stands for all tenants", accepted="the name of one tenant", example="acme"
            )
        _check_name("user", self.user, "ann")
        for scope in self.scopes:
            _check_name("scopes", scope, "tasks")

    def may(self, scope: Scope) -> bool:
        """Whether the principal has a scope, by itself or by a wider one."""
        return not self.scopes.isdisjoint(sufficient_scopes(scope))

    def acting(self, via: str | None = None) -> Acting:
        """Return the principal as the actor of a change; `via` is the way of calls that name none."""
        return {"actor": self.user, "via": self.via or via}

    def with_via(self, via: str | None) -> Self:
        """Return the principal with the way of calls that name none."""
        return self if self.via else replace(self, via=via)

    def may_read_all_of(self, tenant: str | None) -> bool:
        """Whether the principal may read what every user of a tenant did; None stands for all tenants together."""
        return self.may(Scope.ADMIN_READ) and (self.operator or tenant == self.tenant)

    def may_change_all_of(self, tenant: str | None) -> bool:
        """Whether the principal may change what belongs to any user of a tenant; None stands for what tenants share."""
        return self.may(Scope.ADMIN) and (self.operator or tenant == self.tenant)


def _check_name(argument: str, name: object, example: str) -> None:
    problem = _problem(name)
    if problem:
        accepted = f"1 to {MAX_PRINCIPAL_CHARS} printable characters, no blank first or last"
        raise InvalidArgument(argument, problem, accepted=accepted, example=example)


def _problem(name: object) -> str | None:
    if not isinstance(name, str):
        return f"expected text, got {type(name).__name__}"
    if not name or len(name) > MAX_PRINCIPAL_CHARS:
        return f"it has {len(name):,} characters"
    unprintable = next((char for char in name if not char.isprintable()), None)
    if unprintable is not None:
        return f"it contains U+{ord(unprintable):04X}, which is not printable"
    return "it has a blank first or last" if name != name.strip() else None


LOCAL = Principal(scopes=EVERY_SCOPE, operator=True)
"""The one user of an embedded Duetime."""
