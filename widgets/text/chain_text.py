"""The text twin of a chain: how far it is, and the steps by their states."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from duetime.scheduler.rules.states import FAILURES
from duetime.scheduler.task import State
from duetime.widgets.quote import quoted
from duetime.widgets.schema.chain_parts import ChainPart, StepPart
from duetime.widgets.vocabulary import word_of

MAX_NAMES_SAID: Final = 8
_MAX_FAILURES_SAID: Final = 3
_ORDER: Final = (
    State.FAILED,
    State.EXPIRED,
    State.RUNNING,
    State.READY,
    State.RETRYING,
    State.SUSPENDED,
    State.SCHEDULED,
    State.WAITING,
    State.CANCELLED,
    State.SKIPPED,
    State.SUCCEEDED,
)


def chain_line(chain: ChainPart | None) -> str:
    """Say which step of which chain a task is."""
    if chain is None:
        return ""
    if chain.step:
        return f"Step {chain.step} of {chain.id} {quoted(chain.title, 40)}: {progress_in_words(chain)}."
    return "\n".join(
        [
            f"Chain: {progress_in_words(chain)}.",
            *_states(chain.steps or ()),
            *_failures(chain.steps or ()),
            *_unverified(chain.steps or ()),
        ]
    )


def progress_in_words(chain: ChainPart) -> str:
    """Say how far a chain is: `3 of 5 steps done, 1 unverified`."""
    unverified = f", {len(chain.unverified)} unverified" if chain.unverified else ""
    return f"{chain.done} of {chain.of} step{'' if chain.of == 1 else 's'} done{unverified}"


def _states(steps: Sequence[StepPart]) -> list[str]:
    found = {state: [step.name for step in steps if step.state is state] for state in _ORDER}
    parts = [f"{word_of(state).capitalize()}: {_named(names)}" for state, names in found.items() if names]
    return [f"{'; '.join(parts)}."] if parts else []


def _named(names: Sequence[str]) -> str:
    more = len(names) - MAX_NAMES_SAID
    return ", ".join(names[:MAX_NAMES_SAID]) + (f" and {more} more" if more > 0 else "")


def _unverified(steps: Sequence[StepPart]) -> list[str]:
    missed = [step for step in steps if step.unverified][:_MAX_FAILURES_SAID]
    return [f"{step.name} ({step.id}) unverified: {quoted(step.unverified or '', 80)}." for step in missed]


def _failures(steps: Sequence[StepPart]) -> list[str]:
    lost = [step for step in steps if step.why and step.state in FAILURES]
    return [f"{step.name} ({step.id}): {quoted(step.why or '', 80)}." for step in lost[:_MAX_FAILURES_SAID]]
