"""Waiting for the queue in Redis: one thread of a process listens for all of its waiting threads.

The baton is a token in a list. A script that lets something start puts it there unless it lies there; one process
takes it, looks, and passes it on when it leaves something behind. So nothing is missed between a take and a wait, one
process is woken and not all, and a baton that dies with its bearer costs no more than the time-out of the next wait.
"""

from __future__ import annotations

import os
import secrets
import time
from contextlib import suppress
from threading import Condition

import redis
from duetime.scheduler.queue.redis_scripts import PATIENCE, translated
from redis.backoff import NoBackoff
from redis.retry import Retry

LONGEST = 2.0
"""Seconds that one question to Redis may block: so much later a dead connection is noticed."""

OVERSHOOT = 0.11
"""Seconds by which Redis may end a blocking wait too late, as it looks at time-outs ten times a second."""

GLANCE = 0.02
"""Seconds between two looks during the last part of a wait, which Redis would end too late."""

LEFTOVER = 60
"""Seconds after which a call to `wake` that nobody heard is forgotten."""


def connect(url: str) -> redis.Redis:
    """Return a client for waits: it never asks twice, and never waits for ever."""
    return redis.Redis.from_url(
        url,
        socket_timeout=LONGEST + PATIENCE,
        socket_connect_timeout=PATIENCE,
        retry=Retry(NoBackoff(), 0),
    )


class Baton:
    """Waits for the token at `key` + `:baton`; `generation` counts what was heard."""

    def __init__(self, client: redis.Redis, key: str) -> None:
        self._client = client
        self._baton = f"{key}:baton"
        self._mine = f"{key}:woken:{secrets.token_hex(6)}-{os.getpid()}"
        self._changed = Condition()
        self._listening = False
        self.generation = 0

    def wait(self, generation: int, timeout: float) -> None:
        """Return when something was heard since `generation`, after `timeout` seconds at most."""
        until = time.monotonic() + timeout
        while self._shall_listen(generation, until):
            heard = False
            try:
                with translated():
                    heard = self._listen(until - time.monotonic())
            finally:
                self._stop_listening(heard=heard)

    def wake(self) -> None:
        """End every wait of this process."""
        with self._changed:
            self.generation += 1
            self._changed.notify_all()
            listening = self._listening
        if listening:
            with suppress(redis.RedisError):  # whoever listens has the same trouble, and ends by it
                pipeline = self._client.pipeline(transaction=False)
                pipeline.lpush(self._mine, "1")
                pipeline.expire(self._mine, LEFTOVER)
                pipeline.execute()

    def _shall_listen(self, generation: int, until: float) -> bool:
        """Wait while another thread listens; True when this one has to, False when the wait is over."""
        with self._changed:
            left = until - time.monotonic()
            self._changed.wait_for(lambda: self.generation != generation or not self._listening, max(0.0, left))
            if self.generation != generation or self._listening or until <= time.monotonic():
                return False
            self._listening = True
            return True

    def _listen(self, left: float) -> bool:
        if left > OVERSHOOT + GLANCE:
            return self._client.blpop([self._mine, self._baton], min(left - OVERSHOOT, LONGEST)) is not None
        time.sleep(max(0.0, min(left, GLANCE)))
        return self._client.lpop(self._baton) is not None or self._client.lpop(self._mine) is not None

    def _stop_listening(self, *, heard: bool) -> None:
        with self._changed:
            self._listening = False
            self.generation += heard
            self._changed.notify_all()
