"""The end of an attempt settles its run by a pure function: every outcome, with and without a next occurrence."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from duetime.scheduler.outcomes import Done, Failed, Retry, Wait, Yielded
from duetime.scheduler.rules.occurrences import MAX_MISSES_COUNTED
from duetime.scheduler.rules.settlement import AttemptResult, StoppedByRequest, settle, with_consequences
from duetime.scheduler.run_records import Claim, Settlement
from duetime.scheduler.task import RetryPolicy, State

from tests.builders import NOON, a_task


def a_claim(*, scheduled_for: datetime = NOON, run: dict[str, Any] | None = None, **task: Any) -> Claim:
    scheduled, first = a_task(scheduled_for, **task)
    running: dict[str, Any] = {"state": State.RUNNING, "attempt": 1, "started_at": NOON, "wake_at": None} | (run or {})
    return Claim(replace(first, **running), scheduled, "w")


def settled(claim: Claim, ending: AttemptResult, now: datetime = NOON, jitter: float = 0.5) -> Settlement:
    return settle(claim, ending, now=now, jitter=jitter)


def test_done_succeeds_with_a_message_and_a_delivery_to_every_channel_but_the_inbox() -> None:
    claim = a_claim(deliver_to=("inbox", "desktop", "webhook:ops"))
    end = settled(claim, Done("called", {"minutes": 3}))
    assert (end.to, end.outcome, end.summary, end.result) == (State.SUCCEEDED, "done", "called", {"minutes": 3})
    assert end.inbox is not None
    assert (end.inbox.user, end.inbox.text, end.inbox.state) == ("alice", "called", State.SUCCEEDED)
    assert [(d.channel, d.next_at) for d in end.deliveries] == [("desktop", NOON), ("webhook:ops", NOON)]
    assert not end.dead_letter


def test_a_retry_waits_for_its_jittered_backoff_and_counts() -> None:
    claim = a_claim(run={"failures": 2}, retry=RetryPolicy(max_attempts=9, backoff=timedelta(seconds=2)))
    end = settled(claim, Retry("no answer"), jitter=0.25)
    assert (end.to, end.failures, end.reason, end.inbox) == (State.RETRYING, 3, "no answer", None)
    assert end.wake_at == NOON + timedelta(seconds=16 * 0.25)


def test_the_last_retry_fails_and_leaves_a_dead_letter() -> None:
    claim = a_claim(run={"failures": 3}, retry=RetryPolicy(max_attempts=4))
    end = settled(claim, Retry("no answer"))
    assert (end.to, end.dead_letter, end.failures, end.error) == (State.FAILED, True, 4, "no answer")
    assert end.inbox is not None
    assert end.inbox.text == "no answer"
    assert end.deliveries


@pytest.mark.parametrize("failures", [0, 3])
def test_a_failed_attempt_keeps_what_it_gave_whether_or_not_another_follows(failures: int) -> None:
    claim = a_claim(run={"failures": failures}, retry=RetryPolicy(max_attempts=4))
    end = settled(claim, Retry("answered 503", result={"status": 503, "body": "try later"}))
    assert end.result == {"status": 503, "body": "try later"}


def test_failed_is_final_at_once() -> None:
    end = settled(a_claim(), Failed("no such number", {"code": 404}))
    assert (end.to, end.dead_letter, end.failures, end.result) == (State.FAILED, True, 1, {"code": 404})


@pytest.mark.parametrize(
    ("ending", "outcome", "wake_at"),
    [
        (Wait(timedelta(minutes=5), "not yet", {"page": 2}), "wait", NOON + timedelta(minutes=5)),
        (Wait(NOON + timedelta(hours=1), "not yet", {"page": 2}), "wait", NOON + timedelta(hours=1)),
        (Wait(NOON - timedelta(hours=1), "not yet", {"page": 2}), "wait", NOON),
        (Yielded({"page": 2}, "not yet"), "yielded", NOON),
    ],
)
def test_waiting_and_yielding_are_no_failures_and_keep_the_checkpoint(
    ending: AttemptResult, outcome: str, wake_at: datetime
) -> None:
    end = settled(a_claim(run={"failures": 1}), ending)
    assert (end.to, end.outcome, end.failures, end.wake_at) == (State.SUSPENDED, outcome, 1, wake_at)
    assert (end.reason, end.checkpoint, end.inbox) == ("not yet", {"page": 2}, None)


def test_a_cancelled_run_notifies_nobody_and_has_no_next_occurrence() -> None:
    end = settled(a_claim(repeat="FREQ=HOURLY"), StoppedByRequest())
    assert (end.to, end.outcome, end.inbox, end.next_run, end.deliveries) == (
        State.CANCELLED,
        "cancelled",
        None,
        None,
        (),
    )


@pytest.mark.parametrize("ending", [Retry("x"), Failed("x"), Wait(timedelta(1)), Yielded()])
def test_a_wish_to_cancel_wins_over_everything_but_done(ending: AttemptResult) -> None:
    claim = a_claim(repeat="FREQ=HOURLY", run={"cancel_requested": True})
    assert settled(claim, ending).to is State.CANCELLED
    done = settled(claim, Done("just made it"))
    assert (done.to, done.next_run) == (State.SUCCEEDED, None)


@pytest.mark.parametrize("ending", [Done(), Failed("x")])
def test_the_end_of_an_occurrence_brings_the_next_whether_it_succeeded_or_not(ending: AttemptResult) -> None:
    following = settled(a_claim(repeat="FREQ=HOURLY"), ending).next_run
    assert following is not None
    assert (following.scheduled_for, following.wake_at) == (NOON + timedelta(hours=1), NOON + timedelta(hours=1))
    assert (following.number, following.state, following.missed) == (2, State.SCHEDULED, 0)


def test_a_retry_does_not_bring_the_next_occurrence() -> None:
    assert settled(a_claim(repeat="FREQ=HOURLY"), Retry("x")).next_run is None


def test_an_occurrence_passed_over_is_counted_and_not_run() -> None:
    now = NOON + timedelta(hours=3, minutes=30)
    following = settled(a_claim(repeat="FREQ=HOURLY"), Done(), now).next_run
    assert following is not None
    assert (following.scheduled_for, following.missed) == (NOON + timedelta(hours=4), 3)


@pytest.mark.parametrize(("outage", "missed"), [(timedelta(minutes=10), 60), (timedelta(days=90), MAX_MISSES_COUNTED)])
def test_an_outage_of_a_series_of_seconds_is_counted_as_any_other(outage: timedelta, missed: int) -> None:
    now = NOON + outage + timedelta(seconds=3)
    following = settled(a_claim(repeat="FREQ=SECONDLY;INTERVAL=10"), Done(), now).next_run
    assert following is not None
    assert (following.scheduled_for, following.missed) == (NOON + outage + timedelta(seconds=10), missed)


def test_the_wall_time_is_kept_when_the_clocks_change() -> None:
    """New York's clocks go back on 1 November 2026: 9:00 is 13:00 UTC before it and 14:00 after."""
    saturday = datetime(2026, 10, 31, 13, tzinfo=UTC)
    claim = a_claim(scheduled_for=saturday, repeat="FREQ=DAILY", timezone="America/New_York")
    following = settled(claim, Done(), saturday).next_run
    assert following is not None
    assert following.scheduled_for == datetime(2026, 11, 1, 14, tzinfo=UTC)


