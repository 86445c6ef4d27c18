"""Chains that recur: the next generation comes whole, when the last step of this one has ended."""

from __future__ import annotations

import ast
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Literal

import pytest
from duetime.scheduler.errors import InvalidArgument, Refused
from duetime.scheduler.outcomes import Failed
from duetime.scheduler.request import StepArguments
from duetime.scheduler.rules.settlement import settle, words_and_note
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.task import ApprovalRequest, State
from duetime.widgets.payload import task_payload
from duetime.widgets.text.task_text import task_text

from tests.builders import Clock, restarted, settlement
from tests.flow.tools.sent_back import corrections

STEPS: list[StepArguments] = [
    {"name": "fetch"},
    {"name": "load", "after": ["fetch"]},
    {"name": "mail", "after": ["load"]},
]
ONE_DAY = timedelta(days=1)


def states(scheduler: Scheduler, chain_id: str) -> list[State]:
    view = scheduler.get(chain_id)
    assert view.chain
    return [step.state for step in view.chain.steps]


def end(scheduler: Scheduler, store: Store, chain_id: str, name: str, to: State = State.SUCCEEDED) -> None:
    view = scheduler.get(chain_id)
    assert view.chain
    [task_id] = [step.task_id for step in view.chain.steps if step.name == name]
    store.claims.settle([settlement(restarted(store, store.tasks.get("local", task_id)), to)])


def daily(scheduler: Scheduler, **more: int) -> str:
    return scheduler.schedule("Report", repeat="every day at 13:00", steps=STEPS, **more).record.task.id  # type: ignore[arg-type]  # max_runs


def test_the_next_generation_comes_whole_when_the_last_step_has_ended(
    scheduler: Scheduler, store: Store, clock: Clock
) -> None:
    chain_id = daily(scheduler)
    for generation in range(1, 4):
        view = scheduler.get(chain_id)
        assert (view.record.run.number, view.record.run.scheduled_for.hour) == (generation, 13)
        assert states(scheduler, chain_id) == [State.SCHEDULED, State.WAITING, State.WAITING]
        clock.at = view.record.run.scheduled_for
        for name in ("fetch", "load"):
            end(scheduler, store, chain_id, name)
        assert states(scheduler, chain_id)[:2] == [State.SUCCEEDED] * 2
        end(scheduler, store, chain_id, "mail")


def test_a_failure_in_one_generation_does_not_keep_the_next_one_from_coming(
    scheduler: Scheduler, store: Store, clock: Clock
) -> None:
    chain_id = daily(scheduler)
    clock.forward(hours=1)
    end(scheduler, store, chain_id, "fetch", State.FAILED)
    assert states(scheduler, chain_id) == [State.SCHEDULED, State.WAITING, State.WAITING]
    assert scheduler.get(chain_id).record.run.scheduled_for == clock() + ONE_DAY


def test_a_dry_run_of_a_replay_knows_as_the_replay_does_that_the_chain_went_on(
    scheduler: Scheduler, store: Store, clock: Clock
) -> None:
    chain = scheduler.get(daily(scheduler, max_runs=2)).chain
    assert chain
    clock.forward(hours=1)
    first = store.tasks.get("local", chain.steps[0].task_id)
    store.claims.settle([settlement(restarted(store, first), State.FAILED, dead_letter=True)])
    clock.forward(days=1)
    for name in ("fetch", "load", "mail"):
        end(scheduler, store, chain.id, name)
    for dry_run in (True, False):
        with pytest.raises(Refused, match="repeats: its next runs would get this payload as well"):
            scheduler.letters.replay([first.run.id], payload={"message": "Again"}, dry_run=dry_run)


def test_a_cancel_ends_the_series_and_its_undo_lets_it_go_on(scheduler: Scheduler, store: Store, clock: Clock) -> None:
    chain_id = daily(scheduler)
    undo = scheduler.cancel(chain_id).undo
    assert set(states(scheduler, chain_id)) == {State.CANCELLED}
    scheduler.act(chain_id, "undo", undo=undo)
    clock.forward(hours=1)
    for name in ("fetch", "load", "mail"):
        end(scheduler, store, chain_id, name)
    assert states(scheduler, chain_id) == [State.SCHEDULED, State.WAITING, State.WAITING]


