"""OAuth over HTTP: the metadata that leads a client to its authorization server, and the calls with its tokens."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.flow.auth.conftest import serving
from tests.flow.auth.issuer import AUDIENCE, OTHER_RSA_KEY, Issuer, serving_issuer

pytestmark = pytest.mark.anyio

PUBLIC = AUDIENCE.removesuffix("/mcp")
METADATA = "/.well-known/oauth-protected-resource/mcp"


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with serving_issuer() as found:
        yield found


async def test_a_client_finds_the_authorization_server_and_calls_with_its_token(tmp_path: Path, issuer: Issuer) -> None:
    async with serving(tmp_path, auth="oauth", oauth_issuer=issuer.url, public_url=PUBLIC) as site:
        refused = await site.modern(None, "tools/list")
        assert refused.status_code == 401
        assert f'resource_metadata="{PUBLIC}{METADATA}"' in refused.headers["www-authenticate"]
        metadata = (await site.http.get(METADATA)).json()
        assert metadata["resource"] == AUDIENCE
        assert metadata["authorization_servers"] == [issuer.url], "to the letter, as RFC 8414 compares it"
        refused = await site.http.get("/v1/tasks")
        assert refused.status_code == 401
        challenge = refused.headers["www-authenticate"]
        assert (challenge.count(f'resource_metadata="{PUBLIC}{METADATA}"'), challenge.count("scope=")) == (1, 1)
        assert metadata["scopes_supported"] == ["tasks"]
        made = await site.call(issuer.token(), "schedule_task", title="Call John", when="in 2 hours")
        assert site.app.store.tasks.get("acme", made["structuredContent"]["id"]).task.owner == "ann"


async def test_wrong_tokens_are_refused_in_few_bytes_and_nothing_is_stored(tmp_path: Path, issuer: Issuer) -> None:
    async with serving(tmp_path, auth="oauth", oauth_issuer=issuer.url, public_url=PUBLIC) as site:
        for token in (
            issuer.token(OTHER_RSA_KEY),
            issuer.token(exp=1),
            issuer.token(aud="https://other.example.com"),
            issuer.token(tenant="\u202eacme"),
            issuer.token(tenant="x" * 5000),
            site.key(),  # keys are not accepted here
            "a." * 30_000,
        ):
            answer = await site.modern(token, "tools/call", name="schedule_task", arguments={"title": "x"})
            assert answer.status_code == 401, token[:80]
            assert len(answer.content) < 1024
        narrow = await site.modern(issuer.token(scope="openid"), "tools/list")
        assert (narrow.status_code, narrow.json()["error"]) == (403, "insufficient_scope")
        assert site.app.store.history.latest() == 0


async def test_keys_and_tokens_are_accepted_side_by_side(tmp_path: Path, issuer: Issuer) -> None:
    async with serving(tmp_path, auth="keys,oauth", oauth_issuer=issuer.url, public_url=PUBLIC) as site:
        key = site.key("acme", "ann")
        for token in (key, issuer.token()):
            assert (await site.modern(token, "tools/list")).status_code == 200
        session = await site.session(key)
        list_ = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
        assert (await site.post(issuer.token(), list_, **session)).status_code == 404  # of another provider


async def test_an_authorization_server_that_is_away_is_told_as_such(tmp_path: Path) -> None:
    with serving_issuer() as issuer:
        token = issuer.token()
        issuer.documents = {}
        async with serving(tmp_path, auth="oauth", oauth_issuer=issuer.url, public_url=PUBLIC) as site:
            assert (await site.modern(token, "tools/list")).status_code == 503
