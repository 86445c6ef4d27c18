"""A rolling upgrade of a whole installation under load: real servers and workers of an old version become new ones.

Servers and workers of the old code run on PostgreSQL and Redis while tasks are scheduled and listed over MCP. The
schema is upgraded under load; then one process after the other is restarted with the new code. In the end every
task that a caller was answered for has run once, and every invariant of the fault matrix holds.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from duetime.scheduler.store import Store, open_store
from duetime.scheduler.store.migrations import run as running
from duetime.scheduler.store.schema.tables.tasks import runs
from duetime.scheduler.store.store import connect
from sqlalchemy import func, select

from tests import forked
from tests.faults.invariants import classes, most_held, problems
from tests.faults.recording import Ledger, record_of
from tests.migrations.load import Load
from tests.migrations.old_code import SCHEMA_25, unpack
from tests.services import own_postgres, own_valkey

HANDLERS = Path(__file__).parent / "handlers"
PATIENCE_S = 120.0
POOL, SLOT_COUNT = "gpu", 2
LOOK_S = 0.05


@dataclass(frozen=True)
class Plan:
    """Processes of each kind, calls a second, seconds of load before and after each step, and tasks at most in each."""

    servers: int = 1
    workers: int = 1
    rate: float = 10
    settled_s: float = 1.0
    max_step_tasks: int = 15


@dataclass
class Process:
    """A server or a worker; `log` is what it says."""

    role: str
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def text(self) -> str:
        return self.log.read_text(errors="replace")

    @property
    def is_up(self) -> bool:
        assert self.process.poll() is None, self.text
        return "serves MCP at" in self.text or "now runs tasks" in self.text

    @property
    def address(self) -> str:
        """Return where it takes calls; empty for a worker."""
        return self.text.partition("serves MCP at ")[2].partition("\n")[0].strip()

    def end(self) -> None:
        """End it as a supervisor does, and wait until it has handed back what it ran."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(PATIENCE_S)


@dataclass
class Result:
    """Sum up an upgrade.

    `sorts` counts tasks by what became of them: `ok` is run once, all else is a defect. `most_held` is how many units
    of the pool handlers held at one time.
    """

    sorts: dict[str, int]
    broken: list[str]
    migrated_s: float
    longest_write_s: float
    longest_read_s: float
    repeated: int
    replaced: int
    most_held: float


