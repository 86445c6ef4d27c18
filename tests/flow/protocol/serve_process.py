"""A real `duetime serve`, for tests of what pages in a browser may do."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


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
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, **settings}) as process:
        assert process.stderr is not None
        try:
            yield (
                next(line for line in process.stderr if "serves MCP at" in line)
                .split("serves MCP at ")[1]
                .split('"')[0]
                .strip()
            )
        finally:
            process.terminate()
