"""A chat host: starts `duetime` over stdio, says lines of JSON to it, and ends it as hosts end their servers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from duetime.scheduler.nodes.candidacy import LISTENER_AGE_S

from tests import forked
from tests.faults.conftest import PATIENCE_S, ROOT

PROGRAM = """
import sys
from duetime.scheduler.nodes import candidacy
from duetime.server.cli.main import run

candidacy.LISTENER_AGE_S = float(sys.argv[1])
sys.exit(run([]))
"""
MODERN = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "host", "version": "1"},
}

End = Sequence[tuple[str, float]]
"""The signs of an end, each with the seconds that the host waits after it, then it kills a server that is still there.

A server has so much longer as its threads wait for a processor, all together: they wait for each other too.
"""

PROBE: End = (("EOF", 0.0), ("SIGTERM", 1.0))
"""As the TypeScript SDK ends the server that it only asked for its version."""

CLOSED: End = (("EOF", 2.0), ("SIGTERM", PATIENCE_S))
"""As the SDKs end a session, but for the kill that they follow up with: a busy machine may need longer."""

INTERRUPTED: End = (("SIGINT", 0.1), ("SIGTERM", 0.5))
"""As a host in a terminal ends its servers."""


UNHEARD: End = (("SIGTERM", 0.25),)
"""A kill before the hand-back has ended: work that nothing interrupts may take the whole grace period."""


class Host:
    """One `duetime` over stdio on the database in `folder`."""

    def __init__(self, folder: Path, listener_age_s: float = LISTENER_AGE_S) -> None:
        environment = {
            **os.environ,
            "DUETIME_DATABASE_URL": f"sqlite:///{folder / 'duetime.db'}",
            "DUETIME_HANDLERS": "tests.faults.ledger",
            "DUETIME_DESKTOP_NOTIFICATIONS": "off",
            "DUETIME_LOG_LEVEL": "warning",
            "LEDGER": str(folder / "ledger"),
        }
        self.process = forked.popen(
            [sys.executable, "-c", PROGRAM, str(listener_age_s)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            cwd=ROOT,
        )

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Send one request and return its answer."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"_meta": MODERN, **params}}
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        assert isinstance(answer, dict)
        return answer

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        result = self.ask("tools/call", name=tool, arguments=arguments)["result"]
        assert not result["isError"], result
        found = result["structuredContent"]
        assert isinstance(found, dict)
        return found

    def end(self, signs: End) -> int:
        """End the server; return its exit code, negative when it had to be killed."""
        for sign, seconds in signs:
            self._give(sign)
            began, kept_waiting, before = time.monotonic(), 0.0, self._waited_s()
            while self.process.poll() is None and time.monotonic() - began < seconds + kept_waiting:
                time.sleep(0.005)
                waited_s = sum(found - before.get(thread, 0.0) for thread, found in self._waited_s().items())
                kept_waiting = max(kept_waiting, waited_s)
        return self.kill()

    def _waited_s(self) -> dict[str, float]:
        """Return how long each thread of the server has waited for a processor: that is this machine's fault."""
        waited_s = dict[str, float]()
        with suppress(FileNotFoundError):  # the process has ended
            for thread in Path(f"/proc/{self.process.pid}/task").glob("*/schedstat"):
                with suppress(OSError):  # it has ended
                    waited_s[thread.parent.name] = int(thread.read_text().split()[1]) / 1e9
        return waited_s

    def kill(self) -> int:
        self.process.kill()
        code = self.process.wait(PATIENCE_S)
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            with suppress(BrokenPipeError):
                stream.close()
        return code

    def _give(self, sign: str) -> None:
        if sign == "EOF":
            assert self.process.stdin is not None
            self.process.stdin.close()
        elif self.process.poll() is None:
            self.process.send_signal(signal.Signals[sign])
