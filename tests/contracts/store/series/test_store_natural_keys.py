"""Natural keys: one occurrence has one key, and a call for work that stands returns its task."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from random import Random
from typing import Any

import pytest
from duetime.scheduler.audit.entry import AuditEntry, AuditKind
from duetime.scheduler.errors import IdempotencyConflict, InvalidArgument, InvalidArguments, Refused
from duetime.scheduler.events import EventKind
from duetime.scheduler.handlers import Context, Handlers
from duetime.scheduler.handlers.context import Link
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.outcomes import Done, Failed, Outcome, Retry
from duetime.scheduler.principal import Principal
from duetime.scheduler.records import Change
from duetime.scheduler.request import Request
from duetime.scheduler.rules.series.first_side_run import first_side_run
from duetime.scheduler.run_records import Claim, Start
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.task import RetryPolicy, Run, State
from duetime.scheduler.views import due_at
from duetime.scheduler.waits.fire_address import FireAddress, FireToken
from duetime.scheduler.waits.signal import ReceivedSignal

from tests.builders import LEASE, Clock, runs_of
from tests.contracts.store.databases import on_each_database
from tests.contracts.store.desk import MORNING, Desk, at
from tests.search import FIRST_SEED, examples, walks

TEMPLATE = "{tenant}:{label.account}:{window}"
HOURLY: dict[str, Any] = {"repeat": "every hour at :00", "labels": ["account:acme"], "idempotency_key": TEMPLATE}
ONCE: dict[str, Any] = {"when": "in 59 minutes", "labels": ["account:acme"], "idempotency_key": TEMPLATE}


@pytest.fixture
def desk(store: Store, clock: Clock) -> Desk:
    clock.at = MORNING + timedelta(minutes=1)
    planner = Planner(Handlers.load(entry_points=False), "UTC", upstreams=store.dependencies.known)
    return Desk(Scheduler(store, planner), store, clock)


def key(claim: Claim) -> str:
    return Context.of(claim.task, claim.run, worker="w", link=Link()).idempotency_key


def schedule(desk: Desk, given: dict[str, Any], title: str = "Invoice", user: str = "local") -> str:
    return desk.scheduler.schedule(title, by=Principal("local", user), **given).record.task.id


# -- the key of a run


def test_each_occurrence_has_a_key_of_its_own_by_its_time(desk: Desk) -> None:
    schedule(desk, HOURLY)
    [first] = desk.start(9)
    desk.end([first])
    [second] = desk.start(10)
    assert (key(first), key(second)) == ("local:acme:2026-11-23T09:00Z", "local:acme:2026-11-23T10:00Z")


def test_attempts_and_a_replay_of_what_failed_have_the_key_of_their_occurrence(desk: Desk) -> None:
    schedule(desk, {**HOURLY, "retry": RetryPolicy(2, timedelta(seconds=1), timedelta(seconds=1))})
    [first] = desk.start(9)
    desk.end([first], Retry("away"))
    [again] = desk.start(9, 1)
    desk.end([again], Failed("away"))
    desk.clock.at = at(11, 30)
    desk.scheduler.letters.replay([again.run.id])
    found = desk.start(11, 31)
    assert [key(each) for each in found if each.run.repeats] == [key(first)] == [key(again)]


def test_run_now_does_again_what_failed_last_and_is_an_occurrence_of_its_own_after_a_success(desk: Desk) -> None:
    task_id = schedule(desk, HOURLY)
    [failed] = desk.start(9)
    desk.end([failed], Failed("away"))
    desk.clock.at = at(9, 10)
    desk.scheduler.act(task_id, "run_now")
    [again] = desk.start(9, 10)
    assert key(again) == key(failed)
    assert again.run.repeats == failed.run.id
    desk.end([again])
    desk.clock.at = at(9, 20).replace(second=5, microsecond=7)
    desk.scheduler.act(task_id, "run_now")
    [extra] = desk.start(9, 21)
    assert key(extra) == "local:acme:2026-11-23T09:20:05.000007Z"


def test_a_letter_of_a_series_is_closed_when_its_run_is_run_again_by_hand(desk: Desk) -> None:
    task_id = desk.hourly()
    [failed] = desk.start(9)
    desk.end([failed], Failed("away"))
    desk.scheduler.act(task_id, "run_now")
    [again] = desk.start(9, 10)
    assert (again.run.repeats, key(again)) == (failed.run.id, key(failed))
    assert desk.scheduler.letters.page()[0] == []


@pytest.mark.parametrize("given", [HOURLY, ONCE])
def test_a_snooze_and_its_undo_leave_an_occurrence_its_key(desk: Desk, given: dict[str, Any]) -> None:
    task_id = schedule(desk, given)
    snoozed = desk.scheduler.act(task_id, "snooze", minutes=17)
    desk.scheduler.act(task_id, "undo", undo=snoozed.undo)
    desk.scheduler.act(task_id, "snooze", minutes=5)
    [claim] = desk.start(9, 5)
    assert key(claim) == "local:acme:2026-11-23T09:00Z"


@pytest.mark.parametrize("given", [HOURLY, ONCE])
def test_an_outcome_that_is_snoozed_comes_again_under_its_key(desk: Desk, given: dict[str, Any]) -> None:
    task_id = schedule(desk, given)
    [fired] = desk.start(9)
    desk.end([fired])
    desk.clock.at = at(9, 1)
    desk.scheduler.act(task_id, "snooze", minutes=10)
    [again] = desk.start(9, 11)
    assert key(again) == key(fired)
    assert again.run.id != fired.run.id


@pytest.mark.parametrize("given", [HOURLY, ONCE])
def test_an_undone_cancel_restores_the_key(desk: Desk, given: dict[str, Any]) -> None:
    task_id = schedule(desk, given)
    desk.scheduler.act(task_id, "snooze", minutes=3)
    desk.scheduler.act(task_id, "undo", undo=desk.scheduler.cancel(task_id).undo)
    [claim] = desk.start(9, 3)
    assert key(claim) == "local:acme:2026-11-23T09:00Z"


def test_a_one_off_keeps_its_key_when_it_is_moved_and_run_again(desk: Desk) -> None:
    task_id = schedule(desk, ONCE)
    desk.scheduler.reschedule(task_id, when="in 2 hours")
    [first] = desk.start(10, 2)
    desk.end([first])
    desk.scheduler.act(task_id, "run_now")
    [again] = desk.start(10, 3)
    assert key(first) == key(again) == "local:acme:2026-11-23T09:00Z"


@on_each_database
def test_a_series_that_is_moved_as_a_whole_has_the_windows_of_its_new_rule_and_the_old_ones_after_an_undo(
    desk: Desk,
) -> None:
    task_id = schedule(desk, {**HOURLY, "repeat": "every day at 9:00"})
    moved = desk.scheduler.reschedule(task_id, when="10:30", all_following=True)
    assert moved.record.run.occurrence == at(10, 30)
    back = desk.scheduler.act(task_id, "undo", undo=moved.undo)
    assert back.record.run.occurrence == at(9)


@on_each_database
def test_an_undone_skip_restores_the_window_of_what_was_skipped(desk: Desk) -> None:
    task_id = schedule(desk, HOURLY)
    skipped = desk.scheduler.act(task_id, "skip_next")
    assert skipped.record.run.occurrence == at(10)
    desk.scheduler.act(task_id, "undo", undo=skipped.undo)
    [claim] = desk.start(9)
    assert key(claim) == "local:acme:2026-11-23T09:00Z"


def test_a_worker_that_died_leaves_the_next_attempt_the_same_key(desk: Desk) -> None:
    schedule(desk, HOURLY)
    [first] = desk.start(9, epoch=desk.store.runners.take_over(pid=1, endpoint="", token=""))
    epoch = desk.store.runners.take_over(pid=2, endpoint="", token="")
    desk.recover(epoch)
    [again] = desk.start(9, 1, epoch=epoch)
    assert (again.run.attempt, key(again)) == (2, key(first))


def test_two_tasks_under_one_template_have_the_same_key_in_the_same_window(desk: Desk) -> None:
    first = schedule(desk, HOURLY)
    token = desk.scheduler.cancel(first).undo
    second = schedule(desk, HOURLY)
    desk.scheduler.act(first, "undo", undo=token)
    claims = desk.start(9)
    assert {each.task.id for each in claims} == {first, second}
    assert [key(each) for each in claims] == ["local:acme:2026-11-23T09:00Z"] * 2


def test_a_task_without_a_template_keeps_no_occurrence(desk: Desk) -> None:
    task_id = schedule(desk, {**HOURLY, "idempotency_key": "plain"})
    desk.scheduler.act(task_id, "snooze", minutes=1)
    desk.scheduler.act(task_id, "run_now")
    assert {run.occurrence for run in runs_of(desk.store, task_id)} == {None}
    assert desk.scheduler.get(task_id).record.task.key_template is None


def test_a_one_off_that_waits_for_another_keeps_the_window_of_its_first_time(desk: Desk) -> None:
    first = desk.scheduler.schedule("First", when="in 1 hour").record.task.id
    schedule(desk, {**ONCE, "after": [first]})
    [upstream] = desk.start(9, 1)
    desk.clock.at = at(9, 30)
    desk.end([upstream])
    [claim] = desk.start(9, 31)
    assert key(claim) == "local:acme:2026-11-23T09:00Z"


@pytest.mark.parametrize("given", [HOURLY, ONCE, {"when": "in 59 minutes"}])
def test_each_call_of_a_fire_address_is_a_matter_of_its_own_also_after_a_failure(
    desk: Desk, given: dict[str, Any]
) -> None:
    task_id = schedule(desk, given)
    token = FireToken.new()
    address = FireAddress(token.id, "local", task_id, token.digest, desk.clock(), "ann")
    desk.store.fire_addresses.add(
        address, AuditEntry("local", AuditKind.FIRE_ADDRESS_MADE, "ann", task_id), renew=False
    )
    keys = []
    outcomes: list[Outcome] = [Failed("away"), Failed("away"), Done("sent"), Done("sent")]
    for number, outcome in enumerate(outcomes):
        [claim] = desk.start(9, number)
        desk.end([claim], outcome)
        keys.append(key(claim))
        desk.store.fire_addresses.fire(address, ReceivedSignal("", f"e{number}", {}), via=None)
    assert len(set(keys)) == 4


def test_a_task_that_failed_with_another_one_and_waits_for_its_replay_keeps_its_key(desk: Desk) -> None:
    first = desk.scheduler.schedule("First", when="in 59 minutes").record.task.id
    second = schedule(desk, {**ONCE, "after": [first]})
    desk.scheduler.reschedule(second, when="in 80 minutes")
    [failed] = desk.start(9)
    desk.end([failed], Failed("away"))
    assert desk.scheduler.get(second).record.run.state is State.FAILED
    desk.scheduler.letters.replay([failed.run.id])
    [again] = desk.start(9, 30)
    desk.end([again])
    [claim] = desk.start(9, 31)
    assert (claim.task.id, key(claim)) == (second, "local:acme:2026-11-23T09:00Z")


# -- the key of a call


@on_each_database
def test_a_second_agent_gets_the_task_that_stands_however_old_it_is(desk: Desk) -> None:
    task_id = schedule(desk, HOURLY)
    desk.clock.at += timedelta(days=400)
    desk.store.tasks.forget_keys()
    view = desk.scheduler.schedule("Invoice", by=Principal("local", "bob"), **HOURLY)
    assert (view.record.task.id, view.created) == (task_id, False)


def test_another_account_is_another_task_and_other_content_is_refused(desk: Desk) -> None:
    task_id = schedule(desk, HOURLY)
    other = schedule(desk, {**HOURLY, "labels": ["account:bolt"]})
    assert other != task_id
    with pytest.raises(IdempotencyConflict, match="repeat was 'every hour at :00', now 'every day at 9:00'"):
        schedule(desk, {**HOURLY, "repeat": "every day at 9:00"})


@on_each_database
def test_a_cancelled_task_frees_its_key_at_once_and_one_that_has_ended_after_a_minute(desk: Desk) -> None:
    task_id = schedule(desk, HOURLY)
    desk.scheduler.cancel(task_id)
    second = schedule(desk, {**HOURLY, "max_runs": 1})
    assert second != task_id
    desk.run(9, (9, 1))
    desk.clock.at = at(9, 1).replace(second=59)
    assert schedule(desk, {**HOURLY, "max_runs": 1}) == second
    desk.clock.at = at(9, 2)
    third = schedule(desk, {**HOURLY, "max_runs": 1})
    assert third not in {task_id, second}
    assert desk.scheduler.get(third).record.run.state is State.SCHEDULED


@on_each_database
def test_many_calls_at_once_find_and_free_keys_alike(desk: Desk) -> None:
    task_id = schedule(desk, HOURLY)
    bolt = {**HOURLY, "labels": ["account:bolt"]}
    found = desk.scheduler.task_creator.create_many([Request("Invoice", **each) for each in (HOURLY, bolt, bolt)])
    assert [view.created for view in found] == [False, True, False]
    assert found[0].record.task.id == task_id
    desk.scheduler.cancel(task_id)
    again = desk.scheduler.task_creator.create_many([Request("Invoice", **each) for each in (HOURLY, bolt)])
    assert [view.created for view in again] == [True, False]


def test_a_template_without_a_window_holds_as_a_plain_key_does(desk: Desk) -> None:
    given = {**ONCE, "idempotency_key": "{action}-{label.account}"}
    task_id = schedule(desk, given)
    [claim] = desk.start(9)
    assert key(claim) == "reminder-acme"
    desk.end([claim])
    desk.clock.at += timedelta(days=29)
    assert schedule(desk, given) == task_id
    desk.clock.at += timedelta(days=2)
    with pytest.raises((InvalidArgument, InvalidArguments)):
        schedule(desk, {**given, "labels": []})
    assert schedule(desk, given) != task_id


def test_a_malformed_template_is_told_also_when_the_call_has_other_problems(desk: Desk) -> None:
    with pytest.raises(InvalidArguments) as refused:
        schedule(desk, {**HOURLY, "repeat": "now and then", "idempotency_key": "{tenat}:{window}"})
    assert [each.argument for each in refused.value.problems] == ["repeat", "idempotency_key"]
    assert refused.value.problems[1].example == "idempotency_key='{tenant}:{window}'"


def test_doubled_braces_are_braces_and_make_no_template(desk: Desk) -> None:
    task_id = schedule(desk, {**ONCE, "idempotency_key": "a{{b}}"})
    assert desk.scheduler.get(task_id).record.task.key_template is None
    [claim] = desk.start(9)
    assert key(claim) == claim.run.id
    other = schedule(desk, {**ONCE, "when": "in 5 minutes", "idempotency_key": "{{{label.account}}}"})
    [claim] = desk.start(9, 6)
    assert (claim.task.id, key(claim)) == (other, "{acme}")


# -- changes


@pytest.mark.parametrize("change", [{"labels": ["account:bolt"]}, {"labels": ["b"]}, {"remove": ["labels"]}])
def test_a_reschedule_keeps_the_labels_of_the_key(desk: Desk, change: dict[str, Any]) -> None:
    task_id = schedule(desk, HOURLY)
    with pytest.raises(InvalidArgument, match="idempotency key of the task has its label 'account:acme'"):
        desk.scheduler.reschedule(task_id, **change)
    changed = desk.scheduler.reschedule(task_id, labels=["b", "account:acme"])
    assert changed.record.task.labels == ("b", "account:acme")


def test_a_task_whose_labels_an_older_process_took_goes_on_under_the_keys_of_its_runs(desk: Desk) -> None:
    task_id = schedule(desk, HOURLY)
    desk.store.tasks.change(
        "local",
        task_id,
        actor="older",
        kind=EventKind.RESCHEDULED,
        decide=lambda record: Change(replace(record.task, labels=()), record.run),
    )
    desk.scheduler.reschedule(task_id, title="Other")
    [claim] = desk.start(9)
    assert key(claim) == claim.run.id


def test_a_one_off_whose_key_has_no_window_cannot_become_a_series(desk: Desk) -> None:
    task_id = schedule(desk, {**ONCE, "idempotency_key": "{label.account}"})
    with pytest.raises(InvalidArgument, match=r"without \{window\} all occurrences"):
        desk.scheduler.reschedule(task_id, repeat="daily")


def test_a_series_that_ends_by_a_change_keeps_the_window_of_its_last_occurrence(desk: Desk) -> None:
    task_id = schedule(desk, {**HOURLY, "when": "tomorrow 9:00"})
    once = desk.scheduler.reschedule(task_id, repeat="none")
    assert once.record.run.occurrence == datetime(2026, 11, 24, 9, tzinfo=MORNING.tzinfo)


# -- any sequence of changes


@pytest.mark.random_walk
@pytest.mark.parametrize("given", [HOURLY, ONCE])
@walks(
    range(FIRST_SEED, FIRST_SEED + examples(3).max_examples),
    range(FIRST_SEED, FIRST_SEED + examples(1).max_examples),
)
def test_after_any_change_one_occurrence_has_one_key_and_two_have_two(
    desk: Desk, seed: int, given: dict[str, Any]
) -> None:
    walk = Walk(desk, Random(seed), schedule(desk, given))
    for _ in range(40):
        walk.step()
    walk.check()


class Walk:
    """Random changes of one task: the keys that its runs started with, and which run each one does again."""

    def __init__(self, desk: Desk, random: Random, task_id: str) -> None:
        self.desk, self.random, self.task_id = desk, random, task_id
        self.token: str | None = None
        self.keys: dict[str, set[str]] = {}
        self.source: dict[str, str] = {}

    def step(self) -> None:
        self.desk.clock.at += timedelta(minutes=self.random.choice([0, 1, 7, 31]), seconds=self.random.choice([1, 3]))
        steps = [self.work, self.work, self.snooze, self.skip, self.run_now, self.replay, self.undo]
        known = {run.id for run in self.runs()}
        try:
            sources = self.random.choice(steps)()
        except Refused:
            self.token, sources = None, []
        new = [run for run in self.runs() if run.id not in known]
        self.source |= {run.id: source for run in new if (source := self.source_of(run, sources)) is not None}

    def source_of(self, run: Run, sources: list[str] | None) -> str | None:
        """Return the run that a new one does again; after an undo, the cancelled one of its time."""
        if sources is not None:
            return next(iter(sources), None)
        cancelled = [each for each in self.runs() if each.state is State.CANCELLED and each.id != run.id]
        return max((each.generation, each.id) for each in cancelled if each.scheduled_for == run.scheduled_for)[1]

    def runs(self) -> list[Run]:
        return runs_of(self.desk.store, self.task_id)

    def work(self) -> list[str]:
        ready = [Start(run.run_id) for run in self.desk.store.claims.make_ready(limit=9)]
        claims = self.desk.store.claims.start(ready, worker="w", epoch=None, lease=LEASE)
        for claim in claims:
            self.keys.setdefault(claim.run.id, set()).add(key(claim))
        outcome = Done("sent") if self.random.random() < 0.5 else Failed("away")
        for claim in claims:
            self.desk.end_anew([claim], outcome)
        self.token = None
        return []

    def snooze(self) -> list[str]:
        before = self.desk.scheduler.get(self.task_id).record
        view = self.desk.scheduler.act(self.task_id, "snooze", minutes=self.random.randint(1, 90))
        self.token, after = view.undo, view.record.run
        goes_on = before.run.ended_at is None and before.task.repeat is not None
        if goes_on and (after.id, after.number) != (before.run.id, before.run.number):
            return []  # past the next occurrence: neither run does another one again
        now, fired = self.desk.clock(), before.last_run
        apart = first_side_run(before, now, due_at(before.run))
        if apart and (fired is None or fired.ended_at is None or now - fired.ended_at > due_at(apart) - now):
            return [apart.id]  # the run that comes first is the same one, at another time
        ended = before.run.ended_at is not None or before.last_run is None
        return [before.run.id if ended or before.last_run is None else before.last_run.id]

    def skip(self) -> list[str]:
        self.token = self.desk.scheduler.act(self.task_id, "skip_next").undo
        return []

    def run_now(self) -> list[str]:
        before = self.desk.scheduler.get(self.task_id).record
        self.token = self.desk.scheduler.act(self.task_id, "run_now").undo
        if before.run.ended_at is not None:
            return [before.run.id]
        return [before.last_run.id] if before.last_run and before.last_run.state is State.FAILED else []

    def replay(self) -> list[str]:
        self.token = None
        letters = self.desk.scheduler.letters.page()[0]
        chosen = [self.random.choice(letters).run_id] if letters else []
        if chosen:
            self.desk.scheduler.letters.replay(chosen)
        return chosen

    def undo(self) -> None:
        """Take the last change back, or a cancel if there was none."""
        token, self.token = self.token or self.desk.scheduler.cancel(self.task_id).undo, None
        if token is not None:
            self.desk.scheduler.act(self.task_id, "undo", undo=token)

    def check(self) -> None:
        keys: dict[str, set[str]] = {}
        for run_id, said in self.keys.items():
            keys.setdefault(self.first(run_id), set()).update(said)
        assert keys
        assert {len(said) for said in keys.values()} == {1}, "one occurrence has one key"
        all_keys = [said for each in keys.values() for said in each]
        assert len(set(all_keys)) == len(all_keys), "two occurrences have two"

    def first(self, run_id: str) -> str:
        while run_id in self.source:
            run_id = self.source[run_id]
        return run_id
