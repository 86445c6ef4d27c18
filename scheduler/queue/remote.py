"""A client for a queue that may live in another process: questions and answers as JSON, over any transport."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from enum import StrEnum
from typing import Any

from duetime.scheduler.queue import (
    DispatchQueue,
    Explanation,
    PoolUse,
    QueueLost,
    QueueUnavailable,
    Shortage,
    Stats,
    ThreadUse,
    Why,
)
from duetime.scheduler.task import Json

Question = Mapping[str, Json]
Ask = Callable[[Question], Json]


KEY_IDS_QUESTION: Question = {"key_ids": True}


class NoAnswer(StrEnum):
    """The reason why no process answers for the queue."""

    NO_PROCESS = "nobody"  # no process runs tasks: the queue lives in the one that does
    AWAY = "away"  # the shared queue cannot be reached
    EMPTY = "empty"  # the shared queue is reachable, and no process has filled it yet
    STARTING = "starting"  # no process runs tasks, and this one starts to


def answer(queue: DispatchQueue, question: Question, actions: Iterable[str] = ()) -> Json:
    """Answer a question from another process; None when it cannot be answered now.

    `actions` are those that the worker of the queue has handlers for.
    """
    try:
        match question:
            case {"explain": str(run_id)}:
                found = queue.explain(run_id)
                return {"explanation": asdict(found) if found else None}
            case {"recall": list(run_ids)}:
                return {"recalled": [queue.cancel(str(run_id)) for run_id in run_ids]}
            case {"actions": True}:
                return {"actions": sorted(actions)}
            case {"stats": True}:
                return {"stats": asdict(queue.stats())}
    except (QueueLost, QueueUnavailable):
        return None
    return None


class RemoteQueue:
    """Queries a queue by `ask`, which returns None when no process answers; `silence` then returns the reason."""

    def __init__(self, ask: Ask, silence: Callable[[], NoAnswer] = lambda: NoAnswer.NO_PROCESS) -> None:
        self._ask = ask
        self.silence = silence

    def explain(self, run_id: str) -> tuple[NoAnswer | None, Explanation | None]:
        """Return why no process answered, if so, and the place of the run in the queue (None when it is not in it)."""
        reply = self._ask({"explain": run_id})
        if not isinstance(reply, dict):
            return self.silence(), None
        found = reply.get("explanation")
        return None, _explanation(found) if isinstance(found, dict) else None

    def recall(self, run_ids: Sequence[str]) -> None:
        """Take runs back that must not start any more; where no process answers, the store refuses their claims."""
        if run_ids:
            self._ask({"recall": list(run_ids)})

    def actions(self) -> frozenset[str] | None:
        """Return the actions that the process of the queue has handlers for; None when no process answers."""
        reply = self._ask({"actions": True})
        found = reply.get("actions") if isinstance(reply, dict) else None
        return frozenset(map(str, found)) if isinstance(found, list) else None

    def key_ids(self) -> frozenset[str] | None:
        """Return the ids of the keys by which the process of the queue reads secrets; None when none says so."""
        reply = self._ask(KEY_IDS_QUESTION)
        found = reply.get("key_ids") if isinstance(reply, dict) else None
        return frozenset(map(str, found)) if isinstance(found, list) else None

    def knows(self, action: str) -> bool:
        """Return whether the process of the queue has a handler for an action; only it can deny that."""
        actions = self.actions()
        return actions is None or action in actions

    def stats(self) -> Stats | None:
        """Return the counts of the queue; None when no process answers."""
        reply = self._ask({"stats": True})
        found = reply.get("stats") if isinstance(reply, dict) else None
        if not isinstance(found, dict):
            return None
        pools = {name: PoolUse(**_known(PoolUse, use)) for name, use in found["pools"].items()}
        threads = {name: _threads(use) for name, use in found.get("threads", {}).items()}
        return Stats(**{**_known(Stats, found), "waiting": tuple(found["waiting"]), "pools": pools, "threads": threads})


def _explanation(found: dict[str, Any]) -> Explanation:
    short, threads = found.get("shortage"), found.get("threads")
    parts = {
        "shortage": _shortage(short) if isinstance(short, dict) else None,
        "threads": _threads(threads) if isinstance(threads, dict) else None,
    }
    return Explanation(**{**_known(Explanation, found), **parts})


def _shortage(found: dict[str, Any]) -> Shortage | None:
    """Return a shortage; None for a reason that only a newer process has."""
    if found["why"] not in list(Why):
        return None
    return Shortage(**{**_known(Shortage, found), "why": Why(found["why"]), "holders": tuple(found["holders"])})


def _threads(found: dict[str, Any]) -> ThreadUse:
    return ThreadUse(**{**_known(ThreadUse, found), "headroom": tuple(found["headroom"])})


def _known(kind: type, found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that this process reads: a newer one that answers may tell more."""
    names = {item.name for item in fields(kind)}
    return {name: value for name, value in found.items() if name in names}
