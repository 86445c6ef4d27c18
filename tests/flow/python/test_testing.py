"""`duetime.testing`: a handler runs as under a worker, and a scheduler is shared with nothing."""

from __future__ import annotations

import asyncio
import sys
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import fields
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from duetime import (
    Context,
    Done,
    Failed,
    HandlerError,
    InvalidArgument,
    InvalidSetting,
    Outcome,
    Retry,
    Scheduler,
    Settings,
    Spawn,
    handler,
    testing,
    watch_check,
)
from duetime.scheduler.worker.machine_load import Machine
from pydantic import BaseModel


class Resize(BaseModel):
    path: str
    scale: int = 2


@handler("resize", payload=Resize)
def resize(ctx: Context, payload: Resize) -> Done:
    if payload.scale == 0:
        raise ValueError("no size is left")
    return Done(f"{payload.path} x {payload.scale} at attempt {ctx.attempt}")


@handler("later", payload=Resize)
async def later(ctx: Context, payload: Resize) -> Done:
    return Done(payload.path)


def test_a_handler_runs_with_the_payload_that_its_model_makes() -> None:
    assert testing.run(resize, {"path": "a.png"}, ctx=testing.context(attempt=2)) == Done("a.png x 2 at attempt 2")
    assert testing.run(later, {"path": "b.png"}) == Done("b.png")


@pytest.mark.parametrize(
    ("asked", "kept"), [({"capture_prints": True}, ["resized"]), ({}, []), ({"capture_prints": False}, [])]
)
def test_a_program_keeps_prints_with_the_run_where_it_asks_for_that(
    capsys: pytest.CaptureFixture[str], asked: dict[str, Any], kept: list[str]
) -> None:
    @handler("say")
    def say(_ctx: Context) -> Done:
        sys.stdout.write("resized\n")
        return Done()

    with testing.open_scheduler(handlers=[say], run=True, **asked) as scheduler:
        record = scheduler.schedule("Say", action="say").record
        scheduler.wait(record.task.id, timeout=30)
        assert [line.text for line in scheduler.run_log(record.run.id).lines] == kept
    sys.stdout.write("after\n")
    assert capsys.readouterr().out == ("" if kept else "resized\n") + "after\n"


def test_handlers_that_wait_for_each_other_meet_on_a_busy_machine_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Machine, "load", lambda _: 100.0)
    both = threading.Barrier(2)

    @handler("meet")
    def meet(_ctx: Context) -> Done:
        both.wait(30)
        return Done("met")

    with testing.open_scheduler(handlers=[meet], run=True) as scheduler:
        met = [scheduler.schedule(title, action="meet").record.task.id for title in ("One", "Other")]
        assert [scheduler.wait(task_id, timeout=60).record.run.summary for task_id in met] == ["met", "met"]


def test_an_exception_is_a_retry_and_a_result_that_is_no_outcome_a_failure() -> None:
    @handler("wrong")
    def wrong(ctx: Context) -> Done:
        return "done"  # type: ignore[return-value] # the mistake under test

    assert testing.run(resize, {"path": "a", "scale": 0}) == Retry("ValueError: no size is left")
    assert isinstance(testing.run(wrong), Failed)


def test_a_payload_that_does_not_fit_is_a_failure() -> None:
    refused = testing.run(resize, {"paht": "a.png"})

    assert isinstance(refused, Failed)
    assert refused.reason.startswith("the payload does not fit resize: payload.paht: unknown field")


def test_a_scheduler_of_a_test_reads_no_settings_and_keeps_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DUETIME_TIMEZONE", "Asia/Tokyo")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with testing.open_scheduler(handlers=[resize]) as scheduler:
        view = scheduler.schedule("Resize", when="in 2 hours", action="resize", payload={"path": "a.png"})
        assert list(tmp_path.iterdir()) != []

    assert view.record.task.timezone == "UTC"
    assert list(tmp_path.iterdir()) == []


@handler("count", needs={"tokens": 5})
def count(ctx: Context) -> Done:
    ctx.use("tokens", 3)
    return Done(f"attempt {ctx.attempt} needs {ctx.needs['tokens']}")


def test_a_context_has_the_needs_of_the_handler_unless_it_has_its_own() -> None:
    assert testing.run(count) == Done("attempt 1 needs 5")
    assert testing.run(count, ctx=testing.context(attempt=2)) == Done("attempt 2 needs 5")
    assert testing.run(count, ctx=testing.context(needs={"tokens": 7})) == Done("attempt 1 needs 7")


def test_an_async_handler_is_awaited_within_an_event_loop() -> None:
    async def inside() -> tuple[Outcome, Outcome]:
        with pytest.raises(HandlerError, match=r"write `await testing\.arun\(later, \.\.\.\)`"):
            testing.run(later, {"path": "c.png"})
        return testing.run(resize, {"path": "c.png"}), await testing.arun(later, {"path": "c.png"})

    assert asyncio.run(inside()) == (Done("c.png x 2 at attempt 1"), Done("c.png"))


def test_a_plain_function_is_named_with_what_it_lacks() -> None:
    def plain(ctx: Context) -> Done:
        return Done()

    with pytest.raises(HandlerError, match=r'plain has no @handler; write @handler\("plain"\) above its def'):
        testing.run(plain)  # type: ignore[arg-type] # the mistake under test


