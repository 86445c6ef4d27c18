"""Real processes on PostgreSQL and Redis: servers, workers, their parent, and Dramatiq's own command line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from duetime.scheduler.audit.entry import AuditEntry, AuditKind
from duetime.scheduler.principal import LOCAL
from duetime.scheduler.store.schema.tables.tasks import runs
from duetime.scheduler.store.workers import DrainMode
from duetime.scheduler.task import State
from duetime.server.app import App, build
from duetime.server.settings.model import Settings
from sqlalchemy import select

from tests import forked
from tests.flow import waiting

pytestmark = [pytest.mark.postgres, pytest.mark.faults]

ROOT = Path(__file__).resolve().parents[3]
PATIENCE_S = 120
eventually = partial(waiting.eventually, patience=PATIENCE_S)  # processes start, on machines that do much else
DUETIME = [sys.executable, "-m", "duetime"]
WORKER = (["worker"], "now runs tasks")
SERVER = (["serve", "--port", "0"], "serves MCP at")
DRAMATIQ = [sys.executable, "-m", "dramatiq", "duetime.server.dramatiq:broker"]


@dataclass
class Site:
    """A database, a queue of its own in Redis, the processes that a test started, and what their handlers did."""

    folder: Path
    environment: dict[str, str]
    app: App
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, *command: str) -> subprocess.Popen[bytes]:
        log = self.folder / f"log-{len(self.processes)}"
        with log.open("wb") as output:
            begin = subprocess.Popen if command[:3] == (*DRAMATIQ,) else forked.popen
            process = begin(
                list(command), cwd=ROOT, env=self.environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        self.processes.append(process)
        return process

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a verb to its end."""
        return forked.run([*DUETIME, *command], cwd=ROOT, env=self.environment, timeout=PATIENCE_S)

    def worker(self, *options: str) -> subprocess.Popen[bytes]:
        """Start a worker, and return when it runs tasks."""
        process = self.start(*DUETIME, "worker", *options)
        self.wait_for(process, WORKER[1])
        return process

    def server(self) -> subprocess.Popen[bytes]:
        process = self.start(*DUETIME, *SERVER[0])
        self.wait_for(process, SERVER[1])
        return process

    def log(self, process: subprocess.Popen[bytes]) -> str:
        return (self.folder / f"log-{self.processes.index(process)}").read_text(errors="replace")

    def wait_for(self, process: subprocess.Popen[bytes], words: str) -> None:
        eventually(lambda: words in self.log(process) or process.poll() is not None, f"{words!r} is said")
        assert process.poll() is None, self.log(process)

    def end(self, process: subprocess.Popen[bytes], number: int = signal.SIGTERM) -> int:
        """Signal a process, and return its exit code."""
        process.send_signal(number)
        return process.wait(PATIENCE_S)

    def schedule(self, count: int, **payload: Any) -> list[str]:
        views = [self.app.scheduler.schedule(f"Task {n}", action="effect", payload=payload) for n in range(count)]
        return [view.record.task.id for view in views]

    def delay(self) -> float:
        """Run one more task, and return how many seconds after its time it was started."""
        (task_id,) = self.schedule(1)
        eventually(lambda: self.states([task_id]) == {State.SUCCEEDED: 1}, "it ran")
        run = self.app.scheduler.get(task_id).record.run
        assert run.started_at is not None
        return (run.started_at - run.scheduled_for).total_seconds()

    def states(self, task_ids: Sequence[str]) -> Counter[State]:
        """Count tasks by the state of their current run, by one statement: it is asked again and again."""
        wanted = select(runs.c.state).where(runs.c.task_id.in_(task_ids), runs.c.current)
        return Counter(self.app.store._database.read(lambda connection: connection.execute(wanted).scalars().all()))

    def steps(self) -> list[tuple[str, str, int]]:
        """Return what handlers noted: step, run and process."""
        path = self.folder / "ledger"
        lines = path.read_text().splitlines() if path.exists() else []
        return [(step, key, int(pid)) for step, key, _attempt, pid, _at in map(str.split, lines)]

    def effects(self) -> Counter[str]:
        return Counter(key for step, key, _ in self.steps() if step == "effect")

    def worker_id(self, process: subprocess.Popen[bytes]) -> str:
        return next(row.id for row in self.app.store.workers.all() if row.pid == process.pid)

    def worker_state(self, process: subprocess.Popen[bytes]) -> str:
        return next(row.state for row in self.app.store.workers.all() if row.pid == process.pid)

    def drain(self, process: subprocess.Popen[bytes], mode: DrainMode) -> None:
        self.app.store.workers.drain(self.worker_id(process), mode, AuditEntry.by(LOCAL, AuditKind.WORKER_DRAINED))

    def workers_seen(self) -> int:
        return len(self.app.store.workers.all())


