"""The time line of runs: when each was at work, in one lane with others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial

from duetime.scheduler.history.runs import RunFilter, RunSummary
from duetime.scheduler.intake.bounds import resolve_bound
from duetime.scheduler.task import State
from duetime.server.admin.answers import Answer, Page, get
from duetime.server.admin.export import exported, wanted_format
from duetime.server.admin.failures import unknown
from duetime.server.admin.formats import ticks
from duetime.server.admin.page_request import Visit
from duetime.tools.admin.run_rows import RUN_COLUMNS, file_row

WINDOWS: Mapping[str, timedelta] = {
    "15m": timedelta(minutes=15),
    "1h": timedelta(hours=1),
    "6h": timedelta(hours=6),
    "24h": timedelta(days=1),
}
LANES = ("action", "worker", "tier", "title")
DEFAULT_WINDOW = "1h"
MAX_TIMELINE_RUNS = 300
TIMELINE_PAGE_ROWS = 100
MAX_PAGES_SEARCHED = 5
"""Pages of a list whose rows are compared with when they began: each takes up to 7,500 runs."""

LOOK_AHEAD = timedelta(days=1)
"""The time after a window in which the runs end that were at work in it; later ones are left out."""

TICK_COUNT = 6
NARROW_TICK_COUNT = 2
"""Ticks that a narrow window has room for."""

SECONDS_SHOWN_BELOW = timedelta(hours=1)
"""Ticks of a shorter window have seconds: they are less than ten minutes apart."""

ROW_HEIGHT_PX = 14
MIN_WIDTH_RATIO = 0.003
"""A run of a moment is still wide enough to be seen and pointed at."""

SHOWN_STATES = (State.SUCCEEDED, State.FAILED, State.EXPIRED, State.CANCELLED, State.RETRYING, State.SUSPENDED)


@dataclass(frozen=True, slots=True)
class Bar:
    """A run on the time line; `left` and `width` are percent of the window, `row` counts from the top of its lane."""

    run: RunSummary
    left: float
    width: float
    row: int


@dataclass(slots=True)
class LaneOfBars:
    """Runs that have something in common; those at work at one time are below each other."""

    name: str
    bars: list[Bar] = field(default_factory=list)
    ends: list[float] = field(default_factory=list)

    @property
    def height(self) -> int:
        return ROW_HEIGHT_PX * len(self.ends)

    def add(self, run: RunSummary, left: float, width: float) -> None:
        """Put a run into the first row that is free at its start."""
        row = next((row for row, end in enumerate(self.ends) if end <= left), len(self.ends))
        self.ends[row : row + 1] = [left + width]
        self.bars.append(Bar(run, left, width, row))


def timeline(visit: Visit) -> Answer:
    """Show the runs that were running in a window of time, or send them as a file."""
    length = WINDOWS[_known("window", visit.query.get("window") or DEFAULT_WINDOW, WINDOWS)]
    by = _known("by", visit.query.get("by") or LANES[0], LANES)
    given = visit.query.get("until", "").strip()
    until = resolve_bound(given, now=visit.now, zone=visit.zone, argument="until") if given else visit.now
    since = until - length
    file_format = wanted_format(visit)
    found, cut = _runs(visit, since, until)
    if file_format:
        cut_at = len(found) if cut else None
        return exported(file_format, "timeline", RUN_COLUMNS, map(file_row, found), cut_at=cut_at)
    wide_ticks, few_ticks = tick_texts(since, length, visit.zone, visit.now)
    values = {
        "lanes": lanes(found, by, since, until),
        "ticks": wide_ticks,
        "few_ticks": few_ticks,
        "windows": [(None if name == DEFAULT_WINDOW else name, name, None) for name in WINDOWS],
        "kinds": LANES,
        "earlier": since.isoformat(timespec="seconds"),
        "later": min(until + length, visit.now).isoformat(timespec="seconds") if given else None,
        "most": MAX_TIMELINE_RUNS,
        "full": cut,
        "since": since,
        "until": until,
        "row_height": ROW_HEIGHT_PX,
        "live": not given,
    }
    return Page("pages/timeline.html", "Time line", values)


def tick_texts(since: datetime, length: timedelta, zone: str, now: datetime) -> tuple[list[str], list[str]]:
    """Write the ticks of a wide window, and the fewer ones of a narrow window, which name each new day themselves."""
    write = partial(ticks, zone=zone, now=now, seconds=length < SECONDS_SHOWN_BELOW)
    at = [since + length * tick / TICK_COUNT for tick in range(TICK_COUNT)]
    return write(at), write(at[:: TICK_COUNT // NARROW_TICK_COUNT])


def _known(argument: str, given: str, accepted: Iterable[str]) -> str:
    names = list(accepted)
    if given not in names:
        raise unknown(argument, given, names)
    return given


def _runs(visit: Visit, since: datetime, until: datetime) -> tuple[list[RunSummary], bool]:
    """Return the runs that were at work in a window, oldest first, and whether there may be more.

    Of those that ended after it, it has the ones that did so within `LOOK_AHEAD`.
    """
    begun, at_work = RunFilter(started_before=until), RunFilter(states=(State.RUNNING,), started_before=until)
    ended = replace(begun, states=SHOWN_STATES)
    found: dict[str, RunSummary] = {}
    cut = _add(found, visit, at_work)
    cut |= _add(found, visit, replace(ended, oldest_first=True), since=until, until=until + LOOK_AHEAD)
    cut |= _add(found, visit, ended, since=since, until=until)
    return sorted(found.values(), key=lambda run: (run.started_at or until, run.id)), cut


def _add(found: dict[str, RunSummary], visit: Visit, where: RunFilter, **between: datetime) -> bool:
    """Add the runs of a filter as long as there is room and time; return whether there may be more."""
    cursor: str | None = None
    for _ in range(MAX_PAGES_SEARCHED):
        if len(found) >= MAX_TIMELINE_RUNS:
            return True
        page = visit.scheduler.past.runs(
            where, limit=TIMELINE_PAGE_ROWS, cursor=cursor, tenant=visit.reach, by=visit.principal, **between
        )
        found.update({run.id: run for run in page.runs})
        cursor = page.cursor
        if cursor is None:
            return False
    return True


def lanes(found: Iterable[RunSummary], by: str, since: datetime, until: datetime) -> Sequence[LaneOfBars]:
    """Group runs into lanes by their value of the field `by`."""
    made: dict[str, LaneOfBars] = {}
    for run in found:
        assert run.started_at is not None
        begin, end = max(run.started_at, since), min(run.ended_at or until, until)
        width = max((end - begin) / (until - since), MIN_WIDTH_RATIO)
        left = min((begin - since) / (until - since), 1 - width)
        name = str(getattr(run, by) or "-")
        made.setdefault(name, LaneOfBars(name)).add(run, 100 * left, 100 * width)
    return sorted(made.values(), key=lambda lane: lane.name)


TIMELINE_ROUTES = (get("/timeline", timeline, query={"window", "by", "until", "format"}),)
