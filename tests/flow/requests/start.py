"""The instant at which the page begins."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

START: Final = datetime(2026, 11, 24, 15, 30, tzinfo=UTC)
"""Tuesday 08:30 in Denver (UTC-7)."""
