"""Numbers of examples and walks of random tests in the suite; `.ci/run search` draws more."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Final

import pytest
from hypothesis import settings

USUAL_EXAMPLE_COUNT: Final = 100
"""Parameters of a profile that draws as many examples as each test says."""

SEARCH_RATIO: Final = 20

FIRST_SEED: Final = int(os.environ.get("WALK_FIRST_SEED", "0"))


def examples(count: int) -> settings:
    """Draw `count` examples, times what the loaded profile has more than the usual."""
    drawn: int = settings().max_examples
    return settings(max_examples=count * drawn // USUAL_EXAMPLE_COUNT)


def walks(seeds: Iterable[int], on_postgres: Iterable[int]) -> pytest.MarkDecorator:
    """Let a test of a store walk by `seeds` on SQLite, and by `on_postgres` there, where a step takes twice as long."""
    cases = [("sqlite", seed) for seed in seeds]
    slower = [pytest.param("postgres", seed, marks=pytest.mark.postgres) for seed in on_postgres]
    return pytest.mark.parametrize(("url", "seed"), [*cases, *slower], indirect=["url"])
