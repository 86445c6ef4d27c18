"""A desktop's notification service on the session bus, as a program: prints `ready`, then each notification as JSON."""

import asyncio
import json
import sys
from typing import Annotated, Any

from dbus_fast.aio import MessageBus
from dbus_fast.annotations import DBusInt32, DBusSignature, DBusStr, DBusUInt32
from dbus_fast.service import ServiceInterface, dbus_method


def say(what: object) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


class Notifications(ServiceInterface):
    def __init__(self) -> None:
        super().__init__("org.freedesktop.Notifications")
        self.count = 0

    @dbus_method()
    def Notify(  # noqa: N802, PLR0917 - as on the bus
        self,
        app: DBusStr,
        replaces: DBusUInt32,
        icon: DBusStr,
        summary: DBusStr,
        body: DBusStr,
        actions: Annotated[list[str], DBusSignature("as")],
        hints: Annotated[dict[str, Any], DBusSignature("a{sv}")],
        timeout: DBusInt32,
    ) -> DBusUInt32:
        self.count += 1
        say({"app": app, "title": summary, "body": body, "rest": [replaces, icon, actions, list(hints), timeout]})
        return self.count

    @dbus_method()
    def GetCapabilities(self) -> Annotated[list[str], DBusSignature("as")]:  # noqa: N802 - the name on the bus
        return ["body", "body-markup"]

    @dbus_method()
    def GetServerInformation(self) -> Annotated[tuple[str, str, str, str], DBusSignature("ssss")]:  # noqa: N802 - the name on the bus
        return "test", "test", "1", "1.2"


async def main() -> None:
    bus = await MessageBus().connect()
    bus.export("/org/freedesktop/Notifications", Notifications())
    await bus.request_name("org.freedesktop.Notifications")
    say("ready")
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