@pytest.fixture
def site(tmp_path: Path, migrated_postgres_url: str, valkey_url: str) -> Iterator[Site]:
    given: dict[str, Any] = {
        "DATABASE_URL": migrated_postgres_url,
        "REDIS_URL": valkey_url,
        "REDIS_NAMESPACE": tmp_path.name[:40],
        "HANDLERS": "tests.faults.ledger",
        "TIMEZONE": "UTC",
        "THREADS": "4",
        "YIELD_TO_LOAD": "false",
        "DESKTOP_NOTIFICATIONS": "off",
        "LOG_FORMAT": "text",
    }
    kept = {name: value for name, value in os.environ.items() if not name.startswith("DUETIME_")}
    ours = {f"DUETIME_{name}": value for name, value in given.items()}
    settings = Settings(**{name.lower(): value for name, value in given.items() if name != "HANDLERS"})
    app = build(settings.model_copy(update={"handlers": ("tests.faults.ledger",)}))
    site = Site(tmp_path, {**kept, **ours, "HOME": str(tmp_path), "LEDGER": str(tmp_path / "ledger")}, app)
    yield site
    for process in site.processes:
        if process.poll() is None:
            process.kill()
            process.wait(PATIENCE_S)
    app.close()


def children(pid: int) -> list[int]:
    listed = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False).stdout
    return [int(line) for line in listed.split()]


def test_a_task_runs_within_a_moment_on_a_worker_that_was_idle(site: Site) -> None:
    site.worker()
    site.server()
    site.schedule(1)
    eventually(site.effects, "the first ran")  # what is loaded on first use is loaded now
    delays: list[float] = []

    def five_are_prompt() -> bool:
        """Run one more: by polling each 2 s, one of four would be as prompt, and five in a row hardly ever."""
        delays.append(site.delay())
        return len(delays) >= 5 and max(delays[-5:]) < 0.5

    eventually(five_are_prompt, "it to run at once, whatever else the machine does")


def test_a_stopping_worker_takes_nothing_more_and_lets_what_runs_end(site: Site) -> None:
    worker = site.worker()
    task_ids = site.schedule(12, until_asked=True)
    eventually(lambda: len(site.steps()) >= 4, "its threads are busy")
    assert site.end(worker) == 0
    assert site.states(task_ids)[State.RUNNING] == 0
    started = Counter(step for step, _, _ in site.steps())
    assert started["start"] == started["effect"] == 4, "what ran has ended, and nothing began after"
    assert site.workers_seen() == 0


def test_a_drained_worker_starts_nothing_while_another_does_and_nothing_is_lost(site: Site) -> None:
    drained, other = site.worker(), site.worker()
    first = site.schedule(8, until_asked=True)
    eventually(lambda: len(site.steps()) >= 8, "both are busy")
    site.drain(drained, DrainMode.NOW)
    eventually(lambda: site.worker_state(drained) == "drained", "it handed back what ran")
    site.drain(other, DrainMode.NOW)
    eventually(lambda: site.states(first)[State.RUNNING] == 0, "so did the other")
    begun = len(site.steps())
    site.app.store.workers.resume(site.worker_id(other), AuditEntry.by(LOCAL, AuditKind.WORKER_RESUMED))
    later = site.schedule(20)
    eventually(lambda: site.states(later) == {State.SUCCEEDED: 20}, "all ran")
    assert {pid for _, _, pid in site.steps()[begun:]} == {other.pid}
    assert drained.poll() is None, "it lives on"
    assert site.worker_state(drained) == "drained"
    assert site.end(drained) == 0


def test_a_run_that_does_not_end_in_time_is_handed_back_and_runs_elsewhere(site: Site) -> None:
    site.environment["DUETIME_GRACE_SECONDS"] = "0.2"
    worker = site.worker()
    (task_id,) = site.schedule(1, seconds=600.0)
    eventually(site.steps, "it runs")
    assert site.end(worker) == 0
    site.worker()
    eventually(lambda: len(site.steps()) >= 2, "it runs elsewhere")
    assert site.states([task_id]) == {State.RUNNING: 1}


def test_a_worker_process_that_dies_is_replaced_and_its_siblings_go_on(site: Site) -> None:
    parent = site.start(*DUETIME, "worker", "--processes", "2", "--threads", "2")
    eventually(lambda: site.workers_seen() == 2, "both run")
    first, second = children(parent.pid)
    os.kill(first, signal.SIGKILL)
    eventually(lambda: len(children(parent.pid)) == 2 and first not in children(parent.pid), "it is replaced")
    assert second in children(parent.pid)
    eventually(lambda: site.workers_seen() == 3, "the new one runs")  # the row of the dead one stays for a while
    task_ids = site.schedule(20)
    eventually(lambda: site.states(task_ids) == {State.SUCCEEDED: 20}, "all ran")
    mine = children(parent.pid)
    assert site.end(parent) == 0
    assert not any(alive(pid) for pid in mine), "nobody is left behind"
    assert f"(pid {first}) exited with code -9" in site.log(parent)
    told = [line.split()[1] for line in site.log(parent).splitlines() if "stopping: its parent ends" in line]
    assert sorted(map(int, told)) == sorted(mine), "each says so, under its pid"


