"""A channel: one way to send an outcome to a user."""

from __future__ import annotations

from datetime import timedelta
from typing import Protocol

from duetime.scheduler.errors import DuetimeError
from duetime.scheduler.task import InboxMessage


class ChannelError(DuetimeError):
    """The message was not accepted; the text gives the reason, without secrets.

    `retry_after` is the shortest wait that the service requested. `permanent` means that a retry would not help.
    """

    def __init__(self, reason: str, *, retry_after: timedelta | None = None, permanent: bool = False) -> None:
        self.retry_after = retry_after
        self.permanent = permanent
        super().__init__(reason)


class MissingChannelError(ChannelError):
    """This process has no channel of that name; another one may have it."""


class Channel(Protocol):
    """Sends messages, from any thread, each with a time limit of its own."""

    @property
    def name(self) -> str:
        """The name of the channel in `deliver_to`."""

    def send(self, message: InboxMessage, *, key: str) -> None:
        """Send once, or raise `ChannelError`.

        `key` is the same for every try of a message, so that a service that accepts a key recognises a retry.
        """

    def close(self) -> None:
        """Close connections and threads."""
