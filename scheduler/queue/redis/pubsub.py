"""Signals between processes on many machines, over Redis pub/sub: a signal without a listener is lost.

Channel: `{<namespace>}:news`. A message is `<sender> <signal>`, so that a sender can ignore its own.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable
from contextlib import suppress

import redis
from duetime.scheduler.runtime.loop import Loop
from redis.backoff import NoBackoff
from redis.client import PubSub
from redis.retry import Retry

PUBLISH_TIMEOUT_S = 2.0
"""Seconds for which sending may delay the sender."""

HEALTH_CHECK_INTERVAL_S = 10
"""Seconds of silence after which the connection is probed, because a dead connection is silent too."""

LISTEN_RETRY_DELAY_S = 1.0
"""Seconds until a listener reconnects after its connection broke."""

log = logging.getLogger(__name__)


class RedisSignalBus:
    """Sends signals to, and receives them from, all processes on the same `namespace` of the same Redis."""

    def __init__(self, url: str, *, namespace: str = "duetime") -> None:
        self._client = redis.Redis.from_url(
            url,
            decode_responses=True,
            socket_timeout=PUBLISH_TIMEOUT_S,
            socket_connect_timeout=PUBLISH_TIMEOUT_S,
            health_check_interval=HEALTH_CHECK_INTERVAL_S,
            retry=Retry(NoBackoff(), 0),
        )
        self._channel = f"{{{namespace}}}:news"
        self._me = secrets.token_hex(8)
        self._subscription: PubSub | None = None
        self._on_signal: Callable[[str], None] = lambda _: None
        self._loop = Loop("signals", self._step)

    def send(self, word: str) -> None:
        try:
            self._client.publish(self._channel, f"{self._me} {word}")
        except redis.RedisError as error:
            log.debug("cannot publish a change: %s", error)

    def listen(self, on_signal: Callable[[str], None]) -> None:
        self._on_signal = on_signal
        self._loop.start()

    def close(self) -> None:
        self._loop.stop(0)
        if self._subscription is not None:
            self.send("")  # an empty signal is ignored by others, and ends the wait of this listener
        self._loop.stop(PUBLISH_TIMEOUT_S)
        with suppress(redis.RedisError):
            self._client.close()

    def _step(self) -> float:
        try:
            message = self._subscribed().get_message(ignore_subscribe_messages=True, timeout=HEALTH_CHECK_INTERVAL_S)
        except (redis.RedisError, OSError) as error:
            log.debug("cannot receive changes: %s", error)
            self._subscription = None
            return LISTEN_RETRY_DELAY_S
        sender, _, word = str(message["data"] if message else "").partition(" ")
        if word and sender != self._me:
            self._on_signal(word)
        return 0.0

    def _subscribed(self) -> PubSub:
        if self._subscription is None:
            subscription = self._client.pubsub()  # type: ignore[no-untyped-call]  # redis-py leaves it untyped
            subscription.subscribe(self._channel)
            self._subscription = subscription
        return self._subscription
