"""The verbs of the audit: list, head, verify."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated

import typer
from duetime.scheduler.audit.entry import AuditEntry, AuditFilter, AuditKind
from duetime.scheduler.audit.verdict import ChainVerdict, KeptHead
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.intake.bounds import Bounds
from duetime.scheduler.principal import LOCAL
from duetime.scheduler.rules.time import times
from duetime.scheduler.task import Json
from duetime.server.cli import output
from duetime.server.cli.exit_codes import FAILED_CODE
from duetime.server.cli.formats.csv_table import write_csv
from duetime.server.cli.output import AsCsv, AsJson
from duetime.server.session import session
from duetime.widgets.history_text import clock_time

COLUMNS = ("id", "at", "tenant", "kind", "actor", "actor_tenant", "via", "subject", "reason", "detail")
ChainTenant = Annotated[str | None, typer.Option(help="only the chain of this tenant")]


def list_(
    context: typer.Context,
    *,
    tenant: Annotated[str, typer.Option(help="whose audit log")] = LOCAL.tenant,
    who: Annotated[str | None, typer.Option(help="only what this user did")] = None,
    surface: Annotated[str | None, typer.Option(help="only by this way: mcp, rest, admin, cli, python, stdio")] = None,
    kind: Annotated[AuditKind | None, typer.Option(help="only entries of this kind")] = None,
    subject: Annotated[str | None, typer.Option(help="only what was done to this key, pool, secret ...")] = None,
    since: Annotated[str | None, typer.Option(help="from this time on: 'friday', 'last night', '12h'")] = None,
    until: Annotated[str | None, typer.Option(help="before this time")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="entries per page, 1 to 1000")] = 50,
    cursor: Annotated[str | None, typer.Option(help="the cursor that the previous page printed")] = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """List what callers did that is no event of a task, newest first: who, by which way, to what and why."""
    opened = session(context)
    zone = opened.settings().timezone or "UTC"
    with opened.store(create=True) as store:
        bounds = Bounds.of(cursor, store.now(), zone, since=since, until=until)
        where = AuditFilter(who, surface, kind, subject, **bounds.instants)
        page = store.audit.page(tenant, where, limit=limit, cursor=bounds.cursor)
        following = bounds.following(page.cursor)
    if as_json:
        output.as_json({"schema": "duetime.audit/1", "entries": [*map(_json, page.entries)], "cursor": following})
    elif as_csv:
        write_csv(COLUMNS, map(_json, page.entries))
    else:
        _table(page.entries, zone)
    if following and not as_json:
        output.note(f"More: repeat the command with --cursor {following}")


def head(context: typer.Context, *, tenant: ChainTenant = None, as_json: AsJson = False) -> None:
    """Show the end of each audit chain, to be kept elsewhere: it stands for all entries up to it."""
    with session(context).store(create=True) as store:
        while store.audit_chain.seal(durable=True):
            pass
        found = store.audit_chain.heads(tenant)
    if as_json:
        heads: list[Json] = [{"tenant": it.tenant, "entries": it.entries, "hash": it.hash} for it in found]
        output.as_json({"schema": "duetime.audit_heads/1", "heads": heads})
        return
    for each in found:
        output.say(f"{each.tenant}:{each.entries}:{each.hash}")


def verify(
    context: typer.Context,
    *,
    tenant: ChainTenant = None,
    head: Annotated[
        list[str] | None, typer.Option(help="a head that `duetime audit head` showed before; may be repeated")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Verify the audit chains: nothing that was sealed is changed, deleted, added or moved; else exit with 1."""
    kept = [_head_in(text) for text in head or ()]
    began = time.monotonic()
    with session(context).store(create=True) as store, _progress() as (seen, expect):
        expect(sum(each.entries for each in store.audit_chain.heads(tenant)))
        found = list(store.audit_chain.verify(tenant, kept=kept, seen=seen))
    seconds = time.monotonic() - began
    if as_json:
        output.as_json({"schema": "duetime.audit_verdicts/1", "chains": [*map(_verdict_json, found)]})
    else:
        _say(found, seconds)
    if any(verdict.broken for verdict in found):
        raise typer.Exit(FAILED_CODE)


def _head_in(text: str) -> KeptHead:
    tenant, _, rest = text.rpartition(":")[0].rpartition(":")
    hash_ = text.rpartition(":")[2]
    if not (tenant and rest.isdecimal() and hash_):
        raise InvalidArgument(
            "head",
            f"{text[:80]!r} is no head",
            accepted="a line of `duetime audit head`",
            example="local:8:9f86d081...",
        )
    return KeptHead(tenant, int(rest), hash_)


@contextmanager
def _progress() -> Iterator[tuple[Callable[[int], None], Callable[[int], None]]]:
    """Show on stderr how far it is, where somebody looks; yield a function for entries and one for their total."""
    if not sys.stderr.isatty():
        yield lambda _: None, lambda _: None
        return
    from rich.console import Console  # noqa: PLC0415 - where nobody looks, it is not loaded
    from rich.progress import Progress  # noqa: PLC0415 - as above

    with Progress(console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task("Verifying", total=None)
        yield lambda count: shown.advance(task, count), lambda total: shown.update(task, total=total)


def _say(found: Sequence[ChainVerdict], seconds: float) -> None:
    for each in found:
        if each.broken:
            output.say(f"{each.tenant}: BROKEN at entry {each.broken.entry:,}: {each.broken.wrong}.")
            continue
        notes = [
            *([f"{each.removed:,} deleted by retention"] if each.removed else []),
            *([f"{each.unkeyed:,} sealed before there was a key"] if each.unkeyed else []),
            *([f"{each.pending:,} not sealed yet"] if each.pending else []),
        ]
        output.say(f"{each.tenant}: {each.entries:,} entries hold{''.join(f', {note}' for note in notes)}.")
    checked = sum(each.checked for each in found)
    output.say(f"{checked:,} rows compared in {seconds:.1f} s ({checked / max(seconds, 0.001):,.0f} a second).")


def _verdict_json(verdict: ChainVerdict) -> dict[str, Json]:
    broken: Json = {"entry": verdict.broken.entry, "wrong": verdict.broken.wrong} if verdict.broken else None
    names = ("tenant", "entries", "hash", "checked", "removed", "pending", "unkeyed")
    return {**{name: getattr(verdict, name) for name in names}, "broken": broken}


def _table(entries: Sequence[AuditEntry], zone: str) -> None:
    if not entries:
        output.say("No entry matches.")
        return
    rows = (
        (
            clock_time(times.utc(entry.at), zone) if entry.at else "",
            entry.kind.value,
            entry.subject or "",
            f"{entry.actor} of {entry.actor_tenant}" if entry.actor_tenant else entry.actor,
            entry.via or "",
            entry.reason or "",
        )
        for entry in entries
    )
    output.table((f"AT ({zone})", "WHAT", "TO", "BY", "VIA", "WHY"), rows, spare=("WHY", "VIA"))


def _json(entry: AuditEntry) -> dict[str, Json]:
    values: dict[str, Json] = {name: getattr(entry, name) for name in COLUMNS}
    return {**values, "at": times.utc(entry.at) if entry.at else None, "kind": entry.kind.value}
