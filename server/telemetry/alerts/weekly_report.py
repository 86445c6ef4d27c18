"""The weekly report, delivered to channels each Monday at nine: once each, by whichever process comes first."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from typing import Final

from duetime.scheduler.delivery.channel import Channel
from duetime.scheduler.foresight.report_text import report_lines
from duetime.scheduler.rules.alerts.alert import Notice, Phase, retry_delay
from duetime.scheduler.rules.time import zones
from duetime.scheduler.store import Store
from duetime.scheduler.store.alerts.alerts import NoticeKey
from duetime.scheduler.task import InboxMessage, State

REPORT_TIME: Final = time(9)
WEEK: Final = timedelta(days=7)
DELIVERED_WITHIN: Final = timedelta(days=1)
"""A process that was down on Monday morning still delivers until Tuesday morning."""

REPORT_LEASE: Final = timedelta(minutes=5)
MAX_REPORT_SLEEP_S: Final = 600.0

REPORT: Final = "weekly report"

log = logging.getLogger(__name__)


class WeeklyReport:
    """Delivers the report of the week that ended at the last Monday, nine o'clock, of a zone."""

    def __init__(self, store: Callable[[], Store], channels: Callable[[], Sequence[Channel]], *, zone: str) -> None:
        self._store = store
        self._channels = channels
        self._zone = zone

    def step(self) -> float:
        """Deliver what is due, and return the seconds until the next look."""
        store = self._store()
        now = store.now()
        monday = last_monday(now, self._zone)
        if now - monday < DELIVERED_WITHIN:
            self._deliver(store, monday, now)
        until = (moved(monday, WEEK, self._zone) - now).total_seconds()
        return min(until, MAX_REPORT_SLEEP_S, 30.0 if now - monday < DELIVERED_WITHIN else MAX_REPORT_SLEEP_S)

    def _deliver(self, store: Store, monday: datetime, now: datetime) -> None:
        notices = store.alerts.notices()
        _forget_earlier(store, notices, monday)
        for channel in self._channels():
            of = REPORT, _key(monday), channel.name
            notice = notices.get(of, Notice())
            waits = notice.try_at is not None and now < notice.try_at
            if notice.phase is None and not waits and store.alerts.claim(of, now, REPORT_LEASE):
                store.alerts.settle(of, self._notified(store, channel, notice, monday))

    def _notified(self, store: Store, channel: Channel, notice: Notice, monday: datetime) -> Notice:
        now = store.now()
        found = store.run_history.report(None, moved(monday, -WEEK, self._zone), monday)
        message = InboxMessage(
            id=f"report-{_key(monday)}",
            tenant="",
            user="",
            task_id="",
            run_id="",
            title="The week of Duetime",
            text="\n".join(report_lines(found, self._zone, store.usage.currency)),
            state=State.SUCCEEDED,
            created_at=now,
        )
        try:
            channel.send(message, key=message.id)
        except Exception as error:  # noqa: BLE001 - a library's own exceptions fail this report, never the loop
            log.warning("cannot deliver the weekly report to %s, trying again: %s", channel.name, error)
            tries = notice.tries + 1
            return Notice(tries=tries, try_at=now + retry_delay(tries))
        return Notice(Phase.RESOLVED, now)


def last_monday(now: datetime, zone: str) -> datetime:
    """Return the last Monday at nine o'clock in a zone, at `now` or before."""
    local = now.astimezone(zones.load(zone))
    day = local.date() - timedelta(days=local.weekday())
    if local.weekday() == 0 and local.time() < REPORT_TIME:
        day -= WEEK
    return _at_nine(day, zone)


def moved(monday: datetime, by: timedelta, zone: str) -> datetime:
    """Return nine o'clock of the day that is so many days from a Monday: a week in which clocks change has no 168 h."""
    return _at_nine(monday.astimezone(zones.load(zone)).date() + by, zone)


def _at_nine(day: date, zone: str) -> datetime:
    return zones.place(datetime.combine(day, REPORT_TIME), zones.load(zone)).instant


def _key(monday: datetime) -> str:
    return f"{monday:%Y-%m-%d}"


def _forget_earlier(store: Store, notices: Mapping[NoticeKey, Notice], monday: datetime) -> None:
    """Delete the notices of earlier reports: no rule is evaluated that would."""
    earlier = {key for rule, key, _ in notices if rule == REPORT and key < _key(monday)}
    if earlier:
        store.alerts.forget(REPORT, sorted(earlier))
