"""Delivers outcomes by mail, chat or push, through Apprise (the extra `channels`)."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from duetime.scheduler.access.secret import SecretUnavailable, names_secrets
from duetime.scheduler.delivery.channel import ChannelError
from duetime.scheduler.errors import InvalidSetting
from duetime.scheduler.task import InboxMessage

if TYPE_CHECKING:
    from apprise import Apprise

APPRISE_TIMEOUT_S: Final = 20.0


class AppriseChannel:
    """Sends to one Apprise URL, which is a secret: no message shows it.

    `secret:name` in its place is read by `reveal` for each message. Raises `InvalidSetting` when Apprise is not
    installed or does not support the URL.
    """

    def __init__(self, name: str, url: str, reveal: Callable[[str], str] = str) -> None:
        self.name = name
        self._url = url
        self._reveal = reveal
        self._apprise = None if names_secrets(url) else _opened(name, url)

    def send(self, message: InboxMessage, *, key: str) -> None:  # noqa: ARG002 - these services accept no key
        """Send title and text, as plain text. Raises `ChannelError`."""
        body = message.text if message.text.strip() else str(message.state)
        result = (self._apprise or self._revealed()).notify(
            body=body, title=message.title, body_format="text", timeout=APPRISE_TIMEOUT_S
        )
        if not result:
            raise ChannelError(f"the service rejected the message ({result.status.name.lower()})")

    def _revealed(self) -> Apprise:
        try:
            return _opened(self.name, self._reveal(self._url))
        except (SecretUnavailable, InvalidSetting) as error:
            raise ChannelError(str(error), permanent=True) from None

    def close(self) -> None:
        """Nothing to do: Apprise keeps no connection for us."""


def _opened(name: str, url: str) -> Apprise:
    try:
        from apprise import Apprise  # noqa: PLC0415 - optional, and half a second to import
    except ImportError as error:
        raise InvalidSetting(
            f"channels.{name}: Apprise is not installed. In a checkout: pip install '.[channels]'"
        ) from error
    opened = Apprise()
    with _unlogged():
        added = opened.add(url)
    if not added:
        raise InvalidSetting(
            f"channels.{name}: Apprise does not understand the URL (not shown, it is a secret). "
            "Example: mailto://user:password@example.com"
        )
    return opened


@contextmanager
def _unlogged() -> Iterator[None]:
    """Drop what Apprise logs on this thread: it repeats a URL that it does not understand."""
    here, logger = threading.get_ident(), logging.getLogger("apprise")

    def elsewhere(record: logging.LogRecord) -> bool:
        return record.thread != here

    logger.addFilter(elsewhere)
    try:
        yield
    finally:
        logger.removeFilter(elsewhere)
