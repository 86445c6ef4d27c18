"""The navigation of the frame: which sections there are, and which one a page belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from duetime.server.admin.page_request import Visit


@dataclass(frozen=True, slots=True)
class Section:
    """One link of the navigation; `current` is the section of the page that is shown."""

    path: str
    title: str
    url: str
    current: bool


_SECTIONS = (
    ("/", "Overview"),
    ("/runs", "Runs"),
    ("/dead", "Dead letters"),
    ("/timeline", "Time line"),
    ("/schedules", "Schedules"),
    ("/cost", "Cost"),
    ("/audit", "Audit"),
)
OF_OPERATORS = (("/pools", "Pools"), ("/workers", "Workers"), ("/policy", "Policy"))
"""Sections of what tenants share."""


def sections(visit: Visit) -> Sequence[Section]:
    """Return the links for a visitor; the choice of a tenant goes along."""
    shown = (*_SECTIONS, *(OF_OPERATORS if visit.principal.operator else ()))
    return [Section(path, title, visit.url(path), _holds(path, visit.path)) for path, title in shown]


def _holds(path: str, shown: str) -> bool:
    return shown == path if path == "/" else shown == path or shown.startswith(f"{path}/")
