"""Write the published JSON Schemas of the payloads: `python .ci/payload_schemas.py docs/payloads`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from duetime.scheduler.task import State, Tier
from duetime.widgets.payload import as_json
from duetime.widgets.schema.history_parts import AttemptPart, EventPart, HistoryPart
from duetime.widgets.schema.run_parts import LastRun
from duetime.widgets.schema.task import TaskPayload
from duetime.widgets.schema.task_list import ListRow, TaskListPayload
from duetime.widgets.schema.time_parts import DeadlinePart, Repeat, When
from pydantic import BaseModel

NOW = "2026-11-23T15:00:00Z"
WHEN = When(
    utc="2026-11-24T16:00:00Z",
    local="2026-11-24T09:00:00-07:00",
    timezone="America/Denver",
    text="Tue 24 Nov 2026 09:00",
    relative="in 25 h",
)
REMINDER = TaskPayload(
    id="t_7k3m9qx2w4hb",
    revision=1,
    title="Call John",
    state=State.SCHEDULED,
    action="reminder",
    effect="This only reminds; nothing does the work.",
    when=WHEN,
    owner="ann",
    created=True,
    speech="Call John is scheduled for tomorrow at nine in the morning.",
    now=NOW,
)
FAILED = TaskPayload(
    id="t_8m2p4rw6x1jc",
    revision=3,
    title="Send orders",
    state=State.RETRYING,
    action="webhook",
    when=WHEN,
    repeat=Repeat(rule="FREQ=DAILY", text="every day at 09:00", next=("2026-11-25T09:00:00-07:00",)),
    priority=Tier.HIGH,
    deadline=DeadlinePart(
        utc="2026-11-24T18:00:00Z",
        local="2026-11-24T11:00:00-07:00",
        text="Tue 24 Nov 2026 11:00",
        type="hard",
        laxity_seconds=7100,
    ),
    attempt=2,
    max_attempts=10,
    last_run=LastRun(state=State.FAILED, ended="2026-11-23T16:00:03Z", summary="POST example.com answered 500"),
    owner="ann",
    history=HistoryPart(
        attempts=(AttemptPart(number=1, started="2026-11-24T16:00:00Z", outcome="retry", reason="answered 500"),),
        events=(EventPart(at="2026-11-23T15:00:00Z", kind="created", actor="ann", via="mcp 10.0.0.7"),),
    ),
    now="2026-11-24T16:00:05Z",
)
LIST = TaskListPayload(
    tasks=(ListRow(id="t_7k3m9qx2w4hb", title="Call John", state=State.SCHEDULED, when=WHEN.utc),),
    counts={State.SCHEDULED: 1},
    now=NOW,
)
PUBLISHED: dict[str, tuple[type[BaseModel], list[Any]]] = {
    "task": (TaskPayload, [as_json(REMINDER), as_json(FAILED)]),
    "list": (TaskListPayload, [as_json(LIST)]),
}


def published(name: str) -> dict[str, Any]:
    """Return the schema of a payload, open for parts that come later, with its examples."""
    model, examples = PUBLISHED[name]
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": f"urn:duetime:payload:{name}:1"}
    return {**head, **_open(model.model_json_schema(by_alias=True)), "examples": examples}


def content(name: str) -> str:
    """Return the content of the file of a payload."""
    return json.dumps(published(name), indent=1, ensure_ascii=False) + "\n"


def _open(schema: Any) -> Any:
    """Leave out null, which is never sent, titles, and the ban of parts that the schema does not name."""
    if isinstance(schema, list):
        return [_open(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    if {"type": "null"} in schema.get("anyOf", []):
        rest = [part for part in schema["anyOf"] if part != {"type": "null"}]
        return _open(rest[0] if len(rest) == 1 else {"anyOf": rest})
    return {key: _part(key, part) for key, part in schema.items() if _says_something(key, part)}


def _part(key: str, part: Any) -> Any:
    return {name: _open(each) for name, each in part.items()} if key in {"properties", "$defs"} else _open(part)


def _says_something(key: str, part: Any) -> bool:
    return key not in {"title", "default"} and not (key == "additionalProperties" and part is False)


if __name__ == "__main__":
    for each in PUBLISHED:
        (Path(sys.argv[1]) / f"{each}.json").write_text(content(each), encoding="utf-8", newline="\n")
