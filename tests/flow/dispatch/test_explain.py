"""Why a run is not running: every answer names what it waits for, never a generic reason."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from duetime.scheduler.foresight.explain import RunFacts, explain_state, wait_reasons, wait_sentences
from duetime.scheduler.foresight.explainer import Explainer, Lengths, default_estimate
from duetime.scheduler.foresight.reasons.processes import Claimers, LeftRunning
from duetime.scheduler.foresight.stall_notes import stall_note
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.principal import Principal
from duetime.scheduler.queue import MAX_RUNS_COUNTED_AHEAD, Entry, Explanation, Report, Shortage, ThreadUse, Why
from duetime.scheduler.queue.memory.queue import MemoryQueue
from duetime.scheduler.queue.port import Finish
from duetime.scheduler.queue.remote import NoAnswer, RemoteQueue, answer
from duetime.scheduler.records import RunHolder
from duetime.scheduler.rules.estimates import Estimate
from duetime.scheduler.rules.limits.pool_spec import read_pool
from duetime.scheduler.run_records import Start
from duetime.scheduler.service.change_notices import ChangeNotices
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store, open_store
from duetime.scheduler.task import ApprovalAnswer, Json, Run, State, Task
from duetime.scheduler.view_parts import WaitKind, WaitReason
from duetime.scheduler.views import TaskRecord
from duetime.scheduler.waits.approval import Approval
from duetime.scheduler.waits.signal import KeptWait, SignalWait

from tests import blank
from tests.builders import TENANT, a_task, restarted

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
MS = NOW.timestamp() * 1000
ALICE = Principal(TENANT, "alice")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    blank.make(tmp_path / "duetime.db")
    opened = open_store(f"sqlite:///{tmp_path}/duetime.db", clock=lambda: NOW, synchronous="OFF")
    yield opened
    opened.close()


@pytest.fixture
def queue() -> MemoryQueue:
    return MemoryQueue(lambda: MS)


def a_record(**run: Any) -> TaskRecord:
    task, first = a_task(NOW, timezone="UTC")
    return TaskRecord(task, replace(first, **{"state": State.READY, "wake_at": None, **run}))


def why(shortage: Shortage | None = None, *, named: Any = str, pools: Any = None, **values: Any) -> tuple[str, ...]:
    said = Explanation("parked" if shortage else values.pop("status", "waiting"), shortage=shortage, **values)
    return wait_sentences(a_record(), NOW, RunFacts(said, pools, named))


def short(reason: Why = Why.SHORT, **values: Any) -> Shortage:
    return Shortage(**{"pool": "gpu", "why": reason, "needed": 2, "free": 1, "capacity": 4, **values})


def test_a_short_pool_is_named_with_what_is_missing_and_who_holds_it() -> None:
    assert why(short(holders=("r1", "r2"))) == ("pool gpu: it needs 2, 1 of 4 are free; held by r1, r2",)


def test_a_budget_of_millions_is_written_in_full() -> None:
    said = why(short(needed=1_250_000, free=999_999.5, capacity=2_000_000))
    assert said == ("pool gpu: it needs 1,250,000, 999,999.5 of 2,000,000 are free",)


def test_a_run_for_which_others_yield_says_so() -> None:
    said = "pool gpu: it needs 2, 1 of 4 are free; held by r1; less urgent runs were requested to yield"
    assert why(short(holders=("r1",), requested=True)) == (said,)


def test_a_rate_says_when_there_is_more() -> None:
    said = why(short(helped_at=MS + 90_000))
    assert said == ("pool gpu: it needs 2, 1 of 4 are free, until Fri 20 Nov 2026 12:01 (in 1 min)",)


@pytest.mark.parametrize(
    ("shortage", "words"),
    [
        (short(Why.UNKNOWN), "pool gpu: there is no pool 'gpu' (pools: disk, net); declare it, or change `needs`"),
        (short(Why.TOO_SMALL, needed=9), "it needs 9, but the capacity is 4: raise the capacity"),
        (short(Why.TOO_SMALL, capacity=0), "it is closed: its capacity is 0, and the run waits until there is more"),
        (short(Why.TOO_SMALL, capacity=0, helped_at=MS + 5000), "but the capacity is 0, until Fri 20 Nov 2026 12:00"),
        (short(Why.HELD, held_for="r9"), "reserved for r9, which is overdue or about to be, and goes first"),
        (
            short(Why.STOPPED, helped_at=MS + 5000),
            "its provider requested a pause, until Fri 20 Nov 2026 12:00 (in 5 s)",
        ),
        (short(Why.BREAKER, helped_at=MS + 5000), "its breaker is open after failures, until Fri 20 Nov 2026 12:00"),
        (short(Why.BREAKER), "its breaker is open after failures, and one run is probing it now"),
    ],
)
def test_every_reason_of_a_pool_has_words_of_its_own(shortage: Shortage, words: str) -> None:
    pools = {name: read_pool(name, {}) for name in ("net", "disk")}
    assert words in why(shortage, pools=pools)[0]


def test_every_reason_is_known_to_the_words() -> None:
    assert len({why(short(reason)) for reason in Why}) == len(Why)


def test_a_turn_says_how_many_go_first() -> None:
    assert why(ahead=MAX_RUNS_COUNTED_AHEAD) == ("its turn, behind 10000 or more runs with the same tier and needs",)
    assert why(ahead=1) == ("its turn, behind 1 run with the same tier and needs",)
    assert why() == ("a free worker thread: it is next for its tier and needs",)
    assert why(others_first=True) == ("a free worker thread: other tenants have their turn first",)
    first = why()[0]
    assert why(threads=ThreadUse(2, 2)) == (f"{first}; 2 of 2 threads are busy",)
    kept = "14 of 16 threads are busy, 2 are reserved for critical and high runs"
    assert why(threads=ThreadUse(16, 14, (0, 1, 2, 2, 2))) == (f"{first}; {kept}",)
    kept = "4 of 4 threads are busy, 1 is reserved for critical runs"
    assert why(threads=ThreadUse(4, 4, (0, 1, 1, 1, 1))) == (f"{first}; {kept}",)
    withheld = "4 of 8 threads are busy, 4 stay idle while the machine is short of memory or CPU"
    assert why(threads=ThreadUse(8, 4, withheld=4)) == (f"{first}; {withheld}",)
    withheld = "1 of 2 threads are busy, 1 stays idle while the machine is short of memory or CPU"
    assert why(threads=ThreadUse(2, 1, withheld=1)) == (f"{first}; {withheld}",)
    assert why(short(), ahead=3)[1] == "its turn, behind 3 runs with the same tier and needs"


def test_a_run_of_an_external_action_waits_for_a_worker_elsewhere_that_has_called_lately() -> None:
    never, long_ago, lately = (Claimers(at) for at in (None, NOW - timedelta(minutes=7), NOW - timedelta(minutes=4)))

    def said(claimers: Claimers, **values: Any) -> tuple[str, ...]:
        return wait_sentences(a_record(), NOW, RunFacts(Explanation("waiting", **values), claimers=claimers))

    so_start = "so start one that calls claim_runs, with a key of the scope `worker`"
    assert said(never) == (f"a worker elsewhere: none has claimed 'reminder' lately, {so_start}",)
    assert said(long_ago) == (f"a worker elsewhere: none has claimed 'reminder' for 7 min, {so_start}",)
    assert said(lately) == ("a worker elsewhere to claim it: it is next for its tier and needs",)
    assert said(lately, ahead=1) == ("its turn, behind 1 run with the same tier and needs",)


@pytest.mark.parametrize("found", [Explanation("waiting"), Explanation("parked", ahead=3, shortage=short()), None])
def test_where_no_worker_is_up_that_is_said_before_anything_else(found: Explanation | None) -> None:
    first, *rest = wait_sentences(a_record(), NOW, RunFacts(found, working=False))
    assert first == "a worker: none is running, so start one with `duetime worker`"
    assert rest == [
        said for said in wait_sentences(a_record(), NOW, RunFacts(found)) if "free worker thread" not in said
    ]


def test_where_all_workers_are_drained_the_resume_is_named() -> None:
    (said, *_) = wait_sentences(a_record(), NOW, RunFacts(Explanation("waiting"), working=False, drained=True))
    assert said.startswith("a worker: all were drained, so resume them with `duetime workers resume --all`")


def test_a_run_whose_process_is_gone_says_so_and_how_to_start_one(store: Store) -> None:
    task, _ = stored(store, title="Build")
    restarted(store, store.tasks.get(TENANT, task.id))
    record = store.tasks.get(TENANT, task.id)
    no_process = Explainer(store, RemoteQueue(lambda _question: None), dict)
    away = Explainer(store, RemoteQueue(lambda _question: None, lambda: NoAnswer.AWAY), dict)
    gone, unreachable = no_process.facts(record), away.facts(record)
    said = "a process that runs tasks: the one that ran attempt 1 of 4 is gone, so start `duetime serve`"
    assert explain_state(record, NOW, gone)[0].startswith(said)
    assert explain_state(record, NOW, unreachable) == ("it waits for nothing: it is running, attempt 1 of 4",)
    stopping = replace(record, run=replace(record.run, cancel_requested=True))
    assert [wait.kind for wait in wait_reasons(stopping, NOW, gone)] == [WaitKind.NO_WORKER]
    other = replace(record, run=replace(record.run, id="r_other"))
    assert stall_note([record, other], NOW, no_process.facts, no_process.left_running) == (
        "2 are not running any more: their process is gone, so start `duetime serve` or open a chat client"
    )
    assert stall_note([record], NOW, away.facts, away.left_running) == ""


class Silent:
    """One silent worker, which holds all runs."""

    def __init__(self, holder: RunHolder) -> None:
        self.holder = holder

    def holders(self, run_ids: Collection[str]) -> dict[str, RunHolder]:
        return dict.fromkeys(run_ids, self.holder)

    def seen_at(self, name: str) -> datetime | None:
        return self.holder.seen_at if name == self.holder.worker else None


@pytest.mark.parametrize(
    ("seen_s_ago", "lease_s", "said"),
    [
        (
            20,
            10,
            "has been silent for 20 s, and a server or another worker ends the attempt when its lease expires, in 10 s",
        ),
        (40, -1, "has been silent for 40 s, and its lease has expired, so a server or another worker ends the attempt"),
        (None, 5, "is gone, and a server or another worker ends the attempt when its lease expires, in 5 s"),
    ],
)
def test_a_run_whose_worker_is_silent_says_for_how_long_and_when_its_attempt_ends(
    store: Store, seen_s_ago: int | None, lease_s: int, said: str
) -> None:
    task, _ = stored(store, title="Build")
    restarted(store, store.tasks.get(TENANT, task.id))
    record = store.tasks.get(TENANT, task.id)
    seen_at = None if seen_s_ago is None else NOW - timedelta(seconds=seen_s_ago)
    holder = RunHolder("node-7", seen_at, NOW + timedelta(seconds=lease_s))
    explainer = Explainer(
        store,
        RemoteQueue(lambda _question: {"explanation": None}),
        dict,
        working=lambda: False,
        silent=Silent(holder),
    )
    first, second = explain_state(record, NOW, explainer.facts(record))
    assert first.startswith(f"the end of attempt 1 of 4: its worker node-7 {said}")
    assert second == "a worker: none is running, so start one with `duetime worker`"
    assert explainer.facts(record).left_running == LeftRunning(holder)
    assert stall_note([record], NOW, explainer.facts, explainer.left_running) == (
        "1 is not running any more: its worker is silent, and its attempt ends when the lease does"
    )


def test_a_run_that_a_worker_has_names_the_worker() -> None:
    assert why(status="leased", worker="node-7") == ("worker node-7, which has taken it and is about to start it",)


@pytest.mark.parametrize(
    ("lease_s", "then"),
    [
        (10, "the run is free for other workers when its lease expires, in 10 s"),
        (-1, "its lease has expired, so the run is free for other workers in seconds"),
    ],
)
@pytest.mark.parametrize("working", [True, False])
def test_a_run_that_a_silent_worker_has_taken_promises_no_start_and_says_when_it_is_free(
    store: Store, lease_s: int, then: str, working: bool
) -> None:
    task, _ = stored(store, title="Build")
    record = store.tasks.get(TENANT, task.id)
    ready = replace(record, run=replace(record.run, state=State.READY))
    until = (NOW + timedelta(seconds=lease_s)).timestamp() * 1000
    told: dict[str, Json] = {"status": "leased", "worker": "node-7", "not_before": until}
    silent = Silent(RunHolder("node-7", NOW - timedelta(seconds=20), None))
    queue = RemoteQueue(lambda _question: {"explanation": told})
    explainer = Explainer(store, queue, dict, working=lambda: working, silent=silent)
    first, *more = explain_state(ready, NOW, explainer.facts(ready))
    assert first == f"worker node-7, which has taken it and has been silent for 20 s: {then}"
    assert more == ([] if working else ["a worker: none is running, so start one with `duetime worker`"])
    alive = Explainer(store, queue, dict, silent=Silent(RunHolder("node-8", NOW, None)))
    assert explain_state(ready, NOW, alive.facts(ready)) == (
        "worker node-7, which has taken it and is about to start it",
    )


def test_a_run_apart_after_crashes_says_until_when() -> None:
    facts = RunFacts(Explanation("delayed", not_before=MS + 5000))
    assert wait_sentences(a_record(crashes=2), NOW, facts)[0].startswith(
        "its start at Fri 20 Nov 2026 12:00 (in 5 s): it runs alone"
    )


def test_a_run_that_is_early_says_until_when() -> None:
    said = why(status="delayed", not_before=MS + 1000)
    assert said == ("its start at Fri 20 Nov 2026 12:00 (in 1 s): a worker may take it then",)


def test_a_queue_that_does_not_answer_and_one_that_was_not_told_yet_are_told_apart() -> None:
    said = [wait_sentences(a_record(), NOW, RunFacts(silence=silence))[0] for silence in (*NoAnswer, None)]
    assert said[0].startswith("a process that runs tasks: none is running")
    assert said[1].startswith("Redis, which is unreachable")
    assert said[2].startswith("the queue in Redis to be rebuilt")
    assert said[3].startswith("a process that runs tasks: this one starts to within seconds")
    assert said[4].startswith("a dispatcher to queue it")


def test_a_due_run_that_no_process_has_seen_waits_for_a_process_and_not_for_its_time() -> None:
    late = replace(a_record(), run=replace(a_record().run, state=State.SCHEDULED))
    for facts in (RunFacts(silence=NoAnswer.NO_PROCESS), RunFacts(working=False)):
        (reason,) = explain_state(late, late.run.scheduled_for + timedelta(minutes=5), facts)
        assert reason.startswith("a process to queue it (it was due")
        assert "5 min ago)" in reason


def test_a_list_calls_nothing_overdue_while_its_process_starts_to_run_tasks() -> None:
    late = replace(a_record(), run=replace(a_record().run, state=State.SCHEDULED))
    now, starting = late.run.scheduled_for + timedelta(seconds=1), RunFacts(silence=NoAnswer.STARTING)
    assert stall_note([late], now, lambda _: starting, lambda _: {}) == ""
    assert explain_state(late, now, starting) == ("a process that runs tasks: this one starts to within seconds",)


def test_a_due_run_waits_for_the_dispatcher_where_a_process_dispatches() -> None:
    late = replace(a_record(), run=replace(a_record().run, state=State.SCHEDULED))
    (reason,) = explain_state(late, late.run.scheduled_for + timedelta(minutes=5), RunFacts())
    assert reason.startswith("a dispatcher to queue it: immediately if one is running")


def test_facts_of_the_database_are_explained_without_a_queue() -> None:
    failed_once: dict[str, Any] = {"attempt": 1, "failures": 1, "error": "boom"}
    retrying = replace(
        a_record(),
        run=replace(a_record().run, state=State.RETRYING, **failed_once, wake_at=NOW + timedelta(minutes=4)),
    )
    assert wait_sentences(retrying, NOW) == ("attempt 2 of 4 in 4 min, after: boom",)
    suspended = replace(retrying, run=replace(retrying.run, state=State.SUSPENDED, summary="the customer's answer"))
    assert wait_sentences(suspended, NOW) == ("its next step in 4 min, after: the customer's answer",)
    paused = replace(a_record(), task=replace(a_record().task, paused=True))
    assert wait_sentences(paused, NOW, RunFacts()) == ("paused: it waits until it is resumed",)


LATER = NOW + timedelta(minutes=4)


def wait_of(*, facts: RunFacts | None = None, paused: bool = False, now: datetime = NOW, **run: Any) -> WaitReason:
    """Return the first reason of a run, without its sentence."""
    record = a_record(**run)
    first = wait_reasons(replace(record, task=replace(record.task, paused=paused)), now, facts)[0]
    assert first.sentence
    return replace(first, sentence="")


def asked(**answer: Any) -> dict[str, Any]:
    return {"facts": RunFacts(Explanation(**{"status": "waiting", **answer}))}


def lacks(reason: Why, **values: Any) -> dict[str, Any]:
    return asked(status="parked", shortage=short(reason, **values))


REASONS: dict[WaitKind, tuple[dict[str, Any], dict[str, Any]]] = {
    WaitKind.RESUME: ({"paused": True}, {}),
    WaitKind.TASK: ({"state": State.WAITING, "wake_at": None}, {}),
    WaitKind.APPROVAL: (
        {
            "state": State.WAITING,
            "wake_at": None,
            "facts": RunFacts(approval=Approval("r1", 0, "Go?", ApprovalAnswer.REJECT, NOW, LATER)),
        },
        {"until": LATER, "title": "Go?", "run": "r1", "goes_on": False},
    ),
    WaitKind.EVENT: (
        {
            "state": State.WAITING,
            "wake_at": None,
            "facts": RunFacts(awaited=KeptWait(SignalWait("paid", {}, NOW, LATER))),
        },
        {"until": LATER, "event": "paid", "goes_on": False},
    ),
    WaitKind.STOP: ({"state": State.RUNNING, "cancel_requested": True}, {}),
    WaitKind.ATTEMPT: (
        {"state": State.RETRYING, "attempt": 1, "failures": 1, "error": "boom", "wake_at": LATER},
        {"until": LATER, "after": "boom"},
    ),
    WaitKind.STEP: (
        {"state": State.SUSPENDED, "summary": "no answer", "wake_at": LATER},
        {"until": LATER, "after": "no answer"},
    ),
    WaitKind.BLOCKED: (
        {"state": State.SUSPENDED, "summary": "blocked: no key", "wake_at": LATER},
        {"until": LATER, "after": "no key"},
    ),
    WaitKind.START: (asked(status="leased", worker="w1"), {}),
    WaitKind.TIME: (asked(status="delayed", not_before=MS + 240_000), {"until": LATER}),
    WaitKind.TURN: (asked(ahead=3), {}),
    WaitKind.ROOM: (asked(), {}),
    WaitKind.NO_WORKER: ({"facts": RunFacts(working=False)}, {}),
    WaitKind.QUEUE: ({"facts": RunFacts(silence=NoAnswer.AWAY)}, {}),
    WaitKind.POOL: (lacks(Why.SHORT, helped_at=MS + 240_000), {"pool": "gpu", "until": LATER}),
    WaitKind.POOL_UNKNOWN: (lacks(Why.UNKNOWN), {"pool": "gpu"}),
    WaitKind.POOL_TOO_SMALL: (lacks(Why.TOO_SMALL), {"pool": "gpu"}),
    WaitKind.POOL_STOPPED: (lacks(Why.STOPPED), {"pool": "gpu"}),
    WaitKind.POOL_BREAKER: (lacks(Why.BREAKER), {"pool": "gpu"}),
}


@pytest.mark.parametrize("kind", WaitKind)
def test_each_reason_is_there_as_data_too(kind: WaitKind) -> None:
    given, expected = REASONS[kind]
    assert wait_of(**given) == WaitReason(kind, "", **expected)


@pytest.mark.parametrize(
    ("facts", "kind"),
    [
        (RunFacts(Explanation("waiting"), known=False), WaitKind.NO_WORKER),
        (RunFacts(silence=NoAnswer.NO_PROCESS), WaitKind.NO_WORKER),
        (RunFacts(silence=NoAnswer.EMPTY), WaitKind.QUEUE),
        (RunFacts(silence=NoAnswer.STARTING), WaitKind.QUEUE),
        (RunFacts(), WaitKind.QUEUE),
        (lacks(Why.HELD, held_for="r9")["facts"], WaitKind.POOL),
    ],
)
def test_reasons_that_are_the_same_for_a_person_are_of_one_kind(facts: RunFacts, kind: WaitKind) -> None:
    assert wait_of(facts=facts).kind is kind


def test_a_run_that_no_process_queues_waits_for_one() -> None:
    reason = wait_of(facts=RunFacts(silence=NoAnswer.NO_PROCESS), state=State.SCHEDULED, now=NOW + timedelta(minutes=5))
    assert reason.kind is WaitKind.NO_WORKER


@pytest.mark.parametrize("state", State)
def test_explain_answers_in_every_state(state: State) -> None:
    record = a_record()
    said = explain_state(
        replace(record, run=replace(record.run, state=state, wake_at=NOW, ended_at=NOW)), NOW, RunFacts()
    )
    assert said
    assert all(said)


def stored(store: Store, **values: Any) -> tuple[Task, Run]:
    task, run = a_task(NOW, **values)
    store.tasks.add(task, run, actor="alice")
    store.claims.make_ready(limit=9)
    return task, run


def test_holders_are_named_by_task_and_other_tenants_are_not(store: Store, queue: MemoryQueue) -> None:
    mine, first = stored(store, title="Render\u00bb the film, at great length and in every detail")
    _, theirs = stored(store, tenant="rival", title="Their secret")
    waiting, last = stored(store, title="Render the trailer")
    queue.set_pool("gpu", read_pool("gpu", {"capacity": 2}).limits(NOW))
    queue.put([Entry(run.id, MS + n, needs={"gpu": 1}) for n, run in enumerate((first, theirs, last))])
    queue.take("w", 3, 30_000)
    explainer = Explainer(store, RemoteQueue(lambda question: answer(queue, question)), dict)
    record = store.tasks.get(TENANT, waiting.id)
    said = " ".join(wait_sentences(record, NOW, explainer.facts(record)))
    assert f"{mine.id} «Render\u203a the film, at great length and i…»" in said
    assert "another user's task" in said
    assert "secret" not in said


@pytest.mark.parametrize(
    ("took", "said"),
    [(60, "done in 3 min"), (5 * 60, "done in 1 min"), (7 * 60, "(running longer than usual)")],
)
def test_a_holder_says_when_it_is_probably_done_where_its_length_is_known(
    store: Store, queue: MemoryQueue, monkeypatch: pytest.MonkeyPatch, took: int, said: str
) -> None:
    _, first = stored(store, title="Render the film")
    waiting, last = stored(store, title="Render the trailer")
    queue.set_pool("gpu", read_pool("gpu", {"capacity": 1}).limits(NOW))
    queue.put([Entry(run.id, MS + n, needs={"gpu": 1}) for n, run in enumerate((first, last))])
    (grant,) = queue.take("w", 2, 30_000).grants
    store.claims.start(
        [Start(grant.run_id, grant.token, grant.needs)], worker="w", epoch=None, lease=timedelta(hours=1)
    )
    record = store.tasks.get(TENANT, waiting.id)
    monkeypatch.setattr(store, "now", lambda: NOW + timedelta(seconds=took))

    def held(lengths: Lengths = default_estimate) -> str:
        explainer = Explainer(store, RemoteQueue(lambda question: answer(queue, question)), dict, lengths)
        return wait_sentences(record, NOW, explainer.facts(record))[0]

    def usual(*of: object) -> Estimate:
        assert of == (TENANT, "reminder", None)
        return Estimate(timedelta(minutes=4), timedelta(minutes=6))

    assert held().endswith("«Render the film»")
    assert held(usual).partition("«Render the film» ")[2] == (said if said[0] == "(" else f"(probably {said})")


def test_additional_fields_of_a_newer_process_are_left_out(queue: MemoryQueue) -> None:
    queue.set_pool("gpu", read_pool("gpu", {"capacity": 1}).limits(NOW))
    queue.put([Entry("first", MS, needs={"gpu": 1}), Entry("second", MS + 1, needs={"gpu": 1})])
    queue.take("w", 2, 30_000, threads=ThreadUse(2))

    def newer(said: Any) -> Any:
        if isinstance(said, dict):
            return {name: newer(value) for name, value in said.items()} | {"of_tomorrow": 1}
        return said

    def newer_answer(question: Any) -> Any:
        said: Any = answer(queue, question)
        if "stats" in said:
            return {"stats": {**said["stats"], "of_tomorrow": 1, **_each(said["stats"], newer)}}
        return newer(said)

    remote = RemoteQueue(newer_answer)
    assert remote.explain("second") == (None, queue.explain("second"))
    assert remote.stats() == queue.stats()


def _each(stats: Any, newer: Callable[[Any], Any]) -> dict[str, Any]:
    return {part: {name: newer(use) for name, use in stats[part].items()} for part in ("pools", "threads")}


def test_a_reason_that_only_a_newer_process_knows_leaves_the_place_of_the_run(queue: MemoryQueue) -> None:
    shortage: dict[str, Json] = {"pool": "gpu", "why": "of tomorrow", "needed": 1, "free": 0, "capacity": 1}
    remote = RemoteQueue(lambda _question: {"explanation": {"status": "parked", "ahead": 2, "shortage": shortage}})
    assert remote.explain("second") == (None, Explanation("parked", 2))


def test_an_open_breaker_is_told_with_its_time(store: Store, queue: MemoryQueue) -> None:
    _, first = stored(store)
    waiting, last = stored(store)
    queue.set_pool("api", read_pool("api", {"capacity": 2, "breaker": {"failures": 1, "cooldown": 60}}).limits(NOW))
    queue.put([Entry(first.id, MS, needs={"api": 1})])
    grant = queue.take("w", 1, 30_000).grants[0]
    queue.finish("w", [Finish(first.id, grant.token, reports=(Report("api", ok=False),))])
    queue.put([Entry(last.id, MS, needs={"api": 1})])
    queue.take("w", 1, 30_000)
    record = store.tasks.get(TENANT, waiting.id)
    facts = Explainer(store, RemoteQueue(lambda question: answer(queue, question)), dict).facts(record)
    assert wait_sentences(record, NOW, facts) == (
        "pool api: its breaker is open after failures, until Fri 20 Nov 2026 06:01 (in 1 min)",
    )


def test_answers_of_a_queue_survive_the_way_through_another_process(queue: MemoryQueue) -> None:
    import json

    remote_queue = RemoteQueue(lambda question: json.loads(json.dumps(answer(queue, json.loads(json.dumps(question))))))
    queue.set_pool("gpu", read_pool("gpu", {}).limits(NOW))
    queue.put([Entry(f"r{n}", MS + n, needs={"gpu": 1}) for n in range(3)])
    queue.take("w", 3, 30_000)
    for run_id in ("r0", "r1", "r2"):
        assert remote_queue.explain(run_id) == (None, queue.explain(run_id))
    assert remote_queue.explain("unknown") == (None, None)
    assert remote_queue.stats() == queue.stats()
    assert RemoteQueue(lambda _: None).explain("r0") == (NoAnswer.NO_PROCESS, None)
    assert RemoteQueue(lambda _: None).stats() is None


@pytest.mark.parametrize("change", ["cancel", "pause", "move"])
def test_a_run_that_must_not_start_any_more_leaves_the_queue_at_once(
    store: Store, queue: MemoryQueue, change: str
) -> None:
    remote_queue = RemoteQueue(lambda question: answer(queue, question))
    scheduler = Scheduler(
        store, Planner(Handlers.load(entry_points=False), "UTC"), notices=ChangeNotices(recall=remote_queue.recall)
    )
    task_id = scheduler.schedule("Call John", when=NOW + timedelta(seconds=0), by=ALICE).record.task.id
    store.claims.make_ready(limit=9)
    run_id = store.tasks.get(TENANT, task_id).run.id
    queue.put([Entry(run_id, MS, needs={"closed": 1})])
    queue.take("w", 1, 30_000)
    assert queue.stats().parked == 1
    if change == "cancel":
        scheduler.cancel(task_id, by=ALICE)
    elif change == "pause":
        scheduler.reschedule(task_id, pause=True, by=ALICE)
    else:
        scheduler.reschedule(task_id, when="in 2 hours", by=ALICE)
    assert queue.explain(run_id) is None
    assert queue.stats().parked == 0
