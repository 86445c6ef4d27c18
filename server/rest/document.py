"""Writes the OpenAPI document into a file: `python -m duetime.server.rest.document docs/openapi.json`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from duetime.server.rest.api import document


def text() -> str:
    """Return the document as it is published."""
    return json.dumps(document(), ensure_ascii=False, indent=1) + "\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(text(), "utf-8")
