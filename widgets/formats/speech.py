"""A task in one or two sentences that a voice can read out: no ids, no symbols, times as people say them."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Final

from duetime.scheduler.rules.time import zones
from duetime.widgets.schema.task import TaskPayload
from duetime.widgets.text.spoken import look

MAX_TITLE_CHARS: Final = 80
_UNTITLED: Final = "Your task"
_MIN_ID_CHARS: Final = 8


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_SMALL: Final = _words(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
)
_TENS: Final = ("", "", "twenty", "thirty", "forty", "fifty")
_ORDINALS: Final = _words(
    "zeroth first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth "
    "fifteenth sixteenth seventeenth eighteenth nineteenth"
)
_PARTS_OF_DAY: Final = ((12, "in the morning"), (18, "in the afternoon"), (22, "in the evening"), (24, "at night"))
"""The hour at which each ends."""

_SPOKEN_SYMBOLS: Final = {"&": " and ", "%": " percent ", "+": " plus ", "@": " at ", "=": " equals "}
_NEAR: Final = {-1: "yesterday", 0: "today", 1: "tomorrow"}
_MAX_DAYS_BY_NAME: Final = 6
FIRST_SENTENCES: Final = {
    "dry_run": "{title} would come {due}.",
    "scheduled": "{title} is scheduled for {due}.",
    "waiting": "{title} is waiting for its time, {due}.",
    "overdue": "{title} is overdue. It was due {due}.",
    "ready": "{title} is ready to start.",
    "running": "{title} is running now.",
    "stopping": "{title} is being stopped.",
    "retrying": "{title} failed and will be tried again.",
    "suspended": "{title} has been suspended, and goes on by itself.",
    "blocked": "{title} is blocked, and goes on by itself when what it misses is there.",
    "paused": "{title} is paused{until}.",
    "damaged": "{title} is damaged and cannot run.",
    "succeeded": "{title} was done {ended}.",
    "reminded": "You were reminded of {title} {ended}.",
    "failed": "{title} failed {ended}.",
    "expired": "{title} expired {ended}, because it could no longer be done in time.",
    "cancelled": "{title} is cancelled.",
    "skipped": "{title} was skipped.",
}
_OPEN_LOOKS: Final = frozenset(
    {"scheduled", "waiting", "overdue", "ready", "running", "retrying", "suspended", "dry_run"}
)


def with_speech(task: TaskPayload) -> TaskPayload:
    """Return the payload with its sentences for a voice."""
    return task.model_copy(update={"speech": speech(task)})


def speech(task: TaskPayload) -> str:
    """Say how a task stands: `Call John is scheduled for tomorrow at nine in the morning`."""
    zone, now, found = task.when.timezone, datetime.fromisoformat(task.now), look(task)
    ended = task.last_run.ended if task.last_run and task.last_run.ended else task.when.utc
    first = FIRST_SENTENCES[found].format(
        title=spoken_title(task.title),
        due=spoken_time(datetime.fromisoformat(task.when.utc), zone, now),
        ended=spoken_time(datetime.fromisoformat(ended), zone, now),
        until=f" until {_by(datetime.fromisoformat(task.paused_until), zone, now)}" if task.paused_until else "",
    )
    return f"{first}{_second(task, found, zone, now)}"


def _second(task: TaskPayload, found: str, zone: str, now: datetime) -> str:
    if found == "overdue" or found not in _OPEN_LOOKS:  # it has two sentences, or nothing is to come
        return ""
    if task.deadline is not None:
        return f" It has to be finished by {_by(datetime.fromisoformat(task.deadline.utc), zone, now)}."
    return " It repeats." if task.repeat is not None else ""


def _by(instant: datetime, zone: str, now: datetime) -> str:
    return spoken_time(instant, zone, now).removeprefix("on ")


def spoken_title(title: str) -> str:
    """Return a title as it is read out: words, digits and simple marks, without anything that looks like an id."""
    text = "".join(_SPOKEN_SYMBOLS.get(char, char) for char in title)
    words = [word for word in re.sub(r"[^\w\s'’.,:-]|_", " ", text).split() if not _is_id(word)]
    kept = " ".join(word.strip(".,:-") for word in words if word.strip(".,:-"))
    return kept[:MAX_TITLE_CHARS].rsplit(" ", 1)[0] if len(kept) > MAX_TITLE_CHARS else kept or _UNTITLED


def _is_id(word: str) -> bool:
    return len(word) >= _MIN_ID_CHARS and any(char.isdigit() for char in word) and any(char.isalpha() for char in word)


def spoken_time(instant: datetime, zone: str, now: datetime) -> str:
    """Say an instant as people do, in its zone: `tomorrow at half past nine in the morning`."""
    home = zones.load(zone)
    at, here = instant.astimezone(home), now.astimezone(home)
    return f"{_day(at, here)} {_clock(at)}"


def _day(at: datetime, now: datetime) -> str:
    days = (at.date() - now.date()) // timedelta(days=1)
    if days in _NEAR:
        return _NEAR[days]
    if 0 < days <= _MAX_DAYS_BY_NAME:
        return f"on {at:%A}"
    year = "" if at.year == now.year else f" {spoken_year(at.year)}"
    return f"on {at:%A}, {at:%B} the {ordinal(at.day)}{year}"


def _clock(at: datetime) -> str:
    hour, minute = at.hour, at.minute
    if minute == 0 and hour % 12 == 0:
        return "at midnight" if hour == 0 else "at noon"
    return f"at {_hour_and_minute(hour, minute)} {_part_of_day(hour)}"


def _hour_and_minute(hour: int, minute: int) -> str:
    said, following = (number(hour % 12 or 12), number((hour + 1) % 12 or 12))
    quarters = {0: said, 15: f"quarter past {said}", 30: f"half past {said}", 45: f"quarter to {following}"}
    if minute in quarters:
        return quarters[minute]
    return f"{said} {'' if minute // 10 else 'oh '}{number(minute)}"


def _part_of_day(hour: int) -> str:
    return next(words for end, words in _PARTS_OF_DAY if hour < end)


def number(count: int) -> str:
    """Say a number below sixty in words."""
    if count < len(_SMALL):
        return _SMALL[count]
    tens, rest = divmod(count, 10)
    return f"{_TENS[tens]} {_SMALL[rest]}" if rest else _TENS[tens]


def ordinal(day: int) -> str:
    """Say a day of the month: `twenty fourth`."""
    if day < len(_ORDINALS):
        return _ORDINALS[day]
    tens, rest = divmod(day, 10)
    return f"{_TENS[tens]} {_ORDINALS[rest]}" if rest else f"{_TENS[tens][:-1]}ieth"


def spoken_year(year: int) -> str:
    """Say a year of this century in two halves: `twenty twenty seven`."""
    century, rest = divmod(year, 100)
    if century - 20 or not rest // 10:
        return str(year)
    return f"{number(century)} {number(rest)}" if rest < 10 * len(_TENS) else f"{number(century)} {rest}"
