"""The shadow policy: compared with real decisions, in no queue, and with an audit entry of each change."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from duetime.scheduler.audit.entry import AuditFilter
from duetime.scheduler.dispatch.policy_registry import PolicyRegistry
from duetime.scheduler.dispatch.shadow_registry import NoShadow
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.principal import LOCAL
from duetime.scheduler.store import Store
from duetime.scheduler.task import Tier
from duetime.tools.admin.shadow_rows import report_json

from tests.builders import Clock, added
from tests.flow.dispatch.recorded import Recorded

ANN = replace(LOCAL, user="ann", via="cli ann")


@pytest.fixture
def policies(store: Store) -> PolicyRegistry:
    return PolicyRegistry(store)


def test_a_shadow_is_compared_with_what_was_decided_and_says_how_to_switch_it_on(
    store: Store, clock: Clock, policies: PolicyRegistry
) -> None:
    recorded = Recorded(store, clock)
    for tier in (Tier.NORMAL, Tier.LOW):
        added(store, priority=tier)
    recorded.take(1)
    recorded.decisions()
    policies.shadow.set({"patience": {"low": "30 s"}}, by=ANN, reason="reports were late")
    found = policies.shadow.report()
    assert found.changes == ("patience.low: 1800 -> 30",)
    assert (found.difference.decisions, found.difference.other_tier) == (1, 1)
    assert [(tier.starts, tier.shadow_starts) for tier in found.difference.tiers[2:4]] == [(1, 0), (0, 1)]
    told = report_json(found)
    assert told["summary"].startswith("Of 1 recorded starts, the shadow would have chosen another tier in 1 (100.0%)")
    assert "not simulated" in told["summary"]
    assert (policies.refresh().version, recorded.queue.stats().policy) == (0, 0), "it changes nothing that runs"
    made = policies.set(found.switch_on)
    assert made.policy.patience[Tier.LOW].total_seconds() == 30
    after = policies.shadow.report()
    assert (after.changes, after.switch_on, after.difference.decisions) == ((), {}, 0), "made under another version"


def test_a_version_can_be_the_shadow_and_each_change_is_audited(store: Store, policies: PolicyRegistry) -> None:
    policies.set({"shares": {"low": 0.12}})
    policies.shadow.set({"shares": {"low": 0.2}}, by=ANN)
    found = policies.shadow.set_version(0, by=ANN, reason="as before")
    assert (found.in_force, found.changes, found.switch_on) == (
        1,
        ("shares.low: 0.12 -> 0.1",),
        {"shares": {"low": 0.1}},
    )
    assert report_json(found)["summary"].startswith("No decision under the policy in force")
    policies.shadow.remove(by=ANN, reason="done")
    with pytest.raises(NoShadow, match="there is no shadow policy"):
        policies.shadow.report()
    with pytest.raises(NoShadow):
        policies.shadow.remove()
    acts = store.audit.page("local", AuditFilter(actor="ann"), limit=9).entries
    assert [(act.kind.value, act.reason) for act in acts] == [
        ("shadow_removed", "done"),
        ("shadow_set", "as before"),
        ("shadow_set", None),
    ]
    assert acts[1].detail == {"changes": ["shares.low: 0.12 -> 0.1"]}


def test_a_shadow_that_is_wrong_is_refused(policies: PolicyRegistry) -> None:
    with pytest.raises(InvalidArgument, match=r"no version 9\. Accepted: 0 to 0"):
        policies.shadow.set_version(9)
    with pytest.raises(InvalidArgument, match=r"policy\.shares\.low"):
        policies.shadow.set({"shares": {"low": 7}})


def test_a_shadow_that_differs_in_nothing_is_refused_with_one_that_does(policies: PolicyRegistry) -> None:
    for _ in range(2):
        with pytest.raises(InvalidArgument, match="in force already") as refused:
            policies.shadow.set({"shares": {"low": 0.1}})
        given = json.loads(refused.value.example)
        assert policies.shadow.set(given).changes
        policies.set(given)


def test_headroom_that_goes_back_to_the_settings_can_be_switched_on(policies: PolicyRegistry) -> None:
    policies.set({"headroom": {"critical": 0.5}})
    found = policies.shadow.set({"headroom": None})
    assert found.switch_on == {"headroom": None}
    assert policies.set(found.switch_on).policy.headroom is None