def test_a_series_ends_after_so_many_generations(scheduler: Scheduler, store: Store, clock: Clock) -> None:
    chain_id = daily(scheduler, max_runs=1)
    clock.forward(hours=1)
    for name in ("fetch", "load", "mail"):
        end(scheduler, store, chain_id, name)
    assert set(states(scheduler, chain_id)) == {State.SUCCEEDED}


def test_an_end_of_a_chain_needs_no_more_than_its_repeat(scheduler: Scheduler) -> None:
    until = task_payload(scheduler.schedule("Report", repeat="daily at 13:00", until="2026-12-24", steps=STEPS)).repeat
    runs = task_payload(scheduler.get(daily(scheduler, max_runs=3))).repeat
    assert until is not None
    assert runs is not None
    assert (until.until, runs.max_runs) == ("2026-12-24T23:59:59+00:00", 3)
    with pytest.raises(InvalidArgument, match="only a recurring task has an end"):
        scheduler.schedule("Report", when="in 1 hour", until="2026-12-24", steps=STEPS)


def test_its_answer_has_the_rule_and_the_next_times(scheduler: Scheduler) -> None:
    payload = task_payload(scheduler.get(daily(scheduler)))
    assert payload.repeat
    assert payload.repeat.text == "every day at 13:00"
    assert [text[:16] for text in payload.repeat.next[:2]] == ["2026-11-24T13:00", "2026-11-25T13:00"]
    assert payload.repeat.approval is None


def test_its_answer_says_what_is_asked_before_each_generation(scheduler: Scheduler) -> None:
    asks: ApprovalRequest = {"question": "Report?", "by": "2 hours"}
    view = scheduler.schedule("Report", repeat="every day at 13:00", steps=STEPS, approval=asks)
    for payload in (task_payload(view), task_payload(scheduler.get(view.record.task.id))):
        assert payload.repeat
        assert payload.repeat.approval == {"question": "Report?", "by": "2 h", "default": "reject"}
        assert "Asks the user before each run: «Report?» (for 2 h, else it is skipped)." in task_text(payload)
    own: list[StepArguments] = [{"name": "fetch", "approval": asks}, {"name": "load"}]
    for steps in (own, [{"name": "fetch"}, {"name": "load", "after": ["fetch"], "approval": asks}]):
        later = task_payload(scheduler.schedule("Load", repeat="every day at 13:00", steps=steps))  # type: ignore[arg-type]  # plain
        assert later.repeat
        assert later.repeat.approval is None, "a step's own question is told by the step"


def test_a_step_of_its_own_time_cannot_recur(scheduler: Scheduler) -> None:
    steps: list[StepArguments] = [{"name": "fetch", "when": "in 1 hour"}]
    with pytest.raises(InvalidArgument, match="one time for all of its steps"):
        scheduler.schedule("Report", repeat="daily", steps=steps)


@pytest.mark.parametrize("deadline", ["17:00", "tomorrow 17:00", "friday", "2026-11-24T17:00"])
def test_generations_have_no_instant_as_their_deadline(scheduler: Scheduler, deadline: str) -> None:
    chain_id = daily(scheduler)
    chain = scheduler.get(chain_id).chain
    assert chain
    own: list[StepArguments] = [{"name": "fetch", "deadline": deadline}]
    calls: list[tuple[str, Callable[[], object]]] = [
        ("deadline", lambda: scheduler.schedule("Report", repeat="daily at 13:00", steps=STEPS, deadline=deadline)),
        ("steps.fetch.deadline", lambda: scheduler.schedule("Report", repeat="daily at 13:00", steps=own)),
        ("deadline", lambda: scheduler.reschedule(chain_id, deadline=deadline)),
        ("deadline", lambda: scheduler.reschedule(chain.steps[0].task_id, deadline=deadline)),
        ("deadline", lambda: scheduler.reschedule(chain.steps[2].task_id, deadline=deadline)),
    ]
    for argument, call in calls:
        with pytest.raises(InvalidArgument, match="for each of its runs, not one instant for all") as refused:
            call()
        assert refused.value.argument == argument
    assert scheduler.get(chain_id).record.task.deadline is None


