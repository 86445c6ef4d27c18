"""The tools by which a worker elsewhere reports on a run that it holds: heartbeat, checkpoint, finish."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from duetime.scheduler.principal import Scope
from duetime.scheduler.task import Json
from duetime.tools.arguments.arguments import Argument
from duetime.tools.arguments.choices import Choice
from duetime.tools.arguments.time_text import Length
from duetime.tools.arguments.types import Object, Text
from duetime.tools.definition import Definition, Sender, hints
from duetime.tools.worker.claim_answers import CLAIM, external_runs, finished_answer, renewed_answer
from duetime.tools.worker.numbers import Fraction, UnitsUsed
from mcp.types import CallToolResult

OUTCOMES: Final = ("done", "retry", "failed", "yielded")
MAX_SUMMARY_SENT_CHARS: Final = 10_000
"""Characters that are read; what is stored of them is as short as for local handlers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatRun:
    """A sign of life of a worker; `progress` is the part of the work that is done."""

    claim: str
    progress: float | None = None
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointRun:
    """The state from which the next attempt starts."""

    claim: str
    state: Mapping[str, Json]


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishRun:
    """The end of an attempt, as its worker reports it."""

    claim: str
    outcome: str
    summary: str = ""
    result: Mapping[str, Json] | None = None
    error: str = ""
    retry_in: str | float | None = None
    usage: Mapping[str, float] = field(default_factory=dict)


def _heartbeat(call: HeartbeatRun, sender: Sender) -> CallToolResult:
    progress = None if call.progress is None and not call.note else (call.progress, call.note)
    return renewed_answer(external_runs(sender).heartbeat(call.claim, progress=progress, by=sender.by))


def _checkpoint(call: CheckpointRun, sender: Sender) -> CallToolResult:
    return renewed_answer(external_runs(sender).checkpoint(call.claim, dict(call.state), by=sender.by))


def _finish(call: FinishRun, sender: Sender) -> CallToolResult:
    from duetime.scheduler.worker.external.reports import (  # noqa: PLC0415 - with the worker's parts
        ReportedOutcome,
        WorkerReport,
    )

    runs = external_runs(sender)
    report = WorkerReport(
        ReportedOutcome(call.outcome),
        call.summary,
        None if call.result is None else dict(call.result),
        call.error,
        call.retry_in,
        call.usage,
    )
    return finished_answer(runs.finish(call.claim, report, by=sender.by))


HEARTBEAT_RUN = Definition(
    "heartbeat_run",
    "Renew a claim",
    "For workers: renew the lease of a claim. Obey the directive: continue; yield: checkpoint_run, then finish_run "
    "with outcome yielded; cancel: stop, then finish_run.",
    (
        CLAIM,
        Argument("progress", Fraction(), "0 to 1", "progress=0.5"),
        Argument("note", Text(200), "What is done now", "note='page 3 of 7'"),
    ),
    HeartbeatRun,
    _heartbeat,
    hints(idempotent=True, outside=False),
    card=None,
    scope=Scope.WORKER,
)
CHECKPOINT_RUN = Definition(
    "checkpoint_run",
    "Save a checkpoint",
    "For workers: save the state from which the next attempt starts, and renew the lease as heartbeat_run does.",
    (CLAIM, Argument("state", Object(listed=False), "At most 64 KiB", "state={'page': 3}", required=True)),
    CheckpointRun,
    _checkpoint,
    hints(idempotent=True, outside=False),
    card=None,
    scope=Scope.WORKER,
)
FINISH_RUN = Definition(
    "finish_run",
    "Finish a run",
    "For workers: end the attempt. A repeat with the same claim is answered the same.",
    (
        CLAIM,
        Argument(
            "outcome",
            Choice(OUTCOMES, {"success": "done", "succeeded": "done", "error": "retry", "failure": "failed"}),
            "done; retry: it failed this time; failed: trying again would not help; yielded: gave way",
            "outcome='done'",
            required=True,
        ),
        Argument("summary", Text(MAX_SUMMARY_SENT_CHARS), "What the user reads", "summary='Transcribed 12 minutes'"),
        Argument("result", Object(listed=False), "For what comes after it", "result={'words': 1804}"),
        Argument("error", Text(MAX_SUMMARY_SENT_CHARS), "Why, for retry and failed", "error='the host is down'"),
        Argument("retry_in", Length(), "With retry: not before", "retry_in='5 min'"),
        Argument("usage", UnitsUsed(), "Units really used of the pools in needs", "usage={'tokens': 1200}"),
    ),
    FinishRun,
    _finish,
    hints(idempotent=True, outside=False),
    card=None,
    scope=Scope.WORKER,
)
