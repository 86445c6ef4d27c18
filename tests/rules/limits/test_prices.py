"""Prices: exact amounts, what a declaration may say, and the cost of what was used."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.rules.limits.pool import Pool, costs_of
from duetime.scheduler.rules.limits.pool_spec import read_pool, spec_of
from duetime.scheduler.rules.limits.price import MAX_COST_MICROS, Price, amount_of, micros_of, money, read_price
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("given_price", "price"),
    [
        ("3.00 per 1_000_000", Price(3_000_000, 1_000_000)),
        ("0.000001", Price(1)),
        (2, Price(2_000_000)),
        ("0", Price(0)),
    ],
)
def test_a_price_is_read_and_written_again(given_price: object, price: Price) -> None:
    assert read_price(given_price) == price
    pool = read_pool("tokens", {"kind": "budget", "capacity": 10, "price": given_price})  # type: ignore[dict-item]  # any value
    assert pool.price == price
    assert read_pool("tokens", spec_of(pool)) == pool


@pytest.mark.parametrize(
    "wrong",
    [0.1, True, "free", "-1", "1e3", "1,50", "0.0000001", "3 per 0", "3 per token", "3 per", "\u0663", [], "1" * 10],
)
def test_an_inexact_price_is_refused_with_an_example(wrong: object) -> None:
    with pytest.raises(InvalidArgument) as refused:
        read_pool("tokens", {"kind": "budget", "capacity": 10, "price": wrong})  # type: ignore[dict-item]  # any value
    assert refused.value.argument == "pools.tokens.price"
    assert "3.00 per 1_000_000" in str(refused.value)


def test_a_concurrency_key_has_no_price() -> None:
    with pytest.raises(InvalidArgument, match="not counted"):
        read_pool("key:*", {"price": "1"})


@given(st.floats(0, 1e9), st.integers(0, 10**12), st.integers(1, 10**12))
def test_a_cost_is_exact_to_half_a_millionth(used: float, micros: int, units: int) -> None:
    exact = Fraction(used) * micros / units
    cost = Price(micros, units).cost(used)
    assert cost == MAX_COST_MICROS or abs(cost - exact) <= Fraction(1, 2)


@given(st.integers(0, 10**15))
def test_money_is_written_as_it_is(micros: int) -> None:
    assert micros_of(Decimal(money(amount_of(micros)))) == micros


def test_money_has_two_places_or_as_many_as_it_needs() -> None:
    assert [money(amount_of(micros)) for micros in (12_000_000, 500_000, 12_300, 0)] == [
        "12.00",
        "0.50",
        "0.0123",
        "0.00",
    ]


def test_each_pool_costs_its_price_and_a_quota_that_of_its_template() -> None:
    pools = {
        "tokens": Pool("tokens", price=Price(3_000_000, 1_000_000)),
        "tenant:*": Pool("tenant:*", price=Price(10_000)),
        "gpu": Pool("gpu"),
    }
    used = {"tokens": 1234.0, "tenant:acme": 1.0, "gpu": 2.0, "unknown": 5.0}
    assert costs_of(used, pools) == {"tokens": 3702, "tenant:acme": 10_000}
