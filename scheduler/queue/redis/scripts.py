"""Calls of the Lua scripts of the queue in Redis: by hash, with their errors translated.

Every script is idempotent: it stores its reply under the name of the call. After a lost reply, redis-py can send the
same call again.
"""

from __future__ import annotations

import itertools
import json
import os
import secrets
from collections.abc import Callable
from typing import Any

import redis
from duetime.scheduler.queue.port import QueueDamaged, QueueLost, QueueUnavailable
from duetime.scheduler.queue.redis.source import LAYOUT_VERSION, SCRIPTS, script_source
from redis.backoff import ExponentialBackoff
from redis.retry import Retry

SCRIPT_TIMEOUT_S = 3.0
"""Seconds until a script without a reply is sent again, and until a connection attempt fails."""

MAX_SCRIPT_RETRIES = 2

MAX_ANSWERS_KEPT = 256
"""Stored replies per process: more than it can have calls in flight."""

MAX_DAMAGE_CHARS = 200

SERVER_ERRORS = (
    *("BUSY", "CLUSTERDOWN", "CROSSSLOT", "DENIED", "LOADING", "MASTERDOWN", "MISCONF", "MOVED", "NOAUTH", "NOPERM"),
    *("NOREPLICAS", "NOSCRIPT", "OOM", "READONLY", "TRYAGAIN", "UNKILLABLE", "WRONGPASS", "command", "killed"),
    "max number of clients",
)
"""Words of errors that the state or the configuration of the server causes, and not the keys of the queue."""


def connect(url: str) -> redis.Redis:
    """Return a client for scripts. It connects with the first call."""
    retry = Retry(ExponentialBackoff(cap=0.2, base=0.02), MAX_SCRIPT_RETRIES)
    return redis.Redis.from_url(
        url, socket_timeout=SCRIPT_TIMEOUT_S, socket_connect_timeout=SCRIPT_TIMEOUT_S, retry=retry
    )


class Scripts:
    """The scripts over one namespace. `clock`, milliseconds since 1970, replaces the server's time."""

    def __init__(self, client: redis.Redis, key: str, clock: Callable[[], float] | None) -> None:
        self.keys = [key, f"{key}:baton"]
        self._clock = clock
        self._me = secrets.token_hex(6)
        self._calls = itertools.count(1)
        self._scripts = {name: client.register_script(script_source((*parts, name))) for name, parts in SCRIPTS.items()}

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


def _text(reply: Any) -> Any:
    """Return a reply with text in place of bytes, whatever the client was told."""
    if isinstance(reply, bytes):
        return reply.decode()
    return [_text(each) for each in reply] if isinstance(reply, list) else reply
