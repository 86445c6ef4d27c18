"""Delivers outcomes as desktop notifications, where there is a desktop."""

from __future__ import annotations

import asyncio
import html
import sys
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final, TypeVar

from duetime.scheduler.delivery.channel import ChannelError
from duetime.scheduler.delivery.notifiers import Notifier, system_notifier
from duetime.scheduler.rules.sanitize import clean_text
from duetime.scheduler.task import InboxMessage

DESKTOP_TIMEOUT_S: Final = 5.0
MAX_BODY_CHARS: Final = 500
T = TypeVar("T")


class DesktopChannel:
    """Shows title and text. The connection stays open, as some desktops remove notifications of a vanished sender."""

    name = "desktop"

    def __init__(self, make: Callable[[], Notifier] = system_notifier) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._notifier: Notifier | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def available(self) -> bool:
        """Whether a notification service replies that can show text."""
        try:
            return bool(self._call(lambda notifier: notifier.get_capabilities()))
        except ChannelError:
            self.close()
            return False

    def send(self, message: InboxMessage, *, key: str) -> None:  # noqa: ARG002 - desktops accept no key
        """Show the message once."""
        shown: list[bool] = []
        title = clean_text(message.title, MAX_BODY_CHARS, lines=False)
        body = _body(message)
        self._call(lambda notifier: notifier.send(title, body, on_dispatched=lambda: shown.append(True)))
        if not shown:
            self.close()
            raise ChannelError("the desktop rejected the notification")

    def close(self) -> None:
        """Close the connection; the next send opens a new one."""
        with self._lock:
            loop, notifier, self._loop, self._notifier = self._loop, self._notifier, None, None
        if loop is None or notifier is None:
            return
        with suppress(Exception):  # the connection may be broken already
            asyncio.run_coroutine_threadsafe(_within(1, notifier.close()), loop).result(2)
        loop.call_soon_threadsafe(loop.stop)

    def _call(self, ask: Callable[[Notifier], Coroutine[Any, Any, T]]) -> T:
        """Run on a thread and event loop of our own, because callers may be inside a running loop."""
        try:
            loop, notifier = self._connected()
            pending = asyncio.run_coroutine_threadsafe(_within(DESKTOP_TIMEOUT_S, ask(notifier)), loop)
            return pending.result(2 * DESKTOP_TIMEOUT_S)
        except ChannelError:
            raise
        except TimeoutError as error:
            self.close()
            raise ChannelError("the desktop did not answer in time") from error
        except Exception as error:
            self.close()
            raise ChannelError(f"no desktop notification service ({type(error).__name__})") from error

    def _connected(self) -> tuple[asyncio.AbstractEventLoop, Notifier]:
        with self._lock:
            if self._loop is None or self._notifier is None:
                self._notifier = self._make()
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=_serve, args=(self._loop,), name="duetime-desktop", daemon=True).start()
            return self._loop, self._notifier


async def _within(seconds: float, work: Coroutine[Any, Any, T]) -> T:
    """Await work. Raises TimeoutError after so many seconds."""
    async with asyncio.timeout(seconds):
        return await work


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.close()


def _body(message: InboxMessage) -> str:
    """Give the text as the service takes it: those of Linux read markup, so what looks like it is escaped."""
    text = clean_text(message.text if message.text.strip() else str(message.state), MAX_BODY_CHARS)
    return html.escape(text, quote=False) if sys.platform == "linux" else text
