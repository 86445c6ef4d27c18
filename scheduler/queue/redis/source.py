"""The Lua scripts of the queue in Redis as texts: assembled from `lua/` and from numbers that Python and Lua share."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any

from duetime.scheduler.queue import constants, lanes
from duetime.scheduler.rules import preemption, turns
from duetime.scheduler.rules import shares as tier_shares
from duetime.scheduler.rules.limits import admission, breaker, queue_time, start_log
from duetime.scheduler.rules.limits.admission import Limits
from duetime.scheduler.rules.shares import Shares

LAYOUT_VERSION = 7
"""Version of the stored keys: a process refuses a namespace of a newer version, and refills one of an older version."""

SIZE_SCORES_PER_TIER = 2**48
"""More units than any pool has: sizes are sorted by tier, then by units, in one number."""

ANSWER_TTL_MS = 60_000
"""Milliseconds for which a reply is stored: longer than all retries together."""

MAX_LEASES_SCANNED = 2000
"""Leases that are examined for whether they hold a pool."""

MAX_LANES_LISTED = 64
"""Lanes up to which a take reads all; with more, it looks up those of the actions that its worker has."""

MAX_ARGUMENTS_UNPACKED = 2000
"""Arguments of one command in a script, an even number: Lua fails at 8,000."""

_PARTS = ("state", "start_log", "pools", "turns", "lanes", "runs", "holds", "classes", "leases")
SCRIPTS = {
    **dict.fromkeys(("put", "renew", "give_back", "reap", "cancel", "rescore", "adopt"), _PARTS),
    **dict.fromkeys(("set_pool", "stats"), _PARTS),
    "explain": (*_PARTS, "shortages", "threads"),
    **dict.fromkeys(("begin_rebuild", "end_rebuild", "set_shares"), ("state",)),
    "take": (*_PARTS, "shortages", "threads", "shares", "view", "decisions"),
    "assign_preemptors": (*_PARTS, "shortages", "threads", "view"),
    "runs_to_preempt": (*_PARTS, "shortages"),
    "known_threads": (*_PARTS, "threads"),
    "finish": (*_PARTS, "feedback"),
}

_SHARED = {
    **vars(constants), **vars(lanes), **vars(turns), **vars(tier_shares), **vars(preemption),
    **vars(admission), **vars(breaker), **vars(queue_time), **vars(start_log), **globals(),
}  # fmt: skip
_NUMBERS = {name: value for name, value in _SHARED.items() if isinstance(value, int | float)}
_NUMBER_NAME = re.compile(r"\b[A-Z][A-Z_]+\b")


@cache
def _files() -> Mapping[str, Traversable]:
    """Return the files of all folders in `lua/`, by name."""
    folders = resources.files("duetime.scheduler.queue.redis").joinpath("lua").iterdir()
    return {file.name: file for folder in folders for file in folder.iterdir()}


@cache
def _source(name: str) -> str:
    """Return a file of `lua/`, with names in capitals replaced by their numbers; most scripts share most files."""
    text = _files()[f"{name}.lua"].read_text("utf-8")
    return _NUMBER_NAME.sub(lambda found: str(_NUMBERS.get(found[0], found[0])), text)


def script_source(names: Sequence[str]) -> str:
    """Return the script that these files make.

    Redis runs it whole at every call, so it is written to begin fast. Each file stands in a function inside that of the
    file before. Lua finds outer names of an enclosing function faster than those of its own.
    """
    return "\nreturn (function()\n".join([_tables(), *map(_source, names)]) + "\nend)()" * len(names)


@cache
def _tables() -> str:
    """Return the tables that Lua shares with `rules`, as Lua, under the same names."""
    values = {
        "GUARANTEED": list(Shares().guaranteed),
        "CEILINGS": list(Shares().ceilings),
        "DEFAULT_LIMITS": {name: fields_of(limits) for name, limits in constants.DEFAULT_LIMITS.items()},
    }
    return "\n".join(f"local {name} = {_lua(value)}" for name, value in values.items())


def fields_of(limits: Limits) -> list[Any]:
    """Return limits as the scripts know them, see `lua/admission/pools.lua`."""
    return [
        limits.kind.value,
        limits.capacity,
        limits.refill,
        limits.headroom,
        limits.failures,
        limits.error_rate,
        limits.samples,
        limits.cooldown,
        limits.latency,
        [number for step in limits.steps for number in step],
        list(limits.resets),
        limits.window,
        limits.window_units,
    ]


def _lua(value: object) -> str:
    """Write names, numbers, lists and mappings as Lua."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"[{_lua(name)}] = {_lua(each)}" for name, each in value.items()) + "}"
    if isinstance(value, list):
        return "{" + ", ".join(map(_lua, value)) + "}"
    return f'"{value}"' if isinstance(value, str) else repr(value)
