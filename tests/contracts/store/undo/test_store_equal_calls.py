"""A change of many tasks that is asked for twice is made once: at one moment, in several transactions, without undo."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from duetime.scheduler.calls.bulk_change import Became, BulkResult, why_cancel_is_final
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.outcomes import Failed
from duetime.scheduler.run_records import Start
from duetime.scheduler.service.bulk import bulk_writer
from duetime.scheduler.store.schema.tables.events import keys
from duetime.scheduler.views import TaskFilter
from sqlalchemy import select

from tests.contracts.store.databases import on_each_database
from tests.contracts.store.desk import Desk
from tests.contracts.store.undo.test_store_repeated_changes import BOB, are_paused, ask, hours, two
from tests.contracts.store.undo.test_store_repeated_changes import desk as desk  # noqa: PLC0414 - a fixture
from tests.flow.tools.calls import settled

AN_HOUR: Any = {"change": "move", "to": "1 hour later"}


def many(desk: Desk, number: int) -> list[str]:
    return [desk.scheduler.schedule(f"Task {n}", when="tomorrow 9am").record.task.id for n in range(number)]


def became(result: BulkResult) -> dict[str, Became]:
    return {each.record.task.id: each.became for each in result.outcomes}


def with_equal_call_before(desk: Desk, monkeypatch: pytest.MonkeyPatch, ids: list[str]) -> list[BulkResult]:
    """Let another process make the same move when the next one is decided, and return what that did."""
    change, others = desk.store.batches.change, list[BulkResult]()

    def second(*args: Any, **given: Any) -> object:
        monkeypatch.setattr(desk.store.batches, "change", change)
        others.append(ask(desk, ids=ids, **AN_HOUR))
        return change(*args, **given)

    monkeypatch.setattr(desk.store.batches, "change", second)
    return others


@on_each_database
@pytest.mark.parametrize("earlier_s", [None, 30, 3600])
def test_of_two_equal_calls_at_one_moment_one_changes_something(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, earlier_s: int | None
) -> None:
    ids, hour = two(desk), 10
    if earlier_s is not None:  # an equal call whose repeat is over
        ask(desk, ids=ids, **AN_HOUR)
        desk.clock.at += timedelta(seconds=earlier_s)
        ask(desk, "pause", ids)
        hour += 1
    others = with_equal_call_before(desk, monkeypatch, ids)
    done = ask(desk, ids=ids, **AN_HOUR)
    assert [each.repeated for each in (*others, done)] == [False, True]
    assert (hours(desk, ids), done.undo) == ([hour] * 2, others[0].undo)
    desk.scheduler.bulk.change("undo", undo=done.undo)
    assert hours(desk, ids) == [hour - 1] * 2


@on_each_database
def test_of_two_equal_moves_of_a_chain_at_one_moment_one_moves_it(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    chain_id = desk.scheduler.schedule("Report", when="tomorrow 9am", steps=[{"name": "fetch"}]).record.task.id
    change = desk.store.batches.change
    sent: Any = {"when": "1 hour later", "raw": {"task_id": chain_id, "when": "1 hour later"}}

    def second(*args: Any, **given: Any) -> object:
        monkeypatch.setattr(desk.store.batches, "change", change)
        desk.scheduler.reschedule(chain_id, **sent)
        return change(*args, **given)

    monkeypatch.setattr(desk.store.batches, "change", second)
    chain = desk.scheduler.reschedule(chain_id, **sent).chain
    assert chain
    assert hours(desk, [chain.steps[0].task_id]) == [10]


@on_each_database
def test_of_many_equal_calls_at_once_one_changes_something(desk: Desk) -> None:
    ids = two(desk)
    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(lambda _: ask(desk, ids=ids, **AN_HOUR), range(4)))
    assert [each.repeated for each in done].count(False) == 1
    assert hours(desk, ids) == [10] * 2


@pytest.mark.parametrize("known_by", [{}, {"idempotency_key": "k"}])
@pytest.mark.parametrize("paused", [slice(0, 2), slice(2, 4), slice(4, 6)])
def test_a_call_of_several_transactions_is_repeated_although_one_of_them_changed_nothing(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, known_by: Any, paused: slice
) -> None:
    monkeypatch.setattr(bulk_writer, "MAX_TASKS_AT_ONCE", 2)
    ids = many(desk, 6)
    desk.scheduler.bulk.change("pause", ids[paused])
    first, again = (ask(desk, "pause", ids, **known_by) for _ in range(2))
    assert (first.repeated, again.repeated, again.undo) == (False, True, first.undo)
    assert became(again) == became(first)
    assert first.counts == {Became.CHANGED: 4, Became.UNCHANGED: 2}


def cut_off_before(desk: Desk, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Let one transaction fail, for once."""
    change, calls = desk.store.batches.change, list[Sequence[str]]()

    def failing(tenant: str, task_ids: Sequence[str], *args: Any, **given: Any) -> object:
        calls.append(task_ids)
        if len(calls) == number + 1:
            raise ConnectionError
        return change(tenant, task_ids, *args, **given)

    monkeypatch.setattr(desk.store.batches, "change", failing)


