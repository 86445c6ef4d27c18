"""Values as text of a page: times in the viewer's zone, lengths of time, counts, JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from duetime.scheduler.rules.limits.price import money
from duetime.scheduler.rules.redact import redacted_json
from duetime.scheduler.rules.time import times, zones
from duetime.scheduler.views import TaskRecord
from duetime.server.admin.page_request import Visit
from jinja2 import pass_context
from jinja2.runtime import Context
from markupsafe import Markup

_DASH = "-"
_ONE_DAY = timedelta(days=1)
_SECONDS_SHOWN_BELOW_S = 10
SMALL_PART_RATIO = 0.1
MAX_ENDS_SHOWN = 3
_TASK_OR_RUN_ID = re.compile(r"\b([tr])_(?:[0-9a-z]{20}|[0-9a-z]{12})\b")
_PAGES = {"t": "/tasks/", "r": "/runs/"}


@pass_context
def when(
    context: Context, instant: datetime | None, *, ago: bool = False, since: datetime | None = None
) -> Markup | str:
    """Write an instant in the viewer's zone, or relative to now; the exact time in UTC is its title.

    With `since` it is the end of a time that began then.
    """
    if instant is None:
        return _DASH
    visit: Visit = context["visit"]
    text = times.relative(instant, visit.now) if ago else wall(instant, visit.zone, visit.now, since=since)
    exact = instant.astimezone(UTC)
    return Markup('<time datetime="{}" title="{} UTC">{}</time>').format(
        times.utc(instant), exact.strftime("%Y-%m-%d %H:%M:%S.%f")[:-3], text
    )


def wall(instant: datetime, zone: str, now: datetime, *, since: datetime | None = None) -> str:
    """Write an instant by the clock of a zone: `18:34:02` today, else with its day, and its year if another.

    Yesterday has seconds too: an attempt that ended before midnight is compared with one that ended after it.

    Behind a `since` of another day today has its name: "27 Nov 18:34 to 18:34:02" would be two seconds.
    """
    local, today = instant.astimezone(zones.load(zone)), now.astimezone(zones.load(zone))
    if local.date() == today.date():
        named = since is not None and since.astimezone(zones.load(zone)).date() != local.date()
        return ("today " if named else "") + local.strftime("%H:%M:%S")
    day = f"{local.day} {local.strftime('%b')}"
    clock = "%H:%M:%S" if today.date() - local.date() == _ONE_DAY else "%H:%M"
    return f"{day} {local.strftime(clock)}" if local.year == today.year else f"{day} {local.year}"


def zoned(instant: datetime, zone: str) -> str:
    """Write an instant by the clock of a zone that may not be the viewer's: `Tue 1 Dec 2026 09:00 Europe/Berlin`."""
    return f"{times.describe(instant, zone)} {zone}"


def until_when(paused: Sequence[TaskRecord]) -> str:
    """Write until when tasks are paused, ` until ...` by the clock of each zone; empty where no pause has an end."""
    tasks = [record.task for record in paused if record.task.paused]
    ends = dict.fromkeys(zoned(task.paused_until, task.timezone) for task in tasks if task.paused_until)
    more = f" and {len(ends) - MAX_ENDS_SHOWN} more times" if len(ends) > MAX_ENDS_SHOWN else ""
    return f" until {', '.join([*ends][:MAX_ENDS_SHOWN])}{more}" if ends else ""


def ticks(instants: Sequence[datetime], zone: str, now: datetime, *, seconds: bool = False) -> list[str]:
    """Write the ticks of a time line in one format: the time of each, and the day only where another one begins."""
    clock, shown = ("%H:%M:%S" if seconds else "%H:%M"), now.astimezone(zones.load(zone)).date()
    texts = []
    for instant in instants:
        local = instant.astimezone(zones.load(zone))
        day = "" if local.date() == shown else f"{local.day} {local.strftime('%b')} "
        texts.append(day + local.strftime(clock))
        shown = local.date()
    return texts


def span(length: timedelta | float | None) -> str:
    """Write a length of time, or seconds, in its largest units: `350 ms`, `4.2 s`, `3 min 20 s`, `2 d 4 h`."""
    if length is None:
        return _DASH
    seconds = length.total_seconds() if isinstance(length, timedelta) else length
    if abs(seconds) < 1:
        return f"{round(seconds * 1000)} ms"
    if abs(seconds) < _SECONDS_SHOWN_BELOW_S:
        return f"{seconds:.1f} s"
    sign = "-" if seconds < 0 else ""
    return sign + " ".join(times.length(timedelta(seconds=abs(seconds))).split()[:4])


def count(number: float | None) -> str:
    """Write a number with its thousands apart."""
    if number is None:
        return _DASH
    return f"{number:,.0f}" if float(number).is_integer() else f"{number:,.2f}"


def pretty(value: Any) -> str:
    """Write a JSON value over several lines."""
    return json.dumps(value, indent=2, ensure_ascii=False, default=str, sort_keys=False)


def word(value: Any) -> str:
    """Write the value of an enumeration, or a name of the code, as words."""
    return str(value).replace("_", " ")


def amount(cost: Decimal | None) -> str:
    """Write an amount of money, without its currency."""
    return _DASH if cost is None else money(cost)


@pass_context
def linked(context: Context, sentence: str) -> Markup:
    """Write a sentence with each task and run that it names as a link to its page."""
    visit: Visit = context["visit"]
    parts, end = list[str](), 0
    for found in _TASK_OR_RUN_ID.finditer(sentence):
        link = Markup('<a href="{}">{}</a>').format(visit.url(_PAGES[found[1]] + found[0]), found[0])
        parts += [sentence[end : found.start()], link]
        end = found.end()
    return Markup("").join([*parts, sentence[end:]])


def percent(part: float) -> str:
    """Write a part of one as percent, with a decimal where it is small."""
    return f"{100 * part:.{0 if part >= SMALL_PART_RATIO else 1}f} %"


FILTERS = {
    "masked": redacted_json,
    "percent": percent,
    "when": when,
    "span": span,
    "count": count,
    "money": amount,
    "linked": linked,
    "pretty": pretty,
    "word": word,
}
