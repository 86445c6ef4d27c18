"""A generation of a chain that failed: it is shown, and runs again next to the generation to come."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from duetime.scheduler.errors import Refused
from duetime.scheduler.events import EventFilter, EventKind
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.quotas import TenantQuotas
from duetime.scheduler.request import StepArguments
from duetime.scheduler.run_records import Claim, Start
from duetime.scheduler.service.fan_out import FanOut
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.task import Run, State
from duetime.scheduler.views import TaskFilter
from duetime.widgets.payload import task_payload
from duetime.widgets.text.task_text import task_text

from tests.builders import LEASE, Clock, runs_of, settlement

ROWS = {"type": "object", "required": ["rows"]}
STEPS: list[StepArguments] = [
    {"name": "fetch"},
    {"name": "load", "after": ["fetch"]},
    {"name": "mail", "after": ["load"]},
    {"name": "clean", "after": ["load"], "after_failure": "run_anyway"},
]
Way = Callable[[Scheduler, str, str], object]
WAYS: dict[str, Way] = {
    "a replay of the chain": lambda scheduler, chain_id, _: scheduler.bulk.change("replay", [chain_id]),
    "a replay of the step": lambda scheduler, _, step_id: scheduler.bulk.change("replay", [step_id]),
    "run now of the chain": lambda scheduler, chain_id, _: scheduler.act(chain_id, "run_now"),
    "run now of the step": lambda scheduler, _, step_id: scheduler.act(step_id, "run_now"),
    "a replay of the dead letter": lambda scheduler, *_: scheduler.letters.replay(letters(scheduler)),
    "a replay by filter": lambda scheduler, *_: scheduler.bulk.change("replay", expect=1),
}


def letters(scheduler: Scheduler) -> list[str]:
    """Return the runs with open dead letters."""
    return [letter.run_id for letter in scheduler.letters.page()[0]]


class Daily:
    """A chain that recurs each day at 13:00, with the ids of its steps, when its first generation is due."""

    def __init__(self, store: Store, clock: Clock, steps: list[StepArguments] = STEPS, **more: Any) -> None:
        planner = Planner(Handlers.load(entry_points=False), "UTC", upstreams=store.dependencies.known)
        self.scheduler, self.store, self.clock = Scheduler(store, planner), store, clock
        self.planner = planner
        view = self.scheduler.schedule("Report", repeat="every day at 13:00", steps=steps, **more)
        assert view.chain
        self.id = view.chain.id
        self.steps = {step.name: step.task_id for step in view.chain.steps}
        clock.at = view.record.run.scheduled_for

    def start(self, name: str, *, again: bool = True) -> Claim:
        """Start the due run of a step: that of a replay, if it runs `again`, where there is one."""
        self.store.claims.make_ready(limit=1_000)
        record = self.store.tasks.get("local", self.steps[name])
        run = next(iter(record.side_runs if again else ()), record.run)
        [claim] = self.store.claims.start([Start(run.id)], worker="w1", epoch=None, lease=LEASE)
        return claim

    def end(self, name: str, to: State = State.SUCCEEDED, *, again: bool = True, **values: Any) -> None:
        self.store.claims.settle([settlement(self.start(name, again=again), to, **values)])

    def fail(self, name: str = "fetch") -> None:
        self.end(name, State.FAILED, error="HTTP 503", dead_letter=True)

    def runs(self, name: str, number: int = 1) -> list[Run]:
        """Return the runs of a step in one generation, in their order."""
        found = [run for run in runs_of(self.store, self.steps[name]) if run.number == number]
        return sorted(found, key=lambda run: (run.scheduled_for, run.generation))

    def states(self, name: str, number: int = 1) -> list[State]:
        return [run.state for run in self.runs(name, number)]

    def to_come(self) -> list[Run]:
        return [run for name in self.steps for run in self.runs(name, number=2)]


@pytest.fixture
def failed(store: Store, clock: Clock) -> Daily:
    """Return a chain whose first generation failed ten minutes ago."""
    chain = Daily(store, clock)
    chain.fail()
    chain.end("clean")
    clock.forward(minutes=10)
    return chain


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_failed_step_runs_again_with_what_had_ended_with_it_next_to_the_generation_to_come(
    failed: Daily, way: Way
) -> None:
    before, [first] = failed.to_come(), failed.runs("fetch")
    way(failed.scheduler, failed.id, failed.steps["fetch"])
    again = failed.runs("fetch")[-1]
    assert (again.repeats, again.current, again.scheduled_for) == (first.id, False, failed.clock())
    assert letters(failed.scheduler) == []

    failed.end("fetch")
    assert failed.states("load") == [State.FAILED, State.SCHEDULED]
    assert failed.states("mail") == [State.FAILED]
    failed.end("load")
    failed.end("mail")
    assert failed.states("mail") == [State.FAILED, State.SUCCEEDED]
    assert failed.states("clean") == [State.SUCCEEDED], "it had run"
    assert failed.to_come() == before
    with pytest.raises(Refused, match=f"no step of {failed.id} has failed"):
        failed.scheduler.act(failed.id, "run_now")


def test_a_replay_that_fails_as_well_can_be_replayed_once_more(failed: Daily) -> None:
    failed.scheduler.act(failed.id, "run_now")
    failed.fail()
    assert len(letters(failed.scheduler)) == 1
    failed.scheduler.act(failed.id, "run_now")
    failed.end("fetch")
    assert failed.states("load") == [State.FAILED, State.SCHEDULED]


def test_an_older_dead_letter_is_replayed_in_its_own_generation(failed: Daily) -> None:
    [letter] = letters(failed.scheduler)
    failed.clock.at = failed.runs("fetch", number=2)[0].scheduled_for
    for name in STEPS:
        failed.end(name["name"])
    before = failed.runs("fetch", number=3)
    tried = failed.scheduler.letters.replay([letter], dry_run=True)
    assert [closed.run_id for closed in tried.closed] == [letter], "a dry run says what the call will do"
    failed.scheduler.letters.replay([letter])
    failed.end("fetch")
    failed.end("load")
    assert failed.states("load") == [State.FAILED, State.SUCCEEDED]
    assert failed.states("load", number=2) == [State.SUCCEEDED]
    assert failed.runs("fetch", number=3) == before


@pytest.mark.parametrize("state", [State.FAILED, State.SUCCEEDED])
def test_an_older_dead_letter_leaves_a_step_that_has_ended_in_the_generation_under_way(
    failed: Daily, state: State
) -> None:
    [letter] = letters(failed.scheduler)
    failed.clock.at = failed.runs("fetch", number=2)[0].scheduled_for
    failed.end("fetch", state, dead_letter=state is State.FAILED)
    before, newer = failed.to_come(), letters(failed.scheduler)[: state is State.FAILED]
    [replayed] = failed.scheduler.letters.replay([letter]).closed
    assert replayed.next_at is None
    assert (failed.to_come(), letters(failed.scheduler)) == (before, newer)
    failed.end("fetch")
    assert failed.states("load") == [State.FAILED, State.SCHEDULED]
    assert failed.runs("fetch", number=2) == before[:1]


@pytest.mark.parametrize("way", ["a replay of the chain", "run now of the chain"])
def test_a_replay_of_a_chain_is_of_its_last_generation_though_an_older_one_has_a_dead_letter(
    failed: Daily, way: str
) -> None:
    [older] = letters(failed.scheduler)
    failed.clock.at = failed.runs("fetch", number=2)[0].scheduled_for
    failed.fail()
    failed.end("clean")
    [newer] = {*letters(failed.scheduler)} - {older}
    failed.scheduler.letters.discard([newer], reason="it is known")
    failed.clock.forward(minutes=10)
    WAYS[way](failed.scheduler, failed.id, failed.steps["fetch"])
    assert [run.repeats for run in failed.runs("fetch", number=2)] == [None, newer]
    assert letters(failed.scheduler) == [older]


def test_the_undo_of_a_replay_brings_the_dead_letter_back(failed: Daily) -> None:
    before = letters(failed.scheduler)
    undo = failed.scheduler.act(failed.id, "run_now").undo
    failed.scheduler.act(failed.id, "undo", undo=undo)
    assert failed.states("fetch") == [State.FAILED, State.CANCELLED]
    assert letters(failed.scheduler) == before


def test_the_generation_to_come_goes_on_while_a_replay_runs(failed: Daily) -> None:
    failed.scheduler.act(failed.id, "run_now")
    replayed = failed.start("fetch")
    failed.clock.at = failed.runs("fetch", number=2)[0].scheduled_for
    failed.store.claims.recover_lapsed(epoch=None, held=[replayed.run.id], before=failed.clock())
    for name in STEPS:
        failed.end(name["name"], again=False)
    assert [run.state for run in failed.to_come()] == [State.SUCCEEDED] * 4
    assert failed.states("fetch", number=3) == [State.SCHEDULED]
    failed.store.claims.settle([settlement(replayed)])
    assert failed.states("load", number=3) == [State.WAITING]


def test_the_end_of_a_replay_decides_nothing_in_the_generation_to_come(failed: Daily) -> None:
    failed.scheduler.act(failed.id, "run_now")
    failed.end("fetch")
    assert failed.states("load", number=2) == [State.WAITING]


@pytest.mark.parametrize("replay_first", [True, False])
def test_tasks_of_a_replay_and_of_the_run_of_its_generation_are_all_stored_where_both_end_at_once(
    failed: Daily, *, replay_first: bool
) -> None:
    failed.scheduler.act(failed.id, "run_now")
    replay = failed.start("fetch")
    failed.clock.at = failed.runs("fetch", number=2)[0].scheduled_for
    failed.store.claims.recover_lapsed(epoch=None, held=[replay.run.id], before=failed.clock())
    run = failed.start("fetch", again=False)
    fan_out = FanOut(failed.store, failed.planner, TenantQuotas())
    spawned = {name: tuple(fan_out.plan(run.task, [{"name": name}])) for name in ("again", "whole")}
    ends = [settlement(replay, spawned=spawned["again"]), settlement(run, spawned=spawned["whole"])]
    failed.store.claims.settle(ends if replay_first else ends[::-1])
    for _, item in (*spawned["again"], *spawned["whole"]):
        assert failed.store.tasks.get("local", item.task.id).run.state is State.SCHEDULED
    chain = failed.scheduler.get(failed.id).chain
    assert chain
    assert {step.name for step in chain.steps} == {*failed.steps, "fetch/whole"}
    assert failed.states("load", number=2) == [State.WAITING], "it waits for what the run of its generation spawned"


def test_a_cancel_of_the_chain_cancels_its_replays(failed: Daily) -> None:
    failed.scheduler.act(failed.id, "run_now")
    failed.scheduler.cancel(failed.id)
    assert failed.states("fetch") == [State.FAILED, State.CANCELLED]


def test_a_replayed_step_reads_the_results_of_its_own_generation(failed: Daily) -> None:
    failed.scheduler.act(failed.id, "run_now")
    failed.end("fetch", result=1)
    replayed = failed.runs("load")[-1]
    failed.clock.at = failed.runs("fetch", number=2)[0].scheduled_for
    failed.end("fetch", result=2)
    read, load = failed.store.dependencies.results, failed.steps["load"]
    assert read("local", load, replayed) == {"fetch": 1}
    assert read("local", load, failed.runs("load", number=2)[0]) == {"fetch": 2}


def test_a_step_goes_on_when_every_step_before_it_has_run_again(store: Store, clock: Clock) -> None:
    steps: list[StepArguments] = [{"name": "left"}, {"name": "right"}, {"name": "load", "after": ["left", "right"]}]
    chain = Daily(store, clock, steps)
    chain.fail("left")
    chain.fail("right")
    chain.scheduler.act(chain.id, "run_now")
    chain.end("left")
    assert chain.states("load") == [State.FAILED]
    chain.end("right")
    assert chain.states("load") == [State.FAILED, State.SCHEDULED]


def test_a_step_that_ran_again_within_its_generation_holds_no_replay_of_it(store: Store, clock: Clock) -> None:
    steps: list[StepArguments] = [{"name": "left"}, {"name": "right"}, {"name": "load", "after": ["left", "right"]}]
    chain = Daily(store, clock, steps)
    chain.fail("left")
    chain.scheduler.act(chain.steps["left"], "run_now")
    chain.end("left", result=1)
    chain.fail("right")
    before = chain.to_come()
    chain.scheduler.act(chain.id, "run_now")
    chain.end("right", result=2)
    assert chain.states("load")[-1] is State.SCHEDULED
    assert store.dependencies.results("local", chain.steps["load"], chain.runs("load")[-1]) == {"left": 1, "right": 2}
    assert chain.to_come() == before


ASKS: StepArguments = {"name": "load", "after": ["fetch"], "approval": {"question": "Load?", "by": "2 hours"}}
WAITS: StepArguments = {"name": "load", "after": ["fetch"], "wait_for": {"event": "rows", "timeout": "2 hours"}}


def replayed(chain: Daily) -> None:
    """Let the first step fail, and its replay succeed; what follows it is due."""
    chain.fail()
    chain.scheduler.act(chain.id, "run_now")
    chain.end("fetch")
    chain.store.claims.make_ready(limit=1_000)


def test_a_step_that_asks_is_asked_for_again_behind_a_replay_and_goes_by_the_answer(store: Store, clock: Clock) -> None:
    chain = Daily(store, clock, [{"name": "fetch"}, ASKS, {"name": "mail", "after": ["load"]}])
    replayed(chain)
    before = chain.to_come()
    assert chain.states("load") == [State.FAILED, State.WAITING]
    chain.scheduler.approve(chain.steps["load"])
    chain.end("load")
    assert (chain.states("load")[-1], chain.states("mail")[-1]) == (State.SUCCEEDED, State.SCHEDULED)
    assert chain.to_come() == before


@pytest.mark.parametrize("by_default", [False, True])
def test_a_no_skips_the_replayed_step_with_what_comes_after_it_and_leaves_the_generation_to_come(
    store: Store, clock: Clock, *, by_default: bool
) -> None:
    chain = Daily(store, clock, [{"name": "fetch"}, ASKS, {"name": "mail", "after": ["load"]}])
    replayed(chain)
    before = chain.to_come()
    if by_default:
        clock.forward(hours=3)
        assert store.approvals.expire(limit=9)
    else:
        chain.scheduler.act(chain.steps["load"], "reject", reason="too late")
    assert chain.states("load") == [State.FAILED, State.SKIPPED]
    assert chain.states("mail") == [State.FAILED]
    assert chain.to_come() == before
    [ended] = [run for run in chain.runs("load") if run.state is State.SKIPPED]
    assert ended.summary
    assert ("nobody answered" if by_default else "too late") in ended.summary


def test_a_failed_step_that_asks_is_replayed_once_it_is_approved_again(store: Store, clock: Clock) -> None:
    chain = Daily(store, clock, [{"name": "fetch"}, ASKS])
    chain.end("fetch")
    store.claims.make_ready(limit=1_000)
    chain.scheduler.approve(chain.steps["load"])
    chain.fail("load")
    chain.scheduler.act(chain.steps["load"], "run_now")
    store.claims.make_ready(limit=1_000)
    assert chain.states("load") == [State.FAILED, State.WAITING]
    chain.scheduler.approve(chain.id)
    chain.end("load")
    assert chain.states("load") == [State.FAILED, State.SUCCEEDED]


def test_a_step_that_waits_for_an_event_waits_again_behind_a_replay(store: Store, clock: Clock) -> None:
    chain = Daily(store, clock, [{"name": "fetch"}, WAITS])
    replayed(chain)
    before = chain.to_come()
    assert chain.states("load") == [State.FAILED, State.WAITING]
    assert chain.scheduler.signals.send("rows").freed == 1
    chain.end("load")
    assert chain.states("load") == [State.FAILED, State.SUCCEEDED]
    assert chain.to_come() == before


def test_a_replayed_step_whose_event_does_not_come_in_time_expires(store: Store, clock: Clock) -> None:
    chain = Daily(store, clock, [{"name": "fetch"}, WAITS, {"name": "mail", "after": ["load"]}])
    replayed(chain)
    clock.forward(hours=3)
    store.signals.end_late(limit=9)
    assert chain.states("load") == [State.FAILED, State.EXPIRED]
    assert chain.states("mail") == [State.FAILED]


def test_a_replayed_step_takes_an_event_of_its_lookback(store: Store, clock: Clock) -> None:
    waits: StepArguments = {"name": "fetch", "wait_for": {"event": "rows", "timeout": "2 hours", "lookback": "1 hour"}}
    chain = Daily(store, clock, [waits])
    store.claims.make_ready(limit=1_000)
    chain.scheduler.signals.send("rows")
    chain.fail()
    clock.forward(minutes=10)
    chain.scheduler.signals.send("rows")
    clock.forward(minutes=10)
    chain.scheduler.act(chain.steps["fetch"], "run_now")
    store.claims.make_ready(limit=1_000)
    chain.end("fetch")
    assert chain.states("fetch") == [State.FAILED, State.SUCCEEDED]
    found = chain.scheduler.past.events(EventFilter(task_id=chain.steps["fetch"], kind=EventKind.UNBLOCKED)).events
    [why] = [event.reason or "" for event in found if event.run_id == chain.runs("fetch")[-1].id]
    assert "the event 'rows' came" in why


@pytest.mark.parametrize("step", [ASKS, WAITS], ids=["asks", "waits"])
def test_a_cancel_of_the_chain_ends_a_replay_that_waits_and_its_undo_lets_it_wait_again(
    store: Store, clock: Clock, step: StepArguments
) -> None:
    chain = Daily(store, clock, [{"name": "fetch"}, step])
    replayed(chain)
    undo = chain.scheduler.cancel(chain.id).undo
    assert chain.states("load") == [State.FAILED, State.CANCELLED]
    assert State.WAITING not in {message.state for message in chain.scheduler.inbox.unread()}, (
        "its question is withdrawn"
    )
    chain.scheduler.act(chain.id, "undo", undo=undo)
    store.claims.make_ready(limit=1_000)
    assert chain.states("load") == [State.FAILED, State.CANCELLED, State.WAITING]


@pytest.mark.parametrize("asked", [{}, {"approval": {"question": "Load?", "by": "2 hours"}}], ids=["plain", "asks"])
def test_a_step_that_was_skipped_after_its_failure_runs_now_in_the_generation_to_come(
    store: Store, clock: Clock, asked: StepArguments
) -> None:
    check: StepArguments = {"name": "check", "approval": {"question": "Checked?", "by": "2 hours"}}
    load: StepArguments = {"name": "load", "after": ["fetch", "check"], **asked}
    chain = Daily(store, clock, [{"name": "fetch"}, check, load])
    chain.fail()
    chain.scheduler.act(chain.steps["fetch"], "run_now")
    chain.end("fetch")
    store.claims.make_ready(limit=1_000)
    chain.scheduler.act(chain.steps["check"], "reject")

    record = chain.scheduler.act(chain.steps["load"], "run_now").record
    assert (record.run.state, record.run.number, record.side_runs) == (State.SCHEDULED, 2, ())
    assert (record.run.scheduled_for, record.run.repeats) == (clock(), None)


def test_a_step_that_got_an_invalid_result_goes_on_when_the_step_before_it_has_run_again(
    store: Store, clock: Clock
) -> None:
    steps: list[StepArguments] = [{"name": "fetch"}, {"name": "load", "after": ["fetch"], "valid_output": ROWS}]
    chain = Daily(store, clock, steps)
    chain.end("fetch", result="no rows")
    for result, states in (("none", [State.FAILED]), ({"rows": 3}, [State.FAILED, State.SCHEDULED])):
        chain.scheduler.act(chain.id, "run_now")
        chain.end("fetch", result=result)
        assert chain.states("load") == states


def test_a_chain_shows_how_its_last_generation_failed(failed: Daily) -> None:
    view, reasons = failed.scheduler.explain(failed.id)
    why = "fetch failed: HTTP 503 (3 of 4 steps failed)"
    assert reasons[-1] == f"its last generation failed: {why}"
    payload = task_payload(failed.scheduler.get(failed.id))
    assert payload.last_run
    assert (payload.last_run.state, payload.last_run.summary) == (State.FAILED, why)
    said = task_text(payload)
    assert f"Last run failed «{why}»." in said
    assert f'change_tasks(change="replay", task_ids=["{failed.id}"]) runs again what failed;' in said

    view = failed.scheduler.act(failed.id, "run_now")
    assert [note for note in view.warnings if note.startswith("fetch: it also runs ")]
    for name in ("fetch", "load", "mail"):
        failed.end(name)
    payload = task_payload(failed.scheduler.get(failed.id))
    assert payload.last_run
    assert (payload.last_run.state, payload.last_run.summary) == (State.SUCCEEDED, None)
    assert "runs again what failed" not in task_text(payload)


def test_a_discard_of_a_chain_closes_the_dead_letters_of_its_last_generation(failed: Daily) -> None:
    failed.scheduler.bulk.change("discard", [failed.id], reason="the CRM was down")
    assert letters(failed.scheduler) == []


def test_a_snooze_brings_the_outcome_of_a_step_again_and_leaves_the_generation_to_come(
    store: Store, clock: Clock
) -> None:
    chain = Daily(store, clock, [{"name": "tell"}])
    chain.end("tell")
    clock.forward(minutes=1)
    before = chain.to_come()
    view = chain.scheduler.act(chain.steps["tell"], "snooze", minutes=10)
    assert [run.scheduled_for for run in view.record.side_runs] == [clock() + timedelta(minutes=10)]
    assert any(note.startswith("it also runs ") for note in view.warnings)
    assert chain.to_come() == before


def test_the_replay_of_an_older_generation_hides_no_failure_of_a_later_one(failed: Daily) -> None:
    [letter] = letters(failed.scheduler)
    failed.clock.at = failed.runs("fetch", number=2)[0].scheduled_for
    failed.fail()
    failed.end("clean")
    failed.clock.forward(minutes=10)
    failed.scheduler.letters.replay([letter])
    for name in ("fetch", "load", "mail"):
        failed.end(name)

    last = failed.scheduler.get(failed.id).record.last_run
    assert last
    assert (last.number, last.state) == (2, State.FAILED)
    page = failed.scheduler.tasks.list(TaskFilter(states=(State.FAILED,)))
    assert failed.steps["fetch"] in {view.record.task.id for view in page.views}
    failed.scheduler.act(failed.id, "run_now")
    assert failed.states("fetch", number=2) == [State.FAILED, State.SCHEDULED]


def test_a_replay_does_not_decide_whether_the_result_of_the_generation_under_way_is_valid(
    store: Store, clock: Clock
) -> None:
    steps: list[StepArguments] = [{"name": "fetch"}, {"name": "load", "after": ["fetch"], "valid_output": ROWS}]
    chain = Daily(store, clock, steps)
    chain.fail()
    clock.at = chain.runs("fetch", number=2)[0].scheduled_for + timedelta(minutes=1)
    chain.scheduler.act(chain.steps["fetch"], "run_now")
    chain.end("fetch", result={"rows": 3})
    chain.end("fetch", again=False, result="none")
    assert chain.states("load", number=2) == [State.FAILED]


def test_a_replay_lets_no_step_of_the_generation_under_way_go_on_after_a_failure(store: Store, clock: Clock) -> None:
    steps: list[StepArguments] = [{"name": "one"}, {"name": "two"}, {"name": "long"}]
    chain = Daily(store, clock, [*steps, {"name": "sum", "after": ["one", "two"]}])
    for name in ("one", "two", "long"):
        chain.end(name)
    chain.fail("sum")
    clock.at = chain.runs("one", number=2)[0].scheduled_for
    chain.fail("one")
    chain.fail("two")
    chain.scheduler.act(chain.steps["one"], "run_now")
    assert chain.states("sum", number=2)[-1] is State.WAITING
    clock.forward(minutes=1)
    chain.scheduler.letters.replay([chain.runs("sum")[0].id])
    chain.end("one")
    assert chain.states("sum", number=2)[-1] is State.FAILED, "the other step before it has failed"


def test_a_step_that_asks_is_run_again_by_its_yes_whatever_it_failed_with(store: Store, clock: Clock) -> None:
    chain = Daily(
        store, clock, [{"name": "fetch"}, {"name": "load", "after": ["fetch"], "approval": {"question": "?"}}]
    )
    chain.fail()
    clock.forward(minutes=10)
    chain.scheduler.act(chain.steps["load"], "run_now")
    store.claims.make_ready(limit=9)
    assert chain.states("load") == [State.FAILED, State.WAITING]
    chain.scheduler.approve(chain.steps["load"])
    assert chain.states("load") == [State.FAILED, State.SCHEDULED]


def test_a_snoozed_outcome_asks_for_no_step_once_more_that_was_rejected(store: Store, clock: Clock) -> None:
    chain = Daily(
        store, clock, [{"name": "fetch"}, {"name": "load", "after": ["fetch"], "approval": {"question": "?"}}]
    )
    chain.end("fetch")
    store.claims.make_ready(limit=9)
    chain.scheduler.reject(chain.steps["load"])
    chain.scheduler.act(chain.steps["fetch"], "snooze", minutes=10)
    clock.forward(minutes=10)
    chain.end("fetch")
    assert chain.states("load") == [State.SKIPPED]


def test_a_replay_does_not_take_the_place_of_a_step_that_has_given_way(store: Store, clock: Clock) -> None:
    steps: list[StepArguments] = [{"name": "fetch"}, {"name": "load", "after": ["fetch"]}]
    chain = Daily(store, clock, steps, repeat_policy={"overlap": "cancel_other"})
    chain.end("fetch")
    chain.fail("load")
    [letter] = letters(chain.scheduler)
    clock.at = chain.runs("fetch", number=2)[0].scheduled_for
    chain.start("fetch")
    clock.forward(days=1)
    store.series.overtake(limit=9)
    assert chain.states("load", number=2) == [State.CANCELLED]

    chain.scheduler.letters.replay([letter])
    assert (chain.states("load"), chain.states("load", number=2)) == (
        [State.FAILED, State.SCHEDULED],
        [State.CANCELLED],
    )
