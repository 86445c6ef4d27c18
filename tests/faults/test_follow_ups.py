"""A process is killed around a failure: the task that follows from it is there once, whatever dies and comes again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import Any

import pytest
from duetime.scheduler.runtime.failpoints import VARIABLE
from duetime.scheduler.task import State
from duetime.scheduler.views import TaskFilter

from tests.builders import TENANT
from tests.faults.conftest import PATIENCE_S, ROOT, Site, until

pytestmark = pytest.mark.faults

FAILS: dict[str, Any] = {
    "expect": {"field": "order_id"},
    "on_failure": {"run": {"action": "effect", "payload": {}}, "tier": "high"},
}
TASKS = 3


@pytest.mark.parametrize("spec", ["claimed:kill", "settled:kill", "settled:kill:2", "made_ready:kill:2"])
def test_a_kill_around_a_failure_neither_loses_nor_doubles_what_follows_from_it(site: Site, spec: str) -> None:
    tasks = site.add(*["effect"] * TASKS, labels=(), **FAILS)
    command = [sys.executable, "-m", "tests.faults.node", str(site.folder)]
    node = subprocess.Popen(command, cwd=ROOT, env={**os.environ, VARIABLE: spec}, stdout=subprocess.PIPE, text=True)
    site.nodes.append(node)
    assert node.wait(PATIENCE_S) == -signal.SIGKILL
    site.start()
    until(lambda: site.open_tasks() == 0 and site.have_ended(2 * TASKS), "all of them and what follows to end")
    made, _ = site.store.tasks.page(TENANT, TaskFilter(label="on_failure"), limit=99)
    causes = [site.store.dependencies.failure(TENANT, each.task.id) for each in made]
    assert sorted(cause.task_id for cause in causes if cause) == sorted(tasks)
    assert {each.run.state for each in made} == {State.SUCCEEDED}
    assert {site.record(task_id).task.priority for task_id in tasks} == {"high"}