def test_a_value_that_is_not_a_handler_is_named_with_what_to_write() -> None:
    with pytest.raises(HandlerError, match=r'<lambda> has no @handler; write @handler\("name"\)'):
        testing.run(lambda _ctx: Done())  # type: ignore[arg-type] # the mistake under test
    with pytest.raises(HandlerError, match=r"flag is a check of a watch; call it, as in check\(testing\.context\(\)"):
        testing.run(flag)  # type: ignore[arg-type] # as above


@pytest.mark.parametrize(
    ("steps", "named"),
    [
        ([{"name": "a", "actoin": "resize"}], "actoin"),
        ([{"name": "a", "action": "resize"}, {"name": "a", "action": "resize"}], "a"),
        ([{"name": "a", "action": "resize", "after": ["b"]}], "b"),
    ],
)
def test_tasks_that_no_worker_would_spawn_are_a_failure(steps: list[dict[str, Any]], named: str) -> None:
    @handler("spread")
    def spread(ctx: Context) -> Spawn:
        return Spawn(steps)

    found = testing.run(spread)
    assert isinstance(found, Failed)
    assert found.reason.startswith("it cannot spawn its tasks: spawn")
    assert named in found.reason


def test_a_scheduler_of_a_test_knows_no_action_of_another_distribution(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = tmp_path / "acme-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n", "utf-8")
    (info / "entry_points.txt").write_text(f"[duetime.handlers]\nacme = {__name__}:later\n", "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    settings = Settings.model_validate({"database_url": f"sqlite:///{tmp_path / 'duetime.db'}", "timezone": "UTC"})

    with Scheduler.open(settings, run=False) as program:
        program.schedule("x", when="in 2 hours", action="later", payload={"path": "a.png"})
    with testing.open_scheduler(handlers=[resize]) as scheduler:
        with pytest.raises(InvalidArgument, match=r"no action 'later'\. Accepted: reminder, webhook, watch, resize\."):
            scheduler.schedule("x", when="in 2 hours", action="later", payload={"path": "a.png"})
        with pytest.raises(InvalidSetting, match="entry_points"):
            testing.open_scheduler(entry_points=True).__enter__()


@watch_check("flag")
def flag(ctx: Context, options: Mapping[str, Any]) -> bool:
    return True


def test_a_wrong_setting_of_a_test_is_named() -> None:
    with pytest.raises(InvalidSetting, match=r"thread \(testing\.open_scheduler\): .* Did you mean threads\?"):
        testing.open_scheduler(handlers=[flag], thread=3).__enter__()


@pytest.mark.parametrize("wrong", ["inputs", "event", "approval"])
def test_a_value_of_the_link_is_refused_as_an_argument_of_the_context(wrong: str) -> None:
    with pytest.raises(InvalidArgument, match=rf"Example: link=testing\.Link\({wrong}=lambda: "):
        testing.context(**{wrong: {}})


@pytest.mark.parametrize(
    ("given", "example"),
    [
        (
            {"evnet": dict},
            "Link(event=lambda: {'name': 'paid', 'id': 'e1', 'data': {}, 'at': '2026-01-01T09:00:00+00:00'})",
        ),
        ({"canceled": bool}, "Link(cancelled=lambda: True)"),
        ({"xyz": bool}, "Link(cancelled=lambda: True)"),
    ],
)
def test_a_member_that_a_link_does_not_have_is_answered_with_the_one_that_is_meant(
    given: dict[str, Any], example: str
) -> None:
    members = "save, report, use, busy, cancelled, should_yield, now, secret, inputs, approval, event, event_timed_out"
    (name,) = given
    with pytest.raises(InvalidArgument) as refused:
        testing.Link(**given)
    assert str(refused.value) == (
        f"{name}: a link has no such member. Accepted: {members}. Example: link=testing.{example}"
    )


def test_a_member_of_a_link_that_cannot_be_called_is_answered_with_one_that_can() -> None:
    with pytest.raises(
        InvalidArgument,
        match=r"event: dict cannot be called\. Accepted: a function\. Example: link=testing\.Link\(event=lambda: ",
    ):
        testing.Link(event={"name": "paid"})  # type: ignore[arg-type] # the mistake under test


@pytest.mark.parametrize("member", [item.name for item in fields(testing.Link)])
def test_the_example_of_each_member_of_a_link_makes_one(member: str) -> None:
    made: Any = testing.Link
    with pytest.raises(InvalidArgument) as refused:
        made(**{member: None})
    example = str(refused.value).split("Example: link=", 1)[1]
    assert callable(getattr(eval(example, {"testing": testing, "datetime": datetime}), member))


def test_a_fact_that_a_context_does_not_have_is_answered_with_those_that_it_has() -> None:
    with pytest.raises(InvalidArgument, match=r"atempt: .*Accepted: .*attempt, .*Example: attempt=2"):
        testing.context(atempt=2)


def test_a_handler_reads_the_inputs_the_answer_and_the_event_that_its_test_gives() -> None:
    @handler("read")
    def read(ctx: Context) -> Done:
        assert ctx.approval is not None
        assert ctx.event is not None
        return Done(f"{ctx.inputs['fetch']} {ctx.approval.by} {ctx.event.data} {ctx.event.at:%Y}")

    link = testing.Link(
        inputs=lambda: {"fetch": 3},
        approval=lambda: {"answer": "approve", "by": "ann"},
        event=lambda: {"name": "paid", "id": "e1", "data": {"order": 7}, "at": "2026-11-20T12:00:00+00:00"},
    )
    assert testing.run(read, ctx=testing.context(link=link)) == Done("3 ann {'order': 7} 2026")