def test_the_processes_of_a_parent_that_is_killed_end_by_themselves(site: Site) -> None:
    parent = site.start(*DUETIME, "worker", "--processes", "2")
    eventually(lambda: site.workers_seen() == 2, "both run")
    mine = children(parent.pid)
    parent.kill()
    parent.wait(PATIENCE_S)
    eventually(lambda: not any(alive(pid) for pid in mine), "they have ended")
    assert site.workers_seen() == 0, "in order"
    assert site.log(parent).count("stopping: its input ended") == 2


def alive(pid: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


def test_a_worker_without_redis_says_what_it_needs(site: Site) -> None:
    del site.environment["DUETIME_REDIS_URL"]
    worker = site.start(*DUETIME, "worker")
    assert worker.wait(PATIENCE_S) == 2
    assert "redis_url: a worker takes its tasks from Redis" in site.log(worker)


def test_runs_that_an_old_worker_does_not_know_wait_for_a_new_one(site: Site) -> None:
    handlers = site.environment.pop("DUETIME_HANDLERS")
    old = site.worker()
    task_ids = site.schedule(5)
    known = [site.app.scheduler.schedule(f"Reminder {n}", when=timedelta(0)).record.task.id for n in range(5)]
    eventually(lambda: site.states(known) == {State.SUCCEEDED: 5}, "the old worker runs what it knows")
    assert site.states(task_ids) == {State.READY: 5}
    assert "no worker knows the action 'effect'" in site.run("doctor").stdout
    site.environment["DUETIME_HANDLERS"] = handlers
    new = site.worker()
    eventually(lambda: site.states(task_ids) == {State.SUCCEEDED: 5}, "the new worker runs the others")
    ran = [site.app.scheduler.get(task_id).record.run for task_id in task_ids]
    assert [run.attempt for run in ran] == [1] * 5
    assert old.poll() is None
    assert {pid for _, _, pid in site.steps()} == {new.pid}


def test_the_command_line_of_dramatiq_runs_tasks_and_drains(site: Site) -> None:
    master = site.start(*DRAMATIQ, "--processes", "2", "--threads", "2")
    task_ids = site.schedule(20)
    eventually(lambda: site.states(task_ids) == {State.SUCCEEDED: 20}, "all ran")
    assert set(site.effects().values()) == {1}
    eventually(lambda: site.workers_seen() == 2, "both say who they are")
    long = site.schedule(8, until_asked=True)
    eventually(lambda: site.states(long)[State.RUNNING] == 4, "four threads are busy")
    assert site.end(master) == 0
    assert site.states(long) == {State.SUCCEEDED: 4, State.READY: 4}
    assert site.workers_seen() == 0


def test_doctor_and_workers_tell_how_a_shared_installation_fares(site: Site) -> None:
    def checks() -> dict[str, Any]:
        return {check["name"]: check for check in json.loads(site.run("doctor", "--json").stdout)["checks"]}

    def here() -> subprocess.CompletedProcess[str]:
        return site.run("workers", "--here", "--json")

    before = checks()
    assert before["redis"]["said"].endswith(")"), before["redis"]
    assert (before["redis"]["verdict"], before["clock skew"]["verdict"]) == ("ok", "ok")
    assert before["workers"]["verdict"] == "wrong"
    assert "reminders fire only" not in before["service"]["said"]
    assert here().returncode == 1
    worker = site.worker()
    assert checks()["workers"]["verdict"] == "ok"
    shown = here()
    assert (shown.returncode, json.loads(shown.stdout)["workers"][0]["pid"]) == (0, worker.pid)


def test_a_rolling_restart_loses_nothing_and_doubles_nothing(site: Site) -> None:
    roles = [WORKER, WORKER, SERVER]
    old = [site.start(*DUETIME, *role) for role, _ in roles]
    for process, (_, words) in zip(old, roles, strict=True):
        site.wait_for(process, words)
    task_ids: list[str] = []
    new = []
    for process, (role, _) in zip(old, roles, strict=True):
        task_ids += site.schedule(100, seconds=0.02)
        new.append(site.start(*DUETIME, *role))
        assert site.end(process) == 0, site.log(process)
    eventually(lambda: site.states(task_ids) == {State.SUCCEEDED: 300}, "all ran")
    effects = site.effects()
    assert len(effects) == 300
    assert set(effects.values()) == {1}, "each run had exactly one effect"
    assert len({pid for _, _, pid in site.steps()}) > 2, "old workers and new ones ran them"
