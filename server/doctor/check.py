"""The result of one check of `duetime doctor`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from duetime.scheduler.task import Json


class CheckVerdict(StrEnum):
    """The result of a check; only `wrong` makes the command fail."""

    OK = "ok"
    NOTE = "note"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at: what was found, and what to do about it."""

    name: str
    verdict: CheckVerdict
    finding: str
    advice: str = ""

    def as_json(self) -> dict[str, Json]:
        """Return the check as JSON, without the advice where there is none."""
        shown = {"name": self.name, "verdict": self.verdict.value, "said": self.finding, "advice": self.advice}
        return {name: value for name, value in shown.items() if value}