def test_each_generation_has_the_length_of_time_that_its_last_step_has(
    scheduler: Scheduler, store: Store, clock: Clock
) -> None:
    chain_id = scheduler.schedule("Report", repeat="every day at 13:00", steps=STEPS, deadline="2 hours").record.task.id
    for day in (24, 25):
        later = task_payload(scheduler.get(chain_id))
        assert later.deadline is None
        assert later.relative_deadline
        assert (later.relative_deadline.after, later.relative_deadline.type) == ("2 h", "soft")
        assert "Finish within 2 h after its last step can start (soft)." in task_text(later)
        clock.at = scheduler.get(chain_id).record.run.scheduled_for
        end(scheduler, store, chain_id, "fetch")
        end(scheduler, store, chain_id, "load")
        now = task_payload(scheduler.get(chain_id))
        assert now.deadline
        assert (now.deadline.utc, now.relative_deadline) == (f"2026-11-{day}T15:00:00Z", None)
        end(scheduler, store, chain_id, "mail")


def test_every_generation_leaves_out_the_dates_of_the_policy(scheduler: Scheduler, store: Store, clock: Clock) -> None:
    left_out = {"except": ["2026-11-25", "2026-11-26"]}
    view = scheduler.schedule("Report", repeat="every day at 13:00", repeat_policy=left_out, steps=STEPS)
    chain_id = view.record.task.id
    payload = task_payload(view)
    assert payload.repeat is not None
    assert payload.repeat.policy == left_out
    assert "Policy: except 2026-11-25 2026-11-26. Next: Tue 24 Nov 13:00, Fri 27 Nov 13:00," in task_text(payload)
    assert view.chain
    scheduler.reschedule(view.chain.steps[0].task_id, title="Fetch it")
    clock.forward(hours=1)
    for name in ("fetch", "load", "mail"):
        end(scheduler, store, chain_id, name)
    assert f"{scheduler.get(chain_id).record.run.scheduled_for:%d %H}" == "27 13"


def test_the_card_of_a_chain_names_the_policy_of_its_generations(scheduler: Scheduler) -> None:
    policy: Any = {"overlap": "buffer_one", "catchup_window": "1 hour", "coalesce": "latest"}
    view = scheduler.schedule("Report", repeat="every day at 13:00", repeat_policy=policy, steps=STEPS)
    shown = task_text(task_payload(scheduler.get(view.record.task.id)))
    assert "Policy: overlap buffer_one, catchup_window 1 h, coalesce latest." in shown


def test_the_refusal_of_a_series_after_other_tasks_shows_a_call_that_does_it(
    scheduler: Scheduler, store: Store, clock: Clock
) -> None:
    first = scheduler.schedule("Import", when="in 1 hour").record.task.id
    with pytest.raises(InvalidArgument, match="a task that repeats cannot come after others") as refused:
        scheduler.schedule("Report", repeat="every day at 13:00", after=[first])
    shown = str(refused.value).partition("Example: ")[2]
    asked = ast.parse(f"call({shown})", mode="eval").body
    assert isinstance(asked, ast.Call)
    chain_id = scheduler.schedule("Report", **{str(each.arg): ast.literal_eval(each.value) for each in asked.keywords})
    assert states(scheduler, chain_id.record.task.id) == [State.WAITING]
    clock.forward(hours=1)
    store.claims.settle([settlement(restarted(store, store.tasks.get("local", first)), State.SUCCEEDED)])
    assert states(scheduler, chain_id.record.task.id) == [State.SCHEDULED]


@pytest.mark.parametrize(
    "own",
    [
        {"payload": {"message": "Report"}, "estimate": "5 min", "needs": {"key:ann": 1}, "priority": "high"},
        {"action": "webhook", "payload": {"url": "https://example.com/report"}, "deadline": "2 hours"},
    ],
)
def test_the_call_that_it_shows_keeps_what_a_step_has_of_its_own_and_all_that_it_comes_after(
    scheduler: Scheduler, store: Store, own: dict[str, Any]
) -> None:
    above = [scheduler.schedule(title, when="in 1 hour").record.task.id for title in ("Import", "Clean")]
    given = {"title": "Report", "repeat": "every day at 13:00", "after": above, **own}
    with pytest.raises(InvalidArgument) as refused:
        scheduler.schedule(**given)
    [(_, call)] = corrections("schedule_task", given, str(refused.value))
    chain = scheduler.schedule(**call).chain
    assert chain
    task_id = chain.steps[0].task_id
    task = scheduler.get(task_id).record.task
    assert (task.action, task.payload) == (own.get("action", "reminder"), {**task.payload, **own["payload"]})
    found = {each.task_id for each in store.dependencies.upstreams("local", task_id)}
    assert found == set(above)


