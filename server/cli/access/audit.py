"""The verbs of the audit: list, head, verify."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Annotated, Any, Final

import typer
from duetime.scheduler.audit.entry import AuditFilter, AuditKind
from duetime.scheduler.intake.bounds import Bounds
from duetime.scheduler.intake.validation import page_size
from duetime.scheduler.principal import ALL_TENANTS
from duetime.server.cli import output
from duetime.server.cli.access.tenants import one_tenant
from duetime.server.cli.exit_codes import FAILED_CODE
from duetime.server.cli.formats.csv_pages import wants_every_page, write_every_page
from duetime.server.cli.formats.csv_table import write_csv
from duetime.server.cli.output import AsCsv, AsJson
from duetime.server.session import session
from duetime.server.settings.options import rules_of_audit
from duetime.tools.admin.audit_rows import AUDIT_COLUMNS, heads_json, page_json, read_heads, verdicts_json
from duetime.widgets.text.history_text import clock_time

MAX_REMOVALS_SHOWN: Final = 7
"""Days on which retention deleted events that are written for each chain."""

_TOO_YOUNG: Final = "younger than {} rules allow to be deleted"

_UNREPORTED: Final[Mapping[str, Any]] = {"too_young": 0, "removals": ()}
"""The members of a chain that a server of an earlier release does not report, as if it found nothing there."""

ChainTenant = Annotated[str | None, typer.Option(help="only the chain of this tenant; `*` for all")]


def list_(
    context: typer.Context,
    *,
    tenant: Annotated[str | None, typer.Option(help="whose audit log, of one tenant at a time")] = None,
    actor: Annotated[str | None, typer.Option("--who", "--actor", help="only what this user did")] = None,
    surface: Annotated[str | None, typer.Option(help="only by this way: mcp, rest, admin, cli, python, stdio")] = None,
    kind: Annotated[AuditKind | None, typer.Option(help="only entries of this kind")] = None,
    subject: Annotated[str | None, typer.Option(help="only what was done to this key, pool, secret ...")] = None,
    since: Annotated[str | None, typer.Option(help="from this time on: 'friday', 'last night', '12h'")] = None,
    until: Annotated[str | None, typer.Option(help="before this time")] = None,
    limit: Annotated[int, typer.Option(help="entries per page, 1 to 100")] = 50,
    cursor: Annotated[str | None, typer.Option(help="the cursor that the previous page printed")] = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """List what callers did apart from task changes, newest first: who, by which way, to what and why."""
    tenant, opened = one_tenant(tenant), session(context)
    zone = opened.zone()
    with opened.store(create=True) as store:

        def read(limit: int, cursor: str | None) -> Mapping[str, Any]:
            bounds = Bounds.of(cursor, store.now(), zone, since=since, until=until)
            where = AuditFilter(actor, surface, kind, subject, **bounds.instants)
            page = store.audit.page(tenant, where, limit=limit, cursor=bounds.cursor)
            return page_json(replace(page, cursor=bounds.following(page.cursor)))

        if wants_every_page(context):
            write_every_page(context, read, "entries", AUDIT_COLUMNS)
        else:
            show_page(read(page_size(limit), cursor), zone, as_json=as_json, as_csv=as_csv)


def show_page(page: Mapping[str, Any], zone: str, *, as_json: bool, as_csv: bool) -> None:
    """Write a page of audit entries, and how to get the next one."""
    if as_json:
        output.as_json(dict(page))
        return
    if as_csv:
        write_csv(AUDIT_COLUMNS, page["entries"])
    else:
        _table(page["entries"], zone)
    if page.get("cursor"):
        output.note(f"More: repeat the command with --cursor {page['cursor']}")


def head(context: typer.Context, *, tenant: ChainTenant = None, as_json: AsJson = False) -> None:
    """Show the end of each audit chain, to be kept elsewhere: it stands for all entries up to it."""
    with session(context).store(create=True) as store:
        while store.audit_chain.seal(durable=True):
            pass
        found = store.audit_chain.heads(_one(tenant))
    show_heads(heads_json(found, _one(tenant)), as_json=as_json)


def _one(tenant: str | None) -> str | None:
    """Return the tenant that the options name, None for all."""
    return None if tenant == ALL_TENANTS else tenant


def show_heads(found: Mapping[str, Any], *, as_json: bool) -> None:
    """Write the ends of chains, a line each."""
    if as_json:
        output.as_json(dict(found))
        return
    for each in found["heads"]:
        output.say(f"{each['tenant']}:{each['entries']}:{each['hash']}")


def verify(
    context: typer.Context,
    *,
    tenant: ChainTenant = None,
    head: Annotated[
        list[str] | None,
        typer.Option(help="lines that `duetime audit head` wrote before, a head each; may be repeated"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Verify the audit chains; exit with 1 when anything sealed was changed, deleted too early, added or moved."""
    one = _one(tenant)
    kept, opened = read_heads(head or (), one), session(context)
    rules, began = rules_of_audit(opened.settings()), time.monotonic()
    with opened.store(create=True) as store, _progress() as (seen, expect):
        expect(sum(each.entries for each in store.audit_chain.heads(one)))
        found = list(store.audit_chain.verify(one, anchors=kept, rules=rules, on_progress=seen))
    show_verdicts(verdicts_json(found, one), time.monotonic() - began, as_json=as_json)


