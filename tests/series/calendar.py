"""When a rule fires, by brute force over days and instants: nothing here is the product's but the words of a rule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

DAY, HOUR, MINUTE = timedelta(days=1), timedelta(hours=1), timedelta(minutes=1)


@dataclass(frozen=True)
class Words:
    """A rule as a user writes it, and what it means: wall times on some days, or a length of time apart."""

    text: str
    on: Callable[[date], bool] = lambda _: True
    at: tuple[time, ...] = ()
    step: timedelta = timedelta(0)


def last_of_month(day: date) -> bool:
    return (day + DAY).month != day.month


RULES = (
    Words("every day at 9:00", at=(time(9),)),
    Words("every day at 2:30", at=(time(2, 30),)),
    Words("every day at 1:30 and 18:00", at=(time(1, 30), time(18))),
    Words("every weekday at 9:00", lambda day: day.weekday() < 5, (time(9),)),
    Words("every sunday at 2:30", lambda day: day.weekday() == 6, (time(2, 30),)),
    Words("every month on the last day at 9:00", last_of_month, (time(9),)),
    Words("every month on the 31st at 9:00", lambda day: day.day == 31, (time(9),)),
    Words("every 6 hours", step=6 * HOUR),
    Words("every 25 hours", step=25 * HOUR),
    Words("every 5000 seconds", step=timedelta(seconds=5000)),
    Words("every 40007 seconds", step=timedelta(seconds=40007)),
)


@dataclass(frozen=True)
class Rule:
    """A rule in a zone, from an anchor on."""

    words: Words
    zone: str
    anchor: datetime

    def after(self, instant: datetime) -> datetime:
        """Return the first time after an instant at which it fires."""
        if self.words.step:
            return _next_step(self.anchor, self.words.step, instant)
        day = max(instant, self.anchor).astimezone(ZoneInfo(self.zone)).date() - DAY
        while True:
            for at in self.words.at:
                fires = instant_of(datetime.combine(day, at), self.zone)
                if self.words.on(day) and fires > instant and fires >= self.anchor:
                    return fires
            day += DAY

    def moved(self, zone: str) -> Rule:
        """Return the rule in another zone: its anchor keeps its wall time."""
        wall = self.anchor.astimezone(ZoneInfo(self.zone)).replace(tzinfo=None)
        return Rule(self.words, zone, instant_of(wall, zone))


def begun(words: Words, zone: str, now: datetime) -> Rule:
    """Return a rule that nobody gave a start: it is anchored at the first time at which it fires."""
    if words.step:
        return Rule(words, zone, now + words.step)
    return Rule(words, zone, Rule(words, zone, now).after(now))


def _next_step(anchor: datetime, step: timedelta, instant: datetime) -> datetime:
    return anchor if instant < anchor else anchor + ((instant - anchor) // step + 1) * step


@lru_cache(maxsize=100_000)
def instant_of(wall: datetime, zone: str) -> datetime:
    """Return the first instant at which the clocks show a wall time, or have jumped over it."""
    place = ZoneInfo(zone)
    at = wall.replace(tzinfo=UTC) - 15 * HOUR
    step = HOUR
    while at.astimezone(place).replace(tzinfo=None) < wall:
        later = at + step
        if step == HOUR and later.astimezone(place).replace(tzinfo=None) >= wall:
            step = MINUTE
            continue
        at = later
    return at
