"""A process is killed between the end of an upstream and the start of what comes after it: the chain goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from duetime.scheduler.chain.chain import Chain, NewChain
from duetime.scheduler.chain.dependency import Dependency, DependentTask
from duetime.scheduler.ids import new_chain_id
from duetime.scheduler.records import NewTask
from duetime.scheduler.runtime.failpoints import VARIABLE
from duetime.scheduler.task import State

from tests.builders import TENANT, a_task
from tests.faults.conftest import PATIENCE_S, ROOT, Site, until

pytestmark = pytest.mark.faults

STEPS = 4


def a_chain(site: Site) -> list[str]:
    """Store a chain of steps that come one after the other, and return their tasks."""
    steps: dict[str, NewTask] = {}
    now, last = datetime.now(UTC), None
    for number in range(STEPS):
        task, run = a_task(now, action="effect", payload={}, deliver_to=("inbox",))
        if last is None:
            steps[f"s{number}"] = NewTask(task, run, "alice")
        else:
            held = replace(run, state=State.WAITING, wake_at=None)
            steps[f"s{number}"] = DependentTask(task, held, "alice", after=(Dependency(last),))
        last = task.id
    site.store.chains.add(NewChain(Chain(new_chain_id(), TENANT, "alice", "Report", "UTC", now), steps))
    return [item.task.id for item in steps.values()]


def start_to_die(site: Site, spec: str) -> subprocess.Popen[str]:
    """Start a process that kills itself at a fail point."""
    command = [sys.executable, "-m", "tests.faults.node", str(site.folder)]
    node = subprocess.Popen(command, cwd=ROOT, env={**os.environ, VARIABLE: spec}, stdout=subprocess.PIPE, text=True)
    site.nodes.append(node)
    return node


@pytest.mark.parametrize("spec", ["settled:kill", "made_ready:kill:2", "claimed:kill:2"])
def test_a_kill_between_the_end_of_a_step_and_the_next_one_loses_none(site: Site, spec: str) -> None:
    tasks = a_chain(site)
    assert start_to_die(site, spec).wait(PATIENCE_S) == -signal.SIGKILL
    first, second, *rest = [site.record(task_id).run.state for task_id in tasks]
    assert first is State.SUCCEEDED, "it was killed before anything ended, so it proves nothing"
    assert second in {State.SCHEDULED, State.READY, State.RUNNING}, "it waits for what has ended"
    assert rest == [State.WAITING] * len(rest)
    site.start()
    until(lambda: site.open_tasks() == 0, "the chain to end")
    site.check(tasks)
