"""An idempotency key of another tenant takes the same statements as an unknown one, so no clock distinguishes them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, event

from tests.flow.auth.conftest import serving

pytestmark = pytest.mark.anyio
CALL: dict[str, Any] = {"title": "Pay", "when": "in 2 hours"}


@contextmanager
def statements() -> Iterator[list[str]]:
    """Gather the statements that reach a database in the block, with how many rows each was sent."""
    found: list[str] = []

    def hear(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        found.append(f"{statement} x{len(parameters) if isinstance(parameters, list) else 1}")

    event.listen(Engine, "before_cursor_execute", hear)
    try:
        yield found
    finally:
        event.remove(Engine, "before_cursor_execute", hear)


@pytest.mark.parametrize("database", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
async def test_a_foreign_key_and_an_unknown_one_take_the_same_statements(
    database: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = {}
    if database == "postgres":
        url["database_url"] = request.getfixturevalue("migrated_postgres_url")
    async with serving(tmp_path, auth="keys", **url) as site:
        ours, theirs = site.key("globex", "bob"), site.key("acme", "ann")
        await site.call(theirs, "schedule_task", **CALL, idempotency_key="foreign")
        await site.call(ours, "schedule_task", **CALL, idempotency_key="first")  # what is read once, and kept
        taken = []
        for number, named in enumerate(("unknown", "foreign", "unknown-too")):
            title = {**CALL, "title": f"Pay {number}"}
            with statements() as found:
                made = await site.call(ours, "schedule_task", **title, idempotency_key=named)
            assert made["structuredContent"]["created"] is True
            taken.append([each for each in found if "api_keys" not in each])
        assert taken[0] == taken[1] == taken[2] != []
