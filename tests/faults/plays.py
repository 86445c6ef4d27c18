"""All plays of the matrix, in the order in which they are told."""

from __future__ import annotations

from tests.faults import chains, outages, waits
from tests.faults.scenarios import SCENARIOS, Scenario

PLAYS: tuple[Scenario, ...] = tuple(SCENARIOS)

assert {chains, outages, waits}, "importing them has added their plays"
