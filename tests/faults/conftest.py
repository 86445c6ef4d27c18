"""Real processes on one real database file, and what they left behind."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from duetime.scheduler.nodes.ipc import RunnerClient
from duetime.scheduler.records import NewTask
from duetime.scheduler.rules.states import LEGAL_MOVES
from duetime.scheduler.store import open_store
from duetime.scheduler.task import RetryPolicy, State
from duetime.scheduler.views import TaskFilter, TaskRecord

from tests import forked
from tests.builders import TENANT, a_task
from tests.flow.waiting import eventually

ROOT = Path(__file__).resolve().parents[2]

PATIENCE_S = 120.0
"""After which something is taken to hang; no test depends on how long it takes."""

RESUMES_WITHIN_S = 35
"""The promise of docs/reliability.md, also for a machine that does much else."""


@dataclass(frozen=True)
class Line:
    """A line of the ledger."""

    step: str
    run_id: str
    attempt: int
    pid: int
    at: float = 0.0


@dataclass
class Site:
    """A folder with a database, the processes that a test started on it, and the ledger of their handlers."""

    folder: Path
    nodes: list[subprocess.Popen[str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.store = open_store(f"sqlite:///{self.folder}/duetime.db")
        self.client = RunnerClient(self.store)

    def start(self) -> subprocess.Popen[str]:
        """Start one more process, and return when it is up."""
        command = [sys.executable, "-m", "tests.faults.node", str(self.folder)]
        node = forked.popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        self.nodes.append(node)
        assert node.stdout is not None
        assert node.stdout.readline() == "up\n"
        return node

    def kill(self, node: subprocess.Popen[str]) -> float:
        """Kill a process as nothing else does, and return when, in seconds of the wall."""
        node.send_signal(signal.SIGKILL)
        at = time.time()
        node.wait(PATIENCE_S)
        return at

    def kill_when(self, node: subprocess.Popen[str], condition: Callable[[], object]) -> None:
        """Kill a process once something holds."""
        eventually(condition, "the moment at which to kill")
        self.kill(node)

    def kill_in_the_middle(self, node: subprocess.Popen[str]) -> None:
        """Kill a process while a run is under way in it."""
        eventually(lambda: self._stopped_in_the_middle(node), "a run in the middle of which to kill")
        self.kill(node)

    def _stopped_in_the_middle(self, node: subprocess.Popen[str]) -> bool:
        """Stop a process, and let it go on if nothing is under way in it."""
        node.send_signal(signal.SIGSTOP)
        forked.wait_until_stopped(node)
        if any(f"-{node.pid}-" in run.worker for run in self.store.claims.running(limit=1_000)):
            return True
        node.send_signal(signal.SIGCONT)
        return False

    def add(self, *actions: str, after: float = 0, every: float = 0, **values: Any) -> list[str]:
        """Schedule one task for each action, the first in `after` seconds and then one `every` so many."""
        now = datetime.now(UTC).timestamp() + after
        values = {"payload": {}, "deliver_to": ("inbox",), "retry": RetryPolicy(max_attempts=2)} | values
        new = [
            NewTask(*a_task(datetime.fromtimestamp(now + n * every, UTC), action=action, **values), actor="alice")
            for n, action in enumerate(actions)
        ]
        self.store.tasks.add_many(new)
        self.client.wake()
        return [each.task.id for each in new]

    def record(self, task_id: str) -> TaskRecord:
        return self.store.tasks.get(TENANT, task_id)

    def ledger(self) -> list[Line]:
        path = self.folder / "ledger"
        lines = path.read_text().splitlines() if path.exists() else []
        parts = map(str.split, lines)
        return [Line(step, run_id, int(attempt), int(pid), float(at)) for step, run_id, attempt, pid, at in parts]

    def effects(self) -> Counter[str]:
        return Counter(line.run_id for line in self.ledger() if line.step == "effect")

    def open_tasks(self) -> int:
        counts = self.store.tasks.counts(TENANT, TaskFilter())
        return sum(count for state, count in counts.items() if LEGAL_MOVES[state])

    def have_ended(self, count: int) -> bool:
        counts = self.store.tasks.counts(TENANT, TaskFilter())
        return sum(ended for state, ended in counts.items() if not LEGAL_MOVES[state]) >= count

    def is_at_work(self, pid: int, seen: int) -> bool:
        """Whether a process wrote into the ledger behind its first `seen` lines."""
        return any(line.pid == pid for line in self.ledger()[seen:])

    def has_runner_after(self, epoch: int) -> bool:
        runner = self.store.runners.current()
        return runner is not None and runner.epoch > epoch

    def attempts(self, task_id: str) -> list[str | None]:
        return [attempt.outcome for attempt in self.store.history.attempts(TENANT, task_id)]

    def check(self, task_ids: list[str], state: State = State.SUCCEEDED) -> None:
        """No task is lost, none is settled twice, and none had more effects than its crashes explain."""
        effects = self.effects()
        for task_id in task_ids:
            record, outcomes = self.record(task_id), self.attempts(task_id)
            assert record.run.state is state, (task_id, record.run.state, outcomes)
            assert outcomes == ["crashed"] * (len(outcomes) - 1) + ["done"], (task_id, outcomes)
            assert 1 <= effects[record.run.id] <= len(outcomes), (task_id, effects[record.run.id], outcomes)
        messages = Counter(message.run_id for message in self.store.inbox.unread(TENANT, "alice", limit=10_000))
        assert messages == Counter(self.record(task_id).run.id for task_id in task_ids)

    def close(self) -> None:
        for node in self.nodes:
            if node.poll() is None:
                node.kill()
                node.wait(PATIENCE_S)
            if node.stdout is not None:
                node.stdout.close()
        self.store.close()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    site = Site(tmp_path)
    yield site
    site.close()


LEASE_S = 30
"""The time that others wait for a runner that is only silent, and holds its lock."""


def assert_taken_over_at_once(taken_s: list[float]) -> None:
    """Hold each take-over to the promise, and the quickest to what it takes by the lock, far less than a lease."""
    assert max(taken_s) < RESUMES_WITHIN_S
    assert min(taken_s) < LEASE_S / 2
