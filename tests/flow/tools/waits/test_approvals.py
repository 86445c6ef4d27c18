"""Approvals, as users, agents and programs meet them: asked, answered, explained, and decided when time is over."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from duetime.scheduler.dispatch.maintenance import Maintenance
from duetime.scheduler.errors import DuetimeError, Refused
from duetime.scheduler.events import EventFilter, EventKind
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.ids import DRY_RUN_ID
from duetime.scheduler.outcomes import Done, Wait
from duetime.scheduler.principal import Principal
from duetime.scheduler.queue.memory.queue import MemoryQueue
from duetime.scheduler.request import StepArguments
from duetime.scheduler.rules.settlement import settle
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.task import ApprovalAnswer, ApprovalRequest, Json, State
from duetime.scheduler.views import TaskFilter
from duetime.tools.arguments.filters import states_of
from duetime.tools.schedule_task import REMINDER, schedule_task
from duetime.widgets.payload import task_payload
from duetime.widgets.text.list_text import list_text
from duetime.widgets.text.task_text import MAX_TASK_TEXT_CHARS, task_text

from tests.builders import Clock, restarted
from tests.flow.tools.calls import settled
from tests.virtual import VirtualRunner

PAY: ApprovalRequest = {"question": "Pay 90 EUR?", "by": "2 hours"}
WAITS = "approval of «Pay 90 EUR?» by the user until Tue 24 Nov 2026 14:00 (in 2 h), else it is cancelled"


def test_a_task_says_what_it_waits_for_wherever_it_is_read(scheduler: Scheduler) -> None:
    view = scheduler.schedule("Pay the invoice", when="in 1 hour", approval=PAY)
    assert (view.record.run.state, view.waiting_for) == (State.WAITING, (WAITS,))
    task_id = view.record.task.id
    assert f"Waiting for {WAITS}." in task_text(task_payload(scheduler.get(task_id)))
    assert scheduler.explain(task_id)[1] == (WAITS,)
    page = scheduler.tasks.list(mention=True)
    text = list_text(page)
    assert f"(waits for {WAITS})" in text
    assert "«Pay the invoice»: «Pay 90 EUR?»" in text, "once, in the inbox"
    assert "1 question waits for the user's answer. It is now" in text
    assert "\nAsked (now): «Pay the invoice»" in text
    assert "nread" not in text, "a question is no outcome"
    card = task_payload(scheduler.get(task_id))
    assert card.waits is not None
    assert (card.waits[0].kind, card.waits[0].title) == ("approval", "Pay 90 EUR?")


def asked_by_its_handler(scheduler: Scheduler, store: Store, **asked: Any) -> str:
    task_id = scheduler.schedule("Send mails", when=store.now()).record.task.id
    claim = restarted(store, scheduler.get(task_id).record)
    wait = Wait(approval="Really send 500 mails?", by=timedelta(days=7), **asked)
    store.claims.settle([settle(claim, wait, now=store.now(), jitter=0.0)])
    return task_id


@pytest.mark.parametrize("default", [ApprovalAnswer.REJECT, ApprovalAnswer.APPROVE])
def test_a_question_of_a_handler_says_which_answer_it_goes_on_with(
    scheduler: Scheduler, store: Store, default: ApprovalAnswer
) -> None:
    card = task_payload(scheduler.get(asked_by_its_handler(scheduler, store, default=default)))
    text = task_text(card)
    assert text.startswith("The reminder is suspended and waits for the user's answer.")
    assert (
        "Waiting for approval of «Really send 500 mails?» by the user "
        f"until Tue 1 Dec 2026 12:00 (in 7 d), else the answer is {default}." in text
    )
    [wait] = card.waits or ()
    assert (wait.goes_on, wait.default_answer) == (True, default)


def test_the_default_without_an_answer_is_never_cut(scheduler: Scheduler, store: Store) -> None:
    task_id = asked_by_its_handler(scheduler, store)
    asked = task_payload(scheduler.get(task_id))
    long = asked.model_copy(update={"payload": {"message": "x" * 200}, "labels": ("y" * 60,) * 4})
    question = f"«{'Send ' * 15}it?»"
    [reason] = asked.waiting_for or ()
    assert "«Really send 500 mails?»" in reason
    said = reason.replace("«Really send 500 mails?»", question)
    text = task_text(long.model_copy(update={"waiting_for": (said,)}))
    assert ", else the answer is reject." in text
    assert len(text) <= MAX_TASK_TEXT_CHARS


def test_a_task_that_waits_for_an_answer_is_listed_as_waiting(scheduler: Scheduler, store: Store) -> None:
    task_id = asked_by_its_handler(scheduler, store)
    page = scheduler.tasks.list(TaskFilter(states=states_of("waiting")))
    assert [view.record.task.id for view in page.views] == [task_id]
    assert page.counts == {State.SUSPENDED: 1}
    assert "waits for approval of «Really send 500 mails?»" in list_text(page)


def test_a_yes_lets_it_go_and_the_history_names_who_said_it(scheduler: Scheduler) -> None:
    task_id = scheduler.schedule("Pay the invoice", when="in 1 hour", approval=PAY).record.task.id
    approved = scheduler.approve(task_id, reason="it is due", by=Principal("local", "ann"))
    assert (approved.record.run.state, approved.waits) == (State.SCHEDULED, ())
    events = scheduler.past.events(EventFilter(task_id=task_id, kind=EventKind.APPROVED)).events
    assert [(event.actor, event.reason) for event in events] == [("ann", "it is due")]
    assert scheduler.approve(task_id).record.run == approved.record.run
    with pytest.raises(Refused, match=r"ann approved it already \(it is due\)"):
        scheduler.reject(task_id)


@pytest.mark.parametrize(
    ("approval", "said"), [(True, "approval by the user"), (PAY, WAITS)], ids=["the usual question", "a question"]
)
def test_a_dry_run_says_what_it_would_ask(scheduler: Scheduler, approval: Any, said: str) -> None:
    view = scheduler.schedule("Pay the invoice", approval=approval, dry_run=True)
    assert view.waiting_for == (said,)
    assert [each.run for each in view.waits] == [DRY_RUN_ID]


def test_a_dry_run_says_after_which_task_it_would_start_and_what_it_would_ask(scheduler: Scheduler) -> None:
    first = scheduler.schedule("Fetch", when="in 1 hour").record.task.id
    terms: dict[str, Any] = {"after": [first], "approval": True}
    tried = scheduler.schedule("Pay", **terms, dry_run=True).waiting_for
    assert tried == scheduler.schedule("Pay", **terms).waiting_for
    assert tried == ("approval by the user", f"{first} «Fetch», which is scheduled")


@pytest.mark.parametrize("more", [{}, {"steps": [{"name": "pay"}]}], ids=["task", "chain"])
def test_an_answer_that_was_given_before_says_that_it_changed_nothing(scheduler: Scheduler, more: Any) -> None:
    task_id = scheduler.schedule("Pay", when="in 1 hour", approval={"question": "Pay?"}, **more).record.task.id
    assert not scheduler.approve(task_id).warnings
    repeated = scheduler.approve(task_id)
    assert repeated.undo is None
    assert repeated.warnings[0].startswith("this repeats an earlier call, so nothing was changed")


def test_a_no_cancels_it_and_its_undo_asks_again(scheduler: Scheduler) -> None:
    task_id = scheduler.schedule("Pay the invoice", approval=True).record.task.id
    rejected = scheduler.act(task_id, "reject", reason="too much")
    assert (rejected.record.run.state, rejected.record.run.error) == (State.CANCELLED, "local rejected it: too much")
    assert scheduler.act(task_id, "reject").undo is None, "the same answer once more did nothing"
    again = scheduler.act(task_id, "undo", undo=rejected.undo)
    assert again.record.run.state is State.WAITING
    assert scheduler.explain(task_id)[1] == ("approval by the user",)


def test_maintenance_decides_when_time_is_over(scheduler: Scheduler, store: Store, clock: Clock) -> None:
    maintenance = Maintenance(store, MemoryQueue())
    goes = scheduler.schedule("Go", when="in 5 hours", approval={**PAY, "default": "approve"}).record.task.id
    ends = scheduler.schedule("Stop", when="in 5 hours", approval=PAY).record.task.id
    maintenance.step()
    assert scheduler.get(goes).record.run.state is State.WAITING
    clock.forward(hours=2)
    maintenance.step()
    assert [scheduler.get(each).record.run.state for each in (goes, ends)] == [State.SCHEDULED, State.CANCELLED]
    [message] = scheduler.inbox.unread()
    assert (message.task_id, message.text) == (
        ends,
        "it did not run: nobody answered until Tue 24 Nov 2026 14:00 UTC",
    )


@pytest.mark.parametrize(
    ("approval", "more", "said"),
    [
        ({"by": "yesterday"}, {}, "approval.by"),
        ({"default": "maybe", "by": "2 hours"}, {}, "approval.default: 'maybe' is not an answer."),
        ({"default": "approve"}, {}, "approval.by: a default needs a time"),
        ({"question": "x" * 201}, {}, "approval.question"),
        ({"whom": "ann"}, {}, "approval: it has no member 'whom'"),
        ({"by": "17:00"}, {"repeat": "daily"}, "approval.by: a task that repeats asks before each of its runs"),
    ],
)
def test_an_impossible_question_is_refused_with_a_possible_one(
    scheduler: Scheduler, approval: Any, more: Any, said: str
) -> None:
    with pytest.raises(DuetimeError) as refused:
        scheduler.schedule("Pay", when="tomorrow 9am", approval=approval, **more)
    assert said in str(refused.value)
    assert scheduler.tasks.list().views == ()


@pytest.mark.parametrize("given", [True, "true", "Pay 90 EUR?", {"question": "Pay 90 EUR?"}, '{"by": "2 hours"}'])
def test_a_tool_takes_true_a_question_or_an_object(scheduler: Scheduler, given: Any) -> None:
    definition = schedule_task(REMINDER, ())
    values, problems = definition.read().read({"title": "Pay", "approval": given})
    assert problems == []
    assert scheduler.submit(definition.call(**values)).record.run.state is State.WAITING


def test_a_chain_asks_before_its_first_steps_and_a_step_for_itself(scheduler: Scheduler) -> None:
    steps: list[StepArguments] = [{"name": "fetch"}, {"name": "send", "after": ["fetch"], "approval": True}]
    view = scheduler.schedule("Report", action="reminder", approval=PAY, steps=steps)
    assert view.chain is not None
    fetch, send = (step.task_id for step in view.chain.steps)
    assert scheduler.explain(fetch)[1] == (WAITS,)
    assert scheduler.explain(send)[1] == ("approval by the user", f"{fetch} «Report: fetch», which is waiting")
    scheduler.approve(send)
    assert scheduler.get(send).record.run.state is State.WAITING


PAYROLL: ApprovalRequest = {"question": "Pay the wages?", "by": "2 hours"}


def test_a_series_says_what_it_asks_before_each_run_and_what_it_waits_for(
    scheduler: Scheduler, store: Store, clock: Clock
) -> None:
    view = scheduler.schedule("Payroll", repeat="every day at 15:00", approval=PAYROLL)
    task_id = view.record.task.id
    payload = task_payload(view)
    assert payload.repeat is not None
    assert payload.repeat.approval == {"question": "Pay the wages?", "by": "2 h", "default": "reject"}
    assert "Asks the user before each run: «Pay the wages?» (for 2 h, else it is skipped)." in task_text(payload)
    assert scheduler.explain(task_id)[1] == ("its time: Tue 24 Nov 2026 15:00 UTC (in 3 h); then it asks the user",)
    clock.forward(hours=3)
    assert store.claims.make_ready(limit=9) == []
    waits = ("approval of «Pay the wages?» by the user until Tue 24 Nov 2026 17:00 (in 2 h), else this run is skipped",)
    assert scheduler.explain(task_id)[1] == scheduler.get(task_id).waiting_for == waits
    assert f"; waits for {waits[0]})" in list_text(scheduler.tasks.list())


def test_a_no_to_a_series_says_that_it_goes_on_and_how_to_take_it_back(
    scheduler: Scheduler, store: Store, clock: Clock
) -> None:
    task_id = scheduler.schedule("Payroll", repeat="every day at 15:00", approval=PAYROLL).record.task.id
    clock.forward(hours=3)
    store.claims.make_ready(limit=9)
    rejected = scheduler.act(task_id, "reject", reason="no money")
    text = task_text(task_payload(rejected))
    assert "Note: this occurrence was skipped; the series goes on." in text
    assert text.startswith("The reminder is scheduled for Wed 25 Nov 2026 15:00 UTC")
    assert f'act_on_task(task_id="{task_id}", action="undo", undo="{rejected.undo}")' in text
    again = scheduler.act(task_id, "undo", undo=rejected.undo)
    assert (again.record.run.state, again.record.run.scheduled_for) == (State.WAITING, clock())
    told = scheduler.past.events(EventFilter(task_id=task_id)).events
    assert [event.kind for event in told] == [
        *(EventKind.UNDONE, EventKind.NEXT_OCCURRENCE, EventKind.REJECTED, EventKind.ASKED, EventKind.CREATED),
    ]


def test_maintenance_skips_a_run_that_nobody_answers(scheduler: Scheduler, store: Store, clock: Clock) -> None:
    task_id = scheduler.schedule("Payroll", repeat="every day at 15:00", approval=PAYROLL).record.task.id
    maintenance = Maintenance(store, MemoryQueue())
    clock.forward(hours=3)
    store.claims.make_ready(limit=9)
    clock.forward(hours=2)
    maintenance.step()
    record = scheduler.get(task_id).record
    assert (record.run.state, f"{record.run.scheduled_for:%d %H}") == (State.SCHEDULED, "25 15")
    [message] = scheduler.inbox.unread()
    assert message.text == "it did not run: nobody answered until Tue 24 Nov 2026 17:00 UTC"


def test_a_dispatcher_asks_when_a_run_is_due(store: Store, clock: Clock) -> None:
    runner = VirtualRunner(store, clock, Handlers.load(), "UTC", {})
    task_id = runner.scheduler.schedule("Stand-up", repeat="every day at 15:00", approval=True).record.task.id
    clock.forward(hours=3)
    runner.dispatch()
    assert runner.take(1) == []
    [asked] = runner.scheduler.inbox.unread()
    assert asked.text == "Approve this run?"
    runner.scheduler.approve(task_id)
    runner.dispatch()
    [claim] = runner.take(1)
    runner.end(claim, runner.attempt(claim))
    assert runner.scheduler.get(task_id).record.run.number == 2


@pytest.mark.parametrize("approval", [True, "Pay?", {"by": "in 2 hours"}, {"by": "PT2H", "default": "approve"}])
def test_a_tool_takes_the_same_question_for_a_series(scheduler: Scheduler, approval: Any) -> None:
    definition = schedule_task(REMINDER, ())
    values, problems = definition.read().read({"title": "Pay", "repeat": "daily", "approval": approval})
    assert problems == []
    assert scheduler.submit(definition.call(**values)).record.run.state is State.SCHEDULED


def test_a_tool_takes_the_question_of_a_chain_that_repeats_and_its_card_has_the_answers(
    scheduler: Scheduler, store: Store, clock: Clock
) -> None:
    steps: list[Json] = [{"name": "fetch"}, {"name": "mail", "after": ["fetch"]}]
    definition = schedule_task(REMINDER, ())
    given: dict[str, Json] = {
        "title": "Report",
        "repeat": "daily at 13:00",
        "approval": {"question": "Mail it?"},
        "steps": steps,
    }
    values, problems = definition.read().read(given)
    assert problems == []
    chain_id = scheduler.submit(definition.call(**values)).record.task.id
    clock.forward(hours=1)
    assert store.claims.make_ready(limit=9) == []
    card = task_payload(scheduler.get(chain_id))
    assert card.waits is not None
    assert (card.waits[0].kind, card.waits[0].title, card.state) == ("approval", "Mail it?", State.WAITING)
    assert "Waiting for approval of «Mail it?» by the user." in task_text(card)
    assert scheduler.explain(chain_id)[1] == ["fetch: approval of «Mail it?» by the user"]
    rejected = scheduler.act(chain_id, "reject")
    assert rejected.warnings == ("this generation was skipped, which cannot be undone; the chain goes on",)
    assert rejected.record.run.scheduled_for == clock() + timedelta(days=1)


def test_a_task_that_nobody_approved_says_why_it_was_cancelled(
    scheduler: Scheduler, store: Store, clock: Clock
) -> None:
    task_id = scheduler.schedule("Stop", when="in 5 hours", approval=PAY).record.task.id
    clock.forward(hours=2)
    Maintenance(store, MemoryQueue()).step()
    card = task_payload(scheduler.get(task_id))
    why = "nobody answered until Tue 24 Nov 2026 14:00 UTC"
    assert (card.last_run and card.last_run.summary) == why
    assert f"Last run cancelled «{why}»" in task_text(card)


def test_a_task_that_was_rejected_says_who_did_and_why(scheduler: Scheduler) -> None:
    task_id = scheduler.schedule("Pay the invoice", approval=True).record.task.id
    scheduler.reject(task_id, reason="too much")
    card = task_payload(scheduler.get(task_id))
    assert (card.last_run and card.last_run.summary) == "local rejected it: too much"


@pytest.mark.parametrize("answered", [True, False])
def test_a_series_says_why_its_last_occurrence_did_not_run(
    scheduler: Scheduler, store: Store, clock: Clock, answered: bool
) -> None:
    asks: ApprovalRequest = {"question": "Go?", "by": "1 hour"}
    task_id = scheduler.schedule("Back up", repeat="daily at 13:00", approval=asks).record.task.id
    clock.forward(hours=1)
    assert store.claims.make_ready(limit=9) == []
    if answered:
        rejected = task_payload(scheduler.reject(task_id, reason="no way"))
        assert rejected.last_run == task_payload(scheduler.get(task_id)).last_run
    else:
        clock.forward(hours=2)
        Maintenance(store, MemoryQueue()).step()
    card = task_payload(scheduler.get(task_id))
    why = "local rejected it: no way" if answered else "nobody answered until Tue 24 Nov 2026 14:00 UTC"
    assert card.last_run
    assert (card.state, card.last_run.state, card.last_run.summary) == (State.SCHEDULED, State.SKIPPED, why)
    assert f"Last run skipped «{why}»" in task_text(card)
    for changed in (scheduler.reschedule(task_id, labels=["home"]), scheduler.cancel(task_id)):
        assert task_payload(changed).last_run == card.last_run, "an answer says the same of it"


def test_each_answer_of_a_chain_says_why_its_last_generation_did_not_run(
    scheduler: Scheduler, store: Store, clock: Clock
) -> None:
    steps: list[StepArguments] = [{"name": "back-up", "approval": {"question": "Go?", "by": "1 hour"}}]
    chain_id = scheduler.schedule("Nightly", repeat="daily at 13:00", steps=steps).record.task.id
    clock.forward(hours=1)
    assert store.claims.make_ready(limit=9) == []
    clock.forward(hours=2)
    Maintenance(store, MemoryQueue()).step()
    last = task_payload(scheduler.get(chain_id)).last_run
    assert last
    assert last.summary == "nobody answered until Tue 24 Nov 2026 14:00 UTC"
    for changed in (scheduler.reschedule(chain_id, labels=["home"]), scheduler.cancel(chain_id)):
        assert task_payload(changed).last_run == last


def test_a_run_after_one_that_was_rejected_is_the_last(scheduler: Scheduler, store: Store, clock: Clock) -> None:
    task_id = scheduler.schedule("Back up", repeat="daily at 13:00", approval="Go?").record.task.id
    clock.forward(hours=1)
    store.claims.make_ready(limit=9)
    scheduler.reject(task_id)
    clock.forward(hours=24)
    store.claims.make_ready(limit=9)
    scheduler.approve(task_id)
    settled(store, clock(), Done("backed up"))
    card = task_payload(scheduler.get(task_id))
    assert (card.last_run and card.last_run.summary) == "backed up"


def test_the_answer_says_how_before_friday_was_read_for_an_approval_and_for_a_chain(scheduler: Scheduler) -> None:
    by: ApprovalRequest = {"question": "Pay?", "by": "before friday"}
    steps: list[StepArguments] = [{"name": "fetch"}, {"name": "pay", "after": ["fetch"]}]
    asking: list[StepArguments] = [{"name": "fetch"}, {"name": "pay", "after": ["fetch"], "approval": by}]
    task = scheduler.schedule("Pay", when="in 2 days")
    chain = scheduler.schedule("Report", when="tomorrow 9am", steps=steps).chain
    assert chain
    answers = {
        "approval.by: ": (
            scheduler.schedule("Pay", when="in 2 days", approval=by),
            scheduler.schedule("Report", when="tomorrow 9am", steps=asking),
            scheduler.reschedule(task.record.task.id, approval=by),
        ),
        "deadline: ": (
            scheduler.reschedule(chain.id, deadline="before friday", dry_run=True),
            scheduler.reschedule(chain.id, deadline="before friday"),
        ),
        "": (scheduler.reschedule(chain.id, when="the evening before friday"),),
    }
    for of, views in answers.items():
        day = "by the end of Thu 26 Nov 2026" if of else "Thu 26 Nov 2026"
        assert [f"{of}read as {day}" in view.warnings for view in views] == [True] * len(views), of
    lasts: ApprovalRequest = {"question": "Pay?", "by": "2 hours"}
    assert not any(
        "approval.by" in said for said in scheduler.schedule("Buy", when="in 2 days", approval=lasts).warnings
    )
