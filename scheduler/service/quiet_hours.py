"""The quiet hours of a user: those in force, and those that the user sets."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from duetime.scheduler.audit.entry import AuditEntry, AuditKind
from duetime.scheduler.delivery.quiet_hours import NO_HOURS, QuietHours, QuietPlan
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.intake.validation import tenant_changed
from duetime.scheduler.principal import LOCAL, Principal
from duetime.scheduler.store import Store
from duetime.scheduler.task import Json

_EXAMPLE: Final = "22:00-07:00 America/Denver"
_TIME_OF_DAY: Final = r"\b([01]?[0-9]|2[0-4])(?:[:.h]([0-5][0-9]))?(?: ?(am|pm))?\b"
_TWO_TIMES: Final = re.compile(rf"[^0-9]*{_TIME_OF_DAY}[^0-9]+{_TIME_OF_DAY}[^0-9]*")


@dataclass(frozen=True, slots=True)
class QuietHoursView:
    """The quiet hours of a user: `own` ones, or those of the settings. None where no hour is quiet.

    `until` is when the quiet hours of this moment end.
    """

    tenant: str
    user: str
    hours: QuietHours | None
    own: bool
    until: datetime | None = None


class QuietHoursService:
    """Reads and changes the quiet hours of the caller, or for an administrator those of another user."""

    def __init__(
        self,
        store: Store,
        plan: QuietPlan,
        zone: str | None,
        *,
        on_change: Callable[[Sequence[str]], None],
        via: str | None,
    ) -> None:
        self._store = store
        self._plan = plan
        self._zone = zone
        self._on_change = on_change
        self._via = via

    def read(self, *, user: str | None = None, tenant: str | None = None, by: Principal = LOCAL) -> QuietHoursView:
        """Return the quiet hours of the user: the own ones, or else those of the settings.

        An administrator may name another `user`, an operator one of another `tenant`; so it is in the next two.
        """
        whose = _whose(by, user, tenant)
        name = (whose.tenant, whose.user)
        stored = self._store.quiet_hours.texts([name])
        plan = self._plan.with_stored([name])
        hours = plan.of(*name)
        return QuietHoursView(*name, hours, bool(stored), hours.until(self._store.now()) if hours else None)

    def set(
        self, hours: str, *, user: str | None = None, tenant: str | None = None, by: Principal = LOCAL
    ) -> QuietHoursView:
        """Let deliveries to the user that can wait be held in these hours: `22:00-07:00 America/Denver`, or `none`.

        They go before those of the settings. Deliveries that wait for the old end are looked at again at once.
        """
        whose, read = _whose(by, user, tenant), _read(hours, self._zone)
        text = str(read) if read else NO_HOURS
        self._store.quiet_hours.set(
            whose.tenant, whose.user, text, self._entry(AuditKind.QUIET_HOURS_SET, whose, by, {"hours": text})
        )
        return self._changed(user, tenant, by)

    def clear(self, *, user: str | None = None, tenant: str | None = None, by: Principal = LOCAL) -> QuietHoursView:
        """Forget the user's own quiet hours, so that those of the settings count again; return these."""
        whose = _whose(by, user, tenant)
        entry = self._entry(AuditKind.QUIET_HOURS_CLEARED, whose, by)
        self._store.quiet_hours.clear(whose.tenant, whose.user, entry)
        return self._changed(user, tenant, by)

    def _entry(
        self, kind: AuditKind, whose: Principal, by: Principal, detail: Mapping[str, Json] | None = None
    ) -> AuditEntry:
        return AuditEntry.by(by.with_via(self._via), kind, whose.user, tenant=whose.tenant, detail=detail)

    def _changed(self, user: str | None, tenant: str | None, by: Principal) -> QuietHoursView:
        found = self.read(user=user, tenant=tenant, by=by)
        self._on_change([])  # wakes the process that delivers
        return found


def _read(text: str, zone: str | None) -> QuietHours | None:
    try:
        return QuietHours.read_own(text, zone)
    except InvalidArgument as error:
        right = _corrected(text) or _EXAMPLE
        raise InvalidArgument("hours", error.problem, accepted=error.accepted, example=f"hours={right!r}") from None


def _corrected(text: str) -> str | None:
    """Return the hours that a text most likely means, without a zone: `10pm to 6` are 22:00-06:00."""
    found = _TWO_TIMES.fullmatch(text.lower())
    if found is None:
        return None
    start, end = _written(*found.groups()[:3]), _written(*found.groups()[3:])
    return f"{start}-{end}" if start != end else None


def _written(hour: str, minute: str | None, half: str | None) -> str:
    """Return a time of day as hours are written; 24:00 is midnight as well."""
    number = int(hour) % 12 + 12 * (half == "pm") if half else int(hour) % 24
    return f"{number:02}:{minute or '00'}"


def _whose(by: Principal, user: str | None, tenant: str | None) -> Principal:
    """Return the user whose hours are meant. Raises InvalidArgument where the caller may not act for that user."""
    whose = Principal(tenant_changed(by, tenant), by.user if user is None else user)
    if whose != Principal(by.tenant, by.user) and not by.may_change_all_of(whose.tenant):
        raise InvalidArgument(
            "user",
            "only an administrator may read or change the quiet hours of others",
            accepted="your own name, or none",
        )
    return whose
