"""Time zones: names to rules, and wall times to instants where clocks jump.

A wall time that does not exist (clocks go forward over it) becomes the first valid instant after the gap; one that
happens twice (clocks go back) becomes the first of the two. Both are reported, never silent.
"""

from __future__ import annotations

import difflib
import re
import zoneinfo
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from zoneinfo import ZoneInfo

from duetime.scheduler.errors import InvalidArgument

GAP = "gap"
FOLD = "fold"

_LONGEST, _SHORTEST = 60, 3
_SECOND = timedelta(seconds=1)
_NAME = re.compile(r"[A-Za-z0-9_+/-]{1,60}")


@dataclass(frozen=True, slots=True)
class Placed:
    """A wall time put on the time line: the instant (UTC), and `GAP`, `FOLD` or None for how the clocks stood."""

    instant: datetime
    shift: str | None = None


def find(name: str, *, argument: str = "timezone") -> ZoneInfo:
    """Return the zone of an IANA name in any case; raise `InvalidArgument` with the nearest real names."""
    known = _folded().get(name.strip().casefold()) if len(name) <= _LONGEST else None
    if known is None:
        near = nearest(name)
        raise InvalidArgument(
            argument,
            f"no time zone is called {name[:40]!r}",
            accepted=f"IANA names, nearest: {', '.join(near)}",
            example=near[0],
        )
    return load(known)


@lru_cache(maxsize=1024)
def load(name: str) -> ZoneInfo:
    """Return the zone `name` from the newer of the system's database and the tzdata package.

    Operating systems lag behind by years, and governments change their clocks at short notice. Every part of Duetime
    takes zones from here, so that no two of them disagree about a wall time.
    """
    packaged = _packaged()
    if packaged is None or not _NAME.fullmatch(name) or not packaged.joinpath(name).is_file():
        return ZoneInfo(name)
    with packaged.joinpath(name).open("rb") as file:
        return ZoneInfo.from_file(file, key=name)


def nearest(name: str, count: int = 3) -> tuple[str, ...]:
    """Return the real zone names most like `name`, by the whole name or by its city."""
    wanted = re.sub(r"[^a-z0-9/+_-]+", "_", name[:_LONGEST].strip().casefold())
    folded = _folded()
    cities = (
        [full for full in folded if wanted.rsplit("/", 1)[-1] in full.rsplit("/", 1)[-1]]
        if len(wanted) >= _SHORTEST
        else []
    )
    found = sorted(cities, key=lambda full: (not full.endswith(wanted), len(full), full))
    found += difflib.get_close_matches(wanted, folded, n=count, cutoff=0.6)
    found += ["america/new_york", "europe/london", "utc"]
    return tuple(folded[full] for full in dict.fromkeys(found))[:count]


def place(wall: datetime, zone: ZoneInfo) -> Placed:
    """Put a naive wall time on the time line of `zone`: the one valid instant, or the first one."""
    early = wall.replace(tzinfo=zone, fold=0)
    before, after = early.utcoffset(), early.replace(fold=1).utcoffset()
    assert before is not None
    assert after is not None
    instant = early.astimezone(UTC)
    if before == after:
        return Placed(instant)
    if before > after:
        return Placed(instant, FOLD)
    return Placed(change_between(zone, instant - (after - before), instant), GAP)


def change_between(zone: ZoneInfo, low: datetime, high: datetime) -> datetime:
    """Return the instant in (low, high] from which on the offset is that of `high`; the offsets at both ends differ."""
    target = offset(zone, high)
    low, high = low.astimezone(UTC), high.astimezone(UTC)
    while high - low > _SECOND:
        middle = low + (high - low) // 2
        low, high = (low, middle) if offset(zone, middle) == target else (middle, high)
    return high.replace(microsecond=0)


def changes(zone: ZoneInfo, start: datetime, end: datetime) -> Iterator[tuple[datetime, timedelta]]:
    """Yield each change of the clocks in (start, end] with how far they move (negative: back)."""
    day = timedelta(days=1)
    here = start.astimezone(UTC)
    while here < end:
        there = min(here + day, end.astimezone(UTC))
        moved = offset(zone, there) - offset(zone, here)
        if moved:
            yield change_between(zone, here, there), moved
        here = there


def offset(zone: ZoneInfo, instant: datetime) -> timedelta:
    """Return how far the clocks of `zone` are ahead of UTC at `instant`."""
    return instant.astimezone(zone).utcoffset() or timedelta()


def offset_text(moved: timedelta) -> str:
    """Write an offset as RFC 3339 does: `-07:00`."""
    minutes = int(moved.total_seconds()) // 60
    return f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"


@cache
def _folded() -> dict[str, str]:
    names = zoneinfo.available_timezones() - {"localtime", "Factory", "posixrules"}
    return {name.casefold(): name for name in sorted(names)}


@cache
def _packaged() -> Traversable | None:
    """Return the folder of the tzdata package, None when it is missing or older than the system's database."""
    try:
        folder = resources.files("tzdata").joinpath("zoneinfo")
        version = _version(folder.joinpath("tzdata.zi"))
    except (ModuleNotFoundError, OSError):
        return None
    return folder if version >= max(map(_system_version, zoneinfo.TZPATH), default="") else None


def _system_version(folder: str) -> str:
    try:
        return _version(Path(folder) / "tzdata.zi")
    except OSError:
        return ""


def _version(file: Traversable) -> str:
    with file.open("r", encoding="utf-8") as text:
        return str(text.readline().removeprefix("# version ").strip())
