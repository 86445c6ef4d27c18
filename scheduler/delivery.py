"""The process that moves deliveries: sends what is due through its channel, and settles it with its own retries."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Final, Protocol

from duetime.scheduler.channels import Channel, ChannelError
from duetime.scheduler.outcomes import Retry
from duetime.scheduler.rules.retry import next_attempt
from duetime.scheduler.rules.text import clean_text
from duetime.scheduler.task import Delivery, InboxMessage, RetryPolicy

BATCH: Final = 8
MAX_ERROR: Final = 500
DELIVERY_RETRY: Final = RetryPolicy(max_attempts=6, backoff=timedelta(seconds=30), max_backoff=timedelta(hours=1))


class Outbox(Protocol):
    """The part of the store that is needed here."""

    def due(self, *, limit: int) -> list[tuple[Delivery, InboxMessage]]:
        """Give pending deliveries whose time has come."""

    def settle(
        self, delivery_id: str, attempts: int, *, delivered: bool, error: str | None, next_at: datetime | None
    ) -> bool:
        """Write the end of one try, unless the delivery has not `attempts` tries behind it any more."""

    def next_wake(self) -> datetime | None:
        """Give the time of the next due delivery."""


class Deliverer:
    """Sends through channels. A message is sent again only after a failure or a crash, and then under the same key."""

    def __init__(
        self,
        outbox: Outbox,
        channels: Mapping[str, Channel],
        *,
        policy: RetryPolicy = DELIVERY_RETRY,
        patience: timedelta = timedelta(seconds=60),
        draw: Callable[[], float] | None = None,
    ) -> None:
        self._outbox = outbox
        self._channels = channels
        self._policy = policy
        self._patience = patience
        self._draw = draw or random.SystemRandom().random

    def next_wake(self) -> datetime | None:
        """Give the time when `tick` has something to do next; None when nothing is pending."""
        return self._outbox.next_wake()

    def tick(self, now: datetime) -> int:
        """Send up to 8 due messages side by side, settle each, and give their number.

        Takes as long as the slowest channel, at most `patience`: call it on a thread of its own.
        """
        sendings = [_Sending(delivery, message, self._channels) for delivery, message in self._outbox.due(limit=BATCH)]
        for sending in sendings:
            sending.start()
        began = time.monotonic()
        for sending in sendings:
            sending.join(max(0.0, began + self._patience.total_seconds() - time.monotonic()))
            self._settle(sending, now + timedelta(seconds=time.monotonic() - began))
        return len(sendings)

    def _settle(self, sending: _Sending, now: datetime) -> None:
        delivery, error = sending.delivery, sending.error
        self._outbox.settle(
            delivery.id,
            delivery.attempts,
            delivered=error is None,
            error=clean_text(str(error), MAX_ERROR) if error else None,
            next_at=self._again(delivery, error, now),
        )

    def _again(self, delivery: Delivery, error: ChannelError | None, now: datetime) -> datetime | None:
        if error is None or error.permanent:
            return None
        failed = Retry(str(error), error.retry_after)
        return next_attempt(failed, failures=delivery.attempts + 1, policy=self._policy, now=now, jitter=self._draw())


class _Sending(threading.Thread):
    """One send on its own thread, so that a channel that hangs holds up nobody else."""

    def __init__(self, delivery: Delivery, message: InboxMessage, channels: Mapping[str, Channel]) -> None:
        super().__init__(name=f"duetime-delivery-{delivery.channel}", daemon=True)
        self.delivery = delivery
        self.error: ChannelError | None = ChannelError("no answer in time")
        self._message = message
        self._channels = channels

    def run(self) -> None:
        self.error = self._sent()

    def _sent(self) -> ChannelError | None:
        try:
            channel = self._channels[self.delivery.channel]
        except KeyError:
            return ChannelError(f"no channel {self.delivery.channel!r} is configured any more")
        try:
            channel.send(self._message, key=self.delivery.run_id)
        except ChannelError as error:
            return error
        except Exception as error:  # noqa: BLE001 - a library's own exceptions fail this delivery, never the process
            return ChannelError(f"{type(error).__name__} in channel {channel.name}")
        return None
