"""Hosts as they are: they look at a server before they use it, and end it with less patience than it would like."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pytest
from duetime.scheduler.task import State

from tests.faults.conftest import Line, Site
from tests.faults.host import CLOSED, INTERRUPTED, PROBE, UNHEARD, End, Host
from tests.flow.waiting import eventually

pytestmark = pytest.mark.faults

Start = Callable[..., Host]

OPENING = ("resources/list",) * 20
"""The first opens the application; a process that took the seat at once would have it by the last."""


@pytest.fixture
def start(site: Site) -> Iterator[Start]:
    """Return what starts one more host on the database of `site`; those that still live are killed at the end."""
    hosts: list[Host] = []

    def begin(**options: float) -> Host:
        hosts.append(Host(site.folder, **options))
        return hosts[-1]

    yield begin
    for host in hosts:
        host.kill()


@pytest.mark.parametrize(
    "asked",
    [("server/discover",), ("server/discover", "tools/list"), ("tools/list", *OPENING)],
    ids=["asked for its version", "asked for its tools", "opened the database"],
)
def test_a_client_that_starts_its_server_twice_runs_overdue_work_once(
    site: Site, start: Start, asked: tuple[str, ...]
) -> None:
    (task_id,) = site.add("effect", after=-60, payload={"seconds": 3})
    probe = start(listener_age_s=3600)  # what it is asked may take longer than a probe does on a busy machine
    for method in asked:
        assert "result" in probe.ask(method)
    probe.end(PROBE)
    assert site.store.runners.current() is None, "the probe took the seat of the runner"
    assert site.attempts(task_id) == []

    used = start()
    used.call("list_tasks")
    eventually(lambda: site.record(task_id).run.state is State.SUCCEEDED, "the work, in the process that is used")
    site.check([task_id])
    assert site.attempts(task_id) == ["done"]


@pytest.mark.parametrize("end", [CLOSED, INTERRUPTED, UNHEARD], ids=["closed", "interrupted", "killed in between"])
def test_the_ordinary_ends_of_hosts_are_no_crashes_and_work_goes_on_in_the_next_process(
    site: Site, start: Start, end: End
) -> None:
    (task_id,) = site.add("effect", payload={"seconds": 600})
    for attempt in (1, 2, 3):  # a third crash would fail it
        host = start()
        host.call("list_tasks")
        eventually(partial(has_started, site, attempt), "the next attempt")
        host.end(end)
    record = site.record(task_id)
    assert record.run.state is not State.FAILED
    assert record.run.crashes == 0
    assert set(site.attempts(task_id)) <= {"yielded", None}


def test_work_that_a_host_cut_goes_on_in_a_process_that_is_there(site: Site, start: Start) -> None:
    (task_id,) = site.add("effect", payload={"seconds": 600, "later_seconds": 0})
    first, second = start(), start()
    first.call("list_tasks")
    eventually(lambda: len(starts(site)) == 1, "the first attempt")
    second.call("list_tasks")
    assert first.end(CLOSED) == 0
    eventually(lambda: site.record(task_id).run.state is State.SUCCEEDED, "the work, in the other process")
    assert site.attempts(task_id) == ["yielded", "done"]
    assert [line.pid for line in starts(site)] == [first.process.pid, second.process.pid]


def has_started(site: Site, attempts: int) -> bool:
    return len(starts(site)) == attempts


def starts(site: Site) -> list[Line]:
    return [line for line in site.ledger() if line.step == "start"]
