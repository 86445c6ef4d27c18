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
        """Ask the desktop's notification service what it can show; raises when there is none."""

    async def send(self, title: str, message: str, *, on_dispatched: Callable[[], Any] | None = None) -> str:
        """Show it; a failure is only seen by `on_dispatched` not being called."""

    async def close(self) -> None:
        """Let go of the connection."""


def system_notifier() -> Notifier:
    """Connect to the desktop of this session; raises `ChannelError` where there can be none."""
    if sys.platform == "linux" and not (os.environ.get("DBUS_SESSION_BUS_ADDRESS") or os.environ.get("DISPLAY")):
        raise ChannelError("there is no desktop session")
    return MacNotifier(_library()) if sys.platform == "darwin" else _library()


def _library() -> Notifier:
    from desktop_notifier import DesktopNotifier  # noqa: PLC0415 - pulls in the platform's bindings

    class Closable(DesktopNotifier):
        async def close(self) -> None:
            """Close the bus of Linux, which the library leaves open."""
            bus = getattr(self._backend, "bus", None)
            if bus is not None:
                bus.disconnect()
                await bus.wait_for_disconnect()

    return Closable(app_name="Duetime")


SCRIPT: Final = """on run argv
display notification (item 3 of argv) with title (item 2 of argv)
end run"""


class MacNotifier:
    """The library on a Mac, or else a script of the system.

    The notification centre serves only programs in an application bundle; a Python from a package manager is none, and
    then the library does nothing. Texts are arguments of the script, never a part of it.
    """

    def __init__(self, library: Notifier) -> None:
        self._library = library

    async def get_capabilities(self) -> frozenset[Any]:
        """Ask the library, then look for the system's script runner."""
        script = {"script"} if shutil.which("osascript") else set()
        return await self._library.get_capabilities() or frozenset(script)

    async def send(self, title: str, message: str, *, on_dispatched: Callable[[], Any] | None = None) -> str:
        """Show it by whichever is there; the script succeeds or calls nobody back."""
        if await self._library.get_capabilities():
            return await self._library.send(title, message, on_dispatched=on_dispatched)
        process = await asyncio.create_subprocess_exec(
            "osascript",
            "-e",
            SCRIPT,
            "Duetime",  # options end here, so that a title that begins with a dash is none
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
