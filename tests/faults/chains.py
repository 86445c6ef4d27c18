"""The plays of what follows from an end: steps of a chain, tasks that a handler spawns, tasks after a failure."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from typing import Any

from duetime.scheduler.errors import InvalidArgument, Refused
from duetime.scheduler.runtime.failpoints import Step
from duetime.scheduler.task import State
from duetime.scheduler.views import ChainStep, TaskFilter

from tests.faults.caller import CALLER
from tests.faults.scenarios import EMBEDDED, SHARED, Play, scenario, state_of
from tests.faults.world import Node, World

STEP_COUNT = 4
LET_GO = {State.SCHEDULED, State.READY, State.RUNNING}
FAILS: dict[str, Any] = {
    "expect": {"field": "order_id"},
    "on_failure": {"run": {"action": "effect", "payload": {}}, "tier": "high"},
}
FAILING_TASK_COUNT = 3


def a_chain(world: World, steps: Sequence[dict[str, Any]]) -> str:
    """Schedule a chain, and return its id."""
    [chain_id] = world.schedule(1, action="reminder", steps=steps)
    del world.acknowledged[chain_id]
    acknowledge(world, chain_id)
    return chain_id


def acknowledge(world: World, chain_id: str) -> None:
    """Expect every step that the chain has by now."""
    world.acknowledged.update(dict.fromkeys((step.task_id for step in steps_of(world, chain_id)), CALLER))


def steps_of(world: World, chain_id: str) -> tuple[ChainStep, ...]:
    found = world.app.scheduler.get(chain_id, by=CALLER).chain
    assert found is not None
    return found.steps


def one_after_the_other() -> list[dict[str, Any]]:
    """Return steps each of which comes after the one before it."""
    after: list[dict[str, Any]] = [{"after": [f"s{number - 1}"]} if number else {} for number in range(STEP_COUNT)]
    return [{"name": f"s{number}", "action": "effect", **each} for number, each in enumerate(after)]


# --- steps of a chain -----------------------------------------------------------------------------------------------


def _cut_between(step: Step, time: int) -> Play:
    def play(world: World) -> None:
        chain_id = a_chain(world, one_after_the_other())
        dying = world.start(failpoint=f"{step}:kill:{time}")
        world.died(dying, f"kill -9 at {step}", signal.SIGKILL, f"fail point {step}: kill")
        first, second, *rest = [each.state for each in steps_of(world, chain_id)]
        between = first is State.SUCCEEDED and second in LET_GO and set(rest) == {State.WAITING}
        assert between, (first, second, rest)
        world.start_again()
        world.rest()
        assert {each.state for each in steps_of(world, chain_id)} == {State.SUCCEEDED}

    return play


for _step, _time in ((Step.SETTLED, 1), (Step.MADE_READY, 2), (Step.CLAIMED, 2)):
    _name = f"kill -9 between the end of a step and the next one, at {_step}"
    scenario(_name, EMBEDDED, SHARED, quick=(EMBEDDED,))(_cut_between(_step, _time))


@scenario(
    "kill -9 of a handler that spawns tasks, before and after that is stored", EMBEDDED, SHARED, quick=(EMBEDDED,)
)
def spawn_cut_off(world: World) -> None:
    listed = {"name": "list", "action": "spawns"}
    chain_id = a_chain(world, [listed, {"name": "sum", "action": "effect", "after": ["list"]}])
    stored: list[int] = []
    for step in (Step.HANDLED, Step.SETTLED):
        dying = world.start(failpoint=f"{step}:kill")
        world.died(dying, f"kill -9 at {step}", signal.SIGKILL, f"fail point {step}: kill")
        stored.append(len(steps_of(world, chain_id)))
    assert stored == [2, 4], "with the end all of it is stored, without it nothing"
    world.start_again()
    world.rest()
    acknowledge(world, chain_id)
    steps = steps_of(world, chain_id)
    assert ([each.state for each in steps], len(steps)) == ([State.SUCCEEDED] * 4, 4), steps
    order = [line.run_id for line in world.ledger() if line.step == "effect"]
    last = world.app.scheduler.get(next(each.task_id for each in steps if each.name == "sum"), by=CALLER)
    assert order[-1] == last.record.run.id, "it came before what was spawned"


# --- tasks after a failure ------------------------------------------------------------------------------------------


@scenario("kill -9 around failures after which a task follows", EMBEDDED, SHARED, quick=(EMBEDDED,))
def killed_around_a_failure(world: World) -> None:
    tasks = world.schedule(FAILING_TASK_COUNT, **FAILS)
    for spec in (f"{Step.CLAIMED}:kill", f"{Step.SETTLED}:kill", f"{Step.MADE_READY}:kill"):
        tasks += world.schedule(1, when="in 2 seconds", **FAILS)  # something to make ready, whatever has ended by now
        dying, step = world.start(failpoint=spec), spec.partition(":")[0]
        world.died(dying, f"kill -9 at {step}", signal.SIGKILL, f"fail point {step}: kill")
    world.start_again()
    world.rest()
    made = world.app.store.tasks.page(CALLER.tenant, TaskFilter(label="on_failure"), limit=99)[0]
    world.acknowledged.update(dict.fromkeys((each.task.id for each in made), CALLER))
    causes = [world.app.store.dependencies.failure(CALLER.tenant, each.task.id) for each in made]
    assert sorted(cause.task_id for cause in causes if cause) == sorted(tasks), "one follows from each"
    assert {each.run.state for each in made} == {State.SUCCEEDED}
    assert {world.app.scheduler.get(each, by=CALLER).record.task.priority for each in tasks} == {"high"}
    assert {state_of(world, each) for each in tasks} == {State.SUCCEEDED}


# --- links that change ----------------------------------------------------------------------------------------------


def _linked_while_it_ends(world: World, load: str, upstreams: Sequence[str], dying: Node) -> int:
    """Change what a task comes after for as long as a process lives; return how often."""
    for number in count():
        if dying.process.poll() is not None:
            return number
        with suppress(Refused, InvalidArgument):  # it may have gone already
            world.app.scheduler.reschedule(load, after=[upstreams[number % 2]], by=CALLER)
    return 0


@scenario("kill -9 of what settles a task, while links to it change", EMBEDDED, SHARED, quick=(EMBEDDED,))
def killed_while_links_change(world: World) -> None:
    upstreams = world.schedule(2)
    [load] = world.schedule(1, after=upstreams)
    for step in (Step.HANDLED, Step.SETTLED):
        dying = world.start(failpoint=f"{step}:kill")
        changed = _linked_while_it_ends(world, load, upstreams, dying)
        world.died(dying, f"kill -9 at {step}", signal.SIGKILL, f"fail point {step}: kill")
        assert changed, "no link was changed before it died"
    world.start_again()
    world.rest()
    assert {state_of(world, each) for each in (*upstreams, load)} == {State.SUCCEEDED}
    links = world.app.store.dependencies.upstreams(CALLER.tenant, load)
    ended = [line.run_id for line in world.ledger() if line.step == "effect"]
    runs = [world.app.scheduler.get(each.task_id, by=CALLER).record.run.id for each in links]
    last = world.app.scheduler.get(load, by=CALLER).record.run.id
    assert all(ended.index(run) < ended.index(last) for run in runs), "it came before what it comes after"
