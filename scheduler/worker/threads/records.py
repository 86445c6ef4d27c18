"""The port of a worker to the log of decisions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from duetime.scheduler.rules.policies.decision import Look


class TakeRecorder(Protocol):
    """Says which takes are recorded, and keeps what they saw. Both are quick."""

    def wanted(self) -> bool: ...

    def keep(self, looks: Sequence[Look]) -> None: ...


class NoRecords:
    """Records no take."""

    def wanted(self) -> bool:
        return False

    def keep(self, looks: Sequence[Look]) -> None: ...


NO_RECORDS: Final = NoRecords()
