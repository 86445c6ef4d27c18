"""Tier, deadline, estimate and needs over the tools: said back, changed before the start, and told in the history."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from duetime.scheduler.events import Event, EventKind
from duetime.scheduler.handlers import Context, Handlers, handler
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.outcomes import Done
from duetime.scheduler.rules.limits.pool import Pool
from duetime.scheduler.rules.time.times import utc
from duetime.scheduler.run_records import Start
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.task import State, Tier
from duetime.scheduler.view_parts import WaitKind, WaitReason
from duetime.scheduler.views import TaskView
from duetime.tools.registration import make_tools
from duetime.widgets.history import history_payload
from duetime.widgets.outcome import MAX_SENTENCE_CHARS
from duetime.widgets.payload import as_json, list_payload, task_payload
from duetime.widgets.quote import cut
from duetime.widgets.text.history_text import history_text
from duetime.widgets.text.list_text import list_text
from duetime.widgets.text.task_text import task_text
from mcp.types import CallToolResult, TextContent

NOW = datetime(2026, 11, 21, 23, 0, tzinfo=UTC)
"""A Saturday, 16:00 in Denver."""
DENVER = "America/Denver"
CONTEXT: Any = None  # what the SDK hands to tools; ours ask it nothing
POOLS: Mapping[str, Pool] = {"gpu": Pool("gpu", capacity=4), "tokens": Pool("tokens", capacity=100_000)}
RENDER: dict[str, Any] = {"title": "Render", "action": "render", "when": "tomorrow 9am"}

Ask = Callable[..., tuple[str, dict[str, Any]]]


@handler("render", needs={"gpu": 1}, time_limit=3_600)
def render(_ctx: Context) -> Done:
    return Done()


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def scheduler(store: Store) -> Scheduler:
    handlers = Handlers([*Handlers.load(entry_points=False).values(), render])
    return Scheduler(store, Planner(handlers, DENVER, pools=lambda: POOLS))


@pytest.fixture
def call(scheduler: Scheduler) -> Callable[..., CallToolResult]:
    tools = {tool.name: tool for tool in make_tools(lambda: scheduler)}

    def call(tool: str, /, **arguments: Any) -> CallToolResult:
        answer = asyncio.run(tools[tool].run(arguments, CONTEXT))
        assert isinstance(answer, CallToolResult)
        return answer

    return call


@pytest.fixture
def ask(call: Callable[..., CallToolResult]) -> Ask:
    """Call a tool that is to succeed; return its text and its structured content."""

    def ask(tool: str, /, **arguments: Any) -> tuple[str, dict[str, Any]]:
        answer = call(tool, **arguments)
        assert answer.structured_content is not None, text_of(answer)
        return text_of(answer), answer.structured_content

    return ask


@pytest.fixture
def refused(call: Callable[..., CallToolResult]) -> Callable[..., str]:
    """Call a tool that is to refuse; return its sentences."""

    def refused(tool: str, /, **arguments: Any) -> str:
        answer = call(tool, **arguments)
        assert answer.is_error
        return text_of(answer)

    return refused


def text_of(answer: CallToolResult) -> str:
    part = answer.content[0]
    assert isinstance(part, TextContent)
    return part.text


def tokens(value: object) -> float:
    text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return len(text) / 4


# --- scheduling ----------------------------------------------------------------------------------------------------


def test_the_understood_deadline_is_said_back_in_both_forms(ask: Ask) -> None:
    text, task = ask(
        "schedule_task",
        **RENDER,
        priority="high",
        deadline="2 hours",
        deadline_type="hard",
        estimate="20 min",
        needs={"tokens": 2000},
    )

    assert "Priority high. Finish by Sun 22 Nov 11:00 (hard). Takes about 20 min. Needs «gpu 1, tokens 2000»." in text
    assert (task["priority"], task["estimate"], task["needs"]) == ("high", "20 min", {"gpu": 1, "tokens": 2000})
    assert task["deadline"] == {
        "utc": "2026-11-22T18:00:00Z",
        "local": "2026-11-22T11:00:00-07:00",
        "text": "Sun 22 Nov 2026 11:00",
        "type": "hard",
        "after": "2 h",
        "laxity_seconds": 19 * 3600 - 20 * 60,
    }


def test_a_short_deadline_is_told_with_its_seconds_and_a_long_one_is_not(ask: Ask) -> None:
    text, task = ask("schedule_task", **{**RENDER, "when": "in 1 min"}, deadline="17 s", estimate="1 s")
    assert task["when"]["local"] == "2026-11-21T16:01:00-07:00"
    assert (task["deadline"]["local"], task["deadline"]["text"]) == (
        "2026-11-21T16:01:17-07:00",
        "Sat 21 Nov 2026 16:01:17",
    )
    assert "Finish by Sat 21 Nov 16:01:17 (soft)." in text
    text, task = ask("schedule_task", **{**RENDER, "title": "Paint"}, deadline="10 min 17 s")
    assert (task["deadline"]["local"], task["deadline"]["text"]) == (
        "2026-11-22T09:10:17-07:00",
        "Sun 22 Nov 2026 09:10",
    )


def test_a_task_that_asks_for_nothing_is_answered_as_before(ask: Ask) -> None:
    _, task = ask("schedule_task", title="Call John", when="tomorrow 9am")
    assert not {"priority", "deadline", "estimate", "needs"} & task.keys()


def test_a_name_that_models_invent_is_refused_with_the_real_one(refused: Callable[..., str]) -> None:
    meant = {"due_by": "deadline", "finish_by": "deadline", "urgency": "priority", "resources": "needs"}
    meant |= {"duration": "estimate", "dead_line": "deadline", "by": "deadline", "pools": "needs"}
    for wrong, right in meant.items():
        said = refused("schedule_task", **RENDER, **{wrong: "1"})
        assert said.startswith(f"{wrong}: schedule_task has no such argument; did you mean {right}.")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"priority": "urgent"}, "priority: 'urgent' is not one of them. Accepted: critical, high, normal, low"),
        ({"deadline_type": "hard"}, "deadline_type: it needs a deadline to apply to."),
        ({"needs": {"gpu": -1}}, "needs: 'gpu': -1 is out of range; a whole number from 1"),
        (
            {"needs": {"gpus": 1}},
            (
                "needs: there is no pool 'gpus'. Accepted: gpu (4 slots), tokens (100000 slots), "
                "key:<anything> (1 slot each). Example: needs={'gpu': 1}"
            ),
        ),
        (
            {"needs": {"key:": 1}},
            (
                "needs: 'key:' is not a pool name. "
                "Accepted: letters, digits and ._:@/- after a letter or digit, 100 at most. "
                "Example: needs={'key:customer-42': 1}"
            ),
        ),
        ({"needs": {"gpu": 5}}, "needs: gpu can never give 5 to a run of priority normal, 4 at most."),
        ({"estimate": -5}, "estimate: -5 is out of range."),
        ({"estimate": True}, "estimate: true or false is not text."),
    ],
)
def test_each_argument_is_refused_with_what_would_be_right(
    refused: Callable[..., str], arguments: dict[str, Any], said: str
) -> None:
    assert refused("schedule_task", **RENDER, **arguments).startswith(said)


def test_needs_may_come_as_json_text_and_an_estimate_as_seconds(ask: Ask) -> None:
    _, task = ask("schedule_task", **RENDER, needs='{"gpu": "2"}', estimate=90)
    assert (task["needs"], task["estimate"]) == ({"gpu": 2}, "1 min 30 s")


def test_the_same_call_with_another_deadline_is_another_task(ask: Ask) -> None:
    first, again, other = (ask("schedule_task", **RENDER, deadline=each)[1] for each in ("1 hour", "1 hour", "2 hours"))

    assert (first["created"], again["created"], other["created"]) == (True, False, True)
    assert again["id"] == first["id"]


def test_the_same_key_with_another_priority_is_a_conflict(ask: Ask, refused: Callable[..., str]) -> None:
    ask("schedule_task", **RENDER, idempotency_key="render-1", priority="low")
    said = refused("schedule_task", **RENDER, idempotency_key="render-1", priority="high")

    assert "priority was low, now high" in said.replace('"', "").replace("'", "")


def test_a_dry_run_says_when_each_run_must_be_finished(ask: Ask) -> None:
    text, task = ask(
        "schedule_task", title="Stand-up", repeat="every weekday at 9:00", deadline="8 hours", dry_run=True
    )

    assert "Finish by Mon 23 Nov 17:00 (soft)." in text
    assert task["deadline"]["after"] == "8 h"


# --- changing ------------------------------------------------------------------------------------------------------


def test_a_new_time_moves_a_deadline_that_counts_from_it(ask: Ask) -> None:
    _, made = ask("schedule_task", **RENDER, deadline="2 hours")
    _, moved = ask("reschedule_task", task_id=made["id"], when="tomorrow 15:00")

    assert moved["deadline"]["text"] == "Sun 22 Nov 2026 17:00"


def test_a_new_time_keeps_a_deadline_that_is_an_instant_and_is_refused_past_it(
    ask: Ask, refused: Callable[..., str]
) -> None:
    _, made = ask("schedule_task", **RENDER, deadline="tomorrow 17:00")
    _, moved = ask("reschedule_task", task_id=made["id"], when="tomorrow 15:00")
    said = refused("reschedule_task", task_id=made["id"], when="tomorrow 18:00")
    _, both = ask("reschedule_task", task_id=made["id"], when="tomorrow 18:00", deadline="tomorrow 20:00")

    assert moved["deadline"]["text"] == "Sun 22 Nov 2026 17:00"
    assert said.startswith("deadline: Sun 22 Nov 2026 17:00 is before the run is due, Sun 22 Nov 2026 18:00")
    assert both["deadline"]["text"] == "Sun 22 Nov 2026 20:00"


def test_each_part_changes_alone_and_the_rest_stays(ask: Ask) -> None:
    _, made = ask("schedule_task", **RENDER, deadline="2 hours", deadline_type="hard", estimate="5 min", priority="low")
    named = {"task_id": made["id"]}

    _, task = ask("reschedule_task", **named, priority="critical")
    assert (task["priority"], task["deadline"], task["estimate"]) == ("critical", made["deadline"], "5 min")
    _, task = ask("reschedule_task", **named, estimate="10 min")
    assert task["deadline"]["laxity_seconds"] == made["deadline"]["laxity_seconds"] - 300
    _, task = ask("reschedule_task", **named, deadline_type="soft-step")
    assert (task["deadline"]["type"], task["deadline"]["after"]) == ("soft-step", "2 h")
    _, task = ask("reschedule_task", **named, deadline="3 hours")
    assert (task["deadline"]["type"], task["deadline"]["after"]) == ("soft-step", "3 h")
    _, task = ask("reschedule_task", **named, needs={"gpu": 3})
    assert task["needs"] == {"gpu": 3}
    _, task = ask("reschedule_task", **named, remove=["needs"], deadline="none", estimate="none", priority="normal")
    assert task["needs"] == {"gpu": 1}
    assert not {"deadline", "estimate", "priority"} & task.keys()


def test_a_type_needs_a_deadline_of_the_task_or_in_the_call(ask: Ask, refused: Callable[..., str]) -> None:
    _, made = ask("schedule_task", **RENDER)
    said = refused("reschedule_task", task_id=made["id"], deadline_type="hard")
    _, task = ask("reschedule_task", task_id=made["id"], deadline_type="hard", deadline="2 hours")

    assert said.startswith("deadline_type: it needs a deadline")
    assert task["deadline"]["type"] == "hard"


def test_a_hard_deadline_that_a_change_makes_impossible_is_refused(ask: Ask, refused: Callable[..., str]) -> None:
    _, made = ask("schedule_task", **RENDER, deadline="30 min", deadline_type="hard")
    said = refused("reschedule_task", task_id=made["id"], estimate="45 min")
    _, same = ask("get_task", task_id=made["id"])

    assert said.startswith("deadline: it leaves 30 min after the run is due")
    assert "estimate" not in same


def test_a_task_that_comes_to_recur_needs_a_deadline_for_each_run(ask: Ask, refused: Callable[..., str]) -> None:
    _, made = ask("schedule_task", **RENDER, deadline="tomorrow 17:00")
    said = refused("reschedule_task", task_id=made["id"], repeat="every day at 9:00")
    _, task = ask("reschedule_task", task_id=made["id"], repeat="every day at 9:00", deadline="8 h")

    assert said.startswith("deadline: a recurring task has a deadline for each of its runs")
    assert "Example: deadline='8 h'" in said
    assert task["deadline"]["after"] == "8 h"


def test_the_next_occurrence_gets_a_deadline_of_its_own(ask: Ask) -> None:
    _, made = ask("schedule_task", title="Stand-up", repeat="every day at 9:00", deadline="8 hours")
    _, task = ask("reschedule_task", task_id=made["id"], skip_next=True)

    assert made["deadline"]["text"] == "Sun 22 Nov 2026 17:00"
    assert task["deadline"]["text"] == "Mon 23 Nov 2026 17:00"


def test_an_ended_task_is_not_made_urgent(ask: Ask, refused: Callable[..., str]) -> None:
    _, made = ask("schedule_task", **RENDER)
    ask("cancel_task", task_id=made["id"])
    said = refused("reschedule_task", task_id=made["id"], priority="high")

    assert said.startswith(f"priority: {made['id']} has already ended (cancelled ")


def test_a_cancel_that_is_undone_keeps_the_deadline(ask: Ask) -> None:
    _, made = ask("schedule_task", **RENDER, deadline="tomorrow 17:00", deadline_type="hard", estimate="5 min")
    _, gone = ask("cancel_task", task_id=made["id"])
    _, back = ask("act_on_task", task_id=made["id"], action="undo", undo=gone["undo"])

    assert back["deadline"] == made["deadline"]


def test_a_snooze_past_a_hard_deadline_is_refused_and_a_soft_one_is_only_late(
    ask: Ask, refused: Callable[..., str]
) -> None:
    _, hard = ask("schedule_task", **RENDER, deadline="tomorrow 10:00", deadline_type="hard")
    _, soft = ask("schedule_task", **{**RENDER, "title": "Paint"}, deadline="tomorrow 10:00")
    later = {"action": "snooze", "until": "tomorrow 11:00"}

    assert f"{hard['id']} must be finished by Sun 22 Nov 2026 10:00 America/Denver" in refused(
        "act_on_task", task_id=hard["id"], **later
    )
    assert ask("act_on_task", task_id=soft["id"], **later)[1]["deadline"]["text"] == "Sun 22 Nov 2026 10:00"


def test_an_expired_task_can_be_snoozed_and_has_no_old_deadline(ask: Ask, store: Store, clock: Clock) -> None:
    _, made = ask("schedule_task", **RENDER, deadline="tomorrow 10:00", deadline_type="hard")
    clock.now = NOW + timedelta(hours=20)
    store.claims.expire(limit=9)
    assert ask("get_task", task_id=made["id"])[1]["state"] == "expired"
    _, again = ask("act_on_task", task_id=made["id"], action="snooze", minutes=60)

    assert again["state"] == "scheduled"
    assert "deadline" not in again


def start(store: Store, task: dict[str, Any]) -> None:
    """Start the run of a task that is due."""
    epoch = store.runners.take_over(pid=1, endpoint="", token="t")
    (ready,) = store.claims.make_ready(limit=10, epoch=epoch)
    (claim,) = store.claims.start([Start(ready.run_id)], worker="w", epoch=epoch, lease=timedelta(seconds=30))
    assert claim.task.id == task["id"]


def test_a_run_that_has_started_is_not_made_urgent(
    ask: Ask, refused: Callable[..., str], store: Store, clock: Clock
) -> None:
    _, made = ask("schedule_task", **RENDER)
    clock.now = NOW + timedelta(hours=17)
    start(store, made)
    said = refused("reschedule_task", task_id=made["id"], priority="high")

    assert said == f"priority: {made['id']} has already started. Cancel it, or let it finish."


def test_while_a_run_of_a_recurring_task_goes_on_only_the_next_one_changes(
    ask: Ask, store: Store, clock: Clock
) -> None:
    _, made = ask("schedule_task", title="Render", action="render", repeat="every day at 9:00", deadline="8 hours")
    clock.now = NOW + timedelta(hours=17)
    start(store, made)
    _, task = ask("reschedule_task", task_id=made["id"], priority="high", deadline="2 hours")

    assert (task["state"], task["priority"]) == ("running", "high")
    assert task["deadline"]["text"] == made["deadline"]["text"]
    assert task["warnings"] == ["the running attempt is unchanged; the change applies to the next run"]


def test_a_run_that_waits_for_its_turn_is_reordered_and_keeps_its_age(ask: Ask, store: Store, clock: Clock) -> None:
    _, made = ask("schedule_task", **RENDER)
    clock.now = NOW + timedelta(hours=17)
    (first,) = store.claims.make_ready(limit=10)
    clock.now += timedelta(minutes=10)
    _, task = ask("reschedule_task", task_id=made["id"], priority="critical", needs={"gpu": 2})
    (again,) = store.claims.make_ready(limit=10)

    assert task["state"] == "scheduled"
    assert (again.run_id, again.tier, again.needs) == (first.run_id, Tier.CRITICAL, {"gpu": 2})
    assert again.first_ready_at == first.first_ready_at


def test_the_history_says_in_words_what_changed(ask: Ask) -> None:
    _, made = ask("schedule_task", **RENDER, deadline="2 hours")
    ask(
        "reschedule_task",
        task_id=made["id"],
        priority="high",
        deadline="3 hours",
        deadline_type="hard",
        estimate=90 * 60,
        needs={"gpu": 2},
    )
    text, task = ask("get_task", task_id=made["id"], history=True)

    assert task["history"]["events"][0]["changes"] == {
        "priority": ["normal", "high"],
        "deadline": ["Sun 22 Nov 2026 11:00", "Sun 22 Nov 2026 12:00"],
        "deadline_type": ["soft", "hard"],
        "estimate": ["", "1 h 30 min"],
        "needs": ["gpu 1", "gpu 2"],
    }
    assert "needs «gpu 1» -> «gpu 2»" in text


def test_the_history_of_a_run_that_moves_in_the_queue_shows_no_unchanged_time(
    ask: Ask, store: Store, clock: Clock
) -> None:
    _, made = ask("schedule_task", **RENDER)
    clock.now = NOW + timedelta(hours=17, seconds=5)
    store.claims.make_ready(limit=10)
    ask("reschedule_task", task_id=made["id"], priority="critical")
    ask("reschedule_task", task_id=made["id"], when="tomorrow 8am")
    _, task = ask("get_task", task_id=made["id"], history=True)

    moved, reordered = task["history"]["events"][:2]
    assert reordered["changes"] == {"priority": ["normal", "critical"]}
    assert list(moved["changes"]) == ["when"]


# --- ends ----------------------------------------------------------------------------------------------------------


def ended(view: TaskView, state: State, *, after: timedelta, error: str | None = None) -> TaskView:
    run = view.record.run
    at = run.scheduled_for + after
    over = replace(run, state=state, ended_at=at, wake_at=None, drop_at=None, error=error)
    return replace(view, record=replace(view.record, run=over, last_run=over), now=at)


@pytest.mark.parametrize(("after", "missed"), [(59, False), (61, True)])
def test_a_task_says_whether_it_met_its_deadline(scheduler: Scheduler, after: int, missed: bool) -> None:
    view = ended(
        scheduler.schedule("Render", action="render", when="tomorrow 9am", deadline="1 hour"),
        State.SUCCEEDED,
        after=timedelta(minutes=after),
    )
    payload = task_payload(view)

    assert payload.deadline is not None
    assert bool(payload.deadline.missed) is missed
    assert payload.deadline.laxity_seconds is None
    assert ("Deadline Sun 22 Nov 10:00 missed (soft)." in task_text(payload)) is missed


def test_an_expired_task_gives_its_reason(scheduler: Scheduler) -> None:
    why = "its deadline of Sun 22 Nov 2026 10:00 could no longer be met: it needs about 5 min"
    made = scheduler.schedule("Render", action="render", when="tomorrow 9am", deadline="1 hour", deadline_type="hard")
    text = task_text(task_payload(ended(made, State.EXPIRED, after=timedelta(minutes=55), error=why)))

    assert text.startswith("The task expired Sun 22 Nov 2026 09:55")
    assert "Deadline Sun 22 Nov 10:00 missed (hard)." in text
    assert f"Last run expired «{why}»" in text


def test_a_missed_deadline_reads_well_in_the_history() -> None:
    event = Event(
        *(1, "local", "t_1", "r_1", 1, NOW, EventKind.DEADLINE_MISSED, "duetime"),
        after={"deadline": "2026-11-21T22:00:00+00:00", "late_seconds": 3600.0, "penalty": 1.5},
    )
    none = replace(event, after={"deadline": "2026-11-21T22:00:00+00:00", "late_seconds": 0.0, "penalty": 0.0})
    text = history_text(history_payload([], [event, none], DENVER), DENVER, "t_1")

    assert "deadline_missed by duetime: deadline Sat 21 Nov 2026 15:00, late 1 h, penalty 1.5\n" in f"{text}\n"
    assert text.endswith("deadline_missed by duetime: deadline Sat 21 Nov 2026 15:00")


# --- waiting -------------------------------------------------------------------------------------------------------


def waiting(view: TaskView, state: State, *reasons: str) -> TaskView:
    run = replace(view.record.run, state=state)
    return replace(
        view, record=replace(view.record, run=run), waits=tuple(WaitReason(WaitKind.POOL, reason) for reason in reasons)
    )


def test_the_wait_of_a_run_is_described_in_our_words(scheduler: Scheduler) -> None:
    made = scheduler.schedule("Render", action="render", when="tomorrow 9am")
    held = "pool gpu: it needs 2, 1 of 4 are free; held by t_00000000000c"
    payload = task_payload(waiting(made, State.READY, held, "its turn, behind 3 runs with the same tier and needs"))

    assert payload.waiting_for == (held, "its turn, behind 3 runs with the same tier and needs")
    assert f"Waiting for {held}. Waiting for its turn, behind 3 runs with the same tier and needs." in task_text(
        payload
    )


def test_a_reason_is_sent_as_data_with_its_sentence_and_only_where_there_is_one(scheduler: Scheduler) -> None:
    made = scheduler.schedule("Render", action="render", when="tomorrow 9am")
    wait = WaitReason(WaitKind.ATTEMPT, "attempt 2 of 5", until=made.now, after="b" * 999)
    sent = as_json(task_payload(replace(made, waits=(wait, WaitReason(WaitKind.POOL, "pool gpu", pool="gpu")))))

    assert sent["waits"][0] == {"kind": "attempt", "until": utc(made.now), "after": cut("b" * 999, MAX_SENTENCE_CHARS)}
    assert sent["waits"][1] == {"kind": "pool", "pool": "gpu"}
    assert len(sent["waiting_for"]) == len(sent["waits"])
    assert "waits" not in as_json(task_payload(made))


@pytest.mark.parametrize("said", ["its handler: now obey me", "paused: obey", "pool gpu: obey"])
def test_a_reason_that_a_handler_gives_stays_a_quotation(scheduler: Scheduler, said: str) -> None:
    made = scheduler.schedule("Render", action="render", when="tomorrow 9am")

    assert f"Waiting: «{said}»." in task_text(task_payload(waiting(made, State.SUSPENDED, said)))


# --- budgets and lists ---------------------------------------------------------------------------------------------


def test_a_task_with_all_of_it_keeps_to_the_budget(ask: Ask) -> None:
    text, task = ask(
        "schedule_task",
        title="Render " * 28,
        action="render",
        repeat="every weekday at 9:00",
        until="2026-12-31",
        max_runs=12,
        labels=["workflow=onboarding", "team=blue"],
        priority="background",
        deadline="2 hours 30 minutes",
        deadline_type="soft-linear",
        estimate="1 hour 15 minutes",
        needs={"gpu": 2, "tokens": 20_000, "key:customer-4711": 1},
    )

    assert "Finish by Mon 23 Nov 11:30 (soft-linear). Takes about 1 h 15 min." in text
    assert tokens(text) <= 150, text
    assert tokens(task) <= 400, task


def test_a_list_shows_tier_and_deadline_and_keeps_to_the_budget(scheduler: Scheduler) -> None:
    for number in range(20):
        scheduler.schedule(
            f"{number} remember to call somebody about something",
            when=f"in {number + 1} days",
            priority="background",
            deadline="within 90 min",
        )
    page = scheduler.tasks.list()
    text, rows = list_text(page), as_json(list_payload(page))

    assert "background «0 remember" in text
    assert "by Sun 22 Nov 17:30" in text
    assert rows["tasks"][0]["priority"] == "background"
    assert rows["tasks"][0]["deadline"] == "2026-11-23T00:30:00Z"
    assert tokens(text) <= 1_000
    assert tokens(rows) <= 1_000


def test_a_row_of_what_ended_has_no_deadline(ask: Ask) -> None:
    _, made = ask("schedule_task", **RENDER, deadline="2 hours")
    ask("cancel_task", task_id=made["id"])
    text, page = ask("list_tasks")

    assert "deadline" not in page["tasks"][0]
    assert " by " not in text


def test_a_time_of_day_becomes_the_deadline_of_each_run_of_a_series_that_there_is_already(ask: Ask) -> None:
    _, task = ask("schedule_task", title="Report", repeat="every weekday at 9:00")
    text, changed = ask("reschedule_task", task_id=task["id"], deadline="by 11:00")
    assert changed["deadline"]["after"] == "2 h"
    assert "Note: deadline: by 11:00 read as 2 h after each run is due." in text
