"""Time zones: names to rules, and wall times to instants where clocks jump.

A wall time that does not exist (clocks go forward over it) becomes the first valid instant after the gap. A time that
happens twice (clocks go back) becomes the first of the two. Both are reported, never silent.
"""

from __future__ import annotations

import difflib
import re
import zoneinfo
from calendar import isleap
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cache, lru_cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from zoneinfo import ZoneInfo

from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.rules.time.tokens import Misread

GAP = "gap"
FOLD = "fold"

_UTC_NAMES = frozenset({"utc", "gmt", "z"})
_BRACKETED = re.compile(r" ?\(([A-Za-z_]+(?:/[A-Za-z_/+-]+|[+-][0-9]{1,2})?)\)$")  # `9am (Europe/Paris)`
_MAX_NAME_CHARS, _MIN_NAME_CHARS, _MIN_WORDS = 60, 3, 3
_FIRST_RULED_YEAR = 2090
"""From here on no zone has a table of its changes: a year has those of every year that begins on the same weekday."""

_SECOND = timedelta(seconds=1)
_NAME = re.compile(r"[A-Za-z0-9_+/-]{1,60}")
_MEANT = {
    "America/New_York": "est edt et eastern", "America/Chicago": "cst cdt ct central",
    "America/Denver": "mst mdt mt mountain", "America/Los_Angeles": "pst pdt pt pacific",
    "America/Anchorage": "akst akdt", "Pacific/Honolulu": "hst", "America/Halifax": "ast adt",
    "America/St_Johns": "nst ndt utc-3:30", "America/Sao_Paulo": "brt", "Europe/London": "bst british",
    "Europe/Paris": "cet cest", "Europe/Berlin": "mez mesz", "Europe/Athens": "eet eest", "Europe/Lisbon": "wet west",
    "Europe/Moscow": "msk", "Africa/Johannesburg": "sast", "Asia/Dubai": "gst", "Asia/Tehran": "utc+3:30",
    "Asia/Kolkata": "ist utc+5:30", "Asia/Kathmandu": "utc+5:45", "Asia/Singapore": "sgt", "Asia/Hong_Kong": "hkt",
    "Asia/Tokyo": "jst", "Asia/Seoul": "kst", "Australia/Perth": "awst", "Australia/Darwin": "acst utc+9:30",
    "Australia/Sydney": "aest aedt", "Pacific/Auckland": "nzst nzdt",
}  # fmt: skip
_ABBREVIATIONS = {form: name for name, forms in _MEANT.items() for form in forms.split()}
_OFFSET = re.compile(r"(?:utc|gmt) ?([+-]) ?0?([0-9]{1,2})(?::?([0-9]{2}))?")
_CONTINENTS = {"africa", "america", "antarctica", "asia", "atlantic", "australia", "europe", "indian", "pacific"}
_SUFFIX = re.compile(r" (?:(?:standard|daylight|summer) )?time$")


@dataclass(frozen=True, slots=True)
class Placed:
    """A wall time put on the time line: the instant (UTC), and `GAP`, `FOLD` or None for how the clocks stood."""

    instant: datetime
    shift: str | None = None


