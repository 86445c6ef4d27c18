"""Bring back one defect at a time in a copy of the code, and show that the walk of series finds it.

Run from the top: `python tests/series/mutations.py`. Exits 1 when a mutation survives.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SUITE = "tests/series/test_series_walk.py"
LONGEST_SHOWN = 110


@dataclass(frozen=True)
class Mutation:
    """A defect: in each file what is replaced, and by what."""

    what: str
    edits: Sequence[tuple[str, str, str]]


MUTATIONS = (
    Mutation(
        "undo gives two runs of one time the same generation",
        (("statements/change.py", "overtakable(task, _placed(connection, next_run))", "overtakable(task, next_run)"),),
    ),
    Mutation(
        "a new rule with another end does not look at max_runs",
        (
            (
                "changes/reschedule.py",
                '    check_runs_left(task, record.run, "repeat")\n    if asked.until is None:\n',
                '    if asked.until is None:\n        check_runs_left(task, record.run, "repeat")\n',
            ),
        ),
    ),
    Mutation(
        "a series that starts again counts its last run twice",
        (("rules/changes.py", "slot=slot, number=run.number + 1, occ", "slot=slot, number=run.number, occ"),),
    ),
    Mutation(
        "runs beside the current one are only seen while the task recurs",
        (("statements/read.py", "for task in of if task.revision > 1]", "for task in of if task.repeat]"),),
    ),
    Mutation(
        "what was snoozed does not take the place of a series that has ended",
        (
            (
                "statements/side_runs.py",
                "    if not ending:\n        return\n",
                "    if ending is not None:\n        return\n",
            ),
        ),
    ),
    Mutation(
        "a run that waits for its second attempt is skipped after a pause",
        (
            (
                "rules/changes.py",
                "    if task.repeat is None or due >= now or has_started(run) or",
                "    if task.repeat is None or due >= now or run.state is not State.SCHEDULED or",
            ),
        ),
    ),
    Mutation(
        "a recurrence that was cancelled while it ran comes back with a time",
        (
            (
                "changes/reschedule.py",
                "    return moved, (*resolved",
                "    return replace(moved, task=task), (*resolved",
            ),
        ),
    ),
    Mutation(
        "a later end does nothing when the series is over",
        (("intake/series_end.py", "if coming.state in TERMINAL else None", "if coming.state is None else None"),),
    ),
    Mutation(
        "a run that gives way to the next one ends its series",
        (("series/overtake.py", " is State.CANCELLED) and not run.gives_way", " is State.CANCELLED)"),),
    ),
    Mutation(
        "a cancel of a run that gives way already does not end its series",
        (
            (
                "rules/changes.py",
                "replace(run, cancel_requested=True, overtaken_at=None)",
                "replace(run, cancel_requested=True)",
            ),
        ),
    ),
    Mutation(
        "a run that waits for its next attempt does not give way before that",
        (("series/overtake.py", "    if run.state is State.RUNNING:", "    if run.started_at is not None:"),),
    ),
    Mutation(
        "of several occurrences that fell due, the first one overtakes",
        (("rules/occurrences.py", "        newest = found.instant\n", "        found.instant\n"),),
    ),
    Mutation(
        "what was missed while nothing ran overtakes the run that starts late",
        (("series/overtake.py", "return run.first_ready_at or run.scheduled_for", "return run.scheduled_for"),),
    ),
    Mutation(
        "a run is overtaken while its task is paused",
        (
            ("series/timers.py", " AND NOT runs.paused", ""),
            ("series/timers.py", "is_not(None), tasks.c.paused == false())", "is_not(None))"),
            ("series/timers.py", "Select, false, literal_column", "Select, literal_column"),
        ),
    ),
    Mutation(
        "a run beside which another began is asked to stop",
        (
            (
                "series/overtake.py",
                "        return Change(task, run, next_run=coming, beside=True",
                "        return Change(task, replace(run, cancel_requested=True), next_run=coming, beside=True",
            ),
        ),
    ),
    Mutation(
        "an older run that ends beside a newer one lets its series go on twice",
        (("series/continuation.py", "not run.current or ends_series(run)", "ends_series(run)"),),
    ),
    Mutation(
        "an occurrence that overtakes does not count for max_runs",
        (
            (
                "rules/occurrences.py",
                "    return coming if newest == coming.scheduled_for else next_run(task, run, newest - _TICK)",
                "    return replace(coming, number=run.number, scheduled_for=newest, wake_at=newest + delay_of(task))",
            ),
        ),
    ),
    Mutation(
        "buffer_one runs the newest of what fell due, not the first",
        (
            (
                "series/overlap.py",
                "    coming = next_run(task, run, opened)\n    if",
                "    coming = next_run(task, run, now)\n    if",
            ),
        ),
    ),
    Mutation(
        "buffer_all forgets what falls due before it is looked at",
        (
            (
                "series/overlap.py",
                "coming.scheduled_for if overlap is Overlap.BUFFER_ALL else None",
                "None",
            ),
        ),
    ),
    Mutation(
        "what fails after it was asked to stop is a failure",
        (
            (
                "statements/settle.py",
                "    if claim.cancel_requested and settlement.to not in",
                "    if False and settlement.to not in",
            ),
        ),
    ),
)


def copied(home: Path) -> Path:
    """Copy the code to where PYTHONPATH finds it first."""
    leave = shutil.ignore_patterns("__pycache__", "duetime", "node_modules")
    shutil.copytree(ROOT / "server" / "duetime", home / "duetime", ignore=shutil.ignore_patterns("__pycache__"))
    for folder in ("scheduler", "server", "tools", "widgets"):
        shutil.copytree(ROOT / folder, home / "duetime" / folder, ignore=leave)
    return home / "duetime" / "scheduler"


def planted(code: Path, mutation: Mutation) -> dict[Path, str]:
    """Return the sources with the defect. Raises RuntimeError for one that does not fit the code any more."""
    sources: dict[Path, str] = {}
    for name, before, after in mutation.edits:
        files = [*code.rglob(name)]
        source = sources.get(files[0], files[0].read_text()) if len(files) == 1 else ""
        if source.count(before) != 1:
            raise RuntimeError(f"{mutation.what}: {before!r} is not in one {name} once")
        sources[files[0]] = source.replace(before, after)
    return sources


def survives(mutation: Mutation | None) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        code = copied(Path(folder))
        for file, source in planted(code, mutation).items() if mutation else ():
            file.write_text(source)
        command = [sys.executable, "-m", "pytest", SUITE, "-q", "-x", "--tb=line", "-p", "no:cacheprovider"]
        env = {**os.environ, "PYTHONPATH": folder}
        done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    if done.returncode not in {0, 1}:
        raise RuntimeError(done.stdout + done.stderr)
    found = re.search(r"^E +(?:\w+\.)*(.+)", done.stdout, re.MULTILINE)
    said = "survives" if done.returncode == 0 else f"found: {found[1][:LONGEST_SHOWN] if found else ''}"
    sys.stdout.write(f"{mutation.what if mutation else 'unchanged'}: {said}\n")
    sys.stdout.flush()
    return done.returncode == 0


def main() -> int:
    if "--mutations-only" not in sys.argv and not survives(None):
        return 1
    return int(bool([mutation for mutation in MUTATIONS if survives(mutation)]))


if __name__ == "__main__":
    sys.exit(main())
