"""A queue in memory that can be out of reach, lose everything, or do what it is asked and lose the answer."""

from __future__ import annotations

from collections import Counter
from typing import Any

from duetime.scheduler.queue import QueueLost, QueueUnavailable
from duetime.scheduler.queue.memory.queue import MemoryQueue

ASKED = {"put", "take", "wait", "renew", "finish", "give_back", "reap", "cancel", "rescore", "set_pool", "stats"}
ASKED |= {"begin_rebuild", "adopt", "end_rebuild", "explain"}


class Breaking(MemoryQueue):
    """`away` fails each call, `lost` does until someone rebuilds, `deaf` lets that many calls happen unanswered."""

    away = False
    lost = False
    deaf = 0

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.asked: Counter[str] = Counter()

    def lose_everything(self) -> None:
        """Be as a server that was restarted, with nothing in it."""
        self.begin_rebuild("nobody")
        self.end_rebuild("nobody")
        self.lost = True

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        return self._breaking(name, found) if name in ASKED else found

    def _breaking(self, name: str, method: Any) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            self.asked[name] += 1
            if self.away:
                raise QueueUnavailable("connection refused")
            if name == "begin_rebuild":
                self.lost = False
            if self.lost:
                raise QueueLost("there is no epoch")
            answer = method(*arguments, **options)
            if self.deaf:
                self.deaf -= 1
                raise QueueUnavailable("timeout")
            return answer

        return call
