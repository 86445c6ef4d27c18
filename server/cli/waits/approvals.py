"""The verbs that answer whether a task may run."""

from __future__ import annotations

import typer
from duetime.server.cli.completion import Id
from duetime.server.cli.formats.links import Revision
from duetime.server.cli.output import AsJson
from duetime.server.cli.tasks import ReasonOption, show_change
from duetime.server.session import session


def approve(
    context: typer.Context,
    *,
    task_id: Id,
    reason: ReasonOption = None,
    revision: Revision = None,
    as_json: AsJson = False,
) -> None:
    """Approve a task that waits for approval."""
    with session(context).scheduler() as scheduler:
        view = scheduler.approve(scheduler.tasks.find(task_id), reason=reason, revision=revision)
    show_change("Approved", view, as_json)


def reject(
    context: typer.Context,
    *,
    task_id: Id,
    reason: ReasonOption = None,
    revision: Revision = None,
    as_json: AsJson = False,
) -> None:
    """Cancel a task that waits for approval; of a recurring one, skip the run that asks."""
    with session(context).scheduler() as scheduler:
        view = scheduler.reject(scheduler.tasks.find(task_id), reason=reason, revision=revision)
    show_change("Rejected", view, as_json)
