"""The verbs for what limits and holds back work: explain, stats, pools."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any

import typer
from duetime.scheduler.audit.entry import AuditEntry, AuditKind
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.remedies import reason_in
from duetime.scheduler.rules.limits.pool import in_full
from duetime.scheduler.rules.time import times
from duetime.server.cli import completion, output
from duetime.server.cli.completion import Id
from duetime.server.cli.formats.phrases import COMMAND_WORDS
from duetime.server.cli.output import AsJson
from duetime.server.rest.resources.stats import read_stats, shown_pools, stats_json, tier_rows, until_of
from duetime.server.session import cli_caller, session
from duetime.widgets.vocabulary import stands

if TYPE_CHECKING:
    from duetime.scheduler.queue import PoolUse, ThreadUse


def explain(
    context: typer.Context,
    task_id: Id,
    *,
    as_json: AsJson = False,
) -> None:
    """Explain why a task is not running: what it waits for, how much is missing, and which task holds it."""
    with session(context).scheduler() as scheduler:
        task_id = scheduler.find(task_id)
        view, reasons = scheduler.explain(task_id)
    task, run = view.record.task, view.record.run
    if as_json:
        found = {"task": task_id, "title": task.title, "state": run.state, "stands": stands(task, run)}
        output.as_json({"schema": "duetime.explanation/1", **found, "waiting_for": list(reasons)})
        return
    output.say(f"{task.title}: {stands(task, run)}")
    for reason in reasons:
        output.say(f"  {reason_in(COMMAND_WORDS, reason, task_id)}")


def stats(context: typer.Context, *, as_json: AsJson = False) -> None:
    """Count waiting runs by tier, with the share of each tier, and show the use of pools and threads."""
    with session(context).app() as app:
        now, zone = app.store.now(), app.scheduler.zone or "UTC"
        found, backlog = read_stats(app.remote_queue, app.backlog)
    if as_json:
        output.as_json(stats_json(found, backlog))
        return
    output.table(
        ("TIER", "WAITING", "SHARE", "CEILING", "SERVED WITHIN", "OLDEST", "PATIENCE"),
        (
            (
                row["tier"],
                str(row["waiting"]),
                f"{row['share']:.0%}",
                f"{row['ceiling']:.0%}",
                f"{row['bound']} dispatches",
                _oldest(row),
                times.length(timedelta(seconds=row["patience_seconds"])),
            )
            for row in tier_rows(found, backlog)
        ),
        spare=("CEILING",),
    )
    output.say(backlog.throughput_text())
    output.say(f"{found.leased} running or about to start, {found.parked} held by a pool, {found.delayed} delayed")
    pools = [_use(name, use, now, zone) for name, use in shown_pools(found)]
    if pools:
        output.table(("POOL", "STATE", "USED", "SPENT", "FREE", "CAPACITY", "HELD"), pools)
    output.table(
        ("WORKER", "THREADS", "BUSY", "FOR CRITICAL", "AND FOR HIGH", "GAVE WAY", "LOST"),
        (_threads(name, threads) for name, threads in sorted(found.threads.items())),
    )


def _oldest(row: dict[str, Any]) -> str:
    if not row["ready"]:
        return "-"
    return times.length(timedelta(seconds=int(row["oldest_seconds"]))) + (" (late)" if row["late"] else "")


def _use(name: str, use: PoolUse, now: datetime, zone: str) -> tuple[str, ...]:
    slowed = f" at {use.factor:.0%}" if use.factor < 1 else ""
    until = until_of(use)
    ends = f" until {times.describe(until, zone)} ({times.relative(until, now)})" if until else ""
    numbers = (use.used, use.spent, use.free, use.capacity)
    return (name, use.state + slowed + ends, *(in_full(round(number, 2)) for number in numbers), str(use.parked))


def _threads(name: str, threads: ThreadUse) -> tuple[str, ...]:
    _, critical, urgent, *_ = threads.headroom
    counts = (threads.total, threads.busy, critical, urgent - critical, threads.preempted, threads.lost)
    return (name, *map(str, counts))


def pools_list(context: typer.Context, *, as_json: AsJson = False) -> None:
    """List the declared pools."""
    declarations: Any = import_module("duetime.scheduler.rules.limits.pool_spec")
    with session(context).app() as app:
        pools = app.registry.read()
    if as_json:
        specs = {name: declarations.spec_of(pool) for name, pool in sorted(pools.items())}
        output.as_json({"schema": "duetime.pools/1", "pools": specs})
    elif pools:
        output.table(
            ("POOL", "KIND", "HOW MUCH"),
            ((name, pool.kind, pool.text_with_price()) for name, pool in sorted(pools.items())),
        )
    else:
        output.say("No pool is declared. `duetime pools set gpu '{\"capacity\": 2}'` declares one.")


def pools_set(
    context: typer.Context,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="the pool's name, or tenant:* for the quota of each tenant")
    ],
    spec: Annotated[str, typer.Argument(metavar="JSON", help='its definition: {"kind": "slots", "capacity": 2}')],
) -> None:
    """Create or change a pool at run time; existing reservations stay."""
    with session(context).app() as app:
        pool = app.registry.set(name, _object(spec))
        app.store.audit.record(AuditEntry.by(cli_caller(), AuditKind.POOL_SET, name, detail=_object(spec)))
        app.runner.wake()
    output.say(f"{name}: {pool.kind}, {pool.text_with_price()}")


def pools_remove(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="the pool", autocompletion=completion.pools)],
) -> None:
    """Remove a pool; tasks that need it are held until it is declared again."""
    with session(context).app() as app:
        app.registry.remove(name)
        app.store.audit.record(AuditEntry.by(cli_caller(), AuditKind.POOL_REMOVED, name))
        app.runner.wake()
    output.say(f"Removed {name}. Tasks that need it are held until it is declared again.")


def _object(text: str) -> dict[str, Any]:
    example = '\'{"kind": "slots", "capacity": 2}\''
    try:
        found = json.loads(text)
    except ValueError as wrong:
        raise InvalidArgument("JSON", f"is not JSON: {wrong}", accepted="one object", example=example) from None
    if not isinstance(found, dict):
        raise InvalidArgument("JSON", f"is {type(found).__name__}", accepted="one object", example=example)
    return found
