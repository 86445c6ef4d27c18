"""An example of a refusal is accepted when it is sent back in the same call."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import combinations
from random import Random
from typing import Any

import pytest
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.ids import DRY_RUN_ID
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import open_store
from duetime.tools.schedule_task import REMINDER, schedule_task

from tests.builders import Clock
from tests.flow.tools.calls import Answer, answers_of
from tests.flow.tools.sent_back import corrections

S, R, A, C = "schedule_task", "reschedule_task", "act_on_task", "change_tasks"
WATCH = {"url": "https://example.com/order", "condition": "status == 'shipped'"}
WAITING = {"name": "a", "wait_for": {"event": "x"}}
HOOK = {"url": "https://example.com/hook"}
WRONG = [
    (S, {}),
    (S, {"title": 7, "when": "tomorrow"}),
    (S, {"when": None}),
    (S, {"when": "tomorrow", "expect": {"urll": "https://example.com/x"}}),
    (S, {"when": "tomorrow", "retry": {"max_atempts": 4, "backof": "10 minutes"}}),
    (S, {"steps": [{"name": "a", "repeat": "daily at 9"}, {"name": "b", "after": ["a"]}]}),
    (S, {"title": ""}),
    (S, {"title": "   ", "when": "tomorrow"}),
    (S, {"title": "Call\u202eJohn", "when": "tomorrow"}),
    (S, {"title": "x" * 300, "when": "tomorrow"}),
    # times
    (S, {"when": "yesterday at 9"}),
    (S, {"when": "this tuesday"}),
    (S, {"when": "end of business"}),
    (S, {"when": "cob friday"}),
    (S, {"when": "mid november"}),
    (S, {"when": "same day next week"}),
    (S, {"when": "someday"}),
    (S, {"when": "asap"}),
    (S, {"when": "8pm New York time", "timezone": "Europe/Berlin"}),
    (S, {"when": "8 pm CET"}),
    (S, {"when": "2026-12-24T08:00:00-05:00", "timezone": "Europe/Berlin"}),
    (S, {"when": "30 february"}),
    (S, {"when": "every monday at 9"}),
    (S, {"when": "every second monday at 9"}),
    (S, {"when": "wed 1 dec 2026"}),
    (S, {"when": "12/5"}),
    (S, {"when": "next weekend"}),
    (S, {"when": "25:00"}),
    (S, {"when": "2040-01-01"}),
    (S, {"when": "x" * 500}),
    (S, {"when": "tomorrow", "timezone": "Berlin"}),
    (S, {"when": "tomorrow", "timezone": "UTC+2"}),
    # recurrences
    (S, {"repeat": "every full moon"}),
    (S, {"repeat": "every monday at 9 starting february"}),
    (S, {"repeat": "every 2 weeks starting tomorrow"}),
    (S, {"repeat": "every week from december 7"}),
    (S, {"repeat": "every day starting someday"}),
    (S, {"repeat": "every 2 days at 9 except 24 december"}),
    (S, {"repeat": "every day at 9 except 2026-12-24 and 2026-12-25"}),
    (S, {"repeat": "every weekday at 9 except the first of the month"}),
    (S, {"repeat": "every weekday at 9 except the 31st of every month"}),
    (S, {"repeat": "every weekday until 17:00"}),
    (S, {"repeat": "every second tuesday"}),
    (S, {"repeat": "every 10 seconds"}),
    (S, {"repeat": "every 0 days"}),
    (S, {"repeat": "every 100 years"}),
    (S, {"repeat": "mondays at 9, fridays at 15"}),
    (S, {"repeat": "biweekly"}),
    (S, {"repeat": "biweekly on friday at 17:00 except public holidays"}),
    (S, {"repeat": "every other friday at 17:00 starting friday except public holidays"}),
    (S, {"repeat": "every friday at 17:00", "repeat_policy": {"except": ["public holidays"]}}),
    (S, {"repeat": "every public holiday"}),
    (S, {"repeat": "every day between 9 and 10"}),
    (S, {"repeat": "FREQ=MONTHLY;BYYEARDAY=3"}),
    (S, {"repeat": "FREQ=DAILY;DTSTART=20261201"}),
    (S, {"repeat": "0 9 * *"}),
    (S, {"repeat": "0 25 * * *"}),
    (S, {"repeat": "every friday at 18:00", "until": "10 times"}),
    (S, {"repeat": "every friday at 18:00", "until": "ten times"}),
    (S, {"repeat": "every friday at 18:00", "until": "yesterday"}),
    (S, {"repeat": "every friday at 18:00", "until": "tomorrow"}),
    (S, {"repeat": "daily until 2026-12-31", "until": "2026-12-30"}),
    (S, {"repeat": "daily at 9:00 until friday", "until": "tuesday"}),
    (S, {"repeat": "daily at 9", "until": "whenever"}),
    (S, {"repeat": "daily", "max_runs": -3}),
    (S, {"repeat": "daily at 9:00 5 times", "max_runs": 3}),
    (S, {"repeat": "FREQ=DAILY;COUNT=3", "max_runs": 5}),
    (S, {"when": "tomorrow", "until": "friday"}),
    (S, {"when": "tomorrow", "max_runs": 3}),
    (S, {"repeat": "daily", "repeat_policy": {"overlap": "queue"}}),
    (S, {"repeat": "daily", "repeat_policy": {"surplus": 1}}),
    (S, {"repeat": "every hour", "repeat_policy": {"jitter": "2 hours"}}),
    (S, {"repeat": "daily", "repeat_policy": {"except": ["my birthday"]}}),
    (S, {"repeat": "daily", "repeat_policy": {"except": 7}}),
    (S, {"repeat": "daily", "repeat_policy": {"pause_after": "x"}}),
    (S, {"when": "tomorrow", "repeat_policy": {"jitter": "1 min"}}),
    # waits, questions and steps
    (S, {"action": "reminder", "wait_for": {"event": "f", "on_timeout": "fail"}}),
    (S, {"wait_for": {"event": "f", "within": "2 hours"}}),
    (S, {"wait_for": {"event": "f", "surplus": 1}}),
    (S, {"approval": {"question": "Send?", "deadline": "noon", "on_timeout": "reject"}}),
    (S, {"approval": {"message": "Send?"}}),
    (S, {"approval": {"prompt": "Send?", "default": "yes"}}),
    (S, {"wait_for": {"topic": "paid", "for": "2 days", "else": "skip"}}),
    (S, {"wait_for": {"event": "paid", "otherwise": "continue"}}),
    (S, {"wait_for": {"name": "order paid"}}),
    (S, {"wait_for": {"events": ["a", "b"]}}),
    (S, {"wait_for": {"event": "paid", "where": "x > 3"}}),
    (S, {"wait_for": {"event": "paid", "on_timeout": ["run"]}}),
    (S, {"when": "tomorrow", "steps": [{"name": "import a"}, {"name": "report", "after": ["import a"]}]}),
    (S, {"when": "tomorrow", "steps": [{"title": "One"}, {"title": "Two"}]}),
    (S, {"steps": [{"name": "a", "wait_for": "paid"}, {"name": "b", "retry": 3, "after": ["a"]}]}),
    # actions and payloads
    (S, {"when": "tomorrow", "action": "remainder"}),
    (S, {"action": "webhook"}),
    (S, {"action": "webhook", "payload": {"url": "http://127.0.0.1/x", "method": "POST"}}),
    (S, {"action": "webhook", "payload": {"url": "no url", "body": {"order": 7}}}),
    (S, {"action": "webhook", "payload": {"url": "https://example.com", "method": "GET", "body": "x"}}),
    (S, {"action": "webhook", "payload": "x"}),
    (S, {"action": "webhook", "payload": ["https://example.com/hook"]}),
    (S, {"action": "watch", "payload": "x"}),
    (S, {"when": "tomorrow", "payload": "x"}),
    (S, {"action": "watch", "payload": {"url": "https://example.com"}}),
    (S, {"action": "watch", "payload": {"condition": "a"}}),
    (S, {"action": "watch", "payload": {**WATCH, "condition": "status == shipped"}}),
    (S, {"action": "watch", "payload": {**WATCH, "condition": 'status == "shipped"'}}),
    (S, {"action": "watch", "payload": {**WATCH, "condition": "["}}),
    (S, {"action": "watch", "payload": {**WATCH, "changed": True}}),
    (S, {"action": "watch", "payload": {**WATCH, "until": "whenever"}}),
    (S, {"action": "watch", "payload": {**WATCH, "every": "every weekday"}}),
    (S, {"action": "watch", "payload": {**WATCH, "until": "2 years"}}),
    (S, {"action": "watch", "payload": {**WATCH, "every": "10 s"}}),
    (S, {"action": "watch", "payload": {**WATCH, "every": "often"}}),
    (S, {"action": "watch", "payload": {**WATCH, "every": "60 days"}}),
    # urgency and needs
    (S, {"when": "tomorrow", "priority": "urgent"}),
    (S, {"when": "tomorrow", "deadline_type": "hard"}),
    (S, {"when": "tomorrow", "deadline": "today"}),
    (S, {"when": "tomorrow", "deadline": "soonish"}),
    (S, {"repeat": "daily", "deadline": "2027-01-01"}),
    (S, {"when": "tomorrow", "estimate": "a while"}),
    (S, {"when": "tomorrow", "estimate": "900 days"}),
    (S, {"when": "tomorrow", "needs": "gpu"}),
    (S, {"when": "tomorrow", "needs": {"gpu": 1}}),
    (S, {"when": "tomorrow", "needs": {"gpu": 0}}),
    (S, {"when": "tomorrow", "needs": {"?": 1}}),
    (S, {"when": "tomorrow", "needs": {"tenant:x": 1}}),
    # handling
    (S, {"when": "tomorrow", "labels": "a, b"}),
    (S, {"when": "tomorrow", "retry": {"attempts": 3}}),
    (S, {"when": "tomorrow", "retry": {"max_retries": "3", "delay": "30 s", "jitter": True}}),
    (S, {"when": "tomorrow", "retry": "often"}),
    (S, {"when": "tomorrow", "retry": "5 times, 30 s apart, on mondays"}),
    (S, {"when": "tomorrow", "retry": "900 times"}),
    (S, {"when": "tomorrow", "retry": {"max_attempts": 3, "backoff": "a while"}}),
    (S, {"when": "tomorrow", "retry": {"max_attempts": 3, "backoff": "9 days"}}),
    (S, {"when": "tomorrow", "retry": {"backoff": "1 hour", "max_backoff": "1 min"}}),
    (S, {"when": "tomorrow", "retry": {"max_attempts": 3, "backoff_seconds": 90, "max_backoff_seconds": 5}}),
    (S, {"when": "tomorrow", "notify": "errors"}),
    (S, {"when": "tomorrow", "deliver_to": ["telegram"]}),
    (S, {"when": "tomorrow", "expect": {"field": "x"}}),
    (S, {"action": "webhook", "payload": {"url": "https://example.com"}, "expect": {"field": 7}}),
    (S, {"action": "webhook", "payload": {"url": "https://example.com"}, "expect": {"fields": "a"}}),
    (S, {"action": "webhook", "payload": {"url": "https://example.com"}, "expect": {"schema": {"type": "x"}}}),
    (S, {"action": "webhook", "payload": {"url": "https://example.com"}, "expect": {"url": "http://127.0.0.1"}}),
    (S, {"when": "tomorrow", "on_failure": "notify"}),
    (S, {"when": "tomorrow", "on_failure": {"notify": "team"}}),
    (S, {"when": "tomorrow", "on_failure": {"notify": 7}}),
    (S, {"when": "tomorrow", "on_failure": {"run": {"action": "nope"}}}),
    (S, {"when": "tomorrow", "on_failure": {"run": {}}}),
    (S, {"when": "tomorrow", "on_failure": {"run": "webhook"}}),
    (S, {"when": "tomorrow", "on_failure": {"tier": "urgent"}}),
    (S, {"when": "tomorrow", "on_failure": {"then": "x"}}),
    (S, {"when": "tomorrow", "idempotency_key": "{window"}),
    (S, {"repeat": "daily", "idempotency_key": "{user}"}),
    (S, {"repeat": "daily", "idempotency_key": "{label.account}:{window}"}),
    # waits
    (S, {"when": "tomorrow", "approval": {"question": "Pay?", "default": "approve"}}),
    (S, {"when": "tomorrow", "approval": {"default": "approve"}}),
    (S, {"when": "tomorrow", "approval": {"question": "Pay?", "by": "yesterday"}}),
    (S, {"when": "tomorrow", "approval": {"question": "Pay?", "by": "whenever"}}),
    (S, {"when": "tomorrow", "approval": {"question": "Pay?", "by": "en fin de semaine"}}),
    (S, {"when": "24/7"}),
    (S, {"when": "tomorrow", "approval": {"question": "Pay?", "default": "maybe"}}),
    (S, {"when": "tomorrow", "approval": {"ask": "Pay?"}}),
    (S, {"repeat": "daily", "approval": {"question": "Pay 90 EUR?", "by": "tomorrow"}}),
    (S, {"wait_for": "order.paid"}),
    (S, {"wait_for": {"event": "order paid!"}}),
    (S, {"wait_for": {"event": "order paid!", "timeout": "2 days"}}),
    (S, {"wait_for": {"timeout": "2 days"}}),
    (S, {"wait_for": {"event": "a", "timeout": "500 days"}}),
    (S, {"wait_for": {"event": "a", "timeout": "soon"}}),
    (S, {"wait_for": {"event": "a", "timeout": "0 s"}}),
    (S, {"wait_for": {"event": "a", "lookback": "500 days"}}),
    (S, {"wait_for": {"event": "a", "on_timeout": "stop"}}),
    (S, {"wait_for": {"event": "a", "match": 7}}),
    (S, {"wait_for": {"event": "a", "until": "friday"}}),
    (S, {"wait_for": {"event": "a", "or_when": True}}),
    (S, {"wait_for": {"event": "a", "or_when": True, "timeout": "2 days"}}),
    (S, {"when": "tomorrow", "wait_for": {"event": "a", "or_when": True, "timeout": "2 days"}}),
    (S, {"when": "tomorrow", "wait_for": {"event": "a", "or_when": True, "on_timeout": "run"}}),
    (S, {"repeat": "daily", "wait_for": {"event": "a", "or_when": True}}),
    (S, {"wait_for": {"any": ["a", "b"]}}),
    (S, {"wait_for": {"any": []}}),
    (S, {"wait_for": {"any": [{"event": "a"}, {"event": "b c"}]}}),
    (S, {"wait_for": {"any": [{"event": "a", "timeout": "2 days"}]}}),
    (S, {"wait_for": {"event": "x", "any": [{"event": "a"}]}}),
    (S, {"wait_for": {"any": [{"event": "a"}], "timeout": "500 days"}}),
    # chains
    (S, {"after": ["t_abcdefghjkmn"]}),
    (S, {"after": "t_1, t_2"}),
    (S, {"after": ["ONE"], "repeat": "daily"}),
    (S, {"when": "tomorrow", "after_failure": "stop"}),
    (S, {"when": "tomorrow", "after_failure": "skip"}),
    (S, {"after": ["ONE"], "after_failure": "stop"}),
    (S, {"when": "tomorrow", "steps": {"name": "a"}}),
    (S, {"when": "tomorrow", "steps": ["a"]}),
    (S, {"when": "tomorrow", "steps": [{"action": "reminder"}]}),
    (S, {"when": "tomorrow", "steps": [{"name": "a b"}]}),
    (S, {"when": "tomorrow", "steps": [{"name": "a"}, {"name": "a"}]}),
    (S, {"when": "tomorrow", "steps": [{"name": "a"}, {"name": "b", "after": ["aa"]}]}),
    (S, {"when": "tomorrow", "steps": [{"name": "a"}, {"name": "c"}, {"name": "b", "after": "a, c"}]}),
    (S, {"when": "tomorrow", "steps": [{"name": "a", "after": ["b"]}, {"name": "b", "after": ["a"]}]}),
    (S, {"when": "tomorrow", "steps": [{"name": "a"}, {"name": "b", "after": ["a"], "payload": "x"}]}),
    (S, {"when": "tomorrow", "steps": [{"name": "a", "action": "webhook"}]}),
    (S, {"when": "tomorrow", "steps": [{"name": "a", "action": "webhook", "payload": {"url": "http://127.0.0.1"}}]}),
    (S, {"when": "tomorrow", "steps": [{"name": "a", "priority": "urgent"}]}),
    (S, {"when": "tomorrow", "steps": [{"name": "a"}, {"name": "b", "after": ["a"], "after_failure": "run"}]}),
    (S, {"when": "tomorrow", "steps": [{"name": "a", "when": "yesterday"}]}),
    (S, {"when": "tomorrow", "steps": [{"name": "a", "needs": {"gpu": 1}}]}),
    (S, {"when": "tomorrow", "steps": [{"name": "a", "needs": "gpu"}]}),
    (S, {"when": "tomorrow", "steps": [{"name": "a", "approval": {"default": "approve"}}]}),
    (S, {"when": "tomorrow", "steps": [{"name": "a", "wait_for": {"event": "x y"}}]}),
    (S, {"when": "tomorrow", "steps": [{"name": "a", "colour": "red"}]}),
    (S, {"when": "tomorrow", "steps": [{"name": "a", "colour": "red", "priority": "urgent", "notify": "x"}]}),
    (S, {"when": "tomorrow", "steps": [{"name": "a"}, {"name": "b", "after": ["a"], "after_failure": "stop",
                                        "wait_for": {"event": "x y", "timeout": "soon"}}]}),
    (S, {"wait_for": {"event": "x y", "timeout": "soon", "on_timeout": "stop", "colour": "red"}}),
    (S, {"when": "tomorrow", "approval": {"ask": "Pay?", "by": "whenever", "default": "maybe"}}),
    (S, {"when": "tomorrow", "steps": [{"name": "a", "repeat": "daily"}]}),
    (S, {"repeat": "daily", "steps": [{"name": "a", "when": "tomorrow"}]}),
    (S, {"repeat": "daily", "steps": [{"name": "a", "approval": {"question": "Go?", "by": "tomorrow"}}]}),
    (S, {"action": "reminder", "steps": [{"name": "a"}]}),
    (S, {"action": "webhook", "payload": HOOK, "steps": [{"name": "a"}, {"name": "b", "after": ["a"]}]}),
    (S, {"action": "webhook", "payload": HOOK, "steps": [{"name": "a", "action": "webhook", "payload": HOOK}]}),
    (S, {"when": "tomorrow", "needs": {"key:x": 1}, "estimate": "5 min", "steps": [{"name": "a"}]}),
    (S, {"when": "tomorrow", "action": "webhook", "payload": HOOK, "steps": [{"name": "a", "priority": "urgent"}]}),
    (S, {"when": "tomorrow", "action": "webhook", "payload": {"url": "https://example.com/" + "x" * 400},
         "steps": [{"name": "a"}]}),
    (S, {"when": "tomorrow", "action": "webhook", "payload": HOOK | {"body": "Bearer abcdefgh12345678"},
         "steps": [{"name": "a"}]}),
    (S, {"when": "tomorrow", "steps": [{"name": "a", "valid_output": {"type": "object"}}]}),
    (S, {"when": "tomorrow", "valid_output": {"type": "object"}}),
    (S, {"when": "tomorrow", "steps": [{"name": "a", "payload": "{"}]}),
    (S, {"when": "tomorrow", "steps": [{"id": "a"}, {"id": "b", "depends_on": "a"}]}),
    (S, {"when": "tomorrow", "steps": [{"name": "a", "when": "in 2 hours", "repeat": "daily"}]}),
    (S, {"when": "tomorrow", "steps": [{"name": "a", "deadline": "2 years"}, {"name": "b", "labels": "x, y"}]}),
    (S, {"when": "tomorrow", "steps": [{"name": "a", "on_failure": {"notify": "team"}}]}),
    (S, {"when": "tomorrow", "steps": [{"name": "a", "on_failure": {"tier": "urgent", "else": 1}}]}),
    (S, {"when": "tomorrow", "steps": [{"name": "a", "timezone": "Berlin"}]}),
    (S, {"when": "tomorrow", "steps": [{"name": "a", "estimate": "a while"}]}),
    (S, {"when": "tomorrow", "steps": [{"name": "a", "deadline_type": "hard"}]}),
    (S, {"when": "tomorrow", "steps": [{"name": "a", "deliver_to": ["telegram"]}]}),
    (S, {"when": "tomorrow", "steps": [{"name": "a", "labels": ["x" * 90]}]}),
    (S, {"when": "tomorrow", "steps": [{"name": "a", "title": "x" * 900}]}),
    (S, {"when": "whenever", "steps": [{"name": "a"}]}),
    (S, {"repeat": "every full moon", "steps": [{"name": "a"}]}),
    (S, {"when": "tomorrow", "until": "friday", "steps": [{"name": "a"}]}),
    (S, {"when": "tomorrow", "approval": {"question": "q", "default": "approve"}, "steps": [{"name": "a"}]}),
    (S, {"when": "tomorrow", "wait_for": {"event": "x y"}, "steps": [{"name": "a"}]}),
    (S, {"when": "tomorrow", "deadline": "today", "steps": [{"name": "a"}]}),
    (S, {"when": "tomorrow", "steps": 7}),
    (S, {"when": "tomorrow", "deliver_to": ["telegram"], "labels": ["x" * 90], "steps": [{"name": "a"}]}),
    (S, {"when": "tomorrow", "payload": {"message": "x"}, "steps": [{"name": "a"}]}),
    # arguments of other names
    (S, {"at": "tomorrow"}),
    (S, {"when": "tomorrow", "time_zone": "Asia/Tokyo"}),
    (S, {"when": "tomorrow", "by": "2 hours"}),
    (S, {"action": "webhook", "url": "https://example.com/x", "method": "POST"}),
    (S, {"action": "webhook", "retries": 3, "payload": HOOK}),
    (S, {"when": {"date": "2026-12-24", "time": "09:00"}}),
    (S, {"when": 1798102800}),
    (S, {"new_time": "tomorrow"}),
    (S, {"when": "tomorrow", "payload": "Call him about the contract"}),
    # changes of one task
    *((R, {"task_id": "ONE", **changes}) for changes in (
        {},
        {"when": "17:30", "all_following": True},
        {"all_following": True},
        {"max_runs": 3},
        {"until": "friday"},
        {"when": "yesterday"},
        {"pause": False, "pause_until": "friday"},
        {"pause_until": "yesterday"},
        {"repeat": "every 2nd friday"},
        {"repeat": "stop"},
        {"remove": ["title"]},
        {"remove": ["deadline"]},
        {"remove": ["labels", "needs"], "labels": ["a"]},
        {"remove": "labels, needs", "labels": ["a"]},
        {"remove": ["labels"], "labels": ["a"]},
        {"payload": {"text": "x"}},
        {"needs": "gpu"},
        {"on_failure": "notify"},
        {"deadline": "yesterday"},
        {"approval": {"question": "q", "default": "approve"}},
        {"wait_for": {"event": "x y", "timeout": "2 days"}},
        {"after": ["ONE"]},
        {"after_failure": "skip"},
        {"repeat_policy": {"overlap": "skip"}},
    )),
    *((R, {"task_id": "DAILY", **changes}) for changes in (
        {"repeat": "weekdays at 9:00, 5 times", "max_runs": 3},
        {"when": "tomorrow", "repeat": "weekly", "all_following": True},
        {"until": "10 times"},
        {"until": "yesterday"},
        {"repeat": "every full moon"},
        {"repeat": "every monday at 9 starting february"},
        {"wait_for": {"event": "paid", "or_when": True}},
        {"wait_for": {"event": "x y"}},
        {"approval": {"question": "Pay?", "by": "tomorrow"}},
        {"repeat_policy": {"overlap": "queue"}},
        {"deadline": "2027-01-01"},
        {"skip_next": "next week"},
        {"skip_next": 3},
        {"repeat_policy": {"catchup": "400 days"}},
        {"repeat_policy": {"catchup": "400 days", "overlapp": "skip"}, "when": "400 dys"},
        {"catchup": "400 days", "when": "400 dys", "repeat": "every 5 fooes"},
    )),
    (A, {"task_id": "DAILY", "action": "skip_next", "minutes": 5}),
    (A, {"task_id": "DAILY", "action": "skip_next", "until": "friday"}),
    # actions of one task
    (R, {"task_id": "FRESH", "state": "cancelled"}),
    (R, {"task_id": "FRESH", "status": "paused"}),
    *((A, {"task_id": "FRESH", **asked}) for asked in (
        {"action": "snooze"},
        {"action": "snooze", "minutes": 0},
        {"action": "snooze", "minutes": 10**7},
        {"action": "snooze", "minutes": 5, "until": "friday"},
        {"action": "snooze", "until": "yesterday"},
        {"action": "snooze", "until": "today"},
        {"action": "snooze", "until": "whenever"},
        {"action": "run_now", "minutes": 5, "until": "friday"},
        {"action": "snooze", "minutes": 5, "undo": "u_1"},
        {"action": "snooze", "undo": "u_1"},
        {"action": "delete"},
        {"action": "postpone", "minutes": 5},
        {"action": "snooze 15 minutes"},
        {"action": {"type": "snooze", "minutes": 5}},
        {"action": "snooze", "for": "2 years"},
        {"action": "snooze", "for": "a while"},
    )),
    # changes of many tasks
    (C, {"change": "delete"}),
    (C, {"change": "move", "query": "one"}),
    (C, {"change": "cancel", "query": "one", "to": "tomorrow"}),
    (C, {"change": "resume", "query": "one", "to": "tomorrow"}),
    (C, {"change": "cancel", "query": "one", "task_ids": ["ONE"]}),
    (C, {"change": "move", "query": "one", "to": "whenever"}),
    (C, {"change": "move", "query": "one", "to": "yesterday"}),
    (C, {"action": "move", "query": "one"}),
    (C, {"change": "mov", "query": "one", "when": "400 dys", "before": "xx"}),
    # lists and events
    ("list_tasks", {"state": "on hold"}),
    ("list_tasks", {"state": "paused,open"}),
    ("list_tasks", {"state": "done"}),
    ("list_tasks", {"state": "asleep"}),
    ("list_tasks", {"limit": 500}),
    ("list_tasks", {"before": "someday"}),
    ("list_tasks", {"after": "tomorrow", "before": "yesterday"}),
    ("get_task", {"task_id": "ENDED", "wait": "1 hour"}),
    ("send_event", {"event": "order.paid"}),
    ("send_event", {"name": "a b"}),
    ("send_event", {"name": "a", "data": "x"}),
    ("send_event", {"name": "a", "event_id": "a b"}),
    ("send_event", {}),
    ("send_event", {"name": "a", "data": {"x": "y" * 40_000}}),
    *(("list_tasks", {"date": day}) for day in ("friday", "next monday", "2026-12-03")),
    *(("list_tasks", {"date": words}) for words in ("december", "3 days ago", "am 3.12.2026", "in the past")),
]  # fmt: skip


CORRECTED = [
    (S, {"when": "tomorrow", "until": "friday"}, "until=null or repeat='daily'"),
    (S, {"when": ["tomorrow 9am"]}, "when='tomorrow 9am'"),
    (S, {"repeat": ["daily at 9"]}, "repeat='daily at 9'"),
    (S, {"repeat": "0 */15 * * * *"}, "repeat='*/15 * * * *'"),
    (S, {"repeat": "0 30 9 ? * MON-FRI"}, "repeat='30 9 * * mon-fri'"),
    (S, {"repeat": "30 9 * * 1-5 *"}, "repeat='30 9 * * 1-5'"),
    (S, {"repeat": "0 30 9 * * 1-5 2026"}, "repeat='30 9 * * 1-5'"),
    (S, {"when": "tomorrow", "expect": "ok"}, "expect={'url': 'https://example.com/health'}"),
    (S, {"action": "webhook", "payload": HOOK, "expect": "ok"}, "expect={'field': 'ok'}"),
    *(
        (S, {"when": said}, "when='2026-12-03 8:30'")
        for said in ("am 3.12.2026 um 8 Uhr 30", "am 3.12.2026 um 8:30", "3.12.2026 8.30 Uhr", "3/12/2026 à 8 h 30")
    ),
    (S, {"when": "am 3.12.2026 um 18"}, "when='2026-12-03 18:00'"),
    (S, {"when": "3/12/2026 17h"}, "when='2026-12-03 17:00'"),
    (S, {"when": "le 03/12/2026 à 14h"}, "when='2026-12-03 14:00'"),
    (S, {"when": "um 18 Uhr am 3.12.2026"}, "when='18:00 2026-12-03'"),
    *((S, {"when": f"18 Uhr am {day}"}, "when='18:00 2026-12-10'") for day in ("10.12.2026", "10/12/2026")),
    ("list_tasks", {"date": "next week"}, "after='next week', before='next week'"),
    ("list_tasks", {"due": "today"}, "after='today', before='today'"),
    (
        S,
        {"action": "watch", "payload": {**WATCH, "interval": "10m"}},
        "payload={'url': 'https://example.com/order', 'condition': \"status == 'shipped'\", 'every': '10m'}",
    ),
    (R, {"task_id": "ONE", "remove": ["deadline"]}, "deadline='none', remove=null"),
    (R, {"task_id": "ONE", "remove": ["deadline", "needs"]}, "deadline='none', remove=['needs']"),
    (R, {"task_id": "ONE", "after": ["ONE"]}, "title='Task one', after=null"),
    (S, {"when": "tomorrow", "labels": [*"abcdefghijk"]}, f"labels={[*'abcdefghij']!r}"),
    (S, {"when": "tomorrow 9"}, "when='tomorrow at 9'"),
    (S, {"when": "friday 8"}, "when='friday at 8'"),
    (S, {"when": "morgen 9"}, "when='morgen um 9'"),
    (S, {"when": "demain 9"}, "when='demain à 9'"),
    (S, {"when": "tomorrow", "estimate": "1 year"}, "estimate='7 days'"),
    (S, {"when": "tomorrow", "deadline": "800 days"}, "deadline='366 days'"),
    ("get_task", {"task_id": "ENDED", "wait": "1 hour"}, "wait='5 min'"),
    ("get_task", {"task_id": "ENDED", "wait": "1 moment"}, "wait='30 s'"),
    (S, {"repeat": "every 500 ms"}, "repeat='every minute'"),
    *(
        (S, {"action": "watch", "payload": {**WATCH, **given}}, f"payload={ {**WATCH, **given, **right}!r}")
        for given, right in (
            ({"every": "500 ms"}, {"every": "1 min"}),
            ({"until": "900 days"}, {"until": "366 d"}),
            ({"every": "2 hours", "until": "500 ms"}, {"until": "2 h"}),
        )
    ),
    (S, {"when": "tomorrow", "estimate": "x" * 300}, "estimate='5 min'"),
    (S, {"when": "tomorrow", "estimate": "900 days"}, "estimate='7 days'"),
    (S, {"when": "tomorrow", "expect": {"feld": "x"}}, "expect={'url': 'https://example.com/health'}"),
    (S, {"when": "tomorrow", "approval": {"default": "yes"}}, "approval={'default': 'approve', 'by': '2 hours'}"),
    (S, {"when": "tomorrow", "wait_for": {"event": "y"}, "steps": [WAITING]}, "wait_for=null"),
    (S, {"repeat": "biweekly-ish"}, "repeat='every 2 weeks on monday'"),
    (S, {"repeat": "daily", "repeat_policy": {"jitter": "15 hours"}}, "repeat_policy={'jitter': '12 h'}"),
    (S, {"when": "tomorrow", "payload": {"message": 5}}, "payload={'message': '5'}"),
    (
        S,
        {"action": "webhook", "payload": {**HOOK, "json": {"order": 7}}},
        "payload={'url': 'https://example.com/hook', 'body': {'order': 7}}",
    ),
    (
        S,
        {"when": "tomorrow", "steps": [{"name": "b", "retry": "y"}]},
        "steps=[{'name': 'b', 'retry': {'max_attempts': 3}}]",
    ),
]
"""Calls with the example that keeps what was meant, and is accepted."""


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scheduler]:
    store = open_store(f"sqlite:///{tmp_path_factory.mktemp('sent') / 'duetime.db'}", clock=Clock())
    planner = Planner(Handlers.load(entry_points=False), "UTC", upstreams=store.dependencies.known, holidays="DE")
    yield Scheduler(store, planner)
    store.close()


@pytest.fixture(scope="module")
def answer(scheduler: Scheduler) -> Answer:
    return answers_of(scheduler)


@pytest.fixture(scope="module")
def ids(scheduler: Scheduler) -> dict[str, str]:
    """Return the ids of the tasks that the calls name."""
    one = scheduler.schedule("Task one", when="tomorrow 9am").record.task.id
    daily = scheduler.schedule("Every day", repeat="daily at 9:00").record.task.id
    ended = scheduler.schedule("Ended", when="tomorrow 9am").record.task.id
    scheduler.cancel(ended)
    return {"ONE": one, "DAILY": daily, "ENDED": ended, "t_7k3m9qx2w4hb": daily}


def _filled(given: Any, ids: dict[str, str]) -> Any:
    if isinstance(given, dict):
        return {name: _filled(value, ids) for name, value in given.items()}
    if isinstance(given, list):
        return [_filled(value, ids) for value in given]
    return ids.get(given, given) if isinstance(given, str) else given


@pytest.mark.parametrize(
    ("tool", "wrong"), [*WRONG, *(each[:2] for each in CORRECTED)], ids=lambda value: str(value)[:90]
)
def test_an_example_that_is_sent_back_is_accepted(
    scheduler: Scheduler, answer: Answer, ids: dict[str, str], tool: str, wrong: Any
) -> None:
    if wrong.get("task_id") == "FRESH":  # what is sent back changes it
        ids = {**ids, "FRESH": scheduler.schedule("Fresh", when="tomorrow 9am").record.task.id}
    given = _filled({**({"title": "A"} if tool == S else {}), **wrong}, ids)
    accepted, said = answer(tool, given)
    assert not accepted, said
    for again in corrections(tool, given, said):
        other, sent = again[0], _filled(again[1], ids)
        trial = {"dry_run": True} if other in {S, R} else {}
        accepted, then = answer(other, {**sent, **trial})
        assert accepted, f"{said}\n  sent back: {sent}\n  answer: {then}"


MEANT = [
    *CORRECTED,
    (
        S,
        {"wait_for": {"topic": "paid", "for": "2 days", "else": "continue"}},
        "wait_for={'event': 'paid', 'timeout': '2 days', 'on_timeout': 'run'}",
    ),
    (S, {"wait_for": {"event": "f", "on_timeout": "fail"}}, "wait_for={'event': 'f', 'on_timeout': 'expire'}"),
    (S, {"wait_for": {"event": "f", "on_timeout": "proceed"}}, "wait_for={'event': 'f', 'on_timeout': 'run'}"),
    (S, {"wait_for": {"event": "f", "within": "2 hours"}}, "wait_for={'event': 'f', 'timeout': '2 hours'}"),
    (S, {"wait_for": {"event": "f", "surplus": 1}}, "wait_for={'event': 'f'}"),
    (
        S,
        {"approval": {"question": "Send?", "deadline": "noon", "on_timeout": "reject"}},
        "approval={'question': 'Send?', 'by': 'noon', 'default': 'reject'}",
    ),
    (
        S,
        {"when": "tomorrow", "approval": {"qestion": "Send?", "defalt": "approve", "by": "2 hours"}},
        "approval={'question': 'Send?', 'default': 'approve', 'by': '2 hours'}",
    ),
    (
        S,
        {"wait_for": {"any": [{"evnt": "paid"}, {"event": "x"}]}},
        "wait_for={'any': [{'event': 'paid'}, {'event': 'x'}]}",
    ),
    (
        S,
        {"when": "tomorrow", "expect": {"urll": "https://example.com/x"}},
        "expect={'url': 'https://example.com/x'}",
    ),
    (
        S,
        {"when": "tomorrow", "on_failure": {"run": {"action": "reminder", "payloads": {"message": "Look"}}}},
        "on_failure={'run': {'action': 'reminder', 'payload': {'message': 'Look'}}}",
    ),
    (S, {"when": "tomorrow", "on_failure": {"teir": "high"}}, "on_failure={'tier': 'high'}"),
    (
        S,
        {"when": "tomorrow", "retry": {"max_atempts": 4, "backof": "10 minutes"}},
        "retry={'max_attempts': 4, 'backoff_seconds': 600}",
    ),
    (S, {"when": "tomorrow", "prio": "high"}, "priority='high'"),
    (
        S,
        {"when": "tomorrow between 9 and 11 New York time", "timezone": "Europe/Berlin"},
        "when='tomorrow at 9:00', deadline='2 hours', timezone='America/New_York'",
    ),
    (
        S,
        {"when": "tomorrow between 9 and 11 CET"},
        "when='tomorrow at 9:00', deadline='2 hours', timezone='Europe/Paris'",
    ),
    (
        S,
        {"steps": [{"name": "a", "repeat": "daily at 9"}, {"name": "b", "after": ["a"]}]},
        "repeat='daily at 9', steps=[{'name': 'a'}, {'name': 'b', 'after': ['a']}]",
    ),
    (
        S,
        {"repeat": "daily at 8", "steps": [{"name": "a", "repeat": "daily at 9"}, {"name": "b", "after": ["a"]}]},
        "steps=[{'name': 'a'}, {'name': 'b', 'after': ['a']}]",
    ),
    (S, {"approval": {"message": "Send?"}}, "approval={'question': 'Send?'}"),
    (
        S,
        {"approval": {"question": "Send?", "by": "3/12"}},
        "approval={'question': 'Send?', 'by': '3 december'} or approval={'question': 'Send?', 'by': '12 march'}",
    ),
    (
        S,
        {"when": "tomorrow", "steps": [{"name": "import a"}, {"name": "report", "after": ["import a"]}]},
        "steps=[{'name': 'import-a'}, {'name': 'report', 'after': ['import-a']}]",
    ),
    (
        S,
        {"when": "tomorrow", "steps": [{"title": "One"}, {"title": "Two"}]},
        "steps=[{'name': 'step-1', 'title': 'One'}, {'name': 'step-2', 'title': 'Two'}]",
    ),
    (S, {"steps": [{"name": "a", "wait_for": "paid"}]}, "steps=[{'name': 'a', 'wait_for': {'event': 'paid'}}]"),
    (
        S,
        {"when": "tomorrow", "steps": [{"name": "a", "retry": "3 tries, mondays"}]},
        "steps=[{'name': 'a', 'retry': {'max_attempts': 3}}]",
    ),
    (
        S,
        {"when": "tomorrow", "steps": [{"name": "a", "needs": {"key:x": "1"}}]},
        "steps=[{'name': 'a', 'needs': {'key:x': 1}}]",
    ),
    (
        S,
        {"repeat": "daily at 9 until friday", "until": "tuesday"},
        "repeat='every day at 09:00', until='2026-11-25 09:00'",
    ),
    ("send_event", {"event": "order.paid"}, "name='order.paid'"),
    (A, {"task_id": "ONE", "action": "snooze", "until": "today"}, "until='2026-11-26 9am'"),
    (A, {"task_id": "ONE", "action": "snooze", "until": "yesterday"}, "until='2026-11-26 9am'"),
    (R, {"task_id": "ONE", "remove": ["labels"], "labels": ["a"]}, "remove=null"),
    (R, {"task_id": "ONE", "remove": ["labels", "needs"], "labels": ["a"]}, "remove=['needs']"),
    (S, {"repeat": "every friday at 18:00", "until": "10 times"}, "max_runs=10, until=null"),
    (S, {"repeat": "every friday at 18:00", "until": "yesterday"}, "until='2026-12-27'"),
    (S, {"repeat": "every monday at 9 starting february"}, "repeat='every monday at 9', when='2027-02-01'"),
    (S, {"repeat": "every 2 weeks starting tomorrow"}, "repeat='every 2 weeks', when='tomorrow'"),
    (
        S,
        {"repeat": "every 2 days except 27 december at 9"},
        "repeat='every 2 days at 9', repeat_policy={'except': ['2026-12-27']}",
    ),
    (
        S,
        {"repeat": "every day at 9 except 2026-12-24 and 2026-12-25"},
        "repeat='every day at 9', repeat_policy={'except': ['2026-12-24', '2026-12-25']}",
    ),
    (
        S,
        {"repeat": "every weekday at 9 except the first of the month"},
        "repeat='every weekday at 9', repeat_policy={'except': ['2026-12-01', '2027-01-01']}",
    ),
    (
        S,
        {"repeat": "every day except the 30th of each month at 9"},
        "repeat='every day at 9', repeat_policy={'except': ['2026-11-30', '2026-12-30']}",
    ),
    (S, {"title": "", "when": "tomorrow"}, "title='Call John'"),
    (
        S,
        {"action": "webhook", "payload": "x"},
        "payload={'url': 'https://example.com/hook', 'method': 'POST'}",
    ),
    (S, {"repeat": "every weekday until 17:00"}, "repeat='every weekday every hour from 9:00 to 17:00'"),
    (S, {"repeat": "FREQ=MONTHLY;BYYEARDAY=3"}, "repeat='FREQ=WEEKLY;BYDAY=MO,WE;BYHOUR=9;BYMINUTE=0'"),
    (S, {"when": "cob friday"}, "when='at 17:00 friday'"),
    (S, {".": {"when": "tomorrow"}}, "when='tomorrow'"),
    (S, {"[]": {"when": "tomorrow"}}, "when='tomorrow'"),
    (S, {"when": "mid december"}, "when='december 15'"),
    (S, {"when": "same day next week"}, "when='same time next week'"),
    (
        S,
        {"repeat": "daily", "approval": {"question": "Pay?", "by": "tomorrow"}},
        "approval={'question': 'Pay?', 'by': '2 hours'}",
    ),
    (S, {"when": "tomorrow", "approval": {"default": "approve"}}, "approval={'default': 'approve', 'by': '2 hours'}"),
    (
        S,
        {"when": "tomorrow", "wait_for": {"event": "paid", "or_when": True, "timeout": "2 days"}},
        "wait_for={'event': 'paid', 'or_when': true}",
    ),
    (S, {"wait_for": {"event": "a b", "timeout": "2 days"}}, "wait_for={'event': 'a.b', 'timeout': '2 days'}"),
    (S, {"wait_for": {"any": ["a", "b"]}}, "wait_for={'any': [{'event': 'a'}, {'event': 'b'}]}"),
    (
        S,
        {"when": "tomorrow", "steps": [{"name": "a"}, {"name": "b", "after": ["aa"]}]},
        "steps=[{'name': 'a'}, {'name': 'b', 'after': ['a']}]",
    ),
    (S, {"when": "tomorrow", "needs": "gpu"}, "needs={'key:customer-42': 1}"),
    *(
        (S, {"when": "tomorrow", "needs": said}, f"needs={ {'key:a': units}!r}")
        for said, units in (("key:a", 1), ("key:a=2", 1), (["key:a"], 1), ({"key:a": "one"}, 1), ("1 key:a", 1))
    ),
    (S, {"when": "tomorrow", "needs": ["key:a", {"pool": "key:b"}]}, "needs={'key:a': 1, 'key:b': 1}"),
    (S, {"when": "tomorrow", "labels": {"team": "x", "urgent": True}}, "labels=['team=x', 'urgent']"),
    (S, {"when": "tomorrow", "labels": [{"team": ["x", "y"]}, 7]}, "labels=['team=x', 'team=y', '7']"),
    (
        S,
        {"when": "tomorrow", "steps": [{"name": "a", "needs": "key:a", "labels": {"team": "x"}}]},
        "steps=[{'name': 'a', 'needs': {'key:a': 1}, 'labels': ['team=x']}]",
    ),
    (S, {"wait_for": {"event": "a", "match": "order.id=8"}}, "wait_for={'event': 'a', 'match': {'order.id': 8}}"),
    (S, {"wait_for": {"event": "a", "match": [{"order": "x"}]}}, "wait_for={'event': 'a', 'match': {'order': 'x'}}"),
    (S, {"at": "tomorrow"}, "when='tomorrow'"),
    (R, {"task_id": "ONE", "when": "17:45", "all_following": True}, "when='17:45', all_following=false"),
    (
        A,
        {"task_id": "ONE", "action": "snooze", "minutes": 5, "until": "friday"},
        "minutes=5, until=null or until='friday', minutes=null",
    ),
    (C, {"change": "cancel", "query": "one", "undo": "u_b7"}, "undo=null or change='undo', undo='u_b7'"),
    (
        C,
        {"change": "cancel", "query": "one", "to": "friday"},
        "change='move', to='friday' or change='cancel', to=null",
    ),
    (
        S,
        {"repeat": "daily at 9 and 17", "approval": {"question": "Pay?", "by": "18:30"}},
        "approval={'question': 'Pay?', 'by': '1 h 30 min'}",
    ),
    (
        R,
        {"task_id": "DAILY", "approval": {"question": "Pay?", "by": "12:00"}},
        "approval={'question': 'Pay?', 'by': '3 h'}",
    ),
    (
        S,
        {"repeat": "daily at 9", "steps": [{"name": "a", "approval": {"question": "Pay?", "by": "12:00"}}]},
        "steps=[{'name': 'a', 'approval': {'question': 'Pay?', 'by': '3 h'}}]",
    ),
    (S, {"repeat": "daily at 9 and 17", "deadline": "11:00", "steps": [{"name": "a"}]}, "deadline='2 h'"),
    *((S, {"delay": delay}, "when='now'") for delay in (0, 0.001, 0.5, "0.5 s")),
    (S, {"when": "0.5 s ago"}, "when='now'"),
    (S, {"delay": 1.5}, "when='in 1.5 seconds'"),
    (S, {"steps": [{"name": "a", "delay": 0.5}]}, "steps=[{'name': 'a', 'when': 'now'}]"),
    (R, {"task_id": "ONE", "postpone": 30}, "when='tomorrow 9am'"),
    (C, {"change": "move", "by": "1 hour"}, "to='1 hour later'"),
    (C, {"change": "move", "postpone": "1 hour"}, "to='1 hour later'"),
    (R, {"task_id": "ONE", "by": "1 hour"}, "when='1 hour later'"),
    (R, {"task_id": "ONE", "when": "tomorrow", "by": "1 hour"}, "deadline='1 hour'"),
    (R, {"task_id": "DAILY", "catchup": "1 hour"}, "repeat_policy={'catchup_window': '1 hour'}"),
    (C, {"change": "undo", "undo": ["u_b7"]}, "undo='u_b7'"),
    (C, {"change": "undo", "undo": {"token": "u_b7"}}, "undo='u_b7'"),
    (C, {"change": "cancel", "task_ids": "t_a, t_b"}, "task_ids=['t_a', 't_b']"),
]


@pytest.mark.parametrize(("tool", "wrong", "example"), MEANT, ids=lambda value: str(value)[:60])
def test_an_example_keeps_what_was_meant(
    answer: Answer, ids: dict[str, str], tool: str, wrong: dict[str, Any], example: str
) -> None:
    _, said = answer(tool, _filled({**({"title": "A"} if tool == S else {}), **wrong}, ids))
    assert said.splitlines()[0].endswith(f"Example: {example}")


def test_an_example_that_is_refused_leaves_the_other_readings(answer: Answer) -> None:
    """The first of December is before the series begins, which is known only where `when` is corrected as well."""
    _, said = answer(S, {"title": "A", "repeat": "every monday", "when": "2/12", "until": "1/12"})
    assert said.endswith("Example: until='12 january'")


MISTAKES: dict[str, Any] = {
    "when": "12/5",
    "timezone": "Berlin",
    "until": "friday",
    "priority": "urgent!",
    "deadline": "yesterday",
    "estimate": "1 year",
    "needs": "gpu",
    "retry": "often",
    "labels": ["x" * 90],
    "notify": "loudly",
    "deliver_to": ["telegram"],
    "idempotency_key": "{window",
    "max_runs": 3,
    "approval": {"ask": "Pay?", "by": "whenever", "default": "maybe"},
    "wait_for": {"event": "a", "or_when": True, "timeout": "2 days"},
    "new_time": "tomorrow",
}
"""One wrong value for each argument of a reminder that runs once."""

BEFORE_IT: dict[str, Any] = {"after": ["ONE", "t_abcdefghjkmn"], "steps": [{"name": "a b"}]}
"""Wrong values of what links a task to others: mistakes elsewhere are corrected in the calls that these lead to."""

LINK_PAIRS = [
    {"repeat": "every full moon", "after": BEFORE_IT["after"]},
    {"repeat": "daily", "after": BEFORE_IT["after"]},
    {"until": "friday", "after": "t_1, t_2"},
    {"after": "t_1, t_2", "steps": [{"name": "a", "priority": "urgent!"}]},
    {"after": BEFORE_IT["after"], "steps": [{"name": "a"}, {"name": "b", "after": ["aa"]}]},
    {"action": "remainder", "payload": "x"},
    BEFORE_IT,
    *(
        {name: value, link: wrong}
        for link, wrong in BEFORE_IT.items()
        for name, value in Random(11).sample([*MISTAKES.items()], 4)
    ),
]

WATCH_MISTAKES = {"until": "whenever", "condition": "status == shipped", "every": "10 s", "url": "http://127.0.0.1/x"}
PAIRS = [
    *({"when": "tomorrow", **dict(pair)} for pair in Random(7).sample([*combinations(MISTAKES.items(), 2)], 24)),
    *({"action": "watch", "payload": {**WATCH, **dict(pair)}} for pair in combinations(WATCH_MISTAKES.items(), 2)),
    *({"when": "tomorrow", **pair} for pair in LINK_PAIRS),
]


@pytest.mark.parametrize("wrong", PAIRS, ids=lambda value: str(value)[:90])
def test_the_examples_of_two_wrong_arguments_are_accepted_together(
    answer: Answer, ids: dict[str, str], wrong: dict[str, Any]
) -> None:
    given = _filled({"title": "A", **wrong}, ids)
    accepted, said = answer(S, given)
    assert not accepted
    for tool, sent in corrections(S, given, said):
        accepted, then = answer(tool, {**sent, "dry_run": True})
        assert accepted, f"{said}\n  sent back: {sent}\n  answer: {then}"


@pytest.mark.parametrize("around", [" {} ", "{}\n", "\t{}"])
def test_spaces_around_an_id_are_none_of_it(answer: Answer, ids: dict[str, str], around: str) -> None:
    for tool, more in (("get_task", {}), ("reschedule_task", {"when": "in 3 hours", "dry_run": True})):
        ok, said = answer(tool, {"task_id": around.format(ids["ONE"]), **more})
        assert ok, said


def test_ids_of_tasks_with_commas_between_are_a_list_of_them(
    scheduler: Scheduler, answer: Answer, ids: dict[str, str]
) -> None:
    unknown = f"{ids['ONE'][:-1]}{'1' if ids['ONE'].endswith('0') else '0'}"
    accepted, said = answer(S, {"title": "Behind both", "after": f"{ids['ONE']}, {unknown}"})
    assert not accepted
    assert said.startswith(f"after: there is no task '{unknown}'.")
    other = scheduler.schedule("Task two", when="tomorrow 9am").record.task.id
    accepted, said = answer(S, {"title": "Behind both", "after": f"{ids['ONE']}, {other}"})
    assert accepted, said


def test_a_pool_that_is_declared_is_the_example_of_needs() -> None:
    needs = schedule_task(REMINDER, ("gpu", "key:")).read().table["needs"]
    assert needs.example == "needs={'gpu': 1}"


def test_several_problems_of_one_argument_are_corrected_together(answer: Answer) -> None:
    payload = {**WATCH, "url": "http://127.0.0.1/x", "every": "60 days", "until": "90 days"}
    _, said = answer(S, {"title": "A", "action": "watch", "payload": payload})
    right = {**payload, "url": "https://example.com/hook", "every": "30 d"}
    assert said.splitlines()[-1].endswith(f"Example: payload={right!r}")


def test_a_long_argument_is_corrected_by_the_path_of_its_part(answer: Answer) -> None:
    payload = {"url": "http://127.0.0.1/x", "method": "POST", "body": "x" * 300}
    _, said = answer(S, {"title": "A", "action": "webhook", "payload": payload})
    assert said.endswith("Example: payload.url='https://example.com/hook'")


def test_a_credential_in_an_argument_is_not_repeated(answer: Answer) -> None:
    payload = {"url": "http://127.0.0.1/x", "body": {"passphrase": "blue lamp"}, "method": "POST"}
    _, said = answer(S, {"title": "A", "action": "webhook", "payload": payload})
    assert "blue lamp" not in said
    assert said.endswith("Example: payload.url='https://example.com/hook'")


def test_a_skip_of_several_occurrences_names_the_one_call_that_passes_over_them(
    answer: Answer, ids: dict[str, str]
) -> None:
    _, said = answer(R, {"task_id": ids["DAILY"], "skip_next": "next week"})
    assert "pause_until='monday 9am' passes over all before that time. Example: skip_next=true" in said
    accepted, said = answer(R, {"task_id": ids["DAILY"], "pause_until": "monday 9am", "dry_run": True})
    assert accepted
    assert "Paused until Mon 30 Nov 2026 09:00" in said


def test_the_name_of_an_argument_of_another_tool_is_no_slip(answer: Answer) -> None:
    _, said = answer(S, {"title": "A", "when": "tomorrow", "state": "open"})
    assert said.startswith("state: schedule_task has no such argument. Accepted: title, when, ")
    assert said.endswith(" Example: state=null")


@pytest.mark.parametrize(
    "given", [{"all_following": True}, {"timezone": "Asia/Tokyo"}], ids=lambda given: next(iter(given))
)
def test_an_argument_that_no_recurring_chain_has_is_refused_without_an_example_that_would_change_it(
    scheduler: Scheduler, answer: Answer, given: dict[str, Any]
) -> None:
    chain_id = scheduler.schedule("Report", repeat="daily at 9:00", steps=[{"name": "a"}]).record.task.id
    accepted, said = answer(R, {"task_id": chain_id, **given})
    assert not accepted
    assert said.startswith(f"{next(iter(given))}: a chain that recurs ")
    assert "Example" not in said


def test_too_many_steps_are_refused_without_an_example_that_would_leave_some_out(answer: Answer) -> None:
    accepted, said = answer(S, {"title": "A", "steps": [{"name": f"s{number}"} for number in range(51)]})
    assert not accepted
    assert said.endswith("at most 50 in a call; the others in another one, whose `after` has the id of this chain.")


@pytest.mark.parametrize(("tool", "given"), [(C, {"change": "undo"}), (A, {"task_id": "CHAIN", "action": "undo"})])
def test_an_undo_without_its_token_has_no_example_that_would_be_refused(
    scheduler: Scheduler, answer: Answer, tool: str, given: dict[str, Any]
) -> None:
    chain = scheduler.schedule("Two", when="tomorrow", steps=[{"name": "a"}, {"name": "b"}]).chain
    accepted, said = answer(
        tool, {name: chain.id if chain and value == "CHAIN" else value for name, value in given.items()}
    )
    assert not accepted
    assert "Example" not in said
    assert re.search(r"Accepted: the `undo` in (the answer to the change|that answer)\.", said)


def test_an_undo_takes_no_length(answer: Answer, ids: dict[str, str]) -> None:
    accepted, said = answer(A, {"task_id": ids["ONE"], "action": "undo", "undo": "u_1", "minutes": 5})
    assert not accepted
    assert said == "minutes: undo takes no minutes. Accepted: action='undo' with undo. Example: minutes=null"


def test_two_numbers_of_runs_that_agree_are_one_end(answer: Answer) -> None:
    given = {"title": "A", "repeat": "daily at 9:00 5 times", "max_runs": 5, "dry_run": True}
    accepted, said = answer(S, given)
    assert accepted, said


def test_an_end_that_never_comes_is_none(answer: Answer) -> None:
    accepted, said = answer(S, {"title": "A", "repeat": "daily at 9", "until": "never", "dry_run": True})
    assert accepted, said


def test_a_cancelled_task_is_not_said_to_run_again(scheduler: Scheduler, answer: Answer) -> None:
    gone = scheduler.schedule("Gone", when="tomorrow 9am").record.task.id
    scheduler.cancel(gone)
    _, said = answer(R, {"task_id": gone, "priority": "high"})
    assert said.endswith("Schedule a new task with schedule_task.")


def test_refusals_say_what_a_user_can_understand(scheduler: Scheduler, answer: Answer) -> None:
    gone = scheduler.schedule("Gone too", when="tomorrow 9am").record.task.id
    scheduler.cancel(gone)
    _, said = answer(A, {"task_id": gone, "action": "undo", "undo": "nonsense"})
    assert said.startswith("undo: 'nonsense' is not an undo token.")
    _, said = answer(C, {"change": "cancel", "query": "one", "to": "friday"})
    assert said.startswith("to: cancel is neither a move nor a pause.")
    _, said = answer(S, {"title": "A", "when": "tomorrow", "approval": 7})
    assert said.startswith("approval: a number is not a question.")


def test_no_as_an_approval_asks_nothing(scheduler: Scheduler, answer: Answer) -> None:
    accepted, said = answer(S, {"title": "A quiet one", "when": "tomorrow", "approval": "no"})
    assert accepted
    assert "approval" not in said


def test_the_head_of_a_list_says_how_many_of_its_tasks_are_paused(scheduler: Scheduler, answer: Answer) -> None:
    made = [scheduler.schedule(title, when="tomorrow 9am") for title in ("Zebra one", "Zebra two")]
    scheduler.reschedule(made[-1].record.task.id, pause=True)
    _, said = answer("list_tasks", {"query": "zebra"})
    assert said.splitlines()[0] == "2 scheduled, of which 1 paused."
    scheduler.schedule("Zebra three", when="in 3 days")
    _, said = answer("list_tasks", {"query": "zebra", "limit": 2})
    assert said.splitlines()[0] == "3 scheduled, of which at least 1 paused."


@pytest.mark.parametrize(
    ("action", "payload", "example"),
    [
        ("webhook", {"url": "https://example.com"}, "payload={'url': 'https://example.com/hook', 'method': 'POST'}"),
        ("reminder", {}, "payload={'message': 'Bring the contract'}"),
    ],
)
def test_a_payload_that_is_no_object_is_answered_with_one_of_the_action_of_the_task(
    scheduler: Scheduler, answer: Answer, action: str, payload: dict[str, Any], example: str
) -> None:
    task_id = scheduler.schedule("A", when="tomorrow", action=action, payload=payload).record.task.id
    for wrong in (7, ["new"]):
        accepted, said = answer(R, {"task_id": task_id, "payload": wrong})
        assert not accepted
        assert said.endswith(f"Example: {example}")
    assert answer(R, {"task_id": task_id, "payload": ast.literal_eval(example.removeprefix("payload="))})[0]


def test_each_argument_that_a_value_removes_is_in_the_example(scheduler: Scheduler, answer: Answer) -> None:
    task_id = scheduler.schedule("A", when="tomorrow", priority="high", deadline="2 hours").record.task.id
    accepted, said = answer(R, {"task_id": task_id, "remove": ["priority", "deadline"]})
    assert not accepted
    assert said.endswith("Example: priority='normal', deadline='none', remove=null")
    assert answer(R, {"task_id": task_id, "priority": "normal", "deadline": "none"})[0]


def test_one_task_that_matches_is_one(scheduler: Scheduler, answer: Answer) -> None:
    scheduler.schedule("Zebra alone", when="tomorrow")
    _, said = answer(C, {"change": "cancel", "query": "zebra alone", "expect": 2})
    assert said.startswith("expect: 1 task matches, not 2 ('Zebra alone'); nothing was changed.")


def test_a_key_is_the_idempotency_key(answer: Answer) -> None:
    _, said = answer(S, {"title": "A", "when": "tomorrow", "key": "k-1"})
    assert said.endswith("Example: idempotency_key='k-1'")


@pytest.mark.parametrize("name", ["key", "idempotency_key"])
def test_a_key_of_an_event_is_its_id(answer: Answer, name: str) -> None:
    accepted, said = answer("send_event", {"name": "paid", name: "pay-8"})
    assert not accepted
    assert said.endswith("Example: event_id='pay-8'")


def test_a_day_that_ends_something_is_said_to_be_read_as_its_end(answer: Answer) -> None:
    _, said = answer(S, {"title": "A", "when": "tomorrow", "deadline": "Freitag", "dry_run": True})
    day = re.search(r"Finish by (\w+ \d+ \w+) 23:59", said)
    assert day
    assert re.search(rf"deadline: read as German: {day[1]} \d{{4}} 23:59", said)
    assert "09:00" not in said.partition("deadline: read as")[2]


def test_a_dry_run_has_no_id_that_a_call_could_take_for_one(scheduler: Scheduler, answer: Answer) -> None:
    tried = scheduler.schedule("Tried", when="tomorrow", dry_run=True).record.task.id
    assert (
        scheduler.schedule("Tried", steps=[{"name": "a", "when": "tomorrow"}], dry_run=True).record.task.id
        == tried
        == DRY_RUN_ID
    )
    accepted, said = answer(R, {"task_id": tried, "title": "Stored"})
    assert not accepted
    assert said == "task_id: no task 'dry-run'. list_tasks shows your tasks and their ids."
