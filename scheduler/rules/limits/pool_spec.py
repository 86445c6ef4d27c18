"""Reads and writes declarations of pools, from a settings file or an admin's call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from functools import partial
from typing import Any, Final, TypeVar

from duetime.scheduler.errors import InvalidArgument, InvalidArguments
from duetime.scheduler.request import POOL_PREFIXES
from duetime.scheduler.rules.limits.pool import (
    POOL_NAME,
    POOL_TEMPLATE,
    SECONDS_PER_UNIT,
    Breaker,
    Pool,
    PoolKind,
    in_full,
)
from duetime.scheduler.rules.limits.price import AMOUNT_ACCEPTED, PRICE_EXAMPLE, Price, read_price
from duetime.scheduler.rules.limits.windows import PERIODS, Hours, read_hours
from duetime.scheduler.rules.time import zones
from duetime.scheduler.task import Json

T = TypeVar("T")

MAX_POOL_UNITS: Final = 10**12
UNITS_ACCEPTED: Final = f"a number from 0 to {in_full(MAX_POOL_UNITS)}"

EXAMPLES: Final[Mapping[PoolKind, str]] = {
    PoolKind.SLOTS: '{"kind": "slots", "capacity": 2}',
    PoolKind.RATE: '{"kind": "rate", "capacity": 50, "per": "second", "burst": 5}',
    PoolKind.BUDGET: '{"kind": "budget", "capacity": 1000000, "per": "day", "zone": "Europe/Berlin"}',
    PoolKind.CALENDAR: '{"kind": "calendar", "capacity": 0, "hours": {"mon-fri 22:00-06:00": 10}}',
}
_PARTS: Final[Mapping[PoolKind, tuple[str, ...]]] = {
    PoolKind.SLOTS: (),
    PoolKind.RATE: ("per", "burst", "sliding"),
    PoolKind.BUDGET: ("per", "zone"),
    PoolKind.CALENDAR: ("hours", "zone"),
}
_COMMON: Final = ("kind", "capacity", "headroom", "breaker", "latency", "price")


def read_pool(name: str, given: Mapping[str, Json], *, zone: str = "UTC") -> Pool:
    """Return the pool that `given` declares, its zone `zone` unless it says so; raises InvalidArgument(s)."""
    if name in POOL_PREFIXES or not (POOL_NAME.fullmatch(name) or POOL_TEMPLATE.fullmatch(name)):
        raise InvalidArgument(
            f"pools.{name[:100]}",
            "is not a pool name",
            accepted="a letter or digit, then letters, digits and . _ : @ / -, 100 at most; or tenant:*, key:*",
            example="pools.openai",
        )
    reader = _SpecReader(name, given)
    kind = PoolKind(reader.choice("kind", "slots", tuple(PoolKind)))
    reader.refuse_unknown((*_COMMON, *_PARTS[kind]), EXAMPLES[kind])
    pool = _read(reader, name, kind, zone)
    _check_together(reader, pool)
    reader.raise_any()
    return pool


def spec_of(pool: Pool) -> dict[str, Json]:
    """Return the declaration of a pool; `read_pool` gives the pool back."""
    parts = {part: getattr(pool, part) for part in _PARTS[pool.kind]}
    found: dict[str, Json] = {"kind": pool.kind.value, "capacity": pool.capacity, **parts}
    if pool.headroom:
        found["headroom"] = pool.headroom
    if pool.breaker:
        found["breaker"] = asdict(pool.breaker)
    if pool.latency:
        found["latency"] = pool.latency
    if pool.price:
        found["price"] = pool.price.text()
    if "hours" in found:
        found["hours"] = {each.text: each.capacity for each in pool.hours}
    return {part: value for part, value in found.items() if value is not None}


def _read(reader: _SpecReader, name: str, kind: PoolKind, zone: str) -> Pool:
    capacity = int(reader.number("capacity", 1, least=0, most=MAX_POOL_UNITS, whole=True))
    pool = Pool(name, kind, capacity, zone=zone)
    if kind is PoolKind.RATE:
        burst = reader.number("burst", 0, least=1, most=MAX_POOL_UNITS, whole=True) if "burst" in reader.given else None
        per = reader.choice("per", "minute", tuple(SECONDS_PER_UNIT))
        sliding = bool(reader.given.get("sliding", False))
        pool = replace(pool, per=per, burst=None if burst is None else int(burst), sliding=sliding)
    if kind is PoolKind.BUDGET:
        pool = replace(pool, per=reader.choice("per", "day", PERIODS), zone=reader.zone(zone))
    if kind is PoolKind.CALENDAR:
        pool = replace(pool, hours=reader.hours(), zone=reader.zone(zone))
    return replace(
        pool,
        headroom=reader.number("headroom", 0.0, least=0, most=0.9),
        latency=reader.number("latency", 0.0, least=0, most=3600),
        breaker=reader.breaker(),
        price=reader.price(),
    )


def _check_together(reader: _SpecReader, pool: Pool) -> None:
    if pool.name.startswith("key:") and pool.kind is not PoolKind.SLOTS:
        reader.problem("kind", "a concurrency key counts slots", accepted="slots", example=EXAMPLES[PoolKind.SLOTS])
    if pool.name.startswith("key:") and pool.price:
        reader.problem("price", "the use of a concurrency key is not counted", accepted="none", example="{}")
    if pool.kind is PoolKind.RATE and not 1 <= pool.at_once <= pool.capacity:
        found, example = f"{pool.at_once} of {pool.capacity}", f"burst={max(1, pool.capacity)}"
        reader.problem("burst", found, accepted="1 to its capacity", example=example)


class _SpecReader:
    """Reads the parts of one declaration, and collects every problem."""

    def __init__(self, name: str, given: Mapping[str, Json], prefix: str = "") -> None:
        self.given = given
        self._where = f"pools.{name}{prefix}"
        self._name = name
        self._problems: list[InvalidArgument] = []

    def problem(self, part: str, problem: str, *, accepted: str, example: str) -> None:
        self._problems.append(InvalidArgument(f"{self._where}.{part}", problem, accepted=accepted, example=example))

    def raise_any(self) -> None:
        if self._problems:
            raise self._problems[0] if len(self._problems) == 1 else InvalidArguments(self._problems)

    def refuse_unknown(self, known: tuple[str, ...], example: str) -> None:
        for part in self.given:
            if part not in known:
                self.problem(str(part), "is not known here", accepted=", ".join(known), example=example)

    def choice(self, part: str, default: str, choices: tuple[str, ...]) -> str:
        value = self.given.get(part, default)
        if value in choices:
            return str(value)
        self.problem(part, f"{repr(value)[:40]} is not one of them", accepted=", ".join(choices), example=choices[0])
        return default

    def number(self, part: str, default: float, *, least: float, most: float, whole: bool = False) -> float:
        value = self.given.get(part, default)
        sort: Any = int if whole else int | float
        if isinstance(value, sort) and not isinstance(value, bool) and least <= value <= most:
            return value  # type: ignore[no-any-return]  # checked in the line above
        accepted = f"a {'whole ' if whole else ''}number from {in_full(least)} to {in_full(most)}"
        self.problem(
            part, f"is {repr(value)[:40]}", accepted=accepted, example=f"{part}={max(least, 1 if whole else least):g}"
        )
        return default

    def zone(self, default: str) -> str:
        found = self._tried("zone", lambda: zones.find(str(self.given.get("zone", default)), argument="zone").key)
        return found or default

    def hours(self) -> tuple[Hours, ...]:
        given = self.given.get("hours")
        example = EXAMPLES[PoolKind.CALENDAR]
        if not isinstance(given, Mapping) or not given:
            self.problem("hours", "are missing", accepted="days and hours, each with a capacity", example=example)
            return ()
        read = _SpecReader(self._name, given, ".hours")
        units = {text: int(read.number(text, 0, least=0, most=MAX_POOL_UNITS, whole=True)) for text in given}
        self._problems += read._problems
        found = (self._tried("hours", partial(read_hours, text, units[text])) for text in given)
        return tuple(each for each in found if each is not None)

    def _tried(self, part: str, read: Callable[[], T]) -> T | None:
        try:
            return read()
        except InvalidArgument as wrong:
            self.problem(part, wrong.problem, accepted=wrong.accepted, example=wrong.example)
        except ValueError as wrong:
            accepted = "days such as mon-fri or sat,sun (or none), and HH:MM-HH:MM"
            self.problem(part, str(wrong), accepted=accepted, example="mon-fri 22:00-06:00")
        return None

    def price(self) -> Price | None:
        given = self.given.get("price")
        if given is None:
            return None
        try:
            return read_price(given)
        except ValueError as wrong:
            accepted = f"{AMOUNT_ACCEPTED}, and for how many units: AMOUNT per UNITS"
            self.problem("price", str(wrong), accepted=accepted, example=PRICE_EXAMPLE)
            return None

    def breaker(self) -> Breaker | None:
        given = self.given.get("breaker")
        if given is None or given is False:
            return None
        fresh = Breaker()
        read = _SpecReader(self._name, given if isinstance(given, Mapping) else {}, ".breaker")
        read.refuse_unknown(("failures", "error_rate", "samples", "cooldown"), '{"failures": 5, "cooldown": 30}')
        found = Breaker(
            failures=int(read.number("failures", fresh.failures, least=1, most=1000, whole=True)),
            error_rate=read.number("error_rate", fresh.error_rate, least=0.01, most=1),
            samples=int(read.number("samples", fresh.samples, least=1, most=10_000, whole=True)),
            cooldown=read.number("cooldown", fresh.cooldown, least=0.1, most=86_400),
        )
        self._problems += read._problems
        return found
