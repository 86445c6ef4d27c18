"""Lesson 15: two processes share a database; when one is killed in the middle of a run, the other one does it."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta
from pathlib import Path

from duetime import Context, Done, Scheduler, handler
from duetime.scheduler.task import State
from duetime.server.settings.model import Settings

from tests.flow.waiting import eventually

PROGRAM = """
import sys, time
from pathlib import Path
from duetime import Context, Done, Scheduler, handler
from duetime.server.settings.model import Settings

@handler("export")
def export(ctx: Context) -> Done:
    Path(sys.argv[2]).write_text("begun")
    time.sleep(600)
    return Done()

with Scheduler.open(Settings(database_url=sys.argv[1], desktop_notifications="off"), handlers=[export]):
    time.sleep(600)
"""


@handler("export")
def export(ctx: Context) -> Done:
    """Write the export; the idempotency key is the same for every attempt of a run."""
    return Done(summary=f"attempt {ctx.attempt}")


def test_a_run_whose_process_is_killed_is_run_again_by_another(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    settings = Settings(database_url=f"sqlite:///{tmp_path / 'duetime.db'}", desktop_notifications="off")
    with Scheduler.open(settings, handlers=[export], run=False) as scheduler:
        task_id = scheduler.schedule("Export", when=timedelta(0), action="export").record.task.id

    other = subprocess.Popen([sys.executable, "-c", PROGRAM, settings.database_url, str(begun)])
    try:
        eventually(lambda: begun.exists() or other.poll() is not None, "the other process to run it")
    finally:
        other.kill()  # as a power cut would: it has no time to say anything
        other.wait()

    with Scheduler.open(settings, handlers=[export]) as scheduler:
        eventually(lambda: scheduler.get(task_id).record.run.state is State.SUCCEEDED, "this process to run it")

        assert [(attempt.number, attempt.outcome) for attempt in scheduler.attempts(task_id)] == [
            (1, "crashed"),
            (2, "done"),
        ]
        assert scheduler.get(task_id).record.run.summary == "attempt 2"
