"""The protocol between the benchmark and a peer: set up, schedule, work, and the instants at which handlers began.

This module and its neighbours run in the peers' own environment, so they import nothing of Duetime.
"""

from __future__ import annotations

import asyncio
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.peers.provider import Provider

T = TypeVar("T")

MARKS: list[tuple[str, float]] = []
"""The name of each task whose handler began in this process, and when."""

PROVIDER = Provider()

RETRY_DELAY_S = 0.1
"""The wait before a peer that can say so repeats a refused call."""


class Refused(Exception):
    """The provider refused a call: the peer tries again, as it does for any failure."""


def mark(name: str) -> None:
    """Note that the handler of a task began, and do nothing else."""
    MARKS.append((name, time.time()))


def ask(name: str) -> None:
    """Call the provider once; the task counts as begun when it is answered."""
    if not PROVIDER.call():
        raise Refused(name)
    mark(name)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a peer keeps its tasks; every case has servers and a folder of its own."""

    redis: str
    postgres: str
    folder: Path


@dataclass(frozen=True, slots=True)
class New:
    """A task to be scheduled: for now without `due`, which is in seconds since 1970."""

    name: str
    due: float | None = None
    asks: bool = False
    """Whether it calls the provider; it only notes its start otherwise."""


class Peer(ABC):
    """One scheduler, in one process; a class for each."""

    @abstractmethod
    def set_up(self, place: Place) -> None:
        """Connect, and make what the peer needs to exist."""

    @abstractmethod
    def schedule(self, new: Sequence[New], batch: int) -> None:
        """Store tasks, `batch` in a call where the peer can do that; returns when all are stored."""

    @abstractmethod
    def work(self, threads: int) -> None:
        """Start to run tasks, and return."""

    def serve(self) -> None:  # noqa: B027 - most have nothing to do
        """Do what else a process that only schedules does: nothing, but for who dispatches there."""

    def settled(self, count: int) -> bool:
        """Whether `count` tasks ended; asked once all of them began. A peer with a history looks there."""
        return len(MARKS) >= count

    def close(self) -> None:  # noqa: B027 - as above
        """Stop working and disconnect; a peer whose process may simply end has nothing to do."""


class EventLoop:
    """An asyncio loop on a thread of its own, for a peer that is asynchronous."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.start(work).result()

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)