@lru_cache(maxsize=1024)
def find(name: str, *, argument: str = "timezone") -> ZoneInfo:
    """Return the zone of an IANA name in any case; raise `InvalidArgument` with the nearest real names."""
    known = _folded().get(name.strip().casefold()) if len(name) <= _MAX_NAME_CHARS else None
    if known is None:
        near = nearest(name)
        shown = (f"{found} (always {_fixed_text(found)})" if found.startswith("Etc/") else found for found in near)
        raise InvalidArgument(
            argument,
            f"no time zone is called {name[:40]!r}",
            accepted=f"IANA names, nearest: {', '.join(shown)}",
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
    wanted = re.sub(r"[^a-z0-9/+_-]+", "_", name[:_MAX_NAME_CHARS].strip().casefold())
    folded = _folded()
    cities = (
        [full for full in folded if wanted.rsplit("/", 1)[-1] in full.rsplit("/", 1)[-1]]
        if len(wanted) >= _MIN_NAME_CHARS
        else []
    )
    found = sorted(cities, key=lambda full: (not full.endswith(wanted), len(full), full))
    found += difflib.get_close_matches(wanted, folded, n=count, cutoff=0.6)
    found += ["america/new_york", "europe/london", "utc"]
    meant = usual(name)
    names = [meant] if meant else []
    return tuple(dict.fromkeys([*names, *(folded[full] for full in found)]))[:count]


def usual(name: str) -> str | None:
    """Return the zone usually meant by what is no zone's name: `PST`, `eastern time`, `UTC+2`."""
    folded = _SUFFIX.sub("", " ".join(name[:_MAX_NAME_CHARS].casefold().split()))
    shifted = _OFFSET.fullmatch(folded)
    if shifted is None:
        return _ABBREVIATIONS.get(folded)
    sign, hours, minutes = shifted.groups()
    if minutes not in {None, "00"}:
        return _ABBREVIATIONS.get(f"utc{sign}{hours}:{minutes}")
    return _folded().get(f"etc/gmt{'-' if sign == '+' else '+'}{hours}")  # POSIX counts them the other way round


def split_city(text: str) -> tuple[str, str] | None:
    """Take a city off the end of a phrase, as its zone: `9am`, `Asia/Tokyo` of `9am Tokyo time`; None without one."""
    words = text.split()
    if len(words) < _MIN_WORDS or words[-1].casefold() != "time":
        return None
    for start in range(max(1, len(words) - 4), len(words) - 1):
        zone = _cities().get("_".join(words[start:-1]).casefold())
        if zone:
            return " ".join(words[:start]).removesuffix(" in"), zone
    return None


@lru_cache(maxsize=256)
def split_zone(text: str, home: ZoneInfo | None) -> tuple[str, ZoneInfo | None, tuple[str, ...]]:
    """Take a zone off the end of a phrase: `09:00 America/Edmonton`, `09:00[America/Edmonton]`, `9am Tokyo time`."""
    text = _BRACKETED.sub(r" \1", text)
    head, name = _last_word(text)
    if not name:
        _refuse_unnamed_zone(text)
        return text, None, ()
    if name.casefold() in _UTC_NAMES:
        return head, load("UTC"), ("read as UTC",) if home and home.key != "UTC" else ()
    named = find(name)
    if home and named.key != home.key:
        raise Misread(f"the text says {named.key}, but the time zone is {home.key}", head, zone=named.key)
    return head, named, ()


def _refuse_unnamed_zone(text: str) -> None:
    """Refuse `9am PST`, `9am pacific time` and `9:00 UTC+2`: only the name of a zone says which clock is meant."""
    words = text.split()
    for start in range(max(1, len(words) - 3), len(words)):
        message = " ".join(words[start:])
        meant = usual(message)
        if meant:
            problem = f"{message} does not name one time zone"
            raise Misread(problem, " ".join(words[:start]).removesuffix(" in"), zone=meant)


def zone_within(text: str) -> tuple[str, str] | None:
    """Take a zone out of a phrase: `9am tomorrow`, `America/New_York` of `9am EST tomorrow`; None without one."""
    words = text.split()
    for count in range(min(4, len(words) - 1), 0, -1):
        for start in range(1, len(words) - count + 1):
            named = " ".join(words[start : start + count])
            meant = usual(named) or _folded().get(named.casefold()) or (split_city(f"at {named}") or ("", ""))[1]
            if meant:
                return " ".join((*words[:start], *words[start + count :])), meant
    return None


def _last_word(text: str) -> tuple[str, str]:
    if text.endswith("]") and "[" in text:
        head, name = text[:-1].rsplit("[", 1)
        return head.strip(), name
    if city := split_city(text):
        return city
    head, _, name = text.rpartition(" ")
    if not head or not (name.casefold() in _UTC_NAMES or ("/" in name and name[:1].isalpha())):
        return text, ""
    return head.strip().removesuffix(" in"), name


@cache
def _cities() -> dict[str, str]:
    """Return zones by the last part of their names, which names a city; those that share one are the same zone."""
    named = sorted((full.count("/"), full) for full in _folded() if full.partition("/")[0] in _CONTINENTS)
    cities = {full.rpartition("/")[2]: _folded()[full] for _, full in named}
    return {city: name for city, name in cities.items() if city not in _ABBREVIATIONS}


def _fixed_text(name: str) -> str:
    return f"UTC{offset_text(offset(load(name), datetime(2000, 1, 1, tzinfo=UTC)))}"


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


def changes(
    zone: ZoneInfo, start: datetime, end: datetime, *, stride: timedelta = timedelta(days=1)
) -> Iterator[tuple[datetime, timedelta]]:
    """Yield each change of the clocks in (start, end] with how far they move (negative: back).

    Of two changes within a `stride` that cancel each other, neither is seen.
    """
    here, end = start.astimezone(UTC), end.astimezone(UTC)
    before = offset(zone, here)
    while here < end:
        there = min(here + stride, end)
        after = offset(zone, there)
        if after != before:
            yield change_between(zone, here, there), after - before
        here, before = there, after


def next_change(zone: ZoneInfo, start: datetime, end: datetime) -> datetime | None:
    """Return the first instant in (start, end] from which on the clocks of `zone` go otherwise, None without one."""
    for year in range(start.year, end.year + 1):
        first = datetime(year, 1, 1, tzinfo=UTC)
        for after in _changes_of_year(
            zone, year if year < _FIRST_RULED_YEAR else _alike(first.weekday(), isleap(year))
        ):
            if start < first + after:
                return first + after if first + after <= end else None
    return None


@lru_cache(maxsize=8192)
def _changes_of_year(zone: ZoneInfo, year: int) -> tuple[timedelta, ...]:
    """Return when the clocks change in a year, as time since it began."""
    start = datetime(year, 1, 1, tzinfo=UTC)
    end = start + timedelta(days=366 if isleap(year) else 365)
    return tuple(instant - start for instant, _ in changes(zone, start, end, stride=timedelta(weeks=1)))


@cache
def _alike(weekday: int, leap: bool) -> int:
    """Return the first year after all tables that begins on a weekday, and is a leap year or not."""
    years = range(_FIRST_RULED_YEAR, _FIRST_RULED_YEAR + 60)
    return next(year for year in years if (date(year, 1, 1).weekday(), isleap(year)) == (weekday, leap))


def offset(zone: ZoneInfo, instant: datetime) -> timedelta:
    """Return how far the clocks of `zone` are ahead of UTC at `instant`."""
    return instant.astimezone(zone).utcoffset() or timedelta()


def offset_text(offset: timedelta) -> str:
    """Write an offset as RFC 3339 does: `-07:00`."""
    minutes = int(offset.total_seconds()) // 60
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
