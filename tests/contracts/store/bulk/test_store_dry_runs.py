"""A dry run does what the change does and stores nothing, so its answer is that of the change."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from itertools import pairwise
from typing import Any, NamedTuple

import pytest
from duetime.scheduler import remedies
from duetime.scheduler.calls.bulk_change import Became
from duetime.scheduler.errors import DuetimeError, Refused, StaleRevision
from duetime.scheduler.events import EventFilter
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.outcomes import Failed, Wait
from duetime.scheduler.service.bulk import bulk_preview
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.task import Run, State
from duetime.scheduler.views import TaskFilter
from duetime.widgets.bulk.payload import bulk_payload
from duetime.widgets.bulk.text import bulk_text

from tests.builders import Clock
from tests.contracts.store.databases import on_each_database
from tests.contracts.store.desk import MORNING, Desk, at

SOON = "in 5 minutes"
Made = Callable[[Desk], str]
STEPS: Any = [{"name": "fetch"}, {"name": "load", "after": ["fetch"]}]


@pytest.fixture
def desk(store: Store, clock: Clock) -> Desk:
    clock.at = MORNING
    planner = Planner(Handlers.load(entry_points=False), "UTC", upstreams=store.dependencies.known)
    return Desk(Scheduler(store, planner), store, clock)


def scheduled(desk: Desk, **given: Any) -> str:
    return desk.scheduler.schedule("Report", **given).record.task.id


def run_of(desk: Desk, task_id: str) -> Run:
    return desk.scheduler.get(task_id).record.run


def awaits(desk: Desk) -> str:
    return scheduled(desk, when=SOON, wait_for={"event": "go", "timeout": "2 hours"})


def asks(desk: Desk) -> str:
    return scheduled(desk, when=SOON, approval=True)


def follows(desk: Desk) -> str:
    return scheduled(desk, when=SOON, after=[scheduled(desk, when="in 3 hours")])


def asks_again(desk: Desk) -> str:
    """Return a task that expired after it was approved: it asks once more before it runs."""
    task_id = asks(desk)
    desk.scheduler.approve(task_id)
    desk.end(desk.start(8, 5), Failed("late", expired=True))
    return task_id


def ended(desk: Desk) -> str:
    """Return a task that has ended: a reschedule makes it another run."""
    task_id = scheduled(desk, when=SOON)
    desk.end(desk.start(8, 5))
    return task_id


def ended_chain(desk: Desk) -> str:
    chain_id = scheduled(desk, when=SOON, steps=STEPS)
    desk.end(desk.start(8, 5))
    desk.end(desk.start(8, 6))
    return chain_id


def failed_chain(desk: Desk) -> str:
    chain_id = scheduled(desk, when=SOON, steps=STEPS)
    desk.end(desk.start(8, 5), Failed("no"))
    return chain_id


class SentMessage(NamedTuple):
    """An answer, as far as both calls can have the same: a new run has another id each time."""

    state: State | None
    due: Any = None
    paused: Any = None
    refused: str = ""


def told(call: Callable[[], Any]) -> SentMessage:
    try:
        view = call()
    except DuetimeError as refused:
        return SentMessage(None, refused=str(refused))
    return SentMessage(view.record.run.state, view.record.run.scheduled_for, view.record.task.paused)


CASES: list[tuple[Made, dict[str, Any], State | None]] = [
    (awaits, {"remove": ["wait_for"]}, State.SCHEDULED),
    (awaits, {"title": "Other"}, State.WAITING),
    (asks, {"when": "now"}, State.WAITING),
    (asks, {"when": "now", "title": "Other"}, State.WAITING),
    (follows, {"remove": ["after"]}, State.SCHEDULED),
    (asks_again, {"when": "now"}, State.WAITING),
    (asks_again, {"when": "in 1 hour"}, State.WAITING),
    (ended_chain, {"pause": False}, None),
    (ended_chain, {"labels": ["x"]}, None),
    (ended_chain, {"when": "now"}, None),
    (failed_chain, {"when": "now"}, State.SCHEDULED),
    (failed_chain, {"when": "in 1 hour"}, None),
]


@on_each_database
@pytest.mark.parametrize(("made", "given", "state"), CASES)
def test_a_dry_run_of_a_reschedule_answers_what_the_reschedule_does(
    desk: Desk, made: Made, given: dict[str, Any], state: State | None
) -> None:
    task_id = made(desk)
    tried = told(lambda: desk.scheduler.reschedule(task_id, **given, dry_run=True))
    assert (tried.state, bool(tried.refused)) == (state, state is None)
    assert tried == told(lambda: desk.scheduler.reschedule(task_id, **given))


@pytest.mark.parametrize(
    ("made", "given"), [(ended, {"when": SOON}), (awaits, {"title": "Other"}), (failed_chain, {"when": "now"})]
)
def test_a_dry_run_of_a_reschedule_names_nothing_as_that_of_a_schedule_does(
    desk: Desk, made: Made, given: dict[str, Any]
) -> None:
    task_id = made(desk)
    tried = desk.scheduler.reschedule(task_id, **given, dry_run=True)
    ids = {tried.record.task.id, tried.record.run.id, tried.record.run.task_id}
    if tried.chain:
        ids |= {tried.chain.id, *(step.task_id for step in tried.chain.steps)}
    assert ids == {"dry-run"}
    new = desk.scheduler.schedule("Report", when=SOON, dry_run=True).record
    assert {new.task.id, new.run.id, new.run.task_id} == {"dry-run"}


@on_each_database
def test_a_dry_run_stores_nothing_notifies_nobody_and_shows_the_present_revision(desk: Desk) -> None:
    task_id, heard = awaits(desk), list[str]()
    desk.store.commits.listen(heard.extend)
    before = desk.scheduler.get(task_id).record
    tried = desk.scheduler.reschedule(task_id, remove=["wait_for"], title="Other", dry_run=True)
    assert (tried.record.task.title, tried.record.task.revision, tried.undo) == ("Other", before.task.revision, None)
    assert desk.scheduler.get(task_id).record == before
    assert len(desk.scheduler.past.events(EventFilter(task_id=task_id)).events) == 1
    assert heard == []
    assert desk.scheduler.signals.send("go").freed == 1


def test_a_dry_run_at_an_older_revision_is_refused_as_the_change_would_be(desk: Desk) -> None:
    task_id = awaits(desk)
    desk.scheduler.reschedule(task_id, title="Other")
    for dry_run in (True, False):
        with pytest.raises(StaleRevision):
            desk.scheduler.reschedule(task_id, title="Third", revision=1, dry_run=dry_run)


def handler_waits(desk: Desk) -> str:
    task_id = scheduled(desk, when=SOON)
    desk.end(desk.start(8, 5), Wait(event="go", timeout=timedelta(minutes=20)))
    return task_id


def recurring_chain(desk: Desk) -> str:
    return scheduled(desk, repeat="every 2 hours at :00", steps=STEPS)


MOVES: list[tuple[Made, str, dict[str, int]]] = [
    (handler_waits, "in 2 hours", {"refused": 1}),
    (recurring_chain, "at 10:00", {"unchanged": 2}),
    (recurring_chain, "at 10:30", {"changed": 2}),
    (awaits, "at 8:05", {"unchanged": 1}),
    (asks, "now", {"changed": 1}),
]


@pytest.mark.parametrize("most", [100, 0], ids=["rehearsed", "decided"])
@pytest.mark.parametrize(("made", "to", "counts"), MOVES)
def test_a_dry_run_of_a_move_of_many_counts_what_the_move_does(
    desk: Desk,
    monkeypatch: pytest.MonkeyPatch,
    *,
    made: Made,
    to: str,
    counts: dict[str, int],
    most: int,
) -> None:
    monkeypatch.setattr(bulk_preview, "MAX_TASKS_REHEARSED", most)
    made(desk)
    where = TaskFilter(states=(State.SCHEDULED, State.WAITING, State.SUSPENDED))
    tried = desk.scheduler.bulk.change("move", where=where, to=to, dry_run=True)
    real = desk.scheduler.bulk.change("move", where=where, to=to, expect=len(tried.outcomes))
    if most or "refused" not in counts:
        assert {word.value: count for word, count in tried.counts.items() if count} == counts
        due = [[each.record.run.scheduled_for for each in result.outcomes] for result in (tried, real)]
        assert due[0] == due[1]
    assert {word.value: count for word, count in real.counts.items() if count} == counts


def long_chain(desk: Desk, count: int) -> list[str]:
    names = [f"s{number}" for number in range(count)]
    steps: Any = [{"name": name, "after": [above]} for above, name in pairwise(names)]
    return list(desk.scheduler.ends.tasks_of(scheduled(desk, when="in 1 hour", steps=[{"name": names[0]}, *steps])))


@on_each_database
def test_a_dry_run_of_more_tasks_than_are_tried_at_once_keeps_together_what_belongs_together(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_preview, "MAX_TASKS_TRIED_AT_ONCE", 4)
    monkeypatch.setattr(bulk_preview, "PAUSE_BETWEEN_PARTS_S", 0)
    refusing = [handler_waits(desk)]
    chain, apart = long_chain(desk, 6), [scheduled(desk, when="in 1 hour") for _ in range(4)]
    tried: list[list[str]] = []
    change = desk.store.batches.change

    def seen(tenant: str, task_ids: Sequence[str], *given: Any, **more: Any) -> Any:
        tried.append(list(task_ids))
        return change(tenant, task_ids, *given, **more)

    monkeypatch.setattr(desk.store.batches, "change", seen)
    ids = [apart[0], *chain[:3], *apart[1:], *refusing, *chain[3:]]
    found = desk.scheduler.bulk.change("move", ids, to="in 3 hours", dry_run=True)
    assert sorted(map(sorted, tried)) == sorted(map(sorted, [[apart[0]], chain, [*apart[1:], *refusing]])), tried
    done = desk.scheduler.bulk.change("move", ids, to="in 3 hours")
    sides = [[(each.record.task.id, each.became, each.why) for each in result.outcomes] for result in (found, done)]
    assert (sides[0], found.alone) == (sides[1], False)
    assert found.counts[Became.REFUSED] == len(refusing)


def test_a_dry_run_of_very_many_tasks_says_that_each_was_looked_at_alone(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain, apart = long_chain(desk, 3), [scheduled(desk, when="in 1 hour") for _ in range(3)]
    said = "Each of so many tasks was looked at alone"
    assert said not in bulk_text(desk.scheduler.bulk.change("cancel", [*chain, *apart], dry_run=True))
    for most, number in (("MAX_TASKS_REHEARSED", 5), ("MAX_RELATED_TASKS_TRIED", 2)):
        with monkeypatch.context() as smaller:
            smaller.setattr(bulk_preview, most, number)
            smaller.setattr(bulk_preview, "MAX_TASKS_TRIED_AT_ONCE", 1)
            smaller.setattr(bulk_preview, "PAUSE_BETWEEN_PARTS_S", 0)
            found = desk.scheduler.bulk.change("cancel", [*chain, *apart], dry_run=True)
            assert (said in bulk_text(found), bulk_payload(found).bulk.alone) == (True, True), most
            assert found.counts[Became.CHANGED] == len([*chain, *apart])
    assert said not in bulk_text(desk.scheduler.bulk.change("cancel", [*chain, *apart]))


def test_a_dry_run_of_a_cancel_of_many_shows_the_tasks_as_they_are(desk: Desk) -> None:
    task_id = awaits(desk)
    [tried] = desk.scheduler.bulk.change("cancel", [task_id], dry_run=True).outcomes
    assert (tried.record, tried.became.value) == (desk.scheduler.get(task_id).record, "changed")
    assert tried.undo, "it could be taken back"


def test_a_chain_that_is_paused_dry_is_shown_paused_and_stays_as_it_is(desk: Desk) -> None:
    chain_id = recurring_chain(desk)
    assert desk.scheduler.reschedule(chain_id, pause=True, dry_run=True).record.task.paused
    assert not desk.scheduler.get(chain_id).record.task.paused
    with pytest.raises(Refused):
        desk.scheduler.act(chain_id, "undo", undo="u_bxxxxxxxxxx")


def test_a_dry_run_of_the_steps_that_failed_shows_which_run_again_and_leaves_them_failed(desk: Desk) -> None:
    chain_id = failed_chain(desk)
    for dry_run, left in ((True, [State.FAILED] * 2), (False, [State.SCHEDULED, State.WAITING])):
        again = desk.scheduler.reschedule(chain_id, when="now", dry_run=dry_run).chain
        assert again
        assert [step.state for step in again.steps] == [State.SCHEDULED, State.WAITING]
        chain = desk.scheduler.get(chain_id).chain
        assert chain
        assert [step.state for step in chain.steps] == left


@pytest.mark.parametrize(("made", "remedy"), [(failed_chain, remedies.RunFailedSteps), (ended_chain, remedies.Inspect)])
def test_an_ended_chain_that_is_to_run_later_is_told_whether_its_failed_steps_can_run_again_now(
    desk: Desk, made: Made, remedy: type[remedies.Remedy]
) -> None:
    with pytest.raises(Refused, match="have ended") as refused:
        desk.scheduler.reschedule(made(desk), when="in 1 hour")
    assert isinstance(refused.value.remedy, remedy)


def test_a_due_task_stays_due_after_a_dry_run(desk: Desk) -> None:
    task_id = scheduled(desk, when=SOON)
    desk.clock.at = at(8, 5)
    assert desk.store.claims.make_ready(limit=9)
    desk.scheduler.reschedule(task_id, when="in 1 hour", dry_run=True)
    assert run_of(desk, task_id).state is State.READY
