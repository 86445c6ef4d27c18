"""A damaged task, as a client of a real process sees it over stdio."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
from mcp import Client, StdioServerParameters

from tests import forked

PROGRAM = Path(__file__).with_name("served_process.py")


async def _conversation(database: Path) -> list[Any]:
    program, *arguments = forked.command(str(PROGRAM), "stdio", f"sqlite:///{database}")
    async with Client(StdioServerParameters(command=program, args=arguments)) as session:
        made = [await session.call_tool("schedule_task", {"title": name, "when": "in 2 days"}) for name in ("a", "b")]
        odd = made[0].structured_content["id"]
        with closing(sqlite3.connect(database)) as connection, connection:
            connection.execute("UPDATE tasks SET payload = 'not JSON' WHERE id = ?", [odd])
        return [
            await session.call_tool("list_tasks", {}),
            await session.call_tool("get_task", {"task_id": odd}),
            await session.call_tool("cancel_task", {"task_id": odd}),
        ]


def test_a_damaged_task_is_listed_read_and_cancelled_by_a_client(tmp_path: Path) -> None:
    listed, read, cancelled = anyio.run(_conversation, tmp_path / "duetime.db")
    assert sorted(row.get("damaged", False) for row in listed.structured_content["tasks"]) == [False, True]
    assert "damaged: its payload cannot be read (it is not JSON)" in read.content[0].text
    assert read.structured_content["damaged"] is True
    assert cancelled.structured_content["state"] == "cancelled"
