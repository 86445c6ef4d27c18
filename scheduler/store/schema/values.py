"""Forms in which single values are written: instants, JSON and text."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from datetime import MAXYEAR, MINYEAR, UTC, datetime, timedelta
from json import encoder
from typing import Any

from duetime.scheduler.rules.time.durations import EPOCH, MICROSECOND
from duetime.scheduler.task import Json

FIRST_INSTANT = datetime(MINYEAR + 1, 1, 1, tzinfo=UTC)
LAST_INSTANT = datetime(MAXYEAR - 1, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
"""Between these two an instant has a wall time in every zone."""

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_EMPTY: Mapping[str, Callable[[], Json]] = {"{}": dict, "[]": list}


def _compact_encoder() -> Callable[[Json], str]:
    """Return an encoder in C that is made once; `json` makes one for each text, which takes longer than most texts."""
    plain = json.JSONEncoder(separators=(",", ":"), allow_nan=False)
    make = getattr(encoder, "c_make_encoder", None)
    if make is None:  # only CPython has it
        return plain.encode
    chunks = make(None, plain.default, encoder.encode_basestring_ascii, None, ":", ",", False, False, False)
    return lambda value: "".join(chunks(value, 0))


def _no_number(word: str) -> float:
    raise ValueError(f"{word} is not a number in JSON")


_DECODE = json.JSONDecoder(parse_constant=_no_number).decode
_ENCODE = _compact_encoder()
_SUSPECT_JSON = re.compile(r"\\u(?:0000|d[89a-f])")


def check_aware(instant: datetime) -> None:
    """Refuse a naive datetime."""
    if instant.tzinfo is None:
        msg = f"a naive datetime ({instant.isoformat()}) is not an instant; attach its time zone"
        raise ValueError(msg)


def instant_text(instant: datetime) -> str:
    """Return an instant as PostgreSQL reads it; a naive datetime is refused."""
    check_aware(instant)
    return instant.isoformat()


def to_microseconds(instant: datetime) -> int:
    """Return whole microseconds since 1970 in UTC; a naive datetime is refused."""
    if instant.tzinfo is None:
        check_aware(instant)
    return (instant - EPOCH) // MICROSECOND


def from_microseconds(value: int) -> datetime:
    return check_year(EPOCH + timedelta(0, 0, value))


def check_year(instant: datetime) -> datetime:
    """Refuse an instant so far away that it would overflow in some time zone."""
    if not MINYEAR < instant.year < MAXYEAR:
        raise ValueError(f"the year {instant.year} is out of range")
    return instant


def storable(text: str) -> str:
    """Replace characters that no database stores (NUL, lone surrogates) by U+FFFD, so that text never fails a write."""
    if text.isascii() and "\0" not in text:
        return text  # nearly every text, without a search
    return _UNSTORABLE.sub("\N{REPLACEMENT CHARACTER}", text)


def encode(value: Json) -> str:
    """Return compact JSON; NaN and infinities are refused, unstorable characters replaced."""
    if value == {}:
        return "{}"  # the most frequent value
    text = _ENCODE(value)
    return _ENCODE(_cleaned(_DECODE(text))) if "\\u" in text and _SUSPECT_JSON.search(text) else text


def decode(text: str | bytes) -> Any:
    """Parse JSON in UTF-8, with a shortcut for empty values, which are the most frequent."""
    if isinstance(text, bytes):
        text = text.decode()
    empty = _EMPTY.get(text)
    if empty is not None:
        return empty()
    return _cleaned(_DECODE(text)) if "\\ud" in text or "\\uD" in text else _DECODE(text)


def _cleaned(value: Json) -> Json:
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, Mapping):
        return {storable(key): _cleaned(item) for key, item in value.items()}
    return [_cleaned(item) for item in value] if isinstance(value, list) else value


def instant(at: Any) -> datetime:
    """Return a time as a driver gave it; a damaged one is after all others, as SQLite sorts it."""
    if isinstance(at, datetime):
        return at
    if not isinstance(at, int):
        return LAST_INSTANT
    try:
        return from_microseconds(at)
    except (ValueError, OverflowError):
        return FIRST_INSTANT if at < 0 else LAST_INSTANT
