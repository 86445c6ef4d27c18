"""Checks of a Redis server, for the doctor: its version, its eviction policy, and how fast it replies."""

from __future__ import annotations

from dataclasses import dataclass

import redis
from duetime.scheduler.queue.port import QueueUnavailable
from redis.backoff import NoBackoff
from redis.retry import Retry

HEALTHY_ANSWER_S = 2.0
"""Seconds within which a usable Redis replies."""


@dataclass(frozen=True, slots=True)
class RedisHealth:
    """Version (`Redis 7.4.1`, `Valkey 9.0.0`) and eviction policy of a server."""

    name: str
    version: tuple[int, ...]
    eviction: str


def examine(url: str) -> RedisHealth:
    """Query the server at `url`. Raises QueueUnavailable, with the reason and without the password."""
    client = redis.Redis.from_url(
        url, socket_timeout=HEALTHY_ANSWER_S, socket_connect_timeout=HEALTHY_ANSWER_S, retry=Retry(NoBackoff(), 0)
    )
    try:
        with client:
            info = client.info()
    except (redis.RedisError, OSError) as error:
        raise QueueUnavailable(f"{type(error).__name__}: {error}") from error
    name = "Valkey" if "valkey_version" in info else "Redis"
    version = str(info.get("valkey_version") or info.get("redis_version") or "0")
    numbers = tuple(int(part) for part in version.split(".") if part.isdigit())
    return RedisHealth(f"{name} {version}", numbers, str(info.get("maxmemory_policy", "unknown")))
