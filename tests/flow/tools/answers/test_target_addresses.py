"""Answers name the address of a webhook or a watch, and what was assumed for a watch."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from duetime.scheduler.rules.time.times import describe
from duetime.scheduler.run_records import Start
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.widgets.outcome import MAX_SAID_CHARS

from tests.flow.tools.calls import Ask, asked_of

URL = "https://example.com/p/7"
WATCH: dict[str, Any] = {
    "title": "Price",
    "action": "watch",
    "payload": {"url": f"{URL}?token=abc", "changed": "price"},
}


@pytest.fixture
def ask(scheduler: Scheduler) -> Ask:
    return asked_of(scheduler)


def test_a_watch_says_where_it_looks_how_often_and_that_it_ends(ask: Ask) -> None:
    text, made = ask("schedule_task", **WATCH)
    assert made["target"] == {"address": URL, "every": "5 min", "ends": "after 7 d", "changed": "price"}
    assert f"Looks at «{URL}» every 5 min until «price» changes, and ends after 7 d." in text


def test_a_watch_says_what_was_asked_for(ask: Ask) -> None:
    payload = {"url": URL, "changed": True, "every": "1 hour", "until": "2026-12-24T09:00:00+00:00"}
    text, made = ask("schedule_task", title="Price", action="watch", payload=payload)
    end = {"ends": "Thu 24 Dec 2026 09:00", "until": "2026-12-24T09:00:00Z"}
    assert made["target"] == {"address": URL, "every": "1 h", **end, "changed": "@"}
    assert "every 1 h until it changes, and ends" in text
    text, made = ask("schedule_task", title="Stock", action="watch", payload={"url": URL, "condition": "stock"})
    assert made["target"]["condition"] == "stock"
    assert "every 5 min until «stock» holds, and ends" in text


def test_the_condition_of_a_watch_is_shown_without_credentials_and_cut(ask: Ask) -> None:
    token = "ghp_" + "kX7w" * 9
    condition = f"headers.token == '{token}' && status == 'ok'"
    text, made = ask("schedule_task", title="CI", action="watch", payload={"url": URL, "condition": condition})
    assert token not in f"{text}{made}"
    long = " || ".join(f"state == '{number}'" for number in range(20))
    _, made = ask("schedule_task", title="CI", action="watch", payload={"url": URL, "condition": long})
    assert len(made["target"]["condition"]) <= MAX_SAID_CHARS


def test_a_watch_that_looks_says_until_what_and_the_time_of_its_end(
    ask: Ask, scheduler: Scheduler, store: Store
) -> None:
    view = scheduler.schedule(**WATCH)
    store.claims.make_ready(limit=1)
    [claim] = store.claims.start([Start(view.record.run.id)], worker="w", epoch=None, lease=timedelta(hours=1))
    assert claim.run.started_at is not None
    ends = describe(claim.run.started_at + timedelta(days=7), "UTC")
    text, shown = ask("get_task", task_id=claim.task.id)
    assert (shown["target"]["ends"], shown["target"]["changed"]) == (ends, "price")
    assert f"every 5 min until «price» changes, and ends {ends}." in text


def test_a_webhook_says_its_address(ask: Ask) -> None:
    text, made = ask("schedule_task", title="Hook", action="webhook", when="tomorrow 9am", payload={"url": URL})
    assert made["target"] == {"address": URL}
    assert f"Sends a request to «{URL}»." in text


def test_a_reminder_and_a_watch_that_has_ended_have_no_target(ask: Ask) -> None:
    assert "target" not in ask("schedule_task", title="Call John", when="tomorrow 9am")[1]
    task_id = ask("schedule_task", **WATCH)[1]["id"]
    assert "target" not in ask("cancel_task", task_id=task_id)[1]
