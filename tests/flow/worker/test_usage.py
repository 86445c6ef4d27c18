"""An attempt is charged for its use, and its pools hear of what it found out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

import pytest
from duetime.scheduler.errors import InvalidArgument, StoreUnavailable
from duetime.scheduler.events import EventKind
from duetime.scheduler.handlers import Context, Link
from duetime.scheduler.outcomes import Wait
from duetime.scheduler.queue import Finish, Report
from duetime.scheduler.run_records import Settlement
from duetime.scheduler.task import State
from duetime.scheduler.worker.usage import MAX_DURATIONS_KEPT, AttemptUsage, Durations

NEEDS = {"openai": 1, "tokens": 1000, "key:acme": 1}


class Stopwatch:
    """Seconds that pass when told."""

    def __init__(self) -> None:
        self.at = 100.0

    def __call__(self) -> float:
        return self.at


def ended(seconds: float = 0.25) -> AttemptUsage:
    """Return the account of an attempt that took so long."""
    watch = Stopwatch()
    usage = AttemptUsage(NEEDS, clock=watch)
    usage.begin()
    watch.at += seconds
    usage.end()
    return usage


def test_a_run_that_never_began_used_nothing_and_found_out_nothing() -> None:
    usage = AttemptUsage(NEEDS)
    usage.end()
    assert usage.charged("done") == {}
    assert usage.finish("r", "1.1", "yielded") == Finish("r", "1.1", {"openai": 0, "tokens": 0, "key:acme": 0})


def test_the_time_from_the_take_to_the_handler_is_reported_for_sliding_windows() -> None:
    watch = Stopwatch()
    usage = AttemptUsage(NEEDS, clock=watch, taken_at=99.5)
    watch.at += 0.25
    usage.begin()
    watch.at += 9
    usage.end()
    assert usage.finish("r", "1.1", "done").began_after == 750.0


def test_without_a_count_all_that_was_reserved_is_charged_but_keys_are_not_worth_a_row() -> None:
    usage = ended()
    assert usage.charged("done") == {"openai": 1.0, "tokens": 1000.0}
    assert usage.finish("r", "1.1", "done").used == {}


def test_counted_units_add_up_and_replace_the_reservation() -> None:
    usage = ended()
    usage.use("tokens", 300)
    usage.use("tokens", 512)
    assert usage.charged("done") == {"openai": 1.0, "tokens": 812}
    assert usage.finish("r", "1.1", "done").used == {"tokens": 812}


@pytest.mark.parametrize("outcome", ["wait", "cancelled"])
def test_an_attempt_that_gave_up_before_a_busy_pool_is_charged_only_what_it_counted(outcome: str) -> None:
    usage = ended()
    usage.busy("openai", 2000)
    assert usage.charged(outcome) == {}
    assert usage.finish("r", "1.1", outcome).used == {"openai": 0, "tokens": 0, "key:acme": 0}
    usage.use("tokens", 12)
    assert usage.charged(outcome) == {"tokens": 12}
    assert usage.finish("r", "1.1", outcome).used == {"openai": 0, "tokens": 12, "key:acme": 0}


@pytest.mark.parametrize("outcome", ["done", "retry", "failed", "yielded"])
def test_a_run_that_found_a_pool_busy_and_went_on_is_charged_what_it_had_reserved(outcome: str) -> None:
    usage = ended()
    usage.busy("openai", 2000)
    assert usage.charged(outcome) == {"openai": 1.0, "tokens": 1000.0}
    assert usage.finish("r", "1.1", outcome).used == {}


@pytest.mark.parametrize("outcome", ["retry", "wait", "failed"])
def test_a_run_that_ends_without_a_count_may_have_used_all_that_it_had(outcome: str) -> None:
    assert ended().charged(outcome) == {"openai": 1.0, "tokens": 1000.0}


@pytest.mark.parametrize("outcome", ["done", "failed", "wait"])
def test_every_end_of_its_own_but_a_retry_is_an_answer_of_its_pools(outcome: str) -> None:
    reports = ended(0.25).finish("r", "1.1", outcome).reports
    assert reports == tuple(Report(pool, latency=250) for pool in ("key:acme", "openai", "tokens"))


def test_a_retry_is_a_failure_of_its_pools() -> None:
    assert [report.ok for report in ended().finish("r", "1.1", "retry").reports] == [False] * 3


@pytest.mark.parametrize("outcome", ["cancelled", "lost", "yielded"])
def test_a_stopped_run_reports_nothing_of_its_pools(outcome: str) -> None:
    assert ended().finish("r", "1.1", outcome).reports == ()


def test_a_busy_pool_is_reported_as_that_whatever_the_outcome_and_the_longest_pause_counts() -> None:
    usage = ended()
    usage.busy("openai", 2000)
    usage.busy("openai", 500)
    report = Report("openai", ok=False, throttled=True, retry_after=2000)
    assert report in usage.finish("r", "1.1", "cancelled").reports
    assert report in usage.finish("r", "1.1", "done").reports


# What a handler says


def test_a_handler_counts_what_it_used_of_what_it_needs() -> None:
    usage = AttemptUsage(NEEDS)
    ctx = Context.for_test(needs=NEEDS, link=Link(use=usage.use))
    usage.begin()
    ctx.use("tokens", 12)
    ctx.use("tokens", 0.5)
    assert usage.charged("done")["tokens"] == 12.5


@pytest.mark.parametrize("units", [-1, 1e12 + 1, 1e308, float("nan"), float("inf")])
def test_an_amount_is_a_number_from_0_to_the_most_that_a_pool_has(units: float) -> None:
    with pytest.raises(InvalidArgument, match=r"is not an amount\. Accepted: a number from 0 to 1,000,000,000,000\. "):
        Context.for_test(needs=NEEDS).use("tokens", units)


def test_a_pool_that_the_run_does_not_need_is_refused_with_those_that_it_does() -> None:
    ctx = Context.for_test(needs={"tokens": 1})
    with pytest.raises(InvalidArgument, match="does not need 'openai'; it has reserved tokens"):
        ctx.use("openai", 1)
    with pytest.raises(InvalidArgument, match="does not need 'openai'"):
        ctx.throttled("openai")


def test_a_busy_provider_makes_a_wait_and_a_note() -> None:
    noted: list[tuple[str, float]] = []
    ctx = Context.for_test(needs=NEEDS, link=Link(busy=lambda pool, pause: noted.append((pool, pause))))
    five = timedelta(seconds=5)
    assert ctx.throttled("openai", five, checkpoint=[1]) == Wait(five, "openai is busy", [1])
    assert ctx.throttled("openai") == Wait(timedelta(seconds=1), "openai is busy")
    assert noted == [("openai", 5000.0), ("openai", 0.0)]
    with pytest.raises(InvalidArgument, match="is in the past"):
        ctx.throttled("openai", timedelta(seconds=-1))


# How long it took


class Shelf:
    """Stands where the store's estimates stand."""

    def __init__(self) -> None:
        self.taken: list[dict[tuple[str, str], list[float]]] = []
        self.down = False

    def __call__(self, found: Mapping[tuple[str, str], Sequence[float]]) -> None:
        if self.down:
            raise StoreUnavailable("the database is down")
        self.taken.append({of: list(seconds) for of, seconds in found.items()})


