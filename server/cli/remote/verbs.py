"""The verbs that work on another machine, each with its function; all others say that they do not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import typer
from duetime.scheduler.errors import InvalidArgument
from duetime.server.cli.remote import (
    administration,
    bulk,
    dead,
    decisions,
    installation,
    machine,
    quiet_hours,
    runs,
    signals,
    tasks,
    workers,
)
from duetime.server.cli.remote.client import RemoteServer
from duetime.server.cli.remote.tables import CONTEXT, ZONE

REMOTE_VERBS: Final[Mapping[str, Callable[[RemoteServer, Mapping[str, Any]], None]]] = {
    "schedule": tasks.schedule,
    "list": tasks.list_,
    "failed": runs.failed,
    "show": tasks.show,
    "reschedule": tasks.reschedule,
    "cancel": tasks.cancel,
    "undo": tasks.undo,
    "approve": tasks.approve,
    "reject": tasks.reject,
    "bulk": bulk.bulk,
    "event send": signals.send,
    "event address": signals.address,
    "explain": tasks.explain,
    "history": tasks.history,
    "runs": runs.runs,
    "cost": installation.cost,
    "report": installation.report,
    "logs": runs.logs,
    "stats": installation.stats,
    "workers list": workers.workers_list,
    "workers drain": workers.drain,
    "workers resume": workers.resume,
    "decisions list": decisions.decisions_list,
    "decisions show": decisions.decisions_show,
    "inbox list": installation.inbox_list,
    "inbox read": installation.inbox_read,
    "inbox done": installation.inbox_done,
    "quiet-hours show": quiet_hours.show,
    "quiet-hours set": quiet_hours.set_,
    "quiet-hours clear": quiet_hours.clear,
    "dead list": dead.list_,
    "dead show": dead.show,
    "dead replay": dead.replay,
    "dead discard": dead.discard,
    "dead undo": dead.undo,
    "pools list": installation.pools_list,
    "pools set": installation.pools_set,
    "pools remove": installation.pools_remove,
    "keys list": installation.keys_list,
    "keys create": installation.keys_create,
    "keys revoke": installation.keys_revoke,
    "keys rotate": installation.keys_rotate,
    "secrets set": administration.secrets_set,
    "secrets list": administration.secrets_list,
    "secrets remove": administration.secrets_remove,
    "secrets rotate": administration.secrets_rotate,
    "audit list": administration.audit_list,
    "audit head": administration.audit_head,
    "audit verify": administration.audit_verify,
    "policy show": administration.policy_show,
    "policy set": administration.policy_set,
    "policy history": administration.policy_history,
    "policy shadow": decisions.policy_shadow,
    "policy rollback": administration.policy_rollback,
    "retention status": administration.retention_status,
    "retention run": administration.retention_run,
    "alerts": administration.alerts,
    "top": administration.top,
    "import": machine.import_,
    "doctor": machine.doctor,
    "config": machine.config,
}

ON_THIS_MACHINE_ALONE: Final[Mapping[str, str]] = {
    "serve": "it is the server",
    "worker": "it is a process of the machine that it is started on",
    "migrate": "a server starts on a migrated database alone, so none answers before",
    "backup": "it writes a file next to the database",
    "install": "it writes the file of a chat client here",
    "uninstall": "it writes the file of a chat client here",
    "service install": "the service runs on this machine",
    "service status": "the service runs on this machine",
    "service remove": "the service runs on this machine",
}
"""The verbs that work without a server alone, each with the reason."""


def call(url: str, key: str | None, context: typer.Context, zone: Callable[[], str]) -> None:
    """Call the verb of a command on the server at `url`; tables show times in the `zone` of this machine's settings.

    Raises InvalidArgument for a verb that works on this machine alone.
    """
    verb = context.command_path.partition(" ")[2]
    function = REMOTE_VERBS.get(verb)
    if function is None:
        raise InvalidArgument(
            "--server",
            f"`{verb}` works on the machine that it is run on: {ON_THIS_MACHINE_ALONE[verb]}. Run it there, without "
            "--server and DUETIME_SERVER",
            accepted=f"with --server: {', '.join(REMOTE_VERBS)}",
            example="duetime --server https://duetime.example.com list",
        )
    function(RemoteServer(url, key), {**context.params, ZONE: zone, CONTEXT: context})
