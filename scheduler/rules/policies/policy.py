"""The policy: by what numbers the next run is chosen. Admins change it at run time, as a new version each time."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from duetime.scheduler.errors import InvalidArgument, InvalidArguments
from duetime.scheduler.remedies import nearest_name
from duetime.scheduler.rules.headroom import HeadroomParts
from duetime.scheduler.rules.order import PATIENCE, VALUE_WEIGHT, KeyFacts, order_key
from duetime.scheduler.rules.shares import Shares
from duetime.scheduler.rules.time.durations import parse_exact
from duetime.scheduler.rules.time.tokens import Misread
from duetime.scheduler.task import Json, Tier

MAX_PATIENCE: Final = timedelta(days=366)
MAX_VALUE_WEIGHT: Final = 1e6
MAX_HEADROOM_RATIO: Final = 0.9
_EXAMPLE: Final = '{"patience": {"normal": "2 minutes"}, "shares": {"low": 0.12}}'

_PARTS: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(("patience", "value", "shares", "ceilings"), tuple(Tier)),
    "headroom": (Tier.CRITICAL, Tier.HIGH),
}


@dataclass(frozen=True, slots=True)
class OrderPolicy:
    """The numbers that decide the order. Without a `headroom` each worker goes by its settings."""

    patience: Mapping[Tier, timedelta]
    value: Mapping[Tier, float]
    shares: Shares
    headroom: HeadroomParts | None = None

    def key(self, facts: KeyFacts, tier: Tier) -> float:
        """Return the key of a run under this policy, in milliseconds since 1970: smaller goes first."""
        return order_key(facts, tier, patience=self.patience, values=self.value)


DEFAULT_POLICY: Final = OrderPolicy(PATIENCE, VALUE_WEIGHT, Shares())


@dataclass(frozen=True, slots=True)
class PolicyVersion:
    """A version of the policy as it is stored: its whole content, and who set it, when, by which way and why."""

    version: int
    content: Mapping[str, Json]
    at: datetime
    actor: str
    via: str | None = None
    reason: str | None = None


def spec_of(policy: OrderPolicy) -> dict[str, Json]:
    """Return a policy as JSON has it: parts by tier, patience in seconds; `read_policy` gives it back."""
    tiers = tuple(Tier)
    found: dict[str, Json] = {
        "patience": {tier: policy.patience[tier].total_seconds() for tier in tiers},
        "value": {tier: policy.value[tier] for tier in tiers},
        "shares": dict(zip(tiers, policy.shares.guaranteed, strict=True)),
        "ceilings": dict(zip(tiers, policy.shares.ceilings, strict=True)),
    }
    if policy.headroom is not None:
        found["headroom"] = {Tier.CRITICAL: policy.headroom.critical, Tier.HIGH: policy.headroom.high}
    return found


def read_policy(given: Mapping[str, Any], base: OrderPolicy = DEFAULT_POLICY) -> OrderPolicy:
    """Return `base` with what `given` changes; raises InvalidArgument(s) that say what is accepted.

    `"headroom": null` returns the threads of each worker to its settings.
    """
    reader = _PolicyReader(given, spec_of(base))
    policy = reader.policy()
    if reader.problems or policy is None:
        right = reader.right
        example = json.dumps(right, ensure_ascii=False) if _is_accepted(right, spec_of(base)) else _EXAMPLE
        found = [
            InvalidArgument(each.argument, each.problem, accepted=each.accepted, example=example)
            for each in reader.problems
        ]
        raise found[0] if len(found) == 1 else InvalidArguments(found)
    return policy


def _is_accepted(given: Mapping[str, Any], base: Mapping[str, Any]) -> bool:
    return bool(given) and _PolicyReader(given, base).policy() is not None


def differences(before: OrderPolicy, after: OrderPolicy) -> Iterator[str]:
    """Yield a line for each number that differs: `patience.normal: 300 -> 120`."""
    old, new = (dict(_flat(spec_of(policy))) for policy in (before, after))
    for name in sorted({*old, *new}, key=[*old, *new].index):
        if old.get(name) != new.get(name):
            yield f"{name}: {_word(old.get(name))} -> {_word(new.get(name))}"


def _flat(spec: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    for part, numbers in spec.items():
        for tier, number in numbers.items():
            yield f"{part}.{tier}", number


def _word(number: float | None) -> str:
    return "by settings" if number is None else f"{number:g}"


class _PolicyReader:
    """Reads the parts of a policy over those of another one, and collects what is wrong; `right` is what was meant."""

    def __init__(self, given: Mapping[str, Any], base: Mapping[str, Any]) -> None:
        self.problems: list[InvalidArgument] = []
        self.right: dict[str, Any] = {
            str(name): dict(part) if isinstance(part, Mapping) else part for name, part in given.items()
        }
        self._parts: dict[str, dict[str, Any]] = {name: dict(numbers) for name, numbers in base.items()}
        for name, part in given.items():
            self._merge(str(name), part)

    def policy(self) -> OrderPolicy | None:
        patience = self._numbers("patience", _seconds, "a length of time above 0, up to 366 days", "2 minutes")
        value = self._numbers("value", _value, f"a number above 0, up to {MAX_VALUE_WEIGHT:g}", 4)
        shares = self._shares()
        headroom = self._headroom()
        if self.problems or shares is None:
            return None
        spans = {Tier(tier): timedelta(seconds=number) for tier, number in patience.items()}
        return OrderPolicy(spans, {Tier(tier): number for tier, number in value.items()}, shares, headroom)

    def _merge(self, name: str, part: Any) -> None:
        if name not in _PARTS:
            stem, _, tier = name[:40].partition(".")
            near, part = nearest_name(stem, _PARTS), {tier: part} if tier else part
            self._wrong(f"policy.{name[:40]}", "it is not part of a policy", f"parts named {', '.join(_PARTS)}")
            self.right.pop(name)
            if near and near not in self.right:
                self.right[near] = part
                self._merge(near, part)
        elif name == "headroom" and part is None:
            self._parts.pop(name, None)
        elif not isinstance(part, Mapping):
            self._wrong(f"policy.{name}", "it is not an object of tiers", "numbers by tier")
            self.right[name] = {Tier.HIGH.value: self._parts.get(name, {}).get(Tier.HIGH, HeadroomParts().high)}
        else:
            self._merge_tiers(name, part)

    def _merge_tiers(self, name: str, part: Mapping[str, Any]) -> None:
        for tier, number in part.items():
            if tier in _PARTS[name]:
                self._parts.setdefault(name, {})[tier] = number
                continue
            of = ", ".join(_PARTS[name])
            self._wrong(f"policy.{name}.{str(tier)[:40]}", f"it has no such tier; it has {of}", of)
            near = nearest_name(str(tier)[:40], _PARTS[name]) or Tier.HIGH.value
            right = {each: value for each, value in self.right[name].items() if each != tier}
            self.right[name] = {near: number, **right}
            self._parts.setdefault(name, {})[near] = self.right[name][near]

    def _numbers(self, name: str, read: Callable[[Any], float | None], accepted: str, right: Any) -> dict[str, float]:
        found = {tier: read(number) for tier, number in self._parts.get(name, {}).items()}
        for tier, number in found.items():
            if number is None:
                value = str(self._parts[name][tier])[:40]
                self._wrong(f"policy.{name}.{tier}", f"{value!r} is out of range", accepted)
                self._correct(name, tier, right)
        return {tier: number for tier, number in found.items() if number is not None}

    def _shares(self) -> Shares | None:
        accepted = "a part of all dispatches, above 0 and up to 1"
        guaranteed = self._numbers("shares", _share, accepted, 0.05)
        ceilings = self._numbers("ceilings", _share, accepted, 1)
        if not len(guaranteed) == len(ceilings) == len(Tier):
            return None
        total = sum(guaranteed.values())
        if total > 1 + 1e-9:
            text = f"the guaranteed shares of all tiers are {total:g} together"
            self._wrong("policy.shares", text, "at most 1 in all")
            self.right["shares"] = dict(zip(map(str, Tier), Shares().guaranteed, strict=True))
        for tier in Tier:
            if guaranteed[tier] >= ceilings[tier]:
                text = f"the share of {tier}, {guaranteed[tier]:g}, is not below its ceiling, {ceilings[tier]:g}"
                self._wrong(f"policy.shares.{tier}", text, "a share below the ceiling of its tier")
                self._correct("shares", tier, min(ceilings[tier] / 2, self.right.get("shares", {}).get(tier, 1)))
        if self.problems:
            return None
        return Shares(tuple(guaranteed[tier] for tier in Tier), tuple(ceilings[tier] for tier in Tier))

    def _headroom(self) -> HeadroomParts | None:
        if "headroom" not in self._parts:
            return None
        parts = {Tier.CRITICAL: HeadroomParts().critical, Tier.HIGH: HeadroomParts().high, **self._parts["headroom"]}
        self._parts["headroom"] = {str(tier): part for tier, part in parts.items()}
        found = self._numbers("headroom", _part, "a part of a worker's threads, 0 up to 0.9", 0.125)
        return HeadroomParts(found[Tier.CRITICAL], found[Tier.HIGH]) if len(found) == len(parts) else None

    def _wrong(self, name: str, problem: str, accepted: str) -> None:
        self.problems.append(InvalidArgument(name, problem, accepted=accepted))

    def _correct(self, name: str, tier: str, number: Any) -> None:
        self.right[name] = {**(self.right.get(name) or {}), str(tier): number}


def _number(given: Any) -> float | None:
    if isinstance(given, bool) or not isinstance(given, int | float):
        return None
    return float(given) if math.isfinite(given) else None


def _seconds(given: Any) -> float | None:
    if isinstance(given, str):
        try:
            given = parse_exact(given).total_seconds()
        except Misread:
            return None
    number = _number(given)
    if number is None or not 0 < number <= MAX_PATIENCE.total_seconds():
        return None
    return number if timedelta(seconds=number) else None  # less than a microsecond would be stored as 0


def _value(given: Any) -> float | None:
    number = _number(given)
    return number if number is not None and 0 < number <= MAX_VALUE_WEIGHT else None


def _share(given: Any) -> float | None:
    number = _number(given)
    return number if number is not None and 0 < number <= 1 else None


def _part(given: Any) -> float | None:
    number = _number(given)
    return number if number is not None and 0 <= number <= MAX_HEADROOM_RATIO else None
