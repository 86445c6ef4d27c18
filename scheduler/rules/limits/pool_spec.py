"""Reads and writes declarations of pools, from a settings file or an admin's call."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, replace
from functools import partial
from itertools import chain
from typing import Any, Final, TypeVar

from duetime.scheduler.errors import InvalidArgument, InvalidArguments
from duetime.scheduler.remedies import nearest_name
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
from duetime.scheduler.rules.redact import redacted_json
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
_NO_NAME: Final = re.compile(r"[^A-Za-z0-9._:@/-]+")
_USUAL_HOURS: Final = "mon-fri 22:00-06:00"
_MAX_EXAMPLE_CHARS: Final = 300
_COMMON: Final = ("kind", "capacity", "headroom", "breaker", "latency", "price")


def read_pool(name: str, given: Mapping[str, Json], *, zone: str = "UTC") -> Pool:
    """Return the pool that `given` declares, its zone `zone` unless it says so; raises InvalidArgument(s)."""
    if name in POOL_PREFIXES or not (POOL_NAME.fullmatch(name) or POOL_TEMPLATE.fullmatch(name)):
        raise InvalidArgument(
            f"pools.{name[:100]}",
            "it is not a pool name",
            accepted="a letter or digit, then letters, digits and . _ : @ / -, 100 at most; or tenant:*, key:*",
            example=_NO_NAME.sub("-", name[:100]).strip("-_.:@/") or "openai",
        )
    reader = _SpecReader(name, given)
    reader.refuse_unknown(dict.fromkeys((*_COMMON, *chain.from_iterable(_PARTS.values()))))
    kind = PoolKind(reader.choice("kind", "slots", tuple(PoolKind)))
    reader.refuse_unknown((*_COMMON, *_PARTS[kind]))
    pool = _read(reader, name, kind, zone)
    _check_together(reader, pool)
    if reader.problems:
        raise _with_whole_example(reader, name, EXAMPLES[kind], zone)
    return pool


def _with_whole_example(reader: _SpecReader, name: str, usual: str, zone: str) -> InvalidArgument | InvalidArguments:
    """Return the problems of a declaration, whose example is the whole of it, corrected; `usual` where it is long."""
    example = json.dumps(reader.right, ensure_ascii=False)
    again = _SpecReader(name, reader.right)
    kind = PoolKind(again.choice("kind", "slots", tuple(PoolKind)))
    _check_together(again, _read(again, name, kind, zone))
    if again.problems or len(example) > _MAX_EXAMPLE_CHARS or redacted_json(reader.right) != reader.right:
        example = usual
    found = [
        InvalidArgument(each.argument, each.problem, accepted=each.accepted, example=example)
        for each in reader.problems
    ]
    return found[0] if len(found) == 1 else InvalidArguments(found)


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
        reader.problem("kind", "a concurrency key counts slots", accepted="slots", right="slots")
        for part in _PARTS[pool.kind]:
            reader.right.pop(part, None)
    if pool.name.startswith("key:") and pool.price:
        reader.problem("price", "the use of a concurrency key is not counted", accepted="none", right=None)
    if pool.kind is PoolKind.RATE and not 1 <= pool.at_once <= pool.capacity:
        part = "burst" if pool.capacity else "capacity"
        found = f"it is {pool.at_once}, of a capacity of {pool.capacity}"
        reader.problem("burst", found, accepted="1 to its capacity", right=reader.right.get("burst"))
        reader.right[part] = max(1, pool.capacity)


class _SpecReader:
    """Reads the parts of one declaration, and collects every problem; `right` is the declaration as it was meant."""

    def __init__(self, name: str, given: Mapping[str, Json], prefix: str = "") -> None:
        self.given = dict(given)
        self.right: dict[str, Any] = dict(given)
        self.problems: list[InvalidArgument] = []
        self._where = f"pools.{name}{prefix}"
        self._name = name

    def problem(self, part: str, problem: str, *, accepted: str, right: Any) -> None:
        """Note what is wrong with a part, and what is right; None for a part that there is not."""
        self.problems.append(InvalidArgument(f"{self._where}.{part}", problem, accepted=accepted))
        self.right[part] = right
        if right is None:
            del self.right[part]

    def refuse_unknown(self, known: Collection[str]) -> None:
        """Note unknown parts, and leave them out; each is read as the part that it resembles, if there is none yet."""
        for part in [part for part in self.given if part not in known]:
            near = nearest_name(str(part), known)
            guess = f"; did you mean {near}" if near else ""
            self.problem(str(part), f"it is not known here{guess}", accepted=", ".join(known), right=None)
            value = self.given.pop(part)
            if near and near not in self.given:
                self.given[near] = self.right[near] = value

    def choice(self, part: str, default: str, choices: tuple[str, ...]) -> str:
        value = self.given.get(part, default)
        if value in choices:
            return str(value)
        near = nearest_name(str(value), choices) or choices[0]
        self.problem(part, f"{repr(value)[:40]} is not one of them", accepted=", ".join(choices), right=str(near))
        return near

    def number(self, part: str, default: float, *, least: float, most: float, whole: bool = False) -> float:
        value = self.given.get(part, default)
        sort: Any = int if whole else int | float
        if isinstance(value, sort) and not isinstance(value, bool) and least <= value <= most:
            return value  # type: ignore[no-any-return]  # checked in the line above
        accepted = f"a {'whole ' if whole else ''}number from {in_full(least)} to {in_full(most)}"
        right = _number_within(value, least, most, whole=whole)
        self.problem(part, f"it is {repr(value)[:40]}", accepted=accepted, right=right)
        return right

    def zone(self, default: str) -> str:
        found = self._tried("zone", lambda: zones.find(str(self.given.get("zone", default)), argument="zone").key)
        return found or default

    def hours(self) -> tuple[Hours, ...]:
        given = self.given.get("hours")
        if not isinstance(given, Mapping) or not given:
            accepted = "days and hours, each with a capacity"
            self.problem("hours", "they are missing", accepted=accepted, right={_USUAL_HOURS: 10})
            return ()
        read = _SpecReader(self._name, given, ".hours")
        units = {text: int(read.number(text, 0, least=0, most=MAX_POOL_UNITS, whole=True)) for text in given}
        self.problems += read.problems
        found = [(text, self._tried("hours", partial(read_hours, text, units[text]))) for text in given]
        right = {text if each else _USUAL_HOURS: read.right[text] for text, each in found}
        self.right["hours"] = right
        return tuple(each for _, each in found if each is not None)

    def _tried(self, part: str, read: Callable[[], T]) -> T | None:
        try:
            return read()
        except InvalidArgument as wrong:
            self.problem(part, wrong.problem, accepted=wrong.accepted, right=wrong.example or None)
        except ValueError as wrong:
            accepted = "days such as mon-fri or sat,sun (or none), and HH:MM-HH:MM"
            self.problem(part, str(wrong), accepted=accepted, right=None)
        return None

    def price(self) -> Price | None:
        given = self.given.get("price")
        if given is None:
            return None
        try:
            return read_price(given)
        except ValueError as wrong:
            accepted = f"{AMOUNT_ACCEPTED}, and for how many units: AMOUNT per UNITS"
            self.problem("price", str(wrong), accepted=accepted, right=json.loads(PRICE_EXAMPLE))
            return None

    def breaker(self) -> Breaker | None:
        given = self.given.get("breaker")
        if given is None or given is False:
            return None
        fresh = Breaker()
        read = _SpecReader(self._name, given if isinstance(given, Mapping) else {}, ".breaker")
        read.refuse_unknown(("failures", "error_rate", "samples", "cooldown"))
        found = Breaker(
            failures=int(read.number("failures", fresh.failures, least=1, most=1000, whole=True)),
            error_rate=read.number("error_rate", fresh.error_rate, least=0.01, most=1),
            samples=int(read.number("samples", fresh.samples, least=1, most=10_000, whole=True)),
            cooldown=read.number("cooldown", fresh.cooldown, least=0.1, most=86_400),
        )
        self.problems += read.problems
        if read.problems:
            self.right["breaker"] = read.right
        return found


def _number_within(value: Json, least: float, most: float, *, whole: bool) -> float:
    """Return the accepted number that is nearest to a value, be it written as text; the least for what is none."""
    try:
        number = float(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else math.nan
    except (ValueError, OverflowError):
        number = math.nan
    if math.isnan(number):
        number = max(least, 1) if whole else least
    number = min(max(number, least), most)
    return int(number) if whole or number == int(number) else number
