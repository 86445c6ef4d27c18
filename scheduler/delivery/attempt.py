"""One attempt to deliver, on a thread of its own: of one delivery, or of several as a digest."""

from __future__ import annotations

import threading
from collections.abc import Callable, Container, Mapping, Sequence

from duetime.scheduler.delivery.channel import Channel, ChannelError, MissingChannelError
from duetime.scheduler.delivery.digest import SentMessage, message_of
from duetime.scheduler.runtime.traces import Tracing
from duetime.scheduler.task import Delivery, State


class DeliveryAttempt:
    """One send of a delivery, or of several as a digest, on a thread of its own after its start."""

    def __init__(
        self,
        pairs: Sequence[SentMessage],
        channels: Mapping[str, Channel],
        on_answer: Callable[[], None],
        tracing: Tracing,
    ) -> None:
        self._pairs = list(pairs)
        self._tracing = tracing
        self.error: ChannelError | None = ChannelError("no answer in time")
        self.taken_at = 0.0
        self.ends_by = 0.0
        self.answered = False
        self.settled = False
        self._channels = channels
        self._on_answer = on_answer

    @property
    def delivery(self) -> Delivery:
        return self._pairs[0][0]

    @property
    def deliveries(self) -> list[Delivery]:
        return [delivery for delivery, _ in self._pairs]

    def keep(self, delivery_ids: Container[str]) -> bool:
        """Keep only these deliveries, as other processes send the rest; return whether any is left."""
        self._pairs = [pair for pair in self._pairs if pair[0].id in delivery_ids]
        return bool(self._pairs)

    def begin(self, taken_at: float, ends_by: float) -> None:
        self.taken_at = taken_at
        self.ends_by = ends_by
        threading.Thread(target=self._run, name=f"duetime-delivery-{self.delivery.channel}", daemon=True).start()

    def _run(self) -> None:
        self.error = self._sent()
        self.answered = True
        self._on_answer()

    def _sent(self) -> ChannelError | None:
        try:
            channel = self._channels[self.delivery.channel]
        except KeyError:
            return MissingChannelError(f"channel {self.delivery.channel!r} is no longer configured")
        try:
            with self._tracing.delivering(self.delivery):
                message = message_of([message for _, message in self._pairs])
                channel.send(message, key=message.id if message.state is State.WAITING else self.delivery.run_id)
        except ChannelError as error:
            return error
        except BaseException as error:  # noqa: BLE001 - a library may raise SystemExit; unanswered, its thread counts for ever
            return ChannelError(f"{type(error).__name__} in channel {channel.name}")
        return None
