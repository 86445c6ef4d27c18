"""A process that has loaded everything collects garbage seldom, and never what it has loaded."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import gc
from duetime.server.runtime.garbage import NEW_OBJECTS_PER_COLLECTION, collect_less
collect_less()
assert gc.isenabled() and gc.get_freeze_count() > 1000
assert gc.get_threshold()[0] == NEW_OBJECTS_PER_COLLECTION
"""


def test_loaded_objects_are_left_out_of_collections_which_are_rare() -> None:
    subprocess.run([sys.executable, "-c", SCRIPT], check=True, timeout=60)
