"""The attacks whose outcome the database decides, on PostgreSQL: what it cannot store is refused before it is asked."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.flow.attacks.target import Target, under_attack
from tests.flow.attacks.test_rest import members, operations, sent, with_parameter
from tests.flow.attacks.test_tools import arguments_of
from tests.flow.rest.requests import requests_about

pytestmark = [pytest.mark.anyio, pytest.mark.postgres]

VALUES = ("a\0b", "\udfff\ud800", -(2**63) - 1, {"\0": {"a": "\ud800"}}, [10**30, "\0"])


@pytest.fixture
async def target(tmp_path: Path, migrated_postgres_url: str) -> AsyncIterator[Target]:
    async with under_attack(tmp_path, database_url=migrated_postgres_url) as found:
        yield found


async def test_no_value_reaches_a_statement_that_cannot_take_it(target: Target) -> None:
    """Each argument of each tool and each operation is attacked, but once where several have the same one."""
    known = set()
    async for tool, given, argument in arguments_of(target):
        known.add(argument)
        for value in VALUES:
            await target.call(tool, {**given, argument: value})
    for name, (method, path, operation) in operations().items():
        asked = requests_about(target.task_id, target.victim_key_id, target.run_id)[name][0]
        for member in {*members(operation)} - known:
            for value in VALUES:
                await sent(target, method, asked.path, {**asked.given.get("body", {}), member: value})
        places = [each for each in operation.get("parameters", []) if f"{each['name']} {path[:5]}" not in known]
        for parameter in places:
            for value in VALUES[:3]:
                await with_parameter(target, (method, path), parameter, asked, value)
        known |= {*members(operation)} | {f"{each['name']} {path[:5]}" for each in places}
    await target.survives()
