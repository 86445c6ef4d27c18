"""Hosts as they are: they look at a server before they use it, and end it with less patience than it would like."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from duetime.scheduler.task import State

from tests.faults.conftest import Site, until
from tests.faults.host import PROBE, Host

pytestmark = pytest.mark.faults

Start = Callable[[], Host]


@pytest.fixture
def start(site: Site) -> Iterator[Start]:
    """Return what starts one more host on the database of `site`; those that still live are killed at the end."""
    hosts: list[Host] = []

    def begin() -> Host:
        hosts.append(Host(site.folder))
        return hosts[-1]

    yield begin
    for host in hosts:
        host.kill()


@pytest.mark.parametrize("asked", [("server/discover",), ("server/discover", "tools/list")])
def test_a_client_that_starts_its_server_twice_runs_overdue_work_once(
    site: Site, start: Start, asked: tuple[str, ...]
) -> None:
    (task_id,) = site.add("effect", after=-60, payload={"seconds": 3})
    probe = start()
    for method in asked:
        assert "result" in probe.ask(method)
    probe.end(PROBE)
    assert site.store.runners.current() is None, "the probe took the seat of the runner"
    assert site.attempts(task_id) == []

    used = start()
    used.call("list_tasks")
    until(lambda: site.record(task_id).run.state is State.SUCCEEDED, "the work, in the process that is used")
    site.check([task_id])
    assert site.attempts(task_id) == ["done"]
