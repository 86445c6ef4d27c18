"""axe-core, which finds what keeps people with impairments from using a page: brought by npm on first use."""

from __future__ import annotations

import subprocess
import tarfile
from functools import cache

from tests.widgets import provision
from tests.widgets.tooling import CACHE, installing_alone, missing

PACKAGE = "axe-core@4.14.1"
SCRIPT = CACHE / "axe-core" / "package" / "axe.min.js"


@cache
def axe() -> str:
    """Return the script."""
    with installing_alone():
        if not SCRIPT.exists():
            _bring()
    return SCRIPT.read_text("utf-8")


def _bring() -> None:
    folder = CACHE / "axe-core"
    folder.mkdir(parents=True, exist_ok=True)
    try:
        name = provision.run([*provision.npm(CACHE), "pack", "--silent", PACKAGE], folder).split()[-1]
    except (provision.Unavailable, subprocess.SubprocessError, OSError) as error:
        missing(PACKAGE, f"npm could not bring it: {error}")
    with tarfile.open(folder / name) as packed:
        packed.extractall(folder, filter="data")
