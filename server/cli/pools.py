"""The verbs for what limits and holds back work: explain, stats, pools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any

import typer
from duetime.scheduler.foresight.lateness import throughput_text
from duetime.scheduler.history.work_report import Throughput
from duetime.scheduler.remedies import reason_in
from duetime.scheduler.rules.limits.pool import after_removal, in_full
from duetime.scheduler.rules.limits.pool_spec import read_pool
from duetime.scheduler.rules.time import times
from duetime.server.cli import completion, output
from duetime.server.cli.completion import Id
from duetime.server.cli.formats.json_text import read_json
from duetime.server.cli.formats.shared_options import AuditReason
from duetime.server.cli.output import AsJson
from duetime.server.rest.resources.stats import read_stats, stats_json
from duetime.server.rest.rows.pools import pools_json
from duetime.server.session import cli_caller, session
from duetime.server.words.command_words import COMMAND_WORDS
from duetime.server.words.json_examples import as_json_word, with_examples
from duetime.widgets.vocabulary import stands


def explain(
    context: typer.Context,
    task_id: Id,
    *,
    as_json: AsJson = False,
) -> None:
    """Explain why a task is not running: what it waits for, how much is missing, and which task holds it."""
    with session(context).scheduler() as scheduler:
        task_id = scheduler.tasks.find(task_id)
        view, reasons = scheduler.explain(task_id)
    task, run = view.record.task, view.record.run
    known = {"task": task_id, "title": task.title, "state": run.state.value, "stands": stands(task, run)}
    found = {"schema": "duetime.explanation/1", **known, "waiting_for": list(reasons)}
    show_explanation(found, as_json=as_json)


def show_explanation(found: Mapping[str, Any], *, as_json: bool) -> None:
    """Write why a task is not running."""
    if as_json:
        output.as_json(dict(found))
        return
    output.say(f"{found['title']}: {found['stands']}")
    for reason in found["waiting_for"]:
        output.say(f"  {reason_in(COMMAND_WORDS, reason, found['task'])}")


def stats(context: typer.Context, *, as_json: AsJson = False) -> None:
    """Count waiting runs by tier, with the share of each tier, and show the use of pools and threads."""
    with session(context).app() as app:
        now, zone = app.store.now(), app.scheduler.zone or "UTC"
        found = stats_json(*read_stats(app.remote_queue, app.backlog))
    show_stats(found, zone, now, as_json=as_json)


def show_stats(found: Mapping[str, Any], zone: str, now: datetime, *, as_json: bool) -> None:
    """Write what waits by tier, and the use of pools and threads."""
    if as_json:
        output.as_json(dict(found))
        return
    columns = ("TIER", "WAITING", "SHARE", "CEILING", "SERVED WITHIN", "OLDEST", "PATIENCE")
    output.table(columns, map(_tier, found["tiers"]), spare=("CEILING",))
    output.say(throughput_text([*map(_window, found["throughput"]["windows"])]))
    counts = f"{found['parked']} held by a pool, {found['delayed']} delayed"
    output.say(f"{found['leased']} running or about to start, {counts}")
    if found["pools"]:
        pools = (_use(name, use, now, zone) for name, use in found["pools"].items())
        output.table(("POOL", "STATE", "USED", "SPENT", "FREE", "CAPACITY", "HELD"), pools)
    if not found["threads"]:
        output.say("no worker has reported lately: nothing starts, and no channel is notified, until one does")
        return
    output.table(
        ("PROCESS", "THREADS", "BUSY", "FOR CRITICAL", "AND FOR HIGH", "GAVE WAY", "LOST", "WITHHELD"),
        (_threads(name, threads) for name, threads in sorted(found["threads"].items())),
    )


def _tier(row: Mapping[str, Any]) -> Sequence[str]:
    return (
        row["tier"],
        str(row["waiting"]),
        f"{row['share']:.0%}",
        f"{row['ceiling']:.0%}",
        f"{row['bound']} dispatches",
        _oldest(row),
        times.length(timedelta(seconds=row["patience_seconds"])),
    )


def _window(found: Mapping[str, Any]) -> Throughput:
    return Throughput(timedelta(seconds=found["seconds"]), found["ready"], found["started"], found["ended"])


def _oldest(row: Mapping[str, Any]) -> str:
    if not row["ready"]:
        return "-"
    return times.length(timedelta(seconds=int(row["oldest_seconds"]))) + (" (late)" if row["late"] else "")


def _use(name: str, use: Mapping[str, Any], now: datetime, zone: str) -> tuple[str, ...]:
    slowed = f" at {use['factor']:.0%}" if use["factor"] < 1 else ""
    until = datetime.fromisoformat(use["until"]) if use.get("until") else None
    ends = f" until {times.describe(until, zone)} ({times.relative(until, now)})" if until else ""
    numbers = (use[part] for part in ("used", "spent", "free", "capacity"))
    return (
        name,
        use["state"] + slowed + ends,
        *(in_full(round(number, 2)) for number in numbers),
        str(use["parked"]),
    )


def _threads(name: str, threads: Mapping[str, Any]) -> tuple[str, ...]:
    _, critical, urgent, *_ = threads["headroom"]
    kept = (critical, urgent - critical)
    after = (threads["preempted"], threads["lost"], threads.get("withheld", 0))
    return (name, *map(str, (threads["total"], threads["busy"], *kept, *after)))


def pools_list(context: typer.Context, *, as_json: AsJson = False) -> None:
    """List the declared pools."""
    with session(context).app() as app:
        found = pools_json(app.registry.read())
    show_pools(found, as_json=as_json)


def show_pools(found: Mapping[str, Any], *, as_json: bool) -> None:
    """Write the declared pools."""
    if as_json:
        output.as_json(dict(found))
    elif found["pools"]:
        pools = [read_pool(name, spec) for name, spec in found["pools"].items()]
        output.table(("POOL", "KIND", "HOW MUCH"), ((pool.name, pool.kind, pool.text_with_price()) for pool in pools))
    else:
        output.say("No pool is declared. `duetime pools set gpu '{\"capacity\": 2}'` declares one.")


def pools_set(
    context: typer.Context,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="the pool's name, or tenant:* for the quota of each tenant")
    ],
    spec: Annotated[str, typer.Argument(metavar="JSON", help='its definition: {"kind": "slots", "capacity": 2}')],
    *,
    reason: AuditReason = None,
) -> None:
    """Create or change a pool at run time; existing reservations stay."""
    with session(context).app() as app, with_examples(as_json_word):
        app.registry.set(name, read_spec(spec), by=cli_caller(), reason=reason)
        app.runner.wake()
        found = pools_json(app.registry.read())
    say_set(name, found)


def say_set(name: str, found: Mapping[str, Any]) -> None:
    """Write a pool as it is declared now."""
    pool = read_pool(name, found["pools"][name])
    output.say(f"{name}: {pool.kind}, {pool.text_with_price()}")


def pools_remove(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="the pool", autocompletion=completion.pools)],
    *,
    reason: AuditReason = None,
) -> None:
    """Remove a pool; tasks that need it fall under its template, or are held until it is declared again."""
    with session(context).app() as app:
        app.registry.remove(name, by=cli_caller(), reason=reason)
        app.runner.wake()
    say_removed(name)


def say_removed(name: str) -> None:
    output.say(f"Removed {name}. {after_removal(name)}")


def read_spec(text: str) -> dict[str, Any]:
    example = """json='{"kind": "slots", "capacity": 2}'"""
    found: dict[str, Any] = read_json(text, "json", accepted="a JSON object", example=example)
    return found
