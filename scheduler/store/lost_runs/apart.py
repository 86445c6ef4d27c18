"""Recovery of lost runs one by one, where together it fails: a run that cannot be recovered holds up no other."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping

from duetime.scheduler.errors import RunnerReplaced, StoreUnavailable
from duetime.scheduler.store.database.database import Database, Work

log = logging.getLogger(__name__)

End = Callable[[Collection[str] | None], Mapping[str, str]]
"""Ends the attempts of these runs, or of all that are lost, in one transaction."""


def recovered(database: Database, end: End, orphans: Work[Collection[str]]) -> dict[str, str]:
    """End all lost attempts together; or where that fails those of the `orphans` one by one, and log what stays."""
    try:
        return dict(end(None))
    except (StoreUnavailable, RunnerReplaced):
        raise
    except Exception as error:  # noqa: BLE001 - whatever it is, it is one of them
        together = error
    wanted, ended, failed = sorted(database.read(orphans)), dict[str, str](), 0
    for run_id in wanted:
        try:
            ended |= end([run_id])
        except (StoreUnavailable, RunnerReplaced):
            raise
        except Exception:
            failed += 1
            if database.unwritable.is_news(run_id):
                log.exception("run %s: cannot end its lost attempt, which is tried again", run_id)
    if not failed:
        log.warning("lost runs could be recovered one by one, but not together", exc_info=together)
    return ended
