"""Words for all times of day: `every 15 minutes 24/7`, `around the clock every hour`."""

from __future__ import annotations

import re
from typing import Final

from duetime.scheduler.rules.recurrence.rule import SUB_DAILY, Rule
from duetime.scheduler.rules.time.tokens import Misread

_ALL_TIMES: Final = re.compile(
    r",? ?(?<![\w/])(?:24/7|24x7|a?round the clock|day and night)(?![\w/]),? ?", re.IGNORECASE
)


def without_all_times(text: str) -> str:
    """Return a recurrence without such words. Raises `Misread` for these alone, as they do not say how often."""
    rest = _ALL_TIMES.sub(" ", text).strip()
    if not rest and text.strip():
        raise Misread("it does not say how often", "every hour", "every 15 minutes")
    return rest


def check_all_times(text: str, rule: Rule) -> None:
    """Raise `Misread` for a rule that these words stand with, and that has times of day of its own."""
    if _ALL_TIMES.search(text) and (rule.freq not in SUB_DAILY or rule.hours or rule.times):
        raise Misread("it does not say how often", "every hour", "every 15 minutes")
