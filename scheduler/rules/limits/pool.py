"""Declared pools: their limits, and the form in which a queue gets them.

One concept for slots, requests and tokens a minute, budgets of a day and off-peak hours. It serves tenants' quotas
("tenant:*") and one run at a time for a customer ("key:*") too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from duetime.scheduler.request import POOL_PREFIXES
from duetime.scheduler.rules.limits.admission import HEADROOM_TIER_COUNT, Kind, Limits
from duetime.scheduler.rules.limits.price import Price
from duetime.scheduler.rules.limits.windows import Hours, changes, window_ends, window_start
from duetime.scheduler.rules.time import zones

POOL_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@/-]{0,99}")
POOL_TEMPLATE: Final = re.compile(r"(?:tenant|key):\*")

UNCOUNTED_PREFIXES: Final = ("key:", "duetime:")
"""Prefixes of pools that only limit runs at once: their use needs no row."""

TEMPLATE_SUFFIX: Final = ":*"
"""Ends the name of a template: `tenant:*` of `tenant:acme`."""

LIMIT_PARTS: Final = ("kind", "capacity", "per", "zone")
"""The parts of a declaration that decide what a budget owes: a price, say, does not."""

HORIZON_DAYS: Final = 8
"""The calendar that a queue gets reaches this far ahead. The queue gets it again each day."""

WINDOWS_AHEAD_COUNT: Final = {"hour": 200, "day": 9, "week": 3, "month": 3}
WINDOW_GUARD_MS: Final = 2.0
"""Milliseconds for which a sliding window counts a start longer than it lasts.

