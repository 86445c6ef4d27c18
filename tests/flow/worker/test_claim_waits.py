"""Calls of workers elsewhere that wait for a run: one of them looks for all, and only when a run may start."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from duetime.scheduler.worker.external.claim_waits import (
    ECHO_DELAY_S,
    EVENT_LOOK_INTERVAL_S,
    FALLBACK_LOOK_INTERVAL_S,
    MAX_LOOKS_IN_A_ROW,
    MAX_LOOKS_PER_SECOND,
    ClaimWait,
    ClaimWaits,
    WantedRuns,
)

from tests.contracts.event_log import Log

OURS, THEIRS = WantedRuns("acme", ("transcribe",)), WantedRuns("globex", ("transcribe",))


class Desk:
    """Waiting calls of two tenants on a clock of the test; `woken` has the numbers of those that were woken."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self.now = 100.0
        self.log = Log()
        self.waits = ClaimWaits(self.log, clock=lambda: self.now)
        self.woken: list[int] = []
        self.calls: list[ClaimWait] = []

    def wait(self, wanted: WantedRuns = OURS) -> ExitStack:
        """Let another call wait, until what is returned is closed."""
        number, one = len(self.calls), ExitStack()
        self._stack.enter_context(one)
        self.calls.append(one.enter_context(self.waits.of(wanted, lambda: self.woken.append(number))))
        return one

    def due(self) -> list[int]:
        """Return the numbers of the calls that are to look now."""
        return [number for number, call in enumerate(self.calls) if not call.seconds_left()]


@pytest.fixture
def desk() -> Iterator[Desk]:
    with ExitStack() as stack:
        yield Desk(stack)


def test_news_wakes_the_first_call_of_those_that_want_the_same_and_the_next_once_that_has_a_run(desk: Desk) -> None:
    first, *_ = [desk.wait() for _ in range(3)]
    desk.wait(THEIRS)
    assert desk.due() == []
    desk.waits.touched(["t_1"])
    assert (desk.woken, desk.due()) == ([0, 3], [0, 3])
    desk.calls[0].begin_look()
    desk.waits.expect(OURS, None, more=True)
    first.close()
    del desk.calls[0]
    assert desk.woken == [0, 3, 1]
    assert desk.due() == [0, 2], "the next one of ours looks, too: there may be more"
    desk.calls[0].begin_look()
    desk.waits.expect(OURS, None, more=False)
    assert desk.due() == [2]


def test_a_call_looks_when_its_last_look_said_that_a_run_is_due(desk: Desk) -> None:
    desk.wait()
    desk.waits.expect(OURS, 0.75, more=False)
    assert desk.calls[0].seconds_left() == 0.75
    desk.now += 0.75
    desk.calls[0].begin_look()
    assert desk.calls[0].seconds_left() == FALLBACK_LOOK_INTERVAL_S


def test_news_has_an_echo_as_an_event_may_precede_the_change_of_the_queue(desk: Desk) -> None:
    desk.wait()
    desk.waits.touched(["t_1"])
    desk.calls[0].begin_look()
    assert desk.calls[0].seconds_left() == pytest.approx(ECHO_DELAY_S)
    desk.now += ECHO_DELAY_S
    desk.calls[0].begin_look()
    assert desk.calls[0].seconds_left() == FALLBACK_LOOK_INTERVAL_S


def test_a_storm_of_changes_makes_a_bounded_number_of_looks(desk: Desk) -> None:
    desk.wait()
    looks, seconds = 0, 4
    for _ in range(seconds * 1000):
        desk.now += 0.001
        desk.waits.touched(["t_1"])
        if desk.due():
            desk.calls[0].begin_look()
            looks += 1
    assert looks <= MAX_LOOKS_IN_A_ROW + seconds * MAX_LOOKS_PER_SECOND
    assert looks >= seconds * MAX_LOOKS_PER_SECOND * 0.8


def test_a_change_of_another_process_is_found_by_one_look_at_the_events_for_all(desk: Desk) -> None:
    assert (desk.waits.step(), desk.log.reads) == (None, []), "nobody waits"
    for _ in range(20):
        desk.wait()
    assert desk.waits.step() == EVENT_LOOK_INTERVAL_S
    assert (len(desk.log.reads), desk.woken) == (1, [])
    desk.log.add(1)
    desk.waits.step()
    assert (len(desk.log.reads), desk.woken, desk.due()) == (2, [0], [0])
