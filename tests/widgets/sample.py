"""A small server for the cards: payloads checked against the published schema, and the tools that buttons call."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from duetime.scheduler.ids import DRY_RUN_ID
from duetime.widgets.payload import as_json
from duetime.widgets.schema.task import TaskPayload, TaskWords
from duetime.widgets.schema.task_list import TaskListPayload

NOW = datetime(2026, 11, 21, 23, 0, tzinfo=UTC)
DENVER = "America/Denver"
"""A zone on whose clock changes every edition of the time zone database agrees."""
CALL_JOHN = "t_7k3m9qx2w4hb"
UNDO = "u_5c2"


def stamp(instant: datetime) -> str:
    return instant.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def when(instant: datetime, zone: str = DENVER) -> dict[str, str]:
    local = instant.astimezone(ZoneInfo(zone))
    text = f"{local:%a} {local.day} {local:%b %Y %H:%M}"
    return {
        "utc": stamp(instant),
        "local": local.strftime("%Y-%m-%dT%H:%M:%S"),
        "timezone": zone,
        "text": text,
        "relative": "in a while" if instant > NOW else "a while ago",
    }


def a_task(
    due: datetime = datetime(2026, 11, 24, 16, 0, tzinfo=UTC), zone: str = DENVER, **parts: Any
) -> dict[str, Any]:
    """One task as the server would send it; a part given as None is left out."""
    task: dict[str, Any] = {
        "schema": "duetime.task/1",
        "id": CALL_JOHN,
        "revision": 3,
        "title": "Call John about the lease",
        "state": "scheduled",
        "action": "reminder",
        "when": when(due, zone),
        "delivery": {"channel": "inbox", "state": "pending"},
        "owner": "maria",
        "now": stamp(NOW),
        **parts,
    }
    return valid({name: part for name, part in task.items() if part is not None})


def soon(**parts: Any) -> dict[str, Any]:
    """One task that is due in half an hour, so that it can be snoozed."""
    return a_task(due=NOW + timedelta(minutes=30), **parts)


def weekly() -> dict[str, Any]:
    """Return a repetition: every Tuesday at nine in Denver."""
    following = [datetime(2026, 11, 24, 16, 0, tzinfo=UTC) + timedelta(weeks=week) for week in range(5)]
    upcoming = [instant.astimezone(ZoneInfo(DENVER)).isoformat(timespec="seconds") for instant in following]
    return {"rule": "FREQ=WEEKLY;BYDAY=TU", "text": "every Tuesday at 09:00", "next": upcoming}


def tuesdays() -> dict[str, Any]:
    """Return how a card says that rule in the language of its reader."""
    return {"repeat": [{"kind": "weekdays", "weekdays": ["TU"]}, {"kind": "at", "times": ["09:00"]}]}


def deadline(
    at: datetime, kind: str = "soft", *, spare: float | None = None, zone: str = DENVER, **parts: Any
) -> dict[str, Any]:
    """When a task must be finished; `spare` are the seconds left beyond the work itself."""
    local = at.astimezone(ZoneInfo(zone))
    text = f"{local:%a} {local.day} {local:%b %Y %H:%M}"
    said = {"utc": stamp(at), "local": local.strftime("%Y-%m-%dT%H:%M"), "text": text, "type": kind, **parts}
    return said if spare is None else {**said, "laxity_seconds": spare}


def held_back() -> dict[str, Any]:
    """Give a task that is due and urgent, and waits for what others hold."""
    return a_task(
        due=NOW - timedelta(minutes=4),
        title="Render the trailer",
        state="ready",
        action="render",
        priority="high",
        deadline=deadline(NOW + timedelta(minutes=56), "hard", spare=26 * 60),
        estimate="30 min",
        needs={"gpu": 2, "key:studio-7": 1},
        waiting_for=[
            "pool gpu: it needs 2, 1 of 4 are free; held by t_00000000000c «Train the model»",
            "its turn, behind 3 runs with the same tier and needs",
        ],
        waits=[{"kind": "pool", "pool": "gpu"}, {"kind": "turn"}],
    )


def valid(task: dict[str, Any]) -> dict[str, Any]:
    """Return a task as it goes over the wire; its `words` go apart from it, where no model reads them."""
    structured = {name: part for name, part in task.items() if name != "words"}
    words = {"words": as_json(TaskWords.model_validate(task["words"]))} if "words" in task else {}
    return {**as_json(TaskPayload.model_validate(structured)), **words}


def valid_list(page: dict[str, Any]) -> dict[str, Any]:
    return as_json(TaskListPayload.model_validate(page))


def result(structured: dict[str, Any]) -> dict[str, Any]:
    content = {name: part for name, part in structured.items() if name != "words"}
    meta = {"_meta": {"duetime/words": structured["words"]}} if "words" in structured else {}
    return {"content": [{"type": "text", "text": "The same as words."}], "structuredContent": content, **meta}


def refusal(sentence: str, code: str = "refused", plain: str | None = None) -> dict[str, Any]:
    meta = {"duetime/code": code, "duetime/plain": plain or sentence}
    return {"content": [{"type": "text", "text": sentence}], "isError": True, "_meta": meta}


BULK_UNDO = "u_b7k3m9qx2w4h"
BULK_UNDO_FOR = timedelta(minutes=10)


class FakeServer:
    """Holds tasks and answers the calls of a card as the real tools do: revisions rise, and stale ones are refused."""

    def __init__(self, *tasks: dict[str, Any], now: datetime = NOW) -> None:
        self.tasks = {task["id"]: task for task in tasks}
        self.now = now
        self.refuse: str | None = None
        self.history: dict[str, Any] = {"attempts": [], "events": []}
        self.pages: list[dict[str, Any]] = []
        self.letter: dict[str, Any] | None = None

    def serve(self, name: str, args: dict[str, Any]) -> dict[str, Any]:
        if self.refuse is not None:
            sentence, self.refuse = self.refuse, None
            return refusal(sentence)
        if name == "change_tasks":
            return self._many(args)
        return self._list(args) if name == "list_tasks" else self._one(name, args)

    def _many(self, args: dict[str, Any]) -> dict[str, Any]:
        """Change many tasks, or say how many there would be; a discard closes the letter, which its undo opens."""
        if self.letter:
            self.letter = {**self.letter, "state": "open" if args["change"] == "undo" else "discarded"}
        tried, ids = args.get("dry_run"), args.get("task_ids", ["t_"])
        undo = (
            {}
            if tried or args["change"] == "undo"
            else {"undo": BULK_UNDO, "undo_until": stamp(self.now + BULK_UNDO_FOR)}
        )
        bulk = {"change": args["change"], "changed": len(ids), **({"dry_run": True} if tried else {}), **undo}
        rows = [row for page in self.pages for row in page["tasks"] if row["id"] in ids]
        return result({"schema": "duetime.list/1", "tasks": rows, "counts": {}, "now": stamp(self.now), "bulk": bulk})

    def change(self, task_id: str = CALL_JOHN, **parts: Any) -> dict[str, Any]:
        """Change a task as another client would; a part given as None goes away."""
        old = {**self.tasks[task_id], "revision": self.tasks[task_id]["revision"] + 1, **parts, "now": stamp(self.now)}
        self.tasks[task_id] = valid({key: part for key, part in old.items() if part is not None})
        return self.tasks[task_id]

    def _list(self, args: dict[str, Any]) -> dict[str, Any]:
        return result(self.pages[1 if "cursor" in args else 0])

    def _one(self, name: str, args: dict[str, Any]) -> dict[str, Any]:
        task = self.tasks.get(args["task_id"])
        if task is None:
            return refusal(f"task_id: no task '{args['task_id']}'. list_tasks shows your tasks.", "not_found")
        if name == "get_task":
            letter = {"letter": self.letter} if self.letter else {}
            history = {"history": self.history, **letter} if args.get("history") else {}
            return result(valid({**task, **self._laxity(task), **history, "now": stamp(self.now)}))
        if args.get("revision", task["revision"]) != task["revision"]:
            return refusal(f"revision: {task['id']} is at revision {task['revision']}.", "stale_revision")
        return result(getattr(self, f"_{name}")(args))

    def _laxity(self, task: dict[str, Any]) -> dict[str, Any]:
        """Give the deadline of a task with the time to spare that it has now."""
        if "laxity_seconds" not in task.get("deadline", {}):
            return {}
        passed = (self.now - datetime.fromisoformat(task["now"])).total_seconds()
        return {"deadline": {**task["deadline"], "laxity_seconds": int(task["deadline"]["laxity_seconds"] - passed)}}

    def _cancel_task(self, args: dict[str, Any]) -> dict[str, Any]:
        if self.tasks[args["task_id"]]["state"] == "running":
            return self.change(args["task_id"], cancel_requested=True)
        return self._undoable(args["task_id"], state="cancelled", delivery=None)

    def _undoable(self, task_id: str, **parts: Any) -> dict[str, Any]:
        self.was = self.tasks[task_id]
        return valid({**self.change(task_id, **parts), "undo": UNDO})

    def _reschedule_task(self, args: dict[str, Any]) -> dict[str, Any]:
        if "pause" in args:
            return self._undoable(args["task_id"], paused=True if args["pause"] else None)
        if args.get("dry_run"):
            text = "every Tuesday at 10:30" if args.get("all_following") else "every Tuesday at 09:00"
            return valid({**self.tasks[args["task_id"]], "id": DRY_RUN_ID, "repeat": {**weekly(), "text": text}})
        if "payload" in args:
            return self._undoable(args["task_id"], state="ready")
        told = {name: args[name] for name in ("title", "priority") if name in args}
        if told:
            return self.change(args["task_id"], **told)
        zone = args["timezone"]
        instant = datetime.fromisoformat(args["when"]).replace(tzinfo=ZoneInfo(zone))
        return self._undoable(args["task_id"], when=when(instant, zone))

    def _act_on_task(self, args: dict[str, Any]) -> dict[str, Any]:
        task = self.tasks[args["task_id"]]
        if args["action"] == "undo":
            assert args["undo"] == UNDO
            gone = {part: None for part in task if part not in self.was}
            return self.change(task["id"], **{**gone, **self.was, "revision": task["revision"] + 1})
        if args["action"] == "done":
            return self._undoable(task["id"], unread=None)
        if args["action"] == "snooze":
            later = timedelta(minutes=args["minutes"]) if "minutes" in args else timedelta(days=1)
            return self._undoable(task["id"], state="scheduled", when=when(self.now + later, task["when"]["timezone"]))
        return self._undoable(task["id"], state="ready" if args["action"] == "run_now" else "scheduled")
