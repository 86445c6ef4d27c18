"""Needs: the units of each pool that a run holds, and whether the pools can ever grant them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.principal import LOCAL
from duetime.scheduler.remedies import nearest_name
from duetime.scheduler.request import POOL_PREFIXES
from duetime.scheduler.rules.limits.pool import KEY_POOL, POOL_NAME, Pool, find_pool
from duetime.scheduler.task import Json, Tier

MAX_POOLS = 20
MAX_UNITS = 10**9

_WHOLE = f"whole numbers from 1 to {MAX_UNITS:,}"
_MAX_POOLS_SHOWN = 12
_KEY = "key:"
_ANY_KEY = "needs={'key:customer-42': 1}"
"""Pools of this name are there wherever a task may need one."""

PoolsByName = Mapping[str, Pool]


def merge_needs(
    declared: Mapping[str, int], own: Mapping[str, Json] | None, *, tenant: str = LOCAL.tenant
) -> dict[str, int]:
    """Return the handler's needs with the caller's amounts in place of its own. Raises InvalidArgument.

    A key that a tenant names belongs to that tenant; one that a handler declares is shared by all.
    """
    given: dict[str, Any] = {}
    for name, units in (own or {}).items():
        _check_name(_as_named(name, tenant))
        _check_units(name, units)
        given[name if name in declared else _pool_of(name, tenant)] = units
    if len(given) > MAX_POOLS:
        raise InvalidArgument("needs", f"{len(given)} pools", accepted=f"up to {MAX_POOLS}", example=_ANY_KEY)
    return {**declared, **given}


def check(needs: Mapping[str, int], tier: Tier, pools: PoolsByName) -> None:
    """Raise InvalidArgument, with a list of the pools, for an unknown pool or more units than it can ever grant."""
    for name, units in needs.items():
        pool = find_pool(pools, name)
        if pool is None and not name.startswith(POOL_PREFIXES):
            raise _unknown(name, needs, tier, pools)
        if pool is not None and pool.at_once and units > pool.largest(tier.rank):  # a capacity of 0 holds runs for now
            raise _too_much(pool, needs, name, tier, pools)


def check_declared(declared: Mapping[str, int], needs: Mapping[str, int], pools: PoolsByName, action: str) -> None:
    """Raise InvalidArgument for an unknown pool that the action declares: no argument of a call takes it away."""
    for name in declared:
        if name in needs and find_pool(pools, name) is None and not name.startswith(POOL_PREFIXES):
            pool = json.dumps({"kind": "slots", "capacity": needs[name]})
            raise InvalidArgument(
                "action",
                f"{action!r} needs the pool {name[:60]!r}, and there is no pool of this name",
                accepted="another action, or this one once an administrator has declared the pool",
                example=f"duetime pools set {name[:60]} '{pool}'",
            )


def _keys_of(tenant: str) -> str:
    """Return the prefix of a tenant's own pools, unique among all tenants."""
    return f"{_KEY}{quote(tenant, safe='')}/"


def _as_named(name: object, tenant: str) -> object:
    """Return the name that a tenant uses for a pool; a task stores keys in full."""
    keys = _keys_of(tenant)
    return f"{_KEY}{name.removeprefix(keys)}" if isinstance(name, str) and name.startswith(keys) else name


def _pool_of(name: str, tenant: str) -> str:
    """Return the stored name: in full, but for a local key without `/`, which no tenant's key can be."""
    keys = _keys_of(tenant)
    short = tenant == LOCAL.tenant and "/" not in name
    return name if short or name.startswith(keys) or not name.startswith(_KEY) else f"{keys}{name.removeprefix(_KEY)}"


def _check_name(name: object) -> None:
    if isinstance(name, str) and name.startswith("tenant:"):
        problem = f"{name[:40]!r} is a tenant's quota; every run of that tenant takes one unit automatically"
        raise InvalidArgument("needs", problem, accepted="other pools", example=_ANY_KEY)
    if not isinstance(name, str) or not POOL_NAME.fullmatch(name) or name in POOL_PREFIXES:
        raise InvalidArgument(
            "needs",
            f"{str(name)[:40]!r} is not a pool name",
            accepted="letters, digits and ._:@/- after a letter or digit, 100 at most",
            example=_ANY_KEY,
        )


def _check_units(name: str, units: object) -> None:
    if isinstance(units, bool) or not isinstance(units, int) or not 1 <= units <= MAX_UNITS:
        example = _call({name: 1})
        raise InvalidArgument("needs", f"{name} is given {_shown(units)}", accepted=_WHOLE, example=example)


def _shown(units: object) -> str:
    return str(units)[:20] if isinstance(units, int | float) else "no number"


def _unknown(name: str, needs: Mapping[str, int], tier: Tier, pools: PoolsByName) -> InvalidArgument:
    known = _nameable(pools)
    if not known:
        return InvalidArgument(
            "needs",
            f"there is no pool {name[:60]!r}, because none is declared",
            accepted=_listed(pools, tier),
            example=_ANY_KEY,
        )
    near = nearest_name(name, known) or next(iter(known))
    rest = {other: units for other, units in needs.items() if other != name and find_pool(pools, other)}
    units = max(1, min(needs[name], int(known[near].largest(tier.rank))))
    example = _call({**rest, near: units})
    return InvalidArgument("needs", f"there is no pool {name[:60]!r}", accepted=_listed(pools, tier), example=example)


def _too_much(pool: Pool, needs: Mapping[str, int], name: str, tier: Tier, pools: PoolsByName) -> InvalidArgument:
    most = int(pool.largest(tier.rank))
    problem = f"{name} can never give {needs[name]} to a run of priority {tier}, {most} at most"
    fitting = {other: units for other, units in needs.items() if other != name or most}
    example = _call({**fitting, name: most} if most else fitting)
    return InvalidArgument("needs", problem, accepted=_listed(pools, tier), example=example)


def _listed(pools: PoolsByName, tier: Tier) -> str:
    """List the pools with their capacities, and the most that one run gets where that is less."""
    known = _nameable(pools)
    shown = [f"{name} ({_room(pool, tier)})" for name, pool in list(known.items())[:_MAX_POOLS_SHOWN]]
    more = [f"{len(known) - _MAX_POOLS_SHOWN} more"] if len(known) > _MAX_POOLS_SHOWN else []
    return ", ".join([*shown, *more, f"key:<anything> ({_room(pools.get(KEY_POOL.name, KEY_POOL), tier)} each)"])


def _nameable(pools: PoolsByName) -> PoolsByName:
    """Return the pools that callers may name: no templates, and no quotas of tenants."""
    return {name: pool for name, pool in pools.items() if not name.startswith(POOL_PREFIXES)}


def _room(pool: Pool, tier: Tier) -> str:
    most = int(pool.largest(tier.rank))
    return pool.text() if most >= pool.at_once else f"{pool.text()}, up to {most} for {tier}"


def _call(needs: Mapping[str, int]) -> str:
    return f"needs={dict(needs)!r}"
