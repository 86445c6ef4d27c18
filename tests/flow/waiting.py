"""Waiting for what other threads do, without sleeping for a guessed time."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

PATIENCE_S = 120.0
"""Seconds after which something is taken to hang; no test depends on how long it takes."""


MIN_PAUSE_S, MAX_PAUSE_S = 0.002, 0.02
"""Seconds between two looks: a look may ask a server, and what is awaited needs the processors as well."""

PAUSE_RATIO = 0.05
"""The part of the time waited so far for which the next look waits."""


def eventually(
    condition: Callable[[], object], what: str, patience: float = PATIENCE_S, max_pause: float = MAX_PAUSE_S
) -> None:
    """Wait until `condition` holds; fail with `what` was awaited."""
    began = time.monotonic()
    while not condition():
        waited = time.monotonic() - began
        assert waited < patience, f"waited {patience:g} s for {what}"
        time.sleep(min(max(MIN_PAUSE_S, PAUSE_RATIO * waited), max_pause))


def processor_waits_s() -> float:
    """Return how long something of this machine has waited for a processor since its start, 0 where Linux keeps none.

    A time that a test takes says nothing about the software for so much of it.
    """
    with suppress(OSError):
        found = re.search(r"some .*total=(\d+)", Path("/proc/pressure/cpu").read_text())
        return int(found[1]) / 1e6 if found else 0.0
    return 0.0
