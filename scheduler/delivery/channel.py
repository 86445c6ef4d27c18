"""A channel: one way to send an outcome to a user."""

from __future__ import annotations

from datetime import timedelta
from typing import Protocol

from duetime.scheduler.errors import DuetimeError
from duetime.scheduler.task import InboxMessage


class ChannelError(DuetimeError):
    """The message was not taken; the text says why, and holds no secret.

    `retry_after` is the shortest wait that the other side asked for. `permanent` means that repeating would not help.
    """

    def __init__(self, reason: str, *, retry_after: timedelta | None = None, permanent: bool = False) -> None:
        self.retry_after = retry_after
        self.permanent = permanent
        super().__init__(reason)


class Channel(Protocol):
    """Sends messages, from any thread, each within a time of its own; `name` is what `deliver_to` says."""

    @property
    def name(self) -> str:
        """The name that `deliver_to` says."""

    def send(self, message: InboxMessage, *, key: str) -> None:
        """Send once, or raise `ChannelError`.

        `key` is the same for every try of a message: what can carry it does, so that a repeat is recognised.
        """

    def close(self) -> None:
        """Let go of connections and threads."""
