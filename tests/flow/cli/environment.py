"""The environment of a `duetime` that a test runs in its own process."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def isolate(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Give `duetime` homes and an SQLite file in a folder of the test, the zone UTC, and no other settings."""
    for name in [name for name in os.environ if name.upper().startswith("DUETIME_")]:
        monkeypatch.delenv(name)
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(folder / name))
    monkeypatch.setenv("DUETIME_DATABASE_URL", f"sqlite:///{folder}/duetime.db")
    monkeypatch.setenv("DUETIME_TIMEZONE", "UTC")
