"""Workers elsewhere claim runs, renew, save and finish them: what they report is settled as by a local worker."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, NoReturn
from uuid import uuid4

import pytest
from duetime.scheduler.dispatch.dispatcher import Dispatcher
from duetime.scheduler.dispatch.maintenance import Maintenance
from duetime.scheduler.dispatch.placement import Placement
from duetime.scheduler.dispatch.rebuild import adopt_running
from duetime.scheduler.errors import DuetimeError, InvalidArgument, StoreUnavailable
from duetime.scheduler.events import EventFilter, EventKind
from duetime.scheduler.foresight.explainer import Explainer
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.handlers.contract.expectation import Expectations
from duetime.scheduler.handlers.contract.external_action import external_action
from duetime.scheduler.handlers.reminder import reminder
from duetime.scheduler.history.dead_letters import DeadLetterFilter
from duetime.scheduler.intake.changes.terms import PAUSED_ELSEWHERE
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.principal import Principal
from duetime.scheduler.queue import DispatchQueue, Kind, Limits
from duetime.scheduler.queue.memory.queue import MemoryQueue
from duetime.scheduler.queue.redis.queue import RedisQueue
from duetime.scheduler.queue.remote import Question, RemoteQueue, answer
from duetime.scheduler.records import Change
from duetime.scheduler.request import StepArguments
from duetime.scheduler.rules.changes import cancel
from duetime.scheduler.run_records import StartsUnknown
from duetime.scheduler.runtime.notifier import RunNotifier
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store, open_store
from duetime.scheduler.task import Json, Run, State, Tier
from duetime.scheduler.view_parts import WaitKind
from duetime.scheduler.views import TaskRecord
from duetime.scheduler.worker.external import completion
from duetime.scheduler.worker.external.answers import ClaimedRun, Directive, FinishedClaim
from duetime.scheduler.worker.external.claim_id import ClaimLost
from duetime.scheduler.worker.external.external_runs import ExternalRuns
from duetime.scheduler.worker.external.held_runs import OVER_LIMIT
from duetime.scheduler.worker.external.reports import ReportedOutcome, WorkerReport
from duetime.server.cli.formats.task_facts import task_line
from duetime.server.cli.workers import show_workers
from duetime.widgets.payload import task_payload

from tests.builders import NOON, TENANT, Clock, added
from tests.flow.waiting import eventually

BOT = Principal(TENANT, "bot", frozenset({"worker"}))
TWIN = Principal("globex", "bot", frozenset({"worker"}))
ALICE = Principal(TENANT, "alice")
OPERATOR = Principal("ops", "root", frozenset({"worker"}), operator=True)
LEASE, LIMIT = timedelta(seconds=60), timedelta(minutes=10)
CANARY = "canary7f3a"


def transcribe(**more: Any) -> Any:
    terms: dict[str, Any] = {"description": "Transcribes", "payload": None, "needs": {}}
    return external_action("transcribe", **{**terms, "time_limit": LIMIT, "lease": LEASE, **more})


class Installation:
    """A store, a queue and the claims of workers elsewhere, of which each call could come to another process."""

    def __init__(self, store: Store, queue: DispatchQueue, clock: Clock) -> None:
        self.store, self.queue, self.clock = store, queue, clock
        self.handlers = Handlers([reminder]).with_external([transcribe(), replace(transcribe(), name="translate")])
        self.placement = Placement(external=self.handlers.external)
        self.runs = self.process()

    def process(self, monotonic: Callable[[], float] = time.monotonic) -> ExternalRuns:
        return ExternalRuns(self.store, RemoteQueue(self._ask), self.handlers, RunNotifier(), monotonic=monotonic)

    def _ask(self, question: Question) -> Json:
        """Ask as another process does: questions and answers are JSON."""
        found: Json = json.loads(json.dumps(answer(self.queue, json.loads(json.dumps(question)))))
        return found

    def due(self, action: str = "transcribe", **values: Any) -> TaskRecord:
        record = added(self.store, action=action, **{"payload": {"url": "https://example.com/a"}, **values})
        self.dispatch()
        return record

    def dispatch(self) -> None:
        Dispatcher(self.store, self.queue, placement=self.placement).step()

    def maintain(self) -> None:
        """Do what the process that dispatches does every few seconds."""
        self.runs.step()
        Maintenance(self.store, self.queue, placement=self.placement).step()
        self.dispatch()

    def claim(self, by: Principal = BOT, *actions: str, most: int = 1) -> list[ClaimedRun]:
        return self.runs.claim(actions, most, by=by)

    def one(self, by: Principal = BOT) -> ClaimedRun:
        [found] = self.claim(by)
        return found

    def finish(self, claimed: ClaimedRun, outcome: str = "done", by: Principal = BOT, **report: Any) -> FinishedClaim:
        return self.runs.finish(str(claimed.name), WorkerReport(ReportedOutcome(outcome), **report), by=by)

    def change(self, record: TaskRecord, kind: EventKind, decide: Callable[[TaskRecord], Change]) -> None:
        self.store.tasks.change(TENANT, record.task.id, actor="alice", kind=kind, decide=decide)

    def scheduler(self) -> Scheduler:
        explainer = Explainer(self.store, RemoteQueue(self._ask), dict)
        explainer.leases = dict.fromkeys(self.handlers.external, LEASE)
        return Scheduler(self.store, Planner(self.handlers, "UTC"), explainer=explainer)

    def run(self, record: TaskRecord) -> Run:
        return self.store.tasks.get(record.task.tenant, record.task.id).run

    def outcomes(self, record: TaskRecord) -> list[str | None]:
        return [each.outcome for each in self.store.history.attempts(record.task.tenant, record.task.id)]

    def free(self, pool: str) -> float:
        return self.queue.stats().pools[pool].free


@pytest.fixture(params=["embedded", pytest.param("shared", marks=pytest.mark.postgres)])
def here(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Iterator[Installation]:
    """Give an installation on SQLite with its queue in memory, then one on PostgreSQL and Redis."""

    def now() -> float:
        return clock().timestamp() * 1000

    embedded = request.param == "embedded"
    url = f"sqlite:///{tmp_path}/duetime.db" if embedded else request.getfixturevalue("migrated_postgres_url")
    store = open_store(url, clock=clock, synchronous="OFF")
    queue = MemoryQueue(now) if embedded else redis_queue(request.getfixturevalue("valkey_url"), now)
    found = Installation(store, queue, clock)
    yield found
    found.runs.close()
    if isinstance(queue, RedisQueue):
        queue.close()
    store.close()


def redis_queue(url: str, now: Callable[[], float]) -> RedisQueue:
    made = RedisQueue(url, namespace=f"test-{uuid4().hex}", clock=now)
    assert made.begin_rebuild("test")
    assert made.end_rebuild("test")
    return made


def away(*_: Any, **__: Any) -> NoReturn:
    raise StoreUnavailable("the database does not answer")


def refused(call: Callable[[], object], kind: type[DuetimeError] = ClaimLost) -> str:
    with pytest.raises(kind) as found:
        call()
    assert len(str(found.value).encode()) < 1024
    return str(found.value)


def test_a_claimed_run_has_all_that_its_handler_would_get_and_succeeds_as_it_is_reported(here: Installation) -> None:
    record = here.due()
    claimed = here.one()
    run = here.run(record)
    assert (run.state, run.attempt, claimed.claim.worker) == (State.RUNNING, 1, "mcp:acme/bot")
    assert (claimed.claim.task.payload, claimed.context.idempotency_key) == ({"url": "https://example.com/a"}, run.id)
    assert (claimed.lease_until, claimed.ends_by) == (here.clock() + LEASE, here.clock() + LIMIT)
    here.clock.forward(seconds=20)
    done = here.finish(claimed, summary="12 minutes", result={"words": 1804})
    assert (done.outcome, done.state, done.ended_at) == ("done", State.SUCCEEDED, here.clock())
    run = here.run(record)
    assert (run.state, run.summary, run.result) == (State.SUCCEEDED, "12 minutes", {"words": 1804})
    assert [message.text for message in here.store.inbox.of_runs([run.id])] == ["12 minutes"]
    assert here.store.estimates.get([(TENANT, "transcribe")])[TENANT, "transcribe"].samples == 1
    assert here.queue.stats().leased == 0


def test_no_local_worker_takes_a_run_of_an_external_action_nor_does_an_external_one_take_others(
    here: Installation,
) -> None:
    record, other = here.due(), here.due("reminder", payload={"message": "Hi"})
    assert set(here.handlers.local()) == {"reminder"}
    taken = here.queue.take("local", 9, 60_000, actions=frozenset(here.handlers.local()))
    assert taken.run_ids == (other.run.id,)
    assert [each.claim.run.id for each in here.claim(most=9)] == [record.run.id]


def test_claims_come_best_first_and_of_the_named_actions_alone(here: Installation) -> None:
    low = here.due(priority=Tier.LOW)
    high = here.due(priority=Tier.CRITICAL)
    other = here.due("translate", priority=Tier.CRITICAL)
    assert [each.claim.run.id for each in here.claim(BOT, "transcribe", most=2)] == [high.run.id, low.run.id]
    assert [each.claim.run.id for each in here.claim(BOT, "translate", most=2)] == [other.run.id]
    assert here.claim(most=9) == []
    assert "transcribe, translate" in refused(lambda: here.claim(BOT, "reminder"), InvalidArgument)


def test_a_worker_claims_runs_of_its_own_tenant_and_an_operators_those_of_all(here: Installation) -> None:
    theirs = here.due(tenant="globex", title=CANARY)
    assert here.claim(most=9) == []
    ours = here.due()
    assert [each.claim.run.id for each in here.claim(most=9)] == [ours.run.id]
    mine = here.due()
    found = {each.claim.run.id for each in here.claim(OPERATOR, most=9)}
    assert found == {theirs.run.id, mine.run.id}


def test_a_queue_that_hands_out_the_run_of_another_tenant_starts_nothing(here: Installation) -> None:
    """The queue is a hint: an entry in the lane of another tenant is dropped before the claim."""
    theirs = here.due(tenant="globex", title=CANARY)
    here.queue.cancel(theirs.run.id)
    ready = here.store.claims.ready(limit=9)
    here.queue.put([replace(here.placement.entry(ready[0], here.clock()), action=f"transcribe@{TENANT}")])
    assert here.claim(most=9) == []
    assert here.run(theirs).state is State.READY


@pytest.mark.parametrize("call", ["heartbeat", "checkpoint", "finish"])
def test_another_tenant_of_the_same_user_name_can_do_nothing_with_a_claim(here: Installation, call: str) -> None:
    record = here.due(title=CANARY)
    claimed = here.one()

    def of(name: str, by: Principal) -> Callable[[], object]:
        calls: Mapping[str, Callable[[], object]] = {
            "heartbeat": lambda: here.runs.heartbeat(name, by=by),
            "checkpoint": lambda: here.runs.checkpoint(name, {"page": 1}, by=by),
            "finish": lambda: here.runs.finish(name, WorkerReport(ReportedOutcome.DONE), by=by),
        }
        return calls[call]

    name, nothing = claimed.name, replace(claimed.name, run_id="r_none")
    said = refused(of(str(name), TWIN))
    assert said == refused(of(str(nothing), TWIN)).replace("r_none", name.run_id)
    assert CANARY not in said
    assert said == refused(of(str(name), replace(BOT, user="other")))
    run = here.run(record)
    assert (run.state, run.checkpoint) == (State.RUNNING, None)


def test_a_heartbeat_renews_the_lease_and_reports_progress(here: Installation) -> None:
    record = here.due()
    claimed = here.one()
    for _ in range(3):
        here.clock.forward(seconds=50)
        here.runs.heartbeat(str(claimed.name), by=BOT)
        here.maintain()
    renewed = here.runs.heartbeat(str(claimed.name), progress=(0.5, "half"), by=BOT)
    assert (renewed.directive, renewed.lease_until) == (Directive.CONTINUE, here.clock() + LEASE)
    run = here.run(record)
    assert (run.state, run.attempt, run.progress) == (State.RUNNING, 1, {"fraction": 0.5, "text": "half"})


def test_a_claim_whose_lease_ends_counts_as_crashed_and_a_late_report_is_refused(here: Installation) -> None:
    here.queue.set_pool("gpu", Limits(Kind.SLOTS, 1))
    record = here.due(needs={"gpu": 1})
    claimed = here.one()
    assert here.free("gpu") == 0
    here.clock.forward(seconds=61)
    here.maintain()
    here.maintain()
    assert here.free("gpu") == 1
    for late in (
        lambda: here.finish(claimed, result={"words": 1}),
        lambda: here.runs.heartbeat(str(claimed.name), by=BOT),
        lambda: here.runs.checkpoint(str(claimed.name), {"page": 1}, by=BOT),
    ):
        assert "its lease ended without a heartbeat" in refused(late)
    again = here.one()
    assert (again.claim.run.attempt, again.context.idempotency_key) == (2, claimed.context.idempotency_key)
    assert "its lease ended" in refused(lambda: here.finish(claimed))
    here.finish(again, summary="Second")
    assert here.outcomes(record) == ["crashed", "done"]
    assert here.run(record).summary == "Second"


def test_a_run_past_its_time_limit_ends_as_a_local_one_whatever_its_worker_does(here: Installation) -> None:
    record = here.due()
    claimed = here.one()
    for _ in range(11):
        here.clock.forward(seconds=54)
        here.runs.heartbeat(str(claimed.name), by=BOT)
    here.clock.forward(seconds=10)
    here.maintain()
    [attempt] = here.store.history.attempts(TENANT, record.task.id)
    assert (attempt.outcome, attempt.reason) == ("retry", f"{OVER_LIMIT} 600 s")
    assert here.run(record).state is State.RETRYING
    assert "within the time limit of 600 s" in refused(lambda: here.finish(claimed))


def test_a_report_that_comes_after_the_time_limit_is_refused_before_anyone_has_looked(here: Installation) -> None:
    record = here.due()
    claimed = here.one()
    here.clock.forward(seconds=600)
    assert "time limit" in refused(lambda: here.finish(claimed))
    assert here.outcomes(record) == ["retry"]


def test_a_repeated_finish_is_answered_the_same_and_settles_once(here: Installation) -> None:
    record = here.due()
    claimed = here.one()
    first = here.finish(claimed, summary="Once", result={"n": 1})
    here.clock.forward(seconds=5)
    assert here.finish(claimed, summary="Once", result={"n": 1}) == first
    other = here.process()
    assert other.finish(str(claimed.name), WorkerReport(ReportedOutcome.DONE), by=BOT) == first
    other.close()
    assert here.run(record).result == {"n": 1}
    assert len(here.store.inbox.of_runs([record.run.id])) == 1
    assert "it ended before as done" in refused(lambda: here.runs.heartbeat(str(claimed.name), by=BOT))


def test_two_finishes_at_once_settle_once_and_both_are_answered_with_what_happened(here: Installation) -> None:
    record = here.due()
    claimed, ready, answers = here.one(), threading.Barrier(2), list[FinishedClaim]()

    def finish(outcome: str) -> None:
        ready.wait(10)
        answers.append(here.finish(claimed, outcome))

    threads = [threading.Thread(target=finish, args=(outcome,)) for outcome in ("done", "failed")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert len(answers) == 2
    assert answers[0] == answers[1]
    assert here.outcomes(record) == [answers[0].outcome]


def test_a_cancelled_run_is_told_to_stop_and_any_report_but_a_success_cancels_it(here: Installation) -> None:
    record, other = here.due(), here.due()
    first, second = here.claim(most=2)
    for each in (record, other):
        here.change(each, EventKind.CANCELLED, lambda found: cancel(found, here.clock()))
    renewed = here.runs.heartbeat(str(first.name), by=BOT)
    assert (renewed.directive, renewed.reason) == (Directive.CANCEL, "its user cancelled it")
    ended = here.finish(first, "retry", error="stopped")
    assert (ended.outcome, ended.state) == ("cancelled", State.CANCELLED)
    assert here.finish(first, "retry", error="stopped") == ended
    assert here.finish(second, "done").state is State.SUCCEEDED


def test_a_paused_task_and_a_more_urgent_run_ask_its_worker_to_give_way(here: Installation) -> None:
    here.queue.set_pool("gpu", Limits(Kind.SLOTS, 1))
    record = here.due(priority=Tier.LOW)
    claimed = here.one()
    assert here.runs.heartbeat(str(claimed.name), by=BOT).directive is Directive.CONTINUE
    urgent = here.due(priority=Tier.CRITICAL)
    here.clock.forward(seconds=30)
    renewed = here.runs.heartbeat(str(claimed.name), by=BOT)
    assert (renewed.directive, renewed.reason) == (Directive.YIELD, "a more urgent run waits")
    here.runs.checkpoint(str(claimed.name), {"page": 3}, by=BOT)
    ended = here.finish(claimed, "yielded")
    assert (ended.outcome, ended.state) == ("yielded", State.SUSPENDED)
    here.dispatch()
    first, second = here.one(), here.one()
    assert [each.claim.run.id for each in (first, second)] == [urgent.run.id, record.run.id]
    assert (second.claim.run.attempt, second.context.checkpoint_state) == (2, {"page": 3})
    paused = here.scheduler().reschedule(record.task.id, pause=True, by=ALICE)
    assert paused.warnings == (PAUSED_ELSEWHERE,)
    assert here.runs.heartbeat(str(second.name), by=BOT).reason == "its user paused the task"


def test_a_failed_attempt_is_tried_again_when_its_worker_says_and_out_of_attempts_leaves_a_dead_letter(
    here: Installation,
) -> None:
    record = here.due()
    ended = here.finish(here.one(), "retry", error="the host is down", retry_in="5 min")
    assert (ended.outcome, ended.state, ended.reason) == ("retry", State.RETRYING, "the host is down")
    assert (here.run(record).wake_at or here.clock()) >= here.clock() + timedelta(minutes=5)
    assert here.claim() == []
    here.clock.forward(minutes=6)
    here.dispatch()
    last = here.finish(here.one(), "failed", error="the file is no sound", result={"bytes": 3})
    assert (last.outcome, last.state) == ("failed", State.FAILED)
    run = here.run(record)
    assert (run.error, run.result) == ("the file is no sound", {"bytes": 3})
    letters, _ = here.store.dead_letters.page(TENANT, DeadLetterFilter(), limit=9)
    assert [each.run_id for each in letters] == [run.id]


def test_pools_are_held_while_a_run_is_claimed_and_real_use_is_settled(here: Installation) -> None:
    here.queue.set_pool("tokens", Limits(Kind.BUDGET, 1000, window=60_000.0))
    record, waiting = here.due(needs={"tokens": 900}), here.due(needs={"tokens": 900})
    claimed = here.one()
    assert here.claim() == []
    assert "this run does not need" in refused(lambda: here.finish(claimed, usage={"gpu": 1}), InvalidArgument)
    here.finish(claimed, usage={"tokens": 50.0})
    assert here.store.run_history.detail(TENANT, record.run.id).units[1] == {"tokens": 50.0}
    assert here.one().claim.run.id == waiting.run.id


def test_the_next_step_of_a_chain_is_free_after_the_finish_and_has_the_result(here: Installation) -> None:
    scheduler = here.scheduler()
    second: StepArguments = {"name": "text", "title": "Translate", "action": "translate", "after": ["sound"]}
    first: StepArguments = {"name": "sound", "title": "Transcribe", "action": "transcribe"}
    scheduler.schedule("Both", steps=[first, second], by=ALICE)
    here.dispatch()
    [claimed] = here.claim(most=9)
    assert claimed.claim.task.action == "transcribe"
    here.finish(claimed, result={"words": 3})
    here.dispatch()
    following = here.one()
    assert (following.claim.task.action, following.inputs["sound"]) == ("translate", {"words": 3})


def test_a_result_that_its_task_does_not_expect_leaves_the_run_unverified(here: Installation) -> None:
    record = here.due(expect={"field": "order_id"})
    here.finish(here.one(), result={"id": 7})
    run = here.run(record)
    assert (run.state, run.error) == (State.SUCCEEDED, "the result has no `order_id`")


def test_a_wrong_report_is_refused_and_the_claim_stays(here: Installation) -> None:
    record = here.due()
    claimed = here.one()
    wrong: list[dict[str, Any]] = [
        {"outcome": "done", "error": "no"},
        {"outcome": "failed", "retry_in": "5 min"},
        {"outcome": "retry", "retry_in": "soon"},
        {"outcome": "done", "result": {"x": float("nan")}},
        {"outcome": "done", "result": {"x": "x" * 70_000}},
        {"outcome": "done", "usage": {"tokens": 1}},
        {"outcome": "yielded", "result": {"page": 3}},
    ]
    for report in wrong:
        refused(partial(here.finish, claimed, **report), InvalidArgument)
    refused(lambda: here.runs.checkpoint(str(claimed.name), {"x": "x" * 70_000}, by=BOT), InvalidArgument)
    refused(lambda: here.runs.heartbeat("r_1", by=BOT), InvalidArgument)
    assert here.run(record).state is State.RUNNING
    assert here.finish(claimed).outcome == "done"


def test_a_claim_outlives_the_process_and_a_queue_that_lost_everything(here: Installation) -> None:
    """As after a restart of the embedded runner, which ends the attempts of its own threads alone."""
    here.queue.set_pool("gpu", Limits(Kind.SLOTS, 1))
    record = here.due(needs={"gpu": 1})
    claimed = here.one()
    if isinstance(here.queue, MemoryQueue):
        epoch = here.store.runners.take_over(pid=1, endpoint="", token="")
        assert here.store.claims.recover(epoch=epoch) == 0
    assert here.queue.begin_rebuild("next")
    here.queue.set_pool("gpu", Limits(Kind.SLOTS, 1))
    adopt_running(here.store, here.queue, here.placement)
    assert here.queue.end_rebuild("next")
    assert here.free("gpu") == 0
    other = here.process()
    assert other.heartbeat(str(claimed.name), by=BOT).directive is Directive.CONTINUE
    assert other.finish(str(claimed.name), WorkerReport(ReportedOutcome.DONE), by=BOT).state is State.SUCCEEDED
    other.close()
    assert here.free("gpu") == 1
    assert here.outcomes(record) == ["done"]


def test_a_run_whose_worker_left_before_the_answer_is_handed_back_without_a_crash(here: Installation) -> None:
    record = here.due()
    here.runs.hand_back(here.claim())
    here.dispatch()
    assert here.one().claim.run.attempt == 2
    assert here.run(record).crashes == 0


def test_a_run_that_is_handed_back_has_used_nothing_of_its_budget(here: Installation) -> None:
    here.queue.set_pool("tokens", Limits(Kind.BUDGET, 1000, window=60_000.0))
    record = here.due(needs={"tokens": 900})
    here.runs.hand_back(here.claim())
    assert here.free("tokens") == 1000
    here.dispatch()
    assert here.one().claim.run.attempt == 2
    assert here.store.run_history.detail(TENANT, record.run.id).units.get(1, {}) == {}


def test_a_claim_that_cannot_be_answered_goes_back_at_once(here: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    record = here.due()
    with monkeypatch.context() as broken:
        broken.setattr(here.store.dependencies, "results", away)
        refused(here.claim, StoreUnavailable)
    eventually(lambda: here.outcomes(record) == ["yielded"], "its return")
    here.dispatch()
    assert here.one().claim.run.attempt == 2
    assert here.run(record).crashes == 0


def test_a_claim_gets_what_was_started_when_runs_of_another_action_could_not_be(
    here: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, other = here.due(priority=Tier.HIGH), here.due("translate")
    start = here.store.claims.start

    def only_transcribe(starts: Any, *, actions: Any, **terms: Any) -> Any:
        return start(starts, actions=actions, **terms) if actions == ["transcribe"] else away()

    with monkeypatch.context() as broken:
        broken.setattr(here.store.claims, "start", only_transcribe)
        assert [each.claim.run.id for each in here.claim(most=9)] == [first.run.id]
    here.clock.forward(seconds=2)
    assert [each.claim.run.id for each in here.claim(most=9)] == [other.run.id]


@pytest.mark.parametrize("here", [pytest.param("shared", marks=pytest.mark.postgres)], indirect=True)
def test_a_start_that_the_database_did_not_answer_is_handed_back_without_a_crash(
    here: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    record, start = here.due(), here.store.claims.start

    def unanswered(starts: Any, **terms: Any) -> Any:
        start(starts, **terms)
        raise StartsUnknown(StoreUnavailable("away"), [], starts)

    with monkeypatch.context() as broken:
        broken.setattr(here.store.claims, "start", unanswered)
        refused(here.claim, StoreUnavailable)
    here.runs.step()
    eventually(lambda: here.outcomes(record) == ["yielded"], "its return")
    here.dispatch()
    here.clock.forward(seconds=2)
    assert here.one().claim.run.attempt == 2
    assert here.run(record).crashes == 0


def test_a_slow_claim_is_told_no_later_end_of_its_lease_and_time_limit_than_the_database_has(
    here: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    here.due()
    start = here.store.claims.start

    def slow(*given: Any, **terms: Any) -> Any:
        found = start(*given, **terms)
        here.clock.forward(seconds=9)
        return found

    monkeypatch.setattr(here.store.claims, "start", slow)
    claimed = here.one()
    held = here.store.claimed_runs.held(claimed.claim.run.id)
    assert held is not None
    assert (claimed.lease_until, claimed.ends_by) == (held.lease_until, held.attempt_started_at + LIMIT)


def test_the_lease_outlives_the_check_of_what_the_task_expects(
    here: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = here.due(expect={"url": "https://example.com/health"})
    claimed = here.one()
    here.clock.forward(seconds=55)

    def slow(*_: Any) -> str:
        here.clock.forward(seconds=19)
        here.maintain()
        return ""

    monkeypatch.setattr(Expectations, "unmet", slow)
    assert here.finish(claimed, "done").state is State.SUCCEEDED
    assert here.outcomes(record) == ["done"]


def test_a_finish_that_waits_for_the_database_is_answered_when_the_process_ends(
    here: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = here.due()
    claimed, asked, answers = here.one(), threading.Event(), list[str]()

    def settle(*_: Any, **__: Any) -> Any:
        asked.set()
        away()

    def finish() -> None:
        answers.append(refused(lambda: here.finish(claimed), StoreUnavailable))

    monkeypatch.setattr(completion, "CLOSE_GRACE_S", 0.0)
    with monkeypatch.context() as broken:
        broken.setattr(here.store.claims, "settle", settle)
        waiting = threading.Thread(target=finish)
        waiting.start()
        assert asked.wait(10)
        here.runs.close()
        waiting.join(10)
    assert "repeat the same" in answers[0]
    assert "repeat the same" in refused(lambda: here.finish(claimed), StoreUnavailable)
    other = here.process()
    assert other.finish(str(claimed.name), WorkerReport(ReportedOutcome.DONE), by=BOT).state is State.SUCCEEDED
    other.close()
    assert here.outcomes(record) == ["done"]


def test_many_claims_in_one_instant_start_each_run_once(here: Installation) -> None:
    """Calls of many users, so that each is noted while others are: a note that fails would lose the claim."""
    records = [here.due() for _ in range(8)]
    users = [replace(BOT, user=f"bot-{number}") for number in range(8)]
    ready, claimed, switching = threading.Barrier(8), list[str](), sys.getswitchinterval()

    def claim(by: Principal) -> None:
        ready.wait(10)
        claimed.extend(each.claim.run.id for _ in range(3) for each in here.claim(by))

    threads = [threading.Thread(target=claim, args=(user,)) for user in users]
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    finally:
        sys.setswitchinterval(switching)
    assert sorted(claimed) == sorted(record.run.id for record in records)


def test_workers_are_known_by_what_they_ask_for_and_when_they_last_called(here: Installation) -> None:
    workers = here.store.external_workers
    here.due()
    claimed = here.one()
    here.runs.claim(by=OPERATOR, client="claude")
    assert workers.last_seen("transcribe", "globex") == here.clock()
    here.clock.forward(minutes=2)
    here.runs.heartbeat(str(claimed.name), by=BOT)
    assert workers.last_seen("transcribe", TENANT) == here.clock()
    here.clock.forward(hours=24)
    here.process().claim(["translate"], by=TWIN)
    assert [(each.name, each.actions, each.seen_at) for each in workers.all()] == [
        ("mcp:acme/bot", ("transcribe", "translate"), here.clock() - timedelta(hours=24)),
        ("mcp:globex/bot", ("translate",), here.clock()),
    ]
    assert workers.last_seen("transcribe", "globex") is None


@pytest.mark.parametrize("silent", [0, 1])
def test_a_list_of_external_workers_alone_says_below_it_that_no_process_has_reported(
    capsys: pytest.CaptureFixture[str], silent: int
) -> None:
    at = NOON.isoformat()
    bot = {"id": "mcp:acme/bot", "state": "running", "running": 1, "actions": ["transcribe"], "seen_at": at}
    gone = {"id": "w1", "state": "silent", "host": "h", "pid": 1, "running": 0, "threads": 4, "lost_threads": 0}
    found = {"workers": [{**gone, "seen_at": at}][:silent], "external": [bot]}
    show_workers(found, NOON, here=False, silent=False, as_json=False)
    table, row, *rest = capsys.readouterr().out.splitlines()
    assert table.startswith("EXTERNAL WORKER")
    assert row.startswith("mcp:acme/bot")
    assert rest[0].startswith("No worker process has reported lately")
    assert rest[1:] == ["1 silent, --all shows them"][:silent]


def test_two_programs_with_one_key_are_known_by_what_both_ask_for(here: Installation) -> None:
    workers, at = here.store.external_workers, [0.0]
    here.runs = here.process(lambda: at[0])
    for _ in range(3):
        for action in ("transcribe", "translate"):
            here.runs.claim([action], by=BOT)
            at[0] += 6
    assert [each.actions for each in workers.all()] == [("transcribe", "translate")]
    assert workers.last_seen("transcribe", TENANT) == here.clock()
    at[0] += 300
    here.runs.claim(["translate"], by=BOT)
    assert [each.actions for each in workers.all()] == [("translate",)]


def test_a_cancelled_run_whose_worker_is_silent_says_until_when_it_waits_and_ends_then_once(
    here: Installation, capsys: pytest.CaptureFixture[str]
) -> None:
    record = here.due()
    claimed = here.one()
    scheduler, task_id = here.scheduler(), record.task.id
    reader = scheduler.tasks
    assert reader.explain(task_id, by=ALICE)[1] == (
        "it waits for nothing: it is running, attempt 1 of 4, by worker mcp:acme/bot (its last call was now)",
    )
    here.clock.forward(seconds=45)
    [silent] = reader.explain(task_id, by=ALICE)[1]
    assert silent == (
        "the end of attempt 1 of 4: its worker mcp:acme/bot has been silent for 45 s, and a server or another worker "
        "ends the attempt when its lease expires, in 15 s"
    )
    stalled = reader.list(by=ALICE).overdue
    assert stalled == "1 is not running any more: its worker is silent, and its attempt ends when the lease does"
    changed = scheduler.cancel(task_id, by=ALICE)
    waits = (
        "its worker mcp:acme/bot to stop: its next heartbeat asks it to; without one the run ends when its lease "
        "expires, in 15 s, since it may act until then (its last call was 45 s ago)"
    )
    [stop] = changed.waits
    assert (stop.kind, stop.sentence, stop.until) == (WaitKind.STOP, waits, claimed.lease_until)
    task_line("Stop requested:", task_payload(changed))
    assert f"\n  it waits for {waits}\n" in capsys.readouterr().out
    assert reader.explain(task_id, by=ALICE)[1] == (waits,)
    assert [wait.sentence for wait in reader.list(by=ALICE).views[0].waits] == [waits]
    here.clock.forward(seconds=15)
    here.maintain()
    assert here.run(record).state is State.RUNNING
    here.clock.forward(seconds=1)
    assert "its lease has expired, so the run ends in seconds" in reader.explain(task_id, by=ALICE)[1][0]
    for _ in range(3):
        here.maintain()
    run = here.run(record)
    assert (run.state, run.ended_at, here.outcomes(record)) == (State.CANCELLED, here.clock(), ["crashed"])
    [attempt] = here.store.history.attempts(TENANT, task_id)
    assert attempt.reason == (
        "cancelled; its external worker (mcp:acme/bot) sent no heartbeat within its lease, before it stopped"
    )
    assert "its lease ended without a heartbeat" in refused(lambda: here.finish(claimed))
    found = here.store.history.events(TENANT, EventFilter(task_id=task_id), limit=99).events
    assert [each.kind for each in found if each.to_state is State.CANCELLED] == [EventKind.CRASHED]
