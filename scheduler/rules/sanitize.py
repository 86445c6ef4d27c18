"""Checks of text and JSON from outside: titles, payloads and results."""

from __future__ import annotations

import json
import math
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Final

from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.task import Json

MAX_JSON_BYTES: Final = 64 * 1024
MAX_JSON_LEVELS: Final = 32
MAX_INTEGER_VALUE: Final = 2**63

_ENCODE = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_BLANK_LETTERS = frozenset("\u115f\u1160\u2800\u3164\uffa0")
"""Hangul fillers and the empty Braille pattern: letters and symbols that show nothing."""
_SEPARATORS = frozenset("\u2028\u2029\ufeff")
_TAGS = range(0xE0000, 0xE0080)
_NONCHARACTERS = range(0xFDD0, 0xFDF0)
_NONCHARACTER_CODE = 0xFFFE  # and the code after it, in each of the 17 planes
_CONTROL_NAMES = {
    "\x00": "NULL",
    "\x07": "BELL",
    "\x08": "BACKSPACE",
    "\t": "TAB",
    "\n": "LINE FEED",
    "\r": "CARRIAGE RETURN",
    "\x1b": "ESCAPE",
    "\x7f": "DELETE",
}

_QUOTES: Final = str.maketrans("«»", "\u2039\u203a")


def check_text(argument: str, value: object, *, limit: int = 200, lines: bool = False) -> str:
    """Return `value` without the blanks around it, or raise `InvalidArgument`.

    It must hold 1 to `limit` characters, one of them visible. Control and bidirectional controls, surrogates,
    noncharacters and tag characters are refused by name; `lines` permits tabs and line ends.
    """
    if not isinstance(value, str):
        raise InvalidArgument(argument, f"expected text, got {kind_of(value)}", accepted=f"1 to {limit} characters")
    text = value.strip()
    if not (text and _is_plain(value)):
        _refuse_characters(argument, value, lines=lines)
        if not any(map(_is_visible, text)):
            raise InvalidArgument(argument, "it has no visible character", accepted=f"1 to {limit} visible characters")
    _refuse_length(argument, text, limit)
    return text


def check_title(value: object) -> str:
    """Return a title as `check_text` does, or raise `InvalidArgument` with an example of one."""
    try:
        return check_text("title", value)
    except InvalidArgument as wrong:
        raise InvalidArgument("title", wrong.problem, accepted=wrong.accepted, example="Call John") from None


def json_bytes(value: Json) -> int:
    """Return how many bytes a JSON value has as it is stored."""
    return len(_ENCODE(value).encode())


def check_characters(argument: str, value: str, *, limit: int, lines: bool = False) -> None:
    """Raise `InvalidArgument` as `check_text` does, but for a text of blanks, or of nothing."""
    _refuse_characters(argument, value, lines=lines)
    _refuse_length(argument, value, limit)


def _refuse_characters(argument: str, value: str, *, lines: bool) -> None:
    refused = None if _is_plain(value) else next((char for char in value if _is_refused(char, lines=lines)), None)
    if refused is not None:
        raise InvalidArgument(
            argument, f"it contains {character_name(refused)}", accepted="visible characters and plain spaces"
        )


def _refuse_length(argument: str, value: str, limit: int) -> None:
    if len(value) > limit:
        raise InvalidArgument(argument, f"it has {len(value):,} characters", accepted=f"at most {limit:,}")


def clean_text(value: str, limit: int, *, lines: bool = True) -> str:
    """Return text that is safe to store and show.

    Refused characters become U+FFFD, and it is cut to `limit` characters.
    """
    cut = value if len(value) <= limit else value[: limit - 1] + "…"
    if _is_plain(cut):
        return cut
    return "".join("\ufffd" if _is_refused(char, lines=lines) else char for char in cut)


def quoted(text: str, limit: int) -> str:
    """Quote a user's text in a sentence, on one line, with nothing in it that could end the quote."""
    return f"«{clean_text(' '.join(text.translate(_QUOTES).split()), limit, lines=False)}»"


def check_json(
    argument: str,
    value: Json,
    *,
    max_bytes: int = MAX_JSON_BYTES,
    max_depth: int = MAX_JSON_LEVELS,
    smaller: str = "",
) -> None:
    """Raise `InvalidArgument` unless `value` is JSON that every database keeps as it is.

    At most `max_bytes` of UTF-8 and `max_depth` levels; text without NUL and lone surrogates; finite numbers, whole
    ones of at most 64 bits. The message names the place, such as `payload.items[3]`; `smaller` is the example of what
    is too large.
    """
    if value is None or _is_plain_object(value, max_bytes):
        return
    size = 0
    for path, item, depth in _walk(argument, value):
        _check_depth(argument, depth, max_depth)
        _check_scalar(path, item)
        size += len(item) if isinstance(item, str) else 1
        if size > max_bytes:
            break
    else:
        size = len(_ENCODE(value).encode())
    if size > max_bytes:
        raise InvalidArgument(
            argument, "it is too large", accepted=f"at most {max_bytes:,} bytes as JSON", example=smaller
        )


