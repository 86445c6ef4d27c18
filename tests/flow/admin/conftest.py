"""A browser without a screen: it follows the frame's rules (cookies, origin, CSRF token) over HTTP."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.flow.admin.sample import filled
from tests.flow.auth.conftest import Site, serving

ORIGIN = "http://127.0.0.1"


@dataclass(frozen=True, slots=True)
class Admin:
    """A person at the admin page of a site."""

    site: Site

    @property
    def http(self) -> httpx2.AsyncClient:
        return self.site.http

    async def log_in(self, key: str, after: str = "/admin") -> httpx2.Response:
        return await self.http.post("/admin/login", data={"key": key, "next": after}, headers={"Origin": ORIGIN})

    async def enter(self, *scopes: str, tenant: str = "acme", user: str = "ann") -> str:
        """Log in with a new key and return it."""
        key = self.site.key(tenant, user, scopes=scopes or ("admin",))
        answer = await self.log_in(key)
        assert answer.status_code == 303, answer.text
        return key

    async def get(self, path: str, **headers: str) -> httpx2.Response:
        return await self.http.get(f"/admin{path}", headers=headers)

    async def token(self, path: str = "") -> str:
        """Return the CSRF token that a page of this session has."""
        return found_token((await self.get(path)).text)

    async def post(self, path: str, *, page: str = "", **fields: Any) -> httpx2.Response:
        """Send a form of a page as the page would, with what it hides there."""
        html = (await self.get(page)).text
        sent = {"csrf_token": found_token(html), **found_shown(html), **fields}
        return await self.http.post(f"/admin{path}", data=sent, headers={"Origin": ORIGIN})


def found_token(html: str) -> str:
    found = re.search(r'name="csrf-token" content="(\w+)"', html)
    return found[1] if found else ""


def found_shown(html: str) -> dict[str, str]:
    """Return what the form of a page says that it was made from."""
    found = re.search(r'name="shown" value="([^"]*)"', html)
    return {"shown": unescape(found[1])} if found else {}


Open = Callable[..., Awaitable[Admin]]


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Return a database with a day of the local user, to copy: to write it takes longer than to test a page."""
    return filled(tmp_path_factory.mktemp("day"), 40, "local")


@pytest.fixture(scope="module")
def day_of_two(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Return a database with a day of each of two tenants."""
    return filled(tmp_path_factory.mktemp("two"), 24, "acme", "globex")


@pytest.fixture
async def admin_page(tmp_path: Path) -> AsyncIterator[Open]:
    """Return what opens the admin page of the test's database, with given settings."""
    async with AsyncExitStack() as stack:

        async def opened(**settings: Any) -> Admin:
            return Admin(await stack.enter_async_context(serving(tmp_path, **settings)))

        yield opened
