"""Recovery of lost runs one by one, where together it fails: a run that cannot be recovered holds up no other."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping

from duetime.scheduler.errors import RunnerReplaced, StoreUnavailable

log = logging.getLogger(__name__)

End = Callable[[Collection[str] | None], Mapping[str, str]]
"""Ends the attempts of these runs, or of all that are lost, in one transaction."""


def recovered(end: End, orphans: Callable[[], Collection[str]]) -> dict[str, str]:
    """End all lost attempts together; or where that fails those of the `orphans` one by one, and log what stays."""
    try:
        return dict(end(None))
    except (StoreUnavailable, RunnerReplaced):
        raise
    except Exception:
        log.exception("cannot recover all lost runs together: they are recovered one by one")
    ended: dict[str, str] = {}
    for run_id in sorted(orphans()):
        try:
            ended |= end([run_id])
        except (StoreUnavailable, RunnerReplaced):
            raise
        except Exception:
            log.exception("run %s: cannot end its lost attempt, which is tried again", run_id)
    return ended
