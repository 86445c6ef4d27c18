"""Sessions and subscriptions have a bound for each tenant: one tenant cannot use up those of the server."""

from __future__ import annotations

from pathlib import Path

import httpx2
import pytest
from duetime.server.protocol import sdk, subscription_limits
from duetime.server.protocol.subscription_limits import SubscriptionLimits
from mcp.shared.exceptions import MCPError

from tests.flow.auth.conftest import HELLO, Site, bearer, serving

URIS = [f"duetime://tasks/t_{number:012}" for number in range(3)]


async def opened(site: Site, key: str) -> httpx2.Response:
    return await site.post(key, {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO})


@pytest.mark.anyio
async def test_a_tenant_with_too_many_sessions_is_refused_another_one_and_no_other_tenant_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sdk, "MAX_TENANT_SESSIONS", 2)
    async with serving(tmp_path, auth="keys") as site:
        ann, bob, other = site.key("acme", "ann"), site.key("acme", "bob"), site.key("globex")
        session = await site.session(ann)
        assert (await opened(site, bob)).status_code == 200
        refused = await opened(site, ann)
        assert refused.status_code == 429
        assert "This tenant has 2 open sessions" in refused.json()["error"]["message"]
        assert len(refused.content) < 1024
        assert (await opened(site, other)).status_code == 200
        assert (await site.modern(ann, "tools/list")).status_code == 200  # which needs no session
        assert (await site.http.delete("/mcp", headers=bearer(ann) | session)).status_code == 200
        assert (await opened(site, ann)).status_code == 200


@pytest.mark.anyio
async def test_without_auth_sessions_are_bounded_by_the_server_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sdk, "MAX_TENANT_SESSIONS", 0)
    async with serving(tmp_path) as site:
        body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}
        assert (await site.post(None, body)).status_code == 200


def test_a_tenant_with_too_many_subscriptions_leaves_room_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscription_limits, "MAX_TENANT_ADDRESSES", 3)
    limits = SubscriptionLimits()
    for number, uri in enumerate(URIS):
        limits.take(number, [uri], "acme")
    with pytest.raises(MCPError, match="This tenant has 3 subscriptions already"):
        limits.take(9, URIS[:1], "acme")
    limits.take(10, URIS, "globex")
    limits.give_back(0, 1, "acme")
    limits.take(9, URIS[:1], "acme")


def test_a_tenant_with_too_many_streams_leaves_room_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscription_limits, "MAX_TENANT_STREAMS_COUNT", 1)
    limits = SubscriptionLimits()
    with limits.holding(1, [], "acme"):
        with pytest.raises(MCPError, match="This tenant has 1 open streams already"), limits.holding(2, [], "acme"):
            pass
        with limits.holding(3, [], "globex"):
            pass
    with limits.holding(4, [], "acme"):
        pass
    assert (limits._held, limits._total) == ({}, 0)
