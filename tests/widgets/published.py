"""Payloads as they are sent, against their published schemas with every other member refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from duetime.scheduler.views import CHAIN_ACTION
from jsonschema import Draft202012Validator

PUBLISHED = Path(__file__).resolve().parents[2] / "docs" / "payloads"
NAMES = ("task", "list", "chain")
Schema = dict[str, Any]


def read(folder: Path, name: str) -> Schema:
    found: Schema = json.loads((folder / f"{name}.json").read_text("utf-8"))
    return found


def assert_published(answer: Any) -> None:
    """Look at an answer, and at every payload inside it: each member is one that its schema has."""
    for payload in _payloads(answer):
        wrong = [f"{error.json_path}: {error.message}" for error in strict(_name_of(payload)).iter_errors(payload)]
        assert wrong == []


@cache
def strict(name: str) -> Draft202012Validator:
    """Return the schema of a payload, which refuses members that it does not name."""
    return Draft202012Validator(_closed(read(PUBLISHED, name)))


def _payloads(answer: Any) -> Iterator[dict[str, Any]]:
    if isinstance(answer, dict):
        if answer.get("schema") in ("duetime.task/1", "duetime.list/1"):
            yield answer
        answer = list(answer.values())
    if isinstance(answer, list):
        for part in answer:
            yield from _payloads(part)


def _name_of(payload: dict[str, Any]) -> str:
    if payload["schema"] == "duetime.list/1":
        return "list"
    return "chain" if payload["action"] == CHAIN_ACTION else "task"


def _closed(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: _closed(part) for key, part in schema.items()}
    return (
        {**closed, "additionalProperties": False}
        if schema.get("type") == "object" and "properties" in schema
        else closed
    )
