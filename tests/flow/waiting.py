"""Waiting for what other threads do, without sleeping for a guessed time."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE_S = 120.0
"""Seconds after which something is taken to hang; no test depends on how long it takes."""


def eventually(condition: Callable[[], object], what: str, patience: float = PATIENCE_S) -> None:
    """Wait until `condition` holds; fail with `what` was awaited."""
    give_up = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < give_up, f"waited {patience:g} s for {what}"
        time.sleep(0.002)
