"""A secret: a value that tasks and settings name, and that nothing shows; and the references that name one."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from duetime.scheduler.errors import DuetimeError, InvalidArgument
from duetime.scheduler.remedies import ListSecrets
from duetime.scheduler.task import Json

REFERENCE_PREFIX: Final = "secret:"
MIN_VALUE_CHARS: Final = 8
"""A shorter value could not be masked where it turns up: it may be a part of any word."""

MAX_SECRET_BYTES: Final = 16 * 1024
KEY_BYTES: Final = 32
MAKE_A_KEY: Final = "`openssl rand -base64 32` makes one"
_NAME: Final = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}"
_FOUND: Final = re.compile(rf"(?<!\S){REFERENCE_PREFIX}(\S*)")
_IN_URL: Final = re.compile(rf"[/=?&#:@,;]{REFERENCE_PREFIX}{_NAME}")


class SecretNotFound(DuetimeError):
    """The tenant has no secret of this name."""

    code = "not_found"

    def __init__(self, name: str, known: tuple[str, ...] = ()) -> None:
        there = f"; this tenant has {', '.join(known)}" if known else ""
        super().__init__(f"no secret {name[:64]!r}{there}.", argument="name", remedy=ListSecrets())


class SecretUnavailable(DuetimeError):
    """A run cannot have a secret that it needs; the text names the secret, and never a part of its value."""

    code = "secret_unavailable"

    def __init__(self, name: str, problem: str) -> None:
        self.name = name
        self.problem = problem
        super().__init__(f"secret {name[:64]!r}: {problem}")


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret as it is stored: `token` is its encrypted value.

    With `hosts` webhooks send it to these alone. `last_used_at` is exact to a minute.
    """

    tenant: str
    name: str
    token: str = field(repr=False)
    hosts: tuple[str, ...]
    set_at: datetime
    set_by: str
    last_used_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class SecretUse:
    """A secret that a payload names: at which place, and to which host its value would be sent."""

    place: str
    name: str
    host: str


def is_name(name: object) -> bool:
    """Whether a secret can have this name."""
    return isinstance(name, str) and re.fullmatch(_NAME, name) is not None


def check_name(name: str) -> None:
    """Raise InvalidArgument unless a secret can have this name."""
    if not is_name(name):
        raise InvalidArgument(
            "name",
            f"{name[:64]!r} is not a valid secret name",
            accepted="up to 64 letters, digits, dots, hyphens and underscores, a letter or digit first",
            example="stripe-key",
        )


def references(text: str) -> Iterator[str]:
    """Yield the names in a text, whether they can be names or not: `Bearer secret:stripe` has `stripe`."""
    return (found[1] for found in _FOUND.finditer(text))


def resolved(text: str, value: Callable[[str], str]) -> str:
    """Return the text with the value of each secret in place of its reference."""
    return _FOUND.sub(lambda found: value(found[1]), text)


def names_secrets(text: str) -> bool:
    """Whether a text names a secret."""
    return _FOUND.search(text) is not None


def places_of_references(place: str, value: Json) -> Iterator[str]:
    """Yield where a JSON value names a secret by a whole text, `secret:stripe`; `place` is that of the value."""
    pending = [(place, value)]
    while pending:
        at, item = pending.pop()
        if isinstance(item, Mapping):
            pending += [(f"{at}.{name[:40]}", inner) for name, inner in item.items()]
        elif isinstance(item, list | tuple):
            pending += [(f"{at}[{index}]", inner) for index, inner in enumerate(item)]
        elif (
            isinstance(item, str)
            and is_name(item.strip().partition(REFERENCE_PREFIX)[2])
            and _FOUND.match(item.strip())
        ):
            yield at


def url_names_secret(url: str) -> bool:
    """Whether a part of a URL names a secret: a segment of its path, a value of its query."""
    return _IN_URL.search(url) is not None


def read_key(text: str) -> str:
    """Return a key as Fernet wants it: base64 for URLs. Raises ValueError for anything but 32 bytes in base64."""
    try:
        raw = base64.b64decode(text.strip().replace("-", "+").replace("_", "/"), validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    if len(raw) != KEY_BYTES:
        raise ValueError(f"it must be {KEY_BYTES} bytes in base64; {MAKE_A_KEY}")
    return base64.urlsafe_b64encode(raw).decode()
