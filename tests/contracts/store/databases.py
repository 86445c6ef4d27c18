"""The databases on which a test of the store runs."""

from __future__ import annotations

from typing import Final

import pytest

SQLITE: Final = "sqlite"
DATABASES: Final = (SQLITE, pytest.param("postgres", marks=pytest.mark.postgres))

on_each_database = pytest.mark.parametrize("url", DATABASES, indirect=True)
"""For a test that asks the scheduler, and whose answer depends on SQL: on locks, on a call cut off, on what is read."""

on_sqlite = pytest.mark.parametrize("url", [SQLITE], indirect=True)
