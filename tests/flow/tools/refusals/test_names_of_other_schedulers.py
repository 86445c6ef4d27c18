"""A call with the names and shapes of another scheduler is refused with the same call as this one has it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import open_store

from tests.builders import Clock
from tests.flow.tools.calls import Answer, answers_of
from tests.flow.tools.sent_back import corrections

S, R, C, L, E = "schedule_task", "reschedule_task", "change_tasks", "list_tasks", "send_event"
HOOK = {"url": "https://example.com/hook"}

CALLS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    # recurrences in parts
    (S, {"repeat": {"frequency": "daily", "time": "09:00"}}, {"repeat": "every day at 09:00"}),
    (
        S,
        {"repeat": {"frequency": "weekly", "days": ["monday", "wednesday"], "time": "09:00"}},
        {"repeat": "every monday and wednesday at 09:00"},
    ),
    (
        S,
        {"repeat": {"freq": "WEEKLY", "byday": ["MO", "WE"], "interval": 2}},
        {"repeat": "every 2 weeks on mon and wed"},
    ),
    (S, {"repeat": {"every": 15, "unit": "minutes"}}, {"repeat": "every 15 minutes"}),
    (S, {"repeat": {"type": "interval", "minutes": 15}}, {"repeat": "every 15 minutes"}),
    (S, {"repeat": {"type": "cron", "expression": "0 9 * * 1-5"}}, {"repeat": "0 9 * * 1-5"}),
    (S, {"repeat": {"interval": "weekly", "days": ["fri"]}}, {"repeat": "every fri"}),
    (
        S,
        {"repeat": {"frequency": "monthly", "day_of_month": 1, "hour": 9}},
        {"repeat": "every month on the 1st at 09:00"},
    ),
    (S, {"repeat": {"day_of_week": "mon-fri", "hour": 9}}, {"repeat": "every weekday at 09:00"}),
    (
        S,
        {"repeat": {"frequency": "daily", "at": "9am", "until": "2026-12-31", "timezone": "Asia/Tokyo"}},
        {"repeat": "every day at 9am", "until": "2026-12-31", "timezone": "Asia/Tokyo"},
    ),
    (S, {"repeat": {"frequency": "daily", "count": 5}}, {"repeat": "every day", "max_runs": 5}),
    (S, {"repeat": {"minute": "0", "hour": "9"}}, {"repeat": "every day at 09:00"}),
    (S, {"repeat": {"phase": "full moon"}}, {"repeat": "every weekday at 9:00"}),
    (S, {"when": "9:00", "days": ["mon", "wed"]}, {"when": "9:00", "repeat": "every mon and wed"}),
    (S, {"repeat": "daily at 9", "days": ["mon", "wed"]}, {"repeat": "every mon and wed at 9"}),
    (S, {"cron": "0 9 * * *"}, {"repeat": "0 9 * * *"}),
    (S, {"cron_expression": "0 9 * * *"}, {"repeat": "0 9 * * *"}),
    (S, {"rrule": "FREQ=DAILY;BYHOUR=9;BYMINUTE=0"}, {"repeat": "FREQ=DAILY;BYHOUR=9;BYMINUTE=0"}),
    (S, {"schedule": {"cron": "0 9 * * *"}}, {"repeat": "0 9 * * *"}),
    (S, {"schedule": "0 9 * * *"}, {"repeat": "0 9 * * *"}),
    (S, {"schedule": "tomorrow 9am"}, {"when": "tomorrow 9am"}),
    (S, {"schedule": {"type": "once", "at": "tomorrow 9am"}}, {"when": "tomorrow 9am"}),
    (S, {"interval": "15 minutes"}, {"repeat": "every 15 minutes"}),
    (S, {"interval_minutes": 15}, {"repeat": "every 15 minutes"}),
    (S, {"recurrence": {"frequency": "daily"}}, {"repeat": "every day"}),
    (S, {"repeat": "daily at 9", "end_date": "2026-12-31"}, {"repeat": "daily at 9", "until": "2026-12-31"}),
    (S, {"repeat": "daily at 9", "occurrences": 5}, {"repeat": "daily at 9", "max_runs": 5}),
    (
        S,
        {"repeat": "daily at 9", "exclude": ["2026-12-24"]},
        {"repeat": "daily at 9", "repeat_policy": {"except": ["2026-12-24"]}},
    ),
    # times
    (S, {"run_at": "2026-12-24T09:00:00"}, {"when": "2026-12-24T09:00:00"}),
    (S, {"delay_seconds": 600}, {"when": "in 600 seconds"}),
    (S, {"delayMinutes": 10}, {"when": "in 10 minutes"}),
    (S, {"hours": 2}, {"when": "in 2 hours"}),
    (S, {"delay": "90 minutes"}, {"when": "in 90 minutes"}),
    (S, {"delay": "in 90 minutes"}, {"when": "in 90 minutes"}),
    (S, {"delay": "PT90M"}, {"when": "PT90M"}),
    (S, {"delay": "2026-12-01T09:00"}, {"when": "2026-12-01T09:00"}),
    (S, {"wait": "9am"}, {"when": "9am"}),
    (S, {"due_date": "2026-12-24", "due_time": "09:00"}, {"when": "2026-12-24 09:00"}),
    (S, {"time": "09:00", "date": "2026-12-24"}, {"when": "2026-12-24 09:00"}),
    (
        S,
        {"when": {"dateTime": "2026-12-24T09:00:00", "timeZone": "Asia/Tokyo"}},
        {"when": "2026-12-24T09:00:00", "timezone": "Asia/Tokyo"},
    ),
    (S, {"when": {"minutes": 10}}, {"when": "in 10 minutes"}),
    (S, {"when": "tomorrow 9am", "tz": "Asia/Tokyo"}, {"when": "tomorrow 9am", "timezone": "Asia/Tokyo"}),
    # work
    (S, {"task_name": "B", "when": "tomorrow"}, {"title": "B", "when": "tomorrow"}),
    (S, {"when": "tomorrow", "prompt": "Bring it"}, {"when": "tomorrow", "payload": {"message": "Bring it"}}),
    (S, {"when": "tomorrow", "description": "Bring it"}, {"when": "tomorrow", "payload": {"message": "Bring it"}}),
    (S, {"type": "webhook", "payload": HOOK}, {"action": "webhook", "payload": HOOK}),
    (S, {"function": "webhook", "args": HOOK}, {"action": "webhook", "payload": HOOK}),
    (S, {"url": HOOK["url"], "method": "POST"}, {"action": "webhook", "payload": {**HOOK, "method": "POST"}}),
    (S, {"action": {"type": "webhook", **HOOK}}, {"action": "webhook", "payload": HOOK}),
    (
        S,
        {"run_at": "in 1 hour", "action": {"type": "webhook", **HOOK}},
        {"when": "in 1 hour", "action": "webhook", "payload": HOOK},
    ),
    (S, {"when": "tomorrow", "priority": "medium"}, {"when": "tomorrow", "priority": "normal"}),
    (S, {"when": "tomorrow", "max_attempts": 3}, {"when": "tomorrow", "retry": {"max_attempts": 3}}),
    (
        S,
        {"when": "tomorrow", "max_retries": 3, "retry_delay": 60},
        {"when": "tomorrow", "retry": {"max_attempts": 4, "backoff": 60}},
    ),
    (S, {"when": "tomorrow", "depends_on": ["ONE"]}, {"when": "tomorrow", "after": ["ONE"]}),
    (S, {"when": "tomorrow", "needs_approval": True}, {"when": "tomorrow", "approval": {"question": "A?"}}),
    (S, {"on_event": "paid"}, {"wait_for": {"event": "paid"}}),
    (S, {"when": "tomorrow", "tasks": [{"name": "a"}]}, {"when": "tomorrow", "steps": [{"name": "a"}]}),
    # changes
    (R, {"task_id": "ONE", "pause": "until friday"}, {"task_id": "ONE", "pause_until": "friday"}),
    (R, {"task_id": "ONE", "pause": "for 2 hours"}, {"task_id": "ONE", "pause_until": "2 hours"}),
    (R, {"task_id": "ONE", "pause": {"until": "friday"}}, {"task_id": "ONE", "pause_until": "friday"}),
    (R, {"task_id": "ONE", "enabled": False}, {"task_id": "ONE", "pause": True}),
    (R, {"task_id": "ONE", "postpone": "1 day"}, {"task_id": "ONE", "when": "1 day later"}),
    (R, {"task_id": "ONE", "changes": {"when": "friday"}}, {"task_id": "ONE", "when": "friday"}),
    (R, {"task_id": ["ONE"], "when": "friday"}, {"task_id": "ONE", "when": "friday"}),
    (C, {"action": "cancel", "query": "one"}, {"change": "cancel", "query": "one"}),
    (C, {"action": "reschedule", "query": "one", "when": "friday"}, {"change": "move", "query": "one", "to": "friday"}),
    (C, {"operation": "pause", "query": "one"}, {"change": "pause", "query": "one"}),
    (C, {"change": "pause", "filter": {"title": "one"}}, {"change": "pause", "query": "one"}),
    (C, {"change": "pause", "query": "one", "until": "friday"}, {"change": "pause", "query": "one", "to": "friday"}),
    # lists and events
    (L, {"date": "tomorrow"}, {"after": "tomorrow", "before": "tomorrow"}),
    (L, {"start": "tomorrow", "end": "friday"}, {"after": "tomorrow", "before": "friday"}),
    (L, {"status": "pending"}, {"state": "open"}),
    (L, {"filter": {"status": "completed"}}, {"state": "succeeded"}),
    (L, {"labels": ["x"], "max_results": 10}, {"label": "x", "limit": 10}),
    (E, {"name": "paid", "payload": {"order": {"id": 7}}}, {"name": "paid", "data": {"order": {"id": 7}}}),
    (E, {"event_type": "paid", "id": "x7"}, {"name": "paid", "event_id": "x7"}),
]


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scheduler]:
    store = open_store(f"sqlite:///{tmp_path_factory.mktemp('names') / 'duetime.db'}", clock=Clock())
    yield Scheduler(store, Planner(Handlers.load(entry_points=False), "UTC", upstreams=store.dependencies.known))
    store.close()


@pytest.fixture(scope="module")
def answer(scheduler: Scheduler) -> Answer:
    return answers_of(scheduler)


@pytest.fixture(scope="module")
def one(scheduler: Scheduler) -> str:
    return scheduler.schedule("Task one", when="tomorrow 9am").record.task.id


@pytest.mark.parametrize(("tool", "wrong", "right"), CALLS, ids=lambda value: str(value)[:70])
def test_the_example_is_the_call_that_was_meant(
    answer: Answer, one: str, tool: str, wrong: dict[str, Any], right: dict[str, Any]
) -> None:
    titled = {"title": "A"} if tool == S and "task_name" not in wrong else {}
    given, meant = ({**titled, **_of_task(call, one)} for call in (wrong, right))
    accepted, said = answer(tool, given)
    assert not accepted
    for again in corrections(tool, given, said):
        assert again == (tool, meant)
    accepted, said = answer(tool, {**meant, **({"dry_run": True} if tool in {S, R, C} else {})})
    assert accepted, said


@pytest.mark.parametrize(
    ("given", "never"),
    [
        ({"when": "9:00", "recurrence": {"frequency": "daily", "count": 5}, "max_runs": 3}, "max_runs"),
        ({"when": "tomorrow", "options": {"body": "Two"}, "payload": {"message": "One"}}, "payload"),
    ],
)
def test_no_example_overrides_what_the_call_gives(answer: Answer, given: dict[str, Any], never: str) -> None:
    accepted, said = answer(S, {"title": "A", **given})
    assert not accepted
    assert f"{never}=" not in said.partition("Example: ")[2]


@pytest.mark.parametrize("postpone", ["2026-12-01T09:00", "9am", "1 daybreak", "1 € day"])
def test_a_time_to_postpone_to_is_no_length(answer: Answer, one: str, postpone: str) -> None:
    accepted, said = answer(R, {"task_id": one, "postpone": postpone})
    assert not accepted
    assert "later" not in said.partition("Example: ")[2]


@pytest.mark.parametrize("tool", ["get_task", "cancel_task", R])
def test_a_task_that_is_named_by_its_title_is_found_first(answer: Answer, one: str, tool: str) -> None:
    accepted, said = answer(tool, {"title": "Task one"})
    assert not accepted
    assert [call for call, _ in corrections(tool, {"title": "Task one"}, said)] == [L]
    assert one in answer(L, {"query": "Task one"})[1]


def test_a_list_that_is_asked_for_one_task_shows_the_tool_that_reads_it(answer: Answer, one: str) -> None:
    _, said = answer(L, {"task_id": one})
    assert said.endswith(f"Example: get_task(task_id={one!r})")


def test_the_payload_of_an_action_under_another_name_is_not_judged_as_that_of_a_reminder(answer: Answer) -> None:
    _, said = answer(S, {"title": "A", "type": "webhook", "payload": HOOK})
    assert "payload" not in said.partition(" Accepted:")[0]
    assert len(said.splitlines()) == 1


def test_a_credential_under_another_name_is_not_repeated(answer: Answer) -> None:
    _, said = answer(S, {"title": "A", "action": "webhook", "args": {**HOOK, "password": "blue lamp"}})
    assert "blue lamp" not in said


def _of_task(given: Any, task_id: str) -> Any:
    if isinstance(given, dict):
        return {name: _of_task(value, task_id) for name, value in given.items()}
    if isinstance(given, list):
        return [_of_task(value, task_id) for value in given]
    return task_id if given == "ONE" else given
