"""The audit log as JSON: for the command line and REST."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from duetime.scheduler.audit.chain import ChainNotFound, Head
from duetime.scheduler.audit.entry import AuditEntry, AuditPage
from duetime.scheduler.audit.verdict import ChainVerdict, KeptHead
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.rules.time import times
from duetime.scheduler.task import Json
from duetime.widgets.formats.rows import present

AUDIT_COLUMNS = ("id", "at", "tenant", "kind", "actor", "actor_tenant", "via", "subject", "reason", "detail")
_OF_VERDICT = ("tenant", "entries", "hash", "holds", "checked", "removed", "too_young", "pending", "unkeyed")


def entry_json(entry: AuditEntry) -> dict[str, Json]:
    """Return an audit entry."""
    values: dict[str, Json] = {name: getattr(entry, name) for name in AUDIT_COLUMNS}
    return present({**values, "at": times.utc(entry.at) if entry.at else None, "kind": entry.kind.value})


def page_json(page: AuditPage) -> dict[str, Json]:
    """Return a page of audit entries."""
    return present({"schema": "duetime.audit/1", "entries": [*map(entry_json, page.entries)], "cursor": page.cursor})


def heads_json(found: Sequence[Head], named: str | None = None) -> dict[str, Json]:
    """Return the ends of chains. Raises ChainNotFound where the tenant that was `named` has none."""
    if named is not None and not found:
        raise ChainNotFound(named)
    heads: list[Json] = [{"tenant": it.tenant, "entries": it.entries, "hash": it.hash} for it in found]
    return {"schema": "duetime.audit_heads/1", "heads": heads}


def verdicts_json(found: Sequence[ChainVerdict], named: str | None = None) -> dict[str, Json]:
    """Return the results of verifications. Raises ChainNotFound where the tenant that was `named` has no chain."""
    if named is not None and not any(each.entries or each.pending or each.broken for each in found):
        raise ChainNotFound(named)
    return {"schema": "duetime.audit_verdicts/1", "chains": [*map(_verdict_json, found)]}


def _verdict_json(verdict: ChainVerdict) -> dict[str, Json]:
    broken: Json = {"entry": verdict.broken.entry, "wrong": verdict.broken.wrong} if verdict.broken else None
    removals: list[Json] = [
        {"day": each.day.isoformat(), "events": each.events, "too_young": each.too_young} for each in verdict.removals
    ]
    return present({**{name: getattr(verdict, name) for name in _OF_VERDICT}, "removals": removals, "broken": broken})


def read_heads(texts: Iterable[str], tenant: str | None) -> list[KeptHead]:
    """Return the heads of texts, each with one or more lines of `duetime audit head`.

    `tenant` is the one whose chain is verified, None for all of them. Raises InvalidArgument also for a head of a chain
    that is not verified: left out, it would pass for one that holds.
    """
    lines = [line for text in texts for line in _lines(text)]
    heads = [_read_head(line) for line in lines]
    for line, head in zip(lines, heads, strict=True):
        if tenant not in (None, head.tenant):
            raise InvalidArgument(
                "head",
                f"{line[:_MAX_SHOWN_CHARS]!r} is of another tenant",
                accepted=f"a head of {tenant}, whose chain is verified",
                example=f"{tenant}:8:9f86d081...",
            )
    return heads


def _lines(text: str) -> list[str]:
    """Return the lines that are not blank; of a blank text itself, which is not an audit head."""
    return [line.strip() for line in text.splitlines() if line.strip()] or [text]


def _read_head(text: str) -> KeptHead:
    """Return the head that a line of `duetime audit head` has. Raises InvalidArgument."""
    tenant, _, entries = text.rpartition(":")[0].rpartition(":")
    hash_ = text.rpartition(":")[2]
    if not (tenant and entries.isascii() and entries.isdecimal() and len(entries) < _MAX_DIGITS and hash_):
        raise InvalidArgument(
            "head",
            f"{text[:_MAX_SHOWN_CHARS]!r} is not an audit head",
            accepted="a line of `duetime audit head`",
            example="local:8:9f86d081...",
        )
    return KeptHead(tenant, int(entries), hash_)


_MAX_SHOWN_CHARS = 80
_MAX_DIGITS = 19
"""Digits of the number of entries of a chain: more are none."""
