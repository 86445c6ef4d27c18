"""Redaction: what looks like a credential in a text is replaced before the text is stored or shown."""

from __future__ import annotations

import re
from typing import Final

MASK: Final = "***"

_NAMES = r"(?:\w*(?:password|passwd|secret|token)\w*+|api[_-]?key|access[_-]?key|authorization|cookie)"
_PATTERNS: Final = tuple(
    (re.compile(pattern, re.IGNORECASE | re.DOTALL), replacement)
    for pattern, replacement in (
        (r"(://[^\s:/@]*):[^\s/]*@", rf"\1:{MASK}@"),  # the password of an address
        (rf"\b({_NAMES})(['\"]?\s*[=:]\s*['\"]?)(?:(?:bearer|basic)\s+)?[^\s'\"&,;)}}\]]+", rf"\1\2{MASK}"),
        (r"\b(bearer|basic)\s+[\w.~+/=-]{8,}", rf"\1 {MASK}"),
        (r"\b(?:sk-|whsec_|gh[opsu]_|github_pat_|xox[abprs]-|AKIA|ya29\.)[\w./+=-]{8,}", MASK),  # by their prefixes
        (r"\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*", MASK),  # a JSON web token
        (r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)", MASK),
    )
)


def redacted(text: str) -> str:
    """Return the text with `***` in place of each credential that can be told by its form.

    These are passwords in addresses, values after names like `password` or `api_key`, bearer tokens, keys with known
    prefixes, JSON web tokens and private keys. A secret without such a form stays.
    """
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    return text
