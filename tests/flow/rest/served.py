"""The environment of a real server of the REST API, and keys for its callers."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from tests import forked

PATIENCE_S = 120


def environment(folder: Path) -> dict[str, str]:
    """Return the environment of a server that keeps its database in a folder, and asks for keys."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("DUETIME_")}
    return kept | {
        "DUETIME_DATABASE_URL": f"sqlite:///{folder / 'duetime.db'}",
        "DUETIME_SQLITE_SYNCHRONOUS": "OFF",
        "DUETIME_DESKTOP_NOTIFICATIONS": "off",
        "DUETIME_TIMEZONE": "UTC",
        "DUETIME_AUTH": "keys",
        "DUETIME_PORT": "0",
    }


def new_key(folder: Path, *scopes: str) -> dict[str, str]:
    """Create a key as an operator does, and return what is said of it."""
    options = [word for scope in scopes for word in ("--scope", scope)]
    command = [sys.executable, "-m", "duetime", "keys", "create", "x", "--json", *options]
    done = forked.run(command, env=environment(folder), timeout=PATIENCE_S)
    found: dict[str, str] = json.loads(done.stdout)
    return found
