"""A server with its REST API inside the test, called over HTTP without a socket."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.flow.auth.conftest import Site, bearer, serving
from tests.flow.rest.documented import assert_documented

SECRET_KEY = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
Send = Callable[..., Awaitable[httpx2.Response]]


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    """Serve the local user alone."""
    async with serving(tmp_path) as found:
        yield found


@pytest.fixture
async def guarded(tmp_path: Path) -> AsyncIterator[Site]:
    """Serve callers that have a key."""
    async with serving(tmp_path, auth="keys", secret_keys=SECRET_KEY) as found:
        yield found


async def sent(site: Site, method: str, path: str, *, token: str | None = None, **given: Any) -> httpx2.Response:
    """Send a request to a path below `/v1`; `body` is sent as JSON, `headers` next to those of the caller."""
    headers = {**(bearer(token) if token is not None else {}), **given.pop("headers", {})}
    content = {"json": given.pop("body")} if "body" in given else {}
    answer = await site.http.request(method, f"/v1{path}", headers=headers, **content, **given)
    assert_documented(method, path, answer)
    return answer


async def made(site: Site, token: str | None = None, **arguments: Any) -> dict[str, Any]:
    """Schedule a task and return it."""
    body = {"title": "Call John", "when": "in 2 hours", **arguments}
    answer = await sent(site, "POST", "/tasks", token=token, body=body)
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found
