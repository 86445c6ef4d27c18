"""The literals of JMESPath in a condition that was written as in Python or JavaScript."""

from __future__ import annotations

import re
from typing import Final

_PART: Final = re.compile(
    r"(?P<kept>'(?:[^'\\]|\\.)*'|`[^`]*`)"
    r"|(?P<comparison>==|!=|<=|>=|<|>|=)\s*(?:\"(?P<text>[^\"]*)\"|(?P<value>-?\d+(?:\.\d+)?|true|false|null)\b)?"
    r"|\b(?P<word>and|or)\b"
)
_OPERATORS: Final = {"and": "&&", "or": "||"}


def with_literals(text: str) -> str:
    """Return a condition with texts in single quotes, numbers in backticks, and the operators of JMESPath.

    `status == "open" and price < 90` becomes ``status == 'open' && price < `90` ``.
    """
    return _PART.sub(_written, text)


def _written(found: re.Match[str]) -> str:
    if found["kept"] is not None:
        return found["kept"]
    if found["word"] is not None:
        return _OPERATORS[found["word"]]
    comparison = "==" if found["comparison"] == "=" else found["comparison"]
    if found["text"] is not None:
        literal = found["text"].replace("'", "\\'")
        return f"{comparison} '{literal}'"
    if found["value"] is not None:
        return f"{comparison} `{found['value']}`"
    return found[0] if comparison == found["comparison"] else found[0].replace("=", "==", 1)
