"""A form that was sent when its session had ended: a cookie keeps what was typed until after the login.

A browser with scripts keeps it itself, so a page shows this form to the others alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from duetime.server.admin.access.sessions import Seal
from duetime.server.admin.protection import TOKEN_FIELD

UNSENT_COOKIE: Final = "duetime_unsent"
UNSENT_LIFETIME_S: Final = 600
MAX_COOKIE_CHARS: Final = 3_800
"""Browsers keep no cookie of more than 4,096 characters, its name and its attributes included."""

_PURPOSE: Final = "unsent"


@dataclass(frozen=True, slots=True)
class UnsentForm:
    """The address and the fields of a form that did nothing."""

    path: str
    fields: Sequence[tuple[str, str]]

    def sealed(self, seal: Seal) -> str:
        """Return the value of the cookie; empty where a cookie has no room for what was typed."""
        kept = [each for each in self.fields if each[0] != TOKEN_FIELD]
        text = seal.close(_PURPOSE, {"path": self.path, "fields": kept})
        return text if len(text) <= MAX_COOKIE_CHARS else ""

    @classmethod
    def of(cls, seal: Seal, text: str) -> UnsentForm | None:
        """Return the form of a cookie that this server has sealed; None for any other text."""
        found = seal.open(_PURPOSE, text)
        return cls(found["path"], [(name, value) for name, value in found["fields"]]) if found else None
