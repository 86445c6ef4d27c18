"""A client for a queue that may live in another process: questions and answers as JSON, over any transport."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from enum import StrEnum
from threading import Lock
from typing import Any

from duetime.scheduler.queue import (
    DispatchQueue,
    Explanation,
    Finish,
    Grant,
    PoolUse,
    QueueLost,
    QueueUnavailable,
    Report,
    Shortage,
    Stats,
    ThreadUse,
    Why,
)
from duetime.scheduler.rules.preemption import YIELD_NOTICE_MS
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
        return _answer_claims(queue, question)
    except (QueueLost, QueueUnavailable):
        return None


def _answer_claims(queue: DispatchQueue, question: Question) -> Json:
    """Do what a process asks that claims runs for workers elsewhere; `RemoteQueue` has all of its orders."""
    order: Any = question.get("claims")
    worker = str(order["worker"]) if order else ""
    match order and order["do"]:
        case "take":
            taken = queue.take(worker, int(order["n"]), float(order["lease"]), actions=frozenset(order["actions"]))
            grants: Json = [[each.run_id, each.token, dict(each.needs)] for each in taken.grants]
            return {"grants": grants, "hint": taken.hint}
        case "renew":
            return {"lost": sorted(queue.renew(worker, order["tokens"], float(order["lease"])))}
        case "finish":
            reports = tuple(Report(**each) for each in order["reports"])
            end = Finish(order["run_id"], order["token"], order["used"], reports)
            return {"unheld": sorted(queue.finish(worker, [end], jitter=float(order["jitter"])))}
        case "give_back":
            return {"given": queue.give_back(worker, order["run_id"], order["token"], delay=float(order["delay"]))}
        case "yield":
            return {"yield": _must_yield(queue, worker, order)}
    return None


def _must_yield(queue: DispatchQueue, worker: str, order: Mapping[str, Any]) -> bool:
    """Whether a run should give way: for the units that it holds, or as a more urgent one lacks only a worker."""
    if queue.runs_to_preempt([order["run_id"]], YIELD_NOTICE_MS):
        return True
    tiers, actions = (1, int(order["tier"]) - 1), frozenset(order["actions"])
    return bool(tiers[1] and queue.assign_preemptors(worker, 1, tiers, YIELD_NOTICE_MS, actions=actions))


class RemoteQueue:
    """Queries a queue by `ask`, which returns None when no process answers; `silence` then returns the reason."""

    def __init__(self, ask: Ask, silence: Callable[[], NoAnswer] = lambda: NoAnswer.NO_PROCESS) -> None:
        self._ask = ask
        self.silence = silence
        self._taking = Lock()

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

    def take(self, worker: str, n: int, lease_ms: float, actions: Collection[str]) -> tuple[list[Grant], float | None]:
        """Take up to `n` runs of `actions` for a worker elsewhere; none where no process answers.

        Returns with them in how many seconds time alone may make another run ready, None where it will not. One take
        at a time: a queue that was away repeats the last one, whichever it was.
        """
        with self._taking:
            reply = self._claims("take", worker, n=n, lease=lease_ms, actions=sorted(actions))
        return ([Grant(*grant) for grant in reply["grants"]], reply.get("hint")) if reply else ([], None)

    def renew(self, worker: str, tokens: Mapping[str, str], lease_ms: float) -> set[str] | None:
        """Prolong leases, and return the runs that these tokens do not hold; None where no process answers."""
        reply = self._claims("renew", worker, tokens=dict(tokens), lease=lease_ms)
        return set(reply["lost"]) if reply else None

    def finish(self, worker: str, end: Finish, *, jitter: float = 0.0) -> None:
        """Release what a run has reserved; where no process answers, its lease expires."""
        reports: Json = [asdict(report) for report in end.reports]
        used: Json = dict(end.used)
        self._claims("finish", worker, run_id=end.run_id, token=end.token, used=used, reports=reports, jitter=jitter)

    def give_back(self, worker: str, grant: Grant, delay_ms: float) -> None:
        """Return a run unstarted; where no process answers, its lease expires."""
        self._claims("give_back", worker, run_id=grant.run_id, token=grant.token, delay=delay_ms)

    def must_yield(self, worker: str, run_id: str, tier: int, actions: Collection[str]) -> bool:
        """Whether a run that a worker elsewhere holds should give way to a more urgent one."""
        reply = self._claims("yield", worker, run_id=run_id, tier=tier, actions=sorted(actions))
        return bool(reply and reply["yield"])

    def _claims(self, do: str, worker: str, **order: Json) -> dict[str, Any] | None:
        reply = self._ask({"claims": {"do": do, "worker": worker, **order}})
        return reply if isinstance(reply, dict) else None

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
