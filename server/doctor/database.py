"""Checks of `duetime doctor` on what the database holds: damaged rows, indexes for searches, the backlog."""

from __future__ import annotations

from collections.abc import Sequence

from duetime.scheduler.foresight.lateness import report
from duetime.scheduler.store import Finding, SearchState, Store
from duetime.scheduler.store.migrations.upgrade import NO_WAY_BACK, newer_in_words
from duetime.server.doctor.check import Check, CheckVerdict

MAX_FINDINGS_SHOWN = 5
_NEWER = "If a newer Duetime wrote them, upgrade this one."
_ONLY_ASCII = ", but words in other letters than a to z are not: this database was created with LC_CTYPE C"
_BUILD_INDEXES = "Run `duetime migrate`, also while others work."
RUNNER_ADVICE = "`duetime service install` keeps one running; a chat client or `duetime serve` does while it is open."


def rows_check(store: Store, *, deep: bool = False) -> Check:
    """Look for damaged rows, among the newest ones or among all, and for runs that failed because of them."""
    found = store.integrity.damaged(None) if deep else store.integrity.damaged()
    if found.findings:
        shown = [damage_text(each, f" of {each.table}") for each in found.findings[:MAX_FINDINGS_SHOWN]]
        more = len(found.findings) - len(shown)
        advice = [*dict.fromkeys(each.remedy for each in found.findings), _NEWER]
        words = " ".join([*shown, *([f"And {more} more kinds of damage."] if more else [])])
        return Check("rows", CheckVerdict.WRONG, words, " ".join(advice))
    if found.failed:
        words = f"{len(found.failed)} task(s) ended as failed because their rows were damaged: {_listed(found.failed)}."
        return Check("rows", CheckVerdict.NOTE, words, "`duetime history TASK` has what was there; schedule it again.")
    return Check("rows", CheckVerdict.OK, f"{found.rows:,} rows read, none damaged")


def damage_text(finding: Finding, place: str = "") -> str:
    """Say how many rows are damaged, how, and which; `place` says of what, where nothing before it does."""
    rows = "row" if finding.count == 1 else "rows"
    more = ", ..." if finding.count > len(finding.examples) else ""
    return f"{finding.count:,} {rows}{place}: each {finding.broken} ({', '.join(finding.examples)}{more})."


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:MAX_FINDINGS_SHOWN]) + (", ..." if len(names) > MAX_FINDINGS_SHOWN else "")


def schema_check(url: str, store: Store) -> Check:
    """Look whether the schema is that of this version, or a newer one that it may use."""
    if newer := newer_in_words(store.schema.version()):
        return Check("database", CheckVerdict.NOTE, f"{url} has {newer}.", NO_WAY_BACK)
    return Check("database", CheckVerdict.OK, f"{url}, its schema matches this version")


def indexes_check(store: Store) -> Check:
    """Look for indexes of a server's database that are missing, or whose build was interrupted."""
    absent = store.schema.absent_indexes()
    if not absent:
        return Check("indexes", CheckVerdict.OK, "none is missing")
    words = f"{len(absent)} missing, so some lists take longer: {_listed(absent)}."
    return Check("indexes", CheckVerdict.NOTE, words, _BUILD_INDEXES)


def search_check(store: Store) -> Check:
    """Look whether searches have an index, and how to get one."""
    found = store.search.state()
    if found is SearchState.INDEXED:
        but = "" if store.search.knows_letters() else _ONLY_ASCII
        return Check("search", CheckVerdict.OK, f"titles and reasons are found by an index{but}")
    embedded = store.search.needs_advance
    why, advice = {
        (SearchState.MISSING, True): ("no process that runs tasks has made their index yet", RUNNER_ADVICE),
        (SearchState.MISSING, False): ("their indexes are missing", _BUILD_INDEXES),
        (SearchState.UNSUPPORTED, True): ("the SQLite of this Python is older than 3.34, or has no FTS5", ""),
        (SearchState.UNSUPPORTED, False): (
            "this server does not have the extension pg_trgm",
            "Install it (it is part of postgresql-contrib), then run `duetime migrate`.",
        ),
    }[found, embedded]
    return Check("search", CheckVerdict.NOTE, f"searches in titles and history read every row: {why}.", advice)


def backlog_check(store: Store) -> Check:
    """Look how late ready runs are, by tier."""
    found = report(store)
    text = "; ".join(found.lines())
    if not found.late():
        return Check("backlog", CheckVerdict.OK, text)
    advice = "`duetime stats` shows what threads and pools do, `duetime explain ID` what a task waits for."
    return Check("backlog", CheckVerdict.NOTE, f"{text}.", advice)
