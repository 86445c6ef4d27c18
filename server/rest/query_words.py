"""The kind of a query that names states, one or several: an address gives each argument once."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.task import Json
from duetime.scheduler.views import Standing
from duetime.tools.arguments.choices import Choice
from duetime.tools.arguments.filters import MEANT_STATES, STATE_WORDS, STATES, STATES_ACCEPTED, parts_of
from duetime.tools.arguments.types import Text, shown


@dataclass(frozen=True, slots=True)
class StateList(Choice):
    """One of the words for states, or several with commas between, as the command line takes and refuses them."""

    words: tuple[str, ...] = STATE_WORDS

    @property
    def accepted(self) -> str:
        return STATES_ACCEPTED

    def schema(self) -> dict[str, Any]:
        each, alone = "|".join(map(re.escape, STATES)), "|".join(map(re.escape, Standing))
        return {"type": "string", "pattern": f"^(({each})(,({each}))*|{alone})$"}

    def read(self, given: Json) -> str:
        found = Text().read(given)
        try:
            parts_of(found)
        except InvalidArgument as error:
            raise ValueError(error.problem) from None
        strange = next((word for word in found.split(",") if word not in STATE_WORDS), None)
        if strange is not None:  # the command line reads capitals too, and the document names none
            raise ValueError(f"{shown(strange)} is not one of them")
        return found

    def nearest(self, given: Json) -> str:
        """Return the state that the first unknown word means, as far as that is known."""
        words = [word.strip().lower() for word in str(given).split(",")]
        return next((MEANT_STATES[word] for word in words if word in MEANT_STATES), "open")


STATES_ABOUT = "States with commas between, or all that are open or ended"
