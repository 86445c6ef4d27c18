"""Policies: what is accepted, what a refusal shows, and what a change of values means for keys."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from duetime.scheduler.errors import InvalidArgument, InvalidArguments
from duetime.scheduler.rules.order import VALUE_WEIGHT, KeyFacts, order_key
from duetime.scheduler.rules.policies.policy import DEFAULT_POLICY, differences, read_policy, spec_of
from duetime.scheduler.task import Tier

NOON = datetime(2026, 11, 24, 12, tzinfo=UTC)


def test_an_unnamed_part_stays() -> None:
    policy = read_policy({"patience": {"normal": "2 minutes"}, "shares": {"low": 0.12}})
    assert list(differences(DEFAULT_POLICY, policy)) == ["patience.normal: 300 -> 120", "shares.low: 0.1 -> 0.12"]
    again = read_policy({"value": {"high": 10}}, policy)
    assert again.patience == policy.patience
    assert again.value[Tier.HIGH] == 10


@pytest.mark.parametrize("given", [{}, {"headroom": {"critical": 0.25}}, {"value": {"low": 3.5}}])
def test_a_policy_is_read_back_as_it_was_written(given: dict[str, Any]) -> None:
    policy = read_policy(given)
    assert read_policy(json.loads(json.dumps(spec_of(policy)))) == policy


def test_without_a_headroom_each_worker_goes_by_its_settings() -> None:
    policy = read_policy({"headroom": {"high": 0.5}})
    assert policy.headroom is not None
    assert policy.headroom.of(16) == (0, 1, 8, 8, 8)
    assert read_policy({"headroom": None}, policy) == DEFAULT_POLICY


def problems_of(given: dict[str, Any]) -> Sequence[InvalidArgument]:
    try:
        read_policy(given)
    except InvalidArgument as wrong:
        return [wrong]
    except InvalidArguments as several:
        return several.problems
    return []


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"shares": {"critical": 0.79}}, "policy.shares: the guaranteed shares of all tiers are 1.29 together"),
        ({"shares": {"low": 0.5}}, "the share of low, 0.5, is not below its ceiling, 0.5"),
        ({"ceilings": {"high": 0.1}}, "the share of high, 0.2, is not below its ceiling, 0.1"),
        ({"shares": {"low": 0}}, "policy.shares.low: '0' is out of range"),
        ({"patience": {"normal": "soon"}}, "policy.patience.normal: 'soon' is out of range"),
        ({"patience": {"normal": "1 month"}}, "policy.patience.normal: '1 month' is out of range"),
        ({"patience": {"normal": 0}}, "policy.patience.normal: '0' is out of range"),
        ({"patience": {"normal": 1e-9}}, "policy.patience.normal: '1e-09' is out of range"),
        ({"patience": {"normal": True}}, "policy.patience.normal: 'True' is out of range"),
        ({"value": {"normal": float("nan")}}, "policy.value.normal: 'nan' is out of range"),
        ({"value": 3}, "policy.value: it is not an object of tiers"),
        ({"value": {"urgent": 3}}, "policy.value.urgent: it has no such tier"),
        ({"headroom": {"low": 0.1}}, "policy.headroom.low: it has no such tier; it has critical, high"),
        ({"headroom": {"high": 1}}, "policy.headroom.high: '1' is out of range"),
        ({"tempo": {}}, "policy.tempo: it is not part of a policy"),
        ({"shares": {"low": 0.9}, "ceilings": {"low": 0.5}}, "policy.shares: the guaranteed shares"),
    ],
)
def test_a_refusal_names_the_number_and_its_example_is_accepted(given: dict[str, Any], named: str) -> None:
    found = problems_of(given)
    assert named in str(InvalidArguments(found))
    for each in found:
        read_policy(json.loads(each.example))


def test_the_example_is_the_whole_change_corrected() -> None:
    for given, right in (
        ({"shares": {"background": 0.3}}, {"shares": spec_of(DEFAULT_POLICY)["shares"]}),
        ({"patince": {"normal": "often", "low": "3 h"}}, {"patience": {"normal": "2 minutes", "low": "3 h"}}),
        ({"shares.low": 0.12}, {"shares": {"low": 0.12}}),
        ({"value": {"hihg": 9, "low": 0}}, {"value": {"high": 9, "low": 4}}),
    ):
        assert {each.example for each in problems_of(given)} == {json.dumps(right)}


def test_all_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(InvalidArguments) as refused:
        read_policy({"value": {"low": 0}, "patience": {"high": -1}})
    assert "policy.value.low" in str(refused.value)
    assert "policy.patience.high" in str(refused.value)


def test_of_values_only_the_ratios_count() -> None:
    doubled = {tier: 2 * value for tier, value in VALUE_WEIGHT.items()}

    def key(**more: Any) -> float:
        return order_key(KeyFacts(NOON, p90=timedelta(minutes=1), cost=0.5), Tier.LOW, **more)

    assert key(values=doubled) == key()
    assert key(values={**VALUE_WEIGHT, Tier.LOW: 16.0}) < key()
