"""A window that ends in the future lists every occurrence in it, and says where some need the same thing."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from duetime.scheduler.foresight.explainer import Explainer
from duetime.scheduler.handlers import Handler, Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.outcomes import Done
from duetime.scheduler.queue.remote import RemoteQueue
from duetime.scheduler.request import StepArguments
from duetime.scheduler.rules.estimates import Estimate, estimate
from duetime.scheduler.rules.limits.pool import Pool
from duetime.scheduler.rules.recurrence.recurrence import Recurrence
from duetime.scheduler.run_records import Start
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.store.lists import agenda
from duetime.scheduler.task import State
from duetime.scheduler.views import TaskFilter, TaskPage
from duetime.widgets.payload import list_payload
from duetime.widgets.text.list_text import list_text

from tests.builders import LEASE, NOON, Clock, restarted, settlement
from tests.flow.tools.calls import Ask, asked_of

HOUR = timedelta(hours=1)
POOLS = {"gpu": Pool("gpu", capacity=1)}


def learned(_tenant: str, _action: str, own: timedelta | None) -> Estimate:
    return estimate(own, None, 2 * HOUR)


@pytest.fixture
def scheduler(store: Store) -> Scheduler:
    render = Handler(name="render", fn=lambda _ctx: Done("rendered"))
    handlers = Handlers([*Handlers.load(entry_points=False).values(), render])
    planner = Planner(handlers, "UTC", pools=lambda: POOLS)
    explainer = Explainer(store, RemoteQueue(lambda _question: None), lambda: POOLS, learned)
    return Scheduler(store, planner, explainer=explainer)


@pytest.fixture
def ask(scheduler: Scheduler) -> Ask:
    return asked_of(scheduler)


def due(page: TaskPage) -> list[tuple[str, str]]:
    return [(view.record.task.title, f"{view.record.run.scheduled_for:%d %H:%M}") for view in page.views]


def test_a_recurring_task_has_a_row_for_each_occurrence_among_the_others(scheduler: Scheduler) -> None:
    scheduler.schedule("Water", repeat="every 2 hours")
    scheduler.schedule("Call John", when="in 3 hours")
    scheduler.schedule("Tomorrow", when="in 20 hours")
    page = scheduler.tasks.list(before=NOON + 7 * HOUR)
    assert due(page) == [("Water", "24 14:00"), ("Call John", "24 15:00"), ("Water", "24 16:00"), ("Water", "24 18:00")]
    assert [view.expected for view in page.views] == [False, False, True, True]
    assert page.cursor is None
    later = scheduler.tasks.list(after=NOON + 3.5 * HOUR, before=NOON + 7 * HOUR)
    assert due(later) == [("Water", "24 16:00"), ("Water", "24 18:00")]


def test_a_list_without_an_end_to_come_has_each_task_once(scheduler: Scheduler, clock: Clock) -> None:
    scheduler.schedule("Water", repeat="every 2 hours")
    for page in (scheduler.tasks.list(), scheduler.tasks.list(after=NOON)):
        assert due(page) == [("Water", "24 14:00")]
    clock.forward(hours=3)
    assert due(scheduler.tasks.list(before=NOON + 3 * HOUR)) == [("Water", "24 14:00")]
    ended = TaskFilter((State.SUCCEEDED,))
    assert due(scheduler.tasks.list(ended, before=NOON + 9 * HOUR)) == []


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 50])
def test_pages_have_every_occurrence_once_and_then_what_ended(scheduler: Scheduler, limit: int) -> None:
    scheduler.schedule("Water", repeat="every hour")
    scheduler.schedule("Walk", repeat="every 2 hours")
    gone = scheduler.schedule("Gone", when="in 2 hours").record.task.id
    scheduler.cancel(gone)
    found: list[tuple[str, str]] = []
    cursor = None
    while True:
        page = scheduler.tasks.list(before=NOON + 6.5 * HOUR, limit=limit, cursor=cursor)
        assert len(page.views) <= limit
        assert page.counts == {State.SCHEDULED: 2, State.CANCELLED: 1}
        found += due(page)
        cursor = page.cursor
        if cursor is None:
            break
    water = [("Water", f"24 {12 + hour}:00") for hour in range(1, 7)]
    walk = [("Walk", f"24 {12 + hour}:00") for hour in (2, 4, 6)]
    assert sorted(found[:-1], key=lambda each: each[1]) == found[:-1]
    assert sorted(found[:-1]) == sorted([*water, *walk])
    assert found[-1] == ("Gone", "24 14:00")


def test_an_ended_or_paused_task_has_no_more_occurrences(scheduler: Scheduler) -> None:
    scheduler.schedule("Twice", repeat="every hour", max_runs=2)
    scheduler.schedule("Until two", repeat="every hour", until=NOON + 2 * HOUR)
    paused = scheduler.schedule("Paused", repeat="every hour").record.task.id
    scheduler.reschedule(paused, pause=True)
    page = scheduler.tasks.list(before=NOON + 9 * HOUR)
    titles = [title for title, _ in due(page)]
    assert {title: titles.count(title) for title in titles} == {"Twice": 2, "Until two": 2, "Paused": 1}


def test_a_snoozed_outcome_is_an_occurrence_too(scheduler: Scheduler, store: Store, clock: Clock) -> None:
    task = scheduler.schedule("Water", repeat="every 6 hours").record.task.id
    scheduler.act(task, "run_now")
    assert due(scheduler.tasks.list(before=NOON + 7 * HOUR)) == [("Water", "24 12:00"), ("Water", "24 18:00")]


def test_a_minutely_task_costs_no_more_than_a_page(scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(10):
        scheduler.schedule(f"Tick {number}", repeat="every minute")
    asked, after = [0], Recurrence.after

    def counted(rule: Recurrence, instant: Any) -> Any:
        asked[0] += 1
        return after(rule, instant)

    monkeypatch.setattr(Recurrence, "after", counted)
    page = scheduler.tasks.list(before=NOON + 9_000 * HOUR, limit=5)
    assert len(page.views) == 5
    assert page.cursor is not None
    assert asked[0] <= 220
    behind = scheduler.tasks.list(before=NOON + 9_000 * HOUR, limit=5, cursor=page.cursor)
    assert due(behind)[0] not in due(page)


def test_too_many_recurring_tasks_are_said(scheduler: Scheduler, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agenda, "MAX_RECURRING_TASKS", 2)
    for number in range(3):
        scheduler.schedule(f"Tick {number}", repeat="every hour")
    text, page = ask("list_tasks", before="in 150 min")
    assert page["incomplete"] is True
    assert "There are too many recurring tasks" in text
    assert len(page["tasks"]) == 5


def test_occurrences_that_need_the_same_thing_are_named(scheduler: Scheduler, ask: Ask) -> None:
    train = scheduler.schedule("Train", action="render", repeat="every 3 hours", needs={"gpu": 1}).record.task.id
    render = scheduler.schedule("Render", action="render", when="in 4 hours", needs={"gpu": 1}).record.task.id
    text, page = ask("list_tasks", after="now", before="in 8 hours")
    assert [(row["id"], row["when"], row.get("expected")) for row in page["tasks"]] == [
        (train, "2026-11-24T15:00:00Z", None),
        (render, "2026-11-24T16:00:00Z", None),
        (train, "2026-11-24T18:00:00Z", True),
    ]
    assert page["clashes"] == [
        {
            "pool": "gpu",
            "room": "1 slot",
            "at": "2026-11-24T16:00:00Z",
            "occurrences": [
                {"id": train, "when": "2026-11-24T15:00:00Z", "takes": "2 h"},
                {"id": render, "when": "2026-11-24T16:00:00Z", "takes": "2 h"},
            ],
        }
    ]
    assert (
        "Clash Tue 24 Nov 16:00: gpu (1 slot) cannot hold «Train» (Tue 24 Nov 15:00, about 2 h) "
        "and «Render» (about 2 h) together." in text.splitlines()
    )


def test_tasks_within_minutes_that_need_the_same_thing_are_named_in_one_line(scheduler: Scheduler, ask: Ask) -> None:
    for title, minutes in {"A": 240, "B": 240, "C": 243, "D": 245}.items():
        scheduler.schedule(title, action="render", when=f"in {minutes} min", needs={"gpu": 1})
    text, page = ask("list_tasks", after="now", before="in 8 hours")
    [line] = [line for line in text.splitlines() if line.startswith("Clash")]
    assert line.startswith("Clash Tue 24 Nov 16:00: gpu (1 slot) cannot hold «")
    assert line.endswith("«C» (Tue 24 Nov 16:03, about 2 h) and «D» (Tue 24 Nov 16:05, about 2 h) together.")
    assert line.count("about 2 h)") == len(page["clashes"][0]["occurrences"]) == 4


def test_a_shorter_estimate_takes_the_clash_away(scheduler: Scheduler, ask: Ask) -> None:
    scheduler.schedule("Train", action="render", when="in 1 hour", needs={"gpu": 1}, estimate="1 hour")
    scheduler.schedule("Render", action="render", when="in 2 hours", needs={"gpu": 1}, estimate="1 hour")
    assert "clashes" not in ask("list_tasks", after="now", before="in 8 hours")[1]


def test_a_chain_that_recurs_has_the_first_steps_of_each_generation(
    scheduler: Scheduler, store: Store, clock: Clock
) -> None:
    steps: list[StepArguments] = [{"name": "fetch"}, {"name": "load", "after": ["fetch"]}]
    chain_id = scheduler.schedule("Report", repeat="every 2 hours", steps=steps).record.task.id
    fetches = [("Report: fetch", f"24 {hour}:00") for hour in (14, 16, 18)]

    def found() -> list[tuple[str, str]]:
        return [each for each in due(scheduler.tasks.list(before=NOON + 7 * HOUR)) if each[0] == "Report: fetch"]

    assert found() == fetches
    page = scheduler.tasks.list(before=NOON + 7 * HOUR)
    assert {row.repeat for row in list_payload(page).tasks} == {True}
    assert list_text(page).count(f"(step fetch of {chain_id} «Report», repeats)") == 3

    clock.at = NOON + 2 * HOUR
    fetch, _ = scheduler.ends.tasks_of(chain_id)
    store.claims.settle([settlement(restarted(store, store.tasks.get("local", fetch)))])
    assert sorted(found()) == fetches, "its later generations come, whatever step is open"
    paused = scheduler.reschedule(chain_id, pause=True)
    assert found() == fetches[:1]
    scheduler.act(chain_id, "undo", undo=paused.undo)
    scheduler.cancel(chain_id)
    assert found() == fetches[:1]


def test_generations_of_a_chain_end_with_it_and_a_filter_holds_for_them(scheduler: Scheduler) -> None:
    steps: list[StepArguments] = [{"name": "fetch", "labels": ["a"]}, {"name": "mail", "labels": ["b"]}]
    scheduler.schedule("Report", repeat="every 2 hours", max_runs=2, steps=steps)
    assert due(scheduler.tasks.list(TaskFilter(label="a"), before=NOON + 9 * HOUR)) == [
        ("Report: fetch", "24 14:00"),
        ("Report: fetch", "24 16:00"),
    ]


PAUSED_UNTIL_EIGHT: dict[str, tuple[dict[str, Any], list[str]]] = {
    "once": ({"when": "15:00"}, ["20:00"]),
    "later": ({"when": "20:30"}, ["20:30"]),
    "every 2 hours": ({"repeat": "every 2 hours"}, ["20:00", "22:00"]),
    "a chain": ({"repeat": "every 3 hours", "steps": [{"name": "fetch"}]}, ["20:00", "21:00"]),
}


@pytest.mark.parametrize("what", PAUSED_UNTIL_EIGHT)
def test_a_task_that_is_paused_until_a_time_is_listed_when_it_runs(scheduler: Scheduler, what: str) -> None:
    given, coming = PAUSED_UNTIL_EIGHT[what]
    made = scheduler.schedule("Water", **given)
    scheduler.reschedule(made.chain.id if made.chain else made.record.task.id, pause_until="20:00")
    evening = scheduler.tasks.list(after=NOON + 7 * HOUR, before=NOON + 11 * HOUR)
    assert [row.when[11:16] for row in list_payload(evening).tasks] == coming
    assert list_payload(scheduler.tasks.list(before=NOON + 7 * HOUR)).tasks == ()
    assert len(scheduler.tasks.list(after=NOON + 7 * HOUR).views) == 1
    meant = scheduler.bulk.change("cancel", after=NOON + 7 * HOUR, before=NOON + 11 * HOUR)
    assert (meant.dry_run, len(meant.outcomes)) == (True, 1)


@pytest.mark.parametrize("limit", [1, 2, 50])
def test_pages_have_what_is_paused_until_a_time_in_its_place(scheduler: Scheduler, limit: int) -> None:
    scheduler.schedule("Walk", repeat="every 2 hours")
    for number in range(2):
        held = scheduler.schedule(f"Held {number}", repeat="every 2 hours").record.task.id
        scheduler.reschedule(held, pause_until="17:00")
    found: list[str] = []
    cursor = None
    while True:
        page = scheduler.tasks.list(before=NOON + 8.5 * HOUR, limit=limit, cursor=cursor)
        found += [row.when[11:13] for row in list_payload(page).tasks]
        cursor = page.cursor
        if cursor is None:
            break
    assert found == ["14", "16", *["18"] * 3, *["20"] * 3]


def test_a_snoozed_outcome_is_listed_where_the_next_occurrence_is_beyond_the_window(
    scheduler: Scheduler, store: Store, clock: Clock
) -> None:
    task_id = scheduler.schedule("Water", repeat="every friday at 9:00").record.task.id
    scheduler.act(task_id, "run_now")
    assert due(scheduler.tasks.list(before=NOON + HOUR)) == [("Water", "24 12:00")]
    assert due(scheduler.tasks.list(TaskFilter(query="walk"), before=NOON + HOUR)) == []
    scheduler.reschedule(task_id, pause_until="15:00")
    assert scheduler.tasks.list(before=NOON + HOUR).views == ()
    [row] = list_payload(scheduler.tasks.list(before=NOON + 4 * HOUR)).tasks
    assert row.when == "2026-11-24T15:00:00Z"
    scheduler.reschedule(task_id, pause=True)
    assert scheduler.tasks.list(before=NOON + 4 * HOUR).views == ()


def test_a_series_that_was_cancelled_has_none_but_its_run_now(scheduler: Scheduler, store: Store) -> None:
    task_id = scheduler.schedule("Water", repeat="every 2 hours").record.task.id
    scheduler.act(task_id, "run_now")
    store.claims.make_ready(limit=9)
    [now] = store.tasks.get("local", task_id).side_runs
    store.claims.start([Start(now.id)], worker="w1", epoch=None, lease=LEASE)
    scheduler.cancel(task_id)
    rows = list_payload(scheduler.tasks.list(before=NOON + 9 * HOUR)).tasks
    assert [row.when for row in rows if row.expected] == []


def test_a_running_series_that_is_paused_until_a_time_has_the_occurrences_from_then_on(
    scheduler: Scheduler, store: Store, clock: Clock
) -> None:
    task_id = scheduler.schedule("Water", repeat="every 2 hours").record.task.id
    clock.at = NOON + 2 * HOUR
    restarted(store, store.tasks.get("local", task_id))
    scheduler.reschedule(task_id, pause_until="18:00")
    rows = list_payload(scheduler.tasks.list(before=NOON + 9 * HOUR)).tasks
    assert [row.when[11:16] for row in rows] == ["14:00", "18:00", "20:00"]


def test_a_list_without_a_window_says_when_a_task_comes_next_to_its_current_run(scheduler: Scheduler, ask: Ask) -> None:
    task_id = scheduler.schedule("Water", repeat="every friday at 9:00").record.task.id
    assert "its own" not in ask("list_tasks")[0]
    scheduler.act(task_id, "run_now")
    shown = f"{task_id} Tue 24 Nov 12:00 «Water» (repeats; its own next time Fri 27 Nov 09:00)"
    assert shown in ask("list_tasks")[0]
    assert "its own" not in ask("list_tasks", before="in 1 hour")[0]
    scheduler.reschedule(task_id, pause_until="18:00")
    text = ask("list_tasks")[0]
    assert f"{task_id} Tue 24 Nov 18:00 paused until Tue 24 Nov 18:00, «Water» (repeats; its own next time Fri" in text
    assert "The next is due Tue 24 Nov 2026 18:00" in text
    scheduler.reschedule(task_id, pause=True)
    assert "its own" not in ask("list_tasks")[0]


def test_the_headline_names_what_is_due_first_where_an_extra_run_stands_before_it(
    scheduler: Scheduler, ask: Ask
) -> None:
    scheduler.act(scheduler.schedule("Water", repeat="every friday at 9:00").record.task.id, "run_now")
    scheduler.schedule("Call", when="12:30")
    text = ask("list_tasks")[0]
    assert text.index("«Water»") < text.index("«Call»")
    assert "The next is due Tue 24 Nov 2026 12:30" in text
