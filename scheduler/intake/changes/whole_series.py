"""Moves of a whole series: what is wrong with a call that moves none."""

from __future__ import annotations

from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.reschedule.reschedule import Reschedule


def moves_no_series(request: Reschedule, *, recurs: bool) -> InvalidArgument:
    """Return what is wrong with `all_following` of a task that does not recur, without `when`, or with a new rule."""
    example = "when='17:30', all_following=true"
    if not recurs or request.repeat is not None:
        when = "" if request.when is None and request.repeat is not None else f"when={str(request.when or '17:30')!r}, "
        example = f"{when}all_following=false"
    return InvalidArgument(
        "all_following",
        "it moves the series of a recurring task to the time of `when`",
        accepted="`when`, without `repeat`, of a task that recurs",
        example=example,
    )
