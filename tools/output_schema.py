"""Output schemas that every client can read: without titles and null unions, and open for fields that come later.

`python -m duetime.tools.output_schema` writes those of the payloads to `schemas/`: a first answer does not wait until
they are derived.
"""

from __future__ import annotations

import json
import sys
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    from pydantic import BaseModel

Output = Literal["task", "list", "event"]
"""The answer of a tool: `duetime.task/1`, `duetime.list/1` or `duetime.event/1`."""

_HERE = Path(__file__).resolve().parent  # of the checkout, also where an editable install links to it
SCHEMAS = _HERE / "schemas"

_NOISE: Final = frozenset({"title", "description", "default", "additionalProperties"})


@cache
def output_schema(output: Output) -> dict[str, Any]:
    """Return the JSON Schema of what a tool answers, where an absent part is left out and never null."""
    return dict(json.loads(files("duetime.tools").joinpath("schemas", f"{output}.json").read_bytes()))


def derived_schema(model: type[BaseModel]) -> dict[str, Any]:
    """Derive the schema from the model of the answer."""
    return dict(_plain(model.model_json_schema(by_alias=True)))


def schema_files() -> dict[str, str]:
    """Return the content of each file in `schemas/`, by its name."""
    from duetime.widgets.schema.task import TaskPayload  # noqa: PLC0415 - not before it is asked for
    from duetime.widgets.schema.task_list import TaskListPayload  # noqa: PLC0415 - not before it is asked for
    from duetime.widgets.sent_event import SentEventPayload  # noqa: PLC0415 - not before it is asked for

    models: dict[Output, type[BaseModel]] = {"task": TaskPayload, "list": TaskListPayload, "event": SentEventPayload}
    return {f"{output}.json": json.dumps(derived_schema(model), indent=1) + "\n" for output, model in models.items()}


def main() -> int:
    """Write the files."""
    SCHEMAS.mkdir(exist_ok=True)
    for name, content in schema_files().items():
        (SCHEMAS / name).write_text(content, encoding="utf-8", newline="\n")
    return 0


def _plain(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_plain(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if "anyOf" in schema and {"type": "null"} in schema["anyOf"]:
        rest = [item for item in schema["anyOf"] if item != {"type": "null"}]
        return _plain(rest[0] if len(rest) == 1 else {"anyOf": rest})
    return {key: _named(key, value) for key, value in schema.items() if key not in _NOISE or _is_map(key, value)}


def _is_map(key: str, value: Any) -> bool:
    """Recognise a real map (`counts`: state to number), where additionalProperties says what the values are."""
    return key == "additionalProperties" and isinstance(value, dict)


def _named(key: str, value: Any) -> Any:
    if key in {"properties", "$defs"}:
        return {name: _plain(part) for name, part in value.items()}
    return _plain(value)


if __name__ == "__main__":
    sys.exit(main())