@dataclass
class Rollout:
    """One upgrade. `old` is the PYTHONPATH of the old code."""

    folder: Path
    old: Path
    database: str
    redis: str
    plan: Plan
    processes: list[Process] = field(default_factory=list)

    def play(self, schema: str) -> Result:
        """Go from the schema of the old code to that of the new one."""
        database = connect(self.database)
        database.migrate(lambda connection: running.run(connection, schema))
        database.close()
        load = Load(self.plan.rate)
        with self._ending():
            for role in ("serve",) * self.plan.servers + ("worker",) * self.plan.workers:
                load.rotation += self._started(role, self.old)
            with load.going(writers=2):
                self._settle(load)
                migrated_s = self._migrate()
                self._settle(load)
                for each in list(self.processes):
                    self._replace(each, load)
                    self._settle(load)
            return self._result(load, migrated_s)

    def _settle(self, load: Load) -> None:
        """Let the load go on for a while, and then into the next step."""
        load.allow(self.plan.max_step_tasks)
        time.sleep(self.plan.settled_s)

    def _started(self, role: str, code: Path | None) -> list[str]:
        """Start a process and return its address when it is up; a worker has none."""
        log = self.folder / f"log-{len(self.processes)}"
        place = ["--port", "0"] if role == "serve" else []
        with log.open("wb") as output:
            process = (subprocess.Popen if code else forked.popen)(
                [sys.executable, "-m", "duetime", role, *place],
                cwd=code or HANDLERS,
                env=self._environment(code),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        made = Process(role, process, log)
        self.processes.append(made)
        until(lambda: made.is_up, f"a {role} to be up")
        return [made.address] if role == "serve" else []

    def _replace(self, old: Process, load: Load) -> None:
        """Start the new process first, and then end the old one in the middle of what it does."""
        new = self._started(old.role, None)
        load.rotation = [each for each in load.rotation if each != old.address] + new
        old.end()

    def _migrate(self) -> float:
        began = time.monotonic()
        command = [sys.executable, "-m", "duetime", "migrate"]
        forked.run(command, cwd=HANDLERS, env=self._environment(None), timeout=PATIENCE_S).check_returncode()
        return time.monotonic() - began

    def _environment(self, code: Path | None) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("DUETIME_")}
        path = [str(HANDLERS)] if code is None else [str(code), str(HANDLERS)]
        return kept | {
            "PYTHONPATH": os.pathsep.join(path),
            "DUETIME_DATABASE_URL": self.database,
            "DUETIME_REDIS_URL": self.redis,
            "DUETIME_HANDLERS": "noted_work",
            "DUETIME_TIMEZONE": "UTC",
            "DUETIME_POOLS": json.dumps({POOL: {"kind": "slots", "capacity": SLOT_COUNT}}),
            "DUETIME_THREADS": "4",
            "DUETIME_DESKTOP_NOTIFICATIONS": "off",
            "DUETIME_YIELD_TO_LOAD": "false",
            "DUETIME_LOG_FORMAT": "text",
            "LEDGER": str(self.folder / "ledger"),
        }

    def _result(self, load: Load, migrated_s: float) -> Result:
        """Wait until everything has ended, and account for each task."""
        store = open_store(self.database, migrate=False)
        ledger = Ledger(self.folder / "ledger")
        try:
            until(lambda: not _open_runs(store), "all runs to end")
            record = record_of(store, ledger, load.acknowledged, backlog=PATIENCE_S)
            broken = [*map(str, problems(record)), *map(str, store.integrity.examine().findings)]
        finally:
            store.close()
        held, _ = most_held(record, POOL)
        if held > SLOT_COUNT:
            broken.append(f"handlers held {held:g} of the {SLOT_COUNT} units of a pool")
        strangers = {run.task_id for run in record.runs} - load.acknowledged
        return Result(
            sorts=dict(classes(record)),
            broken=[*broken, *(f"nobody was answered with {each}" for each in sorted(strangers))],
            migrated_s=migrated_s,
            longest_write_s=max(load.writer_s),
            longest_read_s=max(load.reader_s),
            repeated=load.repeated,
            replaced=self.plan.servers + self.plan.workers,
            most_held=held,
        )

    @contextmanager
    def _ending(self) -> Iterator[None]:
        """End the processes that are left, with what they run."""
        try:
            yield
        finally:
            for each in self.processes:
                if each.process.poll() is None:
                    each.end()


def _open_runs(store: Store) -> int:
    statement = select(func.count()).where(runs.c.ended_at.is_(None))
    found: int = store._database.read(lambda connection: connection.execute(statement).scalar_one())
    return found


def until(condition: Callable[[], object], what: str) -> None:
    give_up = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < give_up, f"waited {PATIENCE_S:g} s for {what}"
        time.sleep(LOOK_S)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.migrations.rolling", description=__doc__)
    parser.add_argument("--servers", type=int, default=2)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--rate", type=float, default=30, help="schedule calls a second")
    parser.add_argument("--seconds", type=float, default=10, help="of load before and after each step")
    parser.add_argument("--tasks", type=int, default=1_000, help="tasks at most in each step")
    parser.add_argument("--old", default=f"{SCHEMA_25}:0025", help="the old code and its schema, as COMMIT:SCHEMA")
    given = parser.parse_args()
    commit, _, schema = given.old.partition(":")
    plan = Plan(given.servers, given.workers, given.rate, given.seconds, given.tasks)
    with tempfile.TemporaryDirectory() as folder, own_postgres() as postgres, own_valkey() as valkey:
        old = unpack(commit)
        if old is None:
            sys.exit("the history of the repository is not here")
        found = Rollout(Path(folder), old, postgres.url, valkey.url, plan).play(schema)
    for name, value in dataclasses.asdict(found).items():
        say(f"{name:<16} {value:.2f}" if isinstance(value, float) else f"{name:<16} {value}")
    return 1 if found.broken or set(found.sorts) != {"ok"} else 0


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    sys.exit(main())
