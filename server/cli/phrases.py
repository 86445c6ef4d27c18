"""Messages of Duetime speak of tools and arguments; here they come to speak of verbs and options."""

from __future__ import annotations

import ast
import json
import re
import shlex

_VERBS = {
    "schedule_task": "`duetime schedule`",
    "list_tasks": "`duetime list`",
    "get_task": "`duetime show`",
    "reschedule_task": "`duetime reschedule`",
    "cancel_task": "`duetime cancel`",
}
_OPTIONS = {
    "when": "--when",
    "repeat": "--repeat",
    "timezone": "--timezone",
    "until": "--until",
    "max_runs": "--max-runs",
    "action": "--action",
    "payload": "--payload",
    "labels": "--label",
    "deliver_to": "--deliver-to",
    "priority": "--priority",
    "deadline": "--deadline",
    "deadline_type": "--deadline-type",
    "estimate": "--estimate",
    "needs": "--need",
    "idempotency_key": "--key",
    "after": "--after",
    "before": "--before",
    "since": "--since",
    "state": "--state",
    "cursor": "--cursor",
    "limit": "--limit",
    "revision": "--revision",
    "pause": "--pause",
    "skip_next": "--skip-next",
    "title": "TITLE",
    "task_id": "ID",
}
_NAMES = "|".join(_OPTIONS)
_CALLS = (
    (re.compile(r"(?:reschedule_task\(pause=false\)|\bpause=false\b)"), "`duetime reschedule {id} --resume`"),
    (re.compile(r"(?:reschedule_task\(pause=true\)|\bpause=true\b)"), "`duetime reschedule {id} --pause`"),
    (re.compile(r"(?:reschedule_task\(skip_next=true\)|\bskip_next=true\b)"), "`duetime reschedule {id} --skip-next`"),
)
_SEVERAL = re.compile(r"\b(labels|deliver_to)=(\[[^\]]*\])")
_OBJECT = re.compile(r"\bpayload=(\{.*?\})(?=\W|$)")
_NEEDS = re.compile(r"\bneeds=(\{.*?\})(?=\W|$)")


def in_words_of_the_command_line(message: str, task_id: str = "ID") -> str:
    """Rewrite a message that speaks of tools and arguments so that it speaks of verbs and options."""
    for call, command in _CALLS:
        message = call.sub(command.format(id=task_id), message)
    message = re.sub("|".join(_VERBS), lambda found: _VERBS[found[0]], message)
    message = re.sub(rf"(?m)^({_NAMES})(?=[:.])", lambda found: _OPTIONS[found[1]], message)
    message = _OBJECT.sub(lambda found: f"--payload {_value(found[1])}", message)
    message = _NEEDS.sub(lambda found: _pairs(_OPTIONS["needs"], found[1]), message)
    message = _SEVERAL.sub(lambda found: _each(_OPTIONS[found[1]], found[2]), message)
    return re.sub(rf"\b({_NAMES})=(?=[\w'\"\[{{])", lambda found: f"{_OPTIONS[found[1]]} ", message)


def _each(option: str, written: str) -> str:
    values = _literal(written)
    return " ".join(f"{option} {shlex.quote(str(value))}" for value in values) if isinstance(values, list) else written


def _pairs(option: str, written: str) -> str:
    values = _literal(written)
    if not isinstance(values, dict):
        return written
    return " ".join(f"{option} {shlex.quote(f'{name}={units}')}" for name, units in values.items())


def _value(written: str) -> str:
    value = _literal(written)
    return shlex.quote(json.dumps(value, ensure_ascii=False)) if isinstance(value, dict) else written


def _literal(written: str) -> object:
    try:
        return ast.literal_eval(written)
    except (ValueError, SyntaxError):
        return None
