"""Parameters of a verb on another machine that are no options of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

ZONE: Final = "zone"
"""Among the parameters of a verb: what gives the zone of the times in its tables, which needs the settings."""

CONTEXT: Final = "context"
"""Among the parameters of a verb: its command, by which the one for the next page is said."""


def zone_of(params: Mapping[str, Any]) -> str:
    """Return the zone of the times in a verb's tables."""
    given: str = params[ZONE]()
    return given
