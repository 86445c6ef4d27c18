"""The code of an older version, put together from the history of the repository."""

from __future__ import annotations

import subprocess
import tarfile
import tempfile
from contextlib import suppress
from io import BytesIO
from pathlib import Path

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "build" / "old-code"
"""Outside git; the code stays here between test runs, with its bytecode, which takes longer to make than to run."""

SCHEMA_14 = "4313883"
"""A commit of schema 0014."""

SCHEMA_25 = "4fbc619c"
"""The last commit of schema 0025: the oldest code that a database of today lets in."""


def unpack(commit: str) -> Path | None:
    """Put the package of a commit and its tests into a folder of its own; return what PYTHONPATH has to name.

    None where the history of the repository is not here.
    """
    kept = KEPT / commit
    if not kept.exists():
        packed = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True, check=False)
        if packed.returncode != 0:
            return None
        KEPT.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=KEPT) as folder, suppress(OSError):
            _arranged(packed.stdout, Path(folder)).rename(kept)  # another process may have been quicker
    return kept


def _arranged(packed: bytes, folder: Path) -> Path:
    with tarfile.open(fileobj=BytesIO(packed)) as files:
        files.extractall(folder / "source", filter="data")
    package = folder / "path" / "duetime"
    package.parent.mkdir()
    (folder / "source" / "server" / "duetime").rename(package)
    for name in ("server", "scheduler", "tools", "widgets"):
        (folder / "source" / name).rename(package / name)
    (folder / "source" / "tests").rename(package.parent / "tests")
    return package.parent