def character_name(char: str) -> str:
    """Name one character for a message: `U+202E RIGHT-TO-LEFT OVERRIDE`."""
    category = unicodedata.category(char)
    fallback = {"Cc": "CONTROL CHARACTER", "Cs": "LONE SURROGATE"}.get(category, "NONCHARACTER")
    name = _CONTROL_NAMES.get(char) or unicodedata.name(char, fallback)
    return f"U+{ord(char):04X} {name}"


def kind_of(value: object) -> str:
    """Name the JSON kind of `value` in a message, without showing it."""
    kinds = {type(None): "null", bool: "a boolean", int: "a number", float: "a number", str: "text"}
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, list | tuple):
        return "a list"
    return kinds.get(type(value), type(value).__name__)


def _is_plain(text: str) -> bool:
    """Whether a text has printable ASCII characters only, as nearly every text: none of them is refused."""
    return text.isascii() and text.isprintable()


def _is_plain_object(value: Json, max_bytes: int) -> bool:
    """Whether a value is an object of plain text and nulls, as most payloads, and surely small enough."""
    if type(value) is not dict:
        return False
    size = 2
    for name, item in value.items():
        text = "null" if item is None else item
        if type(name) is not str or type(text) is not str or not _is_plain(name) or not _is_plain(text):
            return False
        size += 2 * (len(name) + len(text)) + 6  # each character may need a backslash
    return size <= max_bytes


def _is_refused(char: str, *, lines: bool) -> bool:
    if _is_plain(char):
        return False
    if char in "\t\n\r":
        return not lines
    return (
        unicodedata.category(char) in {"Cc", "Cs"}
        or char in _BIDI
        or char in _SEPARATORS
        or ord(char) in _TAGS
        or _is_noncharacter(ord(char))
    )


def _is_noncharacter(code: int) -> bool:
    return code & _NONCHARACTER_CODE == _NONCHARACTER_CODE or code in _NONCHARACTERS


def _is_visible(char: str) -> bool:
    return (
        not char.isspace() and char not in _BLANK_LETTERS and unicodedata.category(char) not in {"Cf", "Mn", "Me", "Cn"}
    )


def _walk(path: str, value: Json) -> Iterator[tuple[str, Json, int]]:
    """Yield every key and value below `value` with its place and depth, without recursion, for any depth."""
    pending: list[tuple[str, Json, int]] = [(path, value, 0)]
    while pending:
        place, item, depth = pending.pop()
        yield place, item, depth
        if isinstance(item, Mapping):
            for key in item:
                yield f"a key of {place}", _key(place, key), depth
            pending += [(f"{place}.{clean_text(key, 40)}", inner, depth + 1) for key, inner in item.items()]
        elif isinstance(item, list | tuple):
            pending += [(f"{place}[{index}]", inner, depth + 1) for index, inner in enumerate(item)]


def _key(place: str, key: object) -> str:
    if not isinstance(key, str):
        raise InvalidArgument(place, f"it has a key that is {kind_of(key)}", accepted="text as keys")
    return key


def _check_depth(argument: str, depth: int, max_depth: int) -> None:
    if depth > max_depth:
        raise InvalidArgument(argument, "it is nested too deep", accepted=f"at most {max_depth} levels")


def _check_scalar(path: str, item: Json) -> None:
    if isinstance(item, str):
        _check_string(path, item)
    elif isinstance(item, float):
        _check_float(path, item)
    elif isinstance(item, int):
        _check_integer(path, item)
    elif item is not None and not isinstance(item, Mapping | list | tuple):
        raise InvalidArgument(
            path, f"it is {kind_of(item)}", accepted="JSON: text, numbers, booleans, null, lists, objects"
        )


def _check_string(path: str, text: str) -> None:
    if _is_plain(text):
        return
    bad = next((char for char in text if char == "\x00" or "\ud800" <= char <= "\udfff"), None)
    if bad is not None:
        raise InvalidArgument(path, f"it contains {character_name(bad)}", accepted="text without it")


def _check_float(path: str, number: float) -> None:
    if not math.isfinite(number):
        raise InvalidArgument(path, f"it is {number}", accepted="finite numbers")


def _check_integer(path: str, number: int) -> None:
    if not -MAX_INTEGER_VALUE <= number < MAX_INTEGER_VALUE:
        raise InvalidArgument(
            path, "it is too large a number", accepted="whole numbers of at most 64 bits; else as text"
        )
