"""Import every module of the installed `duetime`, as a user's machine has it, and say how many there were.

Without the extra `redis` those that speak to Redis have to say so, and no other may. What Alembic runs as scripts (its
environment and the versions) is compiled instead: it is no module to import.
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import sys
import warnings
from pathlib import Path

import duetime


def is_script(name: str) -> bool:
    return ".migrations." in name


def needs_redis(name: str) -> bool:
    return name.startswith("duetime.scheduler.queue.redis") and importlib.util.find_spec("redis") is None


def load(name: str) -> None:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as missing:
        if missing.name != "redis" or not needs_redis(name):
            raise


def main() -> int:
    warnings.simplefilter("error")
    names = ["duetime", *(found.name for found in pkgutil.walk_packages(duetime.__path__, "duetime."))]
    for name in names:
        if not is_script(name) and not name.endswith("__main__"):
            load(name)
    for script in Path(duetime.__path__[0]).rglob("migrations/**/*.py"):
        compile(script.read_text("utf-8"), str(script), "exec")
    for name in duetime.__all__:
        getattr(duetime, name)
    sys.stdout.write(f"{len(names)} modules of duetime import from {Path(duetime.__path__[0]).parent.name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
