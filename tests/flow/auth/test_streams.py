"""Streams and sessions end with their token: a subscriber whose key was revoked is told of nothing more."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from duetime.scheduler.errors import StoreUnavailable
from duetime.server.protocol import subscriber_tokens
from duetime.server.protocol.subscriber_tokens import TOKEN_CHECK_INTERVAL_S, SubscriberTokens
from duetime.server.protocol.subscriptions import Subscriptions

from tests.flow.auth.conftest import Site, serving

pytestmark = pytest.mark.anyio


class Token:
    """A token that holds until it is told otherwise; `looks` counts how often that was asked."""

    def __init__(self) -> None:
        self.right = True
        self.error: Exception | None = None
        self.looks = 0

    def __call__(self) -> bool:
        self.looks += 1
        if self.error is not None:
            raise self.error
        return self.right


class Setup:
    """Subscribers' tokens, their clock, and the subscriptions that ended."""

    def __init__(self) -> None:
        self.now = 100.0
        self.ended: list[str] = []
        self.tokens = SubscriberTokens(lambda: self.now)

    def end(self, name: str) -> Callable[[], None]:
        return lambda: self.ended.append(name)

    async def later(self, seconds: float = TOKEN_CHECK_INTERVAL_S) -> None:
        self.now += seconds
        await self.tokens.end_invalid()


@pytest.fixture
def setup() -> Setup:
    return Setup()


async def test_a_subscription_ends_within_a_minute_of_its_token(setup: Setup) -> None:
    ann, bob = Token(), Token()
    for name, token in {"ann": ann, "ann too": ann, "bob": bob}.items():
        setup.tokens.add(token, setup.end(name))
    ann.right = False
    await setup.later(TOKEN_CHECK_INTERVAL_S - 1)
    assert setup.ended == []
    await setup.later(1)
    assert sorted(setup.ended) == ["ann", "ann too"]


async def test_each_token_is_looked_at_once_a_minute_however_many_subscribe_with_it(setup: Setup) -> None:
    token = Token()
    for _ in range(5):
        setup.tokens.add(token, setup.end("ann"))
    for _ in range(120):
        await setup.later(1)
    assert token.looks == 2


async def test_a_client_that_left_is_checked_no_more(setup: Setup) -> None:
    token = Token()
    forget = setup.tokens.add(token, setup.end("ann"))
    forget()
    forget()
    await setup.later()
    assert (token.looks, setup.tokens._tokens) == (0, {})


async def test_a_database_that_is_away_ends_nobodys_subscription(setup: Setup) -> None:
    token = Token()
    setup.tokens.add(token, setup.end("ann"))
    token.error, token.right = StoreUnavailable("locked"), False
    await setup.later()
    assert setup.ended == []
    token.error = None
    await setup.later(0)
    assert setup.ended == ["ann"]


async def test_a_session_goes_on_with_the_token_of_its_latest_call(setup: Setup) -> None:
    old, new = Token(), Token()
    setup.tokens.add_session(1, old, setup.end("ann"))
    setup.tokens.renew(1, lambda: new)
    setup.tokens.renew(2, lambda: old)
    old.right = False
    await setup.later()
    assert setup.ended == []
    new.right = False
    await setup.later()
    assert setup.ended == ["ann"]


async def test_a_session_that_ended_is_forgotten(setup: Setup) -> None:
    setup.tokens.add_session(1, Token(), setup.end("ann"))
    setup.tokens.forget_session(1)
    assert (setup.tokens._tokens, setup.tokens._sessions) == ({}, {})


def subscriptions(site: Site) -> Any:
    [touched] = (each for each in site.app.listeners if isinstance(getattr(each, "__self__", None), Subscriptions))
    return touched.__self__  # type: ignore[attr-defined]  # a bound method


async def test_the_subscriptions_of_a_revoked_key_end_and_those_of_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscriber_tokens, "TOKEN_CHECK_INTERVAL_S", 0)
    subscribe = {"jsonrpc": "2.0", "id": 3, "method": "resources/subscribe", "params": {"uri": "duetime://inbox"}}
    async with serving(tmp_path, auth="keys") as site:
        revoked, other = site.key("acme"), site.key("globex")
        for key in (revoked, other):
            answer = await site.post(key, subscribe, **await site.session(key))
            assert answer.json()["result"] == {}
        changes = subscriptions(site)
        site.app.store.api_keys.revoke(revoked.split("_")[1])
        addresses = [(tenant, "duetime://inbox") for tenant in ("acme", "globex")]
        assert list(changes._sessions) == addresses
        await changes._notify_subscribers([("nobody", "duetime://inbox")])
        assert list(changes._sessions) == addresses[1:]
