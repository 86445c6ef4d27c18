"""Chains: one call makes all the tasks, or none; one answer shows them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from duetime.scheduler import remedies
from duetime.scheduler.chain.step_parts import STEP_PARTS
from duetime.scheduler.chain.steps import MAX_STEPS
from duetime.scheduler.errors import IdempotencyConflict, InvalidArgument, InvalidArguments, Refused, TaskNotFound
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.history.dead_letters import LetterState
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.principal import LOCAL, Principal
from duetime.scheduler.request import StepArguments
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.task import ApprovalRequest, State, Tier
from duetime.scheduler.views import TaskView
from duetime.tools.arguments.steps import STEPS
from duetime.tools.registration import make_tools
from duetime.widgets.payload import as_dry_run, as_json, task_payload
from duetime.widgets.text.task_text import MAX_TASK_TEXT_CHARS, task_text

from tests.builders import Clock, restarted, settlement

FETCH: StepArguments = {"name": "fetch", "when": "in 1 hour"}
DIAMOND: list[StepArguments] = [
    {"name": "report", "after": ["left", "right"]},
    {"name": "left", "after": ["fetch"]},
    {"name": "right", "after": ["fetch"]},
    FETCH,
]


@pytest.fixture
def scheduler(store: Store) -> Scheduler:
    return Scheduler(store, Planner(Handlers.load(), "America/Denver", upstreams=store.dependencies.known))


def end(store: Store, task_id: str, to: State = State.SUCCEEDED, **values: Any) -> None:
    record = store.tasks.get("local", task_id)
    store.claims.settle([settlement(restarted(store, record), to, **values)])


def test_one_call_stores_every_step_as_a_task_that_waits_for_those_that_it_names(scheduler: Scheduler) -> None:
    view = scheduler.schedule("Weekly report", steps=DIAMOND)
    assert view.chain
    assert [step.name for step in view.chain.steps] == ["fetch", "left", "right", "report"]
    assert [step.state for step in view.chain.steps] == [State.SCHEDULED, *[State.WAITING] * 3]
    assert view.chain.steps[-1].after == ("left", "right")
    assert view.record.task.id == view.chain.id
    assert (view.created, view.record.run.state) == (True, State.SCHEDULED)
    last = scheduler.get(view.chain.steps[-1].task_id)
    assert last.record.task.title == "Weekly report: report"
    assert last.chain
    assert (last.chain.id, last.chain.step) == (view.chain.id, "report")


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        (
            [{"name": "a", "after": ["b"]}, {"name": "b", "after": ["a"]}],
            "come after itself: a -> b -> a. Accepted: steps without a cycle",
        ),
        ([{"name": "a", "after": ["a"]}], "come after itself: a -> a"),
        ([{"name": "load", "after": ["fetsh"]}, FETCH], "load -> fetsh: there is no such step; did you mean fetch"),
        ([FETCH, FETCH], "two steps are named fetch"),
        ([{"name": "t_7k3m9qx2w4hb"}], "'t_7k3m9qx2w4hb' cannot name a step"),
        ([{"action": "webhook"}], r"steps\[1\].name: it is missing"),
        ([{"name": "a", "acton": "webhook"}], r"steps\[1\].acton: a step has no such part; did you mean action"),
        ([{"name": "a", "after": "b, c"}], r"steps\[1\].after: it is of another kind. Accepted: a list of texts"),
        (["fetch"], "it is not an object"),
        ([{"name": f"s{number}"} for number in range(MAX_STEPS + 1)], "51 steps are too many"),
        ([{**FETCH, "after": ["t_7k3m9qx2w4hb"]}], "steps.fetch.after: there is no task 't_7k3m9qx2w4hb'"),
    ],
)
def test_a_chain_that_could_not_run_is_refused_and_nothing_of_it_is_stored(
    scheduler: Scheduler, steps: Any, said: str
) -> None:
    with pytest.raises((InvalidArgument, InvalidArguments), match=said):
        scheduler.schedule("Report", steps=steps)
    assert not scheduler.tasks.list().views


@pytest.mark.parametrize(
    ("steps", "accepted", "example"),
    [
        ([("a", "zz"), ("b", "")], "names of steps (b) or ids of tasks and chains", "{'name': 'a', 'after': ['b']}"),
        (
            [("a", "bb"), ("b", "a"), ("c", "")],
            "names of steps (c) or ids of tasks and chains",
            "{'name': 'a', 'after': ['c']}",
        ),
        ([("a", "zz"), ("b", "a")], "ids of tasks and chains", "{'name': 'a', 'after': []}"),
        ([("a", ""), ("b", "zz")], "names of steps (a) or ids of tasks and chains", "{'name': 'b', 'after': ['a']}"),
    ],
)
def test_the_steps_that_an_unknown_one_is_mended_with_are_those_it_can_come_after(
    scheduler: Scheduler, steps: list[tuple[str, str]], accepted: str, example: str
) -> None:
    given = [StepArguments(name=name, after=[after] if after else []) for name, after in steps]
    with pytest.raises(InvalidArgument, match="there is no such step") as refused:
        scheduler.schedule("Report", when="in 1 hour", steps=given)
    assert refused.value.accepted == accepted
    assert refused.value.example.startswith("steps=[{'name': 'a', ")
    assert example in refused.value.example


def test_problems_of_several_steps_are_reported_at_once(scheduler: Scheduler) -> None:
    steps: list[StepArguments] = [
        {"name": "fetch", "action": "no_such_action"},
        {"name": "load", "after": ["fetch"], "needs": {"no_such_pool": 1}},
    ]
    with pytest.raises(InvalidArguments) as refused:
        scheduler.schedule("Report", steps=steps)
    assert [problem.argument for problem in refused.value.problems] == ["steps.fetch.action", "steps.load.needs"]


def test_a_note_on_one_step_names_it_and_a_note_on_all_does_not(scheduler: Scheduler) -> None:
    one = scheduler.schedule("Books", steps=[FETCH, {"name": "load", "after": ["fetch"], "retry": {"max_attempts": 1}}])
    assert one.warnings == ("load: it is not tried again after a failure",)
    both = scheduler.schedule("Books", steps=[FETCH, {"name": "load", "after": ["fetch"]}], retry={"max_attempts": 1})
    assert both.warnings[0] == "it is not tried again after a failure"


def test_an_argument_that_each_step_has_is_refused_for_the_whole(scheduler: Scheduler) -> None:
    with pytest.raises(InvalidArguments, match="each step has its own"):
        scheduler.schedule("Report", action="webhook", payload={"url": "https://example.com"}, steps=DIAMOND)


@pytest.mark.parametrize(
    ("steps", "places"),
    [
        (
            [{"name": "a", "after": ["bb"], "when": "nonsense"}, {"name": "b"}],
            ["steps.a.after", "when", "steps.a.when"],
        ),
        ([{"name": "a", "after": 5}, {"name": "b", "when": "nonsense"}], ["steps[1].after", "when", "steps.b.when"]),
        (
            [{"name": "a", "after": ["b"], "action": "no"}, {"name": "b", "after": ["a"]}],
            ["steps.b.after", "when", "steps.a.action"],
        ),
        ([{"name": "a", "after": ["zz"], "valid_output": {"type": "object"}}], ["steps.a.after", "when"]),
        ([{"name": "a"}, {"name": "a", "estimate": "nonsense"}], ["steps[2].name", "when", "steps.a.estimate"]),
        ([{"name": "a"}, {"name": "b", "after": ["a"]}], ["when"]),
    ],
)
def test_a_problem_with_the_form_of_steps_hides_no_other(scheduler: Scheduler, steps: Any, places: list[str]) -> None:
    with pytest.raises((InvalidArgument, InvalidArguments)) as refused:
        scheduler.schedule("Ship", when="soon", steps=steps)
    found = refused.value.problems if isinstance(refused.value, InvalidArguments) else [refused.value]
    assert [problem.argument for problem in found] == places
    assert scheduler.tasks.list().views == ()


def test_the_deadline_of_a_chain_is_that_of_its_last_steps_and_the_rest_holds_for_all(scheduler: Scheduler) -> None:
    view = scheduler.schedule("Report", steps=DIAMOND, deadline="2 hours", priority="high", labels=["weekly"])
    assert view.chain
    tasks = {step.name: scheduler.get(step.task_id).record.task for step in view.chain.steps}
    assert {name: task.deadline for name, task in tasks.items() if task.deadline} == {"report": "2 hours"}
    assert {(task.priority, task.labels) for task in tasks.values()} == {(Tier.HIGH, ("weekly",))}


def test_a_repeated_call_returns_the_chain_that_there_is(scheduler: Scheduler) -> None:
    first = scheduler.schedule("Report", steps=DIAMOND, idempotency_key="k1")
    again = scheduler.schedule("Report", steps=DIAMOND, idempotency_key="k1")
    assert (again.created, again.record.task.id) == (False, first.record.task.id)
    assert len(scheduler.tasks.list().views) == len(DIAMOND)
    with pytest.raises(IdempotencyConflict):
        scheduler.schedule("Report", steps=[FETCH], idempotency_key="k1")


def test_a_repeated_call_whose_time_has_passed_returns_the_chain(scheduler: Scheduler, clock: Clock) -> None:
    steps: list[StepArguments] = [{"name": "fetch", "when": "2026-11-24T10:00"}]
    first = scheduler.schedule("Report", steps=steps, idempotency_key="k1")
    clock.forward(days=1)
    again = scheduler.schedule("Report", steps=steps, idempotency_key="k1")
    assert (again.created, again.record.task.id) == (False, first.record.task.id)


def test_a_chain_may_come_after_a_task_that_there_is(scheduler: Scheduler, store: Store, clock: Clock) -> None:
    before = scheduler.schedule("Before", when="in 1 minute").record.task.id
    view = scheduler.schedule("Report", after=[before], steps=[{"name": "fetch"}, {"name": "load", "after": ["fetch"]}])
    assert view.chain
    clock.forward(minutes=1)
    end(store, before)
    assert [step.state for step in scheduler.get(view.chain.id).chain.steps] == [State.SCHEDULED, State.WAITING]  # type: ignore[union-attr]  # it has steps


def test_a_cancel_names_what_ended_with_it_and_its_undo_brings_that_back(scheduler: Scheduler) -> None:
    first = scheduler.schedule("Import", when="in 1 hour").record.task.id
    second = scheduler.schedule("Clean", after=[first]).record.task.id
    third = scheduler.schedule("Report", after=[second]).record.task.id
    scheduler.schedule("Tidy", after=[first], after_failure="run_anyway")
    named = ", ".join(sorted([second, third]))
    cancelled = scheduler.cancel(first)
    assert cancelled.warnings == (f"what comes after it ended too: {named}",)
    assert scheduler.cancel(first).warnings == ("it was already cancelled; nothing was changed",)
    scheduler.act(first, "undo", undo=cancelled.undo)
    assert scheduler.get(third).record.run.state is State.WAITING


def test_an_upstreams_result_is_an_input_by_the_name_of_its_step(
    scheduler: Scheduler, store: Store, clock: Clock
) -> None:
    view = scheduler.schedule("Report", steps=DIAMOND)
    assert view.chain
    fetch, left = view.chain.steps[0].task_id, view.chain.steps[1].task_id
    clock.forward(hours=1)
    end(store, fetch, result={"rows": 3})
    assert store.dependencies.results("local", left) == {"fetch": {"rows": 3}}


def test_the_answer_shows_the_progress_and_what_failed(scheduler: Scheduler, store: Store, clock: Clock) -> None:
    steps: list[StepArguments] = [*DIAMOND, {"name": "clean", "after": ["left"], "after_failure": "run_anyway"}]
    view = scheduler.schedule("Weekly report", steps=steps)
    assert view.chain
    ids = {step.name: step.task_id for step in view.chain.steps}
    clock.forward(hours=1)
    end(store, ids["fetch"])
    end(store, ids["left"], State.FAILED, error="no rows")
    payload = task_payload(scheduler.get(view.chain.id))
    assert payload.chain
    assert (payload.chain.done, payload.chain.of, payload.chain.failed) == (1, 5, ("left", "report"))
    assert payload.state is State.READY
    text = task_text(payload)
    assert "Chain: 1 of 5 steps done." in text
    assert "Failed: left, report; Ready: right; Scheduled: clean; Succeeded: fetch." in text
    assert f"left ({ids['left']}): «no rows»." in text
    assert len(text) <= MAX_TASK_TEXT_CHARS
    for name in ("right", "clean"):
        end(store, ids[name])
    assert scheduler.get(view.chain.id).record.run.state is State.FAILED


def test_a_step_names_its_chain_in_its_own_answer_and_in_lists(scheduler: Scheduler) -> None:
    view = scheduler.schedule("Weekly report", steps=DIAMOND)
    alone = scheduler.schedule("Call John", when="in 1 hour").record.task.id
    assert view.chain
    text = task_text(task_payload(scheduler.get(view.chain.steps[0].task_id)))
    assert f"Step fetch of {view.chain.id} «Weekly report»: 0 of 4 steps done." in text
    [tool] = [tool for tool in make_tools(lambda: scheduler) if tool.name == "list_tasks"]
    answer = tool.calls.execute({}, LOCAL)  # type: ignore[attr-defined]  # a tool of ours
    rows = {row["id"]: row for row in answer.structured_content["tasks"]}
    assert (rows[view.chain.steps[0].task_id]["chain"], rows[view.chain.steps[0].task_id]["step"]) == (
        "Weekly report",
        "fetch",
    )
    assert "chain" not in rows[alone]
    assert f"(step fetch of {view.chain.id} «Weekly report»)" in answer.content[0].text


def test_a_dry_run_shows_the_chain_and_stores_nothing(scheduler: Scheduler) -> None:
    payload = task_payload(as_dry_run(scheduler.schedule("Report", steps=DIAMOND, dry_run=True)))
    assert payload.chain
    assert [step.after for step in payload.chain.steps or ()] == [None, ("fetch",), ("fetch",), ("left", "right")]
    assert not scheduler.tasks.list().views
    assert "c_" not in json.dumps(as_json(payload))


@pytest.mark.parametrize(
    "asked",
    [
        {"when": "in 2 min", "deadline": "1 hour"},
        {"when": "in 2 min", "approval": {"question": "Really?", "by": "10 min"}},
        {"wait_for": {"event": "order.paid", "timeout": "1 hour"}},
        {"repeat": "every 17 minutes", "deadline": "1 hour"},
    ],
)
def test_a_dry_run_of_a_chain_says_of_its_deadline_waits_and_time_what_the_call_says(
    scheduler: Scheduler, clock: Clock, asked: dict[str, Any]
) -> None:
    steps: list[StepArguments] = [{"name": "fetch"}, {"name": "load", "after": ["fetch"]}]
    tried = scheduler.schedule("Report", steps=steps, dry_run=True, **asked)
    made = scheduler.schedule("Report", steps=steps, **asked)
    assert said(tried) == said(made)
    clock.forward(minutes=1)
    changes: list[dict[str, Any]] = [{"priority": "high"}, {"pause_until": "in 1 hour"}, {"pause": True}]
    for change in changes:
        tried = scheduler.reschedule(made.record.task.id, dry_run=True, **change)
        assert said(tried) == said(scheduler.reschedule(made.record.task.id, **change)), change


def test_a_dry_run_of_a_step_that_recurs_names_what_it_comes_after(scheduler: Scheduler) -> None:
    steps: list[StepArguments] = [
        {"name": "fetch"},
        {"name": "load", "after": ["fetch"], "wait_for": {"event": "rows"}},
    ]
    made = scheduler.schedule("Report", steps=steps, repeat="hourly").chain
    assert made
    for change in ({"wait_for": {"event": "files"}}, {"remove": ["wait_for"]}):
        arguments: Any = change
        tried = scheduler.reschedule(made.steps[1].task_id, dry_run=True, **arguments)
        assert said(tried) == said(scheduler.reschedule(made.steps[1].task_id, **arguments))


def said(view: TaskView) -> tuple[object, ...]:
    """Return what a card shows of the time, the deadline and the waits of a chain."""
    payload = task_payload(view)
    return payload.when, payload.deadline, payload.relative_deadline, payload.waiting_for, payload.waits


def test_a_chain_shows_the_deadline_that_its_last_steps_share(scheduler: Scheduler) -> None:
    steps: list[StepArguments] = [{"name": "fetch"}, {"name": "load", "after": ["fetch"]}, {"name": "mail"}]
    view = scheduler.schedule("Report", when="at 13:00", steps=steps, deadline="17:00", deadline_type="hard")
    for payload in (task_payload(view), task_payload(scheduler.get(view.record.task.id))):
        assert payload.deadline
        assert (payload.deadline.local[:16], payload.deadline.type) == ("2026-11-24T17:00", "hard")
        assert "Finish by Tue 24 Nov 17:00 (hard)." in task_text(payload)
    assert view.chain
    scheduler.reschedule(view.chain.steps[0].task_id, deadline="18:00")
    assert task_payload(scheduler.get(view.record.task.id)).deadline, "that of a step in between is its own"
    scheduler.reschedule(view.chain.steps[-1].task_id, deadline="18:00")
    assert task_payload(scheduler.get(view.record.task.id)).deadline is None
    scheduler.reschedule(view.record.task.id, deadline="19:00")
    moved = task_payload(scheduler.get(view.record.task.id)).deadline
    assert moved
    assert moved.local[:16] == "2026-11-24T19:00"


def test_a_chain_is_known_to_its_tenant_alone(scheduler: Scheduler) -> None:
    view = scheduler.schedule("Report", steps=DIAMOND)
    with pytest.raises(TaskNotFound):
        scheduler.get(view.record.task.id, by=Principal("other", "eve"))


def test_a_wait_for_a_chain_lasts_until_its_last_step_has_ended(
    scheduler: Scheduler, store: Store, clock: Clock
) -> None:
    view = scheduler.schedule("Report", steps=[FETCH, {"name": "load", "after": ["fetch"]}])
    assert view.chain
    chain_id, ids = view.chain.id, [step.task_id for step in view.chain.steps]
    found = scheduler.ends.run_to_end(chain_id)
    assert found
    assert found.task_ids == ids
    clock.forward(hours=1)
    for task_id in ids:
        end(store, task_id)
    assert scheduler.ends.run_to_end(chain_id) is None


def test_the_definition_costs_a_model_at_most_450_characters() -> None:
    assert len(json.dumps({STEPS.name: STEPS.schema()}, separators=(",", ":"))) <= 450


def test_the_parts_of_a_step_are_those_of_its_type() -> None:
    assert STEP_PARTS.keys() == StepArguments.__annotations__.keys()


def states(scheduler: Scheduler, chain_id: str) -> dict[str, State]:
    view = scheduler.get(chain_id)
    assert view.chain
    return {step.name: step.state for step in view.chain.steps}


def test_one_cancel_ends_all_open_steps_and_one_undo_brings_them_back(
    scheduler: Scheduler, store: Store, clock: Clock
) -> None:
    view = scheduler.schedule("Report", steps=DIAMOND)
    assert view.chain
    chain_id = view.chain.id
    clock.forward(hours=1)
    end(store, view.chain.steps[0].task_id)
    before = states(scheduler, chain_id)
    cancelled = scheduler.cancel(chain_id, reason="not needed")
    assert cancelled.undo
    assert set(states(scheduler, chain_id).values()) == {State.SUCCEEDED, State.CANCELLED}
    assert "already" in scheduler.cancel(chain_id).warnings[0]
    scheduler.act(chain_id, "undo", undo=cancelled.undo)
    assert states(scheduler, chain_id) == before
    for name, state in before.items():
        assert (name, state) in {("fetch", State.SUCCEEDED), ("left", State.SCHEDULED), ("right", State.SCHEDULED)} | {
            ("report", State.WAITING)
        }


def test_a_cancelled_chain_that_never_ran_waits_again_as_before_after_the_undo(
    scheduler: Scheduler, store: Store, clock: Clock
) -> None:
    view = scheduler.schedule("Report", steps=DIAMOND)
    assert view.chain
    chain_id = view.chain.id
    cancelled = scheduler.cancel(chain_id)
    assert set(states(scheduler, chain_id).values()) == {State.CANCELLED}
    assert cancelled.record.run.state is State.CANCELLED
    assert not cancelled.record.task.paused, "nothing is left that a resume could start"
    assert "already" in scheduler.cancel(chain_id).warnings[0]
    scheduler.bulk.change("undo", undo=cancelled.undo)
    assert states(scheduler, chain_id)["report"] is State.WAITING
    clock.forward(hours=1)
    for step in view.chain.steps:
        end(store, step.task_id)
    assert set(states(scheduler, chain_id).values()) == {State.SUCCEEDED}


def test_a_chain_moves_as_a_whole_and_its_steps_keep_their_distance(scheduler: Scheduler, clock: Clock) -> None:
    steps: list[StepArguments] = [FETCH, {"name": "mail", "after": ["fetch"], "when": "in 3 hours"}]
    chain_id = scheduler.schedule("Report", steps=steps).record.task.id
    moved = scheduler.reschedule(chain_id, when="in 5 hours")
    assert moved.chain
    hours = [(step.due - clock()).total_seconds() / 3600 for step in moved.chain.steps]
    assert (hours, states(scheduler, chain_id)) == ([5, 7], {"fetch": State.SCHEDULED, "mail": State.WAITING})
    back = scheduler.act(chain_id, "undo", undo=moved.undo).chain
    assert back
    assert [(step.due - clock()).total_seconds() / 3600 for step in back.steps] == [1, 3]


def test_a_chain_is_held_and_let_go_as_a_whole(scheduler: Scheduler) -> None:
    chain_id = scheduler.schedule("Report", steps=DIAMOND).record.task.id
    assert scheduler.reschedule(chain_id, pause=True).record.task.paused
    assert not scheduler.reschedule(chain_id, pause=False).record.task.paused


def test_a_chain_that_has_ended_cannot_be_changed_and_no_other_task_is(
    scheduler: Scheduler, store: Store, clock: Clock
) -> None:
    view = scheduler.schedule("Report", steps=[FETCH])
    other = scheduler.schedule("Call John", when="in 9 hours").record.task.id
    assert view.chain
    clock.forward(hours=1)
    end(store, view.chain.steps[0].task_id)
    for change in (scheduler.cancel, lambda chain_id: scheduler.reschedule(chain_id, when="in 1 hour")):
        with pytest.raises(Refused):
            change(view.chain.id)
    assert scheduler.get(other).record.run.state is State.SCHEDULED


@pytest.mark.parametrize("given", [{"estimate": "2 min"}, {"payload": {"message": "x"}, "when": "tomorrow"}, {}])
def test_an_argument_that_only_a_step_has_is_refused_for_a_chain(scheduler: Scheduler, given: Any) -> None:
    chain_id = scheduler.schedule("Report", steps=DIAMOND).record.task.id
    with pytest.raises(InvalidArgument, match="title, when, timezone, repeat"):
        scheduler.reschedule(chain_id, **given)


def test_a_repeated_cancel_of_a_chain_changes_nothing_and_says_so(scheduler: Scheduler) -> None:
    chain_id = scheduler.schedule("Report", steps=[FETCH]).record.task.id
    first = scheduler.reschedule(chain_id, when="in 5 hours", idempotency_key="k1")
    again = scheduler.reschedule(chain_id, when="in 5 hours", idempotency_key="k1")
    assert (again.undo, "repeats" in again.warnings[0]) == (first.undo, True)


def failed_chain(scheduler: Scheduler, store: Store, clock: Clock) -> tuple[str, dict[str, str]]:
    """Return a chain of which two branches failed by themselves, with its steps."""
    steps: list[StepArguments] = [FETCH, {"name": "look", "when": "in 1 hour"}]
    view = scheduler.schedule("Report", steps=[*steps, {"name": "mail", "after": ["fetch", "look"]}])
    assert view.chain
    ids = {step.name: step.task_id for step in view.chain.steps}
    clock.forward(hours=1)
    for name in ("fetch", "look"):
        end(store, ids[name], State.FAILED, error="no rows", dead_letter=True)
    return view.chain.id, ids


@pytest.mark.parametrize("by_tool", [False, True], ids=["by the button", "by the tool"])
def test_a_failed_chain_runs_again_from_what_failed_by_itself_with_one_undo(
    scheduler: Scheduler, store: Store, clock: Clock, by_tool: bool
) -> None:
    chain_id, ids = failed_chain(scheduler, store, clock)
    failed = task_text(task_payload(scheduler.get(chain_id)))
    assert f'reschedule_task(task_id="{chain_id}", when="now") runs again what failed; get_task' in failed
    before = {task_id: store.tasks.get("local", task_id).run for task_id in ids.values()}
    call = {"task_id": chain_id, "when": "now"}

    def run_again() -> TaskView:
        if by_tool:
            return scheduler.reschedule(chain_id, when="now", raw=call)
        return scheduler.act(chain_id, "run_now", raw=call)

    first, again = run_again(), run_again()
    assert (first.record.run.state, first.warnings, again.undo) == (State.SCHEDULED, (), first.undo)
    assert "repeats" in again.warnings[0]
    assert states(scheduler, chain_id) == {"fetch": State.SCHEDULED, "look": State.SCHEDULED, "mail": State.WAITING}
    undone = scheduler.act(chain_id, "undo", undo=again.undo)
    assert (undone.record.run.state, undone.warnings) == (State.FAILED, ())
    for name in ("fetch", "look"):
        assert store.tasks.get("local", ids[name]).run == before[ids[name]]
    assert {letter.state for letter in scheduler.letters.page()[0]} == {LetterState.OPEN}

    scheduler.act(chain_id, "run_now")
    for task_id in ids.values():
        end(store, task_id)
    assert set(states(scheduler, chain_id).values()) == {State.SUCCEEDED}
    audited = scheduler.past.audit(limit=9).entries
    assert audited
    with pytest.raises(Refused) as refused:
        scheduler.act(chain_id, "run_now")
    assert refused.value.message == f"no step of {chain_id} has failed."
    assert refused.value.remedy == remedies.Inspect(chain_id)
    assert scheduler.past.audit(limit=9).entries == audited, "a refused call changes nothing"


def test_a_chain_that_is_still_to_come_is_not_run_now_but_can_be_moved(scheduler: Scheduler) -> None:
    chain_id = scheduler.schedule("Weekly report", steps=DIAMOND).record.task.id
    with pytest.raises(Refused) as refused:
        scheduler.act(chain_id, "run_now")
    assert refused.value.remedy == remedies.MoveEarlier(chain_id)
    held = scheduler.schedule("Held report", steps=DIAMOND, approval=True).record.task.id
    with pytest.raises(Refused) as refused:
        scheduler.act(held, "run_now")
    assert refused.value.remedy == remedies.Inspect(held), "it waits for an answer, not for its time"


def test_steps_of_which_none_comes_after_another_are_said_to_start_at_once(scheduler: Scheduler) -> None:
    apart: list[StepArguments] = [{"name": "fetch"}, {"name": "load"}, {"name": "mail"}]
    said = "3 steps start at once: no step has `after`"
    for dry_run in (True, False):
        view = scheduler.schedule("Report", when="in 1 hour", steps=apart, dry_run=dry_run)
        assert f"{said}." in task_text(task_payload(view))
    later: StepArguments = {"name": "mail", "when": "in 2 hours"}
    behind: StepArguments = {"name": "mail", "after": ["load"]}
    for steps in ([*apart[:2], later], [*apart[:2], behind], apart[:1]):
        assert "at once" not in str(scheduler.schedule("Report", when="in 1 hour", steps=steps).warnings)


def test_the_undo_of_a_replayed_chain_says_which_step_has_begun(
    scheduler: Scheduler, store: Store, clock: Clock
) -> None:
    chain_id, ids = failed_chain(scheduler, store, clock)
    again = scheduler.act(chain_id, "run_now")
    restarted(store, store.tasks.get("local", ids["fetch"]))
    undone = scheduler.act(chain_id, "undo", undo=again.undo)
    assert states(scheduler, chain_id)["fetch"] is State.RUNNING
    assert states(scheduler, chain_id)["look"] is State.FAILED
    assert "not taken back: fetch" in undone.warnings[0]
    assert "has run since" in undone.warnings[0]


def test_a_replay_of_the_failed_step_lets_go_on_what_had_ended_with_it(
    scheduler: Scheduler, store: Store, clock: Clock
) -> None:
    view = scheduler.schedule("Report", steps=[*DIAMOND, {"name": "mail", "after": ["report"]}])
    assert view.chain
    ids = {step.name: step.task_id for step in view.chain.steps}
    clock.forward(hours=1)
    end(store, ids["fetch"], State.FAILED, error="no rows", dead_letter=True)
    assert set(states(scheduler, view.chain.id).values()) == {State.FAILED}
    run_id = store.tasks.get("local", ids["fetch"]).run.id
    scheduler.letters.replay([run_id])
    assert states(scheduler, view.chain.id) == {
        "fetch": State.SCHEDULED, "left": State.WAITING, "right": State.WAITING, "report": State.WAITING,
        "mail": State.WAITING,
    }  # fmt: skip
    for task_id in ids.values():
        end(store, task_id)
    assert set(states(scheduler, view.chain.id).values()) == {State.SUCCEEDED}


def test_a_chain_that_asks_one_question_is_answered_as_a_whole_and_its_rejection_is_taken_back(
    scheduler: Scheduler,
) -> None:
    steps: list[StepArguments] = [{"name": "a"}, {"name": "b"}, {"name": "c", "after": ["a", "b"]}]
    made = scheduler.schedule("Ask", steps=steps, approval={"question": "Go?"})
    assert made.chain
    chain_id = made.chain.id
    approved = scheduler.act(chain_id, "approve")
    assert approved.chain
    assert [step.state for step in approved.chain.steps] == [State.SCHEDULED, State.SCHEDULED, State.WAITING]
    assert approved.waiting_for == ()
    assert approved.undo
    assert scheduler.approve(chain_id).waiting_for == ()
    with pytest.raises(Refused, match="approved it already"):
        scheduler.reject(chain_id)


def test_a_rejected_chain_asks_again_after_the_undo(scheduler: Scheduler) -> None:
    steps: list[StepArguments] = [{"name": "a"}, {"name": "b"}, {"name": "c", "after": ["a", "b"]}]
    made = scheduler.schedule("Ask", steps=steps, approval={"question": "Go?"})
    assert made.chain
    rejected = scheduler.reject(made.chain.id, reason="not today")
    assert rejected.chain
    assert rejected.undo
    assert [step.state for step in rejected.chain.steps] == [State.CANCELLED] * 3
    back = scheduler.act(made.chain.id, "undo", undo=rejected.undo)
    assert back.chain
    assert [step.state for step in back.chain.steps] == [State.WAITING] * 3
    assert back.waiting_for == ("approval of «Go?» by the user",)


def test_a_chain_that_asks_several_questions_or_none_is_not_answered_as_a_whole(scheduler: Scheduler) -> None:
    several: list[StepArguments] = [
        {"name": "a", "approval": {"question": "Go a?"}},
        {"name": "b", "approval": {"question": "Go b?"}},
    ]
    made = scheduler.schedule("Ask", steps=several)
    assert made.chain
    ids = [step.task_id for step in made.chain.steps]
    with pytest.raises(Refused, match=rf"more than one question: .* by its id: a \({ids[0]}\), b \({ids[1]}\)\."):
        scheduler.approve(made.chain.id)
    scheduler.approve(ids[0])
    assert scheduler.approve(made.chain.id).waiting_for == ()
    none = scheduler.schedule("Report", steps=DIAMOND).record.task.id
    with pytest.raises(Refused, match="is not waiting for approval"):
        scheduler.approve(none)


def test_a_question_of_a_chain_that_no_step_would_ask_is_refused(scheduler: Scheduler) -> None:
    own: list[StepArguments] = [{"name": "a", "approval": {"question": "Go a?"}}, {"name": "b", "after": ["a"]}]
    with pytest.raises(
        (InvalidArgument, InvalidArguments), match=r"approval: it would never be asked: each first step"
    ):
        scheduler.schedule("Ask", steps=own, approval={"question": "Go?"})
    made = scheduler.schedule("Ask", steps=[*own, {"name": "c"}], approval={"question": "Go?"})
    assert set(made.waiting_for) == {"approval of «Go a?» by the user", "approval of «Go?» by the user"}


def test_why_a_chain_is_not_further_is_explained_by_its_first_open_steps(scheduler: Scheduler) -> None:
    chain_id = scheduler.schedule("Report", steps=DIAMOND).record.task.id
    view, reasons = scheduler.explain(chain_id)
    assert view.chain
    assert [reason.partition(" (")[0] for reason in reasons] == [
        "fetch: its time: Tue 24 Nov 2026 06:00 America/Denver"
    ]
    assert scheduler.past.attempts(chain_id) == []


def test_why_a_chain_failed_is_explained_by_the_steps_that_failed_by_themselves(
    scheduler: Scheduler, store: Store, clock: Clock
) -> None:
    view = scheduler.schedule("Weekly report", steps=DIAMOND)
    assert view.chain
    clock.forward(hours=1)
    end(store, view.chain.steps[0].task_id, State.FAILED, error="HTTP 503")
    reasons = scheduler.explain(view.chain.id)[1]
    assert reasons == ["it waits for nothing: all its steps have ended; fetch failed: HTTP 503 (4 of 4 steps failed)"]


def test_the_log_of_a_chain_is_refused_with_the_steps_that_have_logs_those_that_failed_first(
    scheduler: Scheduler, store: Store
) -> None:
    steps: list[StepArguments] = [{"name": "fetch"}, {"name": "load"}, {"name": "tell"}, {"name": "check"}]
    view = scheduler.schedule("Release", when="now", steps=steps)
    assert view.chain
    ids = {step.name: step.task_id for step in view.chain.steps}
    end(store, ids["load"], State.FAILED, error="HTTP 503")
    with pytest.raises(Refused) as refused:
        scheduler.past.run_log(view.chain.id)
    named = f"load ({ids['load']}), fetch ({ids['fetch']}), tell ({ids['tell']}) and 1 more"
    assert f"{view.chain.id} is a chain, and each of its steps has a log: {named}." in str(refused.value)
    with pytest.raises(TaskNotFound):
        scheduler.past.run_log("c_7k3m9qx2w4hb")


def test_a_chain_says_and_explains_what_its_next_step_asks_and_what_later_ones_ask_already(
    scheduler: Scheduler,
) -> None:
    steps: list[StepArguments] = [
        {"name": "a", "approval": {"question": "Go a?"}},
        {"name": "b", "after": ["a"], "approval": {"question": "Go b?"}},
    ]
    made = scheduler.schedule("Ask", steps=steps)
    assert made.chain
    asks, asks_later = "approval of «Go a?» by the user", "approval of «Go b?» by the user"
    for view in (made, scheduler.get(made.chain.id)):
        assert view.waiting_for == (asks, asks_later)
        text = task_text(task_payload(view))
        assert text.startswith("The chain is waiting for the user's answer.")
        assert f"Waiting for {asks}. Waiting for {asks_later}." in text
    assert scheduler.explain(made.chain.id)[1] == [f"a: {asks}", f"b: {asks_later}"]
    scheduler.approve(made.chain.steps[0].task_id)
    assert scheduler.get(made.chain.id).waiting_for == (asks_later,)


def test_a_no_to_a_chain_is_one_answer_for_all_its_questions_and_its_undo_asks_all_of_them_again(
    scheduler: Scheduler,
) -> None:
    asks: ApprovalRequest = {"question": "Go?"}
    steps: list[StepArguments] = [
        {"name": "a", "approval": asks},
        {"name": "b", "approval": asks},
        {"name": "c", "after": ["a"], "approval": asks},
        {"name": "d", "after": ["b", "c"]},
    ]
    made = scheduler.schedule("Ask", steps=steps)
    assert made.chain
    for _ in range(2):
        rejected = scheduler.reject(made.chain.id, reason="not today")
        assert set(states(scheduler, made.chain.id).values()) == {State.CANCELLED}
        assert rejected.undo
        back = scheduler.act(made.chain.id, "undo", undo=rejected.undo)
        assert set(states(scheduler, made.chain.id).values()) == {State.WAITING}
        assert set(back.waiting_for) == {"approval of «Go?» by the user"}
    approved = scheduler.approve(made.chain.id)
    assert approved.chain
    assert [step.state for step in approved.chain.steps][:2] == [State.SCHEDULED, State.SCHEDULED]
    with pytest.raises(InvalidArgument, match="an undo of a chain takes the token"):
        scheduler.act(made.chain.id, "undo")


def test_steps_of_one_time_are_listed_as_they_were_given(scheduler: Scheduler) -> None:
    names = [f"s{number}" for number in (9, 3, 12, 1, 7, 20, 2, 11)]
    scheduler.schedule("Nightly", when="tomorrow 9:00", steps=[{"name": name} for name in names])
    page = scheduler.tasks.list()
    assert [page.chains[view.record.task.id].step for view in page.views] == names


def test_a_task_paused_without_an_end_has_no_next_times(scheduler: Scheduler) -> None:
    chain = scheduler.schedule("Nightly", repeat="every day at 2:00", steps=[{"name": "fetch"}]).record.task.id
    alone = scheduler.schedule("Stretch", repeat="every day at 10:30").record.task.id
    for task_id in (chain, alone):
        assert "Next: " in task_text(task_payload(scheduler.get(task_id)))
        paused = task_payload(scheduler.reschedule(task_id, pause=True))
        assert paused.repeat
        assert paused.repeat.next == ()
        assert "Next: " not in task_text(paused)
