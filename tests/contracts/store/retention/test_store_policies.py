"""Versions of the policy: who set which, one after the other, each with its audit entry."""

from __future__ import annotations

from duetime.scheduler.audit.entry import AuditEntry, AuditFilter, AuditKind
from duetime.scheduler.principal import LOCAL
from duetime.scheduler.store import Store

ACT = AuditEntry.by(LOCAL, AuditKind.POLICY_SET, "policy 1", reason="chats wait")


def test_a_version_has_its_content_actor_time_and_reason(store: Store) -> None:
    assert (store.policies.version(), store.policies.newest(9), store.policies.get(1)) == (0, [], None)
    made = store.policies.add({"value": {"low": 3.5}}, ACT, based_on=0)
    assert made is not None
    assert (made.version, made.content, made.actor, made.reason) == (1, {"value": {"low": 3.5}}, "local", "chats wait")
    assert store.policies.get(1) == made
    assert store.policies.newest(9) == [made]


def test_a_change_that_is_based_on_an_older_version_stores_nothing(store: Store) -> None:
    store.policies.add({}, ACT, based_on=0)
    assert store.policies.add({"value": {}}, ACT, based_on=0) is None
    assert store.policies.version() == 1
    assert len(store.audit.page("local", AuditFilter(), limit=9).entries) == 1


def test_versions_are_listed_newest_first(store: Store) -> None:
    for version in range(3):
        store.policies.add({"value": {"low": version}}, ACT, based_on=version)
    assert [each.version for each in store.policies.newest(2)] == [3, 2]


def test_every_look_for_due_runs_sees_a_new_version(store: Store) -> None:
    before = store.claims.next_times().settings_revision
    seen: list[int] = []
    store.pools.on_change = lambda: seen.append(1)
    store.policies.add({}, ACT, based_on=0)
    assert store.claims.next_times().settings_revision > before
    assert seen == [1]
