"""Addresses of the admin page: each link and each filter leads to a page, and a mistyped filter is refused."""

from __future__ import annotations

import re
from collections import Counter, deque
from html import unescape
from pathlib import Path

import pytest
from duetime.server.admin.answers import AdminRoute
from duetime.server.admin.pages.not_found import NOT_FOUND_ROUTES
from duetime.server.admin.routes import PAGE_ROUTES

from tests.flow.admin.conftest import Open
from tests.flow.admin.sample import fill

pytestmark = pytest.mark.anyio

READ_ROUTES = [route for page in PAGE_ROUTES for route in page if route.method == "GET"]
GROUPED = [
    *(f"/cost?by={group}" for group in ("action", "tier", "pool", "task", "tenant")),
    *(f"/timeline?window=24h&by={lane}" for lane in ("action", "worker", "tier")),
    "/audit?list=tasks",
]
MAX_ADDRESSES_ALIKE = 2
"""Addresses with the same path, ids aside, and the same parameters that are followed."""


@pytest.mark.parametrize("route", READ_ROUTES, ids=lambda route: route.path)
async def test_every_page_refuses_a_filter_that_it_does_not_have(admin_page: Open, route: AdminRoute) -> None:
    path = re.sub(r"\{\w+(:path)?\}", "unknown", route.path).rstrip("/")
    answer = await (await admin_page()).get(f"{path}?actoin=webhook")
    if route in NOT_FOUND_ROUTES:
        assert answer.status_code == 404
        return
    assert answer.status_code == 400
    assert "this page has no such filter" in answer.text
    assert "=..." not in answer.text
    meant = "action" in (route.query or ())
    assert ("Example: action=webhook" in answer.text) == meant


async def test_a_mistyped_filter_asks_about_no_dead_letter(tmp_path: Path, admin_page: Open) -> None:
    fill(f"sqlite:///{tmp_path}/duetime.db", 40)
    admin = await admin_page()
    asked = await admin.get("/dead?actoin=webhook&close=replay")
    assert asked.status_code == 400
    assert "dead letters?" not in asked.text
    assert (await admin.get("/dead?actoin=&close=replay")).status_code == 200


async def test_every_link_and_every_filter_of_every_page_leads_to_a_page(tmp_path: Path, admin_page: Open) -> None:
    fill(f"sqlite:///{tmp_path}/duetime.db", 60)
    admin = await admin_page()
    followed = Counter[str]()
    left, wrong = deque(("", *GROUPED)), list[tuple[int, str]]()
    while left:
        address = left.popleft()
        answer = await admin.get(address)
        if answer.status_code not in {200, 303}:
            wrong.append((answer.status_code, address))
        wrong += [(400, f"{path}?{name}") for path, name in _fields(answer.text) if name not in _accepted(path)]
        for found in _links(answer.text):
            alike = _kind(found)
            followed[alike] += 1
            if followed[alike] <= MAX_ADDRESSES_ALIKE:
                left.append(found)
    assert not wrong
    assert {"/runs?min_cost&priority&since", "/runs?action&min_cost&since", "/runs?min_cost&since&task"} <= {*followed}
    assert len(followed) > 40


def _links(html: str) -> list[str]:
    links = (unescape(link).partition("#")[0] for link in re.findall(r'href="/admin([^"]*)"', html))
    return [link for link in links if link[:1] in {"", "/", "?"} and not link.startswith("/static/")]


def _fields(html: str) -> list[tuple[str, str]]:
    """Return the path that each form of filters asks for, with each of its fields."""
    forms = re.findall(r'<form[^>]* method="get" action="/admin([^"?]*)[^>]*>(.*?)</form>', html, re.DOTALL)
    return [(path, name) for path, form in forms for name in re.findall(r'<(?:input|select)[^>]* name="(\w+)"', form)]


def _accepted(path: str) -> set[str]:
    return {"tenant", *next(route.query or () for route in READ_ROUTES if route.path == (path or "/"))}


def _kind(address: str) -> str:
    path, _, query = address.partition("?")
    names = "&".join(sorted(re.findall(r"(?:^|&)(\w+)=", query)))
    return re.sub(r"/(runs|tasks|pools|workers)/[^/?]+", r"/\1/*", path) + (f"?{names}" if names else "")


def test_only_the_page_for_what_is_not_there_takes_any_parameter() -> None:
    assert [route for route in READ_ROUTES if route.query is None] == [*NOT_FOUND_ROUTES]