def settled(outcome: str) -> Settlement:
    return Settlement("r", 1, 1, to=State.SUCCEEDED, kind=EventKind.SUCCEEDED, outcome=outcome)


def test_only_successful_attempts_that_ran_teach_how_long_an_action_takes() -> None:
    shelf = Shelf()
    durations = Durations(shelf)
    for outcome in ("done", "retry", "failed", "wait", "cancelled"):
        durations.add("acme", "resize", ended(0.25), settled(outcome))
    durations.add("acme", "resize", AttemptUsage({}), settled("done"))
    durations.add("acme", "resize", ended(0.5), settled("done"))
    durations.add("other", "resize", ended(1.0), settled("done"))
    durations.flush()
    durations.flush()
    assert shelf.taken == [{("acme", "resize"): [0.25, 0.5], ("other", "resize"): [1.0]}, {}]


def test_usage_that_the_database_does_not_take_is_stored_later_in_order_and_within_a_bound() -> None:
    shelf = Shelf()
    durations = Durations(shelf)
    shelf.down = True
    for number in range(MAX_DURATIONS_KEPT):
        durations.add("acme", "resize", ended(float(number)), settled("done"))
        durations.flush()
    durations.add("acme", "resize", ended(7.0), settled("done"))
    durations.flush()
    shelf.down = False
    durations.flush()
    [found] = shelf.taken
    assert found[("acme", "resize")] == [*map(float, range(1, MAX_DURATIONS_KEPT)), 7.0]
