"""A process that serves loads the reader of rare phrases off the path of its callers."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

LIBRARY: Final = "dateparser.date"
CODE: Final = f"""
import sys
from datetime import UTC, datetime
from duetime.server.runtime.warm_up import warm_up
from duetime.server.transport import serve_stdio
assert {LIBRARY!r} not in sys.modules, "a start loads none of it"
loaded = []
timer = warm_up(lambda: loaded.append("overview"), delay_s=0)
timer.join()
before = {{*sys.modules}}
assert {LIBRARY!r} in before
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.intake.translated_phrases import translate
try:
    translate("in a blue moon", now=datetime.now(UTC), zone="UTC")
except InvalidArgument:
    print(timer.daemon, loaded, sorted(name for name in {{*sys.modules}} - before))
"""


def test_the_first_phrase_that_is_not_understood_loads_nothing_more() -> None:
    ended = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=False)
    assert ended.stdout == "True ['overview'] []\n", ended.stderr
