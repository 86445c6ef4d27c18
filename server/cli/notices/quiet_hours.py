"""The verbs of quiet hours: show, set, clear."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer
from duetime.server.cli import output
from duetime.server.cli.output import AsJson
from duetime.server.session import cli_caller, session
from duetime.tools.admin.quiet_hours_rows import quiet_hours_json, quiet_hours_text

OtherUser = Annotated[str | None, typer.Option(help="of this user; by default yours")]
OtherTenant = Annotated[str | None, typer.Option(help="of a user of this tenant")]


def show(
    context: typer.Context, *, user: OtherUser = None, tenant: OtherTenant = None, as_json: AsJson = False
) -> None:
    """Show the quiet hours in force, and whether they are the user's own."""
    with session(context).scheduler() as scheduler:
        found = quiet_hours_json(scheduler.quiet_hours.read(user=user, tenant=tenant, by=cli_caller()))
    show_hours(found, as_json=as_json)


def set_(
    context: typer.Context,
    hours: Annotated[str, typer.Argument(help="two times of day, with a zone where it is another one; or `none`")],
    *,
    user: OtherUser = None,
    tenant: OtherTenant = None,
    as_json: AsJson = False,
) -> None:
    """Set quiet hours that go before those of the settings; `none` for no quiet ones."""
    with session(context).scheduler() as scheduler:
        found = quiet_hours_json(scheduler.quiet_hours.set(hours, user=user, tenant=tenant, by=cli_caller()))
    show_hours(found, as_json=as_json)


def clear(
    context: typer.Context, *, user: OtherUser = None, tenant: OtherTenant = None, as_json: AsJson = False
) -> None:
    """Forget the quiet hours that were set, so that those of the settings count again."""
    with session(context).scheduler() as scheduler:
        found = quiet_hours_json(scheduler.quiet_hours.clear(user=user, tenant=tenant, by=cli_caller()))
    show_hours(found, as_json=as_json)


def show_hours(found: Mapping[str, Any], *, as_json: bool) -> None:
    """Write the quiet hours in force."""
    if as_json:
        output.as_json(dict(found))
    else:
        output.say(quiet_hours_text(found))
