"""Waits for the queue in Redis: one thread of a process listens for all waiting threads of that process.

The wakeup token lies in a list. A script that lets a run start puts it there unless it is there already. One process
takes it, calls take, and puts it back when it leaves runs behind. So no wakeup is lost between a take and a wait, and
each token wakes one process only. If that process dies, others resume at the time-out of their waits.

Redis ends a blocking command up to 0.1 s late. So the listener measures the time itself, and shortly before its end
pushes to a list of its own on another connection. Redis then replies at once, without a command that an ACL may refuse.
A token that arrived first is in that reply, so the listener never takes one unnoticed.

A command that is sent behind the blocking one runs as soon as that ends, without a round trip.
"""

from __future__ import annotations

import logging
import os
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import Condition
from typing import Any

import redis
from duetime.scheduler.queue.redis.scripts import SCRIPT_TIMEOUT_S, translated
from duetime.scheduler.rules.limits.admission import HEADROOM_TIER_COUNT
from duetime.scheduler.rules.shares import TIER_COUNT
from redis.backoff import NoBackoff
from redis.retry import Retry

MAX_BLOCKING_S = 2.0
"""Seconds for which one command may block Redis, which bounds the time until a dead connection is noticed."""

MIN_EARLY_S, MAX_EARLY_S = 0.005, 0.03
"""Bounds, in seconds, of how long before the end of a wait the listener pushes: as long as pushes took lately.

On an idle machine that is some milliseconds, most of them until the thread is awake; the rest is slept.
"""

WAIT_MARGIN_S = 0.1
"""Seconds after the end of a wait at which Redis ends it itself, if the process died or could not push."""

WAKE_TOKEN_TTL_S = 60
"""Seconds after which an unread push of `wake` expires."""

Command = tuple[str | float, ...]
_TIME: Command = ("TIME",)

log = logging.getLogger(__name__)


def connect(url: str) -> redis.Redis:
    """Return a client for waits: it never retries, and no command blocks for ever."""
    return redis.Redis.from_url(
        url,
        socket_timeout=SCRIPT_TIMEOUT_S,
        socket_connect_timeout=SCRIPT_TIMEOUT_S,
        retry=Retry(NoBackoff(), 0),
    )


@dataclass(frozen=True, slots=True)
class FollowUp:
    """The reply to a command that Redis ran behind a wait, not before `asked_at` (monotonic seconds)."""

    reply: str | bytes
    generation: int
    asked_at: float


