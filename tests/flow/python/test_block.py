"""The block of `Scheduler.open`: nothing is called before it or after it, and no thread of it is left."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest
from duetime import Context, Done, DuetimeError, Scheduler, Settings, State, handler, testing

METHODS = sorted(name for name, value in vars(Scheduler).items() if callable(value) and not name.startswith("_"))
NEEDED: dict[str, tuple[Any, ...]] = {
    "act": ("t_1", "snooze"),
    "change_many": ("cancel",),
    "dead_letter": ("r_1",),
    "decision": ("d_1",),
    "discard": (["r_1"],),
    "event_buckets": ("day",),
    "event_counts": ("kind",),
    "find": ("x",),
    "replay": (["r_1"],),
    "run_buckets": ("day",),
    "run_counts": ("action",),
    "run_log": ("r_1",),
    "schedule": ("Stretch",),
    "schedule_many": ([],),
    "send_event": ("paid",),
    "set_quiet_hours": ("none",),
    "submit": (),
    "titles": (["t_1"],),
    **dict.fromkeys(("approve", "attempts", "cancel", "explain", "get", "make_fire_address", "reject"), ("t_1",)),
    **dict.fromkeys(("reschedule", "revoke_fire_address", "wait"), ("t_1",)),
}


@pytest.fixture(scope="module")
def closed() -> Scheduler:
    with testing.open_scheduler() as scheduler:
        pass
    return scheduler


@pytest.mark.parametrize("name", [name for name in METHODS if name not in {"open", "submit"}])
def test_after_its_block_every_method_says_that_the_scheduler_is_closed(closed: Scheduler, name: str) -> None:
    options = {"reason": "none"} if name in {"replay", "discard"} else {}
    with pytest.raises(DuetimeError, match=r"^this Scheduler is closed.* `with Scheduler\.open\(\) as scheduler:`"):
        getattr(closed, name)(*NEEDED.get(name, ()), **options)


@pytest.mark.parametrize("name", ["pools", "policies", "zone"])
def test_after_its_block_no_fact_of_it_can_be_had(closed: Scheduler, name: str) -> None:
    with pytest.raises(DuetimeError, match=r"^this Scheduler is closed"):
        getattr(closed, name)


def test_a_scheduler_opened_without_a_block_says_how_to_begin_it() -> None:
    with pytest.raises(AttributeError, match=r"Write `with Scheduler\.open\(\) as scheduler:`, and use scheduler\.get"):
        Scheduler.open().get("t_1")  # type: ignore[attr-defined] # the mistake under test
    with pytest.raises(TypeError, match=r"write `with Scheduler\.open\(\) as scheduler:`"):
        Scheduler()


@handler("nothing")
def nothing(_ctx: Context) -> Done:
    return Done("done")


def test_no_thread_is_left_after_the_block() -> None:
    before = set(threading.enumerate())
    with testing.open_scheduler(handlers=[nothing], run=True, threads=3) as scheduler:
        scheduler.wait(scheduler.schedule("x", action="nothing").record.task.id)
    assert [thread.name for thread in set(threading.enumerate()) - before if thread.is_alive()] == []


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows has no forks")
def test_a_forked_child_that_leaves_the_block_leaves_the_work_of_its_parent_alone(tmp_path: Path) -> None:
    begun, let_go = threading.Event(), threading.Event()

    @handler("held")
    def held(ctx: Context) -> Done:
        begun.set()
        assert let_go.wait(60)
        return Done(f"attempt {ctx.attempt}")

    settings = Settings.model_validate(
        {
            "database_url": f"sqlite:///{tmp_path / 'duetime.db'}",
            "desktop_notifications": "off",
            "timezone": "UTC",
            "grace_seconds": 1,
        }
    )
    child, task_id = -1, ""
    try:
        with Scheduler.open(settings, handlers=[held]) as scheduler:
            task_id = scheduler.schedule("x", action="held").record.task.id
            assert begun.wait(60)
            child = os.fork()
            if child:
                _, status = os.waitpid(child, 0)
                assert status == 0
                assert scheduler.get(task_id).record.run.state is State.RUNNING
                let_go.set()
                ended = scheduler.wait(task_id, timeout=60).record.run
                assert (ended.state, ended.summary, len(scheduler.attempts(task_id))) == (
                    State.SUCCEEDED,
                    "attempt 1",
                    1,
                )
    except BaseException:
        if child == 0:
            os._exit(1)
        raise
    if child == 0:
        os._exit(0)
