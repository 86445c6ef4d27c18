"""Plays the whole fault matrix, or what matches the words given, and prints what came of it as a table.

    python -m tests.faults [--place embedded|shared] [--keep FOLDER] [--part I/N] [WORD ...]

Ends with 1 when an invariant did not hold, a fault did not hit, or it took too long.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.faults.matrix import Result, Servers, play
from tests.faults.plays import PLAYS

TIMEOUT_S = 45 * 60.0
"""Seconds after which the whole matrix gives up."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description="Plays the fault matrix.")
    parser.add_argument("--place", choices=("embedded", "shared"), help="only this kind of installation")
    parser.add_argument("--keep", type=Path, help="keep databases, ledgers and logs in this folder")
    parser.add_argument("--part", default="1/1", help="only one part of them: 2/3 is the second of three")
    parser.add_argument("words", nargs="*", help="only scenarios whose name has all of these words")
    given = parser.parse_args()
    chosen = [
        each
        for each in PLAYS
        if given.place in {None, each.place} and all(word.lower() in str(each).lower() for word in given.words)
    ]
    part, parts = map(int, given.part.split("/"))
    chosen = chosen[part - 1 :: parts]
    began, failed, servers = time.monotonic(), 0, Servers()
    say("| fault | place | evidence | tasks | free after | took | verdict |")
    say("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="duetime-faults-") as temporary:
        for number, scenario in enumerate(chosen):
            if time.monotonic() - began > TIMEOUT_S:
                say(f"gave up after {TIMEOUT_S:g} s: {len(chosen) - number} scenarios were not played")
                failed += 1
                break
            result = play(scenario, servers, (given.keep or Path(temporary)) / f"{part}-{number}")
            say(row(result))
            failed += bool(result.wrong)
    servers.close()
    say(f"\n{len(chosen)} scenarios in {time.monotonic() - began:.0f} s, {failed} failed")
    return 1 if failed or not chosen else 0


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def row(result: Result) -> str:
    after = "" if result.recovered is None else f"{result.recovered:.1f} s"
    verdict = "holds" if not result.wrong else " / ".join(result.wrong.splitlines()[:5])
    scenario = result.scenario
    cells = (scenario.name, scenario.place, result.evidence, result.tasks, after, f"{result.took:.0f} s", verdict)
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


if __name__ == "__main__":
    sys.exit(main())
