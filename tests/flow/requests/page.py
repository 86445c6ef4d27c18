"""Reads `docs/requests.md`: what users say, the calls that an agent makes, and the answers it gets."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

PAGE: Final = Path(__file__).resolve().parents[3] / "docs" / "requests.md"
ID: Final = re.compile(r"\b[tuc]_[0-9a-z]{12,24}\b")
_REQUEST: Final = re.compile(r"^## \d+\. (?P<title>.+)$", re.MULTILINE)
_STEP: Final = re.compile(
    r"^```json\n(?P<call>.*?)^```\n+```text\n(?P<answer>.*?)^```$"
    r"|^\*(?P<number>\d+) (?P<unit>minutes?|hours?|days?) later\.\*$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call of a tool, and the text that answers it; `span` is where the answer stands on the page."""

    tool: str
    arguments: dict[str, Any]
    answer: str
    span: tuple[int, int]


@dataclass(frozen=True, slots=True)
class UserRequest:
    """One request of a user: calls, and spans of time between them."""

    title: str
    steps: tuple[ToolCall | timedelta, ...]


def requests(text: str) -> list[UserRequest]:
    """Return the requests of the page in their order."""
    heads = list(_REQUEST.finditer(text))
    ends = [*(head.start() for head in heads[1:]), len(text)]
    return [UserRequest(head["title"], _steps(text, head.end(), end)) for head, end in zip(heads, ends, strict=True)]


def _steps(text: str, start: int, end: int) -> tuple[ToolCall | timedelta, ...]:
    return tuple(_step(found) for found in _STEP.finditer(text, start, end))


def _step(found: re.Match[str]) -> ToolCall | timedelta:
    if found["unit"]:
        return timedelta(**{f"{found['unit'].rstrip('s')}s": int(found["number"])})
    call = json.loads(found["call"])
    return ToolCall(call["tool"], call["arguments"], found["answer"].rstrip("\n"), found.span("answer"))
