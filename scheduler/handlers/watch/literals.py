"""A condition that was written as in Python, JavaScript or words, as JMESPath."""

from __future__ import annotations

import re
from typing import Final

_PART: Final = re.compile(
    r"(?P<kept>'(?:[^'\\]|\\.)*'|`[^`]*`)"
    r"|(?P<comparison>==|!=|<=|>=|<|>|=)\s*(?:\"(?P<text>[^\"]*)\"|(?P<value>-?\d+(?:\.\d+)?|true|false|null)\b)?"
    r"|\b(?P<word>and|or)\b"
)
_NAME: Final = re.compile(r"[a-z_]\w*(?:\.[a-z_]\w*)*", re.ASCII | re.IGNORECASE)
_NUMBER: Final = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?")
_ABOVE: Final = re.compile(r">|\b(?:above|over|more|greater|higher|exceeds?|least|rises?)\b", re.IGNORECASE)
_NO_NAMES: Final = frozenset({
    "a", "above", "an", "and", "are", "at", "becomes", "below", "drops", "equal", "equals", "exceed", "exceeds",
    "falls", "for", "gets", "goes", "greater", "higher", "if", "in", "is", "it", "its", "least", "less", "lower",
    "more", "most", "not", "of", "once", "or", "over", "reaches", "rise", "rises", "than", "the", "to", "under",
    "until", "when",
})  # fmt: skip
"""Words of a sentence that are neither a field of an answer nor what is in it."""

_OPERATORS: Final = {"and": "&&", "or": "||"}


def with_literals(text: str) -> str:
    """Return a condition with texts in single quotes, numbers in backticks, and the operators of JMESPath.

    `status == "open" and price < 90` becomes ``status == 'open' && price < `90` ``.
    """
    return _PART.sub(_written, text)


def compared(text: str) -> str:
    """Return the comparison that a sentence most likely means, empty for one that names nothing.

    `status is shipped` becomes `status == 'shipped'`, and `when the price drops below 50` becomes ``price < `50` ``.
    """
    names = [name for name in _NAME.findall(text) if name.lower() not in _NO_NAMES]
    number = _NUMBER.search(text)
    if names and number:
        return f"{names[0]} {'>' if _ABOVE.search(text) else '<'} `{number[0]}`"
    return f"{names[0]} == '{names[-1]}'" if len(names) > 1 else "".join(names)


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
