"""The text of a report of work: a line for each question."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from duetime.scheduler.history.work_report import ActionWork, WorkReport
from duetime.scheduler.rules.limits.price import money
from duetime.scheduler.rules.time import times, zones


def report_lines(report: WorkReport, zone: str, currency: str) -> Iterator[str]:
    """Write a report; wall times are those of the zone."""
    now, then = report.work.total(), report.before.total()
    home = zones.load(zone)
    since, until = (at.astimezone(home) for at in (report.work.since, report.work.until))
    yield f"{since:%a %d %b %H:%M} to {until:%a %d %b %Y %H:%M} {zone}"
    more = "at least " if report.work.at_least else ""
    succeeded = now.ended - now.failed - now.expired - now.cancelled
    yield (
        f"{more}{now.ended:,} runs ended ({_trend(now.ended, then.ended)}): {succeeded:,} succeeded, "
        f"{now.failed:,} failed, {now.expired:,} expired, {now.cancelled:,} cancelled"
    )
    yield _deadlines(now, then)
    yield f"dead letters: {now.dead_letters:,} ({_trend(now.dead_letters, then.dead_letters)})"
    if report.work.cost or report.before.cost:
        cost, before = report.work.cost, report.before.cost
        yield f"cost: {money(cost)} {currency} ({_trend(float(cost), float(before))})"
    for pool, units in sorted(report.work.units.items()):
        yield f"used: {units:,.10g} units of {pool} ({_trend(units, report.before.units.get(pool, 0))})"
    for each in report.work.worst():
        counts = f"{each.failed:,} failed, {each.expired:,} expired, {each.missed:,} missed their deadline"
        yield f"worst: {each.action}: {counts}, of {each.ended:,}"


def _deadlines(now: ActionWork, then: ActionWork) -> str:
    if not now.deadlines:
        return "no run had a deadline"
    text = f"deadlines: {now.missed:,} of {now.deadlines:,} missed ({now.missed / now.deadlines:.1%}"
    text += f", the time before {then.missed / then.deadlines:.1%})" if then.deadlines else ")"
    if now.late:
        mean = timedelta(seconds=round((now.lateness / now.late).total_seconds()))
        text += f"; late by {times.length(mean)} on average, {times.length(now.latest)} at most"
    return text


def _trend(now: float, then: float) -> str:
    if not then:
        return "none the time before" if now else "as before"
    return "as before" if now == then else f"{(now - then) / then:+.0%}"
