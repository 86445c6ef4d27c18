"""A client by the TypeScript SDK: one Node process, which calls what it is given on its stdin."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import anyio

from tests.flow.requests.conversation import Call
from tests.widgets import provision
from tests.widgets.tooling import CACHE, ensure_node_modules

PROGRAM: Final = Path(__file__).with_name("client.mjs")
PATIENCE_S: Final = 60


@contextmanager
def by_node(folder: Path, server: list[str], environment: Mapping[str, str]) -> Iterator[Call]:
    """Give a call; `server` is an address, or the command of a server over stdio."""
    modules = ensure_node_modules()
    shutil.copy(PROGRAM, folder)
    (folder / "node_modules").symlink_to(modules)
    command = [provision.node(CACHE), str(folder / PROGRAM.name), *server]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=dict(environment), text=True, stdin=pipe, stdout=pipe) as process:
        written, read = process.stdin, process.stdout
        assert written is not None
        assert read is not None

        def ask(request: str) -> str:
            written.write(f"{request}\n")
            written.flush()
            return str(read.readline())

        async def call(tool: str, arguments: dict[str, Any]) -> str:
            line = await anyio.to_thread.run_sync(ask, json.dumps({"tool": tool, "arguments": arguments}))
            answer = json.loads(line)
            assert not answer["isError"], answer["text"]
            return str(answer["text"])

        try:
            yield call
        finally:
            written.close()
            process.wait(PATIENCE_S)
