"""Fail points: named steps at which tests crash a process, to prove that no run is lost between them.

`hit` does nothing unless DUETIME_TEST_FAILPOINT names a step and a failure, such as "put:kill" (the first time),
"put:kill:3" (the third), "claimed:raise", "settled:hang:8" (seconds) or "taken:segfault". In production the variable is
not set, and a step costs one look-up and one empty call.
"""

from __future__ import annotations

import itertools
import logging
import os
import signal
import time
from collections.abc import Callable
from enum import StrEnum

from duetime.scheduler.errors import InvalidSetting

FAILPOINT_VARIABLE = "DUETIME_TEST_FAILPOINT"


class Step(StrEnum):
    """Steps at which a process may be stopped, in the order in which a run passes them."""

    SCHEDULED = "scheduled"
    """A schedule call has committed; no loop has been woken."""
    MADE_READY = "made_ready"
    """Due runs are ready in the database, and not yet in the queue."""
    PUT = "put"
    """They are in the queue."""
    TAKEN = "taken"
    """The queue has leased runs to this worker; the database holds nothing of it."""
    CLAIMED = "claimed"
    """The database has started them; no handler has."""
    HANDLED = "handled"
    """A handler has had its effect; nothing says so yet."""
    SETTLED = "settled"
    """The database has the outcome; the queue still holds the lease and the pools."""
    FINISHED = "finished"
    """The queue has released the run; no listener has been notified."""


class FailPoint(Exception):
    """The exception that the fail point "<step>:raise" raises."""


log = logging.getLogger(__name__)


def _pass(step: Step) -> None:
    """Do nothing, as in production."""


def armed(spec: str | None) -> Callable[[Step], None]:
    """Return the function for `hit` from the value of DUETIME_TEST_FAILPOINT; raises `InvalidSetting`."""
    if not spec:
        return _pass
    name, _, rest = spec.partition(":")
    action, _, number = rest.partition(":")
    if name not in set(Step) or action not in _ACTIONS or not (number or "1").isdecimal():
        raise InvalidSetting(
            f"{FAILPOINT_VARIABLE}: {spec!r} is not a fail point. Accepted: <step>:<action> and "
            f"<step>:<action>:<number>, with a step of {', '.join(Step)} and an action of {', '.join(_ACTIONS)}. "
            "Example: put:kill:3"
        )
    return _trap(Step(name), action, int(number or "1"))


def _trap(step: Step, action: str, number: int) -> Callable[[Step], None]:
    times = itertools.count(1)  # next() on it is atomic, so that only one thread is the third
    due = 1 if action == "hang" else number

    def hit(reached: Step) -> None:
        if reached is step and next(times) == due:
            log.critical("fail point %s: %s", step, action)
            _ACTIONS[action](number)

    return hit


def _kill(_number: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _segfault(_number: int) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def _raise(_number: int) -> None:
    raise FailPoint("as DUETIME_TEST_FAILPOINT asked for")


_ACTIONS: dict[str, Callable[[int], None]] = {"kill": _kill, "raise": _raise, "hang": time.sleep, "segfault": _segfault}

hit: Callable[[Step], None] = armed(os.environ.get(FAILPOINT_VARIABLE))
"""Reach a step; callers look it up in this module each time."""
