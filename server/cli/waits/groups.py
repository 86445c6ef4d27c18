"""The group of verbs of events that tasks wait for; a verb is loaded when it is used."""

from __future__ import annotations

from duetime.server.cli.help import DeferredVerb, VerbsOf

EVENT_VERBS = VerbsOf(
    name="event",
    help="Events that tasks wait for.",
    rich_markup_mode=None,
    commands=(
        DeferredVerb(
            "send",
            "duetime.server.cli.waits.events:send",
            "Send an event: the tasks that wait for it continue.",
            examples=('duetime event send order.paid --data \'{"order": {"id": 7}}\' --id pay-7',),
        ),
        DeferredVerb(
            "address",
            "duetime.server.cli.waits.addresses:address",
            "Give a task an address by which the world starts it; it is shown only now.",
            examples=("duetime event address t_7k3m9qx2w4hb", "duetime event address t_7k3m9qx2w4hb --revoke"),
        ),
    ),
)
