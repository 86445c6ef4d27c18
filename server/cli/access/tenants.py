"""The tenants that options name here: without one it is the local tenant, as over a server it is that of the key."""

from __future__ import annotations

from duetime.scheduler.principal import ALL_TENANTS, LOCAL, Principal


def one_tenant(named: str | None) -> str:
    """Return the one tenant that is meant. Raises InvalidArgument for `*` and for what is no name of a tenant."""
    return LOCAL.tenant if named is None else Principal(named).tenant


def tenant_or_all(named: str | None) -> str | None:
    """Return the tenant that is meant, None for all (`*`). Raises InvalidArgument for what is no name of a tenant."""
    return None if named == ALL_TENANTS else one_tenant(named)
