"""Measure what a process uses until its first answer: `duetime` over stdio against a no-op server of the same SDK.

    python benchmarks/bench_first_answer.py [--rounds 9]

Both are started in turn, asked one question, and killed. The figure is the CPU time of all threads, in user and kernel
mode, when the answer has arrived. The least of all rounds counts, because other work on a machine only ever adds to it.

Modules of both are compiled in the first round, as an installer does. A checkout whose environment forbids writing
bytecode would compile Duetime at each start, and the SDK never.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen
from typing import Any

NOOP = """
from mcp.server import MCPServer

server = MCPServer("noop", log_level="WARNING")


@server.tool()
async def noop(title: str, when: str) -> str:
    return f"{title} {when}"


server.run("stdio")
"""
CLIENT = {"name": "bench", "version": "1"}
PREFIX = "io.modelcontextprotocol"
MODERN = {
    "_meta": {
        f"{PREFIX}/protocolVersion": "2026-07-28",
        f"{PREFIX}/clientCapabilities": {},
        f"{PREFIX}/clientInfo": CLIENT,
    }
}
QUESTIONS: dict[str, dict[str, Any]] = {
    "initialize": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": CLIENT},
    "server/discover": MODERN,
    "tools/list": MODERN,
}


def cpu_to_first_answer(command: list[str], method: str, env: dict[str, str]) -> float:
    """Return the CPU seconds that a new process has used when it has answered one question."""
    question = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": QUESTIONS[method]})
    with Popen(command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, env=env) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{question}\n".encode())
        process.stdin.flush()
        answer = process.stdout.readline()
        process.kill()
        _, _, usage = os.wait4(process.pid, 0)
        process.returncode = 0  # it has been waited for
    assert b'"result"' in answer, answer
    return usage.ru_utime + usage.ru_stime


def main(rounds: int) -> None:
    commands = {"no-op": [sys.executable, "-c", NOOP], "duetime": [sys.executable, "-m", "duetime"]}
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".bench-") as folder:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("DUETIME_")}
        clean.pop("PYTHONDONTWRITEBYTECODE", None)
        clean["PYTHONPYCACHEPREFIX"] = f"{folder}/compiled"
        env = {**clean, "DUETIME_DATABASE_URL": f"sqlite:///{folder}/duetime.db", "DUETIME_TIMEZONE": "UTC"}
        for method in QUESTIONS:
            spent: dict[str, list[float]] = {name: [] for name in commands}
            for _ in range(rounds):
                for name, command in commands.items():
                    spent[name].append(cpu_to_first_answer(command, method, env))
            noop, ours = (min(spent[name]) for name in commands)
            print(f"{method:16} no-op {noop:.3f} s  duetime {ours:.3f} s  ratio {ours / noop:.2f}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    main(parser.parse_args().rounds)
