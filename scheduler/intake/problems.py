"""What is wrong with the arguments of one call, collected so that all of it is reported at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from duetime.scheduler.errors import InvalidArgument, InvalidArguments


class Problems:
    """Collects what is wrong with the arguments, so that all of it is reported at once."""

    def __init__(self) -> None:
        self._found: list[InvalidArgument] = []

    @contextmanager
    def collect(self) -> Iterator[None]:
        """Swallow an invalid argument inside the block and go on with the next one."""
        try:
            yield
        except InvalidArgument as problem:
            self._found.append(problem)
        except InvalidArguments as several:
            self._found.extend(several.problems)

    def raise_any(self) -> None:
        """Raise InvalidArgument for one problem, InvalidArguments for several, nothing for none."""
        if len(self._found) == 1:
            raise self._found[0]
        if self._found:
            raise InvalidArguments(self._found)
