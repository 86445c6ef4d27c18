"""JSON Schemas of results: whether one is well-formed, and how a result differs from it; loads the library when used.

Callers bound what a schema may have, so that no check keeps a worker or a transaction busy.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from duetime.scheduler.task import Json

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator, SchemaError, ValidationError

MAX_MISMATCH_CHARS: Final = 160


def form_problem(schema: Any) -> str | None:
    """Say what is wrong with a schema, None where nothing is: `$.type: 'list' is not valid under ...`."""
    from jsonschema import SchemaError  # noqa: PLC0415 - a tenth of a second, and most calls have no schema

    validator = _validator(json.dumps(schema, sort_keys=True))
    try:
        validator.check_schema(validator.schema)
    except SchemaError as error:
        return _said(error)
    return None


def mismatch(schema: Mapping[str, Any], result: Json) -> str | None:
    """Say how a result differs from the schema, None if it does not: `$.rows: 'x' is not of type 'array'`."""
    error = next(_validator(json.dumps(schema, sort_keys=True)).iter_errors(result), None)
    return _said(error) if error else None


def _said(error: ValidationError | SchemaError) -> str:
    return f"{error.json_path}: {error.message}"[:MAX_MISMATCH_CHARS]


@lru_cache(maxsize=256)
def _validator(text: str) -> Draft202012Validator:
    from jsonschema import Draft202012Validator  # noqa: PLC0415 - likewise

    return Draft202012Validator(json.loads(text))
