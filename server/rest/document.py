"""Writes the OpenAPI document into a file: `python -m duetime.server.rest.document docs/openapi.json`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from duetime.server.rest.api import api
from duetime.server.rest.change_feed import ChangeFeed, EventLog
from duetime.server.rest.operation import Installation


def text() -> str:
    """Return the document as it is published."""
    return json.dumps(api(_no_installation, ChangeFeed(_no_events)).openapi(), ensure_ascii=False, indent=1) + "\n"


def _no_installation() -> Installation:
    raise AssertionError("a document answers no request")


def _no_events() -> EventLog:
    raise AssertionError("a document streams nothing")


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(text(), "utf-8")
