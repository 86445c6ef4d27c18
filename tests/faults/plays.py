"""All plays of the matrix, in the order in which they are told."""

from __future__ import annotations

from tests.faults import outages
from tests.faults.scenarios import SCENARIOS, Scenario

PLAYS: tuple[Scenario, ...] = tuple(SCENARIOS)

assert outages.SETTLING, "importing it has added its plays"
