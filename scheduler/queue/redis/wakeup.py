"""Waiting for the queue in Redis: one thread of a process listens for all of its waiting threads.

The baton is a token in a list. A script that lets something start puts it there unless it lies there; one process
takes it, looks, and passes it on when it leaves something behind. So nothing is missed between a take and a wait, one
process is woken and not all, and a baton that dies with its bearer costs no more than the time-out of the next wait.

Redis ends what it blocks up to a tenth of a second late. So whoever listens watches the time himself, and shortly
before it is over he puts something into a list of his own, on another connection: then Redis answers at once, without
a command that an ACL may refuse. When a baton was faster, it is in that answer: nobody takes one without hearing of it.
"""

from __future__ import annotations

import logging
import os
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Condition
from typing import Any

import redis
from duetime.scheduler.queue.redis.scripts import PATIENCE, translated
from duetime.scheduler.rules.limits.admission import HIGHER_TIERS
from duetime.scheduler.rules.shares import TIERS
from redis.backoff import NoBackoff
from redis.retry import Retry

LONGEST = 2.0
"""Seconds that one question to Redis may block: so much later a dead connection is noticed."""

LEAST_BEFORE, MOST_BEFORE = 0.005, 0.03
"""Seconds before the end of a wait at which Redis is asked to answer: as long as that took lately, within these.

On an idle machine that is some milliseconds, most of them until the thread is awake; what is left is slept.
"""

NET = 0.1
"""Seconds later Redis ends a wait by itself: of a process that died, or when it lets nobody else do it."""

LEFTOVER = 60
"""Seconds after which a call to `wake` that nobody heard is forgotten."""

log = logging.getLogger(__name__)


def connect(url: str) -> redis.Redis:
    """Return a client for waits: it never asks twice, and never waits for ever."""
    return redis.Redis.from_url(
        url,
        socket_timeout=PATIENCE,
        socket_connect_timeout=PATIENCE,
        retry=Retry(NoBackoff(), 0),
    )


class WakeupToken:
    """Waits for the token at `key` + `:baton`, or for those of urgent tiers; `generation` counts what was heard."""

    def __init__(self, client: redis.Redis, key: str) -> None:
        self._client = client
        self._wakeup = f"{key}:baton"
        self._mine = f"{key}:woken:{secrets.token_hex(6)}-{os.getpid()}"
        self._changed = Condition()
        self._listening = False
        self._before = LEAST_BEFORE
        self.generation = 0

    def wait(self, generation: int, timeout: float, tier: int = TIERS) -> None:
        """Return when something was heard since `generation`, after `timeout` seconds at most.

        One who may take critical or high runs only, up to `tier`, leaves the other tokens to whoever may take them.
        """
        until, before = time.monotonic() + timeout, self._before
        while self._shall_listen(generation, until, before):
            heard = False
            try:
                with translated():
                    heard = self._listen(min(until - before, time.monotonic() + LONGEST), self._tokens(tier))
            finally:
                self._stop_listening(heard=heard)

    def wake(self) -> None:
        """End every wait of this process."""
        with self._changed:
            self.generation += 1
            self._changed.notify_all()
            listening = self._listening
        if listening:
            with suppress(redis.RedisError), self._connected() as connection:
                self._end_listening(connection)  # when it fails: whoever listens has the same trouble, and ends by it

    def close(self) -> None:
        """End every wait, and return when nobody uses the connections any more, or does not stop within seconds."""
        self.wake()
        with self._changed:
            self._changed.wait_for(lambda: not self._listening, PATIENCE)

    def _shall_listen(self, generation: int, until: float, before: float) -> bool:
        """Wait while another thread listens; True when this one has to, False when the wait is over."""
        with self._changed:
            self._wait_for(lambda: self.generation != generation or not self._listening, until)
            if until - time.monotonic() <= before:  # too little to ask for; what comes now, the next take finds
                self._wait_for(lambda: self.generation != generation, until)
            elif self.generation == generation and not self._listening:
                self._listening = True
                return True
            return False

    def _wait_for(self, condition: Callable[[], bool], until: float) -> None:
        self._changed.wait_for(condition, max(0.0, until - time.monotonic()))

    def _tokens(self, tier: int) -> list[str]:
        return [self._wakeup] if tier > HIGHER_TIERS else [f"{self._wakeup}:{each}" for each in range(1, tier + 1)]

    def _listen(self, until: float, tokens: list[str]) -> bool:
        """Return whether one of the tokens, or a call to `wake`, came before `until`."""
        with self._connected() as connection, self._connected() as another:
            return self._heard(connection, another, until, tokens)

    def _heard(self, connection: Any, another: Any, until: float, tokens: list[str]) -> bool:
        left = max(0.0, until - time.monotonic())
        connection.send_command("BLPOP", self._mine, *tokens, left + NET)
        if connection.can_read(left):
            return connection.read_response() is not None
        ended = self._end_listening(another)
        answer = connection.read_response()
        self._before = min(MOST_BEFORE, max(LEAST_BEFORE, time.monotonic() - until, self._before * 0.9))
        if answer is not None and answer[0] in (self._mine, self._mine.encode()):
            return False
        if ended:
            self._client.delete(self._mine)  # else what came too late to end this wait ends the next one
        return answer is not None

    def _end_listening(self, connection: Any) -> bool:
        """Let Redis answer whoever listens in this process; False when it does not take that."""
        commands = (("LPUSH", self._mine, "1"), ("EXPIRE", self._mine, LEFTOVER))
        connection.send_packed_command(connection.pack_commands(commands))
        refused: list[Exception] = []
        for _ in commands:
            try:
                connection.read_response()
            except redis.ResponseError as error:  # it is full, for example: then it ends the wait by itself, a bit late
                refused.append(error)
                log.debug("a wait cannot be ended: %s", error)
        return not refused

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        """Lend a connection; one whose answer was not read stands in no line for the baton any more."""
        connections: Any = self._client.connection_pool
        connection = connections.get_connection()
        try:
            yield connection
        except BaseException:
            connection.disconnect()
            raise
        finally:
            connections.release(connection)

    def _stop_listening(self, *, heard: bool) -> None:
        with self._changed:
            self._listening = False
            self.generation += heard
            self._changed.notify_all()
