"""The verbs that say how an installation does; a verb is loaded when it is used."""

from __future__ import annotations

from duetime.server.cli.help import DeferredVerb

_HERE = "duetime.server.cli.reports"

LIVE_VERBS = (
    DeferredVerb(
        "stats",
        "duetime.server.cli.pools:stats",
        "Count waiting runs by tier, with the share of each tier, and show the use of pools and threads.",
        examples=("duetime stats",),
    ),
    DeferredVerb(
        "top",
        f"{_HERE}.top:top",
        "Show what waits and runs now, by tier, pool and worker, and what was missed, until Ctrl-C.",
        examples=("duetime top", "duetime top --interval 10", "duetime top --once"),
    ),
)
REPORT_VERBS = (
    DeferredVerb(
        "alerts",
        f"{_HERE}.alerts:alerts",
        "List the alerts that fire, are pending, or ended in the last seven days.",
        examples=("duetime alerts",),
    ),
    DeferredVerb(
        "report",
        f"{_HERE}.report:report",
        "Report what was missed, how late, what it cost, the worst actions, and the trend.",
        examples=("duetime report", "duetime report --since 'last monday' --tenant acme"),
    ),
    DeferredVerb(
        "cost",
        f"{_HERE}.cost:cost",
        "Add up what runs cost, by the prices of the pools that they used.",
        examples=("duetime cost --since 7d", "duetime cost --by action"),
    ),
)
