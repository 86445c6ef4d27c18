"""A day in the life of somebody with an agent: the rows that list cards are tested and pictured with."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from tests.widgets.sample import CALL_JOHN, NOW, a_task, stamp, tuesdays, valid_list, weekly

TAXES, NOTES, OVEN, BACKUP, PASSPORT, RENT = (f"t_00000000000{n}" for n in "123456")


def a_row(task_id: str, title: str, minutes: float, state: str = "scheduled", **parts: Any) -> dict[str, Any]:
    due = stamp(NOW + timedelta(minutes=minutes))
    return {"id": task_id, "title": title, "state": state, "when": due, **parts}


ROWS = [
    a_row(TAXES, "Send the tax papers to Ann", -95),
    a_row(OVEN, "Take the bread out of the oven", 20),
    a_row(NOTES, "Ask for my notes of the day", 60, repeat=True),
    a_row(CALL_JOHN, "Call John about the lease", 60 * 65),
    a_row(BACKUP, "Check that the backup ran", 60 * 74, state="retrying", repeat=True),
    a_row(PASSPORT, "Renew my passport", 60 * 24 * 40, paused=True),
    a_row(RENT, "Pay the rent", -60 * 24 * 3, state="succeeded", reminder=True),
]
COUNTS = {"scheduled": 5, "retrying": 1, "succeeded": 1}


def a_page(rows: list[dict[str, Any]] = ROWS, **parts: Any) -> dict[str, Any]:
    """One page of tasks as the server would send it."""
    page = {"schema": "duetime.list/1", "tasks": rows, "counts": COUNTS if rows else {}, "now": stamp(NOW), **parts}
    return valid_list(page)


def call_john() -> dict[str, Any]:
    """Give the task behind its row, which opens in place."""
    return a_task(repeat=weekly(), words=tuesdays(), message="He has the keys of the flat.", labels=["home"])
