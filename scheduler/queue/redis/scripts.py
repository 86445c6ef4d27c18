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
    DAMAGE_KNOWN_MS,
    DEFAULT_LIMITS,
    MAX_CLASSES_PER_TAKE,
    MAX_LEASES_PER_REAP,
    MAX_OVERDUE_PER_TAKE,
    MAX_PREEMPTORS,
    MAX_PROMOTED_PER_TAKE,
    MAX_RUNS_COUNTED_AHEAD,
    MAX_SIZES_PER_WAKE,
    MAX_TIMERS_PER_TAKE,
    MAX_TURNS_REFRESHED,
    MIN_DAMAGE_INTERVAL_MS,
    PREEMPTOR_HOLD_MS,
    THREADS_KNOWN_MS,
)
from duetime.scheduler.queue.port import QueueDamaged, QueueLost, QueueUnavailable
from duetime.scheduler.rules import turns
from duetime.scheduler.rules.limits import admission, breaker, queue_time, start_log
from duetime.scheduler.rules.limits.admission import Limits
from duetime.scheduler.rules.shares import MAX_DISPATCHES_SAVED, Shares
from redis.backoff import ExponentialBackoff
from redis.retry import Retry

LAYOUT_VERSION = 3
"""Version of the stored keys: a process refuses a namespace of a newer version, and refills one of an older version."""

SCRIPT_TIMEOUT_S = 3.0
"""Seconds until a script without a reply is sent again, and until a connection attempt fails."""

MAX_SCRIPT_RETRIES = 2
SIZE_SCORES_PER_TIER = 2**48
"""More units than any pool has: sizes are sorted by tier, then by units, in one number."""

ANSWER_TTL_MS = 60_000
"""Milliseconds for which a reply is stored: longer than all retries together."""

MAX_ANSWERS_KEPT = 256
"""Stored replies per process: more than it can have calls in flight."""

MAX_LEASES_SCANNED = 2000
"""Leases that are examined for whether they hold a pool."""

MAX_ARGUMENTS_UNPACKED = 2000
"""Arguments of one command in a script, an even number: Lua fails at 8,000."""

MAX_DAMAGE_CHARS = 200

SERVER_ERRORS = (
    *("BUSY", "CLUSTERDOWN", "CROSSSLOT", "DENIED", "LOADING", "MASTERDOWN", "MISCONF", "MOVED", "NOAUTH", "NOPERM"),
    *("NOREPLICAS", "NOSCRIPT", "OOM", "READONLY", "TRYAGAIN", "UNKILLABLE", "WRONGPASS", "command", "killed"),
    "max number of clients",
)
"""Words of errors that the state or the configuration of the server causes, and not the keys of the queue."""

_PARTS = ("state", "start_log", "pools", "turns", "classes", "leases")
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
    retry = Retry(ExponentialBackoff(cap=0.2, base=0.02), MAX_SCRIPT_RETRIES)
    return redis.Redis.from_url(
        url, socket_timeout=SCRIPT_TIMEOUT_S, socket_connect_timeout=SCRIPT_TIMEOUT_S, retry=retry
    )


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
        return self._run(name, f"{self._me}-{os.getpid()}:{number % MAX_ANSWERS_KEPT}", number, args)

    def command(self, name: str, *args: str | float) -> tuple[str | float, ...]:
        """Return the command that runs a script as `ask` does; the server may not know the script."""
        script = self._scripts[name]
        return ("EVALSHA", script.sha, len(self.keys), *self.keys, self._now(), "", 0, json.dumps(args))

    def _now(self) -> str | float:
        return "" if self._clock is None else self._clock()

    def _run(self, name: str, slot: str, number: int, args: tuple[str | float, ...]) -> Any:
        with translated():
            return _text(self._scripts[name](keys=self.keys, args=[self._now(), slot, number, json.dumps(args)]))


class translated:  # noqa: N801 - reads like a function
    """Translate exceptions of redis-py into those of the port.

    An error of a script or command that no state of the server explains means that stored keys are `damaged`.
    """

    def __init__(self, *, damaged: bool = True) -> None:
        self._damaged = damaged

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if not isinstance(error, redis.RedisError):
            return
        if "NOEPOCH" in str(error):
            raise QueueLost("the queue in Redis is empty: it must be rebuilt from the database") from error
        if "NEWER" in str(error):
            raise QueueUnavailable(
                f"a newer Duetime built the queue in Redis; this version knows layout {LAYOUT_VERSION}: "
                'upgrade this process, or give it a namespace of its own, for example "duetime-old"'
            ) from error
        if self._damaged and _is_damage(error):
            raise QueueDamaged(f"the queue in Redis is damaged: {str(error)[:MAX_DAMAGE_CHARS]}") from error
        raise QueueUnavailable(f"the queue in Redis does not answer: {error}") from error


