"""The Lua scripts of the queue in Redis: assembled from `lua/`, called by hash, with their errors translated.

Every script is idempotent: it stores its reply under the name of the call. After a lost reply, redis-py can send the
same call again.
"""

from __future__ import annotations

import itertools
import json
import os
import secrets
from collections.abc import Callable
from importlib import resources
from typing import Any

import redis
from duetime.scheduler.queue.constants import (
    CALM_AFTER_MS,
    CALM_PERIOD_MS,
    DEFAULT_LIMITS,
    MAX_CLASSES_PER_TAKE,
    MAX_COUNTED_AHEAD,
    MAX_LEASES_PER_REAP,
    MAX_OVERDUE_PER_TAKE,
    MAX_PREEMPTORS,
    MAX_PROMOTED_PER_TAKE,
    MAX_SIZES_PER_WAKE,
    MAX_TIMERS_PER_TAKE,
    MAX_TURNS_REFRESHED,
    PREEMPTOR_HOLD_MS,
    THREADS_KNOWN_MS,
)
from duetime.scheduler.queue.port import QueueLost, QueueUnavailable
from duetime.scheduler.rules import turns
from duetime.scheduler.rules.limits import admission, breaker, queue_time
from duetime.scheduler.rules.limits.admission import Limits
from duetime.scheduler.rules.shares import Shares
from redis.backoff import ExponentialBackoff
from redis.retry import Retry

LAYOUT = 2
"""Version of the stored keys: a process refuses a namespace of a newer version, and refills one of an older version."""

PATIENCE = 3.0
"""Seconds until a script without a reply is sent again, and until a connection attempt fails."""

RETRIES = 2
SIZE = 2**48
"""More units than any pool has: sizes are sorted by tier, then by units, in one number."""

REMEMBERED_FOR = 60_000
"""Milliseconds for which a reply is stored: longer than all retries together."""

CALLS = 256
"""Stored replies per process: more than it can have calls in flight."""

MOST_HOLDERS = 2000
"""Leases that are examined for whether they hold a pool."""

MOST_UNPACKED = 2000
"""Arguments of one command in a script, an even number: Lua fails at 8,000."""

_PARTS = ("state", "pools", "classes", "leases")
_SCRIPTS = {
    **dict.fromkeys(("put", "renew", "give_back", "reap", "cancel", "rescore", "reserve", "adopt"), _PARTS),
    **dict.fromkeys(("set_pool", "stats"), _PARTS),
    "can_admit": (*_PARTS, "explain_parts"),
    "explain": (*_PARTS, "explain_parts", "threads"),
    **dict.fromkeys(("begin_rebuild", "end_rebuild"), ("state",)),
    "take": (*_PARTS, "threads", "shares"),
    **dict.fromkeys(("preemptors", "known_threads"), (*_PARTS, "threads")),
    "finish": (*_PARTS, "feedback"),
}


def connect(url: str) -> redis.Redis:
    """Return a client for scripts. It connects with the first call."""
    retry = Retry(ExponentialBackoff(cap=0.2, base=0.02), RETRIES)
    return redis.Redis.from_url(url, socket_timeout=PATIENCE, socket_connect_timeout=PATIENCE, retry=retry)


class Scripts:
    """The scripts over one namespace. `clock`, milliseconds since 1970, replaces the server's time."""

    def __init__(self, client: redis.Redis, key: str, shares: Shares, clock: Callable[[], float] | None) -> None:
        head = _constants(shares)
        self.keys = [key, f"{key}:baton"]
        self._clock = clock
        self._me = secrets.token_hex(6)
        self._calls = itertools.count(1)
        self._scripts = {
            name: client.register_script("\n".join([head, *map(_source, (*parts, name))]))
            for name, parts in _SCRIPTS.items()
        }

    def ask(self, name: str, *args: str | float) -> Any:
        """Run a script that only reads, and so may run twice."""
        return self._run(name, "", 0, args)

    def call(self, name: str, *args: str | float) -> Any:
        """Run a script that changes the queue; a retry returns the stored reply of the first run."""
        number = next(self._calls)
        return self._run(name, f"{self._me}-{os.getpid()}:{number % CALLS}", number, args)

    def _run(self, name: str, slot: str, number: int, args: tuple[str | float, ...]) -> Any:
        now = "" if self._clock is None else self._clock()
        with translated():
            return _text(self._scripts[name](keys=self.keys, args=[now, slot, number, json.dumps(args)]))


