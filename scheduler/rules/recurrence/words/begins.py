"""The begin of a recurrence in words, which a caller says apart from the rule: `every monday starting february`."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.rules.time import times
from duetime.scheduler.rules.time.tokens import Misread, Tokens
from duetime.scheduler.rules.time.viewpoint import Frame

_EXCEPT: Final = re.compile(r",? (?=except\b|but not\b|excluding\b|apart from\b|other than\b)")


def begins(row: Tokens, start: datetime, calendar: str) -> Misread:
    """Return how a rule is given with its begin, whose first word was just taken; `start` is the local time now."""
    led = row.position - 1
    words, *exception = _EXCEPT.split(row.rest.removeprefix("on ").removeprefix("from "), maxsplit=1)
    rule = " ".join([row.until(led).removesuffix(" on").removesuffix(",").strip(), *exception])
    return Misread("the start of a recurrence is `when`", f"repeat={rule!r}, when={_begin(words, start, calendar)!r}")


def _begin(words: str, start: datetime, calendar: str) -> str:
    """Return words for a time, or what they are corrected to; for what is none, tomorrow."""
    try:
        times.resolve(words, now=start.replace(tzinfo=UTC), zone="UTC", frame=Frame(holidays=calendar))
    except times.NotUnderstood:
        return f"{start.date() + timedelta(days=1)}"
    except InvalidArgument as wrong:
        return wrong.example.partition(" or ")[0]
    return words
