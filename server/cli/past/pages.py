"""Pages of the history: whoever waits at a terminal wants rows, not cursors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

MAX_SHORT_PAGES: Final = 200
"""Pages that are read for one full one: two million runs are compared then, and the rest is another command."""

_OF_END: Final = ("cursor", "searched_to")
"""Values of a page that say where it ends."""

PageJson = dict[str, Any]
ReadPage = Callable[[int, str | None], PageJson]
"""Reads a page of so many rows at most, behind a cursor or from the beginning."""


class PagePlace(NamedTuple):
    """A page: how many rows, and behind which place."""

    limit: int
    cursor: str | None


def full_page(read: ReadPage, rows: str, at: PagePlace) -> PageJson:
    """Return a page of `rows` that is short only at the end."""
    found = read(at.limit, at.cursor)
    for _ in range(MAX_SHORT_PAGES):
        if found.get("cursor") is None or len(found[rows]) >= at.limit:
            break
        following = read(at.limit - len(found[rows]), found["cursor"])
        known = {name: value for name, value in found.items() if name not in _OF_END}
        found = {**known, **following, rows: [*found[rows], *following[rows]]}
    return found
