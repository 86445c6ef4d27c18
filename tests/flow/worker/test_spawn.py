"""A handler that returns Spawn: its tasks run, and what comes after it runs after all of them."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from duetime import Context, Done, Scheduler, Settings, Spawn, State, handler


@handler("fan")
def fan(ctx: Context) -> Done:
    """Spawn three tasks."""
    return Spawn([{"name": f"n{number}", "action": "count", "payload": {"number": number}} for number in range(3)])


@handler("count")
def count(ctx: Context, payload: dict[str, int]) -> Done:
    """Return a number."""
    return Done(result=payload["number"])


@handler("sum")
def total(ctx: Context) -> Done:
    """Add what the spawned tasks returned."""
    return Done(result=sum(value for name, value in ctx.inputs.items() if name.startswith("fan/")))


@handler("wrong")
def wrong(ctx: Context) -> Done:
    """Spawn what there is not."""
    return Done(spawn=[{"name": "one", "action": "no_such_action"}])


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(database_url=f"sqlite:///{tmp_path / 'duetime.db'}", timezone="UTC")


def test_a_step_runs_after_all_that_the_one_before_it_spawned(settings: Settings) -> None:
    with Scheduler.open(settings, handlers=[fan, count, total]) as scheduler:
        view = scheduler.schedule(
            "Add", steps=[{"name": "fan", "action": "fan"}, {"name": "sum", "action": "sum", "after": ["fan"]}]
        )
        ended = scheduler.wait(view.record.task.id, timeout=timedelta(seconds=30))
        assert ended.record.run.state is State.SUCCEEDED
        assert ended.chain
        assert [step.name for step in ended.chain.steps] == ["fan", "fan/n0", "fan/n1", "fan/n2", "sum"]
        assert scheduler.get(ended.chain.steps[-1].task_id).record.run.result == 3


def test_a_run_fails_that_spawns_what_cannot_be(settings: Settings) -> None:
    with Scheduler.open(settings, handlers=[wrong]) as scheduler:
        task_id = scheduler.schedule("Spawn", action="wrong").record.task.id
        run = scheduler.wait(task_id, timeout=timedelta(seconds=30)).record.run
        assert run.state is State.FAILED
        assert "it cannot spawn its tasks: steps.one.action" in (run.error or "")
