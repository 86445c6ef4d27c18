"""Import every module of the installed `duetime`, as a user's machine has it, and say how many there were.

Without the extras `redis` and `otel` those that speak to Redis or send traces have to say so, and no other may. Scripts
of Alembic (its environment and the versions) are compiled instead: they are no modules to import.
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


OF_EXTRAS = {"redis": "duetime.scheduler.queue.redis", "opentelemetry.exporter": "duetime.server.telemetry.otlp"}
"""The packages of extras, each with the only modules that may need it when they are imported."""


def needs_extra(name: str, missing: str | None) -> bool:
    """Whether a module lacks what an extra brings, which is not installed here."""
    return any(
        name.startswith(room) and str(missing).startswith(package) and importlib.util.find_spec(package) is None
        for package, room in OF_EXTRAS.items()
    )


def load(name: str) -> None:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as missing:
        if not needs_extra(name, missing.name):
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
