"""A deferred application: loaded and opened once the client of this process does more than look at it.

A host starts a server to learn what it offers, and waits for that answer. The database, the broker and the runner take
longer to load than the answer to make.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from duetime.scheduler.errors import DuetimeError, StoreUnavailable
from duetime.scheduler.nodes.candidacy import Candidacy, Sign

if TYPE_CHECKING:
    from duetime.scheduler.service.scheduler import Scheduler
    from duetime.server.app import App
    from duetime.server.protocol.changed_addresses import SubscribedHistory

OPENING_DELAY_S = 2.0
"""Seconds after which the application opens for a client that has only read lists, so that its first call is quick."""

_HANDSHAKE = frozenset({"initialize", "server/discover", "ping", "logging/setLevel"})
_LIST = "/list"
_NOTIFICATION = "notifications/"

log = logging.getLogger(__name__)


def sign_of(method: str) -> Sign:
    """Return what the method of a request says of its client: it only looks at this server, or it stays."""
    if method in _HANDSHAKE or method.startswith(_NOTIFICATION):
        return Sign.NONE
    return Sign.LISTED if method.endswith(_LIST) else Sign.CALLED


class DeferredApp:
    """The application of one process, which `build` constructs. Thread-safe; the call after a failure tries again."""

    def __init__(self, build: Callable[[], App], *, delay: float = OPENING_DELAY_S) -> None:
        self._build = build
        self._delay = delay
        self._candidacy = Candidacy()
        self._app: App | None = None
        self._opening: threading.Timer | None = None
        self._ending = self._ended = False
        self._lock = threading.RLock()

    def open(self) -> App:
        """Return the application, opened first if it is not; raises DuetimeError when it cannot be opened."""
        with self._lock:
            if self._ended:
                raise StoreUnavailable("This process is ending. Nothing was stored; try again.")
            if self._app is None:
                self._app = self._started()
                if self._ending:
                    self._app.begin_end()
                self._app.reconsider()  # a sign may have come after the runner looked for one
            return self._app

    def scheduler(self) -> Scheduler:
        """Return the scheduler of the application, like `open`."""
        return self.open().scheduler

    def history(self) -> SubscribedHistory | None:
        """Return the history, None before the application is open."""
        return self._app.store.history if self._app is not None else None

    def note(self, sign: Sign) -> None:
        """Note a sign of the client: one that calls needs the application now, one that reads lists will need it."""
        if self._candidacy.note(sign):
            self._open_after(0 if sign is Sign.CALLED else self._delay)
            if self._app is not None:
                self._app.reconsider()

    def begin_end(self) -> None:
        """Begin the end of the application; one that opens later answers calls under way, and runs nothing."""
        self._ending = True
        if self._app is not None:
            self._app.begin_end()

    def hurry(self) -> None:
        """Shorten the end of the application, if it was opened."""
        if self._app is not None:
            self._app.hurry()

    def close(self) -> None:
        """Close the application, if it was opened, and open it no more."""
        if self._opening is not None:
            self._opening.cancel()
        with self._lock:
            self._ended = True
            if self._app is not None:
                self._app.close()

    def _started(self) -> App:
        app = self._build()
        try:
            app.start(self._candidacy)
        except BaseException:
            app.close()
            raise
        return app

    def _open_after(self, seconds: float) -> None:
        if self._opening is not None:
            self._opening.cancel()
        self._opening = threading.Timer(seconds, self._open_unasked)
        self._opening.daemon = True
        self._opening.start()

    def _open_unasked(self) -> None:
        try:
            self.open()
        except DuetimeError as error:
            log.warning("the application cannot be opened: %s", error)
        except Exception:
            log.exception("the application cannot be opened")
