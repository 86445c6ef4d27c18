"""Checks of `duetime doctor` on what the database holds: unreadable rows, indexes for searches, the backlog."""

from __future__ import annotations

from duetime.scheduler.foresight.lateness import report
from duetime.scheduler.ids import runs_words
from duetime.scheduler.store import SearchState, Store
from duetime.server.doctor.check import Check, CheckVerdict

RUNNER_ADVICE = "`duetime service install` keeps one running; a chat client or `duetime serve` does while it is open."


def rows_check(store: Store) -> Check:
    found = store.claims.unreadable()
    if not found:
        return Check("rows", CheckVerdict.OK, "every due, ready or running row can be read")
    said = f"{runs_words(found)} cannot be read by this version and will not run here."
    return Check(
        "rows", CheckVerdict.WRONG, said, "Upgrade this Duetime if a newer one wrote them; the log has the reason."
    )


def search_check(store: Store) -> Check:
    """Look whether searches have an index, and how to get one."""
    found = store.search.state()
    if found is SearchState.INDEXED:
        return Check("search", CheckVerdict.OK, "titles and reasons are found by an index")
    embedded = store.search.needs_advance
    why, advice = {
        (SearchState.MISSING, True): ("no process that runs tasks has made their index yet", RUNNER_ADVICE),
        (SearchState.MISSING, False): ("their indexes are missing", "Run `duetime migrate`, also while others work."),
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
    said = "; ".join(found.lines())
    if not found.late():
        return Check("backlog", CheckVerdict.OK, said)
    advice = "`duetime stats` shows what threads and pools do, `duetime explain ID` what a task waits for."
    return Check("backlog", CheckVerdict.NOTE, f"{said}.", advice)
