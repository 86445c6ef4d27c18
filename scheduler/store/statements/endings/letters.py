"""Dead letters of runs whose task runs again, whichever call asked for that: they are closed as replayed."""

from __future__ import annotations

from datetime import datetime

from duetime.scheduler.store.schema.tables.dead_letters import dead_letters
from duetime.scheduler.task import Run, State
from sqlalchemy import Connection, func, null, select, update

_replay = dead_letters.alias("replay")


def follow_replacement(connection: Connection, old: Run, current: Run, now: datetime) -> None:
    """Close the letter of a failed run that another one replaces; open it again when that is taken back."""
    if current.id == old.id:
        return
    if old.state is State.FAILED:
        _close(connection, old, current, now)
    elif current.state is State.FAILED:
        reopened = (dead_letters.c.run_id == current.id, dead_letters.c.replayed_as == old.id)
        values = {"closed_at": null(), "replayed_as": null(), "replay_number": null()}
        connection.execute(update(dead_letters).where(*reopened).values(values))


def _close(connection: Connection, old: Run, current: Run, now: datetime) -> None:
    number = select(_replay.c.replay_number).where(_replay.c.replayed_as == old.id).scalar_subquery()
    is_open = (dead_letters.c.run_id == old.id, dead_letters.c.closed_at.is_(None))
    values = {"closed_at": now, "replayed_as": current.id, "replay_number": func.coalesce(number, 0) + 1}
    connection.execute(update(dead_letters).where(*is_open).values(values))
