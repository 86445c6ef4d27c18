"""The code of an older version, put together from the history of the repository."""

from __future__ import annotations

import subprocess
import tarfile
from io import BytesIO
from pathlib import Path

ROOT = Path(__file__).parents[2]

SCHEMA_14 = "4313883"
"""A commit of schema 0014."""

SCHEMA_25 = "4fbc619c"
"""The last commit of schema 0025: the oldest code that a database of today lets in."""


def unpack(commit: str, folder: Path) -> Path | None:
    """Put the package of a commit and its tests into the folder; return what PYTHONPATH has to name.

    None where the history of the repository is not here.
    """
    packed = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True, check=False)
    if packed.returncode != 0:
        return None
    with tarfile.open(fileobj=BytesIO(packed.stdout)) as files:
        files.extractall(folder / "source", filter="data")
    package = folder / "path" / "duetime"
    package.parent.mkdir()
    (folder / "source" / "server" / "duetime").rename(package)
    for name in ("server", "scheduler", "tools", "widgets"):
        (folder / "source" / name).rename(package / name)
    (folder / "source" / "tests").rename(package.parent / "tests")
    return package.parent