@pytest.mark.parametrize(
    ("asks", "said"),
    [
        (
            {"question": "Mail?", "by": "10 min"},
            " of «Mail?» by the user, for 10 min at most, else this run is skipped",
        ),
        (
            {"question": "Mail?", "by": "1 hour", "default": "approve"},
            " of «Mail?» by the user, for 1 h at most, else it goes",
        ),
        (True, " by the user"),
    ],
)
def test_a_later_step_says_what_it_will_ask_and_wait_for_before_its_turn(
    scheduler: Scheduler, store: Store, clock: Clock, asks: Any, said: str
) -> None:
    steps: Any = [
        {"name": "fetch"},
        {"name": "mail", "after": ["fetch"], "approval": asks, "wait_for": {"event": "ready"}},
    ]
    chain = scheduler.schedule("Report", repeat="every day at 13:00", steps=steps).chain
    assert chain
    fetch, mail = (step.task_id for step in chain.steps)
    behind, awaited = scheduler.explain(mail)[1]
    assert behind == f"{fetch} «Report: fetch», which is scheduled; then approval{said}"
    assert awaited.startswith("the event 'ready', from its turn on for ")
    assert [wait.kind for wait in scheduler.get(mail).waits] == ["task", "event"], "there is nothing to be answered yet"
    clock.forward(hours=1)
    store.claims.settle([settlement(restarted(store, store.tasks.get("local", fetch)), State.SUCCEEDED)])
    store.claims.make_ready(limit=9)
    approval, event = scheduler.explain(mail)[1]
    assert (approval[:8], event[:17]) == ("approval", "the event 'ready'")


@pytest.mark.parametrize("notify", ["always", "never"])
def test_a_chain_pauses_after_so_many_generations_in_a_row_that_failed(
    scheduler: Scheduler, store: Store, clock: Clock, notify: Literal["always", "never"]
) -> None:
    view = scheduler.schedule(
        "Report", repeat="every day at 13:00", steps=STEPS, repeat_policy={"pause_after": 2}, notify=notify
    )
    chain_id = view.record.task.id

    def fail() -> bool:
        """Let the current generation fail; return whether the next one is paused."""
        clock.at = scheduler.get(chain_id).record.run.scheduled_for
        chain = scheduler.get(chain_id).chain
        assert chain
        claim = restarted(store, store.tasks.get("local", chain.steps[0].task_id))
        store.claims.settle([settle(claim, Failed("no water"), now=clock(), jitter=0.0)])
        return scheduler.get(chain_id).record.task.paused

    assert [fail(), fail()] == [False, True]
    said = [message.text for message in scheduler.inbox.unread(limit=9) if "paused" in message.text]
    assert said == ["no water (paused: 2 generations in a row failed; resume it to go on)"]
    assert words_and_note(said[0]) == ("no water", "(paused: 2 generations in a row failed; resume it to go on)")
    assert (
        words_and_note(
            "no water (late: was due Sat 21 Nov 2026 18:01 UTC) (paused: a generation failed; resume it to go on)"
        )[0]
        == "no water"
    )
    why = "paused, as 2 generations in a row failed: it waits until it is resumed"
    shown = scheduler.get(chain_id)
    assert shown.chain
    assert shown.waiting_for == (why,)
    assert [wait.after for wait in shown.waits] == ["2 generations in a row failed"]
    assert scheduler.explain(chain_id)[1][0] == f"fetch: {why}"
    assert scheduler.explain(shown.chain.steps[0].task_id)[1] == (why,)
    clock.forward(hours=48)
    assert not store.claims.make_ready(limit=9), "nothing of it starts"
    assert states(scheduler, chain_id) == [State.SCHEDULED, State.WAITING, State.WAITING]
    scheduler.reschedule(chain_id, pause=False)
    assert [fail(), fail()] == [False, True], "a resume starts the count again"


def test_a_generation_that_succeeds_starts_the_count_of_failures_again(
    scheduler: Scheduler, store: Store, clock: Clock
) -> None:
    policy = {"pause_after": 2}
    view = scheduler.schedule("Report", repeat="every day at 13:00", steps=STEPS, repeat_policy=policy)
    chain_id = view.record.task.id
    for to in (State.FAILED, State.SUCCEEDED, State.FAILED):
        clock.at = scheduler.get(chain_id).record.run.scheduled_for
        for name in ("fetch", "load", "mail") if to is State.SUCCEEDED else ("fetch",):
            end(scheduler, store, chain_id, name, to)
    assert not scheduler.get(chain_id).record.task.paused
