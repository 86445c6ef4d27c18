"""Failed tasks are run again by one call, which previews, guards and undoes; or their letters are discarded."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from duetime.scheduler.calls.bulk_change import Became, BulkResult
from duetime.scheduler.errors import InvalidArgument, Refused
from duetime.scheduler.history.dead_letters import DeadLetterFilter, LettersClosed, LetterState
from duetime.scheduler.outcomes import Done, Failed, Outcome, Retry
from duetime.scheduler.principal import LOCAL, Principal
from duetime.scheduler.rules.time.times import describe, utc
from duetime.scheduler.service.change_notices import ChangeNotices
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.task import State
from duetime.scheduler.views import TaskFilter
from duetime.server.cli.past.dead import closed_lines
from duetime.tools.admin.letter_rows import closed_json
from duetime.widgets.bulk.payload import bulk_part, bulk_payload
from duetime.widgets.bulk.text import bulk_text

from tests.contracts.store.bulk.test_store_bulk import target as target  # noqa: PLC0414 - a fixture
from tests.contracts.store.databases import on_each_database
from tests.contracts.store.series.test_store_series import Desk, day
from tests.flow.tools.calls import settled

HOOKS = TaskFilter(label="hooks")
EVERY = DeadLetterFilter(state=None)


def end(target: Desk, outcome: Outcome) -> None:
    settled(target.store, target.clock(), outcome)


def failed(target: Desk, *titles: str, **given: Any) -> list[str]:
    ids = [target.scheduler.schedule(title, when="now", labels=["hooks"], **given).record.task.id for title in titles]
    end(target, Failed("the CRM is away"))
    return ids


def letters(target: Desk) -> list[LetterState]:
    return [each.state for each in target.scheduler.letters.page(EVERY)[0]]


def states(target: Desk, ids: list[str]) -> list[State]:
    return [target.scheduler.get(task_id).record.run.state for task_id in ids]


def counts(result: BulkResult) -> dict[str, int]:
    return {word.value: count for word, count in result.counts.items()}


@on_each_database
def test_a_replay_by_filter_previews_then_runs_again_what_failed_under_its_key(target: Desk) -> None:
    ids = failed(target, "A", "B")
    target.scheduler.schedule("C", when="tomorrow", labels=["hooks"])
    first = [target.scheduler.get(task_id).record.run.id for task_id in ids]
    looked = target.scheduler.bulk.change("replay", where=HOOKS)
    assert (looked.dry_run, counts(looked)) == (True, {"changed": 2})
    assert "This would replay 2 tasks." in bulk_text(looked)
    with pytest.raises(InvalidArgument, match="2 tasks match, not 3"):
        target.scheduler.bulk.change("replay", where=HOOKS, expect=3)
    assert states(target, ids) == [State.FAILED] * 2

    done = target.scheduler.bulk.change("replay", where=HOOKS, expect=2, reason="the CRM is back")
    assert (counts(done), bulk_text(done).startswith("Replayed 2 tasks.")) == ({"changed": 2}, True)
    assert [target.scheduler.get(task_id).record.run.repeats for task_id in ids] == first
    assert letters(target) == [LetterState.REPLAYED] * 2
    end(target, Done("sent"))
    assert states(target, ids) == [State.SUCCEEDED] * 2
    assert target.scheduler.bulk.change("replay", where=HOOKS).outcomes == ()


def test_an_undo_takes_the_replay_back_and_opens_the_letters_again(target: Desk) -> None:
    ids = failed(target, "A", "B")
    done = target.scheduler.bulk.change("replay", where=HOOKS, expect=2)
    target.scheduler.bulk.change("undo", undo=done.undo)
    assert (states(target, ids), letters(target)) == ([State.FAILED] * 2, [LetterState.OPEN] * 2)
    assert counts(target.scheduler.bulk.change("replay", where=HOOKS, expect=2)) == {"changed": 2}


def test_a_series_that_goes_on_runs_its_last_failure_again_in_a_side_run_and_once(target: Desk) -> None:
    [task_id] = failed(target, "Import", repeat="every hour")
    failure = target.scheduler.get(task_id).record.last_run
    assert failure
    done = target.scheduler.bulk.change("replay", where=HOOKS, expect=1)
    assert (counts(done), letters(target)) == ({"changed": 1}, [LetterState.REPLAYED])
    [beside] = target.store.tasks.get("local", task_id).side_runs
    assert beside.repeats == failure.id
    assert counts(target.scheduler.bulk.change("replay", [task_id])) == {"unchanged": 1}
    target.scheduler.bulk.change("undo", undo=done.undo)
    assert (target.store.tasks.get("local", task_id).side_runs, letters(target)) == ((), [LetterState.OPEN])


def test_a_task_that_failed_again_three_times_is_left_out_unless_it_is_named(target: Desk) -> None:
    [task_id] = failed(target, "A")
    for _ in range(3):
        target.scheduler.bulk.change("replay", where=HOOKS, expect=1)
        end(target, Failed("still away"))
        target.clock.forward(minutes=2)
    held = target.scheduler.bulk.change("replay", where=HOOKS, expect=1)
    assert held.outcomes[0].became is Became.REFUSED
    assert "failed again after 3 replays" in str(held.outcomes[0].why)
    preview = target.scheduler.bulk.change("replay", where=HOOKS)
    looked = bulk_text(preview)
    assert ("This would replay 0 tasks; 1 would refuse it." in looked, "expect=" in looked) == (True, False)
    assert bulk_part(preview, 1).expect is None
    assert counts(target.scheduler.bulk.change("replay", [task_id])) == {"changed": 1}


def test_a_task_that_has_not_failed_is_refused_by_its_id(target: Desk) -> None:
    task_id = target.scheduler.schedule("C", when="tomorrow").record.task.id
    [outcome] = target.scheduler.bulk.change("replay", [task_id]).outcomes
    assert (outcome.became, outcome.why and "has not failed" in outcome.why) == (Became.REFUSED, True)


def test_a_discard_closes_the_letters_and_leaves_the_tasks(target: Desk) -> None:
    ids = failed(target, "A", "B")
    looked = target.scheduler.bulk.change("discard", where=HOOKS)
    assert "This would discard the dead letters of 2 tasks." in bulk_text(looked)
    assert "the same call with expect=2 and a reason." in bulk_text(looked)
    with pytest.raises(InvalidArgument, match="reason"):
        target.scheduler.bulk.change("discard", where=HOOKS, expect=2)
    assert letters(target) == [LetterState.OPEN] * 2

    done = target.scheduler.bulk.change("discard", where=HOOKS, expect=2, reason="sent by hand")
    assert (counts(done), letters(target)) == ({"changed": 2}, [LetterState.DISCARDED] * 2)
    assert f"For 10 min, change_tasks(change='undo', undo='{done.undo}') takes all of it back." in bulk_text(done)
    assert states(target, ids) == [State.FAILED] * 2
    for verb in ("replay", "discard"):
        assert target.scheduler.bulk.change(verb, where=HOOKS).outcomes == ()
    assert counts(target.scheduler.bulk.change("discard", ids, reason="again")) == {"unchanged": 2}


@pytest.mark.parametrize("known_by", [{"idempotency_key": "k"}, {"raw": {"change": "discard"}}])
def test_a_repeated_discard_is_answered_as_the_first_and_closes_nothing_new(
    target: Desk, known_by: dict[str, Any]
) -> None:
    failed(target, "A")
    call: dict[str, Any] = {"where": HOOKS, "expect": 1, "reason": "sent by hand", **known_by}
    first = target.scheduler.bulk.change("discard", **call)
    failed(target, "B")
    again = target.scheduler.bulk.change("discard", **call)
    assert (again.repeated, again.undo, counts(again)) == (True, first.undo, {"changed": 1})
    assert "did this already. Discarded the dead letters of 1 task." in bulk_text(again)
    assert sorted(letters(target)) == [LetterState.DISCARDED, LetterState.OPEN]


def test_a_repeated_undo_of_a_discard_opens_no_letter_again(target: Desk) -> None:
    ids = failed(target, "A", "B")
    done = target.scheduler.bulk.change("discard", ids, reason="sent by hand")
    first = target.scheduler.bulk.change("undo", undo=done.undo, idempotency_key="back")
    target.scheduler.bulk.change("discard", ids, reason="once more")
    again = target.scheduler.bulk.change("undo", undo=done.undo, idempotency_key="back")
    assert (first.repeated, again.repeated, counts(first), counts(again)) == (
        *(False, True),
        *({"changed": 2}, {"changed": 2}),
    )
    assert letters(target) == [LetterState.DISCARDED] * 2


def test_another_tenant_replays_and_discards_nothing_of_this_one(target: Desk, store: Store) -> None:
    ids = failed(target, "A")
    other = Principal("globex", "ann", LOCAL.scopes)
    for verb in ("replay", "discard"):
        assert target.scheduler.bulk.change(verb, where=HOOKS, by=other).outcomes == ()
    assert store.dead_letters.open_runs("globex", ids) == {}
    assert letters(target) == [LetterState.OPEN]


def test_the_replay_of_a_series_says_when_it_failed_that_it_runs_now_and_its_next_time(target: Desk) -> None:
    [task_id] = failed(target, "Sync", repeat="every hour")
    target.clock.forward(minutes=5)
    record = target.scheduler.get(task_id).record
    assert record.last_run is not None
    times = [record.last_run.scheduled_for, target.clock(), record.run.scheduled_for]
    was, now, following = (describe(each, record.task.timezone) for each in times)
    looked = target.scheduler.bulk.change("replay", where=HOOKS)
    assert bulk_text(looked).splitlines()[-1].endswith(f"«Sync» {was} -> {now}, and next {following} (repeats)")
    done = target.scheduler.bulk.change("replay", where=HOOKS, expect=1)
    assert bulk_text(done).splitlines()[-1] == bulk_text(looked).splitlines()[-1]
    [row] = bulk_payload(done).tasks
    assert (row.was, row.side_run_at, row.when) == tuple(map(utc, times))


def test_the_replay_of_a_letter_of_a_series_says_when_the_series_goes_on(target: Desk) -> None:
    [task_id] = failed(target, "Sync", repeat="every hour")
    [letter] = target.scheduler.letters.page(EVERY)[0]
    done = closed_json(target.scheduler.letters.replay([letter.run_id]))
    following = utc(target.scheduler.get(task_id).record.run.scheduled_for)
    assert done["closed"][0]["next"] == following
    assert closed_lines(done, "replayed")[1].endswith(f", in addition to the next run of {task_id}, due {following}.")


def test_a_ready_run_stays_in_the_queue_when_a_failure_is_replayed_next_to_it(target: Desk) -> None:
    task_id = target.schedule(repeat="daily at 9:00")
    assert target.run(day(2, 8), Failed("the CRM is away")) == 1
    target.clock.at = day(3, 8)
    [ready] = target.store.claims.make_ready(limit=9)
    recalled: list[str] = []
    scheduler = Scheduler(target.store, target.scheduler._planner, notices=ChangeNotices(recall=recalled.extend))
    assert counts(scheduler.bulk.change("replay", [task_id])) == {"changed": 1}
    assert (recalled, target.get(task_id).record.run.id) == ([], ready.run_id)
    scheduler.bulk.change("pause", [task_id])
    assert recalled == [ready.run_id]


def as_done(done: LettersClosed, new_run: str = "") -> tuple[Any, ...]:
    """Return what a replay did or would do; a dry run has a placeholder in the place of the `new_run`."""
    skipped = [(each.run_id, each.why.replace("dry-run", new_run)) for each in done.skipped]
    return done.matched, done.held_back, done.left, [each.run_id for each in done.closed], skipped


def test_a_replay_of_letters_by_filter_starts_no_two_runs_of_one_series(target: Desk) -> None:
    [task_id] = failed(target, "Import", repeat="every hour")
    target.clock.forward(hours=1)
    end(target, Failed("still away"))
    tried = target.scheduler.letters.replay(dry_run=True)
    done = target.scheduler.letters.replay(reason="the CRM is back")
    [closed], [left_out] = done.closed, done.skipped
    assert closed.replayed_as
    assert closed_lines(closed_json(tried), "replayed") == [
        "2 match; 1 would be replayed.",
        f"{left_out.run_id} would stay: {left_out.why}".replace(closed.replayed_as, "dry-run"),
    ]
    assert as_done(tried, closed.replayed_as) == as_done(done)
    assert (done.matched, done.left) == (2, 0)
    assert left_out.why == (
        f"run_id: {task_id} has a run that is scheduled ({closed.replayed_as}); "
        "name a dead letter to run it anyway. Read the task as it is now."
    )
    assert [run.id for run in target.store.tasks.get("local", task_id).side_runs] == [closed.replayed_as]
    end(target, Done("sent"))
    assert len(target.scheduler.letters.replay(reason="and the other one").closed) == 1


def test_a_replay_of_letters_by_filter_leaves_out_a_series_whose_run_has_begun_unless_it_is_named(
    target: Desk,
) -> None:
    [task_id] = failed(target, "Import", repeat="every hour")
    [letter] = target.scheduler.letters.page()[0]
    target.clock.forward(hours=1)
    end(target, Retry("busy"))
    assert states(target, [task_id]) == [State.RETRYING]
    tried = target.scheduler.letters.replay(dry_run=True)
    done = target.scheduler.letters.replay(reason="the CRM is back")
    assert as_done(tried) == as_done(done)
    assert (done.closed, [each.run_id for each in done.skipped]) == ((), [letter.run_id])
    assert "has a run that is retrying" in done.skipped[0].why
    assert letters(target) == [LetterState.OPEN]
    assert len(target.scheduler.letters.replay([letter.run_id]).closed) == 1


@on_each_database
@pytest.mark.parametrize("what", ["discard", "move", "rule of a chain"])
def test_of_two_undos_that_read_a_call_at_one_moment_one_takes_it_back_and_the_other_says_so(
    target: Desk, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    ids = failed(target, "A", "B")
    again: Callable[..., object] = partial(target.scheduler.bulk.change, "undo")
    if what == "rule of a chain":
        chain_id = target.scheduler.schedule("C", repeat="daily at 13:00", steps=[{"name": "a"}]).record.task.id
        undo = target.scheduler.reschedule(chain_id, max_runs=9).undo
        again = partial(target.scheduler.act, chain_id, "undo")
    elif what == "discard":
        undo = target.scheduler.bulk.change("discard", ids, reason="too late").undo
    else:
        undo = target.scheduler.bulk.change("move", ids, to="1 day later").undo
    assert undo
    read = target.store.batches.stored("local", undo)
    again(undo=undo)
    after = [target.scheduler.get(task_id).record for task_id in ids]
    monkeypatch.setattr(target.store.batches, "stored", lambda _, token: read if token == undo else [])
    with pytest.raises(Refused, match="this change was taken back already"):
        again(undo=undo)
    assert [target.scheduler.get(task_id).record for task_id in ids] == after
