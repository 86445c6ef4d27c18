"""Every fault of docs/reliability.md, as a play on an installation: embedded (one SQLite file) or shared.

A play does its fault while work is under way, shows that it hit, and leaves the judgement to the checker.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from duetime.scheduler.runtime.failpoints import Step
from duetime.scheduler.task import RetryPolicy, State
from duetime.scheduler.worker.machine_load import Machine, allowance

from tests.faults.world import PATIENCE_S, THREAD_COUNT, Node, World, has_ended
from tests.faults.wrong_clock import CLOCK_SET
from tests.flow.waiting import eventually

EMBEDDED, SHARED = "embedded", "shared"
SOON = RetryPolicy(max_attempts=4, backoff=timedelta(milliseconds=10))
GIB_BYTES = 1 << 30

Play = Callable[[World], None]


@dataclass(frozen=True)
class Scenario:
    """A fault and where it is played. Scenarios that are `quick` are played with every test run."""

    name: str
    place: str
    play: Play
    quick: bool = False
    lease: float = 4.0
    proxied: bool = False

    def __str__(self) -> str:
        return f"{self.name}, {self.place}"


SCENARIOS: list[Scenario] = []


def scenario(
    name: str, *places: str, quick: tuple[str, ...] = (), lease: float = 4.0, proxied: bool = False
) -> Callable[[Play], Play]:
    """Add a play to the matrix, once for each place; `proxied` if its processes reach the servers through a proxy."""

    def add(play: Play) -> Play:
        SCENARIOS.extend(Scenario(name, place, play, place in quick, lease, proxied) for place in places)
        return play

    return add


# --- processes that die or stand still ------------------------------------------------------------------------------


@scenario("kill -9 of a worker in the middle of its tasks", EMBEDDED, SHARED)
def killed_in_the_middle(world: World) -> None:
    first = world.start()
    with world.traffic():
        world.start()
        for node in (first, world.start()):
            world.kill(world.working(node))
            world.start()
    world.rest()


@scenario("kill -9 with the lease of production (30 s)", SHARED, lease=30.0)
def killed_with_a_long_lease(world: World) -> None:
    first, _ = world.start(), world.start()
    with world.traffic():
        world.kill(world.working(first))
    world.rest()


def _stopped_at(step: Step) -> Play:
    def play(world: World) -> None:
        node = world.start(failpoint=f"{step}:kill:3")
        with world.traffic():
            world.died(node, f"kill -9 at {step}", signal.SIGKILL, f"fail point {step}: kill")
            world.start_again()
            world.schedule(20)
        world.rest()

    return play


for _step in list(Step)[1:]:
    scenario(f"kill -9 at the fail point {_step}", EMBEDDED, SHARED)(_stopped_at(_step))


@scenario("kill -9 at each fail point in turn", EMBEDDED, SHARED, quick=(EMBEDDED, SHARED))
def stopped_everywhere(world: World) -> None:
    with world.traffic(every=0.1):
        if world.shared:
            world.start()
        node = world.start(failpoint=f"{Step.MADE_READY}:kill:2")
        for step, following in zip(list(Step)[1:], [*list(Step)[2:], None], strict=True):
            world.died(node, f"kill -9 at {step}", signal.SIGKILL, f"fail point {step}: kill")
            node = world.start_again(failpoint=f"{following}:kill:2" if following else "")
    world.rest()


@scenario("a worker stands still for longer than its lease", EMBEDDED, SHARED)
def frozen_and_thawed(world: World) -> None:
    frozen = world.start()
    if world.shared:
        world.start()
    world.schedule(8, payload={"seconds": 1.0})
    with world.frozen(frozen):
        if (
            world.shared
        ):  # it may have been stopped in the middle of a write to the one file, which nobody can write then
            world.schedule(20)
        time.sleep(world.lease * 2)
    world.schedule(20)
    world.rest()


@scenario("kill -9 between two looks of a watch", EMBEDDED, SHARED, quick=(EMBEDDED,))
def killed_between_two_looks(world: World) -> None:
    node = world.start()
    lamp = world.folder / "lamp"
    payload = {"check": "lamp", "arguments": {"file": str(lamp)}, "condition": "@"}
    [watched] = world.schedule(1, action="watch", payload=payload)
    eventually(lambda: state_of(world, watched) is State.SUSPENDED, "the first look")
    killed_at_rest(world, node, "kill -9 between two looks", "after one look")
    lamp.touch()
    world.start_again()
    world.app.scheduler.act(watched, "run_now", by=world.acknowledged[watched])
    world.rest()
    run = world.app.scheduler.get(watched, by=world.acknowledged[watched]).record.run
    assert run.result == {"outcome": "met", "value": True, "looks": 2}, run.result
    assert [line.attempt for line in world.ledger() if line.step == "effect"] == [2]


def killed_at_rest(world: World, node: Node, name: str, when: str) -> None:
    """Kill a process that runs nothing."""
    began = time.time()
    node.process.kill()
    node.process.wait(PATIENCE_S)
    world.broke(name, f"process {node.pid} died {when}", began=began, deaths=(node.pid,))


# --- handlers that misbehave ----------------------------------------------------------------------------------------


def _misbehaving(action: str, *, times: int, count: int = 1) -> Play:
    def play(world: World) -> None:
        world.start()
        ids = world.schedule(count, action=action, payload={"times": times}, retry=SOON)
        others = world.schedule(20)
        world.run_until(lambda: all(has_ended(world, each) for each in [*ids, *others]))
        world.rest()
        states = {world.app.scheduler.get(each, by=world.acknowledged[each]).record.run.state for each in ids}
        assert states == {State.SUCCEEDED if times < 3 else State.FAILED}, states
        world.broke(f"a handler: {action}", f"{count} runs {action}, {min(3, times)} times each")

    return play


for _action in ("poison", "segfault", "exit"):
    scenario(f"a handler that ends its process, always: {_action}", EMBEDDED, SHARED)(_misbehaving(_action, times=99))
scenario("a handler that ends its process once: exit", EMBEDDED, SHARED)(_misbehaving("exit", times=1))
scenario("a handler that hangs", EMBEDDED, SHARED)(_misbehaving("hang", times=1, count=6))


@scenario("a handler that ignores its interrupt", EMBEDDED, SHARED)
def deaf(world: World) -> None:
    node = world.start()
    [stuck] = world.schedule(1, action="deaf", payload={"times": 9, "seconds": 8.0})
    eventually(lambda: world.in_the_middle(node.pid), "the deaf handler to start")
    world.app.scheduler.cancel(stuck, by=world.acknowledged[stuck])
    began = time.time()
    others = world.schedule(20)
    eventually(lambda: all(has_ended(world, each) for each in others), "the others to end")
    alone = (
        allowance(THREAD_COUNT, free_memory=1.0, load=Machine().load()) == 1
    )  # so busy that one thread works at a time
    ahead = alone or not has_ended(world, stuck)
    world.rest()
    evidence = f"cancelled, and ended {time.time() - began:.1f} s later"
    world.broke("a deaf handler", evidence + ("" if alone else "; 20 others ended first") if ahead else "", began=began)


@scenario("a handler that eats all memory", EMBEDDED, SHARED)
def greedy(world: World) -> None:
    node = world.start(memory=3 * GIB_BYTES)
    [hungry] = world.schedule(1, action="greedy", payload={"times": 1}, retry=SOON)
    world.schedule(20)
    world.rest()
    reasons = [each.reason or "" for each in world.app.scheduler.past.attempts(hungry, by=world.acknowledged[hungry])]
    ran_out = any("MemoryError" in reason for reason in reasons) and node.process.poll() is None
    world.broke("no memory left", "MemoryError in one attempt, and the process goes on" if ran_out else "")


# --- clocks ---------------------------------------------------------------------------------------------------------


@scenario("the clock of the machine is set back by 20 s, under load", EMBEDDED)
def clock_set_back(world: World) -> None:
    node = world.start(clock=20)
    patient = RetryPolicy(max_attempts=4, backoff=timedelta(seconds=2))
    failing = world.schedule(4, action="hang", payload={"times": 1}, retry=patient)
    with world.traffic():
        eventually(lambda: any(state_of(world, each) is State.RETRYING for each in failing), "a retry to wait", 60)
        node.process.send_signal(signal.SIGUSR1)
        eventually(lambda: node.said(CLOCK_SET), "the clock to be set")
        waiting = [each for each in failing if state_of(world, each) is State.RETRYING]
        world.schedule(20)
        began = time.monotonic()
        eventually(lambda: all(has_ended(world, each) for each in waiting), "the retries to end", 15)
        evidence = f"{len(waiting)} retries waited, and ended {time.monotonic() - began:.1f} s later" if waiting else ""
        world.broke("a clock set back by 20 s", evidence)
    world.rest()
    assert {state_of(world, each) for each in failing} == {State.SUCCEEDED}


def state_of(world: World, task_id: str) -> State:
    return world.app.scheduler.get(task_id, by=world.acknowledged[task_id]).record.run.state
