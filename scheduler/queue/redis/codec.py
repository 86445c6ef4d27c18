"""Encodes the types of the port as arguments of the Lua scripts, and decodes their replies."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any
from urllib.parse import quote, unquote

from duetime.scheduler.queue.constants import MAX_HOLDERS_SHOWN
from duetime.scheduler.queue.lanes import KnownActions
from duetime.scheduler.queue.port import Entry, Finish, Grant, Take
from duetime.scheduler.queue.reports import Explanation, PoolUse, Shortage, Stats, ThreadUse, Why, sum_thread_use
from duetime.scheduler.rules.policies.decision import Contender, Look, PoolSeen
from duetime.scheduler.rules.shares import TIER_COUNT

_POOL = re.compile(r"[^\s,=]+")
_NEED = re.compile(r"(?<![^,])([^,=]+)=([0-9]{1,15})(?![^,])")
"""A need in the name of a class; as in the scripts, what has another form is none."""

_TOTALS_COLUMNS = TIER_COUNT + 3
_CLASS_COLUMNS = 3
_USE_COLUMNS = 8
_THREADS_COLUMNS = 6 + TIER_COUNT


def class_of(entry: Entry) -> str:
    """Return the name of the class of a run: tier, tenant, action and needs, as in `3|acme|resize|gpu=1,tpm=600`.

    A tenant whose run goes by its deadline has a `!` before its name.
    """
    needs = _written(tuple(sorted(entry.needs.items()))) if entry.needs else ""
    tenant = _turn(entry.tenant, entry.by_deadline) if entry.tenant else ""
    return f"{entry.tier}|{tenant}|{written_action(entry.action)}|{needs}"


@lru_cache(4096)
def _turn(tenant: str, by_deadline: bool) -> str:
    return ("!" if by_deadline else "") + quote(tenant, safe="")


@lru_cache(4096)
def written_action(action: str) -> str:
    """Return an action as keys and names of classes have it."""
    return quote(action, safe="")


def actions_word(actions: KnownActions) -> str:
    """Return the actions that a worker has, each between commas; `*` for all."""
    return "*" if actions is None else f",{','.join(map(written_action, actions))},"


@lru_cache(4096)
def _written(needs: tuple[tuple[str, int], ...]) -> str:
    for pool, units in needs:
        if not _POOL.fullmatch(pool) or units < 1:
            raise ValueError(
                f"needs has {pool!r}: {units}, but takes names of pools without spaces, commas and =, "
                'and whole units from 1, for example {"gpu": 1}'
            )
    return ",".join(f"{pool}={units}" for pool, units in needs)


@lru_cache(4096)
def _read(written: str) -> tuple[tuple[str, int], ...]:
    return tuple((pool, int(units)) for pool, units in _NEED.findall(written))


def needs_of(name: str) -> dict[str, int]:
    """Return the needs of the runs of a class."""
    return dict(_read(name.rpartition("|")[2]))


def entry_words(entry: Entry) -> tuple[str | float, ...]:
    if "\n" in entry.run_id:
        raise ValueError(f"run_id is {entry.run_id!r}, but takes one line, for example 'run_01'")
    return (entry.run_id, class_of(entry), entry.key, entry.created, entry.delay)


def finish_words(ended: Finish) -> Iterator[str | float]:
    yield from (ended.run_id, ended.token, ended.began_after, len(ended.used))
    for use in ended.used.items():
        yield from use
    yield len(ended.reports)
    for report in ended.reports:
        yield from (report.pool, int(report.ok), int(report.throttled), report.retry_after, report.latency)


def grants_of(words: Sequence[str]) -> tuple[Grant, ...]:
    triples = zip(words[::3], words[1::3], words[2::3], strict=True)
    return tuple(Grant(run_id, token, needs_of(name)) for run_id, token, name in triples)


def look_of(fields: Sequence[Any]) -> Look:
    """Return a look that `lua/leases/decisions.lua` recorded, as yet without the headroom."""
    at, policy, idle, owed, room, heads, tier, run, pools, out_of_turn = fields
    return Look(
        float(at),
        int(policy),
        int(idle),
        tuple(map(float, owed)),
        tuple(map(float, room)),
        tuple(_contender(head) if head else None for head in heads),
        int(tier),
        _contender(run),
        tuple(PoolSeen(name, units, float(free) if free else None, why) for name, units, free, why in pools),
        out_of_turn=out_of_turn == 1,
    )


def _contender(words: Sequence[str]) -> Contender:
    run_id, key, name = words
    turn = name.split("|", 2)[1]
    return Contender(run_id, float(key), unquote(turn.removeprefix("!")), turn.startswith("!"))


def with_headroom(taken: Take, threads: ThreadUse | None) -> Take:
    """Return a take whose looks have the headroom that its worker reported."""
    if threads is None or not taken.looks:
        return taken
    return replace(taken, looks=tuple(replace(look, headroom=threads.headroom) for look in taken.looks))


def shortage_of(words: Sequence[str]) -> Shortage | None:
    if not words:
        return None
    pool, why, needed, free, capacity, helped_at, held_for, requested, *holders = words
    return Shortage(
        pool,
        Why(why),
        float(needed),
        float(free),
        float(capacity),
        helped_at=float(helped_at) if helped_at else None,
        holders=tuple(sorted(holders)[:MAX_HOLDERS_SHOWN]),
        held_for=held_for or None,
        requested=int(requested) == 1,
    )


def explanation_of(words: Sequence[str]) -> Explanation | None:
    if not words:
        return None
    status, ahead, worker, not_before, *more = words
    later = float(not_before) if not_before else None
    end = 2 + int(more[1]) if more else 0
    threads = sum_thread_use(threads_of(more[end:]).values())
    others_first = more[:1] == ["1"]
    return Explanation(status, int(ahead), shortage_of(more[2:end]), worker or None, later, threads, others_first)


def threads_words(threads: ThreadUse | None) -> tuple[int, ...]:
    if threads is None:
        return ()
    return (threads.total, threads.busy, threads.preempted, *threads.headroom, threads.lost, threads.withheld)


def threads_of(words: Sequence[str]) -> dict[str, ThreadUse]:
    """Return the threads by worker."""
    rows = ((name, [int(word) for word in numbers]) for name, *numbers in _rows(words, _THREADS_COLUMNS))
    return {
        name: ThreadUse(total, busy, tuple(kept), gave_way, lost, withheld)
        for name, (total, busy, gave_way, *kept, lost, withheld) in rows
    }


def stats_of(
    classes: Iterable[Sequence[str]], pools: Iterable[Sequence[str]], threads: Mapping[str, ThreadUse]
) -> Stats:
    """Add up the pages of the script `stats`: parked classes, and pools."""
    parked_by_tier, parked_by_pool = [0] * TIER_COUNT, dict[str, int]()
    totals: list[int] = []
    for page in classes:
        totals = [int(word) for word in page[:_TOTALS_COLUMNS]]
        for tier, pool, runs in _rows(page[_TOTALS_COLUMNS:], _CLASS_COLUMNS):
            parked_by_tier[int(tier) - 1] += int(runs)
            parked_by_pool[pool] = parked_by_pool.get(pool, 0) + int(runs)
    waiting = tuple(ready - aside for ready, aside in zip(totals[:TIER_COUNT], parked_by_tier, strict=True))
    uses = (row for page in pools for row in _rows(page[_TOTALS_COLUMNS:], _USE_COLUMNS))
    delayed, leased, policy = totals[TIER_COUNT:]
    return Stats(waiting, delayed, sum(parked_by_tier), leased, _uses(uses, parked_by_pool), threads, policy)


def _uses(rows: Iterable[Sequence[str]], parked_by_pool: Mapping[str, int]) -> dict[str, PoolUse]:
    return {row[0]: _use(row, parked_by_pool.get(row[0], 0)) for row in rows}


def _use(row: Sequence[str], parked: int) -> PoolUse:
    _, capacity, used, spent, free, factor, state, until = row
    ends = float(until) if until else None
    return PoolUse(float(capacity), float(used), float(spent), float(free), float(factor), parked, state, ends)


def _rows(words: Sequence[str], width: int) -> Iterator[Sequence[str]]:
    return (words[start : start + width] for start in range(0, len(words), width))
