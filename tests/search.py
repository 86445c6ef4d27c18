"""The number of examples that a random test draws: as many as it says in the suite, and more in `.ci/run search`."""

from __future__ import annotations

from typing import Final

from hypothesis import settings

USUAL_EXAMPLE_COUNT: Final = 100
"""Parameters of a profile that draws as many examples as each test says."""

SEARCH_RATIO: Final = 20


def examples(count: int) -> settings:
    """Draw `count` examples, times what the loaded profile has more than the usual."""
    drawn: int = settings().max_examples
    return settings(max_examples=count * drawn // USUAL_EXAMPLE_COUNT)
