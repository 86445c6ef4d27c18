"""Pools as JSON, as they are declared."""

from __future__ import annotations

from collections.abc import Mapping

from duetime.scheduler.rules.limits.pool import Pool
from duetime.scheduler.rules.limits.pool_spec import spec_of
from duetime.scheduler.task import Json


def pools_json(found: Mapping[str, Pool]) -> dict[str, Json]:
    """Return the declared pools by name."""
    return {"schema": "duetime.pools/1", "pools": {name: spec_of(pool) for name, pool in sorted(found.items())}}
