"""Identifiers: short where people and models type them. Names, not capabilities."""

from __future__ import annotations

import os
import random
import secrets
import time
from collections.abc import Iterable

MAX_NAMED_RUNS = 5
MAX_ID_CHARS = 64

ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
"""Crockford's base 32 in lower case: no i, l, o or u."""

_PAIRS = [first + second for first in ALPHABET for second in ALPHABET]
DRY_RUN_ID = "dry-run"
"""Stands where an id would be in the answer to a dry run, which stores nothing; it cannot be one."""

CHAIN_PREFIX = "c_"
RUN_PREFIX = "r_"
_TASK_ID_CHARS = 12
_SHARED_CHARS = 2

# Seeded by the system, and again in each child. A system call for each id would release the interpreter every time.
_random = random.Random()  # nosec B311 # noqa: S311 - ids are names, not secrets
if hasattr(os, "register_at_fork"):  # Windows has no forks
    os.register_at_fork(after_in_child=_random.seed)


def new_task_id(sibling_id: str | None = None) -> str:
    """Return `t_` and 12 letters: 60 random bits, so that a typing error hardly ever names another task.

    An id with a `sibling_id` begins with its first two letters. So tasks of one call share the pages of each index by
    tasks, and a database writes half as many pages.
    """
    begin = "t_" if sibling_id is None else sibling_id[: len("t_") + _SHARED_CHARS]
    left = len("t_") + _TASK_ID_CHARS - len(begin)
    return f"{begin}{_letters(secrets.randbits(5 * left), left)}"


def new_chain_id() -> str:
    """Return `c_` and 12 letters, like the id of a task."""
    return f"{CHAIN_PREFIX}{_letters(secrets.randbits(5 * _TASK_ID_CHARS), _TASK_ID_CHARS)}"


def is_chain_id(text: str) -> bool:
    """Whether a text names a chain, if it names anything."""
    return text.startswith(CHAIN_PREFIX)


def is_run_id(text: str) -> bool:
    """Whether a text names a run, if it names anything."""
    return text.startswith(RUN_PREFIX)


def new_id(prefix: str) -> str:
    """Return `prefix`, `_` and 20 letters that sort by the millisecond of making; unique without asking anyone."""
    return f"{prefix}_{_letters(time.time_ns() // 1_000_000 << 55 | _random.getrandbits(55), 20)}"


def _letters(number: int, count: int) -> str:
    """Write a number in an even count of letters, two at a time."""
    return "".join([_PAIRS[(number >> shift) & 1023] for shift in range(5 * (count - 2), -1, -10)])


def is_id(text: str) -> bool:
    """Whether a text can be an id at all; any other names nothing, and no database has to look for it."""
    return len(text) <= MAX_ID_CHARS and text.isascii() and text.isprintable()


def runs_words(run_ids: Iterable[str]) -> str:
    """Return `1 run (r_1)` or `7 runs (r_1, r_2, r_3, r_4, r_5 and others)`, for logs."""
    named = list(run_ids)
    shown = ", ".join(named[:MAX_NAMED_RUNS]) + (" and others" if len(named) > MAX_NAMED_RUNS else "")
    return f"{len(named)} run{'s' if len(named) != 1 else ''} ({shown})"
