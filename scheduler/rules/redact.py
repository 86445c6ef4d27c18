"""Redaction: what looks like a credential in a text is replaced before the text is stored or shown."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from urllib.parse import quote, quote_plus

from duetime.scheduler.task import Json

MASK: Final = "***"
MIN_MASKED_CHARS: Final = 8
"""Shorter lines of a secret of several lines are not masked by themselves: they may be a part of any word."""

_NAMES = r"(?:\w*(?:password|passwd|secret|token)\w*+|api[_-]?key|access[_-]?key|authorization|cookie)"
_COUNT = r"\w*tokens['\"]?\s*[=:]\s*\d{1,9}(?:\.\d{1,9})?(?![\w.])"
"""A number of tokens of a model, as in `{'tokens': 1200}`: no secret."""
_PATTERNS: Final = tuple(
    (re.compile(pattern, re.IGNORECASE | re.DOTALL), replacement)
    for pattern, replacement in (
        (r"(://[^\s:/@]*):[^\s/]*@", rf"\1:{MASK}@"),  # the password of an address
        (
            rf"\b(?!{_COUNT})({_NAMES})(['\"]?\s*[=:]\s*['\"]?)(?:(?:bearer|basic)\s+)?[^\s'\"&,;)}}\]]+",
            rf"\1\2{MASK}",
        ),
        (r"\b(bearer|basic)\s+[\w.~+/=-]{8,}", rf"\1 {MASK}"),
        (r"\b(?:sk-|whsec_|gh[opsu]_|github_pat_|xox[abprs]-|AKIA|ya29\.)[\w./+=-]{8,}", MASK),  # by their prefixes
        (r"\bdf_[0-9a-z]{12}_[0-9a-f]{16,}", MASK),  # whoever knows it may start a task
        (r"\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*", MASK),  # a JSON web token
        (r"(https://hooks\.slack\.com/\w+/)[^\s?'\"]+", rf"\1{MASK}"),  # whoever knows these addresses may post
        (r"(https://(?:\w+\.)?discord(?:app)?\.com/api/webhooks/\d+/)[^\s?'\"]+", rf"\1{MASK}"),
        (r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)", MASK),
    )
)

_SECRET_NAME: Final = re.compile(
    r"passw|passphrase|secret|token|credential|signature|api[_-]?key|access[_-]?key|private[_-]?key|authorization|\bauth\b|cookie",
    re.IGNORECASE,
)
_COUNTED_NAME: Final = re.compile(r"tokens?$", re.IGNORECASE)
"""Names of numbers that count tokens of a model: such a number is no secret."""


def secret_forms(value: str) -> tuple[str, ...]:
    """Return the texts in which a secret value turns up: plain, line by line, escaped, in a URL and in base64."""
    lines = [line.strip() for line in value.splitlines() if len(line.strip()) >= MIN_MASKED_CHARS]
    forms = [form for text in (value, *lines) for form in _escaped(text)]
    return tuple(dict.fromkeys(form for form in forms if form))


def _escaped(text: str) -> Iterable[str]:
    raw = text.encode("utf-8", "replace")
    yield text
    yield json.dumps(text)[1:-1]
    yield json.dumps(text, ensure_ascii=False)[1:-1]
    yield repr(text)[1:-1]
    yield quote(raw, safe="")
    yield quote_plus(raw)
    yield base64.b64encode(raw).decode().rstrip("=")
    yield base64.urlsafe_b64encode(raw).decode().rstrip("=")


def without_secrets(text: str, forms: Sequence[str]) -> str:
    """Return the text with `***` in place of each of these forms, which stand longest first."""
    for form in forms:
        if form in text:
            text = text.replace(form, MASK)
    return text


def without_secrets_json(value: Json, forms: Sequence[str]) -> Json:
    """Return the value with `***` in place of each form in its texts, names and numbers."""
    if isinstance(value, str):
        return without_secrets(value, forms)
    if isinstance(value, Mapping):
        return {without_secrets(str(name), forms): without_secrets_json(part, forms) for name, part in value.items()}
    if isinstance(value, Sequence):
        return [without_secrets_json(part, forms) for part in value]
    return MASK if isinstance(value, int | float) and str(value) in forms else value


def redacted(text: str) -> str:
    """Return the text with `***` in place of each credential that can be told by its form.

    These are passwords in addresses, values after names like `password` or `api_key`, bearer tokens, keys with known
    prefixes, JSON web tokens and private keys. A secret without such a form stays.
    """
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    return text


def redacted_json(value: Json) -> Json:
    """Return the value with `***` in place of what is named like a secret, and without credentials in its texts."""
    if isinstance(value, str):
        return redacted(value)
    if isinstance(value, Mapping):
        return {name: _redacted_part(name, part) for name, part in value.items()}
    return [redacted_json(part) for part in value] if isinstance(value, Sequence) else value


def _redacted_part(name: str, part: Json) -> Json:
    if not _SECRET_NAME.search(name) or part is None or isinstance(part, bool):
        return redacted_json(part)
    counts = isinstance(part, int | float) and _COUNTED_NAME.search(name)
    return part if counts else MASK


def restore_masked(given: Json, stored: Json) -> Json:
    """Return a changed value with what it still has as it was shown, masked, as it is stored."""
    if given == redacted_json(stored):
        return stored
    if isinstance(given, Mapping) and isinstance(stored, Mapping):
        return {name: _unmasked_part(name, part, stored) for name, part in given.items()}
    if isinstance(given, list) and isinstance(stored, list) and len(given) == len(stored):
        return [restore_masked(part, was) for part, was in zip(given, stored, strict=True)]
    return given


def _unmasked_part(name: str, given: Json, stored: Mapping[str, Json]) -> Json:
    if name not in stored:
        return given
    return stored[name] if given == _redacted_part(name, stored[name]) else restore_masked(given, stored[name])
