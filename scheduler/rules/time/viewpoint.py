"""From where a time phrase is read, and what it can mean."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

from duetime.scheduler.rules.time.time_of_day import Clock, kept_or_usual


@dataclass(frozen=True, slots=True)
class Reading:
    """A phrase as read: `candidates` are the instants it can mean, nearest first, each with what was assumed."""

    candidates: tuple[tuple[datetime, tuple[str, ...]], ...]
    offset: timedelta | None = None


@dataclass(frozen=True, slots=True)
class Frame:
    """The subject of a phrase: `moved_from` is the time of the task that it moves, None for a new one.

    `zone_named` says whether somebody named the zone; that of a machine is nobody's wish. `holidays` is the calendar of
    public holidays, empty where none is configured. `end` says that the phrase ends something: `until june`. `seen` is
    the time that a card shows of the moved task, such as that of its next attempt: `2 hours later` counts from it.
    """

    moved_from: datetime | None = None
    zone_named: bool = True
    holidays: str = ""
    end: bool = False
    seen: datetime | None = None


NEW_TASK = Frame()


@dataclass(frozen=True, slots=True)
class Viewpoint:
    """From where a phrase is read: the moment (aware), and the zone whose clocks wall times mean, if one is known."""

    now: datetime
    zone: ZoneInfo | None
    frame: Frame = NEW_TASK

    @property
    def wall(self) -> datetime:
        return self.now.astimezone(self.known()).replace(tzinfo=None)

    @property
    def today(self) -> date:
        return self.wall.date() if self.zone else self.now.date()

    @property
    def usual(self) -> Clock:
        """The time of day of a date that names none: that of the task which is moved, else 09:00."""
        moved = self.frame.moved_from
        return kept_or_usual(moved.astimezone(self.known()).time() if moved else None)

    @property
    def usual_day(self) -> date:
        """The day that `same` means: that of the task which is moved, else today."""
        moved = self.frame.moved_from
        return moved.astimezone(self.known()).date() if moved else self.today

    def known(self) -> ZoneInfo:
        if self.zone is None:
            raise NoZone
        return self.zone


class NoZone(Exception):
    """A wall time was read, and no time zone is known."""
