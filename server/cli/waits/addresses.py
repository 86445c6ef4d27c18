"""The verb that makes and revokes the fire address of a task."""

from __future__ import annotations

from typing import Annotated

import typer
from duetime.scheduler.errors import InvalidArgument
from duetime.server.cli import output
from duetime.server.cli.completion import Id
from duetime.server.cli.output import AsJson
from duetime.server.session import cli_caller, session

Renew = Annotated[bool, typer.Option("--renew", help="replace the address that it has, which ends")]
Revoke = Annotated[bool, typer.Option("--revoke", help="end the address that it has")]


def address(
    context: typer.Context, task_id: Id, *, renew: Renew = False, revoke: Revoke = False, as_json: AsJson = False
) -> None:
    """Give a task an address by which the world starts it; it is shown only now."""
    check_options(renew=renew, revoke=revoke)
    opened = session(context)
    with opened.scheduler() as scheduler:
        found = scheduler.tasks.find(task_id)
        if revoke:
            show_revoked(found, revoked=scheduler.addresses.revoke(found, by=cli_caller()), as_json=as_json)
            return
        made = scheduler.addresses.make(found, renew=renew, by=cli_caller())
    base = opened.settings().public_url
    show_address(found, made.path, f"{str(base).rstrip('/')}{made.path}" if base else None, as_json=as_json)


def check_options(*, renew: bool, revoke: bool) -> None:
    """Raise InvalidArgument for two options of which only one can be meant."""
    if renew and revoke:
        raise InvalidArgument("--renew", "cannot be combined with --revoke", accepted="one of them", example="--renew")


def show_address(task_id: str, path: str, url: str | None, *, as_json: bool) -> None:
    """Write a new address, which is the only time."""
    if as_json:
        output.as_json({"schema": "duetime.address/1", "task_id": task_id, "path": path, "url": url})
        return
    output.say(url or path)
    behind = "" if url else " It is a path of `duetime serve`."
    output.note(f"Whoever knows it may start {task_id}, and nothing else. It is not shown again.{behind}")


def show_revoked(task_id: str, *, revoked: bool, as_json: bool) -> None:
    """Write that an address has ended."""
    if as_json:
        output.as_json({"schema": "duetime.address_revoked/1", "task_id": task_id, "revoked": revoked})
    else:
        output.say(f"The address of {task_id} has ended." if revoked else f"{task_id} has no address.")
