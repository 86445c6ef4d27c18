"""`duetime.testing`: a handler runs as under a worker, and a scheduler is shared with nothing."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from duetime import Context, Done, Failed, Retry, handler, testing
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


def test_an_exception_is_a_retry_and_a_result_that_is_no_outcome_a_failure() -> None:
    @handler("wrong")
    def wrong(ctx: Context) -> Done:
        return "done"  # type: ignore[return-value] # the mistake under test

    assert testing.run(resize, {"path": "a", "scale": 0}) == Retry("ValueError: no size is left")
    assert isinstance(testing.run(wrong), Failed)


def test_a_payload_that_does_not_fit_is_a_failure() -> None:
    refused = testing.run(resize, {"paht": "a.png"})

    assert isinstance(refused, Failed)
    assert refused.reason.startswith("the payload does not fit resize: payload.path")


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
