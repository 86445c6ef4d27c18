"""The arguments that say what a task waits for: other tasks, an event, and the user."""

from __future__ import annotations

from dataclasses import dataclass

from duetime.scheduler.chain.dependency import MAX_UPSTREAMS
from duetime.scheduler.request import AfterFailure
from duetime.scheduler.rules.signals.signal_waits import meant_name
from duetime.scheduler.task import Json
from duetime.tools.arguments.approval import ApprovalTerms
from duetime.tools.arguments.arguments import Argument
from duetime.tools.arguments.choices import Choice
from duetime.tools.arguments.types import Object, Texts


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


AFTER = Argument(
    "after", Texts(MAX_UPSTREAMS), "Ids of tasks or chains: wait for their end", "after=['t_7k3m9qx2w4hb']"
)
AFTER_FAILURE = Argument(
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