def show_verdicts(found: Mapping[str, Any], seconds: float, *, as_json: bool) -> None:
    """Write the results of verifications; raises Exit unless each chain holds."""
    chains = [{**_UNREPORTED, "holds": "broken" not in each, **each} for each in found["chains"]]
    if as_json:
        output.as_json(dict(found))
    else:
        _write(chains, seconds)
    if not all(verdict["holds"] for verdict in chains):
        raise typer.Exit(FAILED_CODE)


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


def _write(found: Sequence[Mapping[str, Any]], seconds: float) -> None:
    for each in found:
        broken = each.get("broken")
        if broken:
            output.say(f"{each['tenant']}: BROKEN at entry {broken['entry']:,}: {broken['wrong']}.")
            continue
        notes = [
            *([f"{each['removed']:,} deleted by retention"] if each["removed"] and each["holds"] else []),
            *([f"{each['unkeyed']:,} sealed before there was a key"] if each["unkeyed"] else []),
            *([f"{each['pending']:,} not sealed yet"] if each["pending"] else []),
        ]
        young = f"{each['too_young']:,} of {each['removed']:,} deleted events were {_TOO_YOUNG.format('the')}"
        state = f"{each['entries']:,} entries hold" if each["holds"] else f"INCOMPLETE, {young}"
        output.say(f"{each['tenant']}: {state}{''.join(f', {note}' for note in notes)}.")
        _write_removals(each["removals"])
        if not each["holds"]:
            output.say("  Unless a rule was shorter on that day, somebody else deleted these and recorded a removal.")
            output.say("  Name a shorter rule of that day in the settings: [[retention]] with its last day as `until`.")
    checked = sum(each["checked"] for each in found)
    output.say(f"{checked:,} rows compared in {seconds:.1f} s ({checked / max(seconds, 0.001):,.0f} a second).")


def _write_removals(removals: Sequence[Mapping[str, Any]]) -> None:
    """Write the days of removals, the newest first: no rule explains a day on which none deleted."""
    for each in [*reversed(removals)][:MAX_REMOVALS_SHOWN]:
        events = "event" if each["events"] == 1 else "events"
        young = f", {each['too_young']:,} of them {_TOO_YOUNG.format('its')}" if each.get("too_young") else ""
        output.say(f"  {each['day']}: retention recorded that it deleted {each['events']:,} {events}{young}.")
    if len(removals) > MAX_REMOVALS_SHOWN:
        output.say(f"  {len(removals) - MAX_REMOVALS_SHOWN:,} earlier days: `duetime audit verify --json` lists them.")


def _table(entries: Sequence[Mapping[str, Any]], zone: str) -> None:
    if not entries:
        output.say("No entry matches.")
        return
    rows = (
        (
            clock_time(entry["at"], zone) if entry.get("at") else "",
            entry["kind"],
            entry.get("subject") or "",
            f"{entry['actor']} of {entry['actor_tenant']}" if entry.get("actor_tenant") else entry["actor"],
            entry.get("via") or "",
            entry.get("reason") or "",
        )
        for entry in entries
    )
    output.table((f"AT ({zone})", "WHAT", "TO", "BY", "VIA", "WHY"), rows, spare=("WHY", "VIA"))
