"""Notes of answers carry their kind, by which a card says them in the language of its reader."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.outcomes import Failed
from duetime.scheduler.rules.settlement import settle
from duetime.scheduler.run_records import Start
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.translatable import NoteKind, Translatable, of_step
from duetime.tools.registration import make_tools
from duetime.tools.results import WORDS_META_KEY

from tests.builders import Clock
from tests.flow.tools.calls import CONTEXT

Words = Callable[..., tuple[str, dict[str, Any]]]


@pytest.fixture
def words(store: Store) -> Words:
    """Return a function that calls a tool, and returns the id of its task and its sentences with their kinds."""
    planner = Planner(Handlers.load(entry_points=False), "UTC", upstreams=store.dependencies.known)
    tools = {tool.name: tool for tool in make_tools(lambda: Scheduler(store, planner))}

    def ask(tool: str, **arguments: Any) -> tuple[str, dict[str, Any]]:
        result = asyncio.run(tools[tool].run(arguments, CONTEXT))
        return result.structured_content["id"], (result.meta or {}).get(WORDS_META_KEY, {}).get("sentences", {})

    return ask


def kinds_of(sentences: dict[str, Any]) -> set[str]:
    return {each["kind"] for each in sentences.values()}


def test_a_reminder_that_notifies_nobody_says_so_by_a_kind(words: Words) -> None:
    _, said = words("schedule_task", title="Call", when="in 1 hour", notify="never")
    assert NoteKind.SILENT in kinds_of(said)


def test_the_resume_of_a_task_that_has_ended_says_so_by_a_kind(words: Words, store: Store, clock: Clock) -> None:
    task_id, _ = words("schedule_task", title="Call", when="now")
    ready = [Start(run.run_id) for run in store.claims.make_ready(limit=9)]
    [claim] = store.claims.start(ready, worker="w", epoch=None, lease=timedelta(seconds=30))
    words("reschedule_task", task_id=task_id, pause=True)
    store.claims.settle([settle(claim, Failed("away"), now=clock(), jitter=0.0)])
    _, said = words("reschedule_task", task_id=task_id, pause=False)
    assert NoteKind.HAS_ENDED in kinds_of(said)


def test_the_pause_of_a_series_says_by_kinds_which_runs_it_holds_and_leaves_out(words: Words, clock: Clock) -> None:
    task_id, _ = words("schedule_task", title="Stretch", repeat="every day at 9:00")
    _, said = words("act_on_task", task_id=task_id, action="run_now")
    assert NoteKind.ALSO_RUNS in kinds_of(said)
    _, said = words("reschedule_task", task_id=task_id, pause=True)
    [held] = [each for each in said.values() if each["kind"] == NoteKind.RUN_HELD]
    assert datetime.fromisoformat(held["at"]) - clock() < timedelta(seconds=1)
    words("reschedule_task", task_id=task_id, pause_until=(clock() + timedelta(days=9)).isoformat())
    _, said = words("reschedule_task", task_id=task_id, when=(clock() + timedelta(days=2)).isoformat())
    assert NoteKind.IN_THE_PAUSE in kinds_of(said)


def test_a_move_onto_another_occurrence_says_by_its_kind_that_they_run_as_one(words: Words) -> None:
    task_id, _ = words("schedule_task", title="Stretch", repeat="every day at 9:00")
    _, said = words("reschedule_task", task_id=task_id, when="in 2 days at 9:00")
    assert kinds_of(said) == {NoteKind.AS_ONE}


def test_the_move_of_a_chain_says_by_a_kind_which_generations_it_leaves_out(words: Words) -> None:
    chain, _ = words("schedule_task", title="Nightly", repeat="every day at 2:00", steps=[{"name": "fetch"}])
    _, said = words("reschedule_task", task_id=chain, when="in 3 days")
    [left_out] = [each for each in said.values() if each["kind"] == NoteKind.LEFT_OUT]
    assert [time[11:] for time in left_out["times"]] == ["02:00:00+00:00"] * len(left_out["times"])


def test_a_cancel_that_cannot_be_undone_says_so_by_a_kind(words: Words, store: Store) -> None:
    task_id, _ = words("schedule_task", title="Call", when="now")
    ready = [Start(run.run_id) for run in store.claims.make_ready(limit=9)]
    store.claims.start(ready, worker="w", epoch=None, lease=timedelta(seconds=30))
    _, said = words("cancel_task", task_id=task_id)
    assert NoteKind.FINAL_CANCEL in kinds_of(said)


def test_the_cancel_of_a_task_says_by_a_kind_how_many_others_ended_with_it(words: Words) -> None:
    first, _ = words("schedule_task", title="Fetch", when="in 1 hour")
    for title in ("Sort", "Report"):
        words("schedule_task", title=title, after=[first])
    _, said = words("cancel_task", task_id=first)
    [ended] = [each for each in said.values() if each["kind"] == NoteKind.OTHERS_ENDED]
    assert ended["count"] == "2"


@pytest.mark.parametrize("dry_run", [False, True])
def test_a_change_of_retries_and_payload_says_the_new_values(words: Words, dry_run: bool) -> None:
    hook = {"url": "https://example.com/a", "headers": {"authorization": "s3cret-of-mine"}}
    task_id, _ = words("schedule_task", title="Call", when="in 1 hour", action="webhook", payload=hook)
    payload = {**hook, "url": "https://example.com/b", "method": "PUT", "body": "y\n«z»"}
    retry = {"max_attempts": 3, "backoff": "1 hour"}
    _, said = words("reschedule_task", task_id=task_id, payload=payload, retry=retry, dry_run=dry_run)
    [new] = [each for each in said.values() if each["kind"] == NoteKind.NEW_PAYLOAD]
    assert new["payload"] == '«{"method": "PUT", "body": "y\\n\u2039z\u203a"}»'
    assert {"kind": NoteKind.RETRIED, "count": "3", "pause": "1 h"} in said.values()


def test_a_change_of_what_the_answer_shows_anyway_needs_no_note(words: Words) -> None:
    task_id, _ = words("schedule_task", title="Call", when="in 1 hour", payload={"message": "Ring John"})
    assert words("reschedule_task", task_id=task_id, payload={"message": "Ring Jane"})[1] == {}
    payload = {"url": "https://example.com/a", "changed": True}
    task_id, _ = words("schedule_task", title="Look", when="in 1 hour", action="watch", payload=payload)
    assert words("reschedule_task", task_id=task_id, payload={**payload, "every": "1 hour"})[1] == {}


def test_a_note_on_a_step_keeps_its_kind_and_names_the_step() -> None:
    note = of_step("import", Translatable.of(NoteKind.ALSO_RUNS, "it also runs", at="2026-12-09T14:00:00+00:00"))
    assert isinstance(note, Translatable)
    assert (note, note.kind, note.values["of"]) == ("import: it also runs", NoteKind.ALSO_RUNS, "import")
    assert of_step("import", "as it is") == "import: as it is"
