"""Requests that try to get around the token: each is refused in few bytes, and none is a defect."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from duetime.scheduler.errors import InvalidArgument
from duetime.server.auth.call_limits import CallLimits
from duetime.server.auth.issuer_keys import IssuerKeys
from duetime.server.auth.oauth import OAuthProvider, TokenRules
from duetime.server.auth.verifier import MAX_TOKEN_CHARS, Verifier

from tests.flow.auth.conftest import ACCEPTED, Site, bearer, serving
from tests.flow.auth.issuer import AUDIENCE, Issuer

pytestmark = pytest.mark.anyio

PAGE = "https://chat.example.com"
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
ISSUER = "https://login.example.com"


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with serving(tmp_path, auth="keys", allowed_origins=PAGE, tenant_calls_per_minute=3) as found:
        yield found


async def test_the_word_bearer_may_be_written_in_any_case(site: Site) -> None:
    key = site.key()
    for word in ("bearer", "BEARER"):
        answer = await site.http.post("/mcp", json=LIST, headers=ACCEPTED | {"Authorization": f"{word} {key}"})
        assert answer.status_code != 401


@pytest.mark.parametrize("first", [0, 1])
async def test_two_tokens_in_one_request_are_refused_whichever_is_right(site: Site, first: int) -> None:
    tokens = [site.key(), "dt_wrong"]
    tokens = tokens[first:] + tokens[:first]
    given = [(b"authorization", f"Bearer {token}".encode()) for token in tokens]
    named = [(name.lower().encode(), value.encode()) for name, value in ACCEPTED.items()]
    answer = await site.http.post("/mcp", json=LIST, headers=[*named, *given])
    assert answer.status_code == 400
    assert answer.json()["error"] == "invalid_request"


class AnyToken:
    """A provider that accepts whatever it is asked about."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def knows(self, token: str) -> bool:
        self.asked.append(len(token))
        return False

    def verify(self, _token: str) -> None:
        return None


@pytest.mark.parametrize("token", ["a" * (MAX_TOKEN_CHARS + 1), "a" * 10**6, "ä", "a\n", "a\0", ""])
async def test_no_provider_reads_a_token_that_is_too_long_or_has_other_characters(token: str) -> None:
    provider = AnyToken()
    assert await Verifier([provider], CallLimits(0)).verify_token(token) is None
    assert provider.asked == ([0] if token == "" else [])
    await Verifier([provider], CallLimits(0)).verify_token("a" * MAX_TOKEN_CHARS)
    assert provider.asked[-1] == MAX_TOKEN_CHARS


@pytest.mark.parametrize("name", ["access_token", "token", "key", "Authorization"])
async def test_a_token_in_the_address_counts_for_nothing(site: Site, name: str) -> None:
    answer = await site.http.post("/mcp", params={name: site.key()}, json=LIST, headers=ACCEPTED)
    assert answer.status_code == 401


async def test_a_page_that_may_call_needs_no_token_to_ask_whether_it_may(site: Site) -> None:
    asked = {"Origin": PAGE, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
    answer = await site.http.options("/mcp", headers=asked)
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == PAGE
    refused = await site.http.options("/mcp", headers={**asked, "Origin": "https://evil.example.com"})
    assert "access-control-allow-origin" not in refused.headers


async def test_a_page_that_may_call_can_read_each_refusal(site: Site) -> None:
    missing = await site.post(None, LIST, Origin=PAGE)
    key = site.key()
    for _ in range(3):
        await site.modern(key, "tools/list")
    too_many = await site.post(key, LIST, Origin=PAGE)
    assert [missing.status_code, too_many.status_code] == [401, 429]
    for answer in (missing, too_many):
        assert answer.headers["access-control-allow-origin"] == PAGE
        exposed = answer.headers["access-control-expose-headers"].lower()
        assert {"www-authenticate", "retry-after"} <= set(exposed.split(", "))


@pytest.mark.parametrize(
    "claims",
    [
        {"exp": 10**400},
        {"exp": 1e300},
        {"exp": float("inf")},
        {"exp": float("nan")},
        {"exp": True},
        {"exp": []},
        {"iat": 4e9},
        {"iat": "soon"},
        {"nbf": 4_000_000_000},
        {"sub": "x" * 201},
        {"sub": " ann"},
        {"tenant": "ac\u202eme"},
        {"tenant": "\ud800"},
        {"aud": {"a": 1}},
        {"aud": [["https://duetime.example.com/mcp"]]},
        {"iss": ["https://login.example.com"]},
    ],
)
async def test_claims_of_odd_values_are_no_defect(claims: dict[str, Any]) -> None:
    issuer = Issuer(ISSUER)
    provider = OAuthProvider(TokenRules(ISSUER, AUDIENCE), IssuerKeys(ISSUER, None, refetch_s=60, fetch=issuer.fetch))
    try:
        token = issuer.token(**claims)
    except (TypeError, ValueError):
        pytest.skip("this library signs no such claim")
    try:
        found = provider.verify(token)
    except InvalidArgument:
        return
    assert found is None or claims.get("exp") in (1e300, 10**400)


async def test_the_backlog_of_all_tenants_is_not_shown_to_whoever_asks(site: Site) -> None:
    assert (await site.http.get("/readyz?verbose")).text == "ok"


async def test_a_right_key_opens_no_other_path(site: Site) -> None:
    for path in ("//mcp", "/.well-known/oauth-protected-resource/mcp"):
        answer = await site.http.get(path, headers=bearer(site.key()))
        assert answer.status_code == 404, path
    page = await site.http.get("/admin", headers=bearer(site.key()))
    assert page.headers["location"] == "/admin/login"
