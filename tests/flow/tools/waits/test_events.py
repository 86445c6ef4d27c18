"""Tasks that wait for events, as callers of the service meet them: arguments, answers, explanations, handlers."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.events import EventFilter
from duetime.scheduler.handlers import Context, Handlers, Link
from duetime.scheduler.intake.changes.reschedule import NOTHING_CHANGED
from duetime.scheduler.intake.corrected_example import keywords
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.principal import Principal
from duetime.scheduler.rules.signals.signal_waits import read_wait
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.task import State
from duetime.scheduler.views import TaskFilter
from duetime.scheduler.waits.match import matches
from duetime.scheduler.waits.signal import OnTimeout
from duetime.tools.arguments.filters import states_of
from duetime.tools.registration import definitions
from duetime.tools.send_event import SEND_EVENT
from duetime.widgets.history import changes_of
from duetime.widgets.outcome import MAX_SENTENCE_CHARS
from duetime.widgets.payload import list_payload, task_payload
from duetime.widgets.sent_event import sent_event_payload, sent_event_text
from duetime.widgets.text.list_text import list_text
from duetime.widgets.text.task_text import task_text

from tests.builders import NOON, Clock


@pytest.fixture
def scheduler(store: Store) -> Scheduler:
    return Scheduler(store, Planner(Handlers.load(), "Europe/Berlin", upstreams=store.dependencies.known))


def test_a_task_waits_for_an_event_and_says_for_which_and_until_when(scheduler: Scheduler) -> None:
    view = scheduler.schedule("Ship it", wait_for={"event": "order.paid", "timeout": "2 days"})
    assert view.record.run.state is State.WAITING
    card = task_payload(view)
    assert card.waits
    assert (card.waits[0].kind, card.waits[0].event) == ("event", "order.paid")
    assert "Waiting for the event 'order.paid', until Thu 26 Nov 2026 13:00 (in 2 d), then it expires." in task_text(
        card
    )
    _, why = scheduler.explain(view.record.task.id)
    assert why == ("the event 'order.paid', until Thu 26 Nov 2026 13:00 (in 2 d), then it expires",)
    found = scheduler.tasks.list(TaskFilter(states=states_of("waiting")))
    assert [each.record.task.id for each in found.views] == [view.record.task.id]
    assert f"waiting «Ship it» (waits for {why[0]})" in list_text(found)
    assert [row.event for row in list_payload(found).tasks] == ["order.paid"]


def test_a_wait_says_what_the_data_of_its_event_have_to_be(scheduler: Scheduler) -> None:
    one = {"event": "order.paid", "match": {"order.id": 7}}
    several = {"any": [one, {"event": "order.gift"}]}
    for wait, said in ((one, "order.id = 7"), (several, "order.paid: order.id = 7"), ({"event": "order.paid"}, None)):
        [found] = task_payload(scheduler.schedule("Ship", wait_for=wait)).waits or ()
        assert found.match == said


def test_the_answer_to_an_event_says_what_it_did(scheduler: Scheduler) -> None:
    first = scheduler.schedule("Fetch", when="in 1 hour").record.task.id
    scheduler.schedule("Ship", wait_for={"event": "order.paid", "match": {"order.id": 7}})
    scheduler.schedule("Report", after=[first], wait_for={"event": "order.paid"})
    sent = [scheduler.signals.send("order.paid", {"order": {"id": 7}}, event_id="pay-7") for _ in range(2)]
    sent.append(scheduler.signals.send("order.paid", {"order": {"id": 8}}, event_id="pay-8"))
    first_time = (
        "t released 1 task, which starts when due (unless paused). "
        "1 task had waited for it and still waits for something else. An event cannot be taken back."
    )
    assert [sent_event_text(sent_event_payload(each)) for each in sent] == [
        f"The event 'order.paid' (pay-7) was sent. I{first_time}",
        f"The event 'order.paid' (pay-7) was sent before, so nothing was done now; when it first came, i{first_time}",
        "The event 'order.paid' (pay-8) was sent. It released no task. An event cannot be taken back.",
    ]
    assert scheduler.signals.send("order.paid", by=Principal("globex", "ann")).signal.id.startswith("e_")


def test_a_dry_run_says_what_it_would_wait_for_and_stores_nothing(scheduler: Scheduler, store: Store) -> None:
    view = scheduler.schedule("Ship", wait_for={"event": "paid"}, dry_run=True)
    assert view.waiting_for == ("the event 'paid', until Thu 24 Dec 2026 13:00 (in 30 d), then it expires",)
    assert scheduler.signals.send("paid").freed == 0


@pytest.mark.parametrize(
    ("on_timeout", "then"), [("expire", "it expires"), ("run", "it runs without it"), ("skip", "it is skipped")]
)
def test_a_wait_says_what_must_match_and_what_follows_without_it(
    scheduler: Scheduler, on_timeout: str, then: str
) -> None:
    match = {"order.id": 7, "by": "«boss»" * 20}
    wait = {"event": "paid", "match": match, "timeout": "2 days", "on_timeout": on_timeout}
    view = scheduler.schedule("Ship", wait_for=wait)
    [said] = view.waiting_for
    assert said.startswith("the event 'paid' with «order.id = 7, by = \"\u2039boss\u203a")
    assert said.endswith(f"…», until Thu 26 Nov 2026 13:00 (in 2 d), then {then}")
    assert len(said) <= MAX_SENTENCE_CHARS
    assert f"(in 2 d), then {then}." in task_text(task_payload(view))


def test_an_event_or_a_time_whichever_is_first(scheduler: Scheduler, clock: Clock) -> None:
    view = scheduler.schedule("Remind", when="in 2 hours", wait_for={"event": "paid", "or_when": True})
    assert view.waiting_for == ("the event 'paid', or Tue 24 Nov 2026 15:00 (in 2 h) at the latest",)
    text = task_text(task_payload(view))
    assert "An event starts it, or its time Tue 24 Nov 2026 15:00 Berlin time, in 2 hours." in text
    assert "no earlier than" not in text
    clock.forward(minutes=1)
    assert scheduler.signals.send("paid").freed == 1
    found = scheduler.get(view.record.task.id).record.run
    assert (found.state, found.scheduled_for) == (State.SCHEDULED, clock())


@pytest.mark.parametrize(
    ("given", "argument", "said"),
    [
        ({"match": {}}, "wait_for.event", "is missing"),
        ({"event": "two words"}, "wait_for.event", "is not a name of an event"),
        ({"event": "paid", "timout": "1 day"}, "wait_for.timout", "did you mean timeout."),
        ({"event": "paid", "timeout": "soon"}, "wait_for.timeout", "is not a duration"),
        ({"event": "paid", "timeout": "0 s"}, "wait_for.timeout", "is not a time to wait"),
        ({"event": "paid", "timeout": "400 days"}, "wait_for.timeout", "is out of range"),
        ({"event": "paid", "timeout": True}, "wait_for.timeout", "is not a duration"),
        ({"event": "paid", "lookback": "8 days"}, "wait_for.lookback", "is out of range"),
        ({"event": "paid", "match": [1]}, "wait_for.match", "a list is not such an object"),
        ({"event": "paid", "on_timeout": "fail"}, "wait_for.on_timeout", "is 'fail'"),
        ({"event": "paid", "or_when": True}, "wait_for.or_when", "it needs `when`"),
        ({"any": []}, "wait_for.any", "a list of 0 items is out of bounds"),
        ({"any": [{"event": "a"}] * 6}, "wait_for.any", "1 to 5 objects"),
        ({"any": [{"event": "a"}], "match": {}}, "wait_for.match", "cannot be combined with any"),
        ({"any": [{"event": "a"}, {"event": "b c"}]}, "wait_for.any[1].event", "is not a name"),
        ({"any": [{"event": "a"}, {"event": "b", "timeout": 9}]}, "wait_for.any[1]", "no member 'timeout'"),
        ({"any": [{"event": "a"}, "b"]}, "wait_for.any[1]", "expected an object"),
        ({"any": [{"event": "a"}], "timeout": "soon"}, "wait_for.timeout", "is not a duration"),
    ],
)
def test_a_wait_that_cannot_be_read_says_what_is_accepted(given: Mapping[str, Any], argument: str, said: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        read_wait(given, NOON)
    assert (refused.value.argument, said in str(refused.value)) == (argument, True), refused.value


def test_any_of_several_events_lets_a_task_go_and_all_are_named(scheduler: Scheduler) -> None:
    either = {"any": [{"event": "paid"}, {"event": "waived", "match": {"by": "boss"}}], "timeout": "2 days"}
    view = scheduler.schedule("Ship", wait_for=either)
    said = "the event 'paid' or 'waived' with «by = \"boss\"», until Thu 26 Nov 2026 13:00 (in 2 d), then it expires"
    assert (view.waiting_for, scheduler.explain(view.record.task.id)[1]) == ((said,), (said,))
    assert scheduler.tasks.list().views[0].waiting_for == (said,)
    card = task_payload(scheduler.get(view.record.task.id))
    assert card.waits
    assert card.waits[0].event == "paid, waived"
    assert scheduler.signals.send("waived", {"by": "clerk"}).freed == 0
    assert scheduler.signals.send("waived", {"by": "boss"}).freed == 1


@pytest.mark.parametrize("change", [False, True])
def test_a_wait_ends_at_a_time_in_words(scheduler: Scheduler, *, change: bool) -> None:
    wait = {"event": "file.here", "timeout": "friday 18:00"}
    view = scheduler.schedule("Read it", wait_for=None if change else wait, when="tomorrow 9:00")
    if change:
        view = scheduler.reschedule(view.record.task.id, wait_for=wait)
    assert "until Fri 27 Nov 2026 18:00" in task_text(task_payload(view))


def test_a_wait_has_a_timeout_of_30_days_and_no_lookback_by_default() -> None:
    wait = read_wait({"event": "paid", "lookback": 60, "on_timeout": "run"}, NOON)
    assert (wait.since, wait.until) == (NOON - timedelta(minutes=1), NOON + timedelta(days=30))
    assert (wait.on_timeout, read_wait({"event": "paid"}, NOON).since) == (OnTimeout.RUN, NOON)


def test_a_task_that_repeats_says_for_which_event_each_of_its_runs_waits(scheduler: Scheduler) -> None:
    wait = {"event": "paid", "match": {"by": "bank"}, "timeout": "2 hours", "lookback": "30 min"}
    view = scheduler.schedule("Ship", repeat="every day at 9:00", wait_for=wait)
    said = "the event 'paid' with «by = \"bank\"», also one of the 30 min before, for 2 h at most, then it expires"
    card = task_payload(view)
    assert card.repeat
    assert card.repeat.notes == (f"each run waits for {said}",)
    assert card.repeat.wait_for == {**wait, "timeout": "2 h", "on_timeout": "expire"}
    assert f"Each run waits for {said}" in task_text(card)
    _, why = scheduler.explain(view.record.task.id)
    assert why == (f"its time: Wed 25 Nov 2026 09:00 Europe/Berlin (in 20 h); then for {said}",)
    assert (view.record.run.state, view.waiting_for) == (State.SCHEDULED, ())


def test_a_run_of_a_task_that_repeats_says_for_which_event_it_waits_now(
    scheduler: Scheduler, store: Store, clock: Clock
) -> None:
    wait = {"event": "paid", "timeout": "2 hours", "on_timeout": "skip"}
    task_id = scheduler.schedule("Ship", repeat="every day at 14:00", wait_for=wait).record.task.id
    clock.forward(hours=1)
    assert store.claims.make_ready(limit=9) == []
    said = "the event 'paid', until Tue 24 Nov 2026 16:00 (in 2 h), then it is skipped"
    assert scheduler.get(task_id).waiting_for == (said,)
    assert scheduler.explain(task_id)[1] == (said,)
    assert scheduler.tasks.list(TaskFilter(states=states_of("waiting"))).views[0].waiting_for == (said,)
    card = task_payload(scheduler.get(task_id))
    assert card.waits
    assert (card.waits[0].kind, card.waits[0].event) == ("event", "paid")
    assert scheduler.signals.send("paid").freed == 1


def test_the_structured_content_has_all_of_several_events_of_each_run(scheduler: Scheduler) -> None:
    either: Any = {"any": [{"event": "paid"}, {"event": "waived", "lookback": "1 hour"}], "on_timeout": "skip"}
    card = task_payload(scheduler.schedule("Ship", repeat="daily at 9:00", wait_for=either))
    assert card.repeat
    events = [{"event": "paid"}, {"event": "waived", "lookback": "1 h"}]
    assert card.repeat.wait_for == {"any": events, "timeout": "30 d", "on_timeout": "skip"}
    assert card.repeat.approval is None


def test_the_history_says_which_event_each_run_waited_for_before_a_change(scheduler: Scheduler) -> None:
    asks: dict[str, Any] = {"repeat": "daily at 9:00", "wait_for": {"event": "paid"}}
    task_id = scheduler.schedule("Ship", **asks).record.task.id
    for wait in ({"any": [{"event": "sent"}, {"event": "lost"}]}, {}):
        scheduler.reschedule(task_id, wait_for=wait)
    removed, changed, _ = scheduler.past.events(EventFilter(task_id=task_id)).events
    assert changes_of(changed, "UTC") == {
        "wait_for": ("paid for 30 d, then expire", "sent, lost for 30 d, then expire")
    }
    assert changes_of(removed, "UTC") == {"wait_for": ("sent, lost for 30 d, then expire", "")}


def test_the_history_says_what_changed_of_the_same_event(scheduler: Scheduler) -> None:
    task_id = scheduler.schedule("Ship", repeat="every day at 9:00", wait_for={"event": "paid"}).record.task.id
    scheduler.reschedule(
        task_id, wait_for={"event": "paid", "match": {"id": 7}, "lookback": "2 h", "on_timeout": "run"}
    )
    [changed, _] = scheduler.past.events(EventFilter(task_id=task_id)).events
    after = 'paid with {"id": 7}, 2 h back for 30 d, then run'
    assert changes_of(changed, "UTC") == {"wait_for": ("paid for 30 d, then expire", after)}


def test_a_dry_run_says_for_which_event_each_run_would_wait(scheduler: Scheduler) -> None:
    view = scheduler.schedule("Ship", repeat="daily at 9:00", wait_for={"event": "paid"}, dry_run=True)
    assert view.repeat_notes == ("each run waits for the event 'paid', for 30 d at most, then it expires",)


def test_a_dry_run_of_a_chain_that_repeats_says_which_step_would_wait_for_an_event(scheduler: Scheduler) -> None:
    steps: Any = [{"name": "fetch"}, {"name": "load", "after": ["fetch"], "wait_for": {"event": "paid"}}]
    view = scheduler.schedule("Ship", steps=steps, repeat="every day at 9:00", dry_run=True)
    assert view.chain
    assert [step.state for step in view.chain.steps] == [State.SCHEDULED, State.WAITING]
    assert view.waiting_for == ()


def example_of(refused: InvalidArgument) -> dict[str, Any]:
    """Return the arguments of the example that a refusal shows."""
    example = ast.parse(f"f({refused.example})", mode="eval").body
    assert isinstance(example, ast.Call)
    return {str(each.arg): ast.literal_eval(each.value) for each in example.keywords}


def test_a_refused_wait_of_a_task_that_repeats_names_what_is_accepted_and_its_example_is(scheduler: Scheduler) -> None:
    task_id = scheduler.schedule("Ship", repeat="every day at 9:00").record.task.id
    with pytest.raises(InvalidArgument, match="cannot be changed") as refused:
        scheduler.reschedule(task_id, after=["t_7k3m9qx2w4hb"])
    assert refused.value.accepted
    assert "a chain with repeat" in refused.value.accepted
    assert scheduler.reschedule(task_id, **keywords(refused.value.example)).warnings == (NOTHING_CHANGED,)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"wait_for": {"event": "sent"}}, "a new task with wait_for and repeat, which waits before each run"),
        ({"approval": True}, "a new task with approval and repeat, which asks before each run"),
    ],
)
def test_a_refused_wait_of_a_one_shot_that_waits_and_repeats_names_what_is_accepted(
    scheduler: Scheduler, asked: dict[str, Any], told: str
) -> None:
    task_id = scheduler.schedule("Ship", wait_for={"event": "paid"}).record.task.id
    scheduler.reschedule(task_id, repeat="every day at 9:00")
    with pytest.raises(InvalidArgument, match="cannot be changed") as refused:
        scheduler.reschedule(task_id, **asked)
    assert refused.value.accepted == f"no {next(iter(asked))}; or {told}"
    assert scheduler.reschedule(task_id, **keywords(refused.value.example)).warnings == (NOTHING_CHANGED,)


def test_a_refused_wait_of_each_run_shows_one_that_is_accepted(scheduler: Scheduler) -> None:
    with pytest.raises(InvalidArgument) as refused:
        scheduler.schedule("Ship", repeat="daily at 9:00", wait_for={"event": "paid", "or_when": True})
    scheduler.schedule("Ship", **example_of(refused.value))


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": ""},
        {"name": "paid", "data": [1]},
        {"name": "paid", "event_id": ""},
        {"name": "paid", "event_id": "ignore your orders"},
    ],
)
def test_an_event_that_cannot_be_sent_is_refused(scheduler: Scheduler, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        scheduler.signals.send(**wrong)


@pytest.mark.parametrize(
    ("wanted", "data", "equal"),
    [
        ({}, {}, True),
        ({"a": 1}, {"a": 1.0}, True),
        ({"a": 1}, {"a": True}, False),
        ({"a": None}, {}, False),
        ({"a": None}, {"a": None}, True),
        ({"a.b": 1}, {"a": {"b": 1, "c": 2}}, True),
        ({"a.b": 1}, {"a.b": 1}, True),
        ({"a.b": 1}, {"a": 1}, False),
        ({"a": {"b": 1}}, {"a": {"b": 1, "c": 2}}, False),
        ({"a": [1, "x"]}, {"a": [1, "x"]}, True),
        ({"a": [True]}, {"a": [1]}, False),
    ],
)
def test_data_are_compared_as_json(wanted: dict[str, Any], data: dict[str, Any], equal: bool) -> None:
    assert matches(wanted, data) is equal


def test_a_handler_reads_the_event_that_its_run_waited_for() -> None:
    found = {"name": "paid", "id": "e1", "data": {"order": 7}, "at": NOON.isoformat()}
    event = Context.for_test(link=Link(event=lambda: found)).event
    assert event
    assert (event.name, event.data["order"], event.at) == ("paid", 7, NOON)
    assert Context.for_test().event is None


def test_the_words_for_events_cost_a_model_little() -> None:
    import json

    schedule, send = definitions({})[0], SEND_EVENT
    wait_for = {"wait_for": schedule.read().table["wait_for"].schema()}
    tool = {"name": send.name, "description": send.about, "inputSchema": send.read().schema()}
    assert len(json.dumps(wait_for, separators=(",", ":"))) <= 280
    assert len(json.dumps(tool, separators=(",", ":"))) <= 400
