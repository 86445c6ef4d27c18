"""The provider of API keys: what a call with a key costs, and when the key ends."""

from __future__ import annotations

import hmac
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, cast

import pytest
from duetime.scheduler.access.api_key import ApiKey
from duetime.scheduler.errors import StoreUnavailable
from duetime.server.auth.api_keys import ApiKeyProvider
from duetime.server.auth.key_format import KeyText

from tests.builders import NOON

MINUTE = timedelta(minutes=1)


@dataclass
class Keys:
    """Stored keys, whose use cannot be noted when `error` is set; and their clock."""

    stored: dict[str, ApiKey] = field(default_factory=dict)
    error: Exception | None = None
    now: datetime = NOON
    notes: int = 0

    def find(self, key_id: str) -> ApiKey | None:
        return self.stored.get(key_id)

    def note_use(self, _: ApiKey) -> None:
        self.notes += 1
        if self.error is not None:
            raise self.error

    def add(self, *, validity: timedelta | None = None) -> str:
        text = KeyText.new()
        ends = NOON + validity if validity is not None else None
        self.stored[text.id] = ApiKey(text.id, "acme", "ann", ("tasks",), "test", text.digest, NOON, ends)
        return text.text


@pytest.fixture
def keys() -> Keys:
    return Keys()


@pytest.fixture
def provider(keys: Keys) -> ApiKeyProvider:
    return ApiKeyProvider(lambda: cast("Any", keys), lambda: keys.now)


def test_a_key_ends_at_its_expiry_by_the_clock_of_the_database(keys: Keys, provider: ApiKeyProvider) -> None:
    key = keys.add(validity=MINUTE)
    keys.now = NOON + MINUTE - timedelta(microseconds=1)
    assert provider.verify(key) is not None
    keys.now = NOON + MINUTE
    assert provider.verify(key) is None


def test_a_database_that_takes_no_writes_is_asked_once_a_minute_to_note_a_use(
    keys: Keys, provider: ApiKeyProvider
) -> None:
    """A locked database keeps whoever writes for 5 s: each call would wait for them."""
    key, keys.error = keys.add(), StoreUnavailable("the database is locked")
    for _ in range(3):
        assert provider.verify(key) is not None
    assert keys.notes == 1
    keys.now += MINUTE
    assert provider.verify(key) is not None
    assert keys.notes == 2


def test_the_use_of_each_key_is_noted(keys: Keys, provider: ApiKeyProvider) -> None:
    for key in (keys.add(), keys.add()):
        assert provider.verify(key) is not None
    assert keys.notes == 2


def test_an_unknown_id_and_a_wrong_secret_are_compared_alike(
    keys: Keys, provider: ApiKeyProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[tuple[str, str]] = []

    def compare(one: str, other: str) -> bool:
        compared.append((one, other))
        return one == other

    monkeypatch.setattr(hmac, "compare_digest", compare)
    known = KeyText.parse(keys.add())
    assert known is not None
    unknown = KeyText.new()
    for text in (unknown.text, f"dt_{known.id}_{unknown.secret}"):
        assert provider.verify(text) is None
    assert [len(other) for _, other in compared] == [64, 64]
    assert keys.notes == 0
