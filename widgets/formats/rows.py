"""Rows of answers: what is absent is left out, never null, as in the parts of a card's payload."""

from __future__ import annotations

from collections.abc import Mapping

from duetime.scheduler.task import Json


def present(row: Mapping[str, Json]) -> dict[str, Json]:
    """Return what there is of a row."""
    return {name: value for name, value in row.items() if value is not None}
