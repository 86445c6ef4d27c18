"""Metrics and alerts measure by the policy in force."""

from __future__ import annotations

from duetime.scheduler.dispatch.policy_registry import PolicyRegistry
from duetime.scheduler.store import Store
from duetime.scheduler.task import Tier
from duetime.server.telemetry.installation import InstallationReader

from tests.builders import Clock, added


def test_the_patience_and_the_shares_of_the_policy_decide_who_is_late_and_by_when_a_tier_is_served(
    store: Store, clock: Clock
) -> None:
    added(store, clock.at, priority=Tier.LOW)
    store.claims.make_ready(limit=9)
    clock.forward(seconds=60)
    reader = InstallationReader(lambda: store, lambda: None)
    before = reader.read()
    PolicyRegistry(store).set({"patience": {"low": 30}, "shares": {"low": 0.2}})
    after = reader.read()
    assert [tier.is_late for state in (before, after) for tier in state.lateness if tier.tier is Tier.LOW] == [
        False,
        True,
    ]
    assert after.shares.bound(4) < before.shares.bound(4)
