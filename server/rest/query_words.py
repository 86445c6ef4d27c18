"""The kind of a query that names one of a few words, or several: an address gives each argument once."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from duetime.scheduler.task import Json
from duetime.tools.arguments.choices import Choice
from duetime.tools.arguments.types import Text


@dataclass(frozen=True, slots=True)
class WordList:
    """One of a few words, or several with commas between, as a query of an address has them."""

    words: tuple[str, ...]

    @property
    def accepted(self) -> str:
        return f"{', '.join(self.words)}, or several with commas between"

    def schema(self) -> dict[str, Any]:
        each = "|".join(map(re.escape, self.words))
        return {"type": "string", "pattern": f"^({each})(,({each}))*$"}

    def read(self, given: Json) -> str:
        found = Text().read(given)
        return ",".join(Choice(self.words).read(word) for word in found.split(","))
