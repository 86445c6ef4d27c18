"""Claims as the answers of worker tools: structured content, and the same in lines of text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from duetime.scheduler.errors import Refused
from duetime.scheduler.rules.time import times
from duetime.scheduler.task import Json
from duetime.tools.arguments.arguments import Argument
from duetime.tools.arguments.types import Text
from duetime.tools.definition import Sender
from duetime.tools.results import answer
from mcp.types import CallToolResult

if TYPE_CHECKING:
    from duetime.scheduler.worker.external.answers import ClaimedRun, FinishedClaim, RenewedClaim
    from duetime.scheduler.worker.external.external_runs import ExternalRuns

CLAIM = Argument("claim", Text(80), "", "claim='r_3k9x2m7q4hb5c8d1.1'", required=True)
NO_EXTERNAL_ACTION = (
    "No action is executed by workers elsewhere here: an administrator declares them in the setting external_actions, "
    "as [external_actions.transcribe]."
)


def external_runs(sender: Sender) -> ExternalRuns:
    """Return the claims of this installation. Raises Refused where no action is external."""
    found = sender.scheduler.external_runs
    if found is None:
        raise Refused(NO_EXTERNAL_ACTION)
    return found


def claims_answer(claimed: Sequence[ClaimedRun]) -> CallToolResult:
    """Answer with the runs that a worker has claimed."""
    rows: list[Json] = [_claimed(each) for each in claimed]
    head = f"You hold {len(rows)} claim{'s' if len(rows) != 1 else ''}:" if rows else "No run is ready for you now."
    lines = [head, *(json.dumps(row, ensure_ascii=False) for row in rows)]
    return answer({"schema": "duetime.claims/1", "claims": rows}, "\n".join(lines))


def renewed_answer(renewed: RenewedClaim) -> CallToolResult:
    """Answer with what a worker is to do with a run whose lease was renewed."""
    until = times.utc(renewed.lease_until)
    row: dict[str, Json] = {
        "schema": "duetime.claim/1",
        "claim": str(renewed.name),
        "directive": renewed.directive.value,
        "lease_until": until,
        "ends_by": times.utc(renewed.ends_by),
    }
    why = f": {renewed.reason}" if renewed.reason else ""
    if renewed.reason:
        row["reason"] = renewed.reason
    text = f"{renewed.directive.value}{why}. The lease ends {until}, the time limit {row['ends_by']}."
    return answer(row, text)


def finished_answer(finished: FinishedClaim) -> CallToolResult:
    """Answer with the recorded end of an attempt."""
    known: dict[str, Json] = {
        "schema": "duetime.finished_claim/1",
        "claim": str(finished.name),
        "outcome": finished.outcome,
        "run_state": finished.state.value if finished.state else None,
        "reason": finished.reason,
        "ended_at": times.utc_or_none(finished.ended_at),
    }
    row: dict[str, Json] = {name: value for name, value in known.items() if value is not None}
    left = f", which left its run {finished.state.value}" if finished.state else ""
    why = f" ({finished.reason})" if finished.reason else ""
    return answer(row, f"The attempt is recorded as {finished.outcome}{left}{why}.")


def _claimed(each: ClaimedRun) -> dict[str, Json]:
    context, task = each.context, each.claim.task
    known: dict[str, Json] = {
        "claim": str(each.name),
        "task_id": task.id,
        "run_id": each.claim.run.id,
        "action": task.action,
        "title": task.title,
        "payload": dict(task.payload),
        "attempt": context.attempt,
        "idempotency_key": context.idempotency_key,
        "scheduled_for": times.utc(context.scheduled_for),
        "deadline": times.utc_or_none(context.deadline),
        "timezone": task.timezone,
        "labels": list(context.labels) or None,
        "needs": dict(context.needs) or None,
        "checkpoint": context.checkpoint_state,
        "inputs": dict(each.inputs) or None,
        "event": dict(each.event) if each.event else None,
        "traceparent": context.traceparent,
        "tracestate": context.tracestate,
        "time_limit_seconds": each.time_limit.total_seconds(),
        "ends_by": times.utc(each.ends_by),
        "lease_until": times.utc(each.lease_until),
    }
    return {name: value for name, value in known.items() if value is not None}
