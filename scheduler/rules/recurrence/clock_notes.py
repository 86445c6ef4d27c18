"""Notes on the days before an occurrence on which clocks change: `1 Nov: clocks go back`."""

from __future__ import annotations

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from duetime.scheduler.rules.time import zones
from duetime.scheduler.rules.time.durations import MICROSECOND
from duetime.scheduler.rules.time.tokens import MONTH_NAMES
from duetime.scheduler.translatable import NoteKind, Translatable
from duetime.scheduler.view_parts import Occurrence

_CLOCKS_NOTED = timedelta(days=366)
"""A change of the clocks earlier than this before an occurrence is not worth a note."""


def clock_notes(zone: ZoneInfo, here: datetime, coming: Occurrence, this_year: int) -> list[str]:
    """Say at which days the clocks change up to an occurrence, from the instant before it, and what becomes of it.

    A day of another year than `this_year` is said with its year.
    """
    notes: list[str] = []
    if zones.offset(zone, here) != zones.offset(zone, coming.instant):
        here = max(here, coming.instant - _CLOCKS_NOTED)
        for instant, moved in zones.changes(zone, here, coming.instant):
            day = (instant - MICROSECOND).astimezone(zone)
            back = moved < timedelta()
            kind = NoteKind.CLOCKS_BACK if back else NoteKind.CLOCKS_FORWARD
            year = f" {day.year}" if day.year != this_year else ""
            text = f"{day.day} {MONTH_NAMES[day.month - 1][:3]}{year}: clocks go {'back' if back else 'forward'}"
            notes.append(Translatable.of(kind, text, day=day.date().isoformat()))
    return [*notes, coming.note] if coming.note else notes
