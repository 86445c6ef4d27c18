"""An alert and its phases: pending until its state has lasted, firing until it is clearly over, then resolved.

The threshold that ends an alert is below the one that begins it. So a value around one of them does not come and go. A
value that cannot be read changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum

from duetime.scheduler.task import Tier

RESOLVED_FOR = timedelta(days=7)
"""The time for which a resolved alert is still listed."""

MIN_NOTICE_DELAY = timedelta(seconds=30)
MAX_NOTICE_DELAY = timedelta(hours=1)
"""Delays before a notice that could not be delivered is tried again; each is twice the one before."""


class Phase(StrEnum):
    """Where an alert is."""

    PENDING = "pending"
    FIRING = "firing"
    RESOLVED = "resolved"


@dataclass(frozen=True, slots=True)
class RecentOutcomes:
    """Ends of runs lately: counts over the windows that rules name; `deadlines` ended, `missed` not in time."""

    started: int = 0
    retried: int = 0
    dead_letters: int = 0
    deadlines: int = 0
    missed: int = 0


@dataclass(frozen=True, slots=True)
class Observation:
    """The state of an installation. A part that could not be read is None.

    `starvation` is the oldest wait of a tier by its patience, `overrun` the units spent by the capacity of each pool
    with a budget. `tripped` are the pools whose breaker is open, `skew` the seconds by which a host's clock is off.
    `disk_used` is the used share of the volume that holds the database's file, absent where a server holds it.
    `drained_workers` are those that drain while no worker takes runs, else 0.
    """

    starvation: Mapping[Tier, float] | None = None
    outcomes: RecentOutcomes | None = None
    overrun: Mapping[str, float] | None = None
    tripped: Iterable[str] | None = None
    silent_workers: int | None = None
    drained_workers: int | None = None
    disk_used: float | None = None
    skew: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AlertRule:
    """Fires while a value is above `fires_above`, once it `lasts`; it is over when the value is `clears_at` or less.

    `measure` returns the values by key (a tier, a pool, a host, or nothing), None when they are unknown. `text` is a
    sentence with `{key}` and `{value}`, `past` the one of an alert that is over, whose last value says nothing of it.
    `page`: somebody has to look at once.
    """

    name: str
    text: str
    past: str
    measure: Callable[[Observation], Mapping[str, float] | None]
    fires_above: float
    clears_at: float
    lasts: timedelta
    page: bool = False
    per_host: bool = False
    """Each process looks after the key of its own host; the others are evaluated by one process for all."""

    def sentence(self, alert: Alert) -> str:
        """Say what an alert is; of a resolved one, what it was."""
        return (self.past if alert.phase is Phase.RESOLVED else self.text).format(key=alert.key, value=alert.value)


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert of a rule, in its `phase` since then; `value` is the last one."""

    rule: str
    key: str
    phase: Phase
    since: datetime
    value: float


@dataclass(frozen=True, slots=True)
class Notice:
    """The last notice of an alert that a channel got: the `phase` it reported, and when it was sent.

    Since then `tries` have failed; the next one is not before `try_at`.
    """

    phase: Phase | None = None
    sent_at: datetime | None = None
    tries: int = 0
    try_at: datetime | None = None


def advance(rule: AlertRule, known: Mapping[str, Alert], seen: Observation, now: datetime) -> dict[str, Alert]:
    """Return the alerts of a rule by key as they are now; those that are gone are absent."""
    values = rule.measure(seen)
    if values is None:
        return dict(known)
    keys = {**known, **{key: None for key, value in values.items() if value > rule.fires_above}}
    found = {key: _advanced(rule, key, known.get(key), values.get(key, 0.0), now) for key in keys}
    return {key: alert for key, alert in found.items() if alert is not None}


def _advanced(rule: AlertRule, key: str, known: Alert | None, value: float, now: datetime) -> Alert | None:
    if known is not None and known.phase is Phase.FIRING:
        over = value <= rule.clears_at
        return replace(known, phase=Phase.RESOLVED, since=now, value=value) if over else replace(known, value=value)
    if value > rule.fires_above:
        return _raised(rule, key, known, value, now)
    if known is None or known.phase is Phase.PENDING or now - known.since >= RESOLVED_FOR:
        return None
    return known


def _raised(rule: AlertRule, key: str, known: Alert | None, value: float, now: datetime) -> Alert:
    pending = known is not None and known.phase is Phase.PENDING
    since = known.since if known is not None and pending else now
    if now - since >= rule.lasts:
        return Alert(rule.name, key, Phase.FIRING, now, value)
    return Alert(rule.name, key, Phase.PENDING, since, value)


def is_due(alert: Alert, notice: Notice, now: datetime, repeat: timedelta) -> bool:
    """Whether a notice is due: when the alert fires, again after `repeat`, and when it is resolved."""
    if notice.try_at is not None and now < notice.try_at:
        return False
    if alert.phase is Phase.FIRING:
        again = notice.sent_at is not None and now - notice.sent_at >= repeat
        return notice.phase is not Phase.FIRING or again
    return alert.phase is Phase.RESOLVED and notice.phase is Phase.FIRING


def retry_delay(tries: int) -> timedelta:
    """Return how long to wait after so many failed tries."""
    doublings = min(max(0, tries - 1), 10)
    return min(MAX_NOTICE_DELAY, MIN_NOTICE_DELAY * (1 << doublings))
