"""Break the recurrence code in a copy, one defect at a time, and show that the property test goes red.

Run from the top: `python tests/rules/mutations.py`. Exits 1 when a mutation survives.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SUITE = "tests/rules/recurrence/test_recurrence_oracle.py"


@dataclass(frozen=True)
class Mutation:
    what: str
    file: str
    before: str
    after: str


MUTATIONS = (
    Mutation(
        "a wall time in a gap is moved on by the gap's length, not to the first valid instant",
        "time/zones.py",
        "return Placed(change_between(zone, instant - (after - before), instant), GAP)",
        "return Placed(instant, GAP)",
    ),
    Mutation(
        "a wall time that happens twice takes the second pass",
        "time/zones.py",
        "return Placed(instant, FOLD)",
        "return Placed(instant + (before - after), FOLD)",
    ),
    Mutation(
        "sub-daily cron keeps wall time, so that it skips the second pass",
        "recurrence/rule.py",
        "return self.freq in SUB_DAILY and not (self.hours and self.interval == 1)",
        "return self.freq in SUB_DAILY and self.interval > 1",
    ),
    Mutation(
        "weeks are counted from the anchor's day, not from its Monday",
        "recurrence/calendar_days.py",
        "(first - self.anchor).days + self.anchor.weekday()",
        "(first - self.anchor).days",
    ),
    Mutation(
        "cron's two day fields must both match",
        "recurrence/calendar_days.py",
        "return by_day | by_weekday",
        "return by_day & by_weekday",
    ),
    Mutation(
        "the last day of a month is the one before it",
        "recurrence/calendar_days.py",
        "else length + monthday",
        "else length + monthday - 1",
    ),
)


def copy_of_the_package(home: Path) -> Path:
    """Copy the code to where PYTHONPATH finds it first, and return the folder of the rules."""
    leave = shutil.ignore_patterns("__pycache__", "duetime", "node_modules")
    shutil.copytree(ROOT / "server" / "duetime", home / "duetime", ignore=shutil.ignore_patterns("__pycache__"))
    for folder in ("scheduler", "server", "tools", "widgets"):
        shutil.copytree(ROOT / folder, home / "duetime" / folder, ignore=leave)
    return home / "duetime" / "scheduler" / "rules"


def run_suite(home: Path) -> tuple[bool, str]:
    """Run the property test on a copy; return whether it passed, and the tests that failed first."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        SUITE,
        "-q",
        "-x",
        "-p",
        "no:cacheprovider",
        "-k",
        "New_York or Howe or years",
    ]
    env = {**os.environ, "PYTHONPATH": str(home)}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    failed = re.findall(r"^FAILED \S+::(\S+)", done.stdout, re.MULTILINE)
    if done.returncode not in {0, 1}:
        raise RuntimeError(done.stdout + done.stderr)
    return done.returncode == 0, ", ".join(failed)


def survives(mutation: Mutation | None) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        rules = copy_of_the_package(Path(folder))
        if mutation is not None:
            source = (rules / mutation.file).read_text()
            if source.count(mutation.before) != 1:
                raise RuntimeError(f"{mutation.file} has changed: {mutation.before!r} is not in it once")
            (rules / mutation.file).write_text(source.replace(mutation.before, mutation.after))
        passed, failed = run_suite(Path(folder))
    outcome = "passes" if passed else f"caught by {failed}"
    sys.stdout.write(f"{mutation.what if mutation else 'unchanged'}: {outcome}\n")
    return passed


def main() -> int:
    if not survives(None):
        return 1
    survivors = [mutation for mutation in MUTATIONS if survives(mutation)]
    return int(bool(survivors))


if __name__ == "__main__":
    sys.exit(main())
