"""API keys: found by id, revoked at once, replaced with an overlap, and their use noted at most once a minute."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from duetime.scheduler.access.api_key import ApiKey, KeyNotFound
from duetime.scheduler.audit.entry import AuditEntry, AuditKind
from duetime.scheduler.errors import Refused
from duetime.scheduler.principal import Principal
from duetime.scheduler.store import Store

from tests.builders import NOON, Clock

DAY = timedelta(days=1)
KEY = ApiKey("7k3m9qx2w4hb", "acme", "Zoë", ("tasks", "worker"), "laptop", "ab" * 32, NOON, NOON + 30 * DAY)


def successor(old: ApiKey) -> ApiKey:
    return replace(old, id="new000000000", digest="cd" * 32, created_at=NOON + DAY, expires_at=None)


def test_a_key_is_found_by_its_id_as_it_was_added(store: Store) -> None:
    store.api_keys.add(KEY)
    found = store.api_keys.find(KEY.id)
    assert found == KEY
    assert found.principal == Principal("acme", "Zoë", frozenset({"tasks", "worker"}))


@pytest.mark.parametrize("key_id", ["", "7k3m9qx2w4hc", "x" * 10_000, "\0", "\ud800", "' OR 1=1 --", "%"])
def test_any_other_id_finds_nothing(store: Store, key_id: str) -> None:
    store.api_keys.add(KEY)
    assert store.api_keys.find(key_id) is None
    with pytest.raises(KeyNotFound):
        store.api_keys.replace(key_id, successor, overlap=DAY)


def test_keys_are_listed_by_tenant(store: Store) -> None:
    other = replace(KEY, id="other0000000", tenant="globex")
    for key in (other, KEY):
        store.api_keys.add(key)
    assert store.api_keys.all() == [KEY, other]
    assert store.api_keys.all("globex") == [other]
    assert store.api_keys.all("nobody") == []


def test_a_revoked_key_stays_revoked_since_the_first_time(store: Store, clock: Clock) -> None:
    store.api_keys.add(KEY)
    store.api_keys.revoke(KEY.id)
    clock.forward(hours=1)
    assert store.api_keys.revoke(KEY.id).revoked_at == NOON
    assert KEY.state(clock()) == "active"
    assert store.api_keys.all()[0].state(clock()) == "revoked"
    with pytest.raises(KeyNotFound, match="no API key 'other'"):
        store.api_keys.revoke("other")


def test_all_keys_of_a_tenant_are_revoked_and_no_others(store: Store) -> None:
    keys = [KEY, replace(KEY, id="second000000"), replace(KEY, id="other0000000", tenant="globex")]
    for key in keys:
        store.api_keys.add(key)
    store.api_keys.revoke(KEY.id)
    assert store.api_keys.revoke_tenant("acme") == 1
    assert [key.state(NOON) for key in store.api_keys.all()] == ["revoked", "revoked", "active"]


def test_a_replaced_key_ends_after_the_overlap(store: Store, clock: Clock) -> None:
    store.api_keys.add(KEY)
    clock.forward(days=1)
    old, new = store.api_keys.replace(KEY.id, successor, overlap=timedelta(hours=2))
    assert old.expires_at == NOON + DAY + timedelta(hours=2)
    assert store.api_keys.find(new.id) == new == successor(KEY)
    assert old.state(clock()) == "active"
    clock.forward(hours=2)
    assert old.state(clock()) == "expired"


def test_a_key_that_was_replaced_is_not_replaced_again(store: Store, clock: Clock) -> None:
    store.api_keys.add(replace(KEY, expires_at=None))
    act = AuditEntry("acme", AuditKind.KEY_ROTATED, "root", subject=KEY.id)
    _, new = store.api_keys.replace(KEY.id, successor, overlap=DAY, act=act)
    clock.forward(hours=1)
    with pytest.raises(Refused, match=f"was rotated before: rotate {new.id}, which replaces it"):
        store.api_keys.replace(KEY.id, lambda old: replace(old, id="third0000000"), overlap=DAY, act=act)
    assert {key.id for key in store.api_keys.all()} == {KEY.id, new.id}


@pytest.mark.parametrize("end", ["revoked", "expired"])
def test_a_key_is_rotated_again_once_the_key_that_replaces_it_is_not_active(
    store: Store, clock: Clock, end: str
) -> None:
    store.api_keys.add(KEY)
    act = AuditEntry("acme", AuditKind.KEY_ROTATED, "root", subject=KEY.id)
    lost = replace(successor(KEY), expires_at=NOON + timedelta(hours=12) if end == "expired" else None)
    store.api_keys.replace(KEY.id, lambda _: lost, overlap=2 * DAY, act=act)
    if end == "revoked":
        store.api_keys.revoke(lost.id)
    clock.forward(days=1)
    third, fourth = (replace(successor(KEY), id=key_id) for key_id in ("third0000000", "fourth000000"))
    assert store.api_keys.replace(KEY.id, lambda _: third, overlap=DAY, act=act)[1] == third
    with pytest.raises(Refused, match=f"rotate {third.id}, which replaces it"):
        store.api_keys.replace(KEY.id, lambda _: fourth, overlap=DAY, act=act)


def test_an_overlap_does_not_lengthen_the_life_of_a_key(store: Store, clock: Clock) -> None:
    store.api_keys.add(KEY)
    clock.forward(days=29)
    old, _ = store.api_keys.replace(KEY.id, successor, overlap=10 * DAY)
    assert old.expires_at == KEY.expires_at


def test_a_key_that_is_not_active_is_not_replaced(store: Store, clock: Clock) -> None:
    store.api_keys.add(KEY)
    clock.forward(days=30)
    with pytest.raises(Refused, match="is expired"):
        store.api_keys.replace(KEY.id, successor, overlap=DAY)
    store.api_keys.revoke(KEY.id)
    with pytest.raises(Refused, match="is revoked"):
        store.api_keys.replace(KEY.id, successor, overlap=DAY)
    assert [key.id for key in store.api_keys.all()] == [KEY.id]


def test_the_use_of_a_key_is_written_at_most_once_a_minute(store: Store, clock: Clock) -> None:
    store.api_keys.add(KEY)
    store.api_keys.note_use(KEY)
    clock.forward(seconds=59)
    for key in (KEY, store.api_keys.all()[0]):  # as another process has read it, and as it is
        store.api_keys.note_use(key)
    assert store.api_keys.all()[0].last_used_at == NOON
    clock.forward(seconds=1)
    store.api_keys.note_use(store.api_keys.all()[0])
    assert store.api_keys.all()[0].last_used_at == NOON + timedelta(minutes=1)
