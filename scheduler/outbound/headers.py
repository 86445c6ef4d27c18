"""Headers of outgoing requests: which are allowed, and the secrets that they name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final
from urllib.parse import quote

from duetime.scheduler.access.secret import SecretUnavailable, is_name, references, resolved
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.rules.sanitize import clean_text

JSON_MEDIA_TYPE: Final = "application/json"
MAX_HEADERS: Final = 20
MAX_HEADER_CHARS: Final = 4096
_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_PRINTABLE = "".join(set(map(chr, range(0x20, 0x7F))) - {"%"})
_VALUE = re.compile(r"[\t\x20-\x7e]*")
_OURS = frozenset(
    {"connection", "content-length", "expect", "host", "idempotency-key", "keep-alive", "te", "trailer"}
    | {"transfer-encoding", "upgrade"}
)


def header_text(text: str) -> str:
    """Return a text as a header can have it: percent-encoded in UTF-8, except the printable characters of ASCII."""
    return quote(text, safe=_PRINTABLE)


def header_problems(place: str, name: str, value: str) -> Iterator[InvalidArgument]:
    """Yield what is wrong with a header; `place` is the argument that holds the headers."""
    place = f"{place}.{clean_text(name, 40, lines=False)}"
    if not _TOKEN.fullmatch(name):
        yield InvalidArgument(
            place,
            "it is not a header name",
            accepted="letters, digits and hyphens",
            example="headers={'X-Source': 'duetime'}",
        )
    elif name.lower() in _OURS or name.lower().startswith(("webhook-", "proxy-")):
        yield InvalidArgument(place, "it is set by Duetime", accepted="other headers")
    if not _can_be_sent(value):
        yield InvalidArgument(place, "its value is too long, or not plain ASCII on one line", accepted="plain ASCII")
    wrong = next((each for each in references(value) if not is_name(each)), None)
    if wrong is not None:
        problem = f"{wrong[:64]!r} is not a valid secret name"
        accepted = "letters, digits, dots, hyphens and underscores, with blanks around the reference"
        yield InvalidArgument(place, problem, accepted=accepted, example="Bearer secret:stripe-key")


def with_secrets(headers: Mapping[str, str], value: Callable[[str], str]) -> dict[str, str]:
    """Return the headers to send, with values in place of references and names in lower case.

    Raises SecretUnavailable for a secret that cannot be sent; the client would show its value in an error.
    """
    return {
        name.lower(): resolved(text, lambda secret: _sendable(secret, value(secret))) for name, text in headers.items()
    }


def _sendable(name: str, value: str) -> str:
    if not _can_be_sent(value):
        raise SecretUnavailable(name, "it cannot be sent in a header, as it is too long or not plain ASCII on one line")
    return value


def _can_be_sent(value: str) -> bool:
    return len(value) <= MAX_HEADER_CHARS and _VALUE.fullmatch(value) is not None