@pytest.mark.parametrize("paused", [slice(0, 2), slice(2, 4)])
def test_a_repeat_finishes_a_call_of_which_a_transaction_changed_nothing(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, paused: slice
) -> None:
    monkeypatch.setattr(bulk_writer, "MAX_TASKS_AT_ONCE", 2)
    ids = many(desk, 6)
    desk.scheduler.bulk.change("pause", ids[paused])
    cut_off_before(desk, monkeypatch, 2)
    with pytest.raises(ConnectionError):
        ask(desk, "pause", ids)
    assert are_paused(desk, ids) == [True] * 4 + [False] * 2
    rest = ask(desk, "pause", ids)
    assert (rest.repeated, rest.counts) == (True, {Became.CHANGED: 4, Became.UNCHANGED: 2})
    assert are_paused(desk, ids) == [True] * 6


def test_a_repeated_undo_says_what_the_first_did_although_a_transaction_had_nothing_to_take_back(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_writer, "MAX_TASKS_AT_ONCE", 2)
    ids = many(desk, 6)
    desk.scheduler.bulk.change("pause", ids[:2])
    undo = ask(desk, "pause", ids).undo
    first, again = (ask(desk, "undo", [], undo=undo) for _ in range(2))
    assert (first.repeated, again.repeated) == (False, True)
    assert became(again) == became(first) == dict.fromkeys(ids[2:], Became.CHANGED)


def test_a_call_that_was_taken_back_is_made_again(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_writer, "MAX_TASKS_AT_ONCE", 2)
    ids = many(desk, 6)
    desk.scheduler.bulk.change("pause", ids[2:4])
    desk.scheduler.bulk.change("undo", undo=ask(desk, "pause", ids).undo, by=BOB)
    again = ask(desk, "pause", ids)
    assert (again.repeated, again.counts) == (False, {Became.CHANGED: 4, Became.UNCHANGED: 2})


def test_a_call_that_changed_nothing_is_made_again_and_one_without_an_undo_is_not(desk: Desk) -> None:
    ids = two(desk)
    assert [ask(desk, "resume", ids).repeated for _ in range(2)] == [False] * 2
    desk.clock.at += timedelta(days=2)
    ready = desk.store.claims.make_ready(limit=9)
    desk.store.claims.start([Start(each.run_id) for each in ready], worker="w", epoch=None, lease=timedelta(days=9))
    first, again = (ask(desk, "cancel", ids) for _ in range(2))
    assert (first.undo, first.counts) == (None, {Became.CHANGED: 2})
    assert (again.repeated, again.undo, became(again)) == (True, None, became(first))
    assert [again.why_final(each) for each in again.outcomes] == [
        why_cancel_is_final(each.record) for each in first.outcomes
    ]


@pytest.mark.parametrize("known_by", [{"idempotency_key": "k"}, {"raw": {"change": "replay"}}])
def test_a_repeated_replay_says_how_many_it_left_to_another_call(desk: Desk, known_by: Any) -> None:
    for title in ("A", "B", "C"):
        desk.scheduler.schedule(title, when="now", labels=["hooks"])
    settled(desk.store, desk.clock(), Failed("the CRM is away"))
    call: Any = {"where": TaskFilter(label="hooks"), "expect": 1, "max_letters": 1, **known_by}
    first, again = (desk.scheduler.bulk.change("replay", **call) for _ in range(2))
    assert [(each.repeated, each.left) for each in (first, again)] == [(False, 2), (True, 2)]


@on_each_database
def test_of_two_equal_discards_at_one_moment_the_one_that_closed_the_letters_is_repeated_and_taken_back(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [desk.scheduler.schedule("A", when="now").record.task.id]
    settled(desk.store, desk.clock(), Failed("the CRM is away"))
    remember = desk.store.batches.remember

    def second(*args: Any) -> None:
        monkeypatch.setattr(desk.store.batches, "remember", remember)
        assert ask(desk, "discard", ids, reason="sent by hand").counts == {Became.UNCHANGED: 1}
        remember(*args)

    monkeypatch.setattr(desk.store.batches, "remember", second)
    done, again = (ask(desk, "discard", ids, reason="sent by hand") for _ in range(2))
    assert (done.counts, again.repeated, again.undo) == ({Became.CHANGED: 1}, True, done.undo)
    assert desk.scheduler.bulk.change("undo", undo=done.undo).counts == {Became.CHANGED: 1}


@on_each_database
def test_no_caller_names_a_key_that_is_made_here(desk: Desk) -> None:
    ids = two(desk)
    desk.scheduler.schedule("Three", when="in 1 hour", raw={"title": "Three"})
    ask(desk, "pause", ids)
    desk.scheduler.schedule("Failed", when="now")
    settled(desk.store, desk.clock(), Failed("away"))
    desk.scheduler.letters.discard(reason="sent by hand", idempotency_key="k")
    stored = desk.store._database.read(lambda connection: connection.execute(select(keys.c.key)).scalars().all())
    assert {name.partition(":")[0] for name in stored} == {"batch", "closed", "derived", "latest-batch"}
    for name in stored:
        with pytest.raises(InvalidArgument, match=r"keys that begin with .* are the scheduler's own") as refused:
            desk.scheduler.schedule("Mine", when="tomorrow", idempotency_key=name)
        assert refused.value.argument == "idempotency_key"
        prefix, _, rest = name.partition(":")
        with pytest.raises(InvalidArgument, match="the scheduler's own"):
            desk.scheduler.schedule(
                "Mine", when="tomorrow", labels=[f"own:{prefix}"], idempotency_key=f"{{label.own}}:{rest}"
            )
    assert ask(desk, "pause", ids).repeated
