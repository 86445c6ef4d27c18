"""The OpenAPI document: published as committed, and whole: each operation with its scope, arguments and problems."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from duetime.server.rest.document import text
from duetime.server.rest.operations import OPERATIONS
from duetime.tools.reschedule_task import RESCHEDULE_TASK

from tests.flow.auth.conftest import Site
from tests.flow.rest.conftest import made, sent

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs/rest.md").read_text("utf-8")
SERVER = "http://127.0.0.1:8787"


async def test_the_document_is_the_committed_one(site: Site) -> None:
    """`python -m duetime.server.rest.document docs/openapi.json` writes it."""
    served = (await sent(site, "GET", "/openapi.json")).json()
    assert served == json.loads(text())
    assert (ROOT / "docs/openapi.json").read_text("utf-8") == text()
    assert served["openapi"].startswith("3.1")


def test_operations_have_names_of_their_own() -> None:
    assert len({operation.name for operation in OPERATIONS}) == len(OPERATIONS)
    assert len({(operation.method, operation.path) for operation in OPERATIONS}) == len(OPERATIONS)


def refusing(schema: Any) -> bool:
    """Return whether a schema, or one inside it, refuses members that it does not name."""
    parts = schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ()
    return (isinstance(schema, dict) and schema.get("additionalProperties") is False) or any(map(refusing, parts))


def test_answers_may_gain_members_and_bodies_of_requests_have_no_others() -> None:
    document = json.loads(text())
    assert {name for name, schema in document["components"]["schemas"].items() if refusing(schema)} == set()
    bodies = {
        operation["operationId"]: operation["requestBody"]["content"]["application/json"]["schema"]
        for methods in document["paths"].values()
        for operation in methods.values()
        if "requestBody" in operation
    }
    assert {name for name, schema in bodies.items() if schema.get("additionalProperties") is not False} == {"fire"}


def curls() -> list[list[str]]:
    blocks = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    return [shlex.split(line)[1:] for line in lines if line.startswith("curl ")]


def request_of(words: list[str], task_id: str) -> tuple[str, str, dict[str, Any]]:
    """Return the method, the path and the rest of a request as curl would send it."""
    method, url, given, headers = "", "", dict[str, Any](), dict[str, str]()
    rest = iter(words)
    for word in rest:
        if word == "-X":
            method = next(rest)
        elif word == "-H":
            name, _, value = next(rest).partition(": ")
            headers[name] = value
        elif word == "-d":
            given["content"] = next(rest).encode()
        elif not word.startswith("-"):
            url = word.replace("$TASK", task_id)
    assert url.startswith(f"{SERVER}/v1"), url
    return method or ("POST" if given else "GET"), url.removeprefix(f"{SERVER}/v1"), {**given, "headers": headers}


async def test_the_examples_of_the_page_are_answered(site: Site) -> None:
    task = await made(site)
    examples = curls()
    for words in examples:
        method, path, given = request_of(words, task["id"])
        answer = await sent(site, method, path, **given)
        assert answer.is_success, (words, answer.text)
    assert len(examples) >= 5


def test_every_status_of_the_document_is_explained_on_the_page() -> None:
    statuses = {
        status
        for methods in json.loads(text())["paths"].values()
        for operation in methods.values()
        for status in operation["responses"]
        if status >= "400"
    }
    assert statuses <= set(re.findall(r"\b\d{3}\b", PAGE[PAGE.index("## Problems") :]))


def test_a_change_says_of_its_arguments_what_the_tool_says() -> None:
    change = next(operation for operation in OPERATIONS if operation.name == "change_task")
    said = {argument.name: argument.about for argument in change.body or ()}
    assert said["estimate"] == "'none': learn it again; a number is seconds"
    for argument in RESCHEDULE_TASK.arguments:
        assert said.get(argument.name, argument.about).startswith(argument.about)
