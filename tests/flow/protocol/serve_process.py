"""A real `duetime serve`, for tests of what pages in a browser may do; and the log of any served process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import IO

from tests import forked

ADDRESS = "serves MCP at "


class ServerLog:
    """The standard error of a server, read as it comes: a pipe that nobody reads blocks the server after 64 kB."""

    def __init__(self, stream: IO[str] | None) -> None:
        assert stream is not None
        line = next(line for line in stream if ADDRESS in line)
        self.address = line.split(ADDRESS)[1].split('"')[0].strip()
        self._lines: list[str] = []
        self._reader = Thread(target=self._lines.extend, args=(stream,), daemon=True)
        self._reader.start()

    def rest(self) -> str:
        """Return what a server that ends has logged since it said its address."""
        self._reader.join()
        return "".join(self._lines)


@contextmanager
def serving(folder: Path, origins: str, port: int = 0) -> Iterator[str]:
    """Run `duetime serve` with these origins, on a port that is free or on this one; gives its address."""
    settings = {
        "DUETIME_DATABASE_URL": f"sqlite:///{folder / 'duetime.db'}",
        "DUETIME_ALLOWED_ORIGINS": origins,
        "DUETIME_DESKTOP_NOTIFICATIONS": "off",
        "DUETIME_PORT": f"{port}",
    }
    command = [sys.executable, "-m", "duetime", "serve"]
    with forked.popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, **settings}) as process:
        log = ServerLog(process.stderr)
        try:
            yield log.address
        finally:
            process.terminate()
            log.rest()
