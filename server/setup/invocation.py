"""The command that starts this very `duetime` again: by a chat client, or by the background service."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from duetime.server.settings.layers import CONFIG_VARIABLE, TESTS_PREFIX, VARIABLE_PREFIX
from duetime.server.settings.masks import is_secret, masked


@dataclass(frozen=True, slots=True)
class Invocation:
    """A command that starts Duetime with the same settings: an absolute program, options, and `DUETIME_` variables."""

    program: tuple[str, ...]
    options: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def has_secrets(self) -> bool:
        """Whether an option or a variable holds what `masked` hides, or names a secret."""
        words = [*self.options, *self.environment.values()]
        return any(masked(word) != word for word in words) or any(map(is_secret, self.environment))

    def with_verb(self, *verb: str) -> tuple[str, ...]:
        """Return the whole command line for a verb (none: the stdio server)."""
        return (*self.program, *self.options, *verb)


def this_invocation(*, config: Path | None = None, database_url: str | None = None, handlers: str = "") -> Invocation:
    """Return how to start this installation from any directory, with the global options that are given now."""
    given = {
        "--config": str(config.expanduser().absolute()) if config else None,
        "--database-url": anywhere(database_url) if database_url else None,
        "--handlers": handlers or None,
    }
    options = tuple(word for name, value in given.items() if value for word in (name, value))
    return Invocation(_program(), options, _variables(os.environ) | _search_path(here=bool(handlers)))


def anywhere(database_url: str) -> str:
    """Return the URL with the path of an SQLite file made absolute, so that it means the same from any directory."""
    scheme, separator, path = database_url.partition(":///")
    if not scheme.startswith("sqlite") or not separator or path.startswith(":memory:") or not path:
        return database_url
    return f"{scheme}:///{Path(path).expanduser().absolute()}"


def _program() -> tuple[str, ...]:
    script = Path(sys.executable).parent / ("duetime.exe" if os.name == "nt" else "duetime")
    called = Path(sys.argv[0])
    if called.stem == "duetime" and called.is_file():
        return (os.path.abspath(called),)  # noqa: PTH100 - resolve() would follow the link out of a tool's bin directory
    if script.is_file():
        return (str(script),)
    found = shutil.which("duetime")
    return (found,) if found else (sys.executable, "-m", "duetime")


def _search_path(*, here: bool) -> dict[str, str]:
    """Return where handlers are looked for outside the installation: it may not start without, whoever names them."""
    given = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    paths = [str(Path(path).absolute()) for path in ([os.curdir] if here else []) + given]
    return {"PYTHONPATH": os.pathsep.join(paths)} if paths else {}


def _variables(environ: Mapping[str, str]) -> dict[str, str]:
    given = {
        name: value
        for name, value in sorted(environ.items())
        if name.startswith(VARIABLE_PREFIX) and not name.startswith(TESTS_PREFIX) and value
    }
    if "DUETIME_DATABASE_URL" in given:
        given["DUETIME_DATABASE_URL"] = anywhere(given["DUETIME_DATABASE_URL"])
    if CONFIG_VARIABLE in given:
        given[CONFIG_VARIABLE] = str(Path(given[CONFIG_VARIABLE]).expanduser().absolute())
    return given
