"""Attacks over REST: each argument of each operation, each header, each path."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.flow.attacks import hostile, hostile_requests
from tests.flow.attacks.target import Target
from tests.flow.rest.requests import Asked, requests_about

pytestmark = pytest.mark.anyio

JSON = {"Content-Type": "application/json"}
DOCUMENT = Path(__file__).parents[3] / "docs/openapi.json"
PLACES = (
    "/v1/tasks",
    "/mcp",
    "/admin",
    "/admin/login",
    "/metrics",
    "/livez",
    "/readyz",
    "/v1/changes?seconds=0",
)


@cache
def operations() -> dict[str, tuple[str, str, Mapping[str, Any]]]:
    """Return the operations of the published document by name: method, path, and the rest."""
    paths = json.loads(DOCUMENT.read_text("utf-8"))["paths"]
    return {
        operation["operationId"]: (method.upper(), path, operation)
        for path, methods in paths.items()
        for method, operation in methods.items()
    }


def members(operation: Mapping[str, Any]) -> list[str]:
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    return list(body.get("properties", {}))


async def sent(target: Target, method: str, path: str, body: object = None) -> None:
    given: dict[str, Any] = {"content": json.dumps(body).encode(), "headers": JSON} if body is not None else {}
    await target.attack(method, f"/v1{path}", token=target.admin_key, **given)


@pytest.mark.random_walk
@pytest.mark.parametrize("name", operations())
async def test_no_argument_of_an_operation_breaks_anything(target: Target, name: str) -> None:
    """Each asks about a task, a run and a key of another tenant."""
    method, path, operation = operations()[name]
    asked = requests_about(target.task_id, target.victim_key_id, target.run_id)[name][0]
    for member in members(operation):
        for value in hostile.values(name, member):
            await sent(target, method, asked.path, {**asked.given.get("body", {}), member: value})
    for parameter in operation.get("parameters", []):
        for value in hostile.values(name, parameter["name"]):
            await with_parameter(target, (method, path), parameter, asked, value)
    await target.survives()


async def with_parameter(
    target: Target, route: tuple[str, str], parameter: Mapping[str, str], asked: Asked, value: Any
) -> None:
    method, path = route
    name, body = parameter["name"], asked.given.get("body")
    text = (
        quote(value.encode("utf-8", "surrogatepass"), safe="") if isinstance(value, str) else quote(json.dumps(value))
    )
    if parameter["in"] == "path" and text:
        await sent(target, method, path.replace("{" + name + "}", text), body)
    elif parameter["in"] == "query" and name != "seconds":
        kept = "&seconds=0" if path == "/changes" else ""
        await sent(target, method, f"{asked.path.partition('?')[0]}?{name}={text}{kept}", body)


async def test_no_body_breaks_anything(target: Target) -> None:
    for content in hostile_requests.BODIES:
        for path in ("/v1/tasks", "/v1/tasks/batch", "/v1/inbox/read", "/v1/keys"):
            for headers in (JSON, {}, {**JSON, "Content-Encoding": "gzip"}):
                await target.attack(
                    "POST", path, token=target.admin_key, content=content, headers=headers, refused=True
                )
    await target.survives()


async def test_no_header_breaks_anything(target: Target) -> None:
    task = f"/v1/tasks/{target.task_id}"
    for headers in hostile_requests.HEADERS:
        for path in ("/v1/tasks", task, "/v1/changes?seconds=0"):
            await target.attack("GET", path, token=target.admin_key, headers=headers)
        changed: dict[str, Any] = {"headers": {**JSON, **headers}, "content": b'{"title": "x"}'}
        await target.attack("PATCH", task, token=target.admin_key, refused=True, **changed)
    await target.survives()


async def test_no_path_leads_elsewhere(target: Target) -> None:
    for path in hostile_requests.PATHS:
        for token in (None, target.admin_key):
            answer = await target.attack("GET", path, token=token)
            assert answer is None or "root:" not in answer.text
    await target.survives()


@pytest.mark.parametrize("path", PLACES)
async def test_no_method_breaks_anything(target: Target, path: str) -> None:
    for method in hostile_requests.METHODS:
        for token in (None, target.admin_key):
            await target.attack(method, path, token=token)
    await target.survives()


async def test_places_and_parameters_that_are_given_twice_are_refused(target: Target) -> None:
    for path in (
        "/v1/tasks?limit=1&limit=2",
        "/v1/tasks?state=open&state=ended",
        "/v1/events?tenant=globex&tenant=acme",
    ):
        await target.attack("GET", path, token=target.admin_key, refused=True)
    headers = [("Last-Event-ID", "a"), ("Last-Event-ID", "b")]
    answer = await target.site.http.get(
        "/v1/changes?seconds=0", headers=[*headers, ("Authorization", f"Bearer {target.key}")]
    )
    assert answer.status_code == 400
    await target.survives()


async def test_a_cursor_of_another_tenant_is_refused_and_a_place_of_one_is_none(target: Target) -> None:
    """The victim's own cursors are as strange to the attacker as invented ones."""
    store = target.site.app.store
    place = store.history.cursor_at("acme", store.history.latest())
    stream = await target.attack("GET", "/v1/changes?seconds=0", token=target.key, headers={"Last-Event-ID": place})
    assert stream is not None
    assert re.findall("event: (.*)", stream.text) == ["open", "reset"], "it goes on behind no event of anybody"
    victim = target.site.key("acme", "ann", scopes=("tasks", "admin:read"))
    page = await target.site.http.get("/v1/events?limit=1", headers={"Authorization": f"Bearer {victim}"})
    cursor = page.json()["cursor"]
    for path in ("/v1/events?limit=1", "/v1/dead_letters?limit=1", "/v1/runs?limit=1", "/v1/tasks?limit=1"):
        await target.attack("GET", f"{path}&cursor={quote(cursor)}", token=target.admin_key, refused=True)
    await target.survives()
