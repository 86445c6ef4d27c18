"""Prices of pools, and money: whole millionths of the installation's currency, so that every sum is exact."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Final

MICROS_PER_UNIT: Final = 1_000_000
"""Millionths of one unit of the currency."""

MAX_COST_MICROS: Final = 10**15
"""The largest cost that is stored of one attempt and pool: a billion. Sums of thousands of them fit a database."""

MAX_PRICED_UNITS: Final = 10**12
PRICE_EXAMPLE: Final = '"3.00 per 1_000_000"'
AMOUNT_ACCEPTED: Final = "a decimal amount from 0 to 999999999 with at most 6 places, as text"
_AMOUNT: Final = re.compile(r"([0-9]{1,9})(?:\.([0-9]{1,6}))?", re.ASCII)
_PRICE: Final = re.compile(r"\s*(\S+)(?:\s+per\s+([0-9][0-9_]{0,20}))?\s*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Price:
    """So many `micros`, millionths of the currency, for so many `units` of a pool."""

    micros: int
    units: int = 1

    def cost(self, used: float) -> int:
        """Return the cost of used units, to the nearest millionth."""
        return min(round(Fraction(used) * self.micros / self.units), MAX_COST_MICROS)

    def text(self) -> str:
        """Write the price as a declaration has it: `3.00 per 1000000`."""
        amount = money(amount_of(self.micros))
        return amount if self.units == 1 else f"{amount} per {self.units}"


def read_price(given: object) -> Price:
    """Return the price that a declaration gives. Raises ValueError with the problem."""
    if isinstance(given, float):
        raise ValueError("it is a floating-point number, which is not exact")  # noqa: TRY004 - one family for all problems
    found = None if isinstance(given, bool) else _PRICE.fullmatch(str(given)[:80])
    if found is None:
        raise ValueError(f"it is {str(given)[:40]!r}")
    units = int(found[2].replace("_", "")) if found[2] else 1
    if not 1 <= units <= MAX_PRICED_UNITS:
        raise ValueError(f"it is for {units} units")
    return Price(micros_of(read_amount(found[1])), units)


def read_amount(text: str) -> Decimal:
    """Return an amount of money. Raises ValueError for what is none, or not exact to a millionth."""
    if _AMOUNT.fullmatch(text) is None:
        raise ValueError(f"{text[:40]!r} is not an amount of money")
    return Decimal(text)


def amount_of(micros: int) -> Decimal:
    """Return the amount of so many millionths."""
    return Decimal(micros).scaleb(-6)


def micros_of(amount: Decimal) -> int:
    """Return the millionths of an amount, rounded up: a limit of less than one is no limit of nothing."""
    return -int(-amount * MICROS_PER_UNIT // 1)


def money(amount: Decimal) -> str:
    """Write an amount with two places, or as many as it has: `12.00`, `0.0123`."""
    whole, _, places = f"{amount:.6f}".partition(".")
    return f"{whole}.{places.rstrip('0').ljust(2, '0')}"