@pytest.mark.parametrize("bound", [{"until": NOON + timedelta(minutes=59)}, {"max_runs": 1}], ids=["until", "max_runs"])
def test_there_is_no_occurrence_past_the_end(bound: dict[str, Any]) -> None:
    assert settled(a_claim(repeat="FREQ=HOURLY", **bound), Done()).next_run is None


def test_a_side_run_has_no_next_occurrence() -> None:
    assert settled(a_claim(repeat="FREQ=HOURLY", run={"current": False}), Done()).next_run is None


def test_a_late_run_says_so_and_names_what_it_stands_for() -> None:
    late = {"started_at": NOON + timedelta(hours=2), "missed": 2}
    end = settled(a_claim(run=late), Done("called"), NOON + timedelta(hours=2))
    assert end.inbox is not None
    assert end.inbox.text.startswith("called (late: was due Tue 24 Nov 2026")
    assert end.inbox.text.endswith("(2 earlier occurrences missed)")


def test_a_run_in_time_says_nothing_about_it() -> None:
    end = settled(a_claim(), Done("called"), NOON + timedelta(hours=2))
    assert end.inbox is not None
    assert end.inbox.text == "called"


def test_a_crash_that_ends_a_run_brings_message_deliveries_and_next_occurrence() -> None:
    claim = a_claim(repeat="FREQ=HOURLY")
    crash = replace(settled(claim, Failed("crash 3 of 3")), inbox=None, deliveries=(), next_run=None)
    end = with_consequences(claim, crash, now=NOON)
    assert end.inbox is not None
    assert end.inbox.text == "crash 3 of 3"
    assert end.deliveries
    assert end.next_run is not None
    again = settled(claim, Retry("crash 1 of 3"))
    assert with_consequences(claim, again, now=NOON) == again
