"""The source files of the configured handlers: what changed in them, and how their modules are forgotten.

They are looked at by their time stamps: that needs no library, and works on network drives and in containers too.
"""

from __future__ import annotations

import importlib
import sys
import sysconfig
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Final

TimeStamps = Mapping[Path, int]
"""Nanoseconds of the last change, by file."""

_LIBRARIES: Final = tuple(
    Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib", "purelib", "platlib")
)


class HandlerFiles:
    """The files of these modules: of a package all, of a module those in its folder, of a library its own alone."""

    def __init__(self, modules: Sequence[str]) -> None:
        self._names = tuple(dict.fromkeys(name.partition(".")[0] for name in modules))
        self._roots = dict(self._located())

    def time_stamps(self) -> TimeStamps:
        """Return when each file changed last."""
        self._roots |= dict(self._located())
        found: dict[Path, int] = {}
        for root, pattern in self._roots.items():
            for path in sorted(root.parent.glob(pattern)):
                with suppress(OSError):  # it was removed in between
                    found[path] = path.stat().st_mtime_ns
        return found

    def forget(self) -> Mapping[str, ModuleType]:
        """Let the next import read the files again; return the modules as they were, for `restore`."""
        files = self.time_stamps()
        old = {name: module for name, module in list(sys.modules.items()) if _file_of(module) in files}
        self._drop(old)
        return old

    def restore(self, old: Mapping[str, ModuleType]) -> None:
        """Go back to the modules as they were."""
        files = self.time_stamps()
        self._drop([name for name, module in list(sys.modules.items()) if _file_of(module) in files])
        sys.modules.update(old)

    @staticmethod
    def _drop(names: Iterable[str]) -> None:
        for name in names:
            sys.modules.pop(name, None)
        importlib.invalidate_caches()

    def _located(self) -> Iterable[tuple[Path, str]]:
        """Yield the file of each module that has one, with the pattern of the files to look at from its folder."""
        for name in self._names:
            path = _file_of(sys.modules.get(name))
            if path is not None:
                library = any(path.is_relative_to(each) for each in _LIBRARIES)
                yield path, "**/*.py" if path.name == "__init__.py" else path.name if library else "*.py"


def _file_of(module: ModuleType | None) -> Path | None:
    file = getattr(module, "__file__", None)
    return Path(file).resolve() if isinstance(file, str) and file.endswith(".py") else None