class WakeupToken:
    """Waits for the token at `key` + `:baton`, or for those of urgent tiers; `generation` counts received tokens."""

    def __init__(self, client: redis.Redis, key: str) -> None:
        self._client = client
        self._wakeup = f"{key}:baton"
        self._mine = f"{key}:woken:{secrets.token_hex(6)}-{os.getpid()}"
        self._changed = Condition()
        self._listening = False
        self._before = MIN_EARLY_S
        self.generation = 0

    def wait(self, generation: int, timeout: float, tier: int = TIER_COUNT, lanes: Sequence[str] = ()) -> None:
        """Return when a token arrived since `generation`, or after `timeout` seconds.

        A process that may start only critical or high runs, up to `tier`, leaves the other tokens to others. So does
        one without the handlers of a lane. It listens for lanes that do not exist too: they may before it ends.
        """
        until, before = time.monotonic() + timeout, self._before
        while self._shall_listen(generation, until, before):
            arrived = False
            try:
                with translated():
                    arrived = self._listen(
                        min(until - before, time.monotonic() + MAX_BLOCKING_S), self._tokens(tier, lanes)
                    )
            finally:
                self._stop_listening(arrived=arrived)

    def wait_and_run(
        self, generation: int, timeout: float, command: Command, lanes: Sequence[str] = ()
    ) -> FollowUp | None:
        """Wait for a token, for two seconds at most, and run a command; None if it is still to be run.

        The command may have run all the same, so it must be one that may run twice.
        """
        until, before = time.monotonic() + min(timeout, MAX_BLOCKING_S), self._before
        if not self._shall_listen(generation, until, before):
            return None
        arrived = False
        try:
            with translated(), self._connected() as connection, self._connected() as another:
                sent_at, left = time.monotonic(), until - before - time.monotonic()
                self._send(connection, _TIME, self._blocking(left, self._tokens(TIER_COUNT, lanes)), _TIME, command)
                began = _seconds(connection.read_response())
                arrived = self._arrived(connection, another, until - before)
                waited = max(0.0, _seconds(connection.read_response()) - began)
                reply = _reply(connection)
        finally:
            self._stop_listening(arrived=arrived)
        return None if reply is None else FollowUp(reply, generation + arrived, sent_at + waited)

    def wake(self) -> None:
        """End every wait of this process."""
        with self._changed:
            self.generation += 1
            self._changed.notify_all()
            listening = self._listening
        if listening:
            with suppress(redis.RedisError), self._connected() as connection:
                self._end_listening(connection)  # on failure the listener has the same trouble, and ends by it

    def close(self) -> None:
        """End every wait; return when the connections are unused, or after some seconds."""
        self.wake()
        with self._changed:
            self._changed.wait_for(lambda: not self._listening, SCRIPT_TIMEOUT_S)

    def _shall_listen(self, generation: int, until: float, before: float) -> bool:
        """Wait while another thread listens; True when this one must listen, False when the wait is over."""
        with self._changed:
            self._wait_for(lambda: self.generation != generation or not self._listening, until)
            if until - time.monotonic() <= before:  # too short to listen for; the next take finds what comes now
                self._wait_for(lambda: self.generation != generation, until)
            elif self.generation == generation and not self._listening:
                self._listening = True
                return True
            return False

    def _wait_for(self, condition: Callable[[], bool], until: float) -> None:
        self._changed.wait_for(condition, max(0.0, until - time.monotonic()))

    def _tokens(self, tier: int, lanes: Sequence[str]) -> list[str]:
        tiers = [""] if tier > HEADROOM_TIER_COUNT else [f":{each}" for each in range(1, tier + 1)]
        return [f"{self._wakeup}{each}{lane}" for each in tiers for lane in ("", *lanes)]

    def _listen(self, until: float, tokens: list[str]) -> bool:
        """Return whether a token, or a call to `wake`, arrived before `until`."""
        with self._connected() as connection, self._connected() as another:
            self._send(connection, self._blocking(until - time.monotonic(), tokens))
            return self._arrived(connection, another, until)

    def _blocking(self, left_s: float, tokens: list[str]) -> Command:
        return ("BLPOP", self._mine, *tokens, max(0.0, left_s) + WAIT_MARGIN_S)

    def _send(self, connection: Any, *commands: Command) -> None:
        connection.send_packed_command(connection.pack_commands(commands))

    def _arrived(self, connection: Any, another: Any, until: float) -> bool:
        """Read the reply to the blocking command that was sent."""
        if connection.can_read(max(0.0, until - time.monotonic())):
            return connection.read_response() is not None
        ended = self._end_listening(another)
        answer = connection.read_response()
        self._before = min(MAX_EARLY_S, max(MIN_EARLY_S, time.monotonic() - until, self._before * 0.9))
        if answer is not None and answer[0] in (self._mine, self._mine.encode()):
            return False
        if ended:
            self._client.delete(self._mine)  # else a late push ends the next wait
        return answer is not None

    def _end_listening(self, connection: Any) -> bool:
        """Make Redis reply to the listener of this process; False when it refuses the command."""
        commands: Sequence[Command] = (("LPUSH", self._mine, "1"), ("EXPIRE", self._mine, WAKE_TOKEN_TTL_S))
        self._send(connection, *commands)
        refused: list[Exception] = []
        for _ in commands:
            try:
                connection.read_response()
            except redis.ResponseError as error:  # out of memory, say: Redis ends the wait itself, later
                refused.append(error)
                log.debug("cannot end a wait: %s", error)
        return not refused

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        """Lend a connection; one with an unread reply is closed, so that it takes no token any more."""
        connections: Any = self._client.connection_pool
        connection = connections.get_connection()
        try:
            yield connection
        except BaseException:
            connection.disconnect()
            raise
        finally:
            connections.release(connection)

    def _stop_listening(self, *, arrived: bool) -> None:
        with self._changed:
            self._listening = False
            self.generation += arrived
            self._changed.notify_all()


def _seconds(time_reply: Sequence[str | bytes]) -> float:
    seconds, microseconds = time_reply
    return int(seconds) + int(microseconds) / 1e6


def _reply(connection: Any) -> str | bytes | None:
    """Return the reply to a command; None when Redis refused it, or does not know its script."""
    try:
        found: str | bytes = connection.read_response()
    except redis.ResponseError:
        return None
    return found
