"""Quiet hours: the hours of each day in which a user gets urgent deliveries only."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, time, timedelta
from typing import Final, Self

from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.rules.time import zones

NO_HOURS = "none"
_FORM = re.compile(
    r"([01]?[0-9]|2[0-3]):([0-5][0-9]) ?[-\u2013] ?([01]?[0-9]|2[0-3]):([0-5][0-9])(?: ([\w+/-]{1,60}))?"
)
_ACCEPTED = "two times of day, with an IANA zone where it is another than the configured one"
_EXAMPLE = "22:00-07:00 America/Denver"


@dataclass(frozen=True, slots=True)
class QuietHours:
    """Hours of each day, by the wall clock of a zone; an end that is not after the start is that of the next day."""

    start: time
    end: time
    zone: str

    @classmethod
    def read_own(cls, text: str, zone: str | None) -> QuietHours | None:
        """Read the hours of a tenant or a user, `none` for no quiet ones. Raises InvalidArgument."""
        return None if text.strip().lower() == NO_HOURS else cls.read(text, zone)

    @classmethod
    def read(cls, text: str, zone: str | None) -> QuietHours:
        """Read `22:00-07:00`, with a zone behind it or in `zone`. Raises InvalidArgument."""
        found = _FORM.fullmatch(text.strip())
        if found is None:
            raise InvalidArgument(
                "quiet_hours", f"{text[:40]!r} is not a range of hours", accepted=_ACCEPTED, example=_EXAMPLE
            )
        start, end = time(int(found[1]), int(found[2])), time(int(found[3]), int(found[4]))
        if start == end:
            raise InvalidArgument("quiet_hours", "they would never end", accepted=_ACCEPTED, example=_EXAMPLE)
        return cls(start, end, zones.find(found[5] or zone or "UTC", argument="quiet_hours").key)

    def __str__(self) -> str:
        return f"{self.start:%H:%M}-{self.end:%H:%M} {self.zone}"

    def until(self, now: datetime) -> datetime | None:
        """Return when the quiet hours of this moment end; None outside them."""
        zone = zones.load(self.zone)
        today = now.astimezone(zone).date()
        for day in (today - timedelta(days=1), today):
            over = day + timedelta(days=int(self.end <= self.start))
            start = zones.place(datetime.combine(day, self.start), zone).instant
            end = zones.place(datetime.combine(over, self.end), zone).instant
            if start <= now < end:
                return end
        return None


@dataclass(frozen=True, slots=True)
class QuietPlan:
    """The quiet hours of users: their own, or else those of their tenant, or else `usual`; None where there are none.

    With `digest` what was held is one message. `by_user` is by tenant and user. `stored` returns what some users have
    set for themselves, which goes before all that settings say.
    """

    usual: QuietHours | None = None
    by_tenant: Mapping[str, QuietHours | None] = field(default_factory=dict)
    digest: bool = True
    by_user: Mapping[tuple[str, str], QuietHours | None] = field(default_factory=dict)
    stored: Callable[[Collection[tuple[str, str]]], Mapping[tuple[str, str], str]] = lambda _users: {}

    def of(self, tenant: str, user: str) -> QuietHours | None:
        """Return the quiet hours of a user."""
        return self.by_user.get((tenant, user), self.by_tenant.get(tenant, self.usual))

    def with_stored(self, users: Collection[tuple[str, str]]) -> Self:
        """Return the plan with what these users have set for themselves; a text without hours counts as unset."""
        own: dict[tuple[str, str], QuietHours | None] = {}
        for user, text in self.stored(users).items():
            with suppress(InvalidArgument):
                own[user] = QuietHours.read_own(text, None)
        return replace(self, by_user={**self.by_user, **own}) if own else self


NEVER_QUIET: Final = QuietPlan()
