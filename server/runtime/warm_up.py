"""Loads what only a rare call needs, once a process serves: no caller waits for it then."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

WARM_UP_DELAY_S: Final = 10.0
"""Seconds after the start: the first calls, which need nothing of it, have the processor for themselves."""


def warm_up(*loads: Callable[[], None], delay_s: float = WARM_UP_DELAY_S) -> threading.Timer:
    """Call these after a delay, and load the reader of rare phrases, on a thread that the process ends without.

    The reader takes half a second of the processor, for which the first phrase that is not understood would wait.
    """
    timer = threading.Timer(delay_s, _load, args=[loads])
    timer.name, timer.daemon = "duetime-warm-up", True
    timer.start()
    return timer


def _load(loads: tuple[Callable[[], None], ...]) -> None:
    from duetime.scheduler.intake.translated_phrases import load_languages  # noqa: PLC0415 - the point of it all

    for load in (*loads, load_languages):
        load()
