"""Learned estimates: read by key, cached with a bound, and read again in the background."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from duetime.scheduler.dispatch.learned_estimates import ESTIMATE_FRESH_S, ESTIMATE_USABLE_S, LearnedEstimates
from duetime.scheduler.errors import StoreUnavailable
from duetime.scheduler.store import Store, open_store
from sqlalchemy import event

from tests import blank

ACME, GLOBEX = "acme", "globex"
DECLARED = timedelta(seconds=7)
SLOW, SLOWER = [100.0] * 10, [1000.0] * 2000


@dataclass
class House:
    """One process's cache over a store; `asked` are the statements that read estimates, `later` what others will do."""

    store: Store
    at_s: float = 0.0
    asked: list[tuple[str, Any]] = field(default_factory=list)
    later: list[Callable[[], None]] = field(default_factory=list)

    def cache(self, **options: Any) -> LearnedEstimates:
        return LearnedEstimates(self.store, clock=lambda: self.at_s, soon=self.later.append, **options)

    def run_later(self) -> None:
        for work in self.later:
            work()
        self.later.clear()


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    blank.make(tmp_path / "duetime.db")
    store = open_store(f"sqlite:///{tmp_path}/duetime.db", synchronous="OFF")
    made = House(store)
    store.estimates.add({(tenant, action): SLOW for tenant in (ACME, GLOBEX) for action in ("a", "b", "c")})

    def note(_connection: object, _cursor: object, sql: str, values: Any, *_: object) -> None:
        if sql.startswith("SELECT") and "FROM estimates" in sql:
            made.asked.append((sql, values))

    event.listen(store._database.engine, "before_cursor_execute", note)
    yield made
    store.close()


def seconds(found: Any) -> float:
    return float(round(found.p50.total_seconds(), -1))


def test_a_call_reads_the_one_row_that_it_needs(house: House) -> None:
    cache = house.cache()
    assert seconds(cache.estimate(ACME, "a", DECLARED)) == pytest.approx(100, rel=0.2)
    [(sql, values)] = house.asked
    assert "WHERE" in sql
    assert list(values) == [ACME, "a"]


def test_a_caller_with_an_estimate_of_its_own_reads_nothing(house: House) -> None:
    assert house.cache().estimate(ACME, "a", DECLARED, timedelta(seconds=3)).p50 == timedelta(seconds=3)
    assert house.asked == []


def test_a_missing_estimate_is_remembered_too(house: House) -> None:
    cache = house.cache()
    for _ in range(3):
        assert cache.estimate(ACME, "unknown", DECLARED).p50 == DECLARED
    assert len(house.asked) == 1


def test_an_ageing_answer_is_read_again_in_the_background(house: House) -> None:
    cache = house.cache()
    for action in ("a", "b"):
        cache.estimate(ACME, action, None)
    house.store.estimates.add({(ACME, "a"): SLOWER})
    house.asked.clear()
    house.at_s += ESTIMATE_FRESH_S + 1
    for action in ("a", "a", "b"):
        assert seconds(cache.estimate(ACME, action, None)) == pytest.approx(100, rel=0.2)
    assert (house.asked, len(house.later)) == ([], 1)
    house.run_later()
    assert seconds(cache.estimate(ACME, "a", None)) == pytest.approx(1000, rel=0.2)
    assert (len(house.asked), house.later) == (1, [])


def test_a_process_that_can_start_no_thread_now_reads_again_with_a_later_call(house: House) -> None:
    refused = ["can't start new thread"]

    def soon(work: Callable[[], None]) -> None:
        if refused:
            raise RuntimeError(refused.pop())
        house.later.append(work)

    cache = LearnedEstimates(house.store, clock=lambda: house.at_s, soon=soon)
    before = cache.estimate(ACME, "a", None)
    house.at_s += ESTIMATE_FRESH_S + 1
    assert cache.estimate(ACME, "a", None) == before
    assert not house.later
    cache.estimate(ACME, "a", None)
    assert len(house.later) == 1


def test_an_answer_of_long_ago_is_read_by_the_caller(house: House) -> None:
    cache = house.cache()
    cache.estimate(ACME, "a", None)
    house.store.estimates.add({(ACME, "a"): SLOWER})
    house.at_s += ESTIMATE_USABLE_S + 1
    assert seconds(cache.estimate(ACME, "a", None)) == pytest.approx(1000, rel=0.2)


def test_a_cache_forgets_what_was_not_asked_for_longest(house: House) -> None:
    cache = house.cache(max_cached=2)
    for action in ("a", "b", "a", "c", "a"):
        cache.estimate(ACME, action, None)
    assert [values[1] for _, values in house.asked] == ["a", "b", "c"]
    cache.estimate(ACME, "b", None)
    assert len(house.asked) == 4


def test_a_batch_is_read_by_one_statement(house: House) -> None:
    cache = house.cache()
    keys = [(tenant, action) for tenant in (ACME, GLOBEX) for action in ("a", "b", "c")]
    cache.prefetch([*keys, *keys])
    for tenant, action in keys:
        assert seconds(cache.estimate(tenant, action, None)) == pytest.approx(100, rel=0.2)
    cache.prefetch(keys)
    assert len(house.asked) == 1


def test_without_a_database_the_last_answer_counts(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = house.cache()
    cache.estimate(ACME, "a", None)

    def away(_keys: object) -> Any:
        raise StoreUnavailable("away")

    monkeypatch.setattr(house.store.estimates, "get", away)
    house.at_s += ESTIMATE_USABLE_S + 1
    assert seconds(cache.estimate(ACME, "a", None)) == pytest.approx(100, rel=0.2)
    assert cache.estimate(ACME, "never read", DECLARED).p50 == DECLARED
