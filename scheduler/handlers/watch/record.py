"""The checkpoint of a watch between two looks: counts, times, and the last value."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any, Final, Self

from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.rules.sanitize import check_json, clean_text
from duetime.scheduler.runtime.secret_mask import masked_json
from duetime.scheduler.task import Json

MAX_WATCHED_VALUE_BYTES: Final = 2048
"""A larger value is kept as the start of its text; its digest shows whether it changed."""

MAX_WATCHED_VALUE_CHARS: Final = 500
MAX_WORDS_CHARS: Final = 120
"""Characters of a value in a sentence."""


@dataclass(frozen=True, slots=True)
class SeenValue:
    """The value of one look: what is shown of it, and a digest of all of it."""

    shown: Json
    digest: str

    @classmethod
    def of(cls, value: Json) -> Self:
        """Return what is kept of a value; values of secrets are masked in it."""
        text = json.dumps(value, ensure_ascii=False, sort_keys=True)
        digest = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
        try:
            check_json("value", value, max_bytes=MAX_WATCHED_VALUE_BYTES)
            shown = value
        except InvalidArgument:
            shown = clean_text(value if isinstance(value, str) else text, MAX_WATCHED_VALUE_CHARS)
        return cls(masked_json(shown), digest)

    @property
    def words(self) -> str:
        """The value on one line: a text as it is, the rest as JSON."""
        text = self.shown if isinstance(self.shown, str) else json.dumps(self.shown, ensure_ascii=False)
        return clean_text(" ".join(text.split()), MAX_WORDS_CHARS, lines=False)


@dataclass(frozen=True, slots=True)
class WatchRecord:
    """The looks of one run so far; `errors` counts the last ones in a row that found no value."""

    began: datetime
    until: datetime
    looks: int = 0
    errors: int = 0
    value: SeenValue | None = None

    @classmethod
    def of(cls, checkpoint: Any) -> Self | None:
        """Return the record that a checkpoint holds; None without one, or if it cannot be read."""
        try:
            began, until = (datetime.fromisoformat(checkpoint[name]) for name in ("began", "until"))
            value = checkpoint["value"]
            seen = SeenValue(value["shown"], value["digest"]) if isinstance(value, Mapping) else None
            return cls(began, until, int(checkpoint["looks"]), int(checkpoint["errors"]), seen)
        except (KeyError, TypeError, ValueError):
            return None

    def checkpoint(self) -> Json:
        """Return the record as JSON, for the checkpoint."""
        return asdict(self) | {"began": self.began.isoformat(), "until": self.until.isoformat()}

    def seen(self, value: SeenValue) -> Self:
        """Return the record after a look that found a value."""
        return replace(self, looks=self.looks + 1, errors=0, value=value)

    def missed(self) -> Self:
        """Return the record after a look that found none."""
        return replace(self, looks=self.looks + 1, errors=self.errors + 1)
