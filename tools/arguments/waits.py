"""The arguments that say what a task waits for: other tasks, an event, and the user."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from duetime.scheduler.chain.dependency import MAX_UPSTREAMS
from duetime.scheduler.chain.steps import is_outside
from duetime.scheduler.chain.upstream_check import AFTER_A_FAILURE, is_only_on_failure
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.request import AfterFailure
from duetime.scheduler.rules.signals.meant_waits import meant_name
from duetime.scheduler.task import Json
from duetime.tools.arguments.approval import ApprovalTerms
from duetime.tools.arguments.arguments import ActionOfTask, Argument
from duetime.tools.arguments.choices import Choice
from duetime.tools.arguments.types import Object, Texts

RUN_ON_FAILURE = "on_failure={'run': {'action': 'reminder', 'payload': {'message': 'It failed'}}}"


@dataclass(frozen=True, slots=True)
class EventWait(Object):
    """The members of a wait for an event; the service reads them."""

    def corrected(self, given: Json) -> Json:
        """Return the wait for an event that was named alone, or for any of several."""
        names = [given] if isinstance(given, str) else given if isinstance(given, list) else []
        meant = [meant_name(name) for name in names]
        if not meant or None in meant:
            return None
        return {"event": meant[0]} if len(meant) == 1 else {"any": [{"event": name} for name in meant]}


@dataclass(frozen=True, slots=True)
class UpstreamIds(Texts):
    """Ids of tasks and chains: no id has a comma, so several in one text are a list."""

    limit: int = MAX_UPSTREAMS
    listed: bool = True

    def read(self, given: Json) -> list[str]:
        meant = self.corrected(given)
        several = isinstance(meant, list) and len(meant) > 1 and all(map(is_outside, meant))
        return Texts.read(self, meant if several else given)


@dataclass(frozen=True, slots=True)
class FailurePolicy(Argument):
    """The effect of a failure of a task in `after`; a task that is to run only then is for another call."""

    def problem_in(self, call: Mapping[str, Json], problem: str, action_of: ActionOfTask) -> InvalidArgument:
        """Return what is wrong, for a task that is to run only after a failure with the call that makes it so."""
        after = call.get("after")
        failing = after[0] if isinstance(after, list) and after else after
        if not (is_only_on_failure(call[self.name]) and isinstance(failing, str)):
            return Argument.problem_in(self, call, problem, action_of)
        example = f"reschedule_task(task_id={failing[:40]!r}, {RUN_ON_FAILURE})"
        problem = f"{problem}; {AFTER_A_FAILURE}"
        return InvalidArgument(self.name, problem, accepted=self.kind.accepted, example=example)


AFTER = Argument("after", UpstreamIds(), "Ids of tasks or chains: wait for their end", "after=['t_7k3m9qx2w4hb']")
AFTER_FAILURE = FailurePolicy(
    "after_failure", Choice(tuple(AfterFailure)), "If one of them fails; default fail", "after_failure='run_anyway'"
)
APPROVAL = Argument(
    "approval", ApprovalTerms(), "Ask the user first", "approval={'question': 'Pay 90 EUR?', 'by': '2 hours'}"
)
WAIT_FOR = Argument(
    "wait_for",
    EventWait(),
    "Each run waits for an event: {event or any: [{event, match}]; match: data members, {'order.id': 7}; timeout: "
    "'2 days'; lookback; on_timeout: expire|run|skip; or_when: true = it or when}",
    "wait_for={'event': 'paid', 'timeout': '2 days'}",
)
