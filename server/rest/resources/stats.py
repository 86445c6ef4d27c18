"""Statistics of the queue: waiting runs by tier, the use of pools and threads, and the throughput."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from duetime.scheduler.errors import StoreUnavailable
from duetime.scheduler.rules.time import times
from duetime.scheduler.task import Tier
from duetime.server.rest.resources.payloads import RestPayload
from duetime.widgets.formats.rows import present
from pydantic import Field

if TYPE_CHECKING:
    from duetime.scheduler.foresight.lateness import BacklogMonitor, BacklogReport
    from duetime.scheduler.history.work_report import Throughput
    from duetime.scheduler.queue import PoolUse, Stats
    from duetime.scheduler.queue.remote import RemoteQueue

NO_ANSWER_TEXTS: Final = {  # by `remote.NoAnswer`
    "nobody": "no process is running tasks, so there is no queue to query; start `duetime serve`",
    "starting": "no process is running tasks yet, and this one starts to; ask again in a moment",
    "away": "Redis does not answer, so the queue cannot be queried; due runs start when it is back. Check redis_url "
    "with `duetime config`, and that Redis is running; `duetime doctor` reports more",
    "empty": "the queue in Redis is empty; the first running `duetime worker` or `duetime serve` rebuilds it; "
    "start one, or ask again in a moment",
}


class PoolUsePayload(RestPayload):
    """The use of a pool: units `used`, `spent` in its window and `free`; runs `parked` on it, and until when."""

    capacity: float
    used: float
    spent: float
    free: float
    factor: float
    parked: int
    state: str
    until: str | None = None


class ThreadUsePayload(RestPayload):
    """The threads of a worker: `headroom` is kept for more urgent tiers, by rank.

    `withheld` are idle and start nothing, while the machine is short of memory or CPU.
    """

    total: int
    busy: int
    headroom: tuple[int, ...]
    preempted: int
    lost: int
    withheld: int = 0


class TierPayload(RestPayload):
    """A tier: how much waits in it, what is promised to it, and how long its oldest run has waited."""

    tier: Tier
    waiting: int
    share: float
    ceiling: float
    bound: int
    ready: int
    at_least: bool
    oldest_seconds: float
    patience_seconds: float
    late: bool


class WindowPayload(RestPayload):
    """Runs that became ready, started and ended in so many seconds."""

    seconds: float
    ready: int
    started: int
    ended: int


class ThroughputPayload(WindowPayload):
    """The throughput of five minutes, and of further windows."""

    windows: tuple[WindowPayload, ...]


class StatsPayload(RestPayload):
    """The queue as it is now."""

    schema_: Annotated[Literal["duetime.stats/1"], Field(alias="schema")] = "duetime.stats/1"
    waiting: dict[Tier, int]
    delayed: int
    parked: int
    leased: int
    policy: int = Field(default=0, description="the version of the policy in force, 0 for the default")
    pools: dict[str, PoolUsePayload]
    threads: dict[str, ThreadUsePayload]
    tiers: tuple[TierPayload, ...]
    throughput: ThroughputPayload


def read_stats(queue: RemoteQueue, backlog: BacklogMonitor) -> tuple[Stats, BacklogReport]:
    """Return what the queue and the database say. Raises StoreUnavailable when no process answers for the queue."""
    found, report = queue.stats(), backlog.report()
    if found is None:
        raise StoreUnavailable("; ".join((NO_ANSWER_TEXTS[queue.silence()], *report.late())))
    return found, report


def stats_payload(found: Stats, backlog: BacklogReport) -> StatsPayload:
    """Return statistics as an answer."""
    return StatsPayload.model_validate(stats_json(found, backlog))


def stats_json(found: Stats, backlog: BacklogReport) -> dict[str, Any]:
    """Return statistics as `docs/cli.md` calls `duetime.stats/1`."""
    return {
        "schema": "duetime.stats/1",
        **asdict(found),
        "waiting": dict(zip((tier.value for tier in Tier), found.waiting, strict=True)),
        "pools": {name: present({**asdict(use), "until": _utc(use)}) for name, use in shown_pools(found)},
        "tiers": list(tier_rows(found, backlog)),
        "throughput": {
            **_counts(backlog.throughput[:2][-1]),  # five minutes
            "windows": [_counts(window) for window in backlog.throughput],
        },
    }


def tier_rows(found: Stats, backlog: BacklogReport) -> Iterator[dict[str, Any]]:
    """Give a row for each tier, the most urgent first."""
    shares = backlog.shares
    for rank, (waiting, late) in enumerate(zip(found.waiting, backlog.tiers, strict=True), start=1):
        yield {
            "tier": late.tier.value,
            "waiting": waiting,
            "share": shares.guaranteed[rank - 1],
            "ceiling": shares.ceilings[rank - 1],
            "bound": shares.bound(rank),
            "ready": late.waiting,
            "at_least": late.at_least,
            "oldest_seconds": late.oldest.total_seconds(),
            "patience_seconds": late.patience.total_seconds(),
            "late": late.is_late,
        }


def shown_pools(found: Stats) -> Iterator[tuple[str, PoolUse]]:
    """Give the pools by name, without those that nobody declared and nothing needs now."""
    for name, use in sorted(found.pools.items()):
        if not name.startswith("duetime:") or use.used or use.parked:
            yield name, use


def until_of(use: PoolUse) -> datetime | None:
    """Return when the state of a pool ends, None when time alone does not end it."""
    return datetime.fromtimestamp(use.until / 1000, UTC) if use.until is not None else None


def _utc(use: PoolUse) -> str | None:
    return times.utc_or_none(until_of(use))


def _counts(found: Throughput) -> dict[str, float]:
    return {
        "seconds": found.window.total_seconds(),
        "ready": found.ready,
        "started": found.started,
        "ended": found.ended,
    }
