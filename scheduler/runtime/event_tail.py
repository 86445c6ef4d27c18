"""Tail of the event log: the place of one reader in the events of all tenants, and when it looks again.

Waits for the end of a run, subscribers over MCP, streams of the REST API and live pages follow the events by it. Each
has a tail of its own, so none repeats or misses what another one failed to take.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Protocol

from duetime.scheduler.errors import DuetimeError
from duetime.scheduler.events import Event
from duetime.scheduler.runtime.failure_log import FailureLog

LOOK_INTERVAL_S: Final = 1.0
"""Seconds between looks at the events of the database."""

EVENTS_PER_PAGE: Final = 500

MAX_DELIVERIES: Final = 5
"""Deliveries of a page that may fail by a defect; then the page is given up, so that it does not hold back the rest.
An outage of the database has no such limit.
"""

log = logging.getLogger(__name__)


class EventLog(Protocol):
    """The events of all tenants, in the order in which readers see them."""

    def latest(self) -> int:
        """Return the id of the newest event, 0 without one."""
        ...

    def since(self, event_id: int, *, limit: int = EVENTS_PER_PAGE) -> list[Event]:
        """Return the events behind one."""
        ...


@dataclass(frozen=True, slots=True)
class TailPage:
    """The events behind a place: an id of an event, None for a tail that has no place."""

    after: int | None
    events: Sequence[Event] = ()


class EventTail:
    """Moves behind a page only when it was delivered; until then it reads the page again. `clock` counts seconds.

    For one thread at a time. `events` returns None while the store is not open, and nothing is new then.
    """

    def __init__(
        self,
        name: str,
        events: Callable[[], EventLog | None],
        *,
        interval_s: float = LOOK_INTERVAL_S,
        page_size: int = EVENTS_PER_PAGE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name = name
        self._events = events
        self._interval_s = interval_s
        self._page_size = page_size
        self._clock = clock
        self._place: int | None = None
        self._next_look_at = clock()
        self._failures = FailureLog(name)
        self._defects = 0

    @property
    def place(self) -> int | None:
        """The id of the last event that was delivered, or behind which the tail began; None until it begins."""
        return self._place

    def newest(self) -> int | None:
        """Return the place where a tail begins now, None before the store is open. Raises StoreUnavailable."""
        events = self._events()
        return None if events is None else events.latest()

    def begin(self, place: int | None) -> None:
        """Continue behind this event; the next look is due in an interval."""
        self._place = place
        self._next_look_at = self._clock() + self._interval_s

    def end(self) -> None:
        """Forget the place: no client listens."""
        self._place = None

    def seconds_left(self) -> float:
        """Return the seconds until the next look is due: 0 behind a full page, which has a next one."""
        return max(0.0, self._next_look_at - self._clock())

    def read(self) -> TailPage:
        """Return the page behind the place. The next look is due in an interval. Raises StoreUnavailable."""
        self._next_look_at = self._clock() + self._interval_s
        events, after = self._events(), self._place
        if events is None or after is None:
            return TailPage(after)
        return TailPage(after, events.since(after, limit=self._page_size))

    @contextmanager
    def delivery(self, page: TailPage) -> Iterator[None]:
        """Move behind a page when the block ends. After a failure in the block it stays, and the failure is raised."""
        try:
            yield
        except DuetimeError:
            raise
        except Exception:
            self._defects += 1
            if self._defects < MAX_DELIVERIES or not page.events:
                raise
            log.exception("%s: gave up %d events behind event %s", self._name, len(page.events), page.after)
        self._defects = 0
        self._move(page)

    def _move(self, page: TailPage) -> None:
        if page.events and self._place == page.after:  # else it began elsewhere, or ended, while it delivered
            self._place = page.events[-1].id
            if len(page.events) == self._page_size:
                self._next_look_at = self._clock()

    @contextmanager
    def survived(self) -> Iterator[None]:
        """Log a failure of a look in the block; the next look repeats it."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - whatever it is, those who listen go on
            self._failures.failed(error)
            self._next_look_at = max(self._next_look_at, self._clock() + self._interval_s)
        else:
            self._failures.succeeded()
