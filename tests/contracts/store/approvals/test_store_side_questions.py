"""Questions of runs next to the current one: run now, an overtaken run, a snoozed outcome."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial

import pytest
from duetime.scheduler.dispatch.maintenance import Maintenance
from duetime.scheduler.errors import Refused, StaleRevision, TaskNotFound
from duetime.scheduler.events import EventFilter, EventKind
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.outcomes import Done, Wait
from duetime.scheduler.principal import Principal
from duetime.scheduler.queue.memory.queue import MemoryQueue
from duetime.scheduler.rules.settlement import with_consequences
from duetime.scheduler.run_records import Claim, Start
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.store.chains import approval_answers
from duetime.scheduler.store.statements.endings import endings
from duetime.scheduler.store.statements.endings.claimed_run import AttemptEnd
from duetime.scheduler.task import ApprovalAnswer, ApprovalRequest, State
from duetime.scheduler.views import TaskRecord
from duetime.widgets.payload import task_payload
from sqlalchemy import Connection

from tests.builders import LEASE, Clock, runs_of
from tests.contracts.store.databases import on_each_database
from tests.contracts.store.desk import MORNING, Desk, at

APPROVE, REJECT = ApprovalAnswer
TENANT = "local"
HALF_AN_HOUR = timedelta(minutes=30)


@pytest.fixture
def desk(store: Store, clock: Clock) -> Desk:
    clock.at = MORNING
    return Desk(Scheduler(store, Planner(Handlers.load(entry_points=False), "UTC")), store, clock)


def question(text: str = "Sure?", by: timedelta = HALF_AN_HOUR, default: ApprovalAnswer = REJECT) -> Wait:
    return Wait(approval=text, by=by, default=default)


def asked_now(desk: Desk, asks: Wait | None = None, title: str = "Report") -> str:
    """Run a daily task out of turn, whose handler asks."""
    task_id = desk.scheduler.schedule(title, repeat="every day at 9:00").record.task.id
    run_now(desk, task_id, asks or question())
    return task_id


def run_now(desk: Desk, task_id: str, asks: Wait) -> str:
    desk.scheduler.act(task_id, "run_now")
    [claim] = desk.start(desk.clock().hour, desk.clock().minute)
    desk.end_anew([claim], asks)
    return claim.run.id


def asked_twice(desk: Desk) -> tuple[str, str, str]:
    """Return an hourly task that lets its runs overlap, and two of them that ask, the older one first."""
    task_id = desk.hourly(overlap="allow_all")
    [first] = desk.start(9)
    desk.end_anew([first], question("First?", timedelta(hours=5)))
    desk.clock.at = at(10)
    desk.store.series.overtake(limit=9)
    [second] = desk.start(10)
    desk.end_anew([second], question("Second?", timedelta(hours=5)))
    return task_id, first.run.id, second.run.id


def resumed(desk: Desk) -> list[Claim]:
    return desk.start(desk.clock().hour, desk.clock().minute)


def answer_of(desk: Desk, run_id: str) -> ApprovalAnswer | None:
    found = desk.store.approvals.answered(TENANT, run_id)
    return found.answer if found else None


def inbox(desk: Desk) -> list[tuple[State, str]]:
    return [(message.state, message.text) for message in desk.scheduler.inbox.unread()]


def beside(desk: Desk, task_id: str) -> list[State]:
    return [run.state for run in desk.scheduler.get(task_id).record.side_runs]


@pytest.mark.parametrize("given", [APPROVE, REJECT])
def test_a_run_out_of_turn_is_answered_by_its_task(desk: Desk, given: ApprovalAnswer) -> None:
    task_id = asked_now(desk)
    assert inbox(desk) == [(State.WAITING, "Sure?")]

    view = desk.scheduler.act(task_id, given.value)

    assert (view.record.run.state, view.undo) == (State.SCHEDULED, None)
    assert all("skipped" not in warning for warning in view.warnings)
    with pytest.raises(Refused, match=rf"local {given.value.removesuffix('e')}ed it already"):
        desk.scheduler.act(task_id, (REJECT if given is APPROVE else APPROVE).value)
    [claim] = resumed(desk)
    assert (claim.run.current, answer_of(desk, claim.run.id), inbox(desk)) == (False, given, [])
    desk.end_anew([claim], Done("sent"))
    assert inbox(desk) == [(State.SUCCEEDED, "sent")]
    assert desk.scheduler.act(task_id, given.value).record.run.state is State.SCHEDULED, "the same click twice"


def test_a_snooze_of_an_outcome_that_asks_is_answered(desk: Desk) -> None:
    task_id = desk.hourly()
    desk.run(9, (9, 1))
    desk.scheduler.act(task_id, "snooze", minutes=5)
    [snoozed] = desk.start(9, 6)
    desk.end_anew([snoozed], question())
    desk.scheduler.approve(task_id)
    assert [claim.run.id for claim in resumed(desk)] == [snoozed.run.id]


@on_each_database
def test_the_default_of_a_run_out_of_turn_is_given_at_its_deadline(desk: Desk) -> None:
    task_id = asked_now(desk, question(default=APPROVE))
    desk.clock.forward(minutes=30)
    assert desk.store.approvals.expire(limit=9) == [task_id]
    [claim] = resumed(desk)
    assert answer_of(desk, claim.run.id) is APPROVE
    desk.end_anew([claim], Done("sent"))
    told = desk.scheduler.past.events(EventFilter(task_id=task_id, kind=EventKind.APPROVED)).events
    assert [(event.run_id, event.actor, event.reason) for event in told] == [
        (claim.run.id, "duetime", "nobody answered until Mon 23 Nov 2026 08:30 UTC")
    ]


def test_questions_of_runs_out_of_turn_hold_up_no_other(desk: Desk) -> None:
    for number in range(3):
        asked_now(desk, title=f"Report {number}")
    asks: ApprovalRequest = {"question": "Pay?", "by": "2 hours", "default": "approve"}
    waits = desk.scheduler.schedule("Pay", when="in 5 minutes", approval=asks).record.task.id
    desk.clock.forward(hours=3)
    while desk.store.approvals.expire(limit=2):
        pass
    assert desk.scheduler.get(waits).record.run.state is State.SCHEDULED


def test_a_card_shows_what_a_run_out_of_turn_asks_and_for_which_run(desk: Desk) -> None:
    task_id = asked_now(desk)
    [run] = desk.scheduler.get(task_id).record.side_runs
    said = f"approval of «Sure?» by the user for its run of Mon 23 Nov 2026 08:00 ({run.id}) until "
    for waits in (
        desk.scheduler.get(task_id).waiting_for,
        desk.scheduler.explain(task_id)[1],
        desk.scheduler.tasks.list().views[0].waiting_for,
    ):
        assert waits[0].startswith(said)
    card = task_payload(desk.scheduler.get(task_id))
    assert card.waits is not None
    assert [(wait.kind, wait.title) for wait in card.waits] == [("approval", "Sure?")]


def test_a_cancel_withdraws_the_question_of_a_run_out_of_turn(desk: Desk) -> None:
    task_id = asked_now(desk)
    desk.scheduler.cancel(task_id)
    assert (beside(desk, task_id), inbox(desk)) == ([], [])
    desk.clock.forward(hours=3)
    assert desk.store.approvals.expire(limit=9) == []
    with pytest.raises(Refused, match="is not waiting for approval"):
        desk.scheduler.approve(task_id)


@on_each_database
def test_of_two_questions_the_older_one_is_answered_at_the_revision_that_was_read(desk: Desk) -> None:
    task_id, first, second = asked_twice(desk)
    view = desk.scheduler.get(task_id)
    assert [wait.title for wait in view.waits] == ["First?", "Second?"]
    with pytest.raises(Refused, match=rf"asks 2 questions.*{first} \(First\?.*{second} \(Second\?"):
        desk.scheduler.approve(task_id)

    desk.scheduler.approve(task_id, revision=view.record.task.revision)

    assert (answer_of(desk, first), answer_of(desk, second)) == (APPROVE, None)
    with pytest.raises(StaleRevision):
        desk.scheduler.approve(task_id, revision=view.record.task.revision)
    desk.scheduler.reject(task_id)
    assert answer_of(desk, second) is REJECT
    assert sorted(claim.run.id for claim in resumed(desk)) == sorted([first, second])


@on_each_database
def test_a_question_is_answered_by_the_id_of_its_run(desk: Desk) -> None:
    task_id, first, second = asked_twice(desk)
    for _ in range(2):
        found = desk.scheduler.reject(second, reason="late", by=Principal(TENANT, "bob"))
        assert found.record.task.id == task_id
    assert (answer_of(desk, first), answer_of(desk, second)) == (None, REJECT)
    with pytest.raises(Refused, match=r"bob rejected it already \(late\)"):
        desk.scheduler.approve(second)
    for unknown, by in (("r_none", Principal(TENANT, "bob")), (second, Principal("another", "bob"))):
        with pytest.raises(TaskNotFound, match=unknown):
            desk.scheduler.approve(unknown, by=by)


def test_a_run_asks_again_in_a_later_attempt_and_ends_with_one_message(desk: Desk) -> None:
    task_id = asked_now(desk, question("First?"))
    for said in ("Second?", "Third?"):
        desk.scheduler.approve(task_id)
        desk.end_anew(resumed(desk), question(said))
        assert inbox(desk) == [(State.WAITING, said)]
    desk.clock.forward(minutes=31)
    desk.store.approvals.expire(limit=9)
    [claim] = resumed(desk)
    assert answer_of(desk, claim.run.id) is REJECT
    desk.end_anew([claim], Done("sent"))
    assert inbox(desk) == [(State.SUCCEEDED, "sent")]


@pytest.mark.parametrize("out_of_turn", [False, True])
def test_a_run_that_goes_on_unanswered_after_a_long_pause_reads_the_default(desk: Desk, out_of_turn: bool) -> None:
    task_id = desk.scheduler.schedule("Report", repeat="every day at 9:00").record.task.id
    if out_of_turn:
        run_id = run_now(desk, task_id, question(default=APPROVE))
    else:
        [claim] = desk.start(9)
        run_id = claim.run.id
        desk.end_anew([claim], question(default=APPROVE))
    desk.scheduler.reschedule(task_id, pause=True)
    desk.clock.forward(hours=36)
    desk.scheduler.reschedule(task_id, pause=False)
    ready = [Start(run.run_id) for run in desk.store.claims.make_ready(limit=9)]
    found = [
        each for each in desk.store.claims.start(ready, worker="w", epoch=None, lease=LEASE) if each.run.id == run_id
    ]
    assert (answer_of(desk, run_id), inbox(desk)) == (APPROVE, [])
    desk.end_anew(found, Done("sent"))
    assert inbox(desk) == [(State.SUCCEEDED, "sent")]


@on_each_database
def test_a_question_that_cannot_be_answered_holds_up_no_other(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broken = [asked_now(desk, title=f"Broken {number}") for number in range(2)]
    sound = asked_now(desk, question(by=timedelta(hours=1)), title="Sound")
    give = approval_answers.store_default

    def failing(connection: Connection, record: TaskRecord, run_id: str, now: datetime) -> bool:
        if record.task.id in broken:
            raise ValueError("a row that nobody can write")
        return give(connection, record, run_id, now)

    monkeypatch.setattr(approval_answers, "store_default", failing)
    desk.clock.forward(hours=2)
    assert desk.store.approvals.expire(limit=2) == [sound]
    assert desk.store.approvals.expire(limit=2) == []
    assert caplog.text.count("cannot give its question the default answer") == len(broken), "once for each"
    assert desk.store.unwritable_rows() == len(broken)


@on_each_database
@pytest.mark.parametrize("replaced", [False, True])
def test_a_run_that_cannot_be_recovered_holds_up_no_other(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, replaced: bool
) -> None:
    ids = [desk.scheduler.schedule(f"Task {number}", when="now").record.task.id for number in range(3)]
    runners = desk.store.runners
    lost = desk.start(8, 0, epoch=runners.take_over(pid=1, endpoint="", token="") if replaced else None)
    bad = lost[1].run
    write = endings.write

    def failing(connection: Connection, found: Sequence[AttemptEnd], now: datetime) -> None:
        if any(each.claim.run_id == bad.id for each in found):
            raise ValueError("a row that nobody can write")
        write(connection, found, now)

    monkeypatch.setattr(endings, "write", failing)
    desk.clock.forward(hours=2)
    conclude = partial(with_consequences, now=desk.clock())
    if replaced:
        epoch = runners.take_over(pid=2, endpoint="", token="")
        assert [desk.store.claims.recover(epoch=epoch, conclude=conclude) for _ in range(2)] == [2, 0]
    else:
        for _ in range(2):
            desk.store.claims.recover_lapsed(epoch=None, held=[], before=desk.clock(), conclude=conclude)
    assert caplog.text.count(f"run {bad.id}: cannot end its lost attempt") == 1, "it is said once, and tried again"
    assert (caplog.text.count("Traceback"), desk.store.unwritable_rows()) == (1, 1)
    states = {task_id: desk.store.tasks.get(TENANT, task_id).run.state for task_id in ids}
    assert states == {task_id: State.RUNNING if task_id == bad.task_id else State.RETRYING for task_id in ids}


def test_maintenance_answers_what_an_overtaken_run_asks(desk: Desk) -> None:
    task_id, first, second = asked_twice(desk)
    desk.clock.forward(hours=6)
    Maintenance(desk.store, MemoryQueue()).step()
    assert (answer_of(desk, first), answer_of(desk, second)) == (REJECT, REJECT)
    assert {run.state for run in runs_of(desk.store, task_id) if run.id in (first, second)} == {State.SUSPENDED}
