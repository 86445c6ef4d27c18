"""The answer of `/readyz`: whether tasks can be scheduled, and what else is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from duetime.scheduler.dispatch.rebuild import Damage
from duetime.scheduler.foresight.lateness import BacklogMonitor
from duetime.scheduler.nodes.heartbeat import any_worker_alive, any_worker_drained
from duetime.scheduler.queue import QueueDamaged, QueueTaken
from duetime.scheduler.store import Store

DAMAGE_SHOWN_FOR = timedelta(minutes=5)


def readiness(
    store: Store,
    backlog: BacklogMonitor,
    away: Exception | None,
    *,
    damage: Damage | None = None,
    verbose: bool,
    shared: bool = False,
) -> str:
    """Return `ok`, with any lesser problem: a queue that is `away` or was damaged lately, a tier that stays late.

    With `verbose`, further lines are the backlog of each tier, and the throughput. Where workers are processes of their
    own (`shared`), a line before them says that none takes runs. Raises StoreUnavailable when nothing can be scheduled.
    """
    store.history.latest()
    store.check_writable()
    problems = [*_of_queue(away), *_of_damage(damage, store.now()), *backlog.late()]
    state = f"ok, but {'; '.join(problems)}" if problems else "ok"
    if not verbose:
        return state
    return "\n".join((state, *(worker_problems(store) if shared else ()), *backlog.report().lines()))


def worker_problems(store: Store) -> Iterator[str]:
    """Give the sentence of a shared installation in which no worker takes runs."""
    if any_worker_drained(store) and not any_worker_alive(store):
        yield "no worker takes runs: all were drained, so nothing starts until one is resumed"
    elif not any_worker_alive(store):
        yield "no worker is running: nothing starts, and no channel is notified, until there is one"


def _of_damage(damage: Damage | None, now: datetime) -> Iterator[str]:
    if damage is not None and now - damage.at < DAMAGE_SHOWN_FOR:
        yield f"{damage.why}; it was refilled at {damage.at:%H:%M:%S} UTC"


def _of_queue(away: Exception | None) -> Iterator[str]:
    if isinstance(away, QueueDamaged):
        yield f"{away}; it is being refilled"
    elif away is not None:
        wrong = str(away) if isinstance(away, QueueTaken) else "Redis is unreachable"
        yield f"{wrong}: tasks are stored and start when it is back"
