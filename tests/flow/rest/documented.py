"""Answers as they are sent, against the published OpenAPI document and the published payloads."""

from __future__ import annotations

import json
import re
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx2

from tests.widgets.published import assert_published

DOCUMENT = Path(__file__).resolve().parents[3] / "docs/openapi.json"
HEADERS = ("ETag", "Link", "Location", "Retry-After", "WWW-Authenticate")
"""Headers by which a client goes on, so that the document has to name them."""


def assert_documented(method: str, path: str, answer: httpx2.Response) -> None:
    """Look at an answer: the document has its status and its headers, the published schemas each of its members."""
    responses = _responses(method, path.partition("?")[0])
    if responses is None or answer.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        return
    assert str(answer.status_code) in responses, f"{method} {path} answers {answer.status_code}: {answer.text}"
    described = responses[str(answer.status_code)].get("headers", {})
    assert {name for name in HEADERS if name in answer.headers} <= set(described), f"{method} {path}"
    if answer.headers.get("Content-Type") == "application/json":
        assert_published(answer.json())


def _responses(method: str, path: str) -> dict[str, Any] | None:
    """Return the responses of an operation, None for a path that no operation has."""
    found = [methods for pattern, methods in _paths() if pattern.fullmatch(path)]
    return next((methods[method.lower()]["responses"] for methods in found if method.lower() in methods), None)


@cache
def _paths() -> list[tuple[re.Pattern[str], dict[str, Any]]]:
    """Return the operations by path; a path without arguments goes first."""
    paths = json.loads(DOCUMENT.read_text("utf-8"))["paths"]
    patterns = {
        path: re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(path)) for path in sorted(paths, key=lambda each: "{" in each)
    }
    return [(re.compile(pattern), paths[path]) for path, pattern in patterns.items()]
