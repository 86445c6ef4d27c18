"""Run the README's first command in a copy of the project, and use what it starts as a chat client would.

    ask.py COPY COMMAND

Over HTTP, and over stdio with the `duetime` that the command installed, it lists the tools. It schedules something in
two seconds and reads that it was delivered. Ends with 1 and the server's words when any of it does not happen.
"""

from __future__ import annotations

import contextlib
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
    foreign = ("DUETIME_", "VIRTUAL_ENV", "XDG_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    places = {"HOME": home, "XDG_DATA_HOME": f"{home}/data", "XDG_CONFIG_HOME": f"{home}/config"}
    return {**kept, **places, "DUETIME_PORT": str(port), "DUETIME_TIMEZONE": "Europe/London"}


@contextlib.contextmanager
def first_command(
    copy: Path, command: Path, environment: Mapping[str, str], log: Path
) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("w") as output:
        shell = ["bash", "-e", str(command)]
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
    raise SystemExit(f"the command ended with {process.returncode} before it listened")


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


async def ask(copy: Path, command: Path, home: str) -> None:
    port = free_port()
    environment = surroundings(home, port)
    with first_command(copy, command, environment, Path(home) / "log") as process:
        await listening(port, process)
        await main_job(f"http://127.0.0.1:{port}/mcp", "HTTP")
    stdio = StdioServerParameters(command=str(copy / ".venv/bin/duetime"), env=environment, cwd=home)
    await main_job(stdio, "stdio")


def main() -> int:
    copy, command = map(Path, sys.argv[1:])
    with tempfile.TemporaryDirectory() as home:
        try:
            anyio.run(ask, copy, command, home)
        except BaseException:
            sys.stdout.write((Path(home) / "log").read_text()[-4000:])
            raise
    return 0


if __name__ == "__main__":
    sys.exit(main())
