"""The notification services of desktops."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import Callable
from typing import Any, Final, Protocol

from duetime.scheduler.delivery.channel import ChannelError


class Notifier(Protocol):
    """The part of `desktop_notifier.DesktopNotifier` that is used here."""

    async def get_capabilities(self) -> frozenset[Any]:
        """Return the capabilities of the desktop's notification service; raises without one."""

    async def send(self, title: str, message: str, *, on_dispatched: Callable[[], Any] | None = None) -> str:
        """Show a notification; on a failure `on_dispatched` is not called."""

    async def close(self) -> None:
        """Close the connection."""


def system_notifier() -> Notifier:
    """Connect to the desktop of this session; raises `ChannelError` where there can be none."""
    if sys.platform == "linux" and not (os.environ.get("DBUS_SESSION_BUS_ADDRESS") or os.environ.get("DISPLAY")):
        raise ChannelError("there is no desktop session")
    return MacNotifier(_library()) if sys.platform == "darwin" else _library()


def _library() -> Notifier:
    from desktop_notifier import DesktopNotifier  # noqa: PLC0415 - pulls in the platform's bindings

    class Closable(DesktopNotifier):
        async def close(self) -> None:
            """Close the D-Bus connection, which the library leaves open on Linux."""
            bus = getattr(self._backend, "bus", None)
            if bus is not None:
                bus.disconnect()
                await bus.wait_for_disconnect()

    return Closable(app_name="Duetime")


SCRIPT: Final = """on run argv
display notification (item 3 of argv) with title (item 2 of argv)
end run"""


class MacNotifier:
    """The library on a Mac, or else a system script.

    The notification centre serves only programs in an application bundle. A Python from a package manager has none, and
    the library then does nothing. Texts are arguments of the script, never a part of it.
    """

    def __init__(self, library: Notifier) -> None:
        self._library = library

    async def get_capabilities(self) -> frozenset[Any]:
        """Query the library, then look for the system's script runner."""
        script = {"script"} if shutil.which("osascript") else set()
        return await self._library.get_capabilities() or frozenset(script)

    async def send(self, title: str, message: str, *, on_dispatched: Callable[[], Any] | None = None) -> str:
        """Show a notification by the available one; a failed script calls no callback."""
        if await self._library.get_capabilities():
            return await self._library.send(title, message, on_dispatched=on_dispatched)
        process = await asyncio.create_subprocess_exec(
            "osascript",
            "-e",
            SCRIPT,
            "Duetime",  # ends the options, so that a title may begin with a dash
            title,
            message,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        if await process.wait() == 0 and on_dispatched:
            on_dispatched()
        return ""

    async def close(self) -> None:
        """Close the library's connection."""
        await self._library.close()
