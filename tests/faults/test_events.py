"""Events and killed processes: one that was answered is not lost, one that is sent twice counts once."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from duetime.scheduler.signal.signal import SignalWait
from duetime.scheduler.task import State

from tests.builders import a_task
from tests.faults.conftest import PATIENCE_S, ROOT, Site, until

pytestmark = pytest.mark.faults

SENDER = """
import os, signal, sys
from duetime.scheduler.signal.signal import ReceivedSignal
from duetime.scheduler.store import open_store
from tests.builders import TENANT

store = open_store(sys.argv[1], migrate=False)
print("up", flush=True)
sys.stdin.readline()
found = store.signals.send(TENANT, ReceivedSignal("paid", "pay-7", {"order": 7}), actor="bob")
print(found.freed, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def waiting(site: Site) -> str:
    """Store a task that waits for the event."""
    now = datetime.now(UTC)
    task, run = a_task(now, action="effect", payload={}, deliver_to=("inbox",))
    held = replace(run, state=State.WAITING, wake_at=None)
    wait = SignalWait("paid", {"order": 7}, now, now + timedelta(days=1))
    site.store.tasks.add(task, held, actor="alice", wait=wait)
    return task.id


def sender(site: Site) -> subprocess.Popen[str]:
    """Start a process that sends the event when it is told to, prints the answer, and is killed."""
    command = [sys.executable, "-c", SENDER, f"sqlite:///{site.folder}/duetime.db"]
    started = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    site.nodes.append(started)
    assert started.stdout is not None
    assert started.stdout.readline() == "up\n"
    return started


def answer(started: subprocess.Popen[str]) -> str:
    said, _ = started.communicate("go\n", timeout=PATIENCE_S)
    return said.strip()


def test_an_event_that_was_answered_is_not_lost_with_the_process_that_took_it(site: Site) -> None:
    task_id = waiting(site)
    assert answer(sender(site)) == "1"
    site.start()
    until(lambda: site.open_tasks() == 0, "the task to end")
    site.check([task_id])


def test_a_handler_that_waits_for_an_event_outlives_its_process_and_that_of_the_sender(site: Site) -> None:
    [task_id] = site.add("waits_for_event")
    site.kill_when(site.start(), lambda: site.record(task_id).run.state is State.SUSPENDED)
    assert answer(sender(site)) == "1"
    site.start()
    until(lambda: site.open_tasks() == 0, "the task to end")
    outcomes, run = site.attempts(task_id), site.record(task_id).run
    assert (outcomes[-1], set(outcomes[:-1]) - {"crashed"}) == ("done", {"wait"})
    assert (run.state, site.effects()[run.id]) == (State.SUCCEEDED, 1)


def test_an_event_that_many_send_at_once_lets_a_task_go_once(site: Site) -> None:
    site.start()
    task_id = waiting(site)
    senders = [sender(site) for _ in range(4)]
    for each in senders:
        assert each.stdin is not None
        each.stdin.write("go\n")
        each.stdin.flush()
    answers = Counter(answer(each) for each in senders)
    assert answers == {"1": 4}, "a repeat is answered as the first"
    until(lambda: site.open_tasks() == 0, "the task to end")
    site.check([task_id])
