"""Calls of workers elsewhere that wait for a run: one of them looks for all, and only when a run may start."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any, cast

import pytest
from duetime.scheduler.errors import StoreUnavailable
from duetime.scheduler.principal import LOCAL
from duetime.scheduler.task import State
from duetime.scheduler.worker.external.claim_waits import (
    ECHO_DELAY_S,
    EVENT_LOOK_INTERVAL_S,
    FALLBACK_LOOK_INTERVAL_S,
    MAX_CHANGES_BY_TENANT,
    MAX_LOOKS_IN_A_ROW,
    MAX_LOOKS_PER_SECOND,
    MIN_READ_INTERVAL_S,
    ClaimWait,
    ClaimWaits,
    WantedRuns,
)
from duetime.tools.definition import Sender
from duetime.tools.worker.claim_runs import CLAIM_RUNS, ClaimRuns

from tests.contracts.event_log import Log

OURS, THEIRS = WantedRuns("acme", ("transcribe",)), WantedRuns("globex", ("transcribe",))
OF_ALL = WantedRuns(None, ("transcribe",))


class Desk:
    """Waiting calls of two tenants on a clock of the test; `woken` has the numbers of those that were woken."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self.now = 100.0
        self.log = Log()
        self.log.owners = {"t_ours": "acme", "t_theirs": "globex"}
        self.waits = ClaimWaits(self.log, clock=lambda: self.now)
        self.woken: list[int] = []
        self.calls: list[ClaimWait] = []

    def wait(self, wanted: WantedRuns = OURS) -> ExitStack:
        """Let another call wait, until what is returned is closed."""
        number, one = len(self.calls), ExitStack()
        self._stack.enter_context(one)
        self.calls.append(one.enter_context(self.waits.of(wanted, lambda: self.woken.append(number))))
        return one

    def step(self) -> list[int]:
        """Let the loop read what has changed; return the numbers of the calls that it woke."""
        self.now += MIN_READ_INTERVAL_S
        before = len(self.woken)
        self.waits.step()
        return self.woken[before:]

    def touch(self, *task_ids: str) -> list[int]:
        """Change tasks in this process; return the numbers of the calls that were woken."""
        self.waits.touched(task_ids)
        return self.step()

    def due(self) -> list[int]:
        """Return the numbers of the calls that are to look now."""
        return [number for number, call in enumerate(self.calls) if not call.seconds_left()]


@pytest.fixture
def desk() -> Iterator[Desk]:
    with ExitStack() as stack:
        yield Desk(stack)


def test_news_wakes_the_first_call_of_those_that_want_the_same_and_the_next_once_that_has_a_run(desk: Desk) -> None:
    first, *_ = [desk.wait() for _ in range(3)]
    assert desk.due() == []
    assert desk.touch("t_ours") == [0]
    assert desk.due() == [0]
    desk.calls[0].begin_look()
    desk.waits.expect(OURS, None, more=True)
    first.close()
    del desk.calls[0]
    assert desk.woken == [0, 1]
    assert desk.due() == [0], "the next one looks, too: there may be more"
    desk.calls[0].begin_look()
    desk.waits.expect(OURS, None, more=False)
    assert desk.due() == []


def test_a_change_wakes_the_calls_of_its_tenant_and_of_operators(desk: Desk) -> None:
    for wanted in (OURS, THEIRS, OF_ALL):
        desk.wait(wanted)
    assert desk.touch("t_theirs") == [1, 2]
    assert desk.touch("t_deleted") == []
    desk.log.add(1, tenant="acme")
    assert desk.step() == [0, 2]
    desk.log.add(2, tenant="initech")
    assert desk.step() == [2]


def test_the_end_of_an_attempt_of_any_tenant_wakes_all_as_it_may_free_a_pool(desk: Desk) -> None:
    for wanted in (OURS, THEIRS):
        desk.wait(wanted)
    desk.step()
    desk.log.add(1, tenant="initech", before=State.RUNNING)
    assert desk.step() == [0, 1]


def test_so_many_changes_wake_all_that_their_tenants_are_not_read(desk: Desk) -> None:
    for wanted in (OURS, THEIRS):
        desk.wait(wanted)
    assert desk.touch(*[f"t_{number}" for number in range(MAX_CHANGES_BY_TENANT)]) == []
    assert desk.touch(*[f"t_{number}" for number in range(MAX_CHANGES_BY_TENANT + 1)]) == [0, 1]


def test_a_change_whose_tenant_cannot_be_read_is_read_again(desk: Desk) -> None:
    desk.wait()
    desk.step()
    desk.log.owner_outages = [StoreUnavailable("the database is away")] * 2
    assert (desk.touch("t_ours"), desk.step()) == ([], [])
    assert desk.step() == [0]


