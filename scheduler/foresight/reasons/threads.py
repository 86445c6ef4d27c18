"""The threads of workers in words, behind the reason why a run waits for one."""

from __future__ import annotations

from duetime.scheduler.queue import ThreadUse
from duetime.scheduler.task import Tier


def threads_in_use(threads: ThreadUse | None, tier: Tier) -> str:
    """Describe how many threads are busy, and how many of the others are reserved for more urgent tiers."""
    if threads is None:
        return ""
    kept = threads.headroom[tier.rank - 1]
    whom = "critical" if kept == threads.headroom[Tier.HIGH.rank - 1] else "critical and high"
    keeping = f", {kept} {'is' if kept == 1 else 'are'} reserved for {whom} runs" if kept else ""
    return f"; {threads.busy} of {threads.total} threads are busy{keeping}{_withheld(threads)}"


def _withheld(threads: ThreadUse) -> str:
    stay = "stays" if threads.withheld == 1 else "stay"
    return f", {threads.withheld} {stay} idle while the machine is short of memory or CPU" if threads.withheld else ""
