"""Many tasks are changed by one call: all of them together, each with its event, and all are taken back by one undo."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from duetime.scheduler.audit.entry import AuditKind
from duetime.scheduler.calls import bulk_change as bulk
from duetime.scheduler.calls.bulk_change import Became, BulkResult, BulkVerb
from duetime.scheduler.delivery import Channels
from duetime.scheduler.errors import DuetimeError, InvalidArgument, Refused, StoreUnavailable, TaskNotFound
from duetime.scheduler.events import EventFilter, EventKind
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.outcomes import Failed, Wait
from duetime.scheduler.principal import Principal
from duetime.scheduler.service.bulk import bulk_targets, bulk_writer
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.task import RetryPolicy, State
from duetime.scheduler.views import TaskFilter
from duetime.server.words.command_words import COMMAND_WORDS
from duetime.widgets.bulk.text import bulk_text

from tests.builders import Clock
from tests.contracts.store.databases import on_each_database
from tests.contracts.store.series.test_store_series import MORNING, Desk, day
from tests.contracts.store.undo.test_store_undo import shown

JOHN = TaskFilter(query="john")


@pytest.fixture
def target(store: Store, clock: Clock) -> Desk:
    clock.at = MORNING
    planner = Planner(Handlers.load(entry_points=False), "Europe/Berlin", channels=Channels())
    return Desk(Scheduler(store, planner), store, clock)


def with_upstreams(target: Desk) -> Desk:
    """Return a desk whose tasks can come after others."""
    planner = Planner(Handlers.load(entry_points=False), "UTC", upstreams=target.store.dependencies.known)
    return replace(target, scheduler=Scheduler(target.store, planner))


def three(target: Desk) -> list[str]:
    """Schedule three tasks, two of them about John."""
    whens = [("Call John", "tomorrow 14:00"), ("Mail John", "tomorrow 15:30"), ("Call Ann", "tomorrow 16:00")]
    return [target.scheduler.schedule(title, when=when).record.task.id for title, when in whens]


def counted(result: BulkResult) -> dict[str, int]:
    return {word.value: count for word, count in result.counts.items()}


def states(target: Desk, ids: list[str]) -> list[State]:
    return [target.scheduler.get(task_id).record.run.state for task_id in ids]


@on_each_database
def test_a_filter_changes_nothing_until_the_call_says_how_many_it_means(target: Desk) -> None:
    ids = three(target)

    looked = target.scheduler.bulk.change("cancel", where=JOHN)
    assert (looked.dry_run, looked.by_filter, counted(looked), looked.undo) == (True, True, {"changed": 2}, None)
    assert states(target, ids) == [State.SCHEDULED] * 3

    with pytest.raises(
        InvalidArgument, match=r"2 tasks match, not 3 \('Call John', 'Mail John'\); nothing was changed"
    ):
        target.scheduler.bulk.change("cancel", where=JOHN, expect=3)
    assert states(target, ids) == [State.SCHEDULED] * 3

    done = target.scheduler.bulk.change("cancel", where=JOHN, expect=2, reason="John is away")
    assert (done.dry_run, counted(done)) == (False, {"changed": 2})
    assert states(target, ids) == [State.CANCELLED, State.CANCELLED, State.SCHEDULED]


@on_each_database
def test_a_cancel_of_the_tasks_of_a_day_says_which_of_them_repeat_and_end_as_a_whole(target: Desk) -> None:
    stretch = target.scheduler.schedule("Stretch", repeat="every day at 14:30").record.task.id
    ids = [three(target)[0], stretch]
    said = "1 repeats: this cancels all coming runs, skip_next of reschedule_task only the next."
    for dry_run in (True, False):
        text = bulk_text(target.scheduler.bulk.change("cancel", ids, dry_run=dry_run))
        assert said in text.splitlines()[0]
        assert [line.endswith("(repeats)") for line in text.splitlines()[2:]] == [False, True]
    once = target.scheduler.schedule("Once", when="tomorrow 9am").record.task.id
    assert "repeat" not in bulk_text(target.scheduler.bulk.change("cancel", [once]))


@on_each_database
def test_a_filter_whose_tasks_another_call_has_changed_says_what_became_of_them(target: Desk) -> None:
    ids = three(target)
    target.scheduler.bulk.change("cancel", where=JOHN, expect=2, reason="John is away")
    with pytest.raises(InvalidArgument, match=r"0 tasks match, not 2, and of those .* there are 2 cancelled, last ch"):
        target.scheduler.bulk.change("cancel", where=JOHN, expect=2)
    target.scheduler.bulk.change("pause", task_ids=ids[2:])
    with pytest.raises(InvalidArgument, match="0 tasks match, not 1, and of those that it matched there is 1 paused"):
        target.scheduler.bulk.change("pause", where=TaskFilter(query="Call Ann"), expect=1)
    target.scheduler.bulk.change("cancel", task_ids=ids[2:])
    with pytest.raises(
        InvalidArgument, match="0 tasks match, not 1, and of those that it matched there is 1 cancelled, last ch"
    ):
        target.scheduler.bulk.change("pause", where=TaskFilter(query="Call Ann"), expect=1)
    with pytest.raises(InvalidArgument, match="0 tasks match, not 1; nothing was changed"):
        target.scheduler.bulk.change("pause", where=TaskFilter(query="no such title"), expect=1)


def test_a_pause_of_many_names_the_hard_deadlines_that_pass_within_it_first(target: Desk) -> None:
    hard: dict[str, Any] = {"when": "in 1 hour", "deadline_type": "hard"}
    soon = target.scheduler.schedule("Soon", deadline="2 hours", **hard).record.task.id
    late = target.scheduler.schedule("Late", deadline="2 days", **hard).record.task.id
    free = target.scheduler.schedule("Free", when="in 1 hour").record.task.id
    for dry_run in (True, False):
        done = target.scheduler.bulk.change("pause", task_ids=[free, late, soon], to="in 1 day", dry_run=dry_run)
        said = {each.record.task.title: each.why for each in done.outcomes}
        assert next(iter(said)) == "Soon"
        assert (said.pop("Soon") or "").startswith("its hard deadline Mon 23 Nov 2026 12:00 passes first")
        assert said == {"Free": None, "Late": None}


@on_each_database
@pytest.mark.parametrize(
    "call",
    [
        {"change": "cancel"},
        {"change": "pause"},
        {"change": "move", "to": "1 day later"},
        {"change": "move", "to": "next friday"},
    ],
)
def test_one_undo_takes_all_of_it_back_as_if_it_had_not_been(target: Desk, call: dict[str, str]) -> None:
    ids = three(target)
    before = [shown(target.scheduler.get(task_id)) for task_id in ids]

    done = target.scheduler.bulk.change(task_ids=ids, **call)  # type: ignore[arg-type]  # the words of a verb
    assert counted(done) == {"changed": 3}
    assert [shown(target.scheduler.get(task_id)) for task_id in ids] != before
    target.clock.at += timedelta(minutes=9)
    back = target.scheduler.bulk.change("undo", undo=done.undo)

    assert (back.verb, counted(back)) == (BulkVerb.UNDO, {"changed": 3})
    assert [shown(target.scheduler.get(task_id)) for task_id in ids] == before
    assert target.scheduler.bulk.change("undo", undo=done.undo).repeated


@pytest.mark.parametrize("change", ["cancel", "pause", "move"])
@pytest.mark.parametrize("last_named_first", [False, True])
def test_tasks_one_behind_another_are_changed_although_the_task_between_them_is_not_named(
    target: Desk, change: str, last_named_first: bool
) -> None:
    desk = with_upstreams(target)
    first = desk.scheduler.schedule("First", when="in 3 hours").record.task.id
    between = desk.scheduler.schedule("Between", when="in 2 hours", after=[first]).record.task.id
    last = desk.scheduler.schedule("Last", when="in 1 hour", after=[between]).record.task.id
    before = states(desk, [first, between, last])

    named = [last, first] if last_named_first else [first, last]
    done = desk.scheduler.bulk.change(change, named, **({"to": "in 5 hours"} if change == "move" else {}))  # type: ignore[arg-type]  # a word and its argument
    assert counted(done) == {"changed": 2}
    if change == "cancel":
        assert states(desk, [first, between, last]) == [State.CANCELLED] * 3

    assert counted(desk.scheduler.bulk.change("undo", undo=done.undo)) == {"changed": 2}
    assert states(desk, [first, between, last]) == before


def test_a_replay_brings_a_task_back_that_is_named_too_although_the_task_between_them_is_not(target: Desk) -> None:
    desk = with_upstreams(target)
    first = desk.scheduler.schedule("First", when="in 1 hour", retry=RetryPolicy(max_attempts=1)).record.task.id
    between = desk.scheduler.schedule("Between", when="in 2 hours", after=[first]).record.task.id
    last = desk.scheduler.schedule("Last", when="in 3 hours", after=[between]).record.task.id
    desk.clock.forward(hours=1)
    desk.end(desk.start(), Failed("no rows"))
    assert states(desk, [first, between, last]) == [State.FAILED] * 3

    done = desk.scheduler.bulk.change("replay", [last, first])
    assert counted(done) == {"changed": 1, "refused": 1}
    assert states(desk, [between, last]) == [State.WAITING] * 2


def test_an_undo_ends_with_its_window(target: Desk) -> None:
    done = target.scheduler.bulk.change("cancel", three(target))
    assert done.undo_until == target.clock.at + timedelta(minutes=10)
    target.clock.at += timedelta(minutes=10, seconds=6)

    with pytest.raises(Refused, match="older than 10 minutes"):
        target.scheduler.bulk.change("undo", undo=done.undo)


def undo_call(done: BulkResult, **known_by: Any) -> dict[str, Any]:
    return {"change": "undo", "undo": done.undo, **known_by}


@pytest.mark.parametrize("known_by", [{"idempotency_key": "back"}, {"raw": {"change": "undo", "undo": "it"}}])
def test_a_repeated_undo_is_answered_as_the_first_and_takes_nothing_back_again(
    target: Desk, known_by: dict[str, Any]
) -> None:
    ids = three(target)
    done = target.scheduler.bulk.change("move", ids, to="1 day later")
    first = target.scheduler.bulk.change(**undo_call(done, **known_by))
    target.scheduler.reschedule(ids[0], when="tomorrow 20:00")
    moved = shown(target.scheduler.get(ids[0]))
    again = target.scheduler.bulk.change(**undo_call(done, **known_by))

    assert (first.repeated, again.repeated, counted(first), counted(again)) == (
        *(False, True),
        *({"changed": 3}, {"changed": 3}),
    )
    assert [each.record.task.id for each in again.outcomes] == ids
    assert bulk_text(again).startswith("The same call did this already. Took back the change of 3 tasks.")
    assert shown(target.scheduler.get(ids[0])) == moved


def test_a_dry_run_of_an_undo_is_refused_and_takes_nothing_back(target: Desk) -> None:
    ids = three(target)
    done = target.scheduler.bulk.change("cancel", ids)
    with pytest.raises(InvalidArgument, match="dry_run: an undo has no dry run"):
        target.scheduler.bulk.change(**undo_call(done, dry_run=True))
    assert states(target, ids) == [State.CANCELLED] * 3


def test_an_undo_with_another_key_is_refused_after_the_change_was_taken_back(target: Desk) -> None:
    done = target.scheduler.bulk.change("cancel", three(target))
    target.scheduler.bulk.change(**undo_call(done, idempotency_key="one"))
    for known_by in ({"idempotency_key": "two"}, {"raw": {"undo": "it"}}, {}):
        with pytest.raises(Refused, match="this change was taken back already"):
            target.scheduler.bulk.change(**undo_call(done, **known_by))


def test_a_key_of_an_undo_is_known_after_the_undo_window_and_arguments_within_it(target: Desk) -> None:
    raw = {"raw": {"change": "undo", "undo": "it"}}
    done = [target.scheduler.bulk.change("pause", three(target)) for _ in range(2)]
    calls = [undo_call(done[0], idempotency_key="back"), undo_call(done[1], **raw)]
    for call in calls:
        target.scheduler.bulk.change(**call)
    target.clock.at += timedelta(seconds=61)
    assert target.scheduler.bulk.change(**calls[1]).repeated
    target.clock.at += timedelta(days=1)
    with pytest.raises(Refused, match="older than 10 minutes"):
        target.scheduler.bulk.change(**calls[1])
    assert target.scheduler.bulk.change(**calls[0]).repeated
    with pytest.raises(InvalidArgument, match="another call"):
        target.scheduler.bulk.change(**undo_call(done[1], idempotency_key="back"))


def test_an_undo_by_its_arguments_is_no_repeat_once_the_same_change_was_made_again(target: Desk) -> None:
    ids = three(target)
    for _ in range(2):
        done = target.scheduler.bulk.change("cancel", ids, raw={"change": "cancel", "task_ids": ids})
        back = target.scheduler.bulk.change(**undo_call(done, raw={"change": "undo", "undo": done.undo}))
        assert (back.repeated, states(target, ids)) == (False, [State.SCHEDULED] * 3)


@on_each_database
def test_an_undo_that_was_cut_off_is_finished_by_its_repeat(target: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = three(target)
    monkeypatch.setattr(bulk_writer, "MAX_TASKS_AT_ONCE", 2)
    done = target.scheduler.bulk.change("cancel", ids)
    change, calls = target.store.batches.change, list[int]()

    def once(*args: object, **kwargs: object) -> object:
        if not kwargs.get("dry_run"):
            calls.append(1)
        if len(calls) == 2:
            raise ConnectionError
        return change(*args, **kwargs)  # type: ignore[arg-type]  # the arguments of a call, handed on

    monkeypatch.setattr(target.store.batches, "change", once)
    with pytest.raises(ConnectionError):
        target.scheduler.bulk.change(**undo_call(done, idempotency_key="back"))
    assert sorted(states(target, ids)) == [State.CANCELLED, State.SCHEDULED, State.SCHEDULED]

    rest = target.scheduler.bulk.change(**undo_call(done, idempotency_key="back"))
    assert (rest.repeated, counted(rest), states(target, ids)) == (True, {"changed": 3}, [State.SCHEDULED] * 3)


def test_an_undo_leaves_what_was_changed_again_as_it_is(target: Desk) -> None:
    ids = three(target)
    done = target.scheduler.bulk.change("pause", ids)
    target.scheduler.reschedule(ids[0], title="Call John now")

    back = target.scheduler.bulk.change("undo", undo=done.undo)
    assert counted(back) == {"refused": 1, "changed": 2}
    assert "was changed again since" in (back.outcomes[0].why or "")
    assert [target.scheduler.get(task_id).record.task.paused for task_id in ids] == [True, False, False]


def test_each_task_moved_to_a_day_keeps_its_time_of_day(target: Desk) -> None:
    ids = three(target)
    moved = target.scheduler.bulk.change("move", ids, to="2026-12-24")

    assert counted(moved) == {"changed": 3}
    local = [each.record.run.scheduled_for.strftime("%d %H:%M") for each in moved.outcomes]
    assert local == ["24 13:00", "24 14:30", "24 15:00"]  # Berlin is an hour ahead


def test_a_move_by_days_keeps_the_wall_time_when_the_clocks_change(target: Desk) -> None:
    task_id = target.scheduler.schedule("Standup", when="2027-03-27T09:00").record.task.id

    done = target.scheduler.bulk.change("move", [task_id], to="1 day later")
    assert done.outcomes[0].record.run.scheduled_for.isoformat() == "2027-03-28T07:00:00+00:00"
    back = target.scheduler.bulk.change("move", [task_id], to="24 hours earlier")
    assert back.outcomes[0].record.run.scheduled_for.isoformat() == "2027-03-27T07:00:00+00:00"


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_move_into_an_hour_that_the_clocks_skip_says_which_time_is_used(target: Desk, dry_run: bool) -> None:
    task_id = target.scheduler.schedule("Standup", when="2027-03-27T02:30").record.task.id
    moved = target.scheduler.bulk.change("move", [task_id], to="1 day later", dry_run=dry_run)
    note = "02:30 does not exist on Sun 28 Mar 2027 in Europe/Berlin (clocks go forward): 03:00, the first valid time"
    assert note in (moved.outcomes[0].why or "")
    assert note in bulk_text(moved)


def test_a_task_that_refuses_stays_and_the_answer_says_why_first(target: Desk) -> None:
    ids = three(target)
    target.scheduler.cancel(ids[2])

    done = target.scheduler.bulk.change("move", ids, to="2 hours later")
    assert counted(done) == {"refused": 1, "changed": 2}
    first = done.outcomes[0]
    assert (first.record.task.id, first.became) == (ids[2], Became.REFUSED)
    assert "was cancelled" in (first.why or "")


def test_a_task_whose_handler_waits_for_an_event_refuses_a_move_and_the_others_are_moved(target: Desk) -> None:
    waiting, other = (target.schedule(when=when) for when in ("tomorrow 9:00", "tomorrow 16:00"))
    target.clock.at = day(2, 9)
    target.end(target.start(), Wait(event="paid", timeout=timedelta(days=1)))

    done = target.scheduler.bulk.change("move", [other, waiting], to="1 day later")

    assert counted(done) == {"changed": 1, "refused": 1}
    assert done.outcomes[0].record.task.id == waiting
    assert "waits for the event 'paid'" in (done.outcomes[0].why or "")
    assert target.get(other).record.run.scheduled_for == day(3, 15)


def test_a_task_that_has_it_already_is_unchanged_and_a_filter_leaves_it_out(target: Desk) -> None:
    ids = three(target)
    target.scheduler.reschedule(ids[0], pause=True)

    assert counted(target.scheduler.bulk.change("pause", ids, dry_run=True)) == {"unchanged": 1, "changed": 2}
    assert counted(target.scheduler.bulk.change("pause", where=TaskFilter())) == {"changed": 2}
    assert counted(target.scheduler.bulk.change("resume", where=TaskFilter())) == {"changed": 1}


def test_an_unknown_id_stops_the_whole_call(target: Desk) -> None:
    ids = three(target)
    with pytest.raises(TaskNotFound):
        target.scheduler.bulk.change("cancel", [*ids, "t_7k3m9qx2w4hb"])
    assert states(target, ids) == [State.SCHEDULED] * 3


def test_tasks_of_another_tenant_are_neither_found_nor_taken_back(target: Desk) -> None:
    ids = three(target)
    other = Principal(tenant="b", user="eve")
    done = target.scheduler.bulk.change("pause", ids)

    with pytest.raises(TaskNotFound):
        target.scheduler.bulk.change("cancel", ids, by=other)
    assert target.scheduler.bulk.change("cancel", where=TaskFilter(), by=other).outcomes == ()
    with pytest.raises(Refused):
        target.scheduler.bulk.change("undo", undo=done.undo, by=other)


@on_each_database
def test_each_task_has_its_event_and_the_call_one_audit_entry(target: Desk) -> None:
    ids = three(target)
    done = target.scheduler.bulk.change("cancel", ids, reason="the fair is off")

    events = target.scheduler.past.events(EventFilter(kind=EventKind.CANCELLED)).events
    assert Counter(event.task_id for event in events) == Counter(ids)
    assert {event.reason for event in events} == {"the fair is off"}
    (entry,) = target.scheduler.past.audit().entries
    assert (entry.kind, entry.subject, entry.reason) == (AuditKind.TASKS_CHANGED, done.undo, "the fair is off")
    assert entry.detail is not None
    assert (entry.detail["change"], entry.detail["changed"], entry.detail["tasks"]) == ("cancel", 3, ids)


@on_each_database
def test_a_repeated_call_changes_nothing_again(target: Desk) -> None:
    ids = three(target)
    first = target.scheduler.bulk.change("move", ids, to="1 day later", idempotency_key="k")
    again = target.scheduler.bulk.change("move", ids, to="1 day later", idempotency_key="k")

    assert (again.repeated, again.undo, counted(again)) == (True, first.undo, counted(first))
    assert again.outcomes[0].record.run.scheduled_for == day(3, 13)
    with pytest.raises(InvalidArgument, match="another call"):
        target.scheduler.bulk.change("move", ids, to="2 days later", idempotency_key="k")


def test_a_blind_repeat_within_a_minute_moves_nothing_twice(target: Desk) -> None:
    ids = three(target)
    raw = {"change": "move", "task_ids": ids, "to": "1 day later"}
    for _ in range(2):
        target.scheduler.bulk.change("move", ids, to="1 day later", raw=raw)
    assert target.scheduler.get(ids[0]).record.run.scheduled_for == day(3, 13)

    target.clock.at += timedelta(seconds=61)
    target.scheduler.bulk.change("move", ids, to="1 day later", raw=raw)
    assert target.scheduler.get(ids[0]).record.run.scheduled_for == day(4, 13)


@on_each_database
def test_a_call_that_was_cut_off_is_finished_by_its_repeat(target: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = three(target)
    monkeypatch.setattr(bulk_writer, "MAX_TASKS_AT_ONCE", 2)
    change, calls = target.store.batches.change, list[int]()

    def once(*args: object, **kwargs: object) -> object:
        calls.append(1)
        if len(calls) == 2:
            raise ConnectionError
        return change(*args, **kwargs)  # type: ignore[arg-type]  # the arguments of a call, handed on

    monkeypatch.setattr(target.store.batches, "change", once)
    with pytest.raises(ConnectionError):
        target.scheduler.bulk.change("move", ids, to="1 day later", idempotency_key="k")
    assert len({target.scheduler.get(task_id).record.run.scheduled_for.day for task_id in ids}) == 2

    rest = target.scheduler.bulk.change("move", ids, to="1 day later", idempotency_key="k")
    assert counted(rest) == {"changed": 3}
    assert len({target.scheduler.get(task_id).record.run.scheduled_for.day for task_id in ids}) == 1
    target.clock.at += timedelta(minutes=1)
    assert counted(target.scheduler.bulk.change("undo", undo=rest.undo)) == {"changed": 3}


@on_each_database
@pytest.mark.parametrize("problem", [StoreUnavailable, KeyboardInterrupt])
def test_a_call_without_a_key_that_is_cut_off_says_what_it_did_and_how_that_is_taken_back(
    target: Desk, monkeypatch: pytest.MonkeyPatch, problem: type[BaseException]
) -> None:
    ids = three(target)
    monkeypatch.setattr(bulk_writer, "MAX_TASKS_AT_ONCE", 2)
    change, calls = target.store.batches.change, list[int]()

    def failing(*args: object, **kwargs: object) -> object:
        calls.append(1)
        if len(calls) in {1, 3}:
            raise problem("The database is busy.")
        return change(*args, **kwargs)  # type: ignore[arg-type]  # the arguments of a call, handed on

    with monkeypatch.context() as patched:
        patched.setattr(target.store.batches, "change", failing)
        with pytest.raises(problem) as nothing_done:
            target.scheduler.bulk.change("cancel", ids)
        with pytest.raises(problem) as cut_off:
            target.scheduler.bulk.change("cancel", ids)
    assert said(nothing_done.value) == "The database is busy."
    assert "2 tasks are changed already" in said(cut_off.value)
    [token] = re.findall(r"u_b\w+", said(cut_off.value))
    assert getattr(cut_off.value, "undo", token) == token
    assert counted(target.scheduler.bulk.change("undo", undo=token)) == {"changed": 2}
    assert states(target, ids) == [State.SCHEDULED] * 3


def said(error: BaseException) -> str:
    """Return what a person reads of an error at a command line, with its notes."""
    text = error.text_in(COMMAND_WORDS) if isinstance(error, DuetimeError) else str(error)
    return " ".join([text, *getattr(error, "__notes__", [])])


@on_each_database
def test_a_transaction_that_fails_changes_no_task(target: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = three(target)

    def fails(*_: object) -> None:
        raise ConnectionError

    monkeypatch.setattr("duetime.scheduler.store.bulk.undo_records.store", fails)
    with pytest.raises(ConnectionError):
        target.scheduler.bulk.change("cancel", ids)
    assert states(target, ids) == [State.SCHEDULED] * 3


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        ({"change": "move"}, "to"),
        ({"change": "cancel", "to": "friday"}, "to"),
        ({"change": "move", "task_ids": [], "to": "whenever"}, "to"),
        ({"change": "undo"}, "undo"),
        ({"change": "cancel", "undo": "u_b1"}, "undo"),
        ({"change": "cancel", "task_ids": ["t_7k3m9qx2w4hb"], "where": JOHN}, "task_ids"),
        ({"change": "destroy"}, "change"),
    ],
)
def test_a_call_that_contradicts_itself_is_refused(target: Desk, call: dict[str, object], argument: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        target.scheduler.bulk.change(**call)  # type: ignore[arg-type]  # what no type checker would pass
    assert refused.value.argument == argument


@on_each_database
def test_a_filter_that_matches_more_than_one_call_changes_is_refused(
    target: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    three(target)
    monkeypatch.setattr(bulk_targets, "MAX_TASKS_CHANGED", 2)
    with pytest.raises(InvalidArgument, match="more than 2 tasks match"):
        target.scheduler.bulk.change("cancel", where=TaskFilter(), expect=3)
    assert bulk.MAX_TASKS_CHANGED == 10_000


@on_each_database
def test_words_mean_what_is_to_come_and_the_answer_says_how_they_were_read(target: Desk) -> None:
    ids = three(target)
    target.scheduler.reschedule(ids[1], timezone="America/New_York", when="2026-11-24 09:30")
    looked = target.scheduler.bulk.change("move", to="1 day later", after="tomorrow 15:00", before="tomorrow 17:00")
    assert [each.record.task.title for each in looked.outcomes] == ["Mail John", "Call Ann"]
    window = "from Tue 24 Nov 2026 15:00 to Tue 24 Nov 2026 17:00 Europe/Berlin"
    assert f"It means what is due {window}. " in bulk_text(looked)
    held = target.scheduler.bulk.change("pause", [ids[1]], to="tomorrow 16:00")
    assert bulk_text(held).startswith("Paused 1 task until Tue 24 Nov 2026 16:00 Europe/Berlin.")
    alone = target.scheduler.bulk.change("cancel", after="friday")
    assert alone.after is not None
    assert alone.after > alone.now


def test_an_undo_that_every_task_refuses_is_refused_and_stays_so_without_being_done(target: Desk) -> None:
    ids = three(target)
    done = target.scheduler.bulk.change("move", ids, to="1 day later")
    for task_id in ids:
        target.scheduler.reschedule(task_id, when="tomorrow 20:00")
    moved = [shown(target.scheduler.get(task_id)) for task_id in ids]
    for known_by in ({}, {"idempotency_key": "back"}, {}):
        with pytest.raises(Refused, match=r"nothing was taken back, as each of 3 tasks refuses it; .* stays"):
            target.scheduler.bulk.change(**undo_call(done, **known_by))
    assert [shown(target.scheduler.get(task_id)) for task_id in ids] == moved


@pytest.mark.parametrize("pause_s", [61, 1])
def test_the_undo_of_a_call_stays_when_the_same_call_changes_other_tasks_later(target: Desk, pause_s: int) -> None:
    ids, call = three(target), {"change": "cancel", "label": "fair"}
    undo = list[str]()
    for task_id in ids:
        done = target.scheduler.bulk.change("cancel", [task_id], raw=call)
        target.clock.at += timedelta(seconds=pause_s)
        assert done.undo
        undo.append(done.undo)
        target.scheduler.reschedule(task_id, labels=["over"])  # the call is over: the next one repeats nothing
    assert len({*undo}) == len(ids)
    for token in undo:
        target.scheduler.bulk.change("undo", undo=token)
    assert states(target, ids) == [State.SCHEDULED] * len(ids)


@pytest.mark.parametrize("changed_again", [3, 1])
def test_an_undo_of_several_transactions_is_refused_only_where_each_task_refuses_it(
    target: Desk, monkeypatch: pytest.MonkeyPatch, changed_again: int
) -> None:
    monkeypatch.setattr(bulk_writer, "MAX_TASKS_AT_ONCE", 1)
    ids = three(target)
    done = target.scheduler.bulk.change("move", ids, to="1 day later")
    target.clock.at += timedelta(minutes=1)
    for task_id in ids[:changed_again]:
        target.scheduler.reschedule(task_id, when="tomorrow 20:00")
    if changed_again == len(ids):
        with pytest.raises(Refused, match="nothing was taken back, as each of 3 tasks"):
            target.scheduler.bulk.change(**undo_call(done))
        return
    first, again = (target.scheduler.bulk.change(**undo_call(done)) for _ in range(2))
    assert counted(first) == counted(again) == {"changed": 2, "refused": 1}
    assert (first.repeated, again.repeated) == (False, True)


def test_a_repeated_undo_without_a_key_is_answered_as_the_first_while_that_could_be_made(target: Desk) -> None:
    done = target.scheduler.bulk.change("cancel", three(target))
    first = target.scheduler.bulk.change(**undo_call(done))
    target.clock.at += timedelta(minutes=9)
    again = target.scheduler.bulk.change(**undo_call(done))
    assert (first.repeated, again.repeated, counted(again)) == (False, True, {"changed": 3})
    target.clock.at += timedelta(minutes=2)
    with pytest.raises(Refused, match="older than 10 minutes"):
        target.scheduler.bulk.change(**undo_call(done))


@on_each_database
def test_a_filter_that_means_too_many_is_named_and_its_first_part_is_accepted(
    target: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_targets, "MAX_TASKS_CHANGED", 3)
    for minutes in range(5):
        target.scheduler.schedule("Push", when=f"in {minutes + 10} min", labels=["bulk"])
    of_label = TaskFilter(label="bulk")
    with pytest.raises(InvalidArgument, match=r"^label: more than 3 tasks match label='bulk'") as refused:
        target.scheduler.bulk.change("pause", where=of_label)
    before = str(refused.value).partition("before='")[2].partition("'")[0]
    looked = target.scheduler.bulk.change("pause", where=of_label, before=before)
    assert (looked.dry_run, counted(looked)) == (True, {"changed": 3})
