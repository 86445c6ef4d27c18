"""The name of a claim, by which a worker elsewhere reports on it: the run, and the attempt that is its fence."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Self

from duetime.scheduler.errors import InvalidArgument, Refused

_FORM: Final = re.compile(r"(r_[0-9a-z]{1,40})\.([1-9][0-9]{0,8})")


class ClaimLost(Refused):
    """A worker elsewhere reports on a claim that does not hold its run any more; nothing was done."""


@dataclass(frozen=True, slots=True)
class ClaimId:
    """An attempt of a run, as its worker names it."""

    run_id: str
    attempt: int

    @classmethod
    def read(cls, text: str) -> Self:
        """Read the name of a claim. Raises InvalidArgument for what is none."""
        found = _FORM.fullmatch(text)
        if found is None:
            raise InvalidArgument(
                "claim",
                f"{text[:40]!r} is not a claim",
                accepted="a `claim` that claim_runs returned",
                example="claim='r_3k9x2m7q4hb5c8d1.1'",
            )
        return cls(found[1], int(found[2]))

    def __str__(self) -> str:
        return f"{self.run_id}.{self.attempt}"

    def unknown(self) -> ClaimLost:
        """Return the refusal of a claim that this caller does not have, whether or not another one does."""
        return ClaimLost(f"claim {self} is not yours, or there is none: nothing was done. claim_runs returns new ones.")
