"""Reloads handlers when their files change, for `duetime serve --reload`: the server and its sessions stay.

A reload imports the handlers again and builds another application with them, which answers the calls from then on. The
runner of the old one ends as in a shutdown, and the new one starts.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Final

from duetime.scheduler.delivery import Channels
from duetime.scheduler.dispatch.pool_registry import PoolRegistry
from duetime.scheduler.errors import DuetimeError, InvalidSetting
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.queue.remote import RemoteQueue
from duetime.scheduler.runtime.loop import Loop
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.server.app import App, Listener, build
from duetime.server.runtime.handler_files import HandlerFiles, TimeStamps
from duetime.server.settings.handlers import load_handlers
from duetime.server.settings.model import Settings
from duetime.server.telemetry.observers import Observers

FILE_POLL_INTERVAL_S: Final = 0.5
CALL_GRACE_S: Final = 2.0
"""Seconds that calls under way in the old application have to end before its database is closed."""

log = logging.getLogger(__name__)


class ReloadingApp:
    """An application whose handlers are those of its files. `on_reload` is called with those of the next one.

    Raises InvalidSetting without a module of handlers to look at.
    """

    def __init__(self, settings: Settings, *, make: Callable[[Settings], App] = build) -> None:
        if not settings.handlers:
            raise InvalidSetting(
                "handlers: --reload looks at the files of your own handlers, and none is configured. Name their "
                "modules, as in DUETIME_HANDLERS=my_handlers."
            )
        sys.dont_write_bytecode = True  # its time stamps are of whole seconds, too coarse for one who edits
        self._settings = settings
        self._make = make
        self.app = make(settings)
        self._ending: App | None = None
        self._files = HandlerFiles(settings.handlers)
        self._loaded = self._seen = self._files.time_stamps()
        self._closing = threading.Event()
        self._loop = Loop("reload", self.look)
        self.on_reload: Callable[[Handlers], None] = lambda _handlers: None

    @property
    def scheduler(self) -> Scheduler:
        return self.app.scheduler

    @property
    def store(self) -> Store:
        return self.app.store

    @property
    def handlers(self) -> Handlers:
        return self.app.handlers

    @property
    def settings(self) -> Settings:
        return self.app.settings

    @property
    def registry(self) -> PoolRegistry:
        return self.app.registry

    @property
    def remote_queue(self) -> RemoteQueue:
        return self.app.remote_queue

    @property
    def channels(self) -> Channels:
        return self.app.channels

    @property
    def observers(self) -> Observers:
        return self.app.observers

    @property
    def listeners(self) -> list[Listener]:
        return self.app.listeners

    def start(self) -> None:
        """Run due tasks, and look for changes."""
        self.app.start()
        log.info("reloads handlers when one of %d files changes: %s", len(self._loaded), _names(self._loaded))
        self._loop.start()

    def ready(self, *, verbose: bool = False) -> str:
        """Return what `App.ready` does."""
        return self.app.ready(verbose=verbose)

    def begin_end(self) -> None:
        """Begin the end of the application, and reload no more."""
        self._closing.set()
        self._loop.wake()
        self.app.begin_end()

    def hurry(self) -> None:
        """Shorten the end of the application, and that of the one before, while a reload ends it."""
        for app in (self.app, self._ending):
            if app is not None:
                app.hurry()

    def close(self) -> None:
        """End a reload that is under way, then the application."""
        self._closing.set()
        self._loop.stop(self._settings.grace_seconds + CALL_GRACE_S)
        self.app.close()

    def look(self) -> float:
        """Reload if files have changed and are no longer being written; return the seconds until the next look."""
        found = self._files.time_stamps()
        changed, settled = found != self._loaded, found == self._seen
        self._seen = found
        if changed and settled and not self._closing.is_set():
            names = _names({path: at for path, at in {**self._loaded, **found}.items() if self._differs(path, found)})
            self._loaded = found
            self._reload(names)
        return FILE_POLL_INTERVAL_S

    def _differs(self, path: Path, found: TimeStamps) -> bool:
        return self._loaded.get(path) != found.get(path)

    def _reload(self, changed: str) -> None:
        old_modules = self._files.forget()
        try:
            load_handlers(self._settings)
            following = self._make(self._settings)
        except DuetimeError as error:
            self._files.restore(old_modules)
            log.error("%s changed, and the handlers stay as they were: %s", changed, error, exc_info=error.__cause__)  # noqa: TRY400 - the cause alone
            return
        following.listeners.extend(self.app.listeners)
        following.observers.take_over(self.app.observers)
        self._ending, self.app = self.app, following
        self.on_reload(following.handlers)
        self._ending.runner.stop(timedelta(seconds=self._settings.grace_seconds))
        if not self._closing.is_set():
            following.start()
            log.info("%s changed: reloaded, the actions are %s", changed, ", ".join(following.handlers))
        self._closing.wait(CALL_GRACE_S)
        self._ending.close()
        self._ending = None


def _names(files: TimeStamps) -> str:
    return ", ".join(sorted(path.name for path in files))
