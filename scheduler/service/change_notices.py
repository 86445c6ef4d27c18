"""The callbacks that changes of tasks notify, which all collaborators of the service share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass


def _ignore(_ids: Sequence[str]) -> None:
    """Notify nobody."""


@dataclass(frozen=True, slots=True)
class ChangeNotices:
    """Callbacks after a change, and `via`, the way of calls that name none.

    `recall` gets the ids of runs that the queue must not start any more, `on_change` those of changed tasks.
    """

    recall: Callable[[Sequence[str]], None] = _ignore
    on_change: Callable[[Sequence[str]], None] = _ignore
    via: str | None = None
