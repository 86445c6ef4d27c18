"""Lists of ids in parts that one statement can take, whatever limits of parameters its database has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

MAX_IDS_BOUND = 1_000
"""Ids that one statement gets: SQLite takes 32,766 parameters, and some waits are stored under five ids."""

T = TypeVar("T")


def chunks(ids: Sequence[T], size: int = MAX_IDS_BOUND) -> Iterator[Sequence[T]]:
    """Yield the ids in their order, `size` at a time; nothing where there are none."""
    for begin in range(0, len(ids), size):
        yield ids[begin : begin + size]
