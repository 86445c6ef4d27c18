"""Metrics of the whole installation, which every server answers alike: read at a scrape, and kept a moment."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from duetime.scheduler.nodes.heartbeat import WORKER_STATES
from duetime.scheduler.queue import PoolUse, Stats
from duetime.scheduler.queue.reports import sum_thread_use
from duetime.scheduler.task import State, Tier
from duetime.server.telemetry.installation import InstallationState
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

POOL_STATES: Final = ("admitting", "stopped", "tripped", "probing", "closed")
HELD_BY: Final = {"admitting": "short", "stopped": "stopped", "tripped": "breaker", "probing": "breaker"}
"""Why runs are held by a pool in each of its states; `closed` otherwise."""

_TIERS: Final = sorted(Tier, key=lambda tier: tier.rank)
QUEUE_PLACES: Final = ("waiting", "delayed", "parked", "leased")


class InstallationMetrics(Collector):
    """Turns the state of the installation into metrics; `pool` makes labels of the names of pools."""

    def __init__(self, state: Callable[[], InstallationState], pool: Callable[[str], str]) -> None:
        self._state = state
        self._pool = pool

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield every metric, without a sample where its part of the state is unknown."""
        state = self._state()
        yield from _of_tiers(state)
        yield _depth(state)
        yield _disk(state)
        yield from _of_queue(state.stats)
        yield from self._of_pools(state.stats)
        yield from _of_workers(state)

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """Return the metrics without samples, for the registry; makes no request."""
        empty = InstallationState()
        return [
            *_of_tiers(empty),
            _depth(empty),
            _disk(empty),
            *_of_queue(None),
            *self._of_pools(None),
            *_of_workers(empty),
        ]

    def _of_pools(self, stats: Stats | None) -> Iterator[GaugeMetricFamily]:
        capacity = _gauge("pool_capacity_units", "Units that a pool has now.", "pool")
        reserved = _gauge("pool_units_in_use", "Units that runs hold now; of a rate, units taken from it.", "pool")
        spent = _gauge("pool_spent_units", "Units spent in the window of a budget or a rate.", "pool")
        free = _gauge("pool_free_units", "Units that a run could reserve now.", "pool")
        throttle = _gauge("pool_throttle_ratio", "Part of its capacity that a pool admits, 1 unless throttled.", "pool")
        held = _gauge("held_runs", "Runs that a pool holds up now, by the reason.", "pool", "reason")
        states = _gauge(
            "pool_state", "1 for the state that a pool is in; tripped: its breaker is open.", "pool", "state"
        )
        totals: dict[str, dict[str, float]] = {}
        for name, use in (stats.pools if stats else {}).items():
            _add_pool(totals.setdefault(self._pool(name), defaultdict(float)), use)
        for pool, total in sorted(totals.items()):
            for gauge, key in ((capacity, "capacity"), (reserved, "used"), (spent, "spent"), (free, "free")):
                gauge.add_metric((pool,), total[key])
            throttle.add_metric((pool,), total["factor"] / total["members"])
            for state in POOL_STATES:
                states.add_metric((pool, state), total[f"state {state}"])
            for reason in sorted({*HELD_BY.values(), "closed"}):
                held.add_metric((pool, reason), total[f"held {reason}"])
        return iter((capacity, reserved, spent, free, throttle, held, states))


def _gauge(name: str, text: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"duetime_{name}", text, labels=labels)


def _add_pool(total: dict[str, float], use: PoolUse) -> None:
    """Add up the pools of one label: those of a template, or all `other` ones."""
    parts = {"capacity": use.capacity, "used": use.used, "spent": use.spent, "free": use.free, "factor": use.factor}
    for key, value in {**parts, "members": 1}.items():
        total[key] += value
    total[f"state {use.state}"] += 1
    total[f"held {HELD_BY.get(use.state, 'closed')}"] += use.parked


def _of_tiers(state: InstallationState) -> Iterator[GaugeMetricFamily]:
    ready = _gauge("ready_runs", "Runs that are ready, or due and not ready yet.", "tier")
    oldest = _gauge("oldest_ready_seconds", "How long the oldest of them has waited.", "tier")
    patience = _gauge("patience_seconds", "How long a run of a tier may wait before it is late.", "tier")
    starvation = _gauge(
        "starvation_index", "Wait of the oldest ready run by the tier's patience; above 1: late.", "tier"
    )
    bound = _gauge("tier_bound_dispatches", "Dispatches within which a late tier is served, under any load.", "tier")
    for each in state.lateness:
        ready.add_metric((each.tier,), each.waiting)
        oldest.add_metric((each.tier,), each.oldest.total_seconds())
        patience.add_metric((each.tier,), each.patience.total_seconds())
        starvation.add_metric((each.tier,), each.oldest / each.patience)
    for tier in _TIERS:
        bound.add_metric((tier,), state.shares.bound(tier.rank))
    return iter((ready, oldest, patience, starvation, bound))


def _depth(state: InstallationState) -> GaugeMetricFamily:
    found = _gauge(
        "open_runs",
        "Open runs of tasks that are not paused, up to 10,000 with a timer and without.",
        *("state", "tier"),
    )
    for run_state in _OPEN if state.database_s is not None else ():
        for tier in _TIERS:
            found.add_metric((run_state, tier), state.open_runs.get((run_state, tier), 0))
    return found


def _disk(state: InstallationState) -> GaugeMetricFamily:
    found = _gauge("database_disk_used_ratio", "Used part of the volume that holds a SQLite file.")
    if state.disk_used is not None:
        found.add_metric((), state.disk_used)
    return found


_OPEN: Final = (State.SCHEDULED, State.WAITING, State.READY, State.RUNNING, State.SUSPENDED, State.RETRYING)


def _of_queue(stats: Stats | None) -> Iterator[GaugeMetricFamily]:
    places = _gauge("queue_runs", "Runs in the queue, by their place.", "place")
    waiting = _gauge("queue_waiting_runs", "Runs that wait in the queue for a thread.", "tier")
    if stats is not None:
        counts = (sum(stats.waiting), stats.delayed, stats.parked, stats.leased)
        for place, count in zip(QUEUE_PLACES, counts, strict=True):
            places.add_metric((place,), count)
        for tier, count in zip(_TIERS, stats.waiting, strict=True):
            waiting.add_metric((tier,), count)
    return iter((places, waiting))


def _of_workers(state: InstallationState) -> Iterator[GaugeMetricFamily]:
    workers = _gauge("workers", "Worker processes of a shared installation.", "state")
    threads = _gauge("worker_threads", "Threads of all workers.", "use")
    for name in WORKER_STATES if state.workers else ():
        workers.add_metric((name,), state.workers[name])
    use = sum_thread_use(state.stats.threads.values()) if state.stats else None
    if use is not None:
        kinds = {"total": use.total, "busy": use.busy, "lost": use.lost, "withheld": use.withheld}
        for kind, count in kinds.items():
            threads.add_metric((kind,), count)
    return iter((workers, threads))
