"""Clashes: occurrences that need more of a pool at one time than it has. A pure estimate; the queue decides later.

Each occurrence holds its units from when it is due for as long as it probably takes. A run that would have to wait is
not moved: the clash is what there is to say.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

from duetime.scheduler.rules.limits.pool import Pool, PoolKind, find_pool

MAX_CLASHES = 10
"""Clashes that are named; there may be more."""


@dataclass(frozen=True, slots=True)
class BusySpan:
    """An occurrence on the clock: which one, the rank of its tier (1 to 5), and what it holds from start to end."""

    key: int
    rank: int
    needs: Mapping[str, int]
    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True)
class SharedPool:
    """A pool that cannot hold what some occurrences need of it, from `at` on; `keys` are theirs, the latest last."""

    pool: Pool
    name: str
    at: datetime
    keys: tuple[int, ...]


def clashes(spans: Sequence[BusySpan], pools: Mapping[str, Pool]) -> list[SharedPool]:
    """Return the first clashes by time."""
    by_pool: dict[str, list[BusySpan]] = {}
    for span in sorted(spans, key=lambda span: (span.start, span.key)):
        for name in span.needs:
            by_pool.setdefault(name, []).append(span)
    found = [
        SharedPool(pool, name, at, tuple(span.key for span in together))
        for name, needing in by_pool.items()
        if len(needing) > 1 and (pool := find_pool(pools, name))
        for at, together in islice(_short(pool, name, needing), MAX_CLASHES)
    ]
    return sorted(found, key=lambda clash: (clash.at, clash.name))[:MAX_CLASHES]


def _short(pool: Pool, name: str, needing: Sequence[BusySpan]) -> Iterator[tuple[datetime, Sequence[BusySpan]]]:
    """Yield those that a pool cannot hold together, in order of start, and from when on.

    Occurrences that join all of those before them are yielded once, together.
    """
    held, short, since = list[BusySpan](), tuple[BusySpan, ...](), needing[0].start
    for span in needing:
        held = [earlier for earlier in held if _still_counts(pool, earlier, span.start)]
        units = sum(earlier.needs[name] for earlier in held) + span.needs[name]
        if held and units > _room(pool, held[0].start, span):
            if short and short[-1].start != span.start and not _keys(short) <= _keys(held):
                yield since, short
                short = ()
            short, since = (*held, span), since if short else span.start
        held.append(span)
    if short:
        yield since, short


def _keys(spans: Sequence[BusySpan]) -> set[int]:
    return {span.key for span in spans}


def _still_counts(pool: Pool, earlier: BusySpan, at: datetime) -> bool:
    if pool.kind is PoolKind.BUDGET:
        return pool.window_starts(at, back_to=at)[0] <= earlier.start
    if pool.kind is PoolKind.RATE:
        return at - earlier.start < pool.period
    return earlier.end > at


def _room(pool: Pool, since: datetime, span: BusySpan) -> float:
    """Return what a pool has for a run and those before it, the first of which started at `since`."""
    if pool.kind is PoolKind.RATE and not pool.sliding:
        return pool.largest(span.rank) + pool.capacity * ((span.start - since) / pool.period)
    return pool.largest(span.rank, at=span.start)
