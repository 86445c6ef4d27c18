"""A process that has loaded everything collects garbage seldom, and never what it has loaded."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = """
import gc
from duetime.server.runtime.garbage import NEW_OBJECTS_PER_COLLECTION, collect_less
collect_less()
assert gc.isenabled() and gc.get_freeze_count() > 1000
assert gc.get_threshold()[0] == NEW_OBJECTS_PER_COLLECTION
"""


def test_loaded_objects_are_left_out_of_collections_which_are_rare() -> None:
    subprocess.run([sys.executable, "-c", SCRIPT], check=True, timeout=60)


WORKS_LONG = """
import gc, sys
from duetime.server.cli import main

class Node:
    pass

def work(arguments):
    for _ in range(1_000_000):
        node = Node()
        node.itself = node
    return 0 if sum(type(each) is Node for each in gc.get_objects()) <= main.NEW_OBJECTS_PER_VERB_COLLECTION else 1

main.run = work
main.main()
"""


def test_a_verb_that_works_long_lets_go_of_its_garbage() -> None:
    subprocess.run([sys.executable, "-c", WORKS_LONG], check=True, timeout=60)


LOADS = """
import gc, sys
from duetime.server.cli import main

collections = []
gc.callbacks.append(lambda phase, facts: collections.append(phase))
run = main.run
main.run = lambda arguments: (collections.clear(), run(arguments), len(collections))[-1]
sys.argv = ["duetime", *sys.argv[1:]]
main.main()
"""


def test_a_verb_that_ends_at_once_collects_none(tmp_path: Path) -> None:
    database = {"DUETIME_DATABASE_URL": f"sqlite:///{tmp_path / 'duetime.db'}"}
    subprocess.run([sys.executable, "-c", LOADS, "list"], check=True, timeout=60, env={**os.environ, **database})
