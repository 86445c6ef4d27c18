"""Builds the part of the structured content that shows a chain."""

from __future__ import annotations

from typing import Final

from duetime.scheduler.rules.states import FAILURES
from duetime.scheduler.rules.time.times import utc
from duetime.scheduler.views import ChainStep, ChainView
from duetime.widgets.quote import cut
from duetime.widgets.schema.chain_parts import ChainPart, StepPart

MAX_STEPS_SHOWN: Final = 100
"""Steps of one answer; a fan-out may have made more."""

_TITLE_CHARS: Final = 60
_WHY_CHARS: Final = 120


def chain_part(chain: ChainView | None) -> ChainPart | None:
    """Return the part for a chain; the steps only where no single one is shown."""
    if chain is None:
        return None
    failed = tuple(step.name for step in chain.steps if step.state in FAILURES)
    unverified = tuple(step.name for step in chain.steps if step.unverified)
    return ChainPart(
        id=chain.id,
        title=cut(chain.title, _TITLE_CHARS),
        step=chain.step,
        done=chain.done,
        of=len(chain.steps),
        failed=failed[:MAX_STEPS_SHOWN] or None,
        unverified=unverified[:MAX_STEPS_SHOWN] or None,
        steps=None if chain.step else tuple(_step(chain, step) for step in chain.steps[:MAX_STEPS_SHOWN]),
    )


def _step(chain: ChainView, step: ChainStep) -> StepPart:
    usual = step.title == f"{chain.title}: {step.name}"
    return StepPart(
        name=step.name,
        id=step.task_id,
        title=None if usual else cut(step.title, _TITLE_CHARS),
        action=step.action,
        state=step.state,
        when=utc(step.due),
        after=step.after or None,
        why=cut(step.why, _WHY_CHARS) if step.why else None,
        unverified=cut(step.unverified, _WHY_CHARS) if step.unverified else None,
        paused=step.paused or None,
        paused_until=utc(step.paused_until) if step.paused_until else None,
    )
