"""A trial of a call that closes letters: which ones it would close, and why not the others. Nothing is stored."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from duetime.scheduler.history.dead_letters import ClosedLetter
from duetime.scheduler.records import Change
from duetime.scheduler.service.letters.letter_call import DISCARDED, ClosingCall, as_replayed
from duetime.scheduler.store.dead_letters.letters import (
    LETTERS_PER_READ,
    NONE_TRIED,
    DeadLetters,
    TriedLetter,
    TriedReplays,
)
from duetime.scheduler.views import TaskRecord


@dataclass(slots=True)
class ClosingTrial:
    """Tries the letters of a call part by part, each after those before it."""

    letters: DeadLetters
    tenant: str
    call: ClosingCall
    decide: Callable[[TaskRecord], Change]
    _tried: TriedReplays = NONE_TRIED
    _found: dict[str, TriedLetter] = field(default_factory=dict)

    def ahead(self, run_ids: Iterable[str]) -> Iterator[str]:
        """Yield letters of which it is known whether they would be closed."""
        rest, size = iter(run_ids), min(LETTERS_PER_READ, self.call.max_letters)
        while part := list(islice(rest, size)):
            self._try(part)
            yield from part

    def close(self, run_id: str, _number: int) -> ClosedLetter:
        """Return a letter as it would be closed. Raises as a replay or a discard of it does."""
        found = self._found.pop(run_id)
        if isinstance(found, str):
            return ClosedLetter(run_id, found)
        raise found

    def _try(self, run_ids: list[str]) -> None:
        if self.call.kind is DISCARDED:
            self._found = self.letters.open_tasks(self.tenant, run_ids)
            return
        self._tried = self.letters.try_replays(self.tenant, run_ids, self.decide, earlier=self._tried, left=as_replayed)
        self._found = {**self._tried.found}
