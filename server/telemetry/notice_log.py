"""The log lines of what a process reports of its own work: a subscriber of notices."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final

from duetime.scheduler.ids import runs_words
from duetime.scheduler.runtime import notices
from duetime.scheduler.runtime.notices import ProcessNotice

_UNSTOPPED: Final = "run %(run_id)s (%(action)s) did not stop within %(grace_s)g s of its time limit: "
_EXHAUSTED: Final = (
    "lost %(count)d threads to handlers that ignore their time limit, and will replace no more: restart this process. "
    "Run these handlers in processes of their own (isolated_actions)"
)
_TOO_LONG: Final = (
    "%(count)d runs (%(actions)s) did not end within the grace period. They start again elsewhere, from their last "
    "checkpoint. To avoid this, raise grace_seconds above their duration, or have their handlers check "
    "ctx.should_yield()"
)

_LINES: Final[Mapping[type[ProcessNotice], tuple[int, str]]] = {
    notices.YieldRequested: (logging.INFO, "requested that run %(run_id)s yield to a more urgent run"),
    notices.ReservationGone: (
        logging.WARNING,
        "run %(run_id)s lost its pool reservation and returns to the queue",
    ),
    notices.HandedBackRunning: (
        logging.WARNING,
        "run %(run_id)s did not stop; handed it back, so it may start elsewhere while this attempt is still running",
    ),
    notices.StoreAwaited: (logging.WARNING, "run %(run_id)s waits for the database: %(error)s"),
    notices.AttemptBroken: (logging.ERROR, "run %(run_id)s (%(action)s) failed outside its handler"),
    notices.ProcessKilled: (
        logging.WARNING,
        "run %(run_id)s (%(action)s) did not stop within %(grace_s)g s of the request: killed its process",
    ),
    notices.ThreadLost: (logging.WARNING, f"{_UNSTOPPED}its thread is lost until the handler returns"),
    notices.EventLoopBlocked: (
        logging.WARNING,
        f"{_UNSTOPPED}it blocks the event loop, so a new loop replaces it",
    ),
    notices.LateReturn: (
        logging.WARNING,
        "run %(run_id)s: discarded %(outcome)s, which arrived after the attempt had timed out",
    ),
    notices.ResultRefused: (
        logging.ERROR,
        "run %(run_id)s: cannot store its result, so the run fails: %(error)r",
    ),
    notices.FailureRefused: (logging.CRITICAL, "run %(run_id)s: cannot store its result: %(error)r"),
    notices.LateResults: (
        logging.WARNING,
        "discarded late results from attempts that no longer own their run: %(run_ids)s",
    ),
    notices.ThreadsExhausted: (
        logging.ERROR,
        _EXHAUSTED,
    ),
    notices.GraceExceeded: (
        logging.WARNING,
        _TOO_LONG,
    ),
    notices.DrainBegun: (logging.INFO, "this worker drains: it takes no more runs until it is resumed"),
    notices.DrainEnded: (logging.INFO, "this worker takes runs again"),
    notices.TermBegun: (
        logging.INFO,
        "this process is now the runner (epoch %(epoch)d); the previous runner left %(left)d runs running",
    ),
    notices.TermReplaced: (
        logging.WARNING,
        "another process took over as the runner; this process is a candidate again",
    ),
    notices.DelaysShortened: (logging.INFO, "the clock was set back: shortened the delays of %(run_ids)s"),
    notices.RunsQueued: (logging.INFO, "%(count)d ready runs were missing from the queue; queued them again"),
    notices.RunsQueuedAtStart: (
        logging.INFO,
        "%(count)d ready runs were waiting when this process started; queued them",
    ),
    notices.QueueRebuilt: (logging.INFO, "rebuilt the empty queue from the database"),
    notices.QueueRefilled: (logging.WARNING, "%(damage)s; it was refilled from the database"),
    notices.QueueLeft: (logging.WARNING, "the queue is unreachable, due runs start when it is back: %(error)s"),
    notices.QueueReturned: (logging.INFO, "the queue is reachable again after %(seconds).1f s"),
    notices.RowsSwept: (
        logging.INFO,
        "retention of %(kind)s deleted %(deleted)d rows; no batch took longer than %(longest_s).3f s",
    ),
}

log = logging.getLogger(__name__)


def log_notice(notice: ProcessNotice) -> None:
    """Write the line of a notice, with the traceback of a defect."""
    level, text = _LINES[type(notice)]
    defect = notice.error if isinstance(notice, notices.AttemptBroken) else None
    values = _values(notice)
    log.log(level, text, *([values] if values else ()), exc_info=defect)


def _values(notice: ProcessNotice) -> dict[str, Any]:
    found = {field.name: getattr(notice, field.name) for field in fields(notice)}
    return {**found, "run_ids": runs_words(found["run_ids"])} if "run_ids" in found else found
