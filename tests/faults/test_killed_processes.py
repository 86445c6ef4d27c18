"""Processes are killed in the middle of their work. Nothing is lost, nothing settles twice, and the work goes on.

Each test shows that the fault was real.
"""

from __future__ import annotations

import signal
import subprocess
from functools import partial
from typing import Any

import pytest
from duetime.scheduler.events import EventKind
from duetime.scheduler.nodes.ipc import RunnerClient
from duetime.scheduler.rules import changes
from duetime.scheduler.task import State

from tests.builders import TENANT
from tests.faults.conftest import PATIENCE_S, Site, assert_taken_over_at_once
from tests.faults.node import THREAD_COUNT
from tests.flow.waiting import eventually

pytestmark = pytest.mark.faults

KILL_COUNT = 10
TASK_COUNT = 200


def test_killed_ten_times_in_the_middle_of_200_tasks_loses_none_and_settles_each_once(site: Site) -> None:
    tasks = site.add(*["effect"] * TASK_COUNT)
    killed = []
    for kill in range(KILL_COUNT):
        node = site.start()
        enough = TASK_COUNT - site.open_tasks() + THREAD_COUNT + 4
        eventually(partial(site.have_ended, enough), f"work before kill {kill + 1}")
        site.kill_in_the_middle(node)
        killed.append(node.pid)
    site.start()
    eventually(lambda: site.open_tasks() == 0, "all tasks to end")
    site.check(tasks)
    crashed = {
        attempt.worker.split("-")[-2]
        for task_id in tasks
        for attempt in site.store.history.attempts(TENANT, task_id)
        if attempt.outcome == "crashed"
    }
    assert crashed == {str(pid) for pid in killed}, "a kill hit no running work, so it proves nothing"


def test_a_run_whose_process_was_killed_is_tried_again_under_the_key_of_its_template(site: Site) -> None:
    named: dict[str, Any] = {"key_template": "{tenant}:{label.account}:{window}", "labels": ("account:acme",)}
    [task_id] = site.add("effect", payload={"seconds": 600}, **named)
    site.kill_when(site.start(), site.ledger)
    site.start()
    eventually(lambda: len(site.ledger()) == 2, "the second attempt to start")
    first, second = site.ledger()
    due = site.record(task_id).run.scheduled_for
    assert first.run_id == second.run_id == f"{TENANT}:acme:{due:%Y-%m-%dT%H:%M:%S.%f}Z"
    assert (first.attempt, second.attempt, first.pid != second.pid) == (1, 2, True)


def test_four_processes_on_one_file_lose_their_runner_three_times(site: Site) -> None:
    nodes = {node.pid: node for node in (site.start() for _ in range(4))}
    eventually(site.store.runners.current, "a first runner")
    tasks = site.add(*["effect"] * 150, every=0.03)
    taken: list[float] = []
    for _ in range(3):
        before = site.store.runners.current()
        assert before is not None
        seen = len(site.ledger())
        eventually(partial(site.is_at_work, before.pid, seen), "the runner to be at work")
        killed_at = site.kill(nodes.pop(before.pid))
        eventually(partial(site.has_runner_after, before.epoch), "another runner")
        after = site.store.runners.current()
        assert after is not None
        assert after.pid in nodes
        taken.append(after.started_at.timestamp() - killed_at)
    eventually(lambda: site.open_tasks() == 0, "all tasks to end")
    site.check(tasks)
    workers = {attempt.worker for task_id in tasks for attempt in site.store.history.attempts(TENANT, task_id)}
    assert len(workers) == 4, "each of the four processes was the runner once"
    assert_taken_over_at_once(taken)


def test_a_run_that_takes_its_process_down_fails_at_the_third_time_and_others_do_not(site: Site) -> None:
    poison, *others = site.add("poison", *["effect"] * 20, every=0.001)
    for _ in range(3):
        site.start().wait(PATIENCE_S)
    site.start()
    eventually(lambda: site.open_tasks() == 0, "all tasks to end")
    record = site.record(poison)
    assert (record.run.state, site.attempts(poison)) == (State.FAILED, ["crashed"] * 3)
    letters, _ = site.store.dead_letters.page(TENANT, limit=9)
    assert [letter.task_id for letter in letters] == [poison]
    assert all(site.record(task_id).run.state is State.SUCCEEDED for task_id in others)
    assert len(site.store.inbox.unread(TENANT, "alice", limit=99)) == 21


@pytest.mark.parametrize("signal_sent", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_a_signal_lets_short_work_finish_and_hands_long_work_back(site: Site, signal_sent: signal.Signals) -> None:
    node = site.start()
    long = site.add("effect", payload={"seconds": 600})
    short = site.add("effect", payload={"seconds": 1})
    eventually(lambda: [line.step for line in site.ledger()] == ["start", "start"], "both to run")
    _ended(node, signal_sent)
    site.check(short)
    handed_back = site.record(long[0]).run
    assert (handed_back.state, handed_back.crashes, handed_back.failures) == (State.SUSPENDED, 0, 0)
    site.start()
    eventually(lambda: site.ledger()[-1].attempt == 2, "the long one to be started again")
    assert {line.run_id for line in site.ledger() if line.attempt == 2} == {handed_back.id}


def test_a_signal_before_any_work_ends_the_process(site: Site) -> None:
    _ended(site.start(), signal.SIGTERM)


def test_another_process_cancels_what_the_runner_runs(site: Site) -> None:
    site.start()
    [task_id] = site.add("effect", payload={"seconds": 600})
    eventually(site.ledger, "it to run")
    site.store.tasks.change(
        TENANT,
        task_id,
        actor="alice",
        kind=EventKind.CANCEL_REQUESTED,
        decide=lambda record: changes.cancel(record, site.store.now()),
    )
    assert RunnerClient(site.store).wake(PATIENCE_S)
    eventually(lambda: site.record(task_id).run.state is State.CANCELLED, "it to be cancelled, far before its 600 s")


def _ended(node: subprocess.Popen[str], signal_sent: signal.Signals) -> None:
    node.send_signal(signal_sent)
    assert node.wait(PATIENCE_S) == 0
