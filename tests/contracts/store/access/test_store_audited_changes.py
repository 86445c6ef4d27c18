"""Keys, secrets and imports change together with their audit entry: neither is there without the other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from duetime.scheduler.access.api_key import ApiKey
from duetime.scheduler.access.secret import SecretNotFound, read_key
from duetime.scheduler.audit.entry import AuditEntry, AuditFilter, AuditKind
from duetime.scheduler.errors import Refused, StoreUnavailable
from duetime.scheduler.store import Store
from duetime.scheduler.store.access.cipher import Cipher
from duetime.scheduler.store.access.secrets import Secrets
from duetime.scheduler.store.audit import entries

from tests.builders import NOON, Clock
from tests.canary import CANARY, KEY
from tests.contracts.store.failures.test_store_failing_channels import fire

DAY = timedelta(days=1)
LAPTOP = ApiKey("7k3m9qx2w4hb", "acme", "ann", ("tasks",), "laptop", "ab" * 32, NOON, NOON + 30 * DAY)
NEW = replace(LAPTOP, id="new000000000", digest="cd" * 32)


def act(kind: AuditKind) -> AuditEntry:
    return AuditEntry("acme", kind, "root", "rest 10.0.0.7", "x", "ann left")


def rotated(store: Store) -> object:
    entry = act(AuditKind.KEY_ROTATED)
    return store.api_keys.replace(LAPTOP.id, lambda _: NEW, overlap=DAY, act=entry)


CHANGES: dict[AuditKind, tuple[Callable[[Store], object], Any]] = {
    AuditKind.KEY_CREATED: (lambda it: it.api_keys.add(NEW, act(AuditKind.KEY_CREATED)), None),
    AuditKind.KEY_REVOKED: (
        lambda it: it.api_keys.revoke_tenant("acme", act(AuditKind.KEY_REVOKED)), {"keys": 1}
    ),
    AuditKind.KEY_ROTATED: (rotated, {"successor": NEW.id}),
    AuditKind.SECRET_SET: (
        lambda it: it.secrets.set("acme", "new", CANARY, by="root", act=act(AuditKind.SECRET_SET)), None
    ),
    AuditKind.SECRET_REMOVED: (
        lambda it: it.secrets.remove("acme", "crm", act(AuditKind.SECRET_REMOVED)), None
    ),
    AuditKind.SECRETS_ROTATED: (
        lambda it: it.secrets.rotate(act(AuditKind.SECRETS_ROTATED)), {"encrypted": 1, "unreadable": 0}
    ),
    AuditKind.DELIVERIES_SENT_AGAIN: (
        lambda it: it.deliveries.send_again("crm", act(AuditKind.DELIVERIES_SENT_AGAIN)), {"deliveries": 1}
    ),
}  # fmt: skip


@pytest.fixture
def filled(store: Store, clock: Clock) -> Store:
    store.secrets = Secrets(store._database, clock, Cipher([read_key(KEY)]))
    store.api_keys.add(LAPTOP)
    store.secrets.set("acme", "crm", CANARY, by="ann")
    fire(store, "Backup", "crm")
    due = [delivery.id for delivery, _ in store.deliveries.due(limit=9)]
    assert store.deliveries.settle_failed(due, 0, "HTTP 410", next_at=None)
    return store


def _stored(store: Store) -> object:
    return (
        store.api_keys.all(),
        [(each.tenant, each.name, each.token) for each in store.secrets.all()],
        store.deliveries.failing(),
    )


def _entries(store: Store) -> tuple[AuditEntry, ...]:
    return store.audit.page("acme", AuditFilter(), limit=9).entries


@pytest.mark.parametrize("kind", CHANGES)
def test_a_change_stores_its_entry_with_the_reason(filled: Store, kind: AuditKind) -> None:
    change, detail = CHANGES[kind]
    before = _stored(filled)
    change(filled)
    [entry] = _entries(filled)
    assert (entry.kind, entry.reason, entry.detail) == (kind, "ann left", detail)
    assert _stored(filled) != before


@pytest.mark.parametrize("kind", CHANGES)
def test_a_change_of_which_the_entry_cannot_be_stored_is_not_made(
    filled: Store, kind: AuditKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    change, _ = CHANGES[kind]
    before = _stored(filled)

    def fails(*_: object) -> None:
        raise StoreUnavailable("the database does not answer")

    with monkeypatch.context() as patched:
        patched.setattr(entries, "store", fails)
        with pytest.raises(StoreUnavailable):
            change(filled)
    assert _stored(filled) == before
    assert _entries(filled) == ()


def test_a_change_that_is_refused_has_no_entry(filled: Store) -> None:
    with pytest.raises(SecretNotFound):
        filled.secrets.remove("acme", "other", act(AuditKind.SECRET_REMOVED))
    filled.api_keys.revoke(LAPTOP.id)
    with pytest.raises(Refused):
        rotated(filled)
    assert _entries(filled) == ()
