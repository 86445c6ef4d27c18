"""Room for waits of one name: counted rarely while there is much of it, and for each wait where there is little.

A count looks at each open wait, which costs as much as some other statements of a call.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final
from weakref import WeakKeyDictionary

from duetime.scheduler.errors import Refused
from duetime.scheduler.store.schema.tables.signals import signal_waits
from duetime.scheduler.waits.signal import MAX_WAITS_OPEN
from sqlalchemy import ColumnElement, Connection, Engine, bindparam, func, literal_column, select

UNCOUNTED_RATIO: Final = 8
"""A process lets an eighth of the room be used before it counts again: others use it at the same time."""

MAX_NAMES_KNOWN: Final = 10_000

OPEN_WAIT: ColumnElement[bool] = literal_column("signal_waits.closed_at IS NULL")
"""Waits that a signal can end; literal, as in the partial indexes."""

_OPEN = select(signal_waits.c.waiter_id).where(
    signal_waits.c.tenant == bindparam("of_tenant"), signal_waits.c.name == bindparam("of_name"), OPEN_WAIT
)
_COUNT = select(func.count()).select_from(_OPEN.limit(bindparam("most")).subquery())


class WaitRoom:
    """The room for waits in one database, as one process holds it. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._uncounted: dict[tuple[str, str], int] = {}

    def has_room(self, tenant: str, name: str, count: Callable[[], int]) -> bool:
        """Whether one more may wait for a name; `count` returns how many do, up to one more than may."""
        with self._lock:
            left = self._uncounted.pop((tenant, name), 0)
        room = left * UNCOUNTED_RATIO if left else MAX_WAITS_OPEN + 1 - count()
        with self._lock:
            if len(self._uncounted) >= MAX_NAMES_KNOWN:
                self._uncounted.clear()
            self._uncounted[tenant, name] = left - 1 if left else room // UNCOUNTED_RATIO
        return room > 0


_known: WeakKeyDictionary[Engine, WaitRoom] = WeakKeyDictionary()


def check(connection: Connection, tenant: str, name: str) -> None:
    """Raise Refused where very many wait for a name already."""
    of_name = {"of_tenant": tenant, "of_name": name, "most": MAX_WAITS_OPEN + 1}
    room = _known.setdefault(connection.engine, WaitRoom())
    if not room.has_room(tenant, name, lambda: connection.execute(_COUNT, of_name).scalar_one()):
        raise Refused(f"More than {MAX_WAITS_OPEN:,} tasks wait for the event {name!r} already; cancel some of them.")
