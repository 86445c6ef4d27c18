"""The verbs of quiet hours on another machine."""

from __future__ import annotations

from duetime.server.cli.notices.quiet_hours import show_hours
from duetime.server.cli.remote.client import RemoteServer
from duetime.server.cli.remote.tasks import Params


def show(server: RemoteServer, params: Params) -> None:
    """Show the hours in force."""
    show_hours(server.get("/quiet-hours", **_whose(params)), as_json=params["as_json"])


def set_(server: RemoteServer, params: Params) -> None:
    """Set the hours of a user."""
    made = server.send("PUT", "/quiet-hours", {"hours": params["hours"], **_whose(params)})
    show_hours(made, as_json=params["as_json"])


def clear(server: RemoteServer, params: Params) -> None:
    """Forget the hours of a user."""
    show_hours(server.delete("/quiet-hours", **_whose(params)), as_json=params["as_json"])


def _whose(params: Params) -> dict[str, str]:
    return {name: params[name] for name in ("user", "tenant") if params[name] is not None}
