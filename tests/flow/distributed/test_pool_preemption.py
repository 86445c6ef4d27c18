"""On PostgreSQL a run takes a pool from a less urgent run of another member."""

from __future__ import annotations

import threading

import pytest
from duetime.scheduler.handlers import Context, Handler, handler
from duetime.scheduler.outcomes import Done, Yielded
from duetime.scheduler.task import State
from duetime.server.app import Role

from tests.flow.breaking import Breaking
from tests.flow.installation import Installation
from tests.flow.waiting import eventually

pytestmark = pytest.mark.postgres


def test_a_critical_run_gets_the_pool_that_a_run_of_another_member_holds(
    migrated_postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts: list[tuple[str, str]] = []
    pause = threading.Event()

    def rendering(member: str) -> Handler:
        @handler("render", needs={"gpu": 1}, time_limit=600)
        def render(ctx: Context) -> Done | Yielded:
            """Run until a more urgent run needs the pool; an urgent one ends at once."""
            starts.append((member, ctx.task_id))
            while len(starts) < 2:
                if ctx.should_yield():
                    return Yielded(1)
                pause.wait(0.002)
            return Done()

        return render

    made = Installation(migrated_postgres_url, Breaking(), monkeypatch, threads=1, pools={"gpu": {"capacity": 1}})
    with made.closing() as installation:
        first = installation.member(Role.WORK, handlers=[rendering("first")])
        long = first.scheduler.schedule("Long", action="render", priority="background").record
        eventually(lambda: starts, "the background run")
        installation.member(Role.WORK, handlers=[rendering("second")])
        urgent = first.scheduler.schedule("Urgent", action="render", priority="critical").record

        def has_ended(task_id: str) -> bool:
            return first.scheduler.get(task_id).record.run.state is State.SUCCEEDED

        eventually(lambda: has_ended(urgent.task.id) and has_ended(long.task.id), "both to end")
        assert [task for _, task in starts] == [long.task.id, urgent.task.id, long.task.id]
