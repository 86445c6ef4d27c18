"""Run the README's commands in a copy of the project, and use what they install and start as a chat client would.

    ask.py COPY START CHAT

START installs Duetime and starts a server; CHAT adds Duetime to the configuration of Claude Code. Over HTTP, and over
stdio by the entry in that configuration, this lists the tools. It schedules something in two seconds and reads that it
was delivered. Ends with 1 and the server's words when any of it does not happen.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import anyio
from mcp import Client, StdioServerParameters

TOOLS = {"schedule_task", "list_tasks", "get_task", "reschedule_task", "cancel_task"}
INSTALL_TIMEOUT_S = 600
DELIVERY_TIMEOUT_S = 30


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def surroundings(home: str, port: int) -> dict[str, str]:
    """Return an environment with a home of its own, so that no file of this machine's user is touched."""
    foreign = ("DUETIME_", "VIRTUAL_ENV", "XDG_", "CLAUDE_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    places = {"HOME": home, "XDG_DATA_HOME": f"{home}/data", "XDG_CONFIG_HOME": f"{home}/config"}
    return {**kept, **places, "DUETIME_PORT": str(port), "DUETIME_TIMEZONE": "Europe/London"}


@contextlib.contextmanager
def started(copy: Path, script: Path, environment: Mapping[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("w") as output:
        shell = ["bash", "-e", str(script)]
        process = subprocess.Popen(
            shell, cwd=copy, env=environment, stdout=output, stderr=output, start_new_session=True
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
            process.wait(timeout=30)


async def listening(port: int, process: subprocess.Popen[bytes]) -> None:
    with anyio.fail_after(INSTALL_TIMEOUT_S):
        while process.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                return
            await anyio.sleep(0.2)
    raise SystemExit(f"the commands ended with {process.returncode} before a server listened")


def configured(home: str, environment: Mapping[str, str]) -> StdioServerParameters:
    """Return how Claude Code would start Duetime, by its configuration."""
    entry = json.loads((Path(home) / ".claude.json").read_text("utf-8"))["mcpServers"]["duetime"]
    return StdioServerParameters(
        command=entry["command"], args=entry["args"], env={**environment, **entry.get("env", {})}, cwd=home
    )


async def call(client: Client, name: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(name, arguments)
    if result.is_error or result.structured_content is None:
        raise SystemExit(f"{name}{arguments} answered: {result.content}")
    content: dict[str, Any] = result.structured_content
    return content


async def main_job(server: str | StdioServerParameters, how: str) -> None:
    async with Client(server) as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
        if not names >= TOOLS:
            raise SystemExit(f"{how}: lacks {sorted(TOOLS - names)}; lists {sorted(names)}")
        task = await call(client, "schedule_task", title=f"Asked over {how}", when="in 2 seconds")
        with anyio.fail_after(DELIVERY_TIMEOUT_S):
            while task["state"] != "succeeded":
                await anyio.sleep(0.2)
                task = await call(client, "get_task", task_id=task["id"])
    sys.stdout.write(f"{how}: {len(names)} tools; {task['title']!r} is {task['state']}\n")


async def ask(copy: Path, start: Path, chat: Path, home: str) -> None:
    port = free_port()
    environment = surroundings(home, port)
    with started(copy, start, environment, Path(home) / "log") as process:
        await listening(port, process)
        await main_job(f"http://127.0.0.1:{port}/mcp", "HTTP")
    await anyio.run_process(["bash", "-e", str(chat)], cwd=copy, env=environment)
    await main_job(configured(home, environment), "stdio")


def main() -> int:
    copy, start, chat = map(Path, sys.argv[1:])
    with tempfile.TemporaryDirectory() as home:
        try:
            anyio.run(ask, copy, start, chat, home)
        except BaseException:
            sys.stdout.write((Path(home) / "log").read_text()[-4000:])
            raise
    return 0


if __name__ == "__main__":
    sys.exit(main())
