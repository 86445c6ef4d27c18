"""The cards as MCP Apps resources: what a server binds to its tools, without knowing any server."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files

TASK_CARD = "ui://duetime/task-card.html"
TASK_LIST = "ui://duetime/task-list.html"


@dataclass(frozen=True, slots=True)
class Card:
    """One self-contained page: `html` loads nothing, so a host may run it with no network at all."""

    uri: str
    name: str
    title: str
    description: str
    html: str

    @property
    def csp(self) -> dict[str, list[str]]:
        """Return the origins that the card needs, in the words of MCP Apps: none."""
        return {"connect_domains": [], "resource_domains": [], "frame_domains": [], "base_uri_domains": []}


@cache
def cards() -> tuple[Card, ...]:
    """Return both cards, read from the package."""
    return (
        Card(TASK_CARD, "task-card", "Task", "One scheduled task, live, with its buttons.", _html("task-card")),
        Card(TASK_LIST, "task-list", "Tasks", "The agenda: overdue, today, this week, later.", _html("task-list")),
    )


def _html(name: str) -> str:
    return files("duetime.widgets").joinpath("html", f"{name}.html").read_text(encoding="utf-8")
