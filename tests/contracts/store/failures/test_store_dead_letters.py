"""Dead letters: found by what they say, replayed or discarded once, each with its audit entry."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from duetime.scheduler.audit.entry import AuditEntry, AuditFilter, AuditKind
from duetime.scheduler.errors import InvalidArgument, Refused, StoreUnavailable
from duetime.scheduler.events import EventFilter, EventKind
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.history.dead_letters import (
    MAX_REPLAYS,
    ClosingConflict,
    ClosingKey,
    DeadLetter,
    DeadLetterFilter,
    DeadLetterNotFound,
    LetterState,
)
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.principal import Principal, Scope
from duetime.scheduler.service.letters.dead_letters import DeadLetterService
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.store.schema.tables.dead_letters import dead_letters
from duetime.scheduler.task import State
from sqlalchemy import event, update

from tests.builders import TENANT, Clock, restarted, settlement, started
from tests.contracts.store.databases import on_each_database
from tests.contracts.store.statement_log import statements_of

ANN = Principal(TENANT, "ann", frozenset({Scope.ADMIN}), via="cli ann")
WHY = "the CRM is back"


class Desk(DeadLetterService):
    """The service over one store; `woken` are the tasks of which it notified the dispatcher."""

    def __init__(self, store: Store) -> None:
        self.woken: list[str] = []
        super().__init__(store, "UTC", lambda *given: given[1], on_change=self.woken.extend, via="python")


@pytest.fixture
def desk(store: Store) -> Desk:
    return Desk(store)


def failed(store: Store, clock: Clock, *, reason: str = "no answer", **values: Any) -> DeadLetter:
    """Let a run fail for good, one second after the one before."""
    clock.forward(seconds=1)
    claim = started(store, **values)
    store.claims.settle([settlement(claim, State.FAILED, reason=reason, dead_letter=True)])
    return store.dead_letters.get(None, claim.run.id)


def fail_again(store: Store, clock: Clock, letter: DeadLetter) -> DeadLetter:
    """Start the run that a replay made, and let it fail as well."""
    clock.forward(seconds=1)
    claim = restarted(store, store.tasks.get(TENANT, letter.task_id))
    store.claims.settle([settlement(claim, State.FAILED, reason="again", dead_letter=True)])
    return store.dead_letters.get(TENANT, claim.run.id)


def found(desk: Desk, **where: Any) -> list[str]:
    return [letter.run_id for letter in desk.page(DeadLetterFilter(**where), by=ANN)[0]]


def audit(store: Store, kind: AuditKind) -> list[tuple[Any, ...]]:
    page = store.audit.page(TENANT, AuditFilter(kind=kind), limit=99)
    return [(entry.subject, entry.actor, entry.via, entry.reason) for entry in page.entries]


@on_each_database
def test_each_filter_finds_its_dead_letters_and_a_closed_one_is_asked_for_by_its_state(
    store: Store, clock: Clock, desk: Desk
) -> None:
    post = failed(store, clock, action="webhook", title="Push to the CRM", reason="502")
    food = failed(store, clock, labels=("food",), reason="100% gone")
    assert (post.title, post.action, post.state, post.replays) == ("Push to the CRM", "webhook", LetterState.OPEN, 0)
    assert found(desk) == [food.run_id, post.run_id]
    assert found(desk, action="webhook") == found(desk, text="the crm") == [post.run_id]
    assert found(desk, label="food") == found(desk, text="100% G") == found(desk, since=food.at) == [food.run_id]
    assert found(desk, text="%z") == found(desk, label="none") == []
    desk.replay([post.run_id], by=ANN)
    desk.discard([food.run_id], reason="sent by hand", by=ANN)
    assert found(desk) == []
    assert (found(desk, state=LetterState.REPLAYED), found(desk, state=LetterState.DISCARDED)) == (
        [post.run_id],
        [food.run_id],
    )
    assert found(desk, state=None) == [food.run_id, post.run_id]


def test_a_replay_makes_the_next_run_and_is_in_the_audit_log_and_the_history(
    store: Store, clock: Clock, desk: Desk
) -> None:
    letter = failed(store, clock)
    done = desk.replay([letter.run_id], reason=WHY, by=ANN)
    [closed], record = done.closed, store.tasks.get(TENANT, letter.task_id)
    assert (closed.run_id, closed.replayed_as, record.run.state) == (letter.run_id, record.run.id, State.SCHEDULED)
    assert record.last_run is not None
    assert (record.last_run.id, record.last_run.state) == (letter.run_id, State.FAILED)
    assert audit(store, AuditKind.DEAD_LETTER_REPLAYED) == [(letter.run_id, "ann", "cli ann", WHY)]
    [event] = [e for e in store.history.events(TENANT, EventFilter(), limit=9).events if e.kind is EventKind.RUN_NOW]
    assert (event.actor, event.via, event.reason) == ("ann", "cli ann", WHY)
    assert desk.woken == [letter.task_id]


@pytest.mark.parametrize("verb", ["replay", "discard"])
@pytest.mark.parametrize("dry_run", [True, False])
def test_an_empty_list_of_runs_is_not_every_letter(
    store: Store, clock: Clock, desk: Desk, verb: str, dry_run: bool
) -> None:
    letter = failed(store, clock)
    with pytest.raises(InvalidArgument, match="run_ids: it names no run"):
        getattr(desk, verb)([], reason=WHY, dry_run=dry_run, by=ANN)
    assert found(desk) == [letter.run_id]


def test_a_letter_is_closed_once(store: Store, clock: Clock, desk: Desk) -> None:
    letter = failed(store, clock)
    desk.replay([letter.run_id], by=ANN)
    for close in (desk.replay, desk.discard):
        with pytest.raises(Refused, match="replayed already"):
            close([letter.run_id], reason=WHY, by=ANN)
    assert len(audit(store, AuditKind.DEAD_LETTER_REPLAYED)) == 1
    assert audit(store, AuditKind.DEAD_LETTER_DISCARDED) == []


def test_a_recurring_task_is_replayed_next_to_its_next_occurrence(store: Store, clock: Clock, desk: Desk) -> None:
    letter = failed(store, clock, repeat="FREQ=DAILY")
    [closed] = desk.replay([letter.run_id], by=ANN).closed
    record = store.tasks.get(TENANT, letter.task_id)
    assert closed.replayed_as in {record.run.id, *(run.id for run in record.side_runs)}


@on_each_database
def test_a_bulk_replay_needs_a_reason_counts_first_and_takes_the_oldest_up_to_a_maximum(
    store: Store, clock: Clock, desk: Desk
) -> None:
    letters = [failed(store, clock, action="webhook") for _ in range(3)]
    failed(store, clock)
    where = DeadLetterFilter(action="webhook")
    with pytest.raises(InvalidArgument, match="reason"):
        desk.replay(where=where, by=ANN)
    tried = desk.replay(where=where, dry_run=True, by=ANN)
    assert (tried.matched, tried.dry_run) == (3, True)
    assert [(each.run_id, each.replayed_as) for each in tried.closed] == [(each.run_id, None) for each in letters]
    assert desk.woken == []
    done = desk.replay(where=where, reason=WHY, max_letters=2, by=ANN)
    assert [closed.run_id for closed in done.closed] == [letter.run_id for letter in letters[:2]]
    assert (done.matched, done.left) == (3, 1)
    assert found(desk, action="webhook") == [letters[2].run_id]
    assert len(audit(store, AuditKind.DEAD_LETTER_REPLAYED)) == 2


@on_each_database
@pytest.mark.parametrize("verb", ["replay", "discard"])
def test_a_dry_run_reads_all_letters_at_once(store: Store, clock: Clock, desk: Desk, verb: str) -> None:
    def statements_for(count: int) -> int:
        for number in range(count):
            failed(store, clock, repeat="FREQ=DAILY" if number % 2 else None)
        with statements_of(store) as sent:
            getattr(desk, verb)(dry_run=True, by=ANN)
        return len(sent)

    few = statements_for(4)
    assert statements_for(20) == few
    tried = getattr(desk, verb)(max_letters=9, dry_run=True, by=ANN)
    assert (len(tried.closed), tried.matched, tried.skipped) == (9, 24, ())


@on_each_database
def test_a_letter_that_comes_while_they_are_counted_is_counted_whole_or_not(
    store: Store, clock: Clock, desk: Desk
) -> None:
    failed(store, clock)
    engine, late = getattr(store._database, "reader", store._database.engine), [started(store)]

    def arrive(_connection: Any, _cursor: Any, sql: str, *_: Any) -> None:
        if "count(" in sql and late:
            store.claims.settle([settlement(late.pop(), State.FAILED, dead_letter=True)])

    event.listen(engine, "after_cursor_execute", arrive)
    tried = desk.replay(reason=WHY, dry_run=True, by=ANN)
    event.remove(engine, "after_cursor_execute", arrive)
    assert (late, tried.held_back) == ([], 0)


def test_a_run_that_failed_after_each_of_several_replays_is_replayed_only_by_its_name(
    store: Store, clock: Clock, desk: Desk
) -> None:
    letter = failed(store, clock)
    for number in range(MAX_REPLAYS):
        assert letter.replays == number
        assert len(desk.replay(reason=WHY, by=ANN).closed) == 1
        letter = fail_again(store, clock, letter)
    done = desk.replay(reason=WHY, by=ANN)
    assert (done.matched, done.held_back, done.closed, done.left) == (1, 1, (), 0)
    assert len(desk.replay([letter.run_id], by=ANN).closed) == 1


@on_each_database
def test_a_letter_whose_task_cannot_run_stays_and_the_others_go_on(store: Store, clock: Clock, desk: Desk) -> None:
    busy, other = failed(store, clock), failed(store, clock)
    desk.replay([busy.run_id], by=ANN)
    as_left_open = {"closed_at": None, "replayed_as": None, "replay_number": None}  # as older code left it
    store._database.write(lambda connection: connection.execute(update(dead_letters).values(as_left_open)))
    done = desk.replay(reason=WHY, by=ANN)
    assert ([each.run_id for each in done.skipped], [each.run_id for each in done.closed]) == (
        [busy.run_id],
        [other.run_id],
    )
    assert "is scheduled already" in done.skipped[0].why


def test_a_task_that_runs_again_by_any_call_closes_its_letter_and_an_undo_opens_it_again(
    store: Store, clock: Clock, desk: Desk
) -> None:
    letter = failed(store, clock)
    planner = Planner(Handlers.load(entry_points=False), "UTC")
    service, alice = Scheduler(store, planner), Principal(TENANT, "alice")
    view = service.reschedule(letter.task_id, when="in 1 hour", by=alice)
    [closed] = desk.page(DeadLetterFilter(state=LetterState.REPLAYED), by=ANN)[0]
    assert (closed.run_id, closed.replayed_as, found(desk)) == (letter.run_id, view.record.run.id, [])
    service.act(letter.task_id, "undo", undo=view.undo, by=alice)
    assert found(desk) == [letter.run_id]
    service.act(letter.task_id, "run_now", by=alice)
    again = fail_again(store, clock, letter)
    assert (found(desk), again.replays) == ([again.run_id], 1)


def test_another_tenant_has_no_dead_letter_and_only_an_operator_may_name_one(
    store: Store, clock: Clock, desk: Desk
) -> None:
    letter = failed(store, clock)
    other = Principal("globex", "eve", frozenset({Scope.ADMIN}))
    for call in (desk.replay, desk.discard):
        with pytest.raises(DeadLetterNotFound):
            call([letter.run_id], reason=WHY, by=other)
        with pytest.raises(InvalidArgument, match="only an operator"):
            call([letter.run_id], reason=WHY, tenant=TENANT, by=other)
        assert call(reason=WHY, by=other).matched == 0
    operator = Principal("globex", "root", frozenset({Scope.ADMIN}), operator=True)
    assert desk.replay([letter.run_id], tenant=TENANT, by=operator).closed
    [entry] = store.audit.page(TENANT, AuditFilter(), limit=9).entries
    assert (entry.actor, entry.actor_tenant) == ("root", "globex")


def test_a_repeated_call_with_a_key_closes_no_more_and_returns_the_same(desk: Desk, store: Store, clock: Clock) -> None:
    letters = [failed(store, clock) for _ in range(3)]
    done = desk.replay(reason=WHY, max_letters=2, idempotency_key="k1", by=ANN)
    failed(store, clock)
    again = desk.replay(reason=WHY, max_letters=2, idempotency_key="k1", by=ANN)

    assert [each.run_id for each in done.closed] == [letter.run_id for letter in letters[:2]]
    assert again.closed == done.closed
    assert desk.replay(reason=WHY, max_letters=2, idempotency_key="k2", by=ANN).matched == 2
    with pytest.raises(ClosingConflict, match="'k1' has replayed or discarded other dead letters already"):
        desk.discard(reason=WHY, max_letters=2, idempotency_key="k1", by=ANN)


@on_each_database
def test_a_call_with_a_key_that_was_cut_off_is_finished_and_leaves_alone_what_came_later(
    desk: Desk, store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    letters = [failed(store, clock) for _ in range(3)]
    replay = store.dead_letters.replay

    def cut_off(*arguments: Any) -> Any:
        if arguments[1] == letters[1].run_id:
            raise StoreUnavailable("the server went away")
        return replay(*arguments)

    monkeypatch.setattr(store.dead_letters, "replay", cut_off)
    with pytest.raises(StoreUnavailable):
        desk.replay(reason=WHY, idempotency_key="k1", by=ANN)
    later = failed(store, clock)
    monkeypatch.setattr(store.dead_letters, "replay", replay)
    again = desk.replay(reason=WHY, idempotency_key="k1", by=ANN)

    assert [each.run_id for each in again.closed] == [letter.run_id for letter in letters]
    assert store.dead_letters.get(TENANT, later.run_id).state is LetterState.OPEN


def test_a_named_letter_is_replayed_once_by_a_repeated_call_and_a_key_is_one_tenants(
    desk: Desk, store: Store, clock: Clock
) -> None:
    letter, other = failed(store, clock), failed(store, clock, tenant="globex")
    first = desk.replay([letter.run_id], idempotency_key="k1", by=ANN)
    clock.forward(seconds=1)
    assert desk.replay([letter.run_id], idempotency_key="k1", by=ANN).closed == first.closed
    eve = Principal("globex", "eve", frozenset({Scope.ADMIN}))
    assert [each.run_id for each in desk.replay(reason=WHY, idempotency_key="k1", by=eve).closed] == [other.run_id]


@on_each_database
def test_a_trial_of_named_letters_takes_as_many_statements_whatever_their_number(
    desk: Desk, store: Store, clock: Clock
) -> None:
    letters = [failed(store, clock) for _ in range(5)]
    store.dead_letters.discard(TENANT, letters[0].run_id, AuditEntry.by(ANN, AuditKind.DEAD_LETTER_DISCARDED))
    named = [each.run_id for each in letters]
    with statements_of(store) as of_two:
        desk.discard(named[:2], dry_run=True, by=ANN)
    with statements_of(store) as of_all:
        found = desk.discard([*named, named[1]], dry_run=True, by=ANN)
    assert found.matched == 4
    assert len(of_two) == len(of_all) > 0
    with pytest.raises(DeadLetterNotFound):
        desk.replay([*named, f"{named[0]}0"], dry_run=True, by=ANN)


def test_two_letters_are_never_closed_under_one_number_of_a_key(store: Store, clock: Clock) -> None:
    one, two = failed(store, clock), failed(store, clock)
    key, entry = ClosingKey("k1", "asked"), AuditEntry.by(ANN, AuditKind.DEAD_LETTER_DISCARDED, reason=WHY)
    store.dead_letters.discard(TENANT, one.run_id, entry, key)
    with pytest.raises(StoreUnavailable):
        store.dead_letters.discard(TENANT, two.run_id, entry, key)
    assert store.dead_letters.get(TENANT, two.run_id).state is LetterState.OPEN


# -- undo


@pytest.fixture
def scheduler(store: Store) -> Scheduler:
    return Scheduler(store, Planner(Handlers.load(entry_points=False), "UTC"))


def undone(scheduler: Scheduler, token: str | None, **by: Any) -> dict[str, str | None]:
    result = scheduler.bulk.change("undo", undo=token, by=ANN, **by)
    return {each.record.task.id: each.why for each in result.outcomes}


@on_each_database
def test_a_replay_is_taken_back_and_its_letters_are_open_again(
    store: Store, clock: Clock, scheduler: Scheduler
) -> None:
    one, two, series = failed(store, clock), failed(store, clock), failed(store, clock, repeat="0 9 * * *")
    before = {each.task_id: store.tasks.get(TENANT, each.task_id) for each in (one, two, series)}
    done = scheduler.letters.replay(reason=WHY, by=ANN)
    assert (len(done.closed), done.undo_until) == (3, clock() + timedelta(minutes=10))
    clock.forward(minutes=5)
    started_since = restarted(store, store.tasks.get(TENANT, two.task_id))

    expected = {
        one.task_id: None,
        series.task_id: None,
        two.task_id: f"undo: {two.task_id} has run since, so that change stays. Read the task as it is now.",
    }
    assert undone(scheduler, done.undo) == expected
    for letter in (one, series):
        now = store.tasks.get(TENANT, letter.task_id)
        assert (now.run.id, now.side_runs) == (before[letter.task_id].run.id, before[letter.task_id].side_runs)
        assert store.dead_letters.get(TENANT, letter.run_id).state is LetterState.OPEN
    assert store.dead_letters.get(TENANT, two.run_id).replayed_as == started_since.run.id
    assert undone(scheduler, done.undo) == expected, "as the first one"
    with pytest.raises(Refused, match="was taken back already"):
        scheduler.bulk.change("undo", undo=done.undo, idempotency_key="another", by=ANN)


@on_each_database
def test_a_replay_with_another_payload_gives_the_old_one_back(store: Store, clock: Clock, scheduler: Scheduler) -> None:
    letter = failed(store, clock, action="reminder", payload={"message": "wrong"})
    done = scheduler.letters.replay([letter.run_id], payload={"message": "right"}, by=ANN)
    assert store.tasks.get(TENANT, letter.task_id).task.payload == {"message": "right"}
    undone(scheduler, done.undo)
    assert store.tasks.get(TENANT, letter.task_id).task.payload == {"message": "wrong"}
    again = scheduler.letters.replay([letter.run_id], payload={"message": "right"}, by=ANN)
    scheduler.reschedule(letter.task_id, when="in 1 hour", by=ANN)
    for _ in range(2):
        with pytest.raises(Refused, match=r"^undo: nothing was taken back: t_\w+ was changed again since"):
            undone(scheduler, again.undo)


def test_a_discard_is_taken_back_unless_the_task_was_run_again(
    store: Store, clock: Clock, scheduler: Scheduler
) -> None:
    one, two = failed(store, clock), failed(store, clock)
    ids = [one.task_id, two.task_id]
    for by_task in (False, True):
        clock.forward(seconds=61)
        discarded = scheduler.bulk.change("discard", ids, reason=WHY, by=ANN) if by_task else None
        token = discarded.undo if discarded else scheduler.letters.discard(reason=WHY, by=ANN).undo
        assert undone(scheduler, token) == {one.task_id: None, two.task_id: None}
        states = {store.dead_letters.get(TENANT, each.run_id).state for each in (one, two)}
        assert states == {LetterState.OPEN}
    token = scheduler.letters.discard(reason=WHY, by=ANN).undo
    scheduler.act(two.task_id, "run_now", by=ANN)
    assert undone(scheduler, token) == {
        one.task_id: None,
        two.task_id: f"{two.task_id} was run again since, so its dead letter stays closed.",
    }
    assert audit(store, AuditKind.TASKS_CHANGED)[0] == (token, "ann", "cli ann", None)
    clock.forward(minutes=11)
    with pytest.raises(Refused, match="older than 10 minutes"):
        undone(scheduler, token)


@on_each_database
def test_a_call_that_was_cut_off_and_finished_is_taken_back_as_one(
    scheduler: Scheduler, store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    letters = [failed(store, clock) for _ in range(3)]
    replay = store.dead_letters.replay

    def cut_off(*arguments: Any) -> Any:
        if arguments[1] == letters[1].run_id:
            raise StoreUnavailable("the server went away")
        return replay(*arguments)

    monkeypatch.setattr(store.dead_letters, "replay", cut_off)
    with pytest.raises(StoreUnavailable):
        scheduler.letters.replay(reason=WHY, idempotency_key="k1", by=ANN)
    monkeypatch.setattr(store.dead_letters, "replay", replay)
    first = scheduler.letters.replay(reason=WHY, idempotency_key="k1", by=ANN)
    again = scheduler.letters.replay(reason=WHY, idempotency_key="k1", by=ANN)

    assert (first.undo, first.undo_until) == (again.undo, again.undo_until)
    assert undone(scheduler, again.undo) == {letter.task_id: None for letter in letters}
    with pytest.raises(Refused, match="This call was taken back"):
        scheduler.letters.replay(reason=WHY, idempotency_key="k1", by=ANN)


def test_an_operator_takes_back_what_he_did_for_a_tenant(store: Store, clock: Clock, scheduler: Scheduler) -> None:
    letter = failed(store, clock)
    operator = Principal("globex", "root", frozenset({Scope.ADMIN}), operator=True)
    done = scheduler.letters.discard([letter.run_id], reason=WHY, tenant=TENANT, by=operator)
    with pytest.raises(Refused):
        scheduler.bulk.change("undo", undo=done.undo, by=operator)
    eve = Principal("globex", "eve", frozenset({Scope.ADMIN}))
    with pytest.raises(InvalidArgument, match="only an operator"):
        scheduler.bulk.change("undo", undo=done.undo, tenant=TENANT, by=eve)
    scheduler.bulk.change("undo", undo=done.undo, tenant=TENANT, by=operator)
    assert store.dead_letters.get(TENANT, letter.run_id).state is LetterState.OPEN
    [entry, *_] = store.audit.page(TENANT, AuditFilter(), limit=9).entries
    assert (entry.kind, entry.actor, entry.actor_tenant) == (AuditKind.TASKS_CHANGED, "root", "globex")


def test_a_discard_notifies_subscribers_of_its_task_as_a_replay_does(store: Store, clock: Clock, desk: Desk) -> None:
    letters = [failed(store, clock) for _ in range(2)]
    desk.discard([letters[0].run_id], reason=WHY, by=ANN)
    assert desk.woken == [letters[0].task_id]


@on_each_database
def test_the_rest_is_counted_after_the_call_since_others_close_letters_during_it(
    store: Store, clock: Clock, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    letters = [failed(store, clock) for _ in range(3)]
    ids = store.dead_letters.ids

    def while_another_discards(*which: Any, **how: Any) -> Iterator[str]:
        first = next(ids(*which, **how))
        desk.discard([letter.run_id for letter in letters], reason=WHY, by=ANN)
        yield first

    monkeypatch.setattr(store.dead_letters, "ids", while_another_discards)
    done = desk.replay(reason=WHY, by=ANN)
    assert (done.matched, done.closed, len(done.skipped), done.left) == (3, (), 1, 0)
