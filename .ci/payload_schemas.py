"""Write the published JSON Schemas of the payloads: `python .ci/payload_schemas.py docs/payloads`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Literal

from duetime.scheduler.task import State, Tier
from duetime.scheduler.views import CHAIN_ACTION
from duetime.server.rest.rows.tasks import ShownTaskPayload
from duetime.widgets.bulk.payload import BulkListPayload
from duetime.widgets.formats.speech import with_speech
from duetime.widgets.payload import as_json
from duetime.widgets.schema.chain_parts import ChainPart, StepPart
from duetime.widgets.schema.history_parts import AttemptPart, EventPart, HistoryPart
from duetime.widgets.schema.run_parts import LastRun, WaitPart
from duetime.widgets.schema.task import TaskPayload
from duetime.widgets.schema.task_list import ListRow, TaskListPayload, WholeListPayload
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
MISSING = "secret 'crm': there is none of this name"
BLOCKED = TaskPayload(
    id="t_5h2k7dq9m3xf",
    revision=1,
    title="Push contacts to the CRM",
    state=State.SCHEDULED,
    blocked=True,
    action="webhook",
    when=WHEN,
    waiting_for=(f"blocked: {MISSING}",),
    waits=(WaitPart(kind="blocked", until="2026-11-23T15:01:00Z", after=MISSING),),
    owner="ann",
    now=NOW,
)
QUESTION = "Pay the invoice of Acme over 90 EUR?"
ASKING = TaskPayload(
    id="t_3n8w1yt6r0vg",
    revision=1,
    title="Pay the invoice",
    state=State.WAITING,
    action="webhook",
    when=WHEN,
    waiting_for=(f"approval of «{QUESTION}» by the user until Mon 23 Nov 2026 10:00 (in 2 h), else it is cancelled",),
    waits=(WaitPart(kind="approval", until="2026-11-23T17:00:00Z", title=QUESTION, goes_on=False),),
    owner="ann",
    now=NOW,
)
TODAY = When(
    utc="2026-11-23T14:58:00Z",
    local="2026-11-23T07:58:00-07:00",
    timezone="America/Denver",
    text="Mon 23 Nov 2026 07:58",
    relative="2 min ago",
)
LIST = TaskListPayload(
    tasks=(
        ListRow(id=BLOCKED.id, title=BLOCKED.title, state=State.SCHEDULED, when=WHEN.utc, blocked=True, why=MISSING),
        ListRow(id="t_7k3m9qx2w4hb", title="Call John", state=State.SCHEDULED, when=WHEN.utc),
    ),
    counts={State.SCHEDULED: 2},
    now=NOW,
)


class WholeChain(ChainPart):
    """A chain with its steps, upstreams first: up to 100 of them. `done` counts those that have succeeded."""

    steps: tuple[StepPart, ...]


class ChainPayload(ShownTaskPayload):
    """A whole chain: a `duetime.task/1` whose action is `chain`, and which has the steps.

    Its `state` is that of its steps together, `when` the time of its next step. A single step is a task as any other,
    whose `chain` names its `step`.
    """

    action: Literal["chain"]
    chain: WholeChain


def step(name: str, state: State, *after: str, why: str | None = None) -> StepPart:
    """Return a step of the example."""
    return StepPart(
        name=name,
        id=f"t_{name:0<12}",
        action="webhook",
        state=state,
        when=TODAY.utc,
        after=after or None,
        why=why,
    )


STEPS = (
    step("fetch", State.SUCCEEDED),
    step("clean", State.FAILED, "fetch", why="POST example.com answered 404"),
    step("load", State.RUNNING, "fetch"),
    step("report", State.WAITING, "load"),
)
CHAIN = ChainPayload(
    id="c_7k3m9qx2w4hb",
    revision=1,
    title="Weekly report",
    action=CHAIN_ACTION,
    state=State.RUNNING,
    when=TODAY,
    chain=WholeChain(id="c_7k3m9qx2w4hb", title="Weekly report", done=1, of=4, failed=("clean",), steps=STEPS),
    owner="ann",
    now=NOW,
)
PAYROLL = "Run the payroll of November?"
ASKING_CHAIN = ChainPayload(
    id="c_9d4v0bz8s5pk",
    revision=1,
    title="Payroll",
    action=CHAIN_ACTION,
    state=State.WAITING,
    when=WHEN,
    waiting_for=(f"approval of «{PAYROLL}» by the user",),
    waits=(WaitPart(kind="approval", title=PAYROLL),),
    chain=WholeChain(
        id="c_9d4v0bz8s5pk",
        title="Payroll",
        done=0,
        of=2,
        steps=(step("prepare", State.WAITING), step("send", State.WAITING, "prepare")),
    ),
    owner="ann",
    now=NOW,
)


def said(task: TaskPayload) -> dict[str, Any]:
    """Return a task as REST answers with it: with its sentences for a voice."""
    return as_json(with_speech(task))


PUBLISHED: dict[str, tuple[tuple[type[BaseModel], ...], list[Any]]] = {
    "task": ((TaskPayload, ShownTaskPayload), [said(REMINDER), as_json(FAILED), said(BLOCKED), said(ASKING)]),
    "list": ((TaskListPayload, WholeListPayload, BulkListPayload), [as_json(LIST)]),
    "chain": ((ChainPayload,), [said(CHAIN), said(ASKING_CHAIN)]),
}
"""Each payload as all answers have it, and the longer forms that some answers have."""

LONGER_PARTS = {"WholeListRow": "ListRow", "BulkRow": "ListRow", "WholeClash": "ClashPart"}


def published(name: str) -> dict[str, Any]:
    """Return the schema of a payload, open for parts that come later, with its examples."""
    (model, *longer), examples = PUBLISHED[name]
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": f"urn:duetime:payload:{name}:1"}
    schema = model.model_json_schema(by_alias=True)
    for each in longer:
        _add(schema, each.model_json_schema(by_alias=True))
    return {**head, **_open(schema), "examples": examples}


def _add(schema: dict[str, Any], longer: dict[str, Any]) -> None:
    """Add the members of a longer form, none of which is in all answers."""
    parts = schema["$defs"]
    for name, part in {"": longer, **longer["$defs"]}.items():
        shared = LONGER_PARTS.get(name, name)
        known = parts.setdefault(shared, part) if name else schema
        more = {each: kind for each, kind in part.get("properties", {}).items() if each not in known["properties"]}
        if more:
            known["properties"] |= more
            known["description"] += f"\n\n{part['description']}"


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
