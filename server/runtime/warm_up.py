"""Loads what only a rare call needs, once a process serves: no caller waits for it then."""

from __future__ import annotations

import threading
from typing import Final

WARM_UP_DELAY_S: Final = 10.0
"""Seconds after the start: the first calls, which need nothing of it, have the processor for themselves."""


def warm_up(delay_s: float = WARM_UP_DELAY_S) -> threading.Timer:
    """Load the reader of rare phrases after a delay, on a thread that the end of the process does not wait for.

    It takes half a second of the processor, for which the first phrase that is not understood would wait.
    """
    timer = threading.Timer(delay_s, _load)
    timer.name, timer.daemon = "duetime-warm-up", True
    timer.start()
    return timer


def _load() -> None:
    from duetime.scheduler.intake.translated_phrases import load_languages  # noqa: PLC0415 - the point of it all

    load_languages()
