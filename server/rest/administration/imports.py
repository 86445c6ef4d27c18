"""The import of an archive, for operators: stores the rows of one file of it again."""

from __future__ import annotations

import base64
import binascii
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Final, Literal

from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.principal import Scope
from duetime.scheduler.rules.sanitize import check_text
from duetime.server.rest.operation import Operation, RestAnswer, RestCall
from duetime.server.rest.resources.installation import REASON
from duetime.server.rest.resources.payloads import RestPayload
from duetime.tools.admin.retention_rows import import_entry, import_json
from duetime.tools.arguments.arguments import Argument
from duetime.tools.arguments.types import Text
from pydantic import Field

MAX_CONTENT_BYTES: Final = 750_000
"""Bytes of a file in a request, which has 1 MiB at most: as base64 it has a third more."""

_MAX_CONTENT_CHARS: Final = 4 * MAX_CONTENT_BYTES // 3


class ImportPayload(RestPayload):
    """The rows of a file that were stored, by table, and how many were there already."""

    schema_: Annotated[Literal["duetime.import/1"], Field(alias="schema")] = "duetime.import/1"
    stored: dict[str, int]
    there: int


def import_archive(call: RestCall) -> RestAnswer:
    """Store what is missing of a file."""
    store, name = call.parts.store, check_text("name", call.values["name"])
    content = _content(call.values["content"])
    act, tenant = partial(import_entry, name, by=call.by, reason=call.values.get("reason")), call.values.get("tenant")
    stored, there = store.retention.import_file(Path(name), tenant=tenant, content=content, act=act)
    return RestAnswer(ImportPayload.model_validate(import_json(stored, there)))


def _content(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        accepted = f"a whole file of the archive as base64, {MAX_CONTENT_BYTES:,} bytes at most"
        raise InvalidArgument("content", "it is not base64", accepted=accepted, example=_EXAMPLE) from None


_EXAMPLE: Final = "content='H4sIAAAA...'"
OF_IMPORT = (
    Operation(
        "import_archive",
        "POST",
        "/import",
        "Store the rows of a file of the archive again; what is there already stays as it is",
        import_archive,
        ImportPayload,
        Scope.ADMIN,
        body=(
            Argument("name", Text(200), "The name of the file", "name='tasks-0900.jsonl.gz'", required=True),
            Argument("content", Text(_MAX_CONTENT_CHARS), "The file as base64", _EXAMPLE, required=True),
            Argument("tenant", Text(200), "Refuse a file that has rows of another tenant", "tenant='acme'"),
            REASON,
        ),
        statuses=(HTTPStatus.CONFLICT,),
        for_operators=True,
    ),
)