def _is_damage(error: redis.RedisError) -> bool:
    """Whether keys cause an error: redis-py has a type of its own for most errors that the server causes."""
    return type(error) is redis.ResponseError and not any(word in str(error) for word in SERVER_ERRORS)


def _source(name: str) -> str:
    return resources.files("duetime.scheduler.queue.redis").joinpath("lua", f"{name}.lua").read_text("utf-8")


def _constants(shares: Shares) -> str:
    """Return the numbers that Lua shares with `rules` and the queue in memory, as Lua, under the same names."""
    values = {
        "ANSWER_TTL_MS": ANSWER_TTL_MS,
        "CALM_AFTER_MS": CALM_AFTER_MS,
        "CALM_PERIOD_MS": CALM_PERIOD_MS,
        "DAMAGE_KNOWN_MS": int(DAMAGE_KNOWN_MS),
        "LAYOUT_VERSION": LAYOUT_VERSION,
        "MAX_ARGUMENTS_UNPACKED": MAX_ARGUMENTS_UNPACKED,
        "MAX_CLASSES_PER_TAKE": MAX_CLASSES_PER_TAKE,
        "MAX_LEASES_PER_REAP": MAX_LEASES_PER_REAP,
        "MAX_LEASES_SCANNED": MAX_LEASES_SCANNED,
        "MAX_OVERDUE_PER_TAKE": MAX_OVERDUE_PER_TAKE,
        "MAX_PREEMPTORS": MAX_PREEMPTORS,
        "MAX_PROMOTED_PER_TAKE": MAX_PROMOTED_PER_TAKE,
        "MAX_RUNS_COUNTED_AHEAD": MAX_RUNS_COUNTED_AHEAD,
        "MAX_SIZES_PER_WAKE": MAX_SIZES_PER_WAKE,
        "MAX_TIMERS_PER_TAKE": MAX_TIMERS_PER_TAKE,
        "MAX_TURNS_REFRESHED": MAX_TURNS_REFRESHED,
        "MIN_DAMAGE_INTERVAL_MS": MIN_DAMAGE_INTERVAL_MS,
        "PREEMPTOR_HOLD_MS": PREEMPTOR_HOLD_MS,
        "SIZE_SCORES_PER_TIER": SIZE_SCORES_PER_TIER,
        "THREADS_KNOWN_MS": THREADS_KNOWN_MS,
        "HEADROOM_TIER_COUNT": admission.HEADROOM_TIER_COUNT,
        "THROTTLE_CHECK_INTERVAL_MS": admission.THROTTLE_CHECK_INTERVAL_MS,
        "THROTTLE_RECOVERY_MS": admission.THROTTLE_RECOVERY_MS,
        "CUT_INTERVAL_MS": breaker.CUT_INTERVAL_MS,
        "MAX_COOLDOWN_DOUBLINGS": breaker.MAX_COOLDOWN_DOUBLINGS,
        "MAX_CUT_RATIO": breaker.MAX_CUT_RATIO,
        "MIN_THROTTLE_RATIO": breaker.MIN_THROTTLE_RATIO,
        "MAX_CLOCK_STEP_MS": queue_time.MAX_CLOCK_STEP_MS,
        "MAX_LOG_SLOTS": start_log.MAX_LOG_SLOTS,
        "MAX_DISPATCHES_SAVED": MAX_DISPATCHES_SAVED,
        "TENANT_FORGOTTEN_AFTER_MS": turns.TENANT_FORGOTTEN_AFTER_MS,
        "TURN_STEP_MS": turns.TURN_STEP_MS,
        "GUARANTEED": list(shares.guaranteed),
        "CEILINGS": list(shares.ceilings),
        "DEFAULT_LIMITS": {name: fields_of(limits) for name, limits in DEFAULT_LIMITS.items()},
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


def _text(reply: Any) -> Any:
    """Return a reply with text in place of bytes, whatever the client was told."""
    if isinstance(reply, bytes):
        return reply.decode()
    return [_text(each) for each in reply] if isinstance(reply, list) else reply
