"""Measure what commands on a local file use: the CPU of `duetime --help` and of its verbs, next to a no-op of Typer.

    python benchmarks/bench_commands.py [--rounds 9]

Each is a process of its own, in turn. The figure is the CPU time in user and kernel mode, the median of the rounds.
Modules are compiled before, as an installer does.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from subprocess import DEVNULL, PIPE, Popen

NOOP = "import typer; app = typer.Typer(); app.command('a')(lambda: None); app.command('b')(lambda: None); app(['b'])"
DUETIME = [sys.executable, "-m", "duetime"]


def measured(command: list[str], env: dict[str, str]) -> tuple[float, bytes]:
    """Return the CPU seconds of a command, and what it wrote to stdout."""
    with Popen(command, stdin=DEVNULL, stdout=PIPE, stderr=DEVNULL, env=env) as process:
        assert process.stdout is not None
        said = process.stdout.read()
        _, _, usage = os.wait4(process.pid, 0)
        process.returncode = 0  # it has been waited for
    return usage.ru_utime + usage.ru_stime, said


def scheduled(env: dict[str, str]) -> str:
    """Schedule a task and return its id."""
    _, said = measured([*DUETIME, "schedule", "Call John", "--when", "tomorrow 9am", "--json"], env)
    return str(json.loads(said)["id"])


def main(rounds: int) -> None:
    with tempfile.TemporaryDirectory(prefix="duetime-bench-") as folder:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("DUETIME_")}
        clean.pop("PYTHONDONTWRITEBYTECODE", None)
        url = f"sqlite:///{folder}/duetime.db"
        env = {**clean, "PYTHONPYCACHEPREFIX": f"{folder}/compiled", "DUETIME_DATABASE_URL": url}
        env["DUETIME_TIMEZONE"] = "UTC"
        shown = scheduled(env)
        doomed = [scheduled(env) for _ in range(rounds + 1)]
        commands: dict[str, list[str]] = {
            "python": [sys.executable, "-c", "pass"],
            "no-op of Typer": [sys.executable, "-c", NOOP],
            **{verb: [*DUETIME, verb] for verb in ("--help", "list", "history", "stats", "doctor")},
            "show": [*DUETIME, "show", shown],
            "schedule": [*DUETIME, "schedule", "Call Ann", "--when", "tomorrow 9am"],
        }
        spent: dict[str, list[float]] = {name: [] for name in (*commands, "cancel")}
        for _ in range(rounds + 1):
            for name, command in (*commands.items(), ("cancel", [*DUETIME, "cancel", doomed.pop()])):
                spent[name].append(measured(command, env)[0])
        for name, seconds in spent.items():
            print(f"{name:16} {statistics.median(seconds[1:]):.3f} s", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    main(parser.parse_args().rounds)
