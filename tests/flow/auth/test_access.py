"""Routes other than MCP know their caller by one check, and refuse foreign hosts, pages and long bodies."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from duetime.scheduler.principal import Principal, Scope
from duetime.server.auth.access import requires
from duetime.server.transport.browsers import HttpAccess
from duetime.server.transport.request_checks import RequestChecks
from starlette.requests import Request
from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Route
from starlette.types import Message

from tests.flow.auth.conftest import Serve, Site, bearer

pytestmark = pytest.mark.anyio

NAMES = {"public_url": "https://duetime.example.com", "allowed_origins": "https://chat.example.com"}


async def _who(request: Request) -> JSONResponse:
    found = requires(Scope.ADMIN_READ, "test")(request)
    length = len(await request.body())
    return JSONResponse({"tenant": found.tenant, "operator": found.operator, "via": found.via, "length": length})


async def _site(serve: Serve, **settings: Any) -> Site:
    return await serve(routes=[Route("/who", _who, methods=["GET", "POST"])], **settings)


async def test_a_route_learns_tenant_and_surface_of_its_caller(serve: Serve) -> None:
    site = await _site(serve, auth="keys")
    key = site.key("acme", scopes=["admin:read"])
    answer = await site.http.get("/who", headers=bearer(key))
    assert answer.json() == {"tenant": "acme", "operator": False, "via": "test 127.0.0.1", "length": 0}


async def test_only_administrators_of_the_operator_tenant_are_operators(serve: Serve) -> None:
    site = await _site(serve, auth="keys", operator_tenant="ops")
    asked = [site.key(tenant, scopes=["admin"]) for tenant in ("ops", "local")]
    answers = [await site.http.get("/who", headers=bearer(key)) for key in asked]
    assert [answer.json()["operator"] for answer in answers] == [True, False]


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [({}, 401, "invalid_token"), (bearer("dt_wrong"), 401, "invalid_token"), (None, 403, "insufficient_scope")],
    ids=["none", "wrong", "narrow"],
)
async def test_a_caller_without_the_scope_is_told_which_one_it_needs(
    serve: Serve, headers: dict[str, str] | None, status: int, code: str
) -> None:
    site = await _site(serve, auth="keys")
    answer = await site.http.get("/who", headers=bearer(site.key()) if headers is None else headers)
    assert (answer.status_code, answer.json()["error"]) == (status, code)
    challenge = answer.headers["WWW-Authenticate"]
    assert challenge.endswith('scope="admin:read"'), "and no scope of another route"


async def test_without_auth_the_caller_is_the_local_user(serve: Serve) -> None:
    answer = await (await _site(serve)).http.get("/who")
    assert answer.json() == {"tenant": "local", "operator": True, "via": "test 127.0.0.1", "length": 0}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example.com"}, 421),
        ({"Host": "evil.localhost"}, 421),
        ({"Origin": "https://evil.example.com"}, 403),
        ({"Origin": "https://duetime.example.com"}, 200),
        ({"Origin": "https://chat.example.com"}, 200),
        ({"Host": "duetime.example.com"}, 200),
    ],
    ids=["foreign host", "host below localhost", "foreign page", "own page", "allowed page", "own name"],
)
async def test_a_request_names_this_server_and_a_page_that_may_call(
    serve: Serve, headers: dict[str, str], status: int
) -> None:
    site = await _site(serve, **NAMES)
    assert (await site.http.get("/who", headers=headers)).status_code == status


@pytest.mark.parametrize("streamed", [False, True], ids=["told", "streamed"])
async def test_a_body_has_a_megabyte_at_most(serve: Serve, streamed: bool) -> None:
    async def pieces() -> Any:
        for _ in range(3):
            yield b"x" * 400_000

    site = await _site(serve)
    answer = await site.http.post("/who", content=pieces() if streamed else b"x" * 1_200_000)
    assert answer.status_code == 413
    assert "1048576 bytes" in answer.text


async def test_a_stream_ends_when_the_body_of_its_request_is_too_long() -> None:
    async def lines() -> AsyncIterator[str]:
        yield "begun"
        await anyio.sleep_forever()

    async def body() -> Message:
        await anyio.lowlevel.checkpoint()
        return {"type": "http.request", "body": b"x" * 400_000, "more_body": True}

    async def note(message: Message) -> None:
        sent.append(message["type"])

    sent: list[str] = []
    scope = {"type": "http", "method": "GET", "path": "/", "headers": [(b"host", b"127.0.0.1")]}
    await RequestChecks(StreamingResponse(lines()), HttpAccess(), guarded=False)(scope, body, note)
    assert sent[0] == "http.response.start"


async def test_a_request_that_passed_no_check_has_no_caller() -> None:
    with pytest.raises(KeyError):
        requires(Scope.TASKS, "test")(Request({"type": "http", "headers": []}))


def test_an_administrator_reads_and_changes_its_own_tenant_and_an_operator_every_tenant() -> None:
    scopes = frozenset({"admin"})
    admin, operator = Principal("acme", scopes=scopes), Principal("ops", scopes=scopes, operator=True)
    reader = Principal("ops", scopes=frozenset({"admin:read"}), operator=True)
    asked = ("acme", "beta", None)
    assert [admin.may_read_all_of(name) for name in asked] == [True, False, False]
    assert [admin.may_change_all_of(name) for name in asked] == [True, False, False]
    assert [operator.may_change_all_of(name) for name in asked] == [True, True, True]
    assert [reader.may_read_all_of(name) for name in asked] == [True, True, True]
    assert [reader.may_change_all_of(name) for name in asked] == [False, False, False]
    assert not Principal("acme", operator=True).may_read_all_of("acme"), "a scope is needed as well"
