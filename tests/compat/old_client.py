"""A client of mcp 1.30 uses the server: it lists the tools, schedules a reminder, and reads what was delivered.

Run under an environment of its own that has `mcp==1.30.*` and nothing of Duetime:

    python tests/compat/old_client.py COMMAND [ARGUMENT ...]

where COMMAND starts a Duetime server on stdio, say `duetime`. Prints one line of JSON; exits with 1 when a step fails.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from importlib.metadata import version
from typing import Any

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

TOOLS = ["schedule_task", "list_tasks", "get_task", "reschedule_task", "cancel_task"]
TIMEOUT_S = 120


async def use(session: Any) -> dict[str, Any]:
    """Take the steps of a first conversation; raise AssertionError at the first that is not as it should be."""
    welcome = await session.initialize()
    assert welcome.serverInfo.name == "duetime", welcome
    listed = [tool.name for tool in (await session.list_tools()).tools]
    assert listed[:5] == TOOLS, listed
    refused = await session.call_tool("schedule_task", {"title": "Call John", "dead_line": "tomorrow"})
    assert refused.isError, refused
    assert "dead_line" in refused.content[0].text, refused
    made = await session.call_tool("schedule_task", {"title": "Stretch", "when": "in 3 seconds"})
    assert not made.isError, made
    delivered = await outcome(session, made.structuredContent["id"])
    assert delivered["last_run"]["state"] == "succeeded", delivered
    inbox = json.loads((await session.read_resource("duetime://inbox")).contents[0].text)
    assert [message["title"] for message in inbox["messages"]] == ["Stretch"], inbox
    return {"tools": listed, "said": made.content[0].text, "outcome": delivered["last_run"]}


async def outcome(session: Any, task_id: str) -> dict[str, Any]:
    """Read the task until it has run."""
    until = time.monotonic() + TIMEOUT_S
    while time.monotonic() < until:
        read = await session.call_tool("get_task", {"task_id": task_id})
        if "last_run" in read.structuredContent:
            return dict(read.structuredContent)
        await asyncio.sleep(0.2)
    raise AssertionError(f"{task_id} did not run within {TIMEOUT_S} s")


async def main(command: str, arguments: list[str]) -> None:
    parameters = StdioServerParameters(command=command, args=arguments, env=dict(os.environ))
    async with stdio_client(parameters) as streams, ClientSession(*streams) as session:
        found = await use(session)
    sys.stdout.write(json.dumps({"mcp": version("mcp"), **found}) + "\n")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2:]))
