"""A shared installation inside one test process: members on one PostgreSQL database and one queue between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from duetime.scheduler.handlers import Handler
from duetime.scheduler.queue.memory.queue import MemoryQueue
from duetime.scheduler.store import migrate_store, open_store
from duetime.server import distributed
from duetime.server.app import App, Role, build
from duetime.server.settings.model import Settings


class Channel:
    """News that all members hear, at once and on the thread of the sender."""

    def __init__(self) -> None:
        self.ears: dict[int, Callable[[str], None]] = {}
        self.told: list[str] = []


class LocalNews:
    """One member's end of a channel."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def send(self, word: str) -> None:
        self._channel.told.append(word)
        for ear, heard in list(self._channel.ears.items()):
            if ear != id(self):
                heard(word)

    def listen(self, heard: Callable[[str], None]) -> None:
        self._channel.ears[id(self)] = heard

    def close(self) -> None:
        self._channel.ears.pop(id(self), None)


@dataclass(frozen=True)
class LocalQueue:
    """The connections of one member."""

    queue: Any
    signals: LocalNews
    installation: Installation

    def claim(self) -> None:
        self.installation.claim()

    def close(self) -> None:
        """Keep the queue: the other members use it."""


class Installation:
    """Members that share `queue`; `settings` are those of all."""

    def __init__(self, url: str, queue: Any, monkeypatch: pytest.MonkeyPatch, **settings: Any) -> None:
        migrate_store(url)
        self.settings = Settings(
            database_url=url,
            redis_url="redis://nowhere.invalid",
            timezone="UTC",
            desktop_notifications="off",
            grace_seconds=2,
            yield_to_load=False,
            **settings,
        )
        self.queue = queue
        self.channel = Channel()
        self.claim: Callable[[], None] = lambda: None
        self._stack = ExitStack()
        monkeypatch.setattr(
            distributed, "connected", lambda *_, **_report: LocalQueue(queue, LocalNews(self.channel), self)
        )

    def member(self, role: Role, *, start: bool = True, handlers: Sequence[Handler] = (), **parts: Any) -> App:
        app = self._stack.enter_context(build(self.settings, handlers=handlers, role=role, **parts))
        if start:
            app.start()
        return app

    @contextmanager
    def closing(self) -> Iterator[Installation]:
        with self._stack:
            yield self


@contextmanager
def memory_queue(url: str) -> Iterator[MemoryQueue]:
    """Yield a queue by the clock of the database."""
    migrate_store(url)
    store = open_store(url)
    yield MemoryQueue(lambda: store.now().timestamp() * 1000)
    store.close()
