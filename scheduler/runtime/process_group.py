"""Process groups: a child leads one of its own, so that it ends together with what it started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from typing import Final, TypedDict


class GroupOptions(TypedDict):
    """The options of `Popen` for a child that leads a process group."""

    start_new_session: bool
    creationflags: int


OWN_GROUP: Final[GroupOptions] = {
    "start_new_session": True,
    "creationflags": getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
}


def end_in_words(code: int) -> str:
    """Return how a process with this return code ended; signals for real-time use have numbers alone."""
    if code >= 0:
        return f"ended with code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill the group that a process leads, before anybody has waited for it: then its id is still its own."""
    if sys.platform == "win32":
        subprocess.run(["taskkill", "/F", "/T", "/PID", str(process.pid)], check=False, capture_output=True)  # nosec B603, B607 # noqa: S603, S607 - a tool of the system
        return
    with suppress(ProcessLookupError, PermissionError):  # macOS raises this for a group that has ended
        os.killpg(process.pid, signal.SIGKILL)
