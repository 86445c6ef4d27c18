"""Secrets are stored encrypted, bound to their tenant and name, and read by the keys that there are."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from duetime.scheduler.access.secret import SecretNotFound, SecretUnavailable, read_key
from duetime.scheduler.errors import InvalidArgument, InvalidSetting
from duetime.scheduler.store import Store
from duetime.scheduler.store.access.cipher import Cipher
from duetime.scheduler.store.access.secrets import Secrets
from duetime.scheduler.store.schema.tables.access import secrets
from sqlalchemy import select, update

from tests.builders import NOON, Clock
from tests.canary import CANARY, KEY, OTHER_KEY


def with_keys(store: Store, clock: Clock, *keys: str) -> Secrets:
    return Secrets(store._database, clock, Cipher([read_key(key) for key in keys]))


def move(store: Store, to: dict[str, str]) -> None:
    store._database.write(lambda connection: connection.execute(update(secrets).values(to)))


@pytest.fixture
def kept(store: Store, clock: Clock) -> Secrets:
    return with_keys(store, clock, KEY)


def stored(store: Store) -> Sequence[str]:
    return store._database.read(lambda connection: connection.execute(select(secrets.c.token)).scalars().all())


def test_a_secret_is_read_by_its_name_and_stored_encrypted(store: Store, kept: Secrets) -> None:
    kept.set("acme", "crm", CANARY, by="ann")
    assert kept.value("acme", "crm") == CANARY
    assert [CANARY in token for token in stored(store)] == [False]
    assert CANARY not in repr(kept.all())
    assert stored(store)[0] not in repr(kept.all())


def test_the_same_value_is_never_stored_as_the_same_text(store: Store, kept: Secrets) -> None:
    for name in ("one", "two"):
        kept.set("acme", name, CANARY, by="ann")
    assert len(set(stored(store))) == 2


def test_a_value_that_is_set_again_replaces_the_first(kept: Secrets) -> None:
    kept.set("acme", "crm", "an older value", by="ann")
    kept.set("acme", "crm", CANARY, by="bob", hosts=("api.example.com",))
    [secret] = kept.all("acme")
    assert (secret.set_by, secret.hosts, kept.value("acme", "crm", "API.example.com")) == (
        "bob", ("api.example.com",), CANARY,
    )  # fmt: skip


def test_no_tenant_reads_a_secret_of_another(kept: Secrets) -> None:
    kept.set("acme", "crm", CANARY, by="ann")
    kept.set("globex", "mail", CANARY, by="bob")
    with pytest.raises(SecretUnavailable) as none_stored:
        kept.value("nobody", "crm")
    stored_with = "an administrator stores it with `duetime secrets set crm`"
    assert str(none_stored.value) == f"secret 'crm': this tenant has none; {stored_with}"
    with pytest.raises(SecretUnavailable, match=r"^secret 'crm': this tenant has no secret of that name \(mail\)$"):
        kept.value("globex", "crm")
    assert kept.hosts("globex") == {"mail": ()}
    with pytest.raises(SecretNotFound, match="this tenant has mail"):
        kept.remove("globex", "crm")


def test_a_row_that_is_moved_to_another_tenant_or_name_is_not_read(store: Store, kept: Secrets) -> None:
    kept.set("acme", "crm", CANARY, by="ann")
    for moved in ({"tenant": "globex"}, {"name": "mail"}):
        move(store, moved)
        [secret] = kept.all()
        with pytest.raises(SecretUnavailable, match="holds the value of another secret"):
            kept.value(secret.tenant, secret.name)


def test_the_first_key_encrypts_and_all_decrypt(store: Store, clock: Clock, kept: Secrets) -> None:
    kept.set("acme", "old", CANARY, by="ann")
    both = with_keys(store, clock, OTHER_KEY, KEY)
    both.set("acme", "new", CANARY, by="ann")
    assert [both.value("acme", name) for name in ("old", "new")] == [CANARY] * 2
    assert [secret.name for secret in kept.undecryptable()] == ["new"]
    assert [secret.name for secret in both.of_older_keys()] == ["old"]


def test_after_a_rotation_the_old_key_is_not_needed(store: Store, clock: Clock, kept: Secrets) -> None:
    kept.set("acme", "crm", CANARY, by="ann")
    rotation = with_keys(store, clock, OTHER_KEY, KEY).rotate()
    assert (rotation.encrypted, rotation.unreadable) == (1, ())
    assert with_keys(store, clock, OTHER_KEY).value("acme", "crm") == CANARY


def test_a_rotation_leaves_what_no_key_decrypts_and_names_it(store: Store, clock: Clock, kept: Secrets) -> None:
    kept.set("acme", "lost", CANARY, by="ann")
    other = with_keys(store, clock, OTHER_KEY)
    other.set("acme", "crm", CANARY, by="ann")
    rotation = other.rotate()
    assert (rotation.encrypted, [secret.name for secret in rotation.unreadable]) == (1, ["lost"])
    assert kept.value("acme", "lost") == CANARY


def test_a_lost_key_and_no_key_are_told_apart(store: Store, clock: Clock, kept: Secrets) -> None:
    kept.set("acme", "crm", CANARY, by="ann")
    with pytest.raises(SecretUnavailable, match=r"^secret 'crm': no key of this process can decrypt it"):
        with_keys(store, clock, OTHER_KEY).value("acme", "crm")
    with pytest.raises(SecretUnavailable, match="this process has no key"):
        with_keys(store, clock).value("acme", "crm")
    with pytest.raises(InvalidSetting, match="Set DUETIME_SECRET_KEYS or secret_keys_file"):
        with_keys(store, clock).set("acme", "crm", CANARY, by="ann")


def test_a_secret_for_some_hosts_is_sent_to_no_other(kept: Secrets) -> None:
    kept.set("acme", "crm", CANARY, by="ann", hosts=("api.example.com",))
    with pytest.raises(SecretUnavailable, match=r"may be sent to api\.example\.com only, not to evil\.example\.com"):
        kept.value("acme", "crm", "evil.example.com")
    assert kept.value("acme", "crm") == CANARY


def test_the_last_use_is_exact_to_a_minute(clock: Clock, kept: Secrets) -> None:
    kept.set("acme", "crm", CANARY, by="ann")
    assert kept.all()[0].last_used_at is None
    for seconds in (0, 30, 90):
        clock.at = NOON
        clock.forward(seconds=seconds)
        kept.value("acme", "crm")
    assert kept.all()[0].last_used_at == clock.at


@pytest.mark.parametrize("value", ["", "s3cr3t!", "with\0zero byte", "x" * 16_385, "half a \ud800 character"])
def test_a_value_that_cannot_be_masked_or_stored_is_refused_without_showing_it(kept: Secrets, value: str) -> None:
    with pytest.raises(InvalidArgument, match="value") as refused:
        kept.set("acme", "crm", value, by="ann")
    assert not value or value not in str(refused.value)
    assert kept.all() == []


@pytest.mark.parametrize("name", ["", "a b", "ü", "a" * 65, "-a", "a/b", "a\n"])
def test_a_wrong_name_is_refused_and_found_nowhere(kept: Secrets, name: str) -> None:
    with pytest.raises(InvalidArgument, match="name"):
        kept.set("acme", name, CANARY, by="ann")
    with pytest.raises(SecretUnavailable):
        kept.value("acme", name)
    with pytest.raises(SecretNotFound):
        kept.remove("acme", name)
