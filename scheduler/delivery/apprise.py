"""Delivers outcomes by mail, chat or push, through Apprise (the extra `duetime[channels]`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from duetime.scheduler.delivery.channel import ChannelError
from duetime.scheduler.errors import InvalidSetting
from duetime.scheduler.task import InboxMessage

if TYPE_CHECKING:
    from apprise import Apprise

APPRISE_TIMEOUT_S: Final = 20.0


class AppriseChannel:
    """Sends to one Apprise URL, which is a secret: no message shows it.

    Raises `InvalidSetting` when Apprise is not installed or does not support the URL.
    """

    def __init__(self, name: str, url: str) -> None:
        self.name = name
        self._apprise = _opened(name, url)

    def send(self, message: InboxMessage, *, key: str) -> None:  # noqa: ARG002 - these services accept no key
        """Send title and text, as plain text. Raises `ChannelError`."""
        body = message.text if message.text.strip() else str(message.state)
        result = self._apprise.notify(body=body, title=message.title, body_format="text", timeout=APPRISE_TIMEOUT_S)
        if not result:
            raise ChannelError(f"the service rejected the message ({result.status.name.lower()})")

    def close(self) -> None:
        """Nothing to do: Apprise keeps no connection for us."""


def _opened(name: str, url: str) -> Apprise:
    try:
        from apprise import Apprise  # noqa: PLC0415 - optional, and half a second to import
    except ImportError as error:
        raise InvalidSetting(
            f"channels.{name}: Apprise is not installed; install it with: pip install 'duetime[channels]'"
        ) from error
    opened = Apprise()
    if not opened.add(url):
        raise InvalidSetting(
            f"channels.{name}: Apprise does not understand the URL (not shown, it is a secret). "
            "Example: mailto://user:password@example.com"
        )
    return opened
