"""The loop that sends due deliveries through their channels, and settles each with retries of its own."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from duetime.scheduler.delivery import ChannelError, Channels
from duetime.scheduler.delivery.attempt import DeliveryAttempt
from duetime.scheduler.delivery.channel import MissingChannelError
from duetime.scheduler.delivery.digest import SentMessage, digests, failures_mixed
from duetime.scheduler.delivery.outbox import Outbox
from duetime.scheduler.delivery.quiet_hours import NEVER_QUIET, QuietPlan
from duetime.scheduler.outcomes import Retry
from duetime.scheduler.rules.retry import MIN_CHANNEL_FAILURES, next_attempt
from duetime.scheduler.rules.sanitize import clean_text
from duetime.scheduler.runtime.traces import NO_TRACING, Tracing
from duetime.scheduler.task import Delivery, InboxMessage, RetryPolicy, State

MAX_DELIVERIES_PER_TICK: Final = 8
"""Messages sent per tick."""

MAX_DUE_ROWS_PER_TICK: Final = 256
"""Due deliveries read per tick; channels take turns in it, so that a hanging one does not fill it."""

MAX_THREADS_PER_CHANNEL: Final = 2
"""Threads per channel, the only bound: whatever number of channels hang, another one has its own threads."""

DELIVERY_PAUSE: Final = timedelta(seconds=1)
"""Seconds for which a hanging channel may delay the next batch."""

DELIVERY_LEASE: Final = timedelta(seconds=30)
"""Lease of a delivery, renewed at half of it; after a crash another process sends it when the lease expires."""

MAX_FINISH: Final = timedelta(seconds=5)
"""Time for which the end of a process waits for sends that are under way."""

MAX_DELIVERY_ERROR_CHARS: Final = 500
DELIVERY_RETRY: Final = RetryPolicy(max_attempts=20, backoff=timedelta(seconds=15), max_backoff=timedelta(hours=4))
"""Tries for about a day, as each wait is half of its ceiling on average: a receiver may be away for a night."""


class Deliverer:
    """Sends through channels. A message is sent again only after a failure or a crash, and then under the same key.

    A send without an answer within `patience` has failed. A hanging channel delays no other one. Several processes may
    send from one outbox: one of them gets a message. An outcome that a channel does not take is dropped.
    """

    def __init__(
        self,
        outbox: Outbox,
        channels: Channels,
        *,
        policy: RetryPolicy = DELIVERY_RETRY,
        patience: timedelta = timedelta(seconds=60),
        quiet: QuietPlan = NEVER_QUIET,
        draw: Callable[[], float] | None = None,
        tracing: Tracing = NO_TRACING,
    ) -> None:
        self._outbox = outbox
        self._tracing = tracing
        self.channels = channels
        self._policy = policy
        self._patience = patience.total_seconds()
        self._quiet = quiet
        self._draw = draw or random.SystemRandom().random
        self._sendings: list[DeliveryAttempt] = []
        self._taken_at: dict[str, datetime] = {}
        self._failing: set[str] = set()
        self._answered = threading.Condition()
        self._hurried = False

    def next_wake(self) -> datetime | None:
        """Return the time of the next useful `tick`; None when nothing is pending."""
        times = [sending.delivery.next_at for sending in self._sendings if not sending.settled]
        return min((at for at in (self._outbox.next_wake(), *times) if at is not None), default=None)

    def tick(self, now: datetime) -> int:
        """Send up to 8 due messages in parallel, settle answered ones, and return how many were sent.

        Takes as long as the slowest channel, at most a second; a later tick settles slower ones. Call it on one thread.
        """
        began = time.monotonic()
        ends = began + min(DELIVERY_PAUSE.total_seconds(), self._patience)
        waiting, sent = self._waiting(now), 0
        while True:
            before = len(waiting)
            sent += self._start(waiting, MAX_DELIVERIES_PER_TICK - sent, began + self._patience)
            moment = time.monotonic()
            self._hold(moment)
            settled = self._settle_answered(now + timedelta(seconds=moment - began), moment)
            if self._hurried or moment >= ends or self._through(waiting, sent):
                return sent
            if len(waiting) == before and not settled:  # otherwise there may be threads for more
                self._wait(ends - moment)

    def finish(self, now: datetime, grace: timedelta) -> None:
        """Settle the sends that answer within `grace`, which would be repeated; call it after the last tick.

        Returns within 5 seconds, and soon after `hurry`.
        """
        began = moment = time.monotonic()
        ends = began + min(grace, MAX_FINISH).total_seconds()
        while True:
            self._settle_answered(now + timedelta(seconds=moment - began), moment)
            if self._hurried or moment >= ends or all(sending.settled for sending in self._sendings):
                return
            self._wait(ends - moment)
            moment = time.monotonic()

    def hurry(self) -> None:
        """Shorten a tick and `finish`, also while they wait. May be called from any thread."""
        self._hurried = True
        self._answer()

    def _waiting(self, now: datetime) -> list[DeliveryAttempt]:
        """Return due deliveries that no thread sends yet; those that quiet hours held become one message."""
        on_the_way = {each.id for sending in self._sendings if not sending.settled for each in sending.deliveries}
        due = [pair for pair in self._outbox.due(limit=MAX_DUE_ROWS_PER_TICK) if pair[0].id not in on_the_way]
        quiet = self._quiet.with_stored({(message.tenant, message.user) for _, message in due})
        groups = failures_mixed(digests(self._put_off(self._taken(due), now, quiet), quiet), self._draw)
        return [DeliveryAttempt(group, self.channels, self._answer, self._tracing) for group in groups]

    def _put_off(self, due: list[SentMessage], now: datetime, quiet: QuietPlan) -> list[SentMessage]:
        """Return what may be sent now, and put off to the end of quiet hours what is not urgent."""
        ends = {
            delivery.id: end
            for delivery, message in due
            if not delivery.attempts and (hours := quiet.of(message.tenant, message.user)) and (end := hours.until(now))
        }
        urgent = self._outbox.urgent(ends) if ends else set()
        held = {delivery_id: end for delivery_id, end in ends.items() if delivery_id not in urgent}
        if held:
            self._outbox.postpone(held)
        return [pair for pair in due if pair[0].id not in held]

    def _taken(self, due: list[tuple[Delivery, InboxMessage]]) -> list[tuple[Delivery, InboxMessage]]:
        """Return the deliveries whose channels take their outcomes; drop the others, which only the inbox keeps.

        A run that succeeded unverified is a failure to a channel that takes no success.
        """
        left = [delivery for delivery, message in due if not self.channels.takes(delivery.channel, message.state)]
        if not left:
            return due
        of_failures = [each.id for each in left if self.channels.takes(each.channel, State.FAILED)]
        unverified = self._outbox.unverified(of_failures) if of_failures else set()
        dropped = {each.id for each in left} - unverified
        if dropped:
            self._outbox.drop(list(dropped))
        return [pair for pair in due if pair[0].id not in dropped]

    def _start(self, waiting: list[DeliveryAttempt], most: int, ends_by: float) -> int:
        """Start sends on free threads, `most` of them; return how many."""
        busy = Counter(sending.delivery.channel for sending in self._sendings if not sending.answered)
        started: list[DeliveryAttempt] = []
        for sending in waiting:
            if len(started) < most and busy[sending.delivery.channel] < MAX_THREADS_PER_CHANNEL:
                busy[sending.delivery.channel] += 1
                started.append(sending)
        return self._begin(waiting, started, ends_by) if started else 0

    def _begin(self, waiting: list[DeliveryAttempt], chosen: list[DeliveryAttempt], ends_by: float) -> int:
        """Send what no other process has leased; return how many sends began: a digest is one."""
        began = time.monotonic()
        taken = self._outbox.take([each.id for sending in chosen for each in sending.deliveries], lease=DELIVERY_LEASE)
        for sending in chosen:
            waiting.remove(sending)
        kept = [sending for sending in chosen if sending.keep(taken)]
        for sending in kept:
            self._sendings.append(sending)
            sending.begin(began, ends_by)
        return len(kept)

    def _hold(self, moment: float) -> None:
        """Extend the leases of deliveries that are being sent, at half of their time."""
        half = DELIVERY_LEASE.total_seconds() / 2
        fading = [it for it in self._sendings if not it.settled and moment - it.taken_at >= half]
        if fading:
            fading_ids = [each.id for sending in fading for each in sending.deliveries]
            self._outbox.hold(fading_ids, lease=DELIVERY_LEASE)
        for sending in fading:
            sending.taken_at = moment

    def _settle_answered(self, now: datetime, moment: float) -> int:
        """Settle sends that have answered or timed out, remove ended ones, and return how many were settled."""
        over = [it for it in self._sendings if not it.settled and (it.answered or moment >= it.ends_by)]
        for sending in over:
            self._settle(sending, now)
            sending.settled = True
        self._sendings = [sending for sending in self._sendings if not (sending.settled and sending.answered)]
        return len(over)

    def _through(self, waiting: list[DeliveryAttempt], sent: int) -> bool:
        return all(sending.settled for sending in self._sendings) and (not waiting or sent >= MAX_DELIVERIES_PER_TICK)

    def _wait(self, seconds: float) -> None:
        with self._answered:
            self._answered.wait_for(self._is_anything_new, seconds)

    def _is_anything_new(self) -> bool:
        return self._hurried or any(it.answered and not it.settled for it in self._sendings)

    def _answer(self) -> None:
        with self._answered:
            self._answered.notify_all()

    def _settle(self, sending: DeliveryAttempt, now: datetime) -> None:
        """Settle all deliveries of a digest alike, so that it is tried again as a whole."""
        error, channel = sending.error, sending.delivery.channel
        ids, attempts = [each.id for each in sending.deliveries], sending.delivery.attempts
        works = self._has_taken_since(sending.delivery)
        if error is None:
            self._outbox.settle_delivered(ids, attempts)
            if channel in self._failing or (attempts >= MIN_CHANNEL_FAILURES and not works):
                self._outbox.retry_others(channel, least=MIN_CHANNEL_FAILURES, lease=DELIVERY_LEASE)
            self._failing.discard(channel)
            self._taken_at[channel] = now
            return
        text, again = clean_text(str(error), MAX_DELIVERY_ERROR_CHARS), self._again(sending.delivery, error, now)
        is_own = works or error.permanent or isinstance(error, MissingChannelError)
        is_stored = self._outbox.settle_failed(ids, attempts, text, next_at=again)
        if is_stored and not is_own and attempts + 1 >= MIN_CHANNEL_FAILURES:
            least = attempts if again is None else MIN_CHANNEL_FAILURES
            if self._outbox.fail_others(channel, least=least, error=text, next_at=again, lease=DELIVERY_LEASE):
                self._failing.add(channel)

    def _has_taken_since(self, delivery: Delivery) -> bool:
        """Whether its channel has taken another message since this one was due: its failure is its own then."""
        taken_at = self._taken_at.get(delivery.channel)
        return taken_at is not None and delivery.next_at is not None and taken_at >= delivery.next_at

    def _again(self, delivery: Delivery, error: ChannelError, now: datetime) -> datetime | None:
        if error.permanent:
            return None
        failed = Retry(str(error), error.retry_after)
        return next_attempt(failed, failures=delivery.attempts + 1, policy=self._policy, now=now, jitter=self._draw())