def test_a_look_that_fails_leaves_its_news_to_the_next_call(desk: Desk) -> None:
    calls = [desk.wait() for _ in range(2)]
    desk.touch("t_ours")
    desk.now += ECHO_DELAY_S
    desk.calls[0].begin_look()
    failure = StoreUnavailable("the database is away")
    calls[0].__exit__(StoreUnavailable, failure, None)
    del desk.calls[0]
    assert desk.woken == [0, 1]
    assert desk.calls[0].seconds_left() == pytest.approx(ECHO_DELAY_S)


def test_a_call_that_fails_behind_another_one_makes_that_look_no_sooner(desk: Desk) -> None:
    calls = [desk.wait() for _ in range(2)]
    calls[1].__exit__(StoreUnavailable, StoreUnavailable("the database is away"), None)
    assert desk.calls[0].seconds_left() == FALLBACK_LOOK_INTERVAL_S


def test_a_call_looks_when_its_last_look_said_that_a_run_is_due(desk: Desk) -> None:
    desk.wait()
    desk.waits.expect(OURS, 0.75, more=False)
    assert desk.calls[0].seconds_left() == 0.75
    desk.now += 0.75
    desk.calls[0].begin_look()
    assert desk.calls[0].seconds_left() == FALLBACK_LOOK_INTERVAL_S


def test_news_has_an_echo_as_an_event_may_precede_the_change_of_the_queue(desk: Desk) -> None:
    desk.wait()
    desk.touch("t_ours")
    desk.calls[0].begin_look()
    assert desk.calls[0].seconds_left() == pytest.approx(ECHO_DELAY_S)
    desk.now += ECHO_DELAY_S
    desk.calls[0].begin_look()
    assert desk.calls[0].seconds_left() == FALLBACK_LOOK_INTERVAL_S


def test_a_storm_of_changes_makes_a_bounded_number_of_looks_and_reads(desk: Desk) -> None:
    desk.wait()
    looks, seconds = 0, 4
    for _ in range(seconds * 1000):
        desk.now += 0.001
        desk.waits.touched(["t_ours"])
        desk.waits.step()
        if desk.due():
            desk.calls[0].begin_look()
            looks += 1
    assert looks <= MAX_LOOKS_IN_A_ROW + seconds * MAX_LOOKS_PER_SECOND
    assert looks >= seconds * MAX_LOOKS_PER_SECOND * 0.8
    assert len(desk.log.reads) <= seconds / MIN_READ_INTERVAL_S + 1


def test_a_change_of_another_process_is_found_by_one_look_at_the_events_for_all(desk: Desk) -> None:
    assert (desk.waits.step(), desk.log.reads) == (None, []), "nobody waits"
    for _ in range(20):
        desk.wait()
    assert desk.waits.step() == EVENT_LOOK_INTERVAL_S
    assert (len(desk.log.reads), desk.woken) == (1, [])
    desk.log.add(1, tenant="acme")
    assert desk.step() == [0]
    assert (len(desk.log.reads), desk.due()) == (2, [0])


def sent(desk: Desk, claim: Callable[[], list[Any]]) -> Sender:
    """Return the caller of a tool whose looks `claim` answers."""
    runs = SimpleNamespace(waits=desk.waits, claim=lambda *_given, **_named: claim(), wanted=lambda *_, **__: OURS)
    return Sender(cast("Any", SimpleNamespace(external_runs=runs)), LOCAL, {})


def claimed(desk: Desk, claim: Callable[[], list[Any]]) -> Any:
    """Return the claims of a call that waits for a second."""
    call = ClaimRuns(wait=1)
    asyncio.run(cast("Any", CLAIM_RUNS.before_answer)(call, sent(desk, claim)))
    return call.claimed


def test_a_run_of_another_process_that_comes_due_during_the_first_look_is_found_at_once(desk: Desk) -> None:
    looks = 0

    def claim() -> list[Any]:
        nonlocal looks
        looks += 1
        if looks == 1:
            desk.log.add(1, tenant="acme")
            desk.step()
            return []
        return ["a run"]

    assert (claimed(desk, claim), looks) == (["a run"], 2)


def test_a_look_whose_place_among_the_events_cannot_be_read_is_made_all_the_same(desk: Desk) -> None:
    desk.log.outages = [StoreUnavailable("the database is away")]
    assert claimed(desk, lambda: ["a run"]) == ["a run"]


def test_a_call_that_does_not_wait_claims_once_and_follows_no_events(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, claims = list[str](), list[str]()
    monkeypatch.setattr(desk.waits.loop, "wake", lambda: begun.append("loop"))

    def claim() -> list[Any]:
        claims.append("a look")
        return []

    sender = sent(desk, claim)
    assert CLAIM_RUNS.before_answer is not None
    for wait, loops in ((None, []), (0.001, ["loop"])):
        claims.clear()
        asyncio.run(cast("Any", CLAIM_RUNS.before_answer)(ClaimRuns(wait=wait), sender))
        assert (len(claims), begun) == (1, loops)