class translated:  # noqa: N801 - reads like a function
    """Translate exceptions of redis-py into those of the port."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if not isinstance(error, redis.RedisError):
            return
        if "NOEPOCH" in str(error):
            raise QueueLost("the queue in Redis is empty: it must be rebuilt from the database") from error
        if "NEWER" in str(error):
            raise QueueUnavailable(
                f"a newer Duetime built the queue in Redis; this version knows layout {LAYOUT}: "
                'upgrade this process, or give it a namespace of its own, for example "duetime-old"'
            ) from error
        raise QueueUnavailable(f"the queue in Redis does not answer: {error}") from error


def _source(name: str) -> str:
    return resources.files("duetime.scheduler.queue.redis").joinpath("lua", f"{name}.lua").read_text("utf-8")


def _constants(shares: Shares) -> str:
    """Return the numbers that Lua shares with `rules` and the queue in memory, as Lua."""
    values = {
        "LAYOUT": LAYOUT,
        "CALM": CALM_AFTER_MS,
        "CALM_FOR": CALM_PERIOD_MS,
        "SAID_FOR": REMEMBERED_FOR,
        "TOOK_FOR": REMEMBERED_FOR,
        "SIZE": SIZE,
        "STEP": turns.STEP_MS,
        "FORGOTTEN_AFTER": turns.FORGOTTEN_AFTER_MS,
        "MOST_REFRESHED": MAX_TURNS_REFRESHED,
        "MOST_AHEAD": MAX_COUNTED_AHEAD,
        "MOST_LOOKS": MAX_CLASSES_PER_TAKE,
        "MOST_WOKEN": MAX_SIZES_PER_WAKE,
        "MOST_PROMOTED": MAX_PROMOTED_PER_TAKE,
        "MOST_TIMERS": MAX_TIMERS_PER_TAKE,
        "MOST_REAPED": MAX_LEASES_PER_REAP,
        "MOST_OVERDUE": MAX_OVERDUE_PER_TAKE,
        "MOST_ASKED": MOST_HOLDERS,
        "MOST_UNPACKED": MOST_UNPACKED,
        "MAX_PREEMPTORS": MAX_PREEMPTORS,
        "PREEMPTOR_HOLD": PREEMPTOR_HOLD_MS,
        "THREADS_KNOWN": THREADS_KNOWN_MS,
        "TOLERATED_MS": queue_time.TOLERATED_MS,
        "RECOVERY": admission.RECOVERY,
        "LOOK_AGAIN": admission.LOOK_AGAIN,
        "HIGHER_TIERS": admission.HIGHER_TIERS,
        "LEAST_FACTOR": breaker.LEAST_FACTOR,
        "DEEPEST_CUT": breaker.DEEPEST_CUT,
        "CUT_INTERVAL": breaker.CUT_INTERVAL,
        "MOST_DOUBLINGS": breaker.MOST_DOUBLINGS,
        "GUARANTEED": list(shares.guaranteed),
        "CEILINGS": list(shares.ceilings),
        "DEFAULTS": {name: fields_of(limits) for name, limits in DEFAULT_LIMITS.items()},
    }
    return "\n".join(f"local {name} = {_lua(value)}" for name, value in values.items())


def fields_of(limits: Limits) -> list[Any]:
    """Return limits as the scripts know them, see `lua/pools.lua`."""
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
    ]


def _lua(value: object) -> str:
    """Write names, numbers, lists and mappings as Lua."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"[{_lua(name)}] = {_lua(each)}" for name, each in value.items()) + "}"
    if isinstance(value, list):
        return "{" + ", ".join(map(_lua, value)) + "}"
    return f'"{value}"' if isinstance(value, str) else repr(value)


def _text(reply: Any) -> Any:
    """Return a reply with text in place of bytes, whatever the client was told."""
    if isinstance(reply, bytes):
        return reply.decode()
    return [_text(each) for each in reply] if isinstance(reply, list) else reply
