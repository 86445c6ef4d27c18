"""The options of a runner, apart from it: a process that only reads or schedules loads no worker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from duetime.scheduler.history.retention import KEEP_ALL, RetentionPolicy
from duetime.scheduler.rules.headroom import DEFAULT_HEADROOM, HeadroomRule
from duetime.scheduler.worker.machine_load import all_of_them


@dataclass(frozen=True, slots=True)
class RunnerOptions:
    """`lock` is the path of the lock file, in the folder of the database.

    It is created when missing, and never removed. `threads` is how many runs may run at once, and `lease` how long a
    claim is valid without a renewal. `grace` is how long running work may take to finish when the runner stops.
    `allowance` returns how many of the threads to use now, and `headroom` gives the parts that are reserved for urgent
    runs. `retention` says what is deleted when it is old, `decisions` how many takes are recorded a minute.
    """

    lock: Path
    threads: int = 16
    lease: timedelta = timedelta(seconds=30)
    grace: timedelta = timedelta(seconds=5)
    allowance: Callable[[int], int] = all_of_them
    headroom: HeadroomRule = DEFAULT_HEADROOM
    retention: RetentionPolicy = KEEP_ALL
    decisions: int = 0
