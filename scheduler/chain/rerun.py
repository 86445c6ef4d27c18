"""The steps of a chain that run again so that what failed in it continues."""

from __future__ import annotations

from duetime.scheduler import remedies
from duetime.scheduler.chain.chain import ChainRecord, StepRecord, front_steps, last_generation, root_failures
from duetime.scheduler.chain.result_schema import mismatch
from duetime.scheduler.errors import Refused
from duetime.scheduler.task import Run, State


def steps_to_rerun(found: ChainRecord) -> dict[str, Run | None]:
    """Return the tasks that run again so that what failed continues, each with the run that failed itself, if it did.

    They are of the last generation where nothing of this one failed. A step that failed because of an invalid result
    continues once the step that gave it has run again.
    """
    of = found if root_failures(found) else last_generation(found)
    steps, again = {step.name: step for step in of.steps}, dict[str, Run | None]()
    stranded = {step.name for step in _stranded(found)}
    for step in root_failures(of):
        if step.name in stranded:
            continue
        before = [steps[name] for name in step.after if name in steps and _is_invalid(steps[name], step)]
        again |= {each.record.task.id: None if before else each.record.run for each in before or [step]}
    return again


def none_to_rerun(found: ChainRecord, argument: str = "") -> Refused:
    """Return the refusal of a replay of a chain in which no step can run again."""
    chain_id, remedy = found.chain.id, remedies.Inspect(found.chain.id)
    stranded = [] if root_failures(found) else _stranded(found)
    if not stranded:
        front = front_steps(found)
        is_ahead = bool(front) and all(step.record.run.state is State.SCHEDULED for step in front)
        sooner = remedies.MoveEarlier(chain_id) if is_ahead else remedy
        return Refused(f"no step of {chain_id} has failed.", argument=argument, remedy=sooner)
    step = stranded[0]
    error = (step.record.run.error or "").removesuffix(".")
    return Refused(
        f"{step.name} of {chain_id} failed with a task that its chain no longer has ({error}), so a replay would run "
        "it without that result. Replay that task: what comes after it follows.",
        argument=argument,
        remedy=remedy,
    )


def _stranded(found: ChainRecord) -> list[StepRecord]:
    """Return the steps of the last generation that failed with a task that a run spawned: it left the chain with it."""
    of = last_generation(found)
    steps = {step.name: step for step in of.steps}
    return [
        step
        for step in root_failures(of)
        if step.record.run.started_at is None
        and step.after
        and not any(_is_invalid(steps[name], step) for name in step.after if name in steps)
    ]


def _is_invalid(before: StepRecord, step: StepRecord) -> bool:
    """Whether the result of the step before kept a step from its start."""
    schema, run = step.schemas.get(before.name), before.record.run
    if step.record.run.started_at or schema is None or run.state is not State.SUCCEEDED:
        return False
    return mismatch(schema, run.result) is not None
