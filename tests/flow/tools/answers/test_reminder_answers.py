"""An answer about a reminder says that it only reminds: a model that asked for work must not promise any."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from duetime import Context, Done, handler
from duetime.scheduler.handlers import Handler, Handlers, reminder, webhook
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store, open_store

from tests import blank
from tests.flow.tools.calls import Ask, asked_of

NOW = datetime(2026, 11, 21, 23, 0, tzinfo=UTC)
INBOX = {"title": "Summarise my inbox", "repeat": "every day at 9:00"}
ONLY = "This only reminds; nothing does the work."


def named(name: str) -> Handler:
    @handler(name)
    def run(_ctx: Context) -> Done:
        return Done()

    return run


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    blank.make(tmp_path / "duetime.db")
    store = open_store(f"sqlite:///{tmp_path / 'duetime.db'}", clock=lambda: NOW, synchronous="OFF")
    yield store
    store.close()


def asking(store: Store, *handlers: Handler) -> Ask:
    scheduler = Scheduler(store, Planner(Handlers([reminder, *handlers]), zone="America/Edmonton"))
    return asked_of(scheduler)


@pytest.mark.parametrize("more", [{}, {"dry_run": True}])
def test_a_reminder_names_the_actions_that_do_work(store: Store, more: dict[str, Any]) -> None:
    text, task = asking(store, webhook(None), named("summarise"))("schedule_task", **INBOX, **more)

    assert task["effect"] == f"{ONLY} Actions that do work here: webhook, summarise."
    assert task["effect"] in text.splitlines()


def test_a_reminder_where_nothing_else_is_registered_names_no_action(store: Store) -> None:
    text, task = asking(store)("schedule_task", **INBOX)

    assert task["effect"] == ONLY
    assert ONLY in text


def test_the_actions_that_are_named_are_bounded(store: Store) -> None:
    many = [named(f"action-number-{number}") for number in range(40)]
    _, task = asking(store, *many)("schedule_task", **INBOX)

    assert len(task["effect"]) <= 160
    assert "more" in task["effect"]


def test_a_reminder_says_so_whenever_it_is_read_until_it_ends(store: Store) -> None:
    ask = asking(store, webhook(None))
    _, made = ask("schedule_task", **INBOX)

    assert ask("get_task", task_id=made["id"])[1]["effect"] == ONLY
    assert ask("reschedule_task", task_id=made["id"], pause=True)[1]["effect"] == ONLY
    assert "effect" not in ask("cancel_task", task_id=made["id"])[1]


def test_an_action_that_does_work_is_not_called_a_reminder(store: Store) -> None:
    text, task = asking(store, named("summarise"))("schedule_task", **INBOX, action="summarise")

    assert "effect" not in task
    assert "reminds" not in text
