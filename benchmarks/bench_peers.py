"""Duetime in turn with what users would pick: Dramatiq, APScheduler 3, procrastinate, huey, taskiq and BullMQ.

    python benchmarks/bench_peers.py [--case schedule drain start timers provider] [--system NAME] [--rounds 3]
                                     [--folder FOLDER] [--pending 100000] [--small]

Every system is measured in turn in each round, with servers, a database and processes of its own. `benchmarks/peers/`
has a module for each, and says how it is configured and what it does not do. `peers/cases.py` says what each case
measures. The table has the medians of the rounds and the ratios ours / theirs. The peers are installed into `--folder`
(a new temporary one without it) from PyPI and npm, so that they never lie next to Duetime. Nothing waits for a disk.
Read README.md next to this file before quoting a number.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.peers.cases import CASES, Figures, Sizes
from benchmarks.peers.client import Environment, PeerFailed, installation
from benchmarks.peers.systems import SYSTEMS, System
from tests import services

COUNTS = {"pending", "refused"}
"""Figures that have no ratio."""

SMALL = Sizes(tasks=200, scheduled=50, idle=5, pending=1000, burst=50, calls=60)


def measured(environment: Environment, case: str, system: System, postgres: str, sizes: Sizes) -> Figures:
    try:
        with installation(environment, system, postgres) as there:
            return CASES[case](system, there, sizes)
    except (PeerFailed, AssertionError) as error:
        print(f"  {system.name}: failed: {str(error).splitlines()[-1]}", flush=True)
        return {}


def rounds(options: argparse.Namespace, case: str, systems: Sequence[System], postgres: str) -> dict[str, Figures]:
    """Return the medians of all figures, by system."""
    environment, sizes = Environment(options.folder), sizes_of(options)
    found: dict[str, list[Figures]] = {system.name: [] for system in systems}
    for number in range(options.rounds):
        for system in systems:
            figures = measured(environment, case, system, postgres, sizes)
            print(f"  {case} {number + 1}, {system.name}: {_words(figures)}", flush=True)
            if figures:
                found[system.name].append(figures)
    return {name: _medians(figures) for name, figures in found.items() if figures}


def sizes_of(options: argparse.Namespace) -> Sizes:
    return SMALL if options.small else Sizes(pending=options.pending)


def _medians(figures: Sequence[Figures]) -> Figures:
    return {name: statistics.median(each[name] for each in figures) for name in figures[0]}


def _words(figures: Figures) -> str:
    return ", ".join(f"{name} {value:.4g}" for name, value in figures.items()) or "no figure"


def table(case: str, systems: Sequence[System], found: dict[str, Figures]) -> None:
    """Print a table: a line a system, with the ratios of each of ours to it, in the order of the columns."""
    ours = [system for system in systems if system.ours and system.name in found]
    columns = list(next(iter(found.values()), {}))
    print(f"\n### {case}\n\n{' '.join((CASES[case].__doc__ or '').split())}\n")
    print("| system |", " | ".join(columns), "|", " | ".join(f"{each.name} / it" for each in ours), "|")
    print("|---|" + "---|" * (len(columns) + len(ours)))
    for system in systems:
        figures = found.get(system.name)
        if figures is None:
            print(f"| {system.name} |", " | ".join("-" for _ in [*columns, *ours]), "|")
            continue
        ratios = ["" if system.ours else _ratios(found[each.name], figures) for each in ours]
        print(f"| {system.name} |", " | ".join([f"{figures[name]:.4g}" for name in columns] + ratios), "|")


def _ratios(ours: Figures, theirs: Figures) -> str:
    return ", ".join(f"{ours[name] / theirs[name]:.2f}" for name in theirs if theirs[name] and name not in COUNTS)


def legend(systems: Sequence[System]) -> None:
    print("\n| system | configuration | what it does not do |\n|---|---|---|")
    for system in systems:
        print(f"| {system.name} | {system.configuration} | {system.lacks} |")


def compare(options: argparse.Namespace) -> None:
    systems = [each for each in SYSTEMS if not options.system or each.name in options.system]
    Environment(options.folder).install()
    with services.postgres_server() as postgres:
        found = {case: rounds(options, case, systems, postgres) for case in options.case}
    for case, figures in found.items():
        table(case, systems, figures)
    legend(systems)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--system", nargs="+", choices=[system.name for system in SYSTEMS], default=[])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--pending", type=int, default=100_000)
    parser.add_argument("--folder", type=Path, help="where the peers are, or will be, installed")
    parser.add_argument("--small", action="store_true", help="a few of everything, to see that it works")
    options = parser.parse_args()
    with ExitStack() as stack:
        options.folder = options.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        compare(options)


if __name__ == "__main__":
    main()