A window counts from when a handler began. From its first line to its provider calls take unequally long: about 2 ms of
that are switches of threads on the machine itself.
"""

_EXACT_DIGIT_COUNT: Final = 12
"""Digits of a number of units that rounding leaves exact."""

SECONDS_PER_UNIT: Final = {"second": 1.0, "minute": 60.0, "hour": 3600.0, "day": 86_400.0}


class PoolKind(StrEnum):
    """The unit that a pool counts."""

    SLOTS = "slots"
    RATE = "rate"
    BUDGET = "budget"
    CALENDAR = "calendar"


@dataclass(frozen=True, slots=True)
class Breaker:
    """The circuit breaker of a pool.

    It opens after `failures` in a row, or `error_rate` of at least `samples` outcomes. It stays open for `cooldown`
    seconds, then one run probes; each failing probe doubles that, up to 32 times.
    """

    failures: int = 5
    error_rate: float = 0.5
    samples: int = 20
    cooldown: float = 30.0


@dataclass(frozen=True, slots=True)
class Pool:
    """A limited resource.

    `capacity` is the number of units: at once (slots, calendar outside of its hours), each `per` (rate), in each window
    `per` (budget). `burst` is the size of a rate's bucket: the units that can be taken at once. With `sliding`, no
    window of length `per`, wherever it begins, sees more than `capacity` starts. `headroom` is the part that only
    critical and high may use. Calls longer than `latency` seconds slow the pool down; 0 disables this. Units that
    attempts use cost its `price`.
    """

    name: str
    kind: PoolKind = PoolKind.SLOTS
    capacity: int = 1
    per: str = "minute"
    burst: int | None = None
    sliding: bool = False
    zone: str = "UTC"
    hours: tuple[Hours, ...] = ()
    headroom: float = 0.0
    breaker: Breaker | None = None
    latency: float = 0.0
    price: Price | None = None

    @property
    def at_once(self) -> int:
        """The most units that one run can get while nothing else runs."""
        if self.kind is PoolKind.RATE:
            return self._burst
        return max([self.capacity, *(each.capacity for each in self.hours)])

    @property
    def _burst(self) -> int:
        return self.capacity if self.burst is None else self.burst

    def largest(self, rank: int, at: datetime | None = None) -> float:
        """Return the most units that a run of the tier of this rank (1 to 5) can get, ever or at a time."""
        units = self.at_once if at is None else self._at_once(at)
        return units - (units * self.headroom if rank > HEADROOM_TIER_COUNT else 0)  # as the queue computes it

    def _at_once(self, at: datetime) -> int:
        if self.kind is not PoolKind.CALENDAR:
            return self.at_once
        return changes(self.hours, self.capacity, zones.load(self.zone), at, 0)[0][1]

    @property
    def period(self) -> timedelta:
        """The time in which a rate gives its capacity."""
        return timedelta(seconds=SECONDS_PER_UNIT[self.per])

    def text(self) -> str:
        """Describe the capacity: "2 slots", "50 a second, 5 at once", "1000000 a day"."""
        if self.kind is PoolKind.RATE:
            each = f"{self.capacity} in any {self.per}" if self.sliding else f"{self.capacity} a {self.per}"
            return f"{each}, {self._burst} at once"
        if self.kind is PoolKind.BUDGET:
            return f"{self.capacity} a {self.per}"
        hours = "".join(f", {each.capacity} {each.text}" for each in self.hours)
        return f"{self.capacity} slot{'s' if self.capacity != 1 else ''}{hours}"

    def text_with_price(self) -> str:
        """Describe the capacity and the price: "1000000 a day, at 3.00 per 1000000"."""
        return f"{self.text()}, at {self.price.text()}" if self.price else self.text()

    def limits(self, now: datetime) -> Limits:
        """Return the limits for a queue at `now`; valid for a week."""
        breaker = self.breaker or Breaker(failures=0)
        at = self._kind
        steps: tuple[tuple[float, float], ...] = ()
        resets: tuple[float, ...] = ()
        capacity = float(self._burst if at is Kind.RATE else self.capacity)
        if self.kind is PoolKind.CALENDAR:
            found = changes(self.hours, self.capacity, zones.load(self.zone), now, HORIZON_DAYS)
            capacity, steps = float(found[0][1]), tuple((_ms(then), float(units)) for then, units in found[1:])
        if self.kind is PoolKind.BUDGET:
            resets = tuple(map(_ms, window_ends(self.per, zones.load(self.zone), now, WINDOWS_AHEAD_COUNT[self.per])))
        return Limits(
            at,
            capacity,
            refill=self._refill(),
            headroom=self.headroom,
            steps=steps,
            resets=resets,
            failures=breaker.failures,
            error_rate=breaker.error_rate,
            samples=breaker.samples,
            cooldown=breaker.cooldown * 1000,
            latency=self.latency * 1000,
            window=self.window / timedelta(milliseconds=1),
            window_units=float(self.capacity) if self.window else 0.0,
        )

    @property
    def _kind(self) -> Kind:
        return Kind.SLOTS if self.kind is PoolKind.CALENDAR else Kind(self.kind.value)

    def _refill(self) -> float:
        """Return units per millisecond."""
        return self.capacity / (SECONDS_PER_UNIT[self.per] * 1000) if self.kind is PoolKind.RATE else 0.0

    @property
    def window(self) -> timedelta:
        """Return for how long a sliding rate counts a start; nothing for every other pool."""
        slides = self.kind is PoolKind.RATE and self.sliding
        return timedelta(seconds=SECONDS_PER_UNIT[self.per], milliseconds=WINDOW_GUARD_MS) if slides else timedelta()

    def window_starts(self, now: datetime, *, back_to: datetime) -> list[datetime]:
        """Return when the windows of a budget began, newest first: from that of `now` back to that of `back_to`."""
        found = [window_start(self.per, zones.load(self.zone), now)]
        while found[-1] > back_to:
            found.append(window_start(self.per, zones.load(self.zone), found[-1] - timedelta(microseconds=1)))
        return found


KEY_POOL: Final = Pool("key:*")
"""The template of concurrency keys when none is declared: one at a time."""


def template_of(name: str) -> str | None:
    """Return the template of a pool that is made on use, None for any other name."""
    return next((f"{prefix}*" for prefix in POOL_PREFIXES if name.startswith(prefix) and name != f"{prefix}*"), None)


def find_pool(pools: Mapping[str, Pool], name: str) -> Pool | None:
    """Return the pool of this name, as declared or as made from its template."""
    template = template_of(name)
    if name in pools or template is None:
        return pools.get(name)
    return pools.get(template) or (KEY_POOL if template == KEY_POOL.name else None)


def full_charge(reserved: Mapping[str, int]) -> dict[str, float]:
    """Return the charge of an attempt that did not count its use: its whole reservation."""
    return {name: float(units) for name, units in reserved.items() if not name.startswith(UNCOUNTED_PREFIXES)}


def costs_of(used: Mapping[str, float], pools: Mapping[str, Pool]) -> dict[str, int]:
    """Return by pool the cost of what an attempt used, in millionths; pools without a price are left out."""
    priced = {name: pool.price for name in used if (pool := find_pool(pools, name)) and pool.price}
    return {name: price.cost(used[name]) for name, price in priced.items()}


def spent_with_debt(since: Callable[[int], float], windows: int, capacity: float) -> float:
    """Return the spent units of a budget's newest window, including the debt of earlier windows.

    `since` returns the use from the start of the newest window on (0), of the one before it (1), and so on. Each window
    pays `capacity` of the debt, so the result is the maximum of what remains of the use since any window. Few of
    thousands of windows are read: none whose whole use cannot exceed the maximum so far.
    """
    spent = since(0)
    unseen = [(0, windows - 1)]
    while unseen:
        near, far = unseen.pop()
        if near < far and (used := since(far)) - (near + 1) * capacity > spent:
            spent = max(spent, used - far * capacity)
            middle = (near + far) // 2
            unseen += [(middle, far - 1), (near, middle)]
    return spent


def _ms(moment: datetime) -> float:
    return moment.timestamp() * 1000


def needs_in_words(needs: Mapping[str, int]) -> str:
    """Write needs as a person reads them: `gpu 1, tokens 2000`."""
    return ", ".join(f"{name} {units}" for name, units in needs.items())


def in_full(units: float) -> str:
    """Write a number of units with all its digits: 1,250,000."""
    return f"{units:,.0f}" if units >= 10**_EXACT_DIGIT_COUNT else f"{units:,.{_EXACT_DIGIT_COUNT}g}"


def after_removal(name: str) -> str:
    """Return a sentence on what becomes of runs that need a pool when it is removed."""
    if name == "tenant:*":
        return "Tenants without a quota of their own have none."
    if name == "key:*":
        return "Each concurrency key is one slot again."
    for prefix in ("tenant:", "key:"):
        if name.startswith(prefix):
            return f"Runs that need it fall under {prefix}*."
    return "Tasks that need it are held until it is declared again."
